import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from nightly.errors import NightError, TimeLimitError
from nightly.guard import notify, only_one, parse_duration, time_limit


def gone(pid: int) -> bool:
    """Whether a process has ended (a zombie that nobody reaps has)."""
    try:
        return "State:\tZ" in Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return True


def test_the_hook_gets_the_result_on_standard_input_and_no_shell_sees_it(tmp_path: Path) -> None:
    script = tmp_path / "hook.py"
    script.write_text(
        "import sys, pathlib; pathlib.Path(sys.argv[1]).write_text(sys.stdin.read() + '|'.join(sys.argv[2:]))"
    )
    told = {"headline": "$(touch pwned); `id` && x"}
    out = tmp_path / "a file"
    assert notify(f"{sys.executable} {script} '{out}' $HOME ;ls", told) is None
    assert out.read_text() == json.dumps(told) + "$HOME|;ls"


def test_a_hook_that_hangs_is_ended_with_what_it_started(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    code = (
        "import subprocess, sys, time, os; p = subprocess.Popen(['sleep', '60']);"
        " open(sys.argv[1], 'w').write(f'{os.getpid()} {p.pid}'); time.sleep(60)"
    )
    problem = notify(f'{sys.executable} -c "{code}" {pids}', {}, timeout_s=2)
    assert problem is not None and "2 s" in problem
    deadline = time.monotonic() + 20
    waiting = [int(pid) for pid in pids.read_text().split()]
    while not all(gone(pid) for pid in waiting) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert all(gone(pid) for pid in waiting)


@pytest.mark.parametrize(
    ("command", "says"),
    [("/no/such/hook", "No such file"), ("false", "exit code 1"), ("'", "quotation"), ("", "empty")],
)
def test_a_hook_that_fails_is_one_line(command: str, says: str) -> None:
    problem = notify(command, {"text": "x" * 1_000_000})
    assert problem is not None and says in problem and "\n" not in problem


def test_a_hook_that_reads_nothing_is_no_problem() -> None:
    assert notify("true", {"text": "x" * 1_000_000}) is None


def test_the_lock_goes_with_a_process_that_is_killed(tmp_path: Path) -> None:
    code = (
        "import sys, time; from pathlib import Path; from nightly.guard import only_one\n"
        f"with only_one(Path({str(tmp_path / 'lock')!r})): print('held', flush=True); time.sleep(60)"
    )
    root = Path(__file__).resolve().parents[2]
    holder = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, cwd=root)
    assert holder.stdout is not None and holder.stdout.readline() == "held\n"
    with pytest.raises(NightError, match=f"pid {holder.pid}"), only_one(tmp_path / "lock"):
        pass
    holder.kill()
    holder.wait()
    holder.stdout.close()
    with only_one(tmp_path / "lock"):
        assert (tmp_path / "lock").read_text() == f"pid {os.getpid()}"


def test_the_time_limit_rings_once_and_gives_the_signal_back() -> None:
    before = signal.getsignal(signal.SIGALRM)
    with pytest.raises(TimeLimitError), time_limit(0.01):
        time.sleep(20)
    with time_limit(30):
        pass
    with time_limit(None):
        pass
    assert signal.getsignal(signal.SIGALRM) == before
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)


@pytest.mark.parametrize(("text", "seconds"), [("90", 90), ("90s", 90), ("45m", 2700), ("1.5h", 5400)])
def test_durations(text: str, seconds: float) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize("text", ["", "0", "-5", "3d", "h", "1e9"])
def test_a_duration_that_is_none_is_a_usage_error(text: str) -> None:
    with pytest.raises(ValueError, match="such as 3h"):
        parse_duration(text)

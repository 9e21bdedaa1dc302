"""The lock of a run's folder and of the nightly comparison."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from records.lock import LockedError, exclusive

ROOT = Path(__file__).resolve().parents[2]
HOLD = "import sys, time; from pathlib import Path; from records.lock import exclusive\n" \
       "with exclusive(Path(sys.argv[1])): print('held', flush=True); time.sleep(60)"  # fmt: skip


def test_a_held_lock_is_refused_by_name_and_ends_with_a_killed_process(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    holder = subprocess.Popen([sys.executable, "-c", HOLD, str(path)], stdout=subprocess.PIPE, text=True, cwd=ROOT)
    assert holder.stdout is not None and holder.stdout.readline() == "held\n"
    with pytest.raises(LockedError, match=f"pid {holder.pid}"), exclusive(path):
        pass
    holder.kill()
    holder.wait()
    holder.stdout.close()
    for _ in range(2):
        with exclusive(path):
            assert path.read_text() == f"pid {os.getpid()}"


def test_an_error_inside_is_not_taken_for_a_held_lock(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), exclusive(tmp_path / "lock"):
        raise ZeroDivisionError

"""The real command line, as cron calls it."""

import json
import os
import random
import re
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as Xml

import pytest

from driver.commands.nightly import command as nightly_command
from driver.profile.read import load_profile
from nightly.gate_rules import parse_choice
from nightly.history.schema import _V1
from nightly.history.store import History
from tests.nightly.nightly_builders import PROFILE, Night

ROOT = Path(__file__).resolve().parents[2]


class Cron:
    """Runs `run_bench.py nightly` on run folders that were measured before."""

    def __init__(self, tmp_path: Path) -> None:
        self.path = tmp_path
        self.profile = tmp_path / "night.toml"
        self.profile.write_text(PROFILE.format(rounds=5, baseline="series"))
        self.db = tmp_path / "history.db"
        self.rng = random.Random(8)
        self.day = 0

    def measured(self, **night: Any) -> str:
        self.day += 1
        name = f"n{self.day:02}"
        return str(Night(name, f"2026-01-{self.day:02}T02:00:00Z", **night).write(self.path / "runs", self.rng).path)

    def arguments(self, *arguments: object) -> list[str]:
        common = [sys.executable, str(ROOT / "run_bench.py"), "nightly", str(self.profile)]
        return [*common, "--history", str(self.db), "--out", str(self.path / "out"), *map(str, arguments)]

    def run(self, *arguments: object, **env: str) -> subprocess.CompletedProcess[str]:
        clean = {key: value for key, value in os.environ.items() if key != "GITHUB_STEP_SUMMARY"}
        return subprocess.run(
            self.arguments(*arguments), capture_output=True, text=True, env=clean | env, cwd=self.path
        )

    def start(self, *arguments: object) -> subprocess.Popen[str]:
        return subprocess.Popen(
            self.arguments(*arguments), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, cwd=self.path
        )

    def history(self, *arguments: object) -> subprocess.CompletedProcess[str]:
        command = [
            sys.executable,
            str(ROOT / "run_bench.py"),
            "history",
            "--history",
            str(self.db),
            *map(str, arguments),
        ]
        return subprocess.run(command, capture_output=True, text=True, cwd=self.path)


@pytest.fixture
def cron(tmp_path: Path) -> Cron:
    return Cron(tmp_path)


def one_line(text: str) -> str:
    assert "Traceback" not in text
    assert len(text.splitlines()) == 1, text
    return text


def test_exit_codes_and_every_output_of_a_good_a_slow_and_a_void_night(cron: Cron) -> None:
    summary, of_ci, xml, hook = (cron.path / name for name in ("s.md", "ci.md", "j.xml", "hook"))
    outputs = ("--summary", summary, "--junit", xml, "--notify", f"tee {hook}")
    first = cron.run("--measured", cron.measured(), *outputs, GITHUB_STEP_SUMMARY=str(of_ci))
    assert (first.returncode, first.stderr) == (0, "")
    assert "NO BASELINE" in first.stdout and not hook.exists()
    assert summary.read_text() == of_ci.read_text()
    slow = [cron.measured(slower={"llama": 0.4}) for _ in range(2)]
    second = cron.run("--measured", slow[0], "--measured", slow[1], *outputs, "--json", GITHUB_STEP_SUMMARY=str(of_ci))
    assert second.returncode == 1
    assert json.loads(second.stdout)["headline"].startswith("REGRESSION: llama, single.perf-short")
    told = json.loads(hook.read_text())
    assert told["exit_code"] == 1 and len(told["regressions"]) == 3
    assert "REGRESSION" in summary.read_text()
    assert of_ci.read_text().count("## Nightly") == 2, "a summary of CI is added to, not replaced"
    assert Xml.parse(xml).getroot().get("failures") == "3"
    void = cron.run("--measured", cron.measured(void=True), *outputs)
    assert void.returncode == 3
    assert Xml.parse(xml).getroot().get("errors") == "1"
    listed = json.loads(cron.history("list", "--json").stdout)
    assert [(run["kind"], run["status"], run["exit_code"]) for run in listed] == [
        ("nightly", "complete", 0), ("nightly", "complete", 1), ("confirmation", "complete", None),
        ("nightly", "void", 3),
    ]  # fmt: skip


def test_a_regressed_night_is_the_first_thing_that_each_of_its_reports_says(cron: Cron) -> None:
    assert cron.run("--measured", cron.measured()).returncode == 0
    slow = [Path(cron.measured(slower={"llama": 0.4})) for _ in range(2)]
    (comparison,) = slow[0].glob("comparison-*.json")
    comparison.with_suffix(".html").touch()
    xml = cron.path / "j.xml"
    night = cron.run("--measured", slow[0], "--measured", slow[1], "--junit", xml)
    assert night.returncode == 1
    headline, against, *_ = night.stdout.splitlines()
    assert re.fullmatch(
        r"REGRESSION: llama, single.perf-short: .*% slower \(.*\), since n02; and 2 more figures", headline
    )
    assert "held against n01" in against and "speed ratio 0." in against and "measured again" in against
    assert f"report: {slow[0] / 'night.html'}" in night.stdout
    tests = Xml.parse(xml).getroot()
    assert headline in str(tests.get("name"))
    assert "held against n01" in str(tests.findtext(".//system-out")) and "night.html" in str(
        tests.findtext(".//system-out")
    )
    page, text = comparison.with_suffix(".html").read_text(), comparison.with_suffix(".md").read_text()
    assert text.startswith(f"# Night: {headline[:30]}"), "in the report of the measurement, before its own finding"
    before = page[: page.index("<h1")]
    assert 'class="night bad"' in before and "REGRESSION: llama" in before and 'href="night.html"' in before
    # It stays when the report is made again.
    again = [sys.executable, str(ROOT / "run_bench.py"), "report", str(slow[0]), "--junit", str(xml)]
    subprocess.run(again, check=False, capture_output=True)
    assert comparison.with_suffix(".md").read_text() == text
    first = Xml.parse(xml).getroot().find(".//testcase")
    assert first is not None and first.get("classname") == "night" and first.find("failure") is not None


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (("--baseline", "best"), 2, "window:N"),
        (("--engine", "vllm"), 2, "the profile has llama"),
        (("--baseline", "run"), 2, "two engines"),
        (("--time-limit", "soon"), 2, "such as 3h"),
        (("--measured", "/nowhere"), 4, "no run.json"),
    ],
)
def test_a_mistake_is_one_line_with_its_exit_code(cron: Cron, arguments: tuple[str, ...], code: int, says: str) -> None:
    done = cron.run(*arguments)
    assert done.returncode == code
    assert says in one_line(done.stderr)


def test_a_slowdown_without_a_second_folder_says_what_is_missing(cron: Cron) -> None:
    assert cron.run("--measured", cron.measured()).returncode == 0
    slow = cron.measured(slower={"llama": 0.4})
    done = cron.run("--measured", slow)
    assert done.returncode == 4
    assert "another --measured" in one_line(done.stderr)
    twice = cron.run("--measured", slow, "--measured", slow)
    assert twice.returncode == 2
    assert "the same folder twice" in one_line(twice.stderr)


def test_the_second_of_two_at_once_is_refused_and_the_first_is_whole(cron: Cron) -> None:
    refused = cron.path / "refused"
    until = f"timeout 60 sh -c 'until [ -e {refused} ]; do sleep 0.1; done'"
    first = cron.start("--measured", cron.measured(), "--notify", until, "--notify-on", "always")
    lock = cron.path / "history.db.lock"
    deadline = time.monotonic() + 60
    while first.poll() is None and not (lock.exists() and lock.read_text()) and time.monotonic() < deadline:
        time.sleep(0.01)
    second = cron.run("--measured", cron.measured())
    refused.touch()
    assert second.returncode == 4
    assert f"pid {first.pid}" in one_line(second.stderr)
    _, errors = first.communicate()
    assert (first.returncode, errors) == (0, "")
    with History(cron.db) as history:
        assert [(run.run_id, run.status) for run in history.runs()] == [("n01", "complete")]
        assert history.check() == "ok"


@pytest.mark.engines
def test_killed_at_any_moment_the_history_is_whole_and_the_next_night_goes_on(cron: Cron) -> None:
    assert cron.run("--measured", cron.measured()).returncode == 0
    started = time.monotonic()
    assert cron.run("--measured", cron.measured()).returncode == 0
    whole = time.monotonic() - started
    for turn in range(8):
        night = cron.start("--measured", cron.measured())
        # Most of a call is imports; the last part is where the history is written.
        time.sleep(whole * (0.55 + 0.055 * turn))
        night.send_signal(signal.SIGKILL)
        night.communicate()
        with History(cron.db) as history:
            assert history.check() == "ok"
            for run in history.runs(where="status = 'complete'"):
                assert len(history.figures(run.run_id)) == 3 * 6, "a run is there with all its figures, or not at all"
            assert [run.run_id for run in history.runs(good=True)][:2] == ["n01", "n02"]
    last = cron.run("--measured", cron.measured())
    assert last.returncode == 0
    with History(cron.db) as history:
        assert not history.runs(where="status = 'running'")


ENDLESS = """
import sys, time
import driver.nightly_measurement as measurement
from driver.cli import cli
measurement.read_json = lambda path: time.sleep(60)
sys.exit(cli(sys.argv[1:]))
"""


def test_sigterm_is_a_partial_night_with_exit_code_143(cron: Cron) -> None:
    # A night that takes for ever: it never gets to the end of what was measured.
    arguments = cron.arguments("--measured", cron.measured())[2:]
    night = subprocess.Popen(
        [sys.executable, "-c", ENDLESS, *arguments],
        cwd=ROOT,
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        text=True,
    )
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and night.poll() is None:
        if cron.db.exists():
            with History(cron.db) as history:
                if history.runs(where="status = 'running'"):
                    break
        time.sleep(0.05)
    night.terminate()
    _, errors = night.communicate()
    assert night.returncode == 143
    one_line(errors)
    with History(cron.db) as history:
        assert [(run.status, run.exit_code) for run in history.runs()] == [("partial", 143)]


def test_a_full_disk_fails_the_night_in_one_line_and_leaves_the_history(cron: Cron) -> None:
    disk = cron.path / "disk"
    disk.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=320k", "tmpfs", disk], capture_output=True, text=True)
    if mounted.returncode:
        pytest.skip(f"no tmpfs can be mounted here: {mounted.stderr.strip()}")
    try:
        cron.db = disk / "history.db"
        assert cron.run("--measured", cron.measured()).returncode == 0
        with History(cron.db) as history:
            before = history.figures("n01")
        with (disk / "ballast").open("wb", buffering=0) as ballast:
            # Fill it to the last byte.
            while True:
                try:
                    ballast.write(b"x" * 512)
                except OSError:
                    break
        full = cron.run("--measured", cron.measured())
        assert full.returncode == 4
        assert "is the disk full" in one_line(full.stderr)
        (disk / "ballast").unlink()
        with History(cron.db) as history:
            assert history.check() == "ok"
            assert history.figures("n01") == before
        assert cron.run("--measured", cron.measured()).returncode == 0
    finally:
        subprocess.run(["umount", disk], check=True)


def test_history_commands_list_trend_export_pin_merge_and_prune(cron: Cron) -> None:
    folders = [cron.measured() for _ in range(3)]
    assert cron.history("import", *folders).returncode == 0
    assert "there already" in cron.history("import", folders[0]).stdout
    assert cron.history("pin", "n01").stdout == "n01: pinned\n"
    assert "pinned" in cron.history("list").stdout
    trend = cron.history("trends", "output_tok_s", "--json")
    assert [point["run_id"] for point in json.loads(trend.stdout)[0]["points"]] == ["n01", "n02", "n03"]
    unknown = cron.history("trends", "speed")
    assert unknown.returncode == 2 and "known are output_tok_s" in one_line(unknown.stderr)
    for wrong, told in ((["pin", "nope"], "no run 'nope'"), (["trends", "output_tok_s", "--engine", "nope"], "llama")):
        refused = cron.history(*wrong)
        assert refused.returncode == 2 and told in one_line(refused.stderr)
    exported = cron.history("export", "--csv", "-", "--metric", "ttft_ms_p50")
    assert (
        exported.stdout.splitlines()[0]
        == "time,run_id,profile,builds,series,broken_by,llama.single.perf-short.ttft_ms_p50"
    )
    assert len(exported.stdout.splitlines()) == 4
    other = cron.db.rename(cron.path / "other.db")
    assert cron.history("list").returncode == 4
    assert "3 runs added" in cron.history("merge", other).stdout
    assert cron.history("prune").returncode == 2
    assert cron.history("prune", "--keep", "1").stdout == "1 run removed\n"


def test_a_mistake_in_what_is_taken_in_begins_no_history(cron: Cron) -> None:
    text = cron.path / "text.db"
    text.write_text("no database")
    for wrong, code in ((["merge", "nope.db"], 4), (["merge", text], 4), (["import", cron.measured(), "nope"], 2)):
        refused = cron.history(*wrong)
        assert refused.returncode == code and one_line(refused.stderr)
        assert not cron.db.exists()


def test_an_older_history_is_brought_up_to_date_and_says_so_once(cron: Cron) -> None:
    with closing(sqlite3.connect(cron.db)) as old:
        old.executescript(_V1)
        old.executescript("PRAGMA application_id = 1162756680; PRAGMA user_version = 1;")
        old.execute("INSERT INTO run VALUES('old', '2025-12-01T00:00:00Z', 'night', 'p', '{}', 'complete')")
        old.commit()
    first, second = cron.history("list", "--json"), cron.history("list", "--json")
    assert [run["run_id"] for run in json.loads(first.stdout)] == ["old"]
    assert "from version 1" in one_line(first.stderr) and "history.db.v1.bak" in first.stderr
    assert (second.stdout, second.stderr) == (first.stdout, "")


@pytest.mark.parametrize("path", ["profiles/nightly.toml", "docs/examples/llama-upgrade.toml"])
def test_the_profiles_that_the_docs_name_can_be_read(path: str) -> None:
    profile = load_profile(ROOT / path)
    assert parse_choice(profile.gate.baseline)
    assert isinstance(profile.rounds, int) and profile.rounds >= 5


def test_the_example_workflow_calls_the_command_with_options_that_it_has() -> None:
    text = (ROOT / "docs/examples/nightly-workflow.yml").read_text()
    used = set(re.findall(r"--[a-z-]+", text.partition("enginebench nightly")[2].partition("- if:")[0]))
    known = {option for parameter in nightly_command.params for option in parameter.opts}
    assert used and used <= known

"""Bisecting: commits are built once, judged by intervals, and the first bad one is found past those unknown."""

from __future__ import annotations

import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from driver.ab import Asked, profile_values
from driver.bisect import Judged, Step, find_first_bad, judge_step, limit_between
from driver.cli import cli
from driver.commit_builds import BuildFailedError, built, commit_of, git
from driver.errors import BenchError, ExitCode
from driver.options.commits import server_and_build
from driver.profile.read import parse_profile
from tests.engines.helpers import ROOT

PACING_OF_TREE = (
    f"sh -c 'exec {sys.executable} -m engines.pacing_server --host 127.0.0.1 --port {{port}} --ttft-ms 200"
    " --tokens 1000 --interval-ms $(cat {tree}/speed)'"
)


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ENGINEBENCH_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    for name in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{name}_NAME", "a")
        monkeypatch.setenv(f"GIT_{name}_EMAIL", "a@example.org")


def tree(folder: Path, contents: list[str]) -> list[str]:
    """A git tree with a commit for each content of its file `speed`; their hashes."""
    subprocess.run(["git", "init", "-q", str(folder)], check=True)
    hashes = []
    for number, content in enumerate(contents):
        (folder / "speed").write_text(content)
        git(folder, "add", "-A")
        git(folder, "commit", "-q", "--allow-empty", "-m", f"commit {number}")
        hashes.append(git(folder, "rev-parse", "HEAD"))
    return hashes


def comparison(*ratios: tuple[float, tuple[float, float] | None], void: bool = False) -> dict[str, Any]:
    rows = [
        {"cell": f"c{number}", "metric": "output_tok_s", "speed_ratio": {"b": {"value": value, "ci": ci}}}
        for number, (value, ci) in enumerate(ratios)
    ]
    return {"verdict": {"void": void, "reasons": ["slots: b"] if void else []}, "performance": rows}


@pytest.mark.parametrize(
    ("ratios", "step"),
    [
        ([(0.8, (0.75, 0.85)), (1.0, (0.97, 1.03))], Step.BAD),
        ([(1.0, (0.97, 1.03)), (0.98, (0.96, 1.0))], Step.GOOD),
        ([(0.95, (0.89, 1.01)), (1.0, (0.97, 1.03))], Step.UNKNOWN),
        ([(0.8, None)], Step.UNKNOWN),
        ([], Step.UNKNOWN),
    ],
)
def test_a_commit_is_judged_by_the_side_of_the_limit_that_its_intervals_lie_on(ratios: Any, step: Step) -> None:
    assert judge_step(comparison(*ratios), "b", metric="output_tok_s", limit=0.95).step == step


def test_a_void_comparison_tells_nothing_of_a_commit() -> None:
    judged = judge_step(comparison((0.5, (0.4, 0.6)), void=True), "b", metric="output_tok_s", limit=0.95)
    assert (judged.step, judged.why) == (Step.UNKNOWN, "void: slots: b")


def test_the_limit_is_as_far_from_the_good_end_as_from_the_bad() -> None:
    assert limit_between(0.64) == pytest.approx(0.8)


@pytest.mark.parametrize(("first", "broken", "expected"), [(7, {5, 6}, {7, 6, 5}), (7, {4}, {7}), (1, set(), {1})])
def test_the_first_bad_commit_is_found_and_unknown_ones_are_skipped(
    tmp_path: Path, first: int, broken: set[int], expected: set[int]
) -> None:
    source = tmp_path / "source"
    hashes = tree(source, [str(number) for number in range(12)])
    asked: list[int] = []

    def measure(sha: str) -> Judged:
        asked.append(number := hashes.index(sha))
        if number in broken:
            raise BuildFailedError("the build failed")
        return Judged(Step.BAD if number >= first else Step.GOOD, "")

    said: list[str] = []
    found = find_first_bad(source, hashes[0], hashes[-1], measure, said.append)
    assert {hashes.index(sha) for sha in found} == expected and len(asked) <= 6
    assert len(said) == len(asked) and git(source, "worktree", "list").count("\n") == 0


def test_a_mistake_on_the_command_line_ends_a_bisection(tmp_path: Path) -> None:
    hashes = tree(tmp_path / "s", ["a", "b", "c", "d"])

    def measure(sha: str) -> Judged:
        raise BenchError("--build: nothing there", ExitCode.USAGE)

    with pytest.raises(BenchError, match="nothing there"):
        find_first_bad(tmp_path / "s", hashes[0], hashes[-1], measure, print)


def test_a_commit_is_built_once_in_a_folder_of_its_own(tmp_path: Path) -> None:
    source = tmp_path / "source"
    hashes = tree(source, ["one", "two"])
    build = "sh -c 'date +%N >> built; cat speed'"
    said: list[str] = []
    for _ in range(2):
        first, second = (built(source, sha, build, said.append) for sha in hashes)
    assert len(said) == 2 and "commit 0" in said[0]
    assert (first.path / "speed").read_text() == "one" and (second.path / "speed").read_text() == "two"
    assert len((first.path / "built").read_text().splitlines()) == 1
    assert first.fill("{tree}/server --x") == f"{first.path}/server --x" and git(source, "status", "--porcelain") == ""


def test_a_build_that_fails_is_quoted_and_tried_again_later(tmp_path: Path) -> None:
    (sha,) = tree(tmp_path / "s", ["one"])
    for _ in range(2):
        with pytest.raises(BuildFailedError, match=r"the build failed \(exit code 3\): no such header; see .*log"):
            built(tmp_path / "s", sha, "sh -c 'echo no such header; exit 3'", print)
    with pytest.raises(BenchError, match="no commit 'v9'"):
        commit_of(tmp_path / "s", "v9")
    with pytest.raises(BenchError, match="nowhere"):
        built(tmp_path / "s", sha, "nowhere", print)


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (["bisect", "HEAD", "HEAD", "s {tree} {port}"], 2, "HEAD is not after HEAD"),
        (["bisect", "HEAD", "gone", "s {tree} {port}"], 2, "no commit 'gone'"),
        (["bisect-step", "s {port}", "--good", "HEAD"], 128, "must contain {tree}"),
        (["bisect-step", "s {tree} {port}", "--good", "HEAD", "--build", "false"], 125, "the build failed"),
        (["ab", "s {port}", "--ref", "HEAD", "--ref", "HEAD"], 2, "one command with {tree}"),
        (["bisect", "HEAD", "HEAD"], 2, "SERVER is missing"),
        (["bisect-step", "--good", "HEAD"], 128, "SERVER is missing"),
        (["bisect-step", "--engine", "llama_cpp", "--good", "HEAD"], 125, "the build failed"),
    ],
)
def test_what_cannot_be_bisected_says_so(
    arguments: list[str], code: int, says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    tree(tmp_path / "s", ["one"])
    monkeypatch.chdir(tmp_path / "s")
    assert cli(arguments) == code
    assert says in capsys.readouterr().err


def test_llama_cpp_is_built_and_served_without_a_command_line_of_the_users() -> None:
    server, build = server_and_build(None, None, "llama_cpp")
    assert build is not None
    shell, option, line = shlex.split(build)
    assert (shell, option) == ("sh", "-c") and "cmake -S . -B build" in line and "--target llama-server" in line
    sides = (server, f"{server} --flash-attn on")
    asked = Asked(sides, names=("a", "b"), engine="llama_cpp", model="m.gguf", slots=(2,))
    one, two = parse_profile(profile_values(asked), "ab").engines
    assert (one.kind, one.binary, one.slots, one.args) == ("llama_cpp", "{tree}/build/bin/llama-server", 2, ())
    assert (two.binary, two.args, two.model) == (one.binary, ("--flash-attn", "on"), "m.gguf")
    assert server_and_build("mine", "make", "llama_cpp") == ("mine", "make")


@pytest.mark.engines
def test_a_slow_commit_of_a_servers_tree_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """One commit is faster, the next slower; one does not build."""
    speeds = ["10", "fail", "8", "14", "14"]
    hashes = tree(tmp_path / "s", speeds)
    monkeypatch.chdir(tmp_path)
    options = shlex.split("--source s --build 'sh -c \"! grep fail speed\"' --users 1 --rounds auto --time 2m")
    assert cli(["bisect", hashes[0], hashes[-1], PACING_OF_TREE, *options]) == 0
    assert f"first bad commit: {hashes[3][:7]}" in capsys.readouterr().out


@pytest.mark.engines
def test_git_bisect_run_finds_the_slow_commit_by_the_exit_codes(tmp_path: Path) -> None:
    hashes = tree(tmp_path / "s", ["10", "10", "fail", "10", "20", "20"])
    git(tmp_path / "s", "bisect", "start", hashes[-1], hashes[0])
    step = [sys.executable, str(ROOT / "run_bench.py"), "bisect-step", PACING_OF_TREE, "--good", hashes[0]]
    step += ["--build", "sh -c '! grep fail speed'", "--users", "1", "--rounds", "auto", "--time", "3m"]
    step += ["--out", str(tmp_path / "out"), "--regression", "0.3"]
    done = subprocess.run(
        ["git", "bisect", "run", *step], cwd=tmp_path / "s", capture_output=True, text=True, check=False
    )
    assert f"{hashes[4]} is the first bad commit" in done.stdout, done.stdout + done.stderr

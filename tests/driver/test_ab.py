"""`enginebench ab`: what a line becomes, and a comparison of two commands from it."""

from __future__ import annotations

import json
import re
import shlex
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from driver.ab import AUTO_ROUNDS, Asked, names_of, parse_answers, profile_values, to_toml
from driver.cli import cli
from driver.commands.ab import as_typed
from driver.errors import BenchError
from driver.profile.read import Profile, parse_profile
from driver.profile.sections import Synthetic
from driver.run.prompts import load_workload
from records import read_json
from tests.engines.helpers import ROOT

PACING = f"{sys.executable} -m engines.pacing_server --host {{host}} --port {{port}} --ttft-ms 2 --tokens 1000"


def profile(*sides: str, **asked: Any) -> Profile:
    return parse_profile(profile_values(Asked(sides, **asked)), "ab")


@pytest.mark.parametrize(
    ("sides", "names"),
    [
        (("s -m a.gguf -np 4", "s -m a.gguf -np 1"), ["np-4", "np-1"]),
        (("s -m /x/a.gguf", "s -m /x/b.gguf"), ["m-a.gguf", "m-b.gguf"]),
        (("./old/server -p 1", "./new/server -p 1"), ["server-1", "server-2"]),
        (("llama-server x", "other x", "third x"), ["llama-server", "other", "third"]),
        (("s --fast", "s"), ["fast", "s"]),
        (("localhost:8080", "http://localhost:8081/v1"), ["port-8080", "port-8081"]),
        (("http://a/", "http://b/"), ["a", "b"]),
        (("demo:llama-4slots", "demo:llama-1slot"), ["llama-4slots", "llama-1slot"]),
        (("s 🙂", "s 🙃"), ["engine-1", "engine-2"]),
        (("s --api-key Old-Key-42", "s --api-key New-Key-43"), ["s-1", "s-2"]),
        (("API_KEY=Old-Key-42 s", "t"), ["API_KEY", "t"]),
    ],
)
def test_engines_are_named_by_what_tells_them_apart(sides: tuple[str, ...], names: list[str]) -> None:
    assert names_of(sides) == names


def test_a_line_becomes_interleaved_rounds_of_one_cell_for_each_number_of_users() -> None:
    made = profile("s {port} -a", "localhost:8081", users=(1, 3, 8), time_s=600, rounds=4, slots=(2,))
    assert (made.baseline, made.rounds, made.max_seq_len) == ("s", 4, 256)
    assert [cell.label for cell in made.cells] == [
        "single.perf-short",
        "concurrent_3.perf-short",
        "concurrent_8.perf-short",
    ]
    assert [cell.users for cell in made.cells] == [None, 3, None]
    assert {cell.duration_s for cell in made.cells} == {round((600 / 4 / 2 - 4) / 3 / 2, 1)}
    started, remote = made.engines
    assert started.kind == "command" and started.command == ("s", "{port}", "-a") and started.slots == 2
    assert remote.kind == "remote" and remote.url == "http://localhost:8081"


def test_auto_rounds_have_a_time_that_leaves_room_for_more_than_three() -> None:
    made = profile("s {port}", "t {port}", users=(1,), rounds="auto", time_s=600)
    assert (made.rounds, made.time_s) == ("auto", 600)
    assert {cell.duration_s for cell in made.cells} == {round((600 / 6 / 2 - 4) / 2, 1)}


@pytest.mark.parametrize(("given", "code"), [("auto", 0), ("5", 0), ("0", 2), ("often", 2)])
def test_the_option_rounds_is_a_number_or_auto(given: str, code: int, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli(["ab", "s {port}", "t {port}", "--dry-run", "--rounds", given]) == code
    assert len(capsys.readouterr().err.splitlines()) == (1 if code else 0)


def test_the_line_that_goes_on_has_the_environment_and_no_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    sides = ("API_KEY=Old-Key-42 MODE=fast s {port}", "t {port} --token New-Key-43")
    typed = ["enginebench", "ab", *sides, "--env", "HF_TOKEN=New-Key-44", "--run-id=r", "--out=o", "--users", "1"]
    monkeypatch.setattr(sys, "argv", typed)
    line = shlex.split(as_typed(profile(*sides), sides, Path("o"), ["ab", *sides]))[1:]
    assert line == ["ab", "'API_KEY=***' MODE=fast s '{port}'", "t '{port}' --token '***'",
                    "--env", "HF_TOKEN=***", "--out=o", "--users", "1"]  # fmt: skip


def test_answers_prompts_environment_and_names_find_their_place(tmp_path: Path) -> None:
    prompts = tmp_path / "my prompts.jsonl"
    prompts.write_text(json.dumps({"prompt": "x" * 1000}) + "\n")
    made = profile(
        "A=1 B='2 3' s {port}", "t {port} {model}", prompts=str(prompts), answers=(("arithmetic", 24),), env={"C": "4"},
        names=("old", "new"), model="m.gguf", users=(1,), time_s=30, fixed_length=False, output_tokens=48,
    )  # fmt: skip
    old, new = made.engines
    assert (old.name, old.command, dict(old.env)) == ("old", ("s", "{port}"), {"C": "4", "A": "1", "B": "2 3"})
    assert (new.name, dict(new.env), new.model) == ("new", {"C": "4"}, "m.gguf")
    speed, quality = made.cells
    assert (speed.label, speed.max_tokens, speed.fixed_length) == ("single.my-prompts", 48, False)
    assert (quality.label, quality.rounds) == ("concurrent_4.arithmetic", 1)
    assert made.workloads["arithmetic"].first == 24 and made.workloads["my-prompts"].file == str(prompts)
    assert made.max_seq_len == 768  # 160 + 1000 / 2 + 48, or 160 + 2 x 256, in steps of 256


def test_little_time_makes_short_answers() -> None:
    assert {cell.max_tokens for cell in profile("s {port}", "t {port}", time_s=180).cells} == {32}
    assert {cell.max_tokens for cell in profile("s {port}", "t {port}", time_s=600).cells} == {64}


def test_an_engine_of_a_profile_is_taken_as_it_stands_there() -> None:
    first, second = profile("demo:llama-4slots", "demo:llama-1slot").engines
    assert (first.kind, first.slots, second.slots, first.max_seq_len) == ("llama_cpp_wheel", 4, 1, 1024)


def test_the_saved_file_is_the_same_profile() -> None:
    asked = Asked(
        ('s {port} --json \'{"a": "é\\n"}\'', "t {port}"),
        env={"A": 'x"y'},
        answers=(("arithmetic", 3),),
        hooks={"before_cell": "sh -c 'a \"b\"'"},
    )
    values = profile_values(asked)
    saved = tomllib.loads(to_toml(values))
    assert parse_profile(saved, "saved") == parse_profile(values, "ab")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["s {port}"], "give at least two engines"),
        (["s {port}", "t 'x"], "not a command line: no closing quotation"),
        (["demo:gone", "s {port}"], "no engine 'gone'; there are llama-4slots, llama-1slot"),
        (["a", "b", "--users", "1,x"], "--users 1,x: expected whole numbers"),
        (["a", "b", "--answers", "aritmetic:3"], "--answers aritmetic:3: expected TASK or TASK:N"),
        (["a", "b", "--env", "A"], "--env A: expected NAME=VALUE"),
        (["a", "b", "--name", "one"], "--name was given 1 times for 2 engines"),
        (["a", "b", "--time", "soon"], "'soon'"),
        (["a", "b", "--prompts", "gone.jsonl"], "--prompts gone.jsonl"),
        (["a", "b", "--json", "--markdown"], "exclude each other"),
        (["A=1", "b"], "holds no program"),
    ],
)
def test_a_line_that_makes_no_comparison_is_one_line_and_exit_code_2(
    arguments: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli(["ab", *arguments]) == 2
    told = capsys.readouterr().err
    assert says in told and len(told.splitlines()) == 1


def test_a_program_that_is_not_there_is_reported_before_anything_is_measured(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli(["ab", PACING, "no-such-server {port}", "--out", str(tmp_path), "--run-id", "r"]) == 4
    told = capsys.readouterr().err
    assert "no executable 'no-such-server'" in told and "starting" not in told


def test_a_side_that_is_too_long_for_a_file_is_no_profile() -> None:
    assert profile_values(Asked(("a" * 400 + ":b", "t {port}")))["engines"][0]["kind"] == "command"


def test_a_task_without_a_number_is_asked_whole() -> None:
    assert parse_answers("arithmetic") == ("arithmetic", None)
    with pytest.raises(BenchError):
        parse_answers("perf-short:3")


@pytest.mark.engines
def test_two_commands_are_compared_from_an_empty_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    slow, fast = f"{PACING} --interval-ms 20", f"{PACING} --interval-ms 5"
    options = ["--users", "1", "--time", "20s", "--run-id", "r", "--markdown", "--env", "API_TOKEN=hidden-one"]
    assert cli(["ab", slow, fast, *options]) in (0, 3)
    told = capsys.readouterr().out
    assert told.startswith("**") and "| single.perf-short | " in told and "interval-ms-5" in told
    manifest = read_json(tmp_path / "bench-out/r/run.json")
    assert manifest["commands"][0].startswith("enginebench ab ") and "hidden-one" not in json.dumps(manifest)
    assert manifest["profile_path"] is None
    # The same line goes on with it: nothing is left to do.
    assert cli(["ab", slow, fast, *options]) in (0, 3)
    assert "complete already" in capsys.readouterr().err


@pytest.mark.engines
def test_auto_rounds_of_two_engines_far_apart_end_before_their_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    pacing = PACING.replace("--ttft-ms 2", "")
    slow, fast = f"{pacing} --ttft-ms 260 --interval-ms 26", f"{pacing} --ttft-ms 200 --interval-ms 20"
    asked = ["--users", "1", "--rounds", "auto", "--time", "4m", "--run-id", "r", "--name", "slow", "--name", "fast"]
    assert cli(["ab", slow, fast, *asked]) == 0
    manifest = read_json(tmp_path / "bench-out/r/run.json")
    assert manifest["stopped"].startswith("all 3 deciding figures are decided after ")
    assert manifest["took_s"] < 240 and manifest["rounds_done"] < AUTO_ROUNDS
    assert "fast is faster" in capsys.readouterr().out


def test_endpoint_and_headers_become_keys_of_the_profile() -> None:
    asked = Asked(sides=("http://a:1", "http://b:2"), endpoint="completions", headers={"X-Api-Key": "ENV:GATEWAY_KEY"})
    values = profile_values(asked)
    assert values["endpoint"] == "completions"
    assert [engine["headers"] for engine in values["engines"]] == [{"X-Api-Key": "ENV:GATEWAY_KEY"}] * 2
    assert parse_profile(values, "ab").endpoint == "completions"
    assert "endpoint" not in profile_values(Asked(sides=("http://a:1", "http://b:2")))


def test_lengths_and_depths_become_synthetic_workloads_and_make_the_context_long_enough() -> None:
    made = profile("s {port}", "t {port}", users=(1, 4), depths=(0, 4096), output_tokens=64, time_s=600)
    assert [cell.label for cell in made.cells] == [
        "single.depth-0", "concurrent_4.depth-0", "single.depth-4096", "concurrent_4.depth-4096",
    ]  # fmt: skip
    lengths = {name: section.synthetic for name, section in made.workloads.items()}
    assert {name: part.input_tokens for name, part in lengths.items() if part} == {"depth-0": 32, "depth-4096": 4128}
    # 4,128 of the prompt, 64 of the answer, 160 for a template, in steps of 256.
    assert made.max_seq_len == 4352
    assert {cell.duration_s for cell in made.cells} == {round((600 / 3 / 2 - 4) / 4 / 2, 1)}
    plain = profile("s {port}", "t {port}", input_tokens=1000)
    assert [cell.workload for cell in plain.cells] == ["synthetic-1000"] * 3
    loaded = load_workload(plain, "synthetic-1000")
    assert {len(prompt.messages[0]["content"].split()) for prompt in loaded.prompts} == {1000}
    # A million tokens together.
    assert loaded.measured == 1000


def test_a_saved_profile_keeps_its_synthetic_workloads() -> None:
    values = profile_values(Asked(("s {port}", "t {port}"), depths=(0, 256)))
    assert parse_profile(tomllib.loads(to_toml(values)), "saved").workloads["depth-256"].synthetic == Synthetic(
        input_tokens=288
    )


def test_turns_become_conversations_of_which_each_cell_has_its_own() -> None:
    made = profile("s {port}", "t {port}", users=(1, 4), turns=8, think_s=0.5, output_tokens=64, cache=True)
    assert [cell.label for cell in made.cells] == ["single.turns-8-at-1", "concurrent_4.turns-8-at-4"]
    assert made.cache
    loads = [load_workload(made, cell.workload) for cell in made.cells]
    assert {len(prompt.turns) for load in loads for prompt in load.prompts} == {8}
    assert not {p.sha256 for p in loads[0].prompts} & {p.sha256 for p in loads[1].prompts}
    # 8 questions of 32, 7 answers of 64 and the last one, and a chat template around each.
    assert 8 * 32 + 8 * 64 < made.max_seq_len <= 1536
    real = profile("s {port}", "t {port}", users=(2,), turns=3, carry="real")
    assert [(cell.workload, cell.options) for cell in real.cells] == [("turns-3", {"carry": "real"})]


def test_a_file_of_conversations_makes_the_context_long_enough(tmp_path: Path) -> None:
    file = tmp_path / "talk.jsonl"
    file.write_text(json.dumps({"turns": [{"user": "u" * 2000, "assistant": "a" * 4000}, {"user": "v" * 2000}]}))
    made = profile("s {port}", "t {port}", users=(1,), conversations=str(file), output_tokens=64)
    assert made.workloads["talk"].file == str(file)
    assert made.max_seq_len >= 8000 / 2 + 64


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"turns": 2, "depths": (0,)}, "--turns and --depth exclude each other"),
        ({"think_s": 1.0}, "--think: only conversations have a use for it"),
        ({"carry": "real"}, "--carry: only conversations have a use for it"),
        ({"conversations": "f.jsonl", "cache": True}, "--users: give one number"),
        ({"conversations": "f.jsonl", "think_s": 1.0}, "says how long users think"),
        ({"conversations": "f.jsonl"}, "--conversations f.jsonl: no such prompts file"),
    ],
)
def test_options_of_conversations_that_do_not_go_together_are_refused(asked: dict[str, Any], said: str) -> None:
    with pytest.raises(BenchError, match=re.escape(said)):
        profile("s {port}", "t {port}", **asked)

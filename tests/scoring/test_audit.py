"""Every audit check passes on a clean run, and fails on one doctored in the one thing that it looks at."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path

import pytest

import scoring.audit.audit  # noqa: F401 (registers the checks)
from records import JsonObject, Record
from scoring.audit.model import CELL_CHECKS, ENGINE_CHECKS
from scoring.compare import compare
from tests.builders import RunBuilder, Speed, boxed, counts_of, fail

PERF, QUALITY = "concurrent_4.perf-short", "single.gsm8k"
GPU = [{"name": "Test GPU", "driver": "1"}]

Doctor = Callable[[RunBuilder], object]


def built(*, rounds: int = 1, gpu: bool = False) -> RunBuilder:
    run = RunBuilder(rounds=rounds)
    speed = Speed(20, 10, users=4, requests=16, tokens=24)
    run.perf(PERF, {"base": speed, "cand": speed})
    answers = [boxed(7, "Let us see. " * 10)] * 5
    run.answers(QUALITY, ["7"] * 5, {"base": answers, "cand": answers})
    if gpu:
        run.manifest["host"]["gpu"] = GPU
        for key, state in run.states.items():
            state["machine"] |= {"cotenants": [], "vram_before_mib": 10, "vram_ready_mib": 900, "vram_after_mib": 12}
            run.gpu[key] = [{"t_ns": t, "gpus": [{"power_w": 100.0, "throttle": []}]} for t in range(100)]
    return run


def row_of(rows: list[JsonObject], check: str, engine: str = "cand", cell: str | None = None) -> JsonObject:
    return next(r for r in rows if (r["check"], r["engine"], r["cell"]) == (check, engine, cell))


def audited(run: RunBuilder, path: Path) -> JsonObject:
    return compare(run.write(path / "run"), created="now")


def test_a_clean_run_fails_no_check_and_is_not_void(tmp_path: Path) -> None:
    comparison = audited(built(gpu=True), tmp_path)
    bad = [r for r in comparison["audit"] if r["status"] in ("fail", "warn", "unknown")]
    assert [r for r in bad if r["check"] != "no swapping"] == []
    assert comparison["verdict"]["void"] is False
    assert comparison["verdict"]["exit_code"] == 0


def test_every_registered_check_has_a_row_for_every_engine_and_cell(tmp_path: Path) -> None:
    rows = audited(built(), tmp_path)["audit"]
    for engine in ("base", "cand"):
        for check in ENGINE_CHECKS:
            row_of(rows, check, engine)
        for check in CELL_CHECKS:
            row_of(rows, check, engine, PERF)
            row_of(rows, check, engine, QUALITY)


def perf(run: RunBuilder, **values: object) -> None:
    for record in run.every_record("cand", PERF):
        for name, value in values.items():
            setattr(record, name, value)


def sent_late(run: RunBuilder) -> None:
    for record in run.every_record("cand", PERF):
        record.scheduled_ns = (record.sent_ns or 0) - 30_000_000


def state(run: RunBuilder, part: str, **values: object) -> None:
    run.states["cand", 1][part] |= values


def asked(run: RunBuilder, **values: object) -> None:
    run.scenarios["cand", 1, PERF]["asked"] |= values


def client(run: RunBuilder, **values: object) -> None:
    run.scenarios["cand", 1, PERF]["client"] |= values


def one_at_a_time(run: RunBuilder) -> None:
    at = 0
    for record in run.every_record("cand", PERF):
        assert record.sent_ns is not None
        shift = at - record.sent_ns
        record.sent_ns += shift
        record.end_ns += shift
        at = record.end_ns + 1_000_000


def slow_last_third(run: RunBuilder) -> None:
    records = sorted((r for r in run.every_record("cand", PERF) if r.measured), key=lambda r: r.sent_ns or 0)
    for record in records[-6:]:
        assert record.first_token_ns is not None
        assert record.last_token_ns is not None
        delay(record, record.last_token_ns - record.first_token_ns)


def delay(record: Record, by_ns: int) -> None:
    """Let the last token come later."""
    assert record.last_token_ns is not None
    record.last_token_ns += by_ns
    record.chunk_ns[-1] = record.last_token_ns
    record.end_ns = max(record.end_ns, record.last_token_ns)


def cut_at_context(run: RunBuilder) -> None:
    for record in run.every_record("cand", QUALITY):
        record.finish_reason = "length"


def refused_as_too_long(run: RunBuilder) -> None:
    record = run.every_record("cand", QUALITY)[0]
    fail(record)
    record.error = {"kind": "http_status", "message": "HTTP 400: exceed_context_size_error"}


def drop_one(run: RunBuilder) -> None:
    run.records["cand", 1, QUALITY].pop()


def other_build_in_round_2(run: RunBuilder) -> None:
    run.states["cand", 2] = run.states["cand", 1] | {"readback": run.states["cand", 1]["readback"] | {"build": "b1"}}


def drop_capture(run: RunBuilder) -> None:
    del run.records["cand", 2, PERF]


def another_prompt(run: RunBuilder) -> None:
    run.every_record("cand", PERF)[-1].prompt_sha256 = "f" * 64


def warm_up_measured(run: RunBuilder) -> None:
    warm = next(r for r in run.every_record("cand", PERF) if not r.measured)
    next(r for r in run.every_record("cand", PERF) if r.measured).prompt_sha256 = warm.prompt_sha256


def one_error(run: RunBuilder) -> None:
    fail(run.every_record("cand", QUALITY)[2])


def engine_gone(run: RunBuilder) -> None:
    fail(run.every_record("cand", QUALITY)[2], "engine_gone")


def restarted(run: RunBuilder) -> None:
    run.every_record("cand", PERF)[-1].system_fingerprint = "b1-other"


def slow_server(run: RunBuilder) -> None:
    for record in run.every_record("cand", PERF):
        assert record.server_timings is not None
        record.server_timings["predicted_ms"] *= 0.7


def late_by_tokens(run: RunBuilder) -> None:
    """Late by six tokens, before a first token that takes long anyway."""
    client(run, loop_lag_ms_p99=60.0)
    for record in run.every_record("cand", PERF):
        assert record.sent_ns is not None
        record.sent_ns -= 380_000_000


def throttled(run: RunBuilder) -> None:
    for row in run.gpu["cand", 1][:10]:
        row["gpus"][0]["throttle"] = ["hw_thermal_slowdown"]


def one_silent_the_others_absurd(run: RunBuilder) -> None:
    perf(run, completion_tokens=3, max_tokens=3)
    next(r for r in run.every_record("cand", PERF) if r.measured).completion_tokens = None


def another_prompt_by_duration(run: RunBuilder) -> None:
    for engine in run.engines:
        run.scenarios[engine, 1, PERF]["asked"] |= {"duration_s": 1.0}
    another_prompt(run)


def out_of_order(run: RunBuilder) -> None:
    record = next(r for r in run.every_record("cand", PERF) if r.measured)
    record.first_token_ns = (record.sent_ns or 0) - 1_000_000


def chunks_out_of_order(run: RunBuilder) -> None:
    record = next(r for r in run.every_record("cand", PERF) if r.measured)
    record.chunk_ns[3], record.chunk_ns[4] = record.chunk_ns[4], record.chunk_ns[3]


def more_than_allowed(run: RunBuilder) -> None:
    run.profile["cells"][0]["fixed_length"] = False
    asked(run, fixed_length=False, max_tokens=24)
    perf(run, completion_tokens=31)


def other_count_for_the_same_text(run: RunBuilder) -> None:
    for record in run.every_record("cand", QUALITY):
        record.completion_tokens = 13 * (record.completion_tokens or 0) // 10


def cut_file(run: RunBuilder) -> None:
    """A duration cell whose file lost its last records."""
    for engine in run.engines:
        run.profile["cells"][0] |= {"duration_s": 1.0, "requests": None}
        run.scenarios[engine, 1, PERF]["asked"] |= {"duration_s": 1.0}
    run.scenarios["cand", 1, PERF]["counts"] = counts_of(run.records["cand", 1, PERF])
    del run.records["cand", 1, PERF][-3:]


def in_two_rounds(run: RunBuilder) -> None:
    again = built(rounds=2)
    run.rounds, run.profile["rounds"] = 2, 2
    run.records, run.scenarios, run.states = again.records, again.scenarios, again.states


def busy_loops_beside_the_candidate(run: RunBuilder) -> None:
    """A second round, and in both rounds of the candidate others that take as much CPU as we get."""
    in_two_rounds(run)
    run.crowd = {("cand", 1): 1.0, ("cand", 2): 1.0}


def another_size(run: RunBuilder) -> None:
    state(run, "readback", model="org/tiny-1b")
    run.states["base", 1]["readback"]["model"] = "honest-8b.gguf"
    state(run, "weights", sha256="1" * 64, source_sha256=None)


def in_one_event(run: RunBuilder) -> None:
    """The same speed; each answer is sent in one event, at its end."""
    for record in run.every_record("cand", PERF):
        record.chunk_ns, record.chunk_chars = record.chunk_ns[-1:], [len(record.text)]
        record.first_token_ns = record.first_answer_ns = record.last_token_ns


def twice_as_long(run: RunBuilder) -> None:
    run.profile["cells"][0]["fixed_length"] = False
    for engine in run.engines:
        run.scenarios[engine, 1, PERF]["asked"] |= {"fixed_length": False, "max_tokens": 99}
    for record in run.every_record(cell=PERF):
        record.max_tokens, record.finish_reason = 99, "stop"
    for record in run.every_record("base", PERF):
        record.text, record.completion_tokens = record.text[:20], 12
        record.chunk_ns, record.chunk_chars = record.chunk_ns[::2], record.chunk_chars[::2]
        record.server_timings = None


def other_words(run: RunBuilder) -> None:
    for record in run.every_record("cand", PERF):
        record.text = record.text[::-1]


def sampled_anew(run: RunBuilder) -> None:
    in_two_rounds(run)
    for record in run.every_record("cand", PERF):
        record.text = f"round{record.round} {record.text}"


def warm_up_refused(run: RunBuilder) -> None:
    for record in run.every_record("cand", PERF):
        if not record.measured:
            fail(record, "busy")


def in_one_burst(run: RunBuilder) -> None:
    """All events at the end, 0.1 ms apart: what a busy client makes of a burst."""
    for record in run.every_record("cand", PERF):
        end = record.last_token_ns or 0
        record.chunk_ns = [end - 100_000 * k for k in reversed(range(len(record.chunk_ns)))]
        record.first_token_ns = record.first_answer_ns = record.chunk_ns[0]
        record.server_timings = None


WARNED: list[tuple[str, str | None, Doctor, str]] = [
    ("sent on time", PERF, sent_late, "sent more than 20 ms late"),
    ("answers are streamed", PERF, in_one_event, "16 of 16 answers of 24 tokens arrived at once"),
    ("answers are streamed", PERF, in_one_burst, "or 0.25 ms per token"),
    ("tokens per event", PERF, in_one_event, "24.00 tokens per event, 1.00 in the baseline"),
    ("answers as long as the baseline's", PERF, twice_as_long, "24.0 tokens per answer, 12.0 in the baseline"),
    ("greedy answers agree", PERF, other_words, "0 of 16 greedy answers"),
    ("warm-up answered", PERF, warm_up_refused, "2 of 2 warm-up requests failed (busy)"),
    (
        "same model as the baseline",
        None,
        lambda r: state(r, "readback", chat_template_sha256="9" * 64),
        "chat template 999999999999, in the baseline cccccccccccc",
    ),
]


@pytest.mark.parametrize(("check", "cell", "doctor", "evidence"), WARNED, ids=[case[0] for case in WARNED])
def test_a_doctored_run_is_warned_of(
    tmp_path: Path, check: str, cell: str | None, doctor: Doctor, evidence: str
) -> None:
    run = built(gpu=True)
    doctor(run)
    comparison = audited(run, tmp_path)
    row = row_of(comparison["audit"], check, "cand", cell)
    assert (row["status"], evidence in row["evidence"]) == ("warn", True), row
    assert comparison["verdict"]["void"] is False, comparison["verdict"]["reasons"]
    assert any(line.startswith(f"{check}: ") for line in comparison["verdict"]["warnings"])


DOCTORED: list[tuple[str, str | None, Doctor, str]] = [
    (
        "context per slot",
        None,
        lambda r: state(r, "readback", context_per_slot=1024),
        "each slot has 1,024 tokens; the profile asks for 8,192",
    ),
    ("slots", None, lambda r: state(r, "readback", slots=1), "the server runs 1 slot; the profile asks for 4"),
    ("same weights", None, lambda r: state(r, "weights", source_sha256="9" * 64), "999999999999"),
    (
        "greedy answers begin alike",
        PERF,
        sampled_anew,
        "16 of 16 prompts have answers whose first word differs between rounds",
    ),
    ("same model read back", None, other_build_in_round_2, "build differs from round to round"),
    ("same sampling asked", None, lambda r: state(r, "asked", sampling={"temperature": 0.8}), "temperature 0.8"),
    ("same sampling asked", None, lambda r: state(r, "probe", sampling_accepted=False), "refuses"),
    ("thinking as asked", None, lambda r: state(r, "probe", thinking=True), "think text"),
    ("same prompt tokens in the probe", None, lambda r: state(r, "probe", prompt_tokens={"a" * 64: 35}), "35 tokens"),
    ("engine alive", None, lambda r: r.states["cand", 1].update(stop_reason="died", exit_code=-11), "exit code -11"),
    (
        "engine alive",
        None,
        lambda r: r.states["cand", 1].update(stop_reason="the run ended: X"),
        "was not stopped by the driver",
    ),
    ("alone on the GPU", None, lambda r: state(r, "machine", cotenants=[{"pid": 9, "name": "miner"}]), "miner"),
    ("GPU not throttled", None, throttled, "hw_thermal_slowdown in 10 of 100 samples"),
    ("memory freed", None, lambda r: state(r, "machine", vram_after_mib=900), "900 MiB after"),
    ("memory freed", None, lambda r: state(r, "machine", processes_left=2), "2 of its processes"),
    ("memory freed", None, lambda r: state(r, "machine", port_free_after=False), "port"),
    ("no swapping", None, lambda r: state(r, "log_findings", swap_events=3), "3 swap events"),
    ("round complete", PERF, lambda r: r.scenarios["cand", 1, PERF].update(complete=False), "did not end as asked"),
    ("round complete", PERF, lambda r: r.profile["cells"][0].update(requests=99), "the profile asks for 99"),
    ("round complete", QUALITY, drop_one, "4 of 5 prompts"),
    ("concurrency achieved", PERF, one_at_a_time, "at most 1 in flight"),
    ("concurrency achieved", PERF, lambda r: asked(r, users=8), "the profile asks for 8"),
    ("concurrency achieved", PERF, lambda r: asked(r, users=2), "4 in flight at once; the profile asks for 2"),
    ("client healthy", PERF, lambda r: client(r, cpu_share=0.99), "CPU 99%"),
    ("client healthy", PERF, lambda r: client(r, loop_lag_ms_p99=40.0), "loop lag p99 40.0 ms"),
    ("client healthy", PERF, late_by_tokens, "with a median TPOT of 10.0 ms"),
    ("client and server agree", PERF, slow_server, "times the server's"),
    ("no drift", PERF, slow_last_third, "last third is 2.0"),
    ("same prompts asked", PERF, another_prompt, "1 prompt was asked only here"),
    ("same prompts asked", QUALITY, drop_one, "0 prompts were asked only here, 1 only"),
    ("warm-up apart", PERF, warm_up_measured, "1 of 2 warm-up prompts"),
    ("same load asked", PERF, lambda r: asked(r, max_tokens=99), "max_tokens was 99"),
    ("same sampling", PERF, lambda r: asked(r, request_extras={"temperature": 0.8, "top_p": 1.0}), "temperature 0.8"),
    ("same prompt tokens", PERF, lambda r: perf(r, prompt_tokens=35), "35 tokens here and 32 in the baseline"),
    ("thinking off", PERF, lambda r: perf(r, reasoning="Hmm."), "16 of 16 answers think"),
    ("thinking off", PERF, lambda r: perf(r, text="<think>\nHmm.</think> x"), "16 of 16 answers think"),
    ("thinking off", PERF, lambda r: perf(r, text="Hmm, the template opened it.</think> x"), "16 of 16 answers think"),
    ("not cut at the context", QUALITY, cut_at_context, "each slot has 8,192 tokens"),
    ("not cut at the context", QUALITY, refused_as_too_long, "refused as too long"),
    ("cache cold", PERF, lambda r: perf(r, cached_tokens=31), "16 of 16 requests hit the cache"),
    ("fixed length obeyed", PERF, lambda r: perf(r, finish_reason="stop"), "16 of 16 answers"),
    ("fixed length obeyed", PERF, lambda r: perf(r, completion_tokens=23), "23 tokens instead of 24"),
    ("errors under the limit", QUALITY, one_error, "1 of 5 requests failed (aborted 1)"),
    ("never restarted", PERF, restarted, "fingerprint changed"),
    ("never restarted", QUALITY, engine_gone, "gone for 1"),
    ("usage plausible", PERF, lambda r: perf(r, completion_tokens=3, max_tokens=3), "8.00 chunks per token"),
    ("usage plausible", PERF, lambda r: perf(r, text="x"), "characters per token"),
    ("usage plausible", PERF, one_silent_the_others_absurd, "1 of 16 answers came without usage"),
    ("same load asked", PERF, lambda r: asked(r, arrivals="constant"), "arrivals was constant"),
    ("same prompts asked", PERF, another_prompt_by_duration, "1 prompt was asked only here, 1 only"),
    ("round complete", QUALITY, lambda r: r.profile["cells"][1].update(samples=2), "5 of 10 prompts and samples"),
    ("stamps in order", PERF, out_of_order, "1 of 16 requests have stamps out of order"),
    ("stamps in order", PERF, chunks_out_of_order, "TTFT is negative in 0"),
    (
        "usage plausible",
        PERF,
        more_than_allowed,
        "16 of 16 answers have more tokens than max_tokens allowed, such as 31 of 24",
    ),
    ("same tokens for the same text", QUALITY, other_count_for_the_same_text, "5 of 5 identical answers"),
    ("machine left alone", PERF, busy_loops_beside_the_candidate, "2.00 times as much as the baseline's, in every"),
    ("records as counted", PERF, cut_file, "requests in the records; the load process counted"),
    ("same model as the baseline", None, another_size, "tiny-1b, in the baseline honest-8b.gguf: the sizes differ"),
]


@pytest.mark.parametrize(
    ("check", "cell", "doctor", "evidence"),
    DOCTORED,
    ids=[f"{case[0]}: {case[3]}" for case in DOCTORED],
)
def test_a_doctored_run_fails_the_check_and_is_void(
    tmp_path: Path, check: str, cell: str | None, doctor: Doctor, evidence: str
) -> None:
    run = built(gpu=True)
    doctor(run)
    comparison = audited(run, tmp_path)
    row = row_of(comparison["audit"], check, "cand", cell)
    assert row["status"] == "fail", row
    assert evidence in row["evidence"]
    assert comparison["verdict"]["void"] is True
    assert comparison["verdict"]["exit_code"] == 3
    if check != "round complete":
        assert row_of(comparison["audit"], check, "base", cell)["status"] != "fail"


def test_no_check_of_the_registry_is_without_a_test() -> None:
    tested = {check for check, _, _, _ in (*DOCTORED, *WARNED)}
    # What hooks leave is tested with the hooks, planned lengths and hits in audit/test_requests.py and test_cache.py.
    assert tested | {"undisturbed", "prompts as long as planned", "cache hits as planned"} == {
        *CELL_CHECKS,
        *ENGINE_CHECKS,
    }


def test_a_missing_round_is_incomplete_and_another_build_in_a_round_is_seen(tmp_path: Path) -> None:
    run = built(rounds=2)
    drop_capture(run)
    run.states["cand", 2]["readback"]["build"] = "b1"
    rows = audited(run, tmp_path)["audit"]
    assert row_of(rows, "round complete", "cand", PERF)["evidence"].startswith("round 2 of 2 has no capture")
    assert row_of(rows, "same model read back")["status"] == "fail"


def test_evidence_names_the_round_it_is_from(tmp_path: Path) -> None:
    run = built(rounds=2)
    run.states["cand", 2]["readback"]["context_per_slot"] = 2048
    row = row_of(audited(run, tmp_path)["audit"], "context per slot")
    assert row["evidence"] == "round 2: each slot has 2,048 tokens; the profile asks for 8,192"


def one_does_not_tell_its_cache(run: RunBuilder) -> None:
    record = next(r for r in run.every_record("cand", PERF) if r.measured)
    assert record.server_timings is not None
    record.cached_tokens, record.server_timings = None, record.server_timings | {"cache_n": None}


UNKNOWN: list[tuple[str, str | None, Doctor]] = [
    ("context per slot", None, lambda r: state(r, "readback", context_per_slot=None)),
    ("slots", None, lambda r: state(r, "readback", slots=None)),
    ("same weights", None, lambda r: state(r, "weights", sha256=None, source_sha256=None)),
    ("same model read back", None, lambda r: state(r, "readback", build=None, model=None)),
    ("same sampling asked", None, lambda r: state(r, "probe", sampling_accepted=None)),
    ("thinking as asked", None, lambda r: state(r, "probe", thinking=None)),
    ("same prompt tokens in the probe", None, lambda r: state(r, "probe", prompt_tokens={})),
    ("engine alive", None, lambda r: r.states["cand", 1].update(stop_reason=None)),
    ("alone on the GPU", None, lambda r: state(r, "machine", cotenants=None)),
    ("GPU not throttled", None, lambda r: r.gpu.pop(("cand", 1))),
    ("GPU not throttled", None, lambda r: [row["gpus"][0].update(throttle=None) for row in r.gpu["cand", 1]]),
    ("memory freed", None, lambda r: state(r, "machine", vram_after_mib=None)),
    ("no swapping", None, lambda r: r.states["cand", 1].update(kind="xserv")),
    ("client healthy", PERF, lambda r: r.scenarios["cand", 1, PERF].update(client=None)),
    ("client and server agree", PERF, lambda r: perf(r, server_timings=None)),
    ("same prompt tokens", PERF, lambda r: perf(r, prompt_tokens=None)),
    ("cache cold", PERF, lambda r: perf(r, cached_tokens=None, server_timings=None)),
    ("cache cold", PERF, one_does_not_tell_its_cache),
    ("not cut at the context", PERF, lambda r: perf(r, completion_tokens=None)),
    ("fixed length obeyed", PERF, lambda r: perf(r, completion_tokens=None)),
    ("usage plausible", PERF, lambda r: perf(r, completion_tokens=None)),
    ("same sampling", PERF, lambda r: asked(r, request_extras=None)),
]


@pytest.mark.parametrize(
    ("check", "cell", "doctor"), UNKNOWN, ids=[f"{n}: {case[0]}" for n, case in enumerate(UNKNOWN)]
)
def test_what_an_engine_cannot_tell_is_unknown_and_not_void(
    tmp_path: Path, check: str, cell: str | None, doctor: Doctor
) -> None:
    run = built(gpu=True)
    doctor(run)
    comparison = audited(run, tmp_path)
    assert row_of(comparison["audit"], check, "cand", cell)["status"] == "unknown"
    assert comparison["verdict"]["void"] is False
    assert any(line.startswith(f"{check}: ") for line in comparison["verdict"]["warnings"])


def test_a_busy_client_and_errors_within_the_limit_are_warnings(tmp_path: Path) -> None:
    run = built()
    client(run, cpu_share=0.85)
    one_error(run)
    run.profile["error_limit"] = 0.25
    comparison = audited(run, tmp_path)
    assert row_of(comparison["audit"], "client healthy", "cand", PERF)["status"] == "warn"
    assert row_of(comparison["audit"], "errors under the limit", "cand", QUALITY)["status"] == "warn"
    assert comparison["verdict"]["exit_code"] == 1


def test_a_lag_that_is_small_beside_what_is_measured_is_a_warning(tmp_path: Path) -> None:
    run = built()
    for record in run.every_record("cand", PERF):
        assert record.sent_ns is not None
        record.sent_ns -= 900_000_000
    client(run, loop_lag_ms_p99=33.0, bottleneck=True, bottleneck_reason="its event loop was 33 ms late")
    row = row_of(audited(run, tmp_path)["audit"], "client healthy", "cand", PERF)
    assert (row["status"], "33 ms late" in row["evidence"]) == ("warn", True)


@pytest.mark.parametrize(("stretch", "status"), [(5, "warn"), (1, "fail")])
def test_lag_moves_no_stamp_of_the_kernel_s_while_tokens_come_further_apart(
    tmp_path: Path, stretch: int, status: str
) -> None:
    run = built()
    client(run, loop_lag_ms_p99=40.0, arrival_stamps="kernel")
    for record in run.every_record("cand", PERF):
        assert record.first_token_ns is not None
        assert record.last_token_ns is not None
        record.last_token_ns += (stretch - 1) * (record.last_token_ns - record.first_token_ns)
    row = row_of(audited(run, tmp_path)["audit"], "client healthy", "cand", PERF)
    assert (row["status"], "loop lag p99 40.0 ms" in row["evidence"]) == (status, True)


@pytest.mark.parametrize(
    ("late_share", "late_times", "status"),
    [
        (0.02, 9, "warn"),
        (0.099, 9, "warn"),
        (0.1, 9, "fail"),
        (0.6, 3, "fail"),
        (0.12, 2, "warn"),
        (None, None, "fail"),
    ],
)
def test_lag_voids_only_where_it_touched_enough_of_the_cell_to_move_its_figures(
    tmp_path: Path, late_share: float | None, late_times: int | None, status: str
) -> None:
    run = built()
    client(run, loop_lag_ms_p99=40.0, loop_late_share=late_share, loop_late_samples=late_times)
    row = row_of(audited(run, tmp_path)["audit"], "client healthy", "cand", PERF)
    assert row["status"] == status, row
    assert (f"for {100 * (late_share or 0):.1f}% of the time" in row["evidence"]) is (late_share is not None)


def test_lag_of_the_order_of_a_whole_request_holds_up_the_next_one_whoever_dates(tmp_path: Path) -> None:
    run = built()
    client(run, loop_lag_ms_p99=900.0, arrival_stamps="kernel")
    for record in run.every_record("cand", PERF):
        record.completion_tokens = 2
    row = row_of(audited(run, tmp_path)["audit"], "client healthy", "cand", PERF)
    assert row["status"] == "fail", row


def test_a_drift_of_a_fifth_on_a_shared_machine_is_a_warning_not_void(tmp_path: Path) -> None:
    run = built()
    records = sorted((r for r in run.every_record("cand", PERF) if r.measured), key=lambda r: r.sent_ns or 0)
    for record in records[-6:]:
        assert record.first_token_ns is not None
        assert record.last_token_ns is not None
        delay(record, (record.last_token_ns - record.first_token_ns) // 5)
    row = row_of(audited(run, tmp_path)["audit"], "no drift", "cand", PERF)
    assert row["status"] == "warn"
    assert "last third is 1.2" in row["evidence"]


def test_an_empty_think_block_is_not_thinking(tmp_path: Path) -> None:
    run = built()
    perf(run, text="<think>\n\n</think>\n\nThe answer is long enough to hold its tokens.")
    assert row_of(audited(run, tmp_path)["audit"], "thinking off", "cand", PERF)["status"] == "pass"


def test_an_interrupted_round_that_was_finished_later_is_a_warning(tmp_path: Path) -> None:
    folder = built().write(tmp_path / "run")
    # Its driver was killed, and could not say how the engine ended.
    (folder.round("cand", 1).path / "engine.partial-1.json").write_text('{"stop_reason": null, "ready_s": 1.0}')
    audit = compare(folder, created="now")["audit"]
    row = row_of(audit, "engine alive")
    assert (row["status"], "started 2 times" in row["evidence"]) == ("warn", True)
    assert row_of(audit, "memory freed")["status"] == "pass"


def test_a_start_that_was_interrupted_before_the_engine_was_ready_is_no_start(tmp_path: Path) -> None:
    folder = built().write(tmp_path / "run")
    for k in (1, 2):
        aside = folder.round("cand", 1).path / f"engine.partial-{k}.json"
        aside.write_text('{"ready_s": null, "stop_reason": "never ready"}')
    row = row_of(compare(folder, created="now")["audit"], "engine alive")
    assert (row["status"], "2 starts before it" in row["evidence"]) == ("pass", True)


@pytest.mark.parametrize(
    ("mine", "theirs", "status"),
    [
        ("qwen3-8b.gguf", "/models/Qwen3-8B", "pass"),
        ("default", "Qwen/Qwen3-8B", "warn"),
        ("Qwen3-30B-A3B", "Qwen3-30B", "fail"),
        (None, "Qwen3-8B", "unknown"),
    ],
)
def test_the_models_name_is_held_against_the_baselines(
    tmp_path: Path, mine: str | None, theirs: str, status: str
) -> None:
    run = built()
    state(run, "readback", model=mine)
    run.states["base", 1]["readback"]["model"] = theirs
    state(run, "weights", sha256=None, source_sha256=None)
    assert row_of(audited(run, tmp_path)["audit"], "same model as the baseline")["status"] == status


@pytest.mark.parametrize(
    ("crowd", "status", "evidence"),
    [
        ({}, "pass", "others used 0% of the CPU, our threads waited 0.00 s"),
        ({("cand", 1): 0.3, ("cand", 2): 0.3}, "warn", "1.30 times as much"),
        ({("base", 1): 0.3, ("base", 2): 0.3, ("cand", 1): 0.3, ("cand", 2): 0.3}, "warn", "crowded the CPU"),
        # One bad round of the candidate is bad luck, not a difference between the sides.
        ({("cand", 1): 3.0}, "warn", "2.00 times as much"),
        # A crowd beside the baseline is told the right way round, not as 0.77 times.
        (
            {("base", 1): 0.3, ("base", 2): 0.3},
            "warn",
            "slowed the baseline's CPU work down 1.30 times as much as this engine's",
        ),
    ],
)
def test_a_crowd_beside_one_engine_is_warned_of_and_void_only_in_every_round(
    tmp_path: Path, crowd: dict[tuple[str, int], float], status: str, evidence: str
) -> None:
    run = built(rounds=2)
    run.crowd = crowd
    comparison = audited(run, tmp_path)
    row = row_of(comparison["audit"], "machine left alone", cell=PERF)
    assert (row["status"], evidence in row["evidence"]) == (status, True), row
    assert comparison["verdict"]["void"] is False
    assert len(comparison["host"]) == 2 * 2 * 2


def test_another_name_for_weights_known_to_be_the_same_is_fine(tmp_path: Path) -> None:
    run = built()
    state(run, "readback", model="tiny-1b")
    run.states["base", 1]["readback"]["model"] = "honest-8b"
    assert row_of(audited(run, tmp_path)["audit"], "same model as the baseline")["status"] == "pass"


def test_a_token_that_ends_an_answer_and_is_counted_on_one_side_only_is_no_difference(tmp_path: Path) -> None:
    run = built()
    for record in run.every_record("cand", QUALITY):
        record.completion_tokens = (record.completion_tokens or 0) + 1
    row = row_of(audited(run, tmp_path)["audit"], "same tokens for the same text", cell=QUALITY)
    assert row["status"] == "pass"


def test_a_death_in_an_earlier_process_still_counts_when_the_round_is_finished(tmp_path: Path) -> None:
    folder = built().write(tmp_path / "run")
    earlier = {"stop_reason": "died", "exit_code": 139, "machine": {"processes_left": 2}}
    (folder.round("cand", 1).path / "engine.partial-1.json").write_text(json.dumps(earlier))
    comparison = compare(folder, created="now")
    for check, evidence in (
        ("engine alive", "died (exit code 139) and was started again"),
        ("memory freed", "2 of its"),
    ):
        row = row_of(comparison["audit"], check)
        assert (row["status"], evidence in row["evidence"]) == ("fail", True)
    assert comparison["verdict"]["exit_code"] == 3


def test_the_client_of_a_load_that_was_cut_is_judged_with_that_which_finished_it(tmp_path: Path) -> None:
    folder = built().write(tmp_path / "run")
    cell = folder.round("cand", 1).cell(QUALITY)
    earlier = json.loads(cell.scenario.read_text()) | {"client": {"cpu_share": 0.99, "loop_lag_ms_p99": 400.0}}
    (cell.path / "scenario.partial-1.json").write_text(json.dumps(earlier))
    row = row_of(compare(folder, created="now")["audit"], "client healthy", "cand", QUALITY)
    assert (row["status"], "CPU 99%" in row["evidence"]) == ("fail", True)


def test_a_resumed_quality_cell_counts_the_later_answer_and_no_error(tmp_path: Path) -> None:
    run = built()
    records = run.records["cand", 1, QUALITY]
    lost = dataclasses.replace(records[1], chunk_ns=[], text="")
    fail(lost, "cancelled")
    run.records["cand", 1, QUALITY] = [records[0], lost, *records[1:]]
    comparison = audited(run, tmp_path)
    assert row_of(comparison["audit"], "errors under the limit", "cand", QUALITY)["status"] == "pass"
    assert comparison["quality"][0]["engines"]["cand"]["correct"] == 5
    assert comparison["verdict"]["exit_code"] == 0


def test_weights_converted_from_the_baselines_file_are_the_same(tmp_path: Path) -> None:
    run = built()
    run.states["base", 1]["weights"] = {"sha256": "e" * 64, "source_sha256": None}
    state(run, "weights", sha256="1" * 64, source_sha256="e" * 64)
    assert row_of(audited(run, tmp_path)["audit"], "same weights")["status"] == "pass"


def test_evidence_is_plain_text_of_one_line(tmp_path: Path) -> None:
    for row in audited(built(gpu=True), tmp_path)["audit"]:
        assert row["evidence"]
        assert "\n" not in row["evidence"]
        json.dumps(row, allow_nan=False)


def test_a_load_that_soon_falls_to_one_is_no_concurrency_of_four(tmp_path: Path) -> None:
    run = built()
    records = [record for record in run.every_record("cand", PERF) if record.measured]
    at = max(record.end_ns for record in records[:4])
    for record in records[4:]:
        assert record.sent_ns is not None
        shift = at + 1_000_000 - record.sent_ns
        record.sent_ns += shift
        record.end_ns += shift
        at = record.end_ns
    found = row_of(audited(run, tmp_path)["audit"], "concurrency achieved", cell=PERF)
    assert found["status"] == "fail", found["evidence"]


def test_a_load_that_paused_once_is_told_so(tmp_path: Path) -> None:
    run = built()
    records = [record for record in run.records["cand", 1, PERF] if record.measured]
    for record in records[len(records) // 2 :]:
        assert record.sent_ns is not None
        record.sent_ns += 60_000_000_000
        record.end_ns += 60_000_000_000
        record.chunk_ns = [at + 60_000_000_000 for at in record.chunk_ns]
    found = row_of(audited(run, tmp_path)["audit"], "concurrency achieved", cell=PERF)
    assert "the load paused 1 time, up to" in found["evidence"]


def test_a_second_attempt_is_no_further_request_and_its_error_is_counted(tmp_path: Path) -> None:
    run = built()
    records = run.records["cand", 1, PERF]
    at = next(i for i, record in enumerate(records) if record.measured)
    refused = dataclasses.replace(records[at], chunk_ns=[], text="")
    fail(refused, "busy")
    records[at].attempt = 2
    records.insert(at, refused)
    run.profile["error_limit"] = 0.1
    rows = audited(run, tmp_path)["audit"]
    assert row_of(rows, "round complete", cell=PERF)["status"] == "pass"
    assert row_of(rows, "same prompts asked", cell=PERF)["status"] == "pass"
    assert "1 of 17 requests failed (busy 1)" in row_of(rows, "errors under the limit", cell=PERF)["evidence"]


def test_a_sample_that_a_resumed_cell_asked_again_counts_once(tmp_path: Path) -> None:
    """With two samples a problem, of which one was cut off, both are asked again."""
    run = built()
    run.profile["cells"][1]["samples"] = 2
    for engine in run.engines:
        run.scenarios[engine, 1, QUALITY]["asked"]["samples"] = 2
        first = run.records[engine, 1, QUALITY]
        run.records[engine, 1, QUALITY] = first + [dataclasses.replace(record, sample=1) for record in first]
    again = [dataclasses.replace(record) for record in run.records["cand", 1, QUALITY][:1]]
    run.records["cand", 1, QUALITY] += again
    comparison = audited(run, tmp_path)
    for check in ("round complete", "same prompts asked"):
        assert row_of(comparison["audit"], check, cell=QUALITY)["status"] == "pass"
    row = next(r for r in comparison["performance"] if (r["cell"], r["metric"]) == (QUALITY, "e2e_ms_mean"))
    assert row["engines"]["cand"]["n"] == row["engines"]["base"]["n"] == 10


def test_the_temperature_that_the_load_sends_by_itself_is_told(tmp_path: Path) -> None:
    run = built()
    asked(run, request_extras={"top_p": 1.0})
    found = row_of(audited(run, tmp_path)["audit"], "same sampling", cell=PERF)
    assert (found["status"], found["evidence"]) == ("pass", "temperature 0, top_p 1.0")


def test_rounds_that_were_shortened_for_all_engines_alike_are_the_same_load(tmp_path: Path) -> None:
    run = built(rounds=2)
    for engine in ("base", "cand"):
        run.scenarios[engine, 1, PERF]["asked"]["duration_s"] = 2.8
    for (_, number, cell), scenario in run.scenarios.items():
        if cell == PERF and number > 1:
            scenario["asked"]["duration_s"] = 1.5
    assert row_of(audited(run, tmp_path)["audit"], "same load asked", "cand", PERF)["status"] == "pass"
    run.scenarios["cand", 2, PERF]["asked"]["duration_s"] = 2.8
    assert row_of(audited(run, tmp_path / "other")["audit"], "same load asked", "cand", PERF)["status"] == "fail"

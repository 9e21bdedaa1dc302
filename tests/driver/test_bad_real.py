"""The same promises as test_bad_input, with a real llama-server: unknown weights, death and signals in the middle."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from records import ErrorKind, read_json
from tests.driver.bench import PROFILE, QUALITY, Bench, answered, records, require_whole, until
from tests.engines.by_hand import built_server
from tests.engines.helpers import smollm2

pytestmark = [pytest.mark.engines, pytest.mark.timeout(3300)]


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def profile(bench: Bench, model: Path) -> Path:
    text = PROFILE.replace('kind = "xserv"', 'kind = "llama_cpp"').replace("ready_timeout_s = 20", "")
    return bench.profile(text, model=model, binary=built_server())


def test_weights_that_the_server_does_not_know_end_it_while_it_loads(bench: Bench) -> None:
    odd = bench.path / "odd.gguf"
    # As long as it should be, which is all that is looked at before: an architecture that no server knows.
    odd.write_bytes(smollm2().read_bytes().replace(b"llama", b"lla!a"))
    done = bench.run("run", profile(bench, odd), "--run-id", "r")
    assert done.code == 4
    assert "while starting" in done.line and "llama.cpp can't load" in done.line and "odd.gguf" in done.line
    assert read_json(bench.folder().round("a", 1).engine_json)["stop_reason"] == "never ready"


def test_a_server_that_is_killed_in_the_middle_loses_nothing_and_the_same_run_goes_on(bench: Bench) -> None:
    run = ["run", profile(bench, smollm2()), "--run-id", "r"]
    process = bench.start(*run)
    assert until(lambda: len(records(bench.cell(QUALITY))) >= 2, 300)
    server = next(each for each in bench.living("llama-server") if each.name() == "llama-server")
    server.kill()
    done = bench.finish(process)
    assert done.code == 4
    assert "the engine died: killed from outside (SIGKILL)" in done.line and "go on with" in done.line
    kept = answered(bench.cell(QUALITY))
    assert 2 <= len(kept) < 6
    assert {each.error["kind"] for each in records(bench.cell(QUALITY)) if each.error} <= {ErrorKind.ENGINE_GONE}
    # 3: with so few requests the audit may find the figures wanting.
    assert bench.finish(bench.start(*run), 300).code in (0, 3)
    require_whole(bench)
    assert set(kept) <= set(answered(bench.cell(QUALITY)))


@pytest.mark.parametrize(("sign", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_ends_the_real_server_too_and_the_same_run_goes_on(
    bench: Bench, sign: signal.Signals, code: int
) -> None:
    run = ["run", profile(bench, smollm2()), "--run-id", "r"]
    process = bench.start(*run)
    assert until(lambda: len(records(bench.cell(QUALITY))) >= 2, 300)
    process.send_signal(sign)
    done = bench.finish(process)
    assert done.code == code
    assert sign.name in done.line
    kept = answered(bench.cell(QUALITY))
    assert bench.finish(bench.start(*run), 300).code in (0, 3)
    require_whole(bench)
    assert set(kept) <= set(answered(bench.cell(QUALITY)))

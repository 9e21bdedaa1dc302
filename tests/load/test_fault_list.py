"""The closed list of faults, met by the real client at the built-in pacing server: each is one kind, none a success."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator

import pytest

from engines.pacing_server.schedule import FAULTS, VARIANTS
from records import ErrorKind
from tests.load import test_faults
from tests.load.load import ROOT, Outcome, finish, prompts_file

LOAD = """
from locustfiles.closed_loop import ClosedLoop


class EveryFault(ClosedLoop):
    '''Asks for the fault that its prompt names.'''

    def _request(self, ticket):
        self.session.options.model = "pacing:" + ticket.prompt.messages[-1]["content"]
        return super()._request(ticket)


del ClosedLoop
"""
ELSEWHERE = {
    ErrorKind.CONNECT_FAILED: "test_faults: an engine that dies",
    ErrorKind.TOTAL_TIMEOUT: "test_faults: never ending",
    ErrorKind.CANCELLED: "test_stops: what does not end after a stop",
    ErrorKind.ENGINE_GONE: "set by the driver, which sees the process: tests/driver",
}
"""Kinds that no server can bring about by what it answers."""


@pytest.fixture(scope="module")
def outcome(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Outcome]:
    """One run over all faults and all lawful variants."""
    folder = tmp_path_factory.mktemp("list")
    (folder / "every_fault.py").write_text(LOAD)
    prompts = prompts_file(folder / "prompts.jsonl", [*FAULTS, *VARIANTS])
    serve = [sys.executable, "-m", "engines.pacing_server", "--ttft-ms", "5", "--interval-ms", "2", "--tokens", "8"]
    with subprocess.Popen(serve, cwd=ROOT, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        url = server.stdout.readline().removeprefix("listening on ").strip()
        argv = [sys.executable, "-m", "locust", "-f", str(folder / "every_fault.py"), "--headless", "--host", url]
        argv += ["-u", "4", "--prompts", str(prompts), "--max-tokens", "8", "--silence-timeout", "0.5"]
        argv += ["--capture-dir", str(folder / "out")]
        load = subprocess.Popen(argv, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        yield finish(load, folder / "out")
        server.terminate()


def kind_of(outcome: Outcome, fault: str) -> str | None:
    number = [*FAULTS, *VARIANTS].index(fault)
    (record,) = (record for record in outcome.records if record.prompt_id == f"p{number}")
    assert record.ok == (record.error is None)
    return None if record.error is None else str(record.error["kind"])


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_of_the_list_is_its_one_kind(outcome: Outcome, fault: str) -> None:
    assert kind_of(outcome, fault) == FAULTS[fault]


@pytest.mark.parametrize("variant", VARIANTS)
def test_what_is_only_unusual_is_a_good_answer(outcome: Outcome, variant: str) -> None:
    assert kind_of(outcome, variant) is None


def test_every_kind_of_the_list_is_brought_about_by_some_test() -> None:
    shown = {*FAULTS.values(), *(ErrorKind(kind) for _, kind in test_faults.FAULTS.values() if kind)}
    assert shown | set(ELSEWHERE) == set(ErrorKind)


def test_every_kind_of_the_list_says_what_it_is() -> None:
    source = (
        (ROOT / "records/error_kinds.py").read_text().partition("class ErrorKind")[2].partition("\nFINISH_REASONS")[0]
    )
    said = dict(re.findall(r'^    [A-Z_]+ = "(\w+)"\n    """(.+?)"""', source, re.MULTILINE | re.DOTALL))
    assert set(said) == set(ErrorKind)

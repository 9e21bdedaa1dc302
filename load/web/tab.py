"""The tab "Streaming" in Locust's web UI, its page with charts at /enginebench/, and the downloads.

Figures come from this project's hooks, which on the master of a distributed run fire for every record that arrives.
The workers' own health comes with Locust's worker reports.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import gevent
from locust.runners import MasterRunner, WorkerRunner

from load.distributed.progress import Progress
from load.environment_state import state_of
from load.options import form_groups
from load.session import Session
from load.web.clients import REPORT, Client, WorkerReport, known, total
from load.web.figures import Live
from load.web.parts import PartOf, parts_of, turn_of
from load.web.routes import add_routes, shown_state
from load.web.timeline import METRICS
from records import CellFolder, Record, read_json

CACHE_S = 0.5
"""Seconds for which figures are cached, for all pages together."""
NAMES = {"ttft_ms": "TTFT", "tpot_ms": "TPOT", "itl_ms": "ITL", "icl_ms": "ICL", "e2e_ms": "E2E"}


def install(environment: Any) -> None:
    """Register for events in a process with the web UI, and in its workers."""
    if isinstance(environment.runner, WorkerRunner):
        environment.events.report_to_master.add_listener(WorkerReport(environment).report)
    elif environment.web_ui is not None:
        WebUI(environment)


class _Problem(logging.Handler):
    """Keeps the last logged error, to show it in the browser."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.line: str | None = None

    def emit(self, record: logging.LogRecord) -> None:
        self.line = record.getMessage()


class WebUI:
    """Collects figures in a process with a web UI, and shows them."""

    def __init__(self, environment: Any) -> None:
        self._environment, self._client = environment, Client()
        self._live: Live | None = None
        self._test: object = None
        self._number = 0
        self._workers: dict[str, dict[str, Any]] = {}
        self._made: tuple[float, dict[str, Any]] = (0.0, {})
        self._shown_state: tuple[str, bool] = ("", True)
        self._folder: CellFolder | None = None
        self._problem = _Problem()
        logging.getLogger("enginebench").addHandler(self._problem)
        events = environment.events
        events.test_start.add_listener(self._begin)
        events.first_token.add_listener(self._with_live(lambda live, now, **of: live.first_token(now=now, **of)))
        events.inter_token.add_listener(self._with_live(lambda live, now, record, **_: live.inter_token(record, now)))
        events.stream_finished.add_listener(
            self._with_live(lambda live, now, **of: live.stream_finished(now=now, **of))
        )
        if isinstance(environment.runner, MasterRunner):
            events.worker_report.add_listener(self._worker_report)
        gevent.spawn(self._sample)
        add_routes(self, environment)

    # -- gathering -----------------------------------------------------------------------------------------------------

    def _begin(self, **_: Any) -> None:
        env = self._environment
        test = state_of(env).test
        # Locust restarts to spread the users of a lost worker; the test is the same.
        if test is not None and test is self._test:
            return
        part_of: PartOf = turn_of  # workers report their steps only at their end
        if isinstance(test, Session):
            part_of = parts_of(test.admission, state_of(env).kind, test.options.step_by)
        elif isinstance(test, Progress):
            # Each worker names the parts of its records: they were sent by its clock.
            part_of = lambda record: test.part or turn_of(record)  # noqa: E731
        self._test, self._live = test, Live(time.monotonic(), part_of)
        self._number += 1
        if test is not None:
            self._problem.line = None
        self._workers.clear()
        self._made = (0.0, {})
        folder = env.parsed_options.capture_dir
        self._folder = CellFolder(Path(folder)) if folder and test is not None else None

    def _with_live(self, take: Callable[..., None]) -> Callable[..., None]:
        def listener(record: Record, **of: Any) -> None:
            if self._live is not None:
                take(self._live, time.monotonic(), record=record, **of)

        return listener

    def _worker_report(self, client_id: str, data: dict[str, Any], **_: Any) -> None:
        report = data.get(REPORT)
        if isinstance(report, dict):
            self._workers[client_id] = report

    def _clients(self) -> dict[str, dict[str, Any]]:
        if isinstance(self._environment.runner, MasterRunner):
            return dict(sorted(self._workers.items()))
        return {"local": self._client.look(state_of(self._environment).session)}

    def _sample(self) -> None:
        while True:
            gevent.sleep(1.0)
            if self._live is None or self._environment.runner.state not in ("spawning", "running", "cleanup"):
                continue
            clients = self._clients().values()
            self._live.sample(
                time.monotonic(), total(clients, "in_flight"), max(known(clients, "loop_lag_ms_p99"), default=None)
            )

    @property
    def has_ended(self) -> bool:
        """Whether the last test has ended and all of its records are counted."""
        return state_of(self._environment).test is None

    @property
    def is_ending(self) -> bool:
        """Whether a stop is in progress: requests in flight drain, and the last records are decoded."""
        state = state_of(self._environment)
        draining = state.progress.draining if state.progress else state.session is not None and state.session.stopping
        return draining or self._environment.runner.state in ("cleanup", "stopping")

    def forget_older_figures(self) -> None:
        """Drop cached figures (Locust's and ours) if the state of the test has changed."""
        state = (self._environment.runner.state, self.has_ended)
        if state != self._shown_state:
            self._shown_state, self._made = state, (0.0, {})
            self._environment.web_ui.app.view_functions["locust.request_stats"].clear_cache()

    # -- showing -------------------------------------------------------------------------------------------------------

    def snapshot(self) -> dict[str, Any]:
        """All figures of the page."""
        self.forget_older_figures()
        made, shown = self._made
        if shown and time.monotonic() - made < CACHE_S:
            return shown
        env, live, clients = self._environment, self._live, self._clients()
        options = env.parsed_options
        shown = {
            "test": self._number,
            "state": "draining" if self.is_ending else shown_state(env.runner.state, ended=self.has_ended),
            "problem": self._problem.line,
            "scenario": state_of(env).scenario,
            "form": form_groups(state_of(env).kind),
            "host": env.host,
            "prompts": options.prompts,
            "users": env.runner.user_count,
            "in_flight": total(clients.values(), "in_flight"),
            "capacity": self._capacity(),
            "clients": clients,
            "distributed": isinstance(env.runner, MasterRunner),
            "records": self._folder is not None and self._folder.requests.exists(),
            **(
                {}
                if live is None
                else {**live.summary(), "recent": live.seconds.recent(), "series": live.seconds.columns()}
            ),
        }
        self._made = (time.monotonic(), shown)
        return shown

    def _capacity(self) -> dict[str, Any] | None:
        """The present state of the test's capacity search; None for another kind of load."""
        director = self._test.director if isinstance(self._test, Session | Progress) else None
        return director.summary() if director else None

    def table(self) -> list[dict[str, Any]]:
        """The rows of the tab in Locust's own UI."""
        shown = self.snapshot()
        rows = []
        for name in METRICS if "latency" in shown else ():
            if name == "icl_ms" and shown["same_gaps"]:
                continue
            whole, recent = shown["latency"][name], shown["recent"]["latency"][name]
            row = {"name": NAMES[name], "n": whole["n"], "exact": "exact" if whole["exact"] else "within 0.1%"}
            row |= {key: _text(whole[key]) for key in ("p50", "p90", "p99", "max")}
            rows.append(row | {"recent": _text(recent["p50"])})
        return rows

    def summary(self) -> dict[str, Any]:
        """The download: the live figures, and the test's scenario.json once it is written."""
        shown = {name: value for name, value in self.snapshot().items() if name not in ("series", "recent")}
        try:
            written = read_json(self._folder.scenario) if self._folder else None
        except (OSError, ValueError):
            written = None
        # Until a distributed test has ended, the file belongs to the previous test.
        if written is not None and written.get("started_utc") != getattr(self._test, "started_utc", None):
            written = None
        return {**shown, "scenario_json": written}

    def records(self) -> Iterator[bytes] | None:
        """The capture's present complete lines, in pieces; None if there is no capture."""
        if self._folder is None or not self._folder.requests.exists():
            return None
        return _whole_lines(self._folder.requests)


def _whole_lines(path: Path) -> Iterator[bytes]:
    rest = b""
    with path.open("rb") as capture:
        while piece := capture.read(1 << 18):
            whole, newline, rest = (rest + piece).rpartition(b"\n")
            yield whole + newline
            # A download must not delay the stamps of arriving bytes.
            gevent.sleep(0.002)


def _text(value: float | None) -> str:
    return "–" if value is None else f"{value:,.2f}"

"""Error and cost of the load client beside the floor: 64 streams, 100 tokens at 10 ms, TTFT 50 ms, a role chunk first.

    python -m benchmarks.cost [free] [four] [together] [--rounds 5] [--requests 1280] [--json FILE]

Three settings, each against its own server: streams that run free (and the start of the process); four tokens a chunk;
all ticking together. Clients take turns within a round; medians of the rounds, and ratios within a round.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks._clients import Client, Floor, FloorLate, FloorOrjson, Job, Ours, marginal_cpu_us, measure
from benchmarks._harness import PacingServer, finish, median, parser, progress, show

STREAMS, TOKENS = 64, 100


Rounds = dict[str, list[dict[str, float]]]
"""Figures of every round, by client."""
Rows = list[list[Any]]
"""Figure, measured, must, aim."""


def rounds_of(clients: Sequence[Client], asked: argparse.Namespace, *, cpu: bool, **schedule: Any) -> Rounds:
    """Figures of every round by client, with the clients taking turns."""
    found: Rounds = {client.name: [] for client in clients}
    with tempfile.TemporaryDirectory() as scratch, PacingServer(**schedule) as server:
        for number in range(asked.rounds):
            for client in clients:
                with progress(f"round {number + 1} of {asked.rounds}, {client.name}"):
                    folder = Path(scratch) / f"{number}-{client.name.replace(' ', '-')}"
                    job = Job(server.port, STREAMS, asked.requests, TOKENS, folder)
                    out = measure(client, server, job)
                    seen = out.accuracy
                    if seen is None or out.told.ok != asked.requests:
                        raise SystemExit(
                            f"{client.name}: {out.told.ok} of {asked.requests} ok\n{out.ran.output[-2000:]}"
                        )
                    found[client.name].append({
                        "cpu_us_per_chunk": marginal_cpu_us(client, server, job, out) if cpu else float("nan"),
                        "ttft_error_ms_p50": seen.ttft_error_ms_p50,
                        "ttft_error_ms_p99": seen.ttft_error_ms_p99,
                        "tpot_error_percent": seen.tpot_error_percent,
                        "lag_us_p50": seen.lag_us_p50,
                        "lag_us_p99": seen.lag_us_p99,
                        "server_late_ms_p99": seen.server_late_ms_p99,
                        "start_s": out.start_s or float("nan"),
                        "rss_mib": out.ran.rss_mib,
                    })  # fmt: skip
    return found


def ratios(found: Rounds, figure: str, name: str = "ours", by: str = "floor") -> list[float]:
    """A client's figure by the floor's, round by round."""
    pairs = zip(found[name], found[by], strict=True)
    return [ours[figure] / floor[figure] for ours, floor in pairs]


def table(title: str, found: Rounds) -> None:
    """Medians by client."""
    figures = list(next(iter(found.values()))[0])
    rows = [[name, *(median([row[figure] for row in rows]) for figure in figures)] for name, rows in found.items()]
    show(title, ["client", *figures], rows)


def _of(found: Rounds, figure: str) -> float:
    return median([abs(row[figure]) for row in found["ours"]])


def free(asked: argparse.Namespace) -> tuple[Rounds, Rows]:
    """Streams that run free."""
    found = rounds_of([Floor(), FloorOrjson(), Ours()], asked, cpu=True)
    return found, [
        ["CPU a chunk / floor's", median(ratios(found, "cpu_us_per_chunk")), "1.2", "0.8"],
        ["TTFT error p50 / floor's", median(ratios(found, "ttft_error_ms_p50")), "1.5", "1.1"],
        ["TTFT error p99 / floor's", median(ratios(found, "ttft_error_ms_p99")), "1.5", "1.1"],
        ["TPOT error %", _of(found, "tpot_error_percent"), "0.2", "0.05"],
        ["start to first request s", _of(found, "start_s"), "2", "1"],
        ["RSS MiB", _of(found, "rss_mib"), "150", "80"],
    ]


def four(asked: argparse.Namespace) -> tuple[Rounds, Rows]:
    """Four tokens a chunk."""
    found = rounds_of([Floor(), Ours()], asked, cpu=False, tokens_per_chunk=4)
    return found, [["TPOT error %, 4 tokens a chunk", _of(found, "tpot_error_percent"), "0.5", "0.1"]]


def together(asked: argparse.Namespace) -> tuple[Rounds, Rows]:
    """All streams ticking together. The floor that parses later shows what lag the machine itself has."""
    found = rounds_of([Floor(), FloorLate(), Ours()], asked, cpu=False, grid=True)
    floors = (Floor.name, FloorLate.name)
    limit = [[f"the same / {name}'s", median(ratios(found, "lag_us_p50", by=name)), None, None] for name in floors]
    return found, [
        ["lag p50 us, ticking together", _of(found, "lag_us_p50"), "60", "30"],
        *limit,
        ["lag p99 us, ticking together", _of(found, "lag_us_p99"), "1000", "300"],
    ]


SETTINGS = {"free": free, "four": four, "together": together}


def main() -> int:
    """Measure, print tables and the ratios that count."""
    arguments = parser(__doc__)
    arguments.add_argument("settings", nargs="*", help="free, four, together; all where none is named")
    arguments.add_argument("--requests", type=int, default=1280)
    asked = arguments.parse_args()
    chosen = asked.settings or list(SETTINGS)
    if unknown := set(chosen) - set(SETTINGS):
        arguments.error(f"{min(unknown)}: one of {', '.join(SETTINGS)} was expected")
    found: dict[str, Rounds] = {}
    rows: Rows = []
    for name in chosen:
        found[name], more = SETTINGS[name](asked)
        table(SETTINGS[name].__doc__ or name, found[name])
        rows += more
    show("ours", ["figure", "measured", "must be <=", "aim"], rows)
    finish(asked.json, {**found, "ours": rows})
    return 0


if __name__ == "__main__":
    raise SystemExit(main())

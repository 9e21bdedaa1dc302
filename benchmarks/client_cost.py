"""What the load client costs and how true it is, beside a bare epoll loop and the naive Locust clients.

    python -m benchmarks.client_cost [--repeats 5] [--streams 64] [--laps 10] [--json FILE]

Three schedules: 100 tokens at 10 ms after a TTFT of 50 ms; the same with four tokens a chunk; the same with all streams
ticking together. The clients take turns, and each figure is the median over the repeats; a ratio is the median of the
ratios within a repeat. Streams are started at once, so all requests of a lap are sent together: the hard case.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks._harness import (
    Client,
    Ran,
    Server,
    floor,
    machine,
    median,
    naive,
    ours,
    run_client,
    scratch_folder,
    show,
)

TOKENS = 100
SCHEDULES: dict[str, dict[str, Any]] = {
    "plain": {},
    "4 tokens a chunk": {"tokens_per_chunk": 4},
    "grid": {"grid": True},
}
Repeat = dict[tuple[str, str], Ran]
"""(schedule, client) -> its run, of one repeat."""


def repeat(streams: int, laps: int, schedules: Sequence[str], clients: Sequence[str]) -> Repeat:
    """Run each client once on each schedule."""
    found: Repeat = {}
    for schedule in schedules:
        with Server(**SCHEDULES[schedule]) as server, scratch_folder() as scratch:
            for client in clients:
                ran = run_client(_client(client, server, scratch, streams, streams * laps), server)
                if ran.accuracy is None:
                    raise SystemExit(
                        f"{client} on {schedule!r} failed with exit code {ran.exit_code}:\n{ran.output[-2000:]}"
                    )
                found[schedule, client] = ran
    return found


def _client(name: str, server: Server, scratch: Path, streams: int, requests: int) -> Client:
    if name == "ours":
        return ours(server, scratch, streams=streams, requests=requests, tokens=TOKENS)
    if name == "floor":
        return floor(server, scratch, streams=streams, requests=requests, tokens=TOKENS)
    return naive(server, scratch, kind=name.split()[1], streams=streams, requests=requests, tokens=TOKENS)


def ratio(repeats: Sequence[Repeat], schedule: str, figure: Callable[[Ran], float | None]) -> float | None:
    """The median over the repeats of ours / floor."""
    found: list[float | None] = []
    for one in repeats:
        mine, its = figure(one[schedule, "ours"]), figure(one[schedule, "floor"])
        found.append(mine / its if mine is not None and its else None)
    return median(found)


def _of(name: str) -> Callable[[Ran], float | None]:
    """A figure of a run's accuracy."""
    return lambda ran: getattr(ran.accuracy, name)


def must(repeats: Sequence[Repeat]) -> list[tuple[str, float | None, float]]:
    """(figure, what was measured, the most that it may be)."""

    def of(schedule: str, figure: Callable[[Ran], float | None]) -> float | None:
        return median([figure(one[schedule, "ours"]) for one in repeats])

    def tpot_error(ran: Ran) -> float | None:
        return abs(ran.accuracy.tpot_error_percent) if ran.accuracy else None

    return [
        ("CPU per chunk / floor", ratio(repeats, "plain", lambda ran: ran.cpu_us_per_chunk), 1.2),
        ("TTFT error p50 / floor", ratio(repeats, "plain", _of("ttft_error_ms_p50")), 1.5),
        ("TTFT error p99 / floor", ratio(repeats, "plain", _of("ttft_error_ms_p99")), 1.5),
        ("TPOT error, %", of("plain", tpot_error), 0.2),
        ("TPOT error with 4 tokens a chunk, %", of("4 tokens a chunk", tpot_error), 0.5),
        ("arrival lag p50, grid, us", of("grid", _of("lag_us_p50")), 60.0),
        ("arrival lag p99, grid, us", of("grid", _of("lag_us_p99")), 1000.0),
        ("start to first request, s", of("plain", lambda ran: ran.startup_s), 2.0),
        ("RSS, MB", of("plain", lambda ran: ran.rss_mib * 2**20 / 1e6), 150.0),
    ]


def tables(repeats: Sequence[Repeat]) -> str:
    """What was measured, as Markdown."""
    lines = [
        "| schedule | client | CPU us/chunk | TTFT error ms p50 / p99 | TPOT error % | lag us p50 / p99 "
        "| start-up s | RSS MB |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for schedule, client in repeats[0]:
        runs = [one[schedule, client] for one in repeats]
        seen = [ran.accuracy for ran in runs if ran.accuracy]

        def of(name: str, digits: int = 2, seen: list[Any] = seen) -> str:
            return show(median([getattr(one, name) for one in seen]), digits)

        cells = [
            schedule,
            client,
            show(median([ran.cpu_us_per_chunk for ran in runs]), 1),
            f"{of('ttft_error_ms_p50')} / {of('ttft_error_ms_p99')}",
            of("tpot_error_percent", 3),
            f"{of('lag_us_p50', 0)} / {of('lag_us_p99', 0)}",
            show(median([ran.startup_s for ran in runs])),
            show(median([ran.rss_mib * 2**20 / 1e6 for ran in runs]), 0),
        ]
        lines.append(f"| {' | '.join(cells)} |")
    lines += ["", "| figure of ours | measured | must | |", "| --- | --- | --- | --- |"]
    for name, value, limit in must(repeats):
        verdict = "-" if value is None else "reached" if value <= limit else "missed"
        lines.append(f"| {name} | {show(value)} | <= {limit:g} | {verdict} |")
    return "\n".join(lines)


def main() -> None:
    """Measure and print; exit code 0 whatever comes out."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--streams", type=int, default=64)
    parser.add_argument("--laps", type=int, default=10, help="requests of each stream")
    parser.add_argument("--without-naive", action="store_true", help="ours and the floor only")
    parser.add_argument("--json", type=Path, help="write every run's figures there")
    asked = parser.parse_args()
    naive_ones = [] if asked.without_naive else ["naive http", "naive fast"]
    before, repeats = machine(), []
    for number in range(asked.repeats):
        # Naive clients only on two of the schedules: lag on a grid is asked of ours.
        found = repeat(asked.streams, asked.laps, ["plain", "4 tokens a chunk"], ["floor", "ours", *naive_ones])
        found |= repeat(asked.streams, asked.laps, ["grid"], ["floor", "ours"])
        repeats.append(found)
        costs = {f"{s}, {c}": show(ran.cpu_us_per_chunk, 1) for (s, c), ran in found.items()}
        print(f"repeat {number + 1} of {asked.repeats}: CPU us/chunk {costs}", file=sys.stderr)
    print(f"{before}; at the end: {machine()}\n{asked.repeats} repeats, {asked.streams} streams, {asked.laps} laps\n")
    print(tables(repeats))
    if asked.json:
        rows = [
            {"repeat": number, "schedule": schedule, "client": client, "chunks": ran.chunks, "startup_s": ran.startup_s,
             "cpu_us_per_chunk": ran.cpu_us_per_chunk, "rss_mib": ran.rss_mib,
             "accuracy": asdict(ran.accuracy) if ran.accuracy else None}
            for number, one in enumerate(repeats)
            for (schedule, client), ran in one.items()
        ]  # fmt: skip
        asked.json.write_text(json.dumps({"machine": before, "runs": rows}, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()

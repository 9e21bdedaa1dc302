"""Error and cost of the load client beside the floor: 64 streams, 100 tokens at 10 ms, TTFT 50 ms, a role chunk first.

    python -m benchmarks.cost [--rounds 5] [--requests 640] [--json FILE]

Four settings, each against its own server: streams that run free; four tokens a chunk; all ticking together; and the
start of the process. Clients take turns within a round; medians of the rounds, and ratios within a round.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks._clients import Client, Floor, FloorOrjson, Job, Ours, marginal_cpu_us, measure
from benchmarks._harness import PacingServer, finish, median, parser, progress, show

STREAMS, TOKENS = 64, 100


def rounds_of(
    clients: Sequence[Client], *, rounds: int, requests: int, streams: int, cpu: bool, **schedule: Any
) -> dict[str, list[dict[str, float]]]:
    """Figures of every round by client, with the clients taking turns."""
    found: dict[str, list[dict[str, float]]] = {client.name: [] for client in clients}
    with tempfile.TemporaryDirectory() as scratch, PacingServer(**schedule) as server:
        for number in range(rounds):
            for client in clients:
                with progress(f"round {number + 1} of {rounds}, {client.name}"):
                    folder = Path(scratch) / f"{number}-{client.name.replace(' ', '-')}"
                    job = Job(server.port, streams, requests, TOKENS, folder)
                    out = measure(client, server, job)
                    seen = out.accuracy
                    if seen is None or out.told.ok != requests:
                        raise SystemExit(f"{client.name}: {out.told.ok} of {requests} ok\n{out.ran.output[-2000:]}")
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


def ratios(found: dict[str, list[dict[str, float]]], figure: str, name: str = "ours") -> list[float]:
    """A client's figure by the floor's, round by round."""
    pairs = zip(found[name], found["floor"], strict=True)
    return [ours[figure] / floor[figure] for ours, floor in pairs]


def table(title: str, found: dict[str, list[dict[str, float]]]) -> None:
    """Medians by client."""
    figures = list(next(iter(found.values()))[0])
    rows = [[name, *(median([row[figure] for row in rows]) for figure in figures)] for name, rows in found.items()]
    show(title, ["client", *figures], rows)


def main() -> int:
    """Measure, print tables and the ratios that count."""
    arguments = parser(__doc__)
    arguments.add_argument("--requests", type=int, default=640)
    asked = arguments.parse_args()
    same = {"rounds": asked.rounds, "requests": asked.requests, "streams": STREAMS}
    free = rounds_of([Floor(), FloorOrjson(), Ours()], **same, cpu=True)
    four = rounds_of([Floor(), Ours()], **same, cpu=False, tokens_per_chunk=4)
    together = rounds_of([Floor(), Ours()], **same, cpu=False, grid=True)
    table(f"{STREAMS} streams that run free", free)
    table("four tokens a chunk", four)
    table("all ticking together", together)

    def of(found: dict[str, list[dict[str, float]]], figure: str) -> float:
        return median([abs(row[figure]) for row in found["ours"]])

    rows = [
        ["CPU a chunk / floor's", median(ratios(free, "cpu_us_per_chunk")), "1.2", "0.8"],
        ["TTFT error p50 / floor's", median(ratios(free, "ttft_error_ms_p50")), "1.5", "1.1"],
        ["TTFT error p99 / floor's", median(ratios(free, "ttft_error_ms_p99")), "1.5", "1.1"],
        ["TPOT error %", of(free, "tpot_error_percent"), "0.2", "0.05"],
        ["TPOT error %, 4 tokens a chunk", of(four, "tpot_error_percent"), "0.5", "0.1"],
        ["lag p50 us, ticking together", of(together, "lag_us_p50"), "60", "30"],
        ["lag p99 us, ticking together", of(together, "lag_us_p99"), "1000", "300"],
        ["lag p50 / floor's, ticking together", median(ratios(together, "lag_us_p50")), None, None],
        ["lag p99 / floor's, ticking together", median(ratios(together, "lag_us_p99")), None, None],
        ["start to first request s", of(free, "start_s"), "2", "1"],
        ["RSS MiB", of(free, "rss_mib"), "150", "80"],
    ]
    show("ours", ["figure", "measured", "must be <=", "aim"], rows)
    finish(asked.json, {"free": free, "four_tokens_a_chunk": four, "together": together, "ours": rows})
    return 0


if __name__ == "__main__":
    raise SystemExit(main())

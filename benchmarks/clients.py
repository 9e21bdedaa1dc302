"""The load client beside the floor, naive Locust scripts and the peers that are installed: error, cost, and faults.

    python -m benchmarks.clients [--rounds 5] [--peers DIR] [--json FILE]

64 streams, 100 tokens at 10 ms, TTFT 50 ms, a role chunk first, closed loop, server and client on a core each. Peers
are looked for in DIR/vllm, DIR/evalscope, DIR/aiperf, DIR/guidellm (a virtual environment each); DIR is also taken from
ENGINEBENCH_PEERS. Absent ones are named as absent. What each does with the faults is asked with 4 requests a fault.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks._clients import Client, Floor, Job, NaiveFast, NaiveHttp, Ours, Outcome, marginal_cpu_us, measure
from benchmarks._harness import PacingServer, finish, median, parser, progress, show
from benchmarks._peers import PEERS, Peer

STREAMS, TOKENS = 64, 100
FAULTS = (
    "in_band_error", "empty", "abort", "reset", "no_finish_reason", "finish_null", "bad_json", "usage_zero", "encoded",
    "rate_limited",
)  # fmt: skip
VARIANTS = ("crlf", "pings", "close_delimited", "no_done", "split")
FAULT_REQUESTS = 4


def clients(peers: Path | None) -> tuple[list[Client], list[str]]:
    """All that are here, and the names of those that are not."""
    found: list[Client] = [Floor(), Ours(), NaiveHttp(), NaiveFast()]
    absent = []
    for kind in PEERS:
        venv = peers / kind.package if peers else None
        if venv is not None and (venv / "bin" / kind.package).exists():
            found.append(kind(venv))
        else:
            absent.append(kind.name)
    return found, absent


def figures(out: Outcome) -> dict[str, float]:
    """What a client reported beside what was true; from its requests, or from its own summary."""
    truth = [row for row in out.truth["requests"] if row["finished"]]
    true_ttft = sorted((row["first_ns"] - row["received_ns"]) / 1e6 for row in truth)
    true_tpot = [(row["last_ns"] - row["first_ns"]) / 1e6 / (row["tokens"] - 1) for row in truth if row["tokens"] > 1]
    rank = min(len(true_ttft) - 1, round(0.99 * (len(true_ttft) - 1)))
    found = {
        "ttft_true_ms_p50": median(true_ttft),
        "ttft_true_ms_p99": true_ttft[rank],
        "tpot_true_ms_p50": median(true_tpot),
    }
    if out.accuracy is not None:
        found |= {name: getattr(out.accuracy, name) for name in ("ttft_ms_p50", "ttft_ms_p99", "tpot_ms_p50")}
    else:
        nothing = dict.fromkeys(("ttft_ms_p50", "ttft_ms_p99", "tpot_ms_p50"), float("nan"))
        found |= {**nothing, **(out.told.summary or {})}
    return found


def error_and_cost(
    found: Sequence[Client], *, rounds: int, requests: int, tokens_per_chunk: int, cpu: bool
) -> dict[str, list[dict[str, float]]]:
    """Every client, round by round."""
    rows: dict[str, list[dict[str, float]]] = {client.name: [] for client in found}
    with tempfile.TemporaryDirectory() as scratch, PacingServer(tokens_per_chunk=tokens_per_chunk) as server:
        for number in range(rounds):
            for client in found:
                with progress(f"round {number + 1} of {rounds}, {client.name}"):
                    folder = Path(scratch) / f"{number}-{type(client).__name__}"
                    job = Job(server.port, STREAMS, requests, TOKENS, folder)
                    out = measure(client, server, job)
                    if not out.chunks:
                        raise SystemExit(f"{client.name}: no request arrived\n{out.ran.output[-3000:]}")
                    cost = marginal_cpu_us(client, server, job, out) if cpu else float("nan")
                    start = out.start_s if out.start_s is not None else float("nan")
                    rows[client.name].append(
                        {"cpu_us_per_chunk": cost, **figures(out), "start_s": start, "rss_mib": out.ran.rss_mib}
                    )
    return rows


def faults(found: Sequence[Client]) -> dict[str, dict[str, str]]:
    """What each client says of each fault: how many of the requests were answered well."""
    told: dict[str, dict[str, str]] = {}
    with tempfile.TemporaryDirectory() as scratch:
        for fault in (*FAULTS, *VARIANTS):
            told[fault] = {}
            for client in found:
                if isinstance(client, Floor):
                    continue
                # The server's own setting, so that every client can ask without fields of its own.
                with progress(f"{fault}, {client.name}"), PacingServer(fault=fault) as server:
                    folder = Path(scratch) / f"{fault}-{type(client).__name__}"
                    out = measure(client, server, Job(server.port, 2, FAULT_REQUESTS, 10, folder, timeout_s=90))
                    told[fault][client.name] = words(out)
    return told


def words(out: Outcome) -> str:
    """`4 ok`, `4 failed`, or that it came to no result."""
    if not out.told.ok and not out.told.failed:
        return "no result"
    parts = [f"{n} {word}" for n, word in ((out.told.ok, "ok"), (out.told.failed, "failed")) if n]
    return ", ".join(parts)


def main() -> int:
    """Measure, and print three tables."""
    arguments = parser(__doc__)
    arguments.add_argument("--requests", type=int, default=640)
    arguments.add_argument("--peers", type=Path, default=os.environ.get("ENGINEBENCH_PEERS"))
    arguments.add_argument("--no-faults", action="store_true")
    asked = arguments.parse_args()
    found, absent = clients(asked.peers)
    versions = {client.name: client.version() for client in found if isinstance(client, Peer)}
    same: dict[str, Any] = {"rounds": asked.rounds, "requests": asked.requests}
    one = error_and_cost(found, **same, tokens_per_chunk=1, cpu=True)
    four = error_and_cost(found, **{**same, "rounds": 1}, tokens_per_chunk=4, cpu=False)
    told = {} if asked.no_faults else faults(found)
    table = []
    for name, rows in one.items():
        middle = {figure: median([row[figure] for row in rows]) for figure in rows[0]}
        ratio = median([a["cpu_us_per_chunk"] / b["cpu_us_per_chunk"] for a, b in zip(rows, one["floor"], strict=True)])
        table.append([
            f"{name} {versions.get(name, '')}".strip(), middle["cpu_us_per_chunk"], ratio,
            f"{middle['ttft_ms_p50']:.1f} / {middle['ttft_ms_p99']:.1f}",
            f"{middle['ttft_true_ms_p50']:.1f} / {middle['ttft_true_ms_p99']:.1f}",
            f"{middle['tpot_ms_p50']:.3f}", f"{middle['tpot_true_ms_p50']:.3f}",
            f"{four[name][0]['tpot_ms_p50']:.3f}", f"{four[name][0]['tpot_true_ms_p50']:.3f}",
            middle["start_s"], round(middle["rss_mib"]),
        ])  # fmt: skip
    show("Error and cost", [
        "client", "CPU us/chunk", "/ floor", "TTFT ms p50 / p99", "true", "TPOT ms", "true",
        "TPOT ms, 4 tokens a chunk", "true", "start-up s", "RSS MiB",
    ], table)  # fmt: skip
    names = [client.name for client in found if not isinstance(client, Floor)]
    if told:
        show(f"What each makes of {FAULT_REQUESTS} requests that fail", ["fault", *names],
             [[fault, *(told[fault][name] for name in names)] for fault in FAULTS])  # fmt: skip
        show(f"... and of {FAULT_REQUESTS} unusual but good answers", ["variant", *names],
             [[fault, *(told[fault][name] for name in names)] for fault in VARIANTS])  # fmt: skip
    if absent:
        print(f"\nabsent: {', '.join(absent)}")
    finish(asked.json, {"one": one, "four": four, "faults": told, "absent": absent, "versions": versions})
    return 0


if __name__ == "__main__":
    raise SystemExit(main())

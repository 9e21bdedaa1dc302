"""How late requests of a trace go out, by rate, on one core; beside a bare loop that sleeps to the same times.

    python -m benchmarks.trace_arrivals [--rates 50,200,500] [--seconds 10] [--workers 1] [--rounds 3]

Poisson arrivals as a trace's prompts, answers of 16 tokens from the pacing server on another core. The start error is
`sent_ns` - `scheduled_ns` of each record; the server's own clock (the same host's) says when it had read each request.
The bare loop is what the machine allows just then. Must: p99 below 5 ms up to 500 requests/s.
"""

from __future__ import annotations

import random
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks._harness import ROOT, PacingServer, finish, median, parser, progress, run, show
from records import read_json, read_records
from workloads import write_prompts
from workloads.trace_prompts import trace_prompts
from workloads.traces import Arrival, Trace

TOKENS = 16
WARMUP = 256
START_CPU_S = 1.0
"""CPU time in which a load process starts and ends without any request, about."""
BARE = """
import sys, time
begin = time.monotonic_ns() + 200_000_000
for line in sys.stdin:
    due = begin + int(float(line) * 1e9)
    while (left := due - time.monotonic_ns()) > 0:
        time.sleep(left / 1e9)
    print(time.monotonic_ns() - due)
"""


def arrivals(rate: float, seconds: float, seed: int) -> list[float]:
    """Times of Poisson arrivals, in seconds."""
    rng = random.Random(seed)
    times, at = [], 0.0
    while at < seconds:
        times.append(at)
        at += rng.expovariate(rate)
    return times


def errors_ms(values: Sequence[float]) -> dict[str, float]:
    p50, p99 = np.percentile(values, [50, 99])
    return {"p50": float(p50), "p99": float(p99), "most": float(max(values))}


def bare(times: Sequence[float], folder: Path) -> dict[str, float]:
    """The errors of a loop that does nothing but sleep, on the client's core."""
    source, fed = folder / "bare.py", folder / "times"
    source.write_text(BARE)
    fed.write_text("".join(f"{at}\n" for at in times))
    done = run(["bash", "-c", f"{sys.executable} {source} < {fed}"], watch=False)
    return errors_ms([int(line) / 1e6 for line in done.output.split()])


def ours(times: Sequence[float], workers: int, folder: Path) -> dict[str, Any]:
    """Replay the times with the real load; returns start errors and what went wrong."""
    trace = Trace("made", tuple(Arrival(at, 32, TOKENS) for at in times), 0)
    prompts = folder / "prompts.jsonl"
    write_prompts(prompts, trace_prompts("t", trace, seed=1, speed=1.0, warmup=8, cap=None))
    with PacingServer(ttft_ms=20, interval_ms=5) as server:
        argv = [sys.executable, "-m", "locust", "-f", str(ROOT / "locustfiles/open_loop.py"), "--headless"]
        argv += ["--host", server.url, "--prompts", str(prompts), "--arrivals", "trace", "--users", "256"]
        argv += ["--capture-dir", str(folder / "out"), "--warmup", str(WARMUP)]
        argv += ["--processes", str(workers)] if workers > 1 else []
        done = run(argv)
        received = sorted(row["received_ns"] for row in server.report()["requests"])
    records = [record for record in read_records(folder / "out" / "requests.jsonl") if record.measured]
    scenario = read_json(folder / "out" / "scenario.json")
    due = sorted(record.scheduled_ns or 0 for record in records)
    late = [((record.sent_ns or 0) - (record.scheduled_ns or 0)) / 1e6 for record in records]
    # The warm-up came before all others.
    reached = [(at - then) / 1e6 for at, then in zip(received[-len(due) :], due, strict=True)]
    return {
        "code": done.code,
        "lost": len(times) - sum(record.ok for record in records),
        "late_sends": scenario["client"]["late_sends"],
        "sent": errors_ms(late),
        "read": errors_ms(reached),
        "cpu": done.cpu_s / done.wall_s,
        "cpu_ms_each": (done.cpu_s - START_CPU_S) * 1000 / (len(times) + WARMUP),
    }


def main() -> None:
    asked = parser(__doc__)
    asked.add_argument("--rates", default="50,200,500")
    asked.add_argument("--seconds", type=float, default=10.0)
    asked.add_argument("--workers", type=int, default=1)
    options = asked.parse_args()
    rows = []
    for rate in map(float, options.rates.split(",")):
        rounds = []
        for number in range(options.rounds):
            times = arrivals(rate, options.seconds, number)
            with tempfile.TemporaryDirectory() as scratch, progress(f"{rate:g} requests/s, round {number + 1}"):
                folder = Path(scratch)
                rounds.append({"n": len(times), "bare": bare(times, folder), **ours(times, options.workers, folder)})
        rows.append(
            {
                "rate": rate,
                "n": sum(one["n"] for one in rounds),
                "lost": sum(one["lost"] for one in rounds),
                "late_sends": sum(one["late_sends"] for one in rounds),
                **{
                    f"{what}_{name}": median([one[what][name] for one in rounds])
                    for what in ("sent", "read", "bare")
                    for name in ("p50", "p99", "most")
                },
                "sent_p99_least": min(one["sent"]["p99"] for one in rounds),
                "cpu": median([one["cpu"] for one in rounds]),
                "cpu_ms_each": median([one["cpu_ms_each"] for one in rounds]),
            }
        )
    columns = {
        "requests/s": "rate", "n": "n", "lost": "lost", "late": "late_sends", "sent p50": "sent_p50",
        "sent p99": "sent_p99", "best round": "sent_p99_least", "sent most": "sent_most", "read p99": "read_p99",
        "bare p50": "bare_p50", "bare p99": "bare_p99", "cores used": "cpu",
        "CPU ms each": "cpu_ms_each",
    }  # fmt: skip
    title = f"Start error in ms, medians of {options.rounds} rounds, {options.workers} load process(es)"
    show(title, list(columns), [[row[name] for name in columns.values()] for row in rows])
    finish(options.json, {"trace_arrivals": rows})


if __name__ == "__main__":
    main()

"""How far the load client goes on one core, beside the floor and HttpUser.

    python -m benchmarks.client_limits [rate] [memory] [open] [send] [--chunks 1000000] [--open 2000] [--rounds 3]

- rate: chunks a second, raised stream by stream; a step holds while nothing is lost, the server was on time and the p99
  of TTFT's error is at most twice the floor's of the same step. Must: 28,000.
- memory: growth of RSS from the first tenth to the end of a run that captures a million chunks. Must: 100 MB.
- open: streams open at once at a token a second each. Must: 2,000.
- send: from the client's `sent` stamp to the moment at which the server had read the request, one stream, prompts of
  0.4 KB and 32 KB, beside HttpUser (stamped before its `post()`, which also builds the request). Must: 0.3 x.
"""

from __future__ import annotations

import json
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import psutil

from benchmarks._clients import Client, Floor, Job, NaiveHttp, Ours, Outcome, measure
from benchmarks._harness import PacingServer, finish, median, parser, progress, show

RATE_STREAMS = (128, 192, 256, 320, 384, 448, 512, 576, 640)
TOKENS, INTERVAL_MS, TTFT_MS = 100, 10, 50
PROMPT_BYTES = (400, 32_000)


def rate(rounds: int) -> list[dict[str, Any]]:
    """Raise the number of streams until a step does not hold; one row a step."""
    found: list[dict[str, Any]] = []
    with PacingServer(ttft_ms=TTFT_MS, interval_ms=INTERVAL_MS) as server, tempfile.TemporaryDirectory() as scratch:
        for streams in RATE_STREAMS:
            steps = []
            for number in range(rounds):
                outs = {}
                for client in (Floor(), Ours()):
                    with progress(f"rate: {streams} streams, {client.name}"):
                        folder = Path(scratch) / f"{streams}-{number}-{client.name}"
                        outs[client.name] = measure(
                            client, server, Job(server.port, streams, streams * 4, TOKENS, folder)
                        )
                steps.append(_step(streams, outs["floor"], outs["ours"]))
            row = {name: median([step[name] for step in steps]) for name in steps[0]}
            row["holds"] = row["lost"] == 0 and row["ttft_error_p99_by_floor"] <= 2
            found.append(row)
            if not row["holds"]:
                break
    return found


def _step(streams: int, floor: Outcome, ours: Outcome) -> dict[str, Any]:
    rows = ours.truth["requests"]
    # While they run: the schedule's own rate, and what really came in over the whole run.
    whole_s = (max(row["last_ns"] for row in rows) - min(row["received_ns"] for row in rows)) / 1e9
    mine, its = ours.accuracy, floor.accuracy
    return {
        "streams": streams,
        "chunks_a_second": ours.chunks / whole_s,
        "lost": streams * 4 - ours.told.ok + ours.truth["stalled"],
        "ttft_error_ms_p99": mine.ttft_error_ms_p99 if mine else float("nan"),
        "floor_ttft_error_ms_p99": its.ttft_error_ms_p99 if its else float("nan"),
        "ttft_error_p99_by_floor": mine.ttft_error_ms_p99 / its.ttft_error_ms_p99 if mine and its else float("nan"),
        "server_late_ms_p99": mine.server_late_ms_p99 if mine else float("nan"),
    }


def memory(chunks: int) -> dict[str, Any]:
    """RSS over a run of so many chunks, 64 streams of 250 tokens at 4 ms."""
    tokens, streams = 250, 64
    with PacingServer(ttft_ms=10, interval_ms=4) as server, tempfile.TemporaryDirectory() as scratch:
        job = Job(server.port, streams, -(-chunks // tokens), tokens, Path(scratch) / "ours", timeout_s=550)
        watch = _Rss(job.folder / "requests.jsonl")
        watch.start()
        with progress(f"memory: {chunks} chunks"):
            out = measure(Ours(), server, job)
        watch.over.set()
        watch.join()
    samples = watch.samples
    early = samples[len(samples) // 10][1] if samples else float("nan")
    return {
        "chunks": out.chunks,
        "ok": out.told.ok,
        "rss_mb_after_a_tenth": early,
        "rss_mb_most_in_last_tenth": max(
            (rss for _, rss in samples[-max(1, len(samples) // 10) :]), default=float("nan")
        ),
        "growth_mb": (max(rss for _, rss in samples[len(samples) // 10 :]) - early) if samples else float("nan"),
    }


class _Rss(threading.Thread):
    """Memory of the process that captures into a folder, from its first record on."""

    def __init__(self, capture: Path) -> None:
        super().__init__(daemon=True)
        self.samples: list[tuple[float, float]] = []
        self.over = threading.Event()
        self._capture = capture

    def run(self) -> None:
        process: psutil.Process | None = None
        while not self.over.wait(0.1):
            if process is None:
                process = self._find() if self._capture.exists() and self._capture.stat().st_size else None
                continue
            try:
                self.samples.append((time.monotonic(), process.memory_info().rss / 1e6))
            except psutil.Error:
                return

    def _find(self) -> psutil.Process | None:
        for child in psutil.Process().children():
            if str(self._capture.parent) in child.cmdline():
                return child
        return None


def open_at_once(streams: int) -> dict[str, Any]:
    """So many streams of ten tokens, one a second."""
    with (
        PacingServer(ttft_ms=1000, interval_ms=1000) as server,
        tempfile.TemporaryDirectory() as scratch,
        progress(f"open: {streams} streams"),
    ):
        out = measure(Ours(), server, Job(server.port, streams, streams, 10, Path(scratch) / "ours"))
    seen = out.accuracy
    return {
        "streams": streams,
        "most_open": out.truth["most_open"],
        "ok": out.told.ok,
        "failed": out.told.failed,
        "ttft_error_ms_p50": seen.ttft_error_ms_p50 if seen else float("nan"),
        "ttft_error_ms_p99": seen.ttft_error_ms_p99 if seen else float("nan"),
        "lag_us_p99": seen.lag_us_p99 if seen else float("nan"),
        "rss_mb": out.ran.rss_mib * 2**20 / 1e6,
    }


def send(rounds: int) -> list[dict[str, Any]]:
    """Send overhead of ours and of HttpUser, in turns."""
    found = []
    with PacingServer(ttft_ms=2, interval_ms=1) as server, tempfile.TemporaryDirectory() as scratch:
        for size in PROMPT_BYTES:
            prompts = Path(scratch) / f"p{size}.jsonl"
            texts = [f"{number} " + "x " * (size // 2) for number in range(100)]
            prompts.write_text(
                "".join(json.dumps({"prompt_id": str(n), "prompt": t}) + "\n" for n, t in enumerate(texts))
            )
            makers: list[Callable[[], Client]] = [lambda: Ours("--prompts", str(prompts)), lambda: NaiveHttp(size)]  # noqa: B023
            costs: dict[str, list[float]] = {}
            for number in range(rounds):
                for make in makers:
                    client = make()
                    with progress(f"send: {size} bytes, {client.name}"):
                        folder = Path(scratch) / f"{size}-{number}-{client.name.split()[0]}"
                        out = measure(client, server, Job(server.port, 1, 100, 3, folder))
                    costs.setdefault(client.name, []).append(_send_us(out))
            mine, its = costs["ours"], costs[NaiveHttp.name]
            ratio = median([a / b for a, b in zip(mine, its, strict=True)])
            found.append({"prompt_bytes": size, "ours_us": median(mine), "http_user_us": median(its), "ratio": ratio})
    return found


def _send_us(out: Outcome) -> float:
    received = {row["first_ns"]: row["received_ns"] for row in out.truth["requests"]}
    return float(np.median([(received[one.stamps[0]] - one.sent_ns) / 1e3 for one in out.told.seen or []]))


def main() -> int:
    """Measure what was asked for."""
    arguments = parser(__doc__)
    arguments.add_argument("what", nargs="*", help="rate, memory, open, send; all where none is named")
    arguments.add_argument("--chunks", type=int, default=1_000_000)
    arguments.add_argument("--open", type=int, default=2000)
    asked = arguments.parse_args()
    what = set(asked.what) or {"rate", "memory", "open", "send"}
    if unknown := what - {"rate", "memory", "open", "send"}:
        arguments.error(f"{min(unknown)}: rate, memory, open or send was expected")
    figures: dict[str, Any] = {}
    if "send" in what:
        figures["send"] = _table("send overhead; must be <= 0.3 x HttpUser", send(asked.rounds))
    if "open" in what:
        figures["open"] = _table("streams open at once; must 2,000", [open_at_once(asked.open)])
    if "rate" in what:
        figures["rate"] = _table("chunks a second; must >= 28,000", rate(asked.rounds))
    if "memory" in what:
        figures["memory"] = _table("memory; must grow <= 100 MB", [memory(asked.chunks)])
    finish(asked.json, figures)
    return 0


def _table(title: str, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    show(title, list(rows[0]), [list(row.values()) for row in rows])
    return rows


if __name__ == "__main__":
    raise SystemExit(main())

"""Records lost when a distributed run is stopped: every answer that the server finished must be in requests.jsonl.

    python -m benchmarks.distributed_stops [--stops 5] [--kinds sigterm,ctrl-c,run-time,requests,button] [--seed 1]

One master and two workers (`--processes 2`), eight streams. Kinds: `sigterm` to the master in the middle, SIGINT to
the whole process group as a terminal sends it (`ctrl-c`), Locust's own `-t`, `--requests` reached, and the stop
button of the web UI. The server's log says what was answered; a request is found again by its first chunk's send
stamp, which is in the record's text. Must be 0 (issue: 50 stops of each kind).
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks._harness import ROOT, PacingServer, machine
from records import read_records

KINDS = ("sigterm", "ctrl-c", "run-time", "requests", "button")
STREAMS, TOKENS, REQUESTS = 8, 20, 60
PROBLEM_S = 40.0


@dataclass(frozen=True, slots=True)
class Stop:
    """How one stop came out. `lost`: answered in full by the server, and not in the records as such."""

    answered: int
    recorded: int
    lost: int
    note: str = ""


def stop_once(kind: str, server: PacingServer, folder: Path, after_s: float) -> Stop:
    """Start a distributed run, stop it in one way, and count."""
    server.report()
    argv = [sys.executable, "-m", "locust", "-f", str(ROOT / "locustfiles" / "closed_loop.py"), "--processes", "2"]
    argv += ["-u", str(STREAMS), "--host", server.url, "--max-tokens", str(TOKENS), "--capture-dir", str(folder)]
    port = str(_free_port())
    argv += ["--model", "pacing", "--master-bind-port", port, "--master-port", port]
    argv += ["--requests", str(REQUESTS if kind == "requests" else 1_000_000)]
    web_port = _free_port()
    if kind == "button":
        argv += ["--autostart", "--web-host", "127.0.0.1", "--web-port", str(web_port)]
    else:
        argv += ["--headless"]
    argv += ["-t", f"{4 + int(3 * after_s)}s"] if kind == "run-time" else []
    with (folder / "locust.log").open("w") as log:
        process = subprocess.Popen(
            argv, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
        )
        note = ""
        try:
            if kind in ("sigterm", "ctrl-c", "button"):
                _wait_for_load(folder)
                time.sleep(after_s)
            if kind == "sigterm":
                process.send_signal(signal.SIGTERM)
            if kind == "ctrl-c":
                os.killpg(process.pid, signal.SIGINT)
            if kind == "button":
                with urllib.request.urlopen(f"http://127.0.0.1:{web_port}/stop", data=b"", timeout=30) as response:
                    response.read()
                _wait_for_end(folder)
                process.send_signal(signal.SIGTERM)
            process.wait(PROBLEM_S)
        except (subprocess.TimeoutExpired, TimeoutError, OSError) as error:
            note = f"{type(error).__name__}: {error}"[:120]
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    return compare(server.report(), folder / "requests.jsonl", note)


def compare(report: Mapping[str, Any], path: Path, note: str = "") -> Stop:
    """Hold the server's log against the records; a request's first send stamp is the first word of its text."""
    answered = {row["first_ns"] for row in report["requests"] if row["finished"]}
    records = list(read_records(path)) if path.exists() else []
    recorded = {int(record.text.split(None, 1)[0]) for record in records if record.ok and record.text}
    if not answered and not note:
        note = "nothing was answered"
    return Stop(len(answered), len(recorded), len(answered - recorded), note)


def _wait_for_load(folder: Path) -> None:
    """Until the first record is there.

    Raises:
        TimeoutError: there is none within a minute.
    """
    end = time.monotonic() + PROBLEM_S
    path = folder / "requests.jsonl"
    while not (path.exists() and path.stat().st_size):
        if time.monotonic() > end:
            raise TimeoutError("no first record")
        time.sleep(0.05)


def _wait_for_end(folder: Path) -> None:
    """Until scenario.json tells an end.

    Raises:
        TimeoutError: it does not within a minute.
    """
    end = time.monotonic() + PROBLEM_S
    path = folder / "scenario.json"
    while not path.exists() or b'"ended_utc": "' not in path.read_bytes():
        if time.monotonic() > end:
            raise TimeoutError("scenario.json tells no end")
        time.sleep(0.05)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def main() -> int:
    """Stop and count; exit code 1 if anything was lost."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--stops", type=int, default=5, help="of each kind")
    parser.add_argument("--kinds", default=",".join(KINDS))
    parser.add_argument("--seed", type=int, default=1, help="of the moments at which it is stopped")
    asked = parser.parse_args()
    # A shell has what it runs in the background ignore SIGINT, and so would the load.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    kinds = asked.kinds.split(",")
    if unknown := set(kinds) - set(KINDS):
        parser.error(f"--kinds: {', '.join(sorted(unknown))} is none of {', '.join(KINDS)}")
    moment = random.Random(asked.seed)
    print(", ".join(f"{name} {value}" for name, value in machine().items()))
    print("| stop | stops | answered | recorded | lost | trouble |\n| --- | --- | --- | --- | --- | --- |")
    lost = troubles = 0
    with PacingServer(ttft_ms=30, interval_ms=5) as server, tempfile.TemporaryDirectory() as scratch:
        for kind in kinds:
            stops = []
            for _ in range(asked.stops):
                folder = Path(tempfile.mkdtemp(prefix=f"{kind}-", dir=scratch))
                stops.append(stop_once(kind, server, folder, moment.uniform(0.0, 1.0)))
            notes = sorted({stop.note for stop in stops if stop.note})
            sums = [sum(getattr(stop, name) for stop in stops) for name in ("answered", "recorded", "lost")]
            print(f"| {kind} | {len(stops)} | {' | '.join(map(str, sums))} | {'; '.join(notes) or '-'} |", flush=True)
            lost, troubles = lost + sums[2], troubles + len(notes)
    return 1 if lost or troubles else 0


if __name__ == "__main__":
    sys.exit(main())

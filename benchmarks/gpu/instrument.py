"""Instrument against engine: TPOT as measured here beside the engine's own timings, cell by cell, from the records.

    python benchmarks/gpu/instrument.py RUN_FOLDER...

llama.cpp's `predicted_ms` runs from the first token and is divided by n, so its time for a token is
predicted_ms / (n - 1).
"""

from __future__ import annotations

import statistics
import sys
from pathlib import Path

from records import CellFolder, read_json, read_records


def dated_by(cell: CellFolder) -> str:
    """Who dated the arrivals of a cell's chunks: the kernel, the client's read, or both."""
    client = read_json(cell.scenario).get("client") or {}
    return str(client.get("arrival_stamps") or "read")


def main() -> None:
    """Print a line for each cell of a run."""
    head = f"{'engine':14} {'round':>5} {'cell':28} {'n':>3} {'TPOT us':>8} {'server':>8} {'ratio':>8}"
    print(f"{head} {'TTFT p50':>9} dated by")
    for run in map(Path, sys.argv[1:]):
        for path in sorted(run.glob("*/r*/*/requests.jsonl")):
            ours, ratios, theirs, ttft = [], [], [], []
            for record in read_records(path):
                n, timings = record.completion_tokens, record.server_timings or {}
                if not record.ok or not record.measured or not n or n < 2 or not timings.get("predicted_ms"):
                    continue
                if record.first_token_ns is None or record.last_token_ns is None or record.sent_ns is None:
                    continue
                tpot = (record.last_token_ns - record.first_token_ns) / 1e6 / (n - 1)
                server = timings["predicted_ms"] / (timings["predicted_n"] - 1)
                ours.append(tpot)
                theirs.append(server)
                ratios.append(tpot / server)
                ttft.append((record.first_token_ns - record.sent_ns) / 1e6)
            if ours:
                cell, life, engine = path.parent.name, path.parent.parent.name, path.parent.parent.parent.name
                print(
                    f"{engine:14} {life:>5} {cell:28} {len(ours):3} {statistics.median(ours) * 1e3:8.1f} "
                    f"{statistics.median(theirs) * 1e3:8.1f} {statistics.median(ratios):8.5f} "
                    f"{statistics.median(ttft):9.1f} {dated_by(CellFolder(path.parent))}"
                )


if __name__ == "__main__":
    main()

"""Where the time of a run went, from its folder: what `--time` pays for beside the measuring.

    python -m benchmarks.run_time RUN [RUN ...]

Seconds of each stage over all engine processes. `load process` is the start and end of each cell's `locust`. In the
`last answers` of a cell no request begins, and those in flight end.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from datetime import datetime
from pathlib import Path

from records import RoundFolder, RunFolder, read_json, read_records

STAGES = ("start", "read-back and probe", "load process", "warm-up", "measuring", "last answers", "stop")


def stages_of(folder: RoundFolder) -> dict[str, float]:
    """Seconds of each stage of one engine process whose cells are complete."""
    process = read_json(folder.engine_json)
    began, ready_s = _seconds(process["started_utc"]), float(process["ready_s"])
    spent = defaultdict(float, {"start": ready_s})
    free, stage = began + ready_s, "read-back and probe"
    for cell in sorted(folder.cells(), key=lambda cell: str(read_json(cell.scenario)["started_utc"])):
        scenario = read_json(cell.scenario)
        starts, ends = _seconds(scenario["started_utc"]), _seconds(scenario["ended_utc"])
        first_ns = min(record.sent_ns for record in read_records(cell.requests) if record.sent_ns is not None)
        warm_up = max((scenario["measure_start_ns"] - first_ns) / 1e9, 0.0)
        measuring = (scenario["measure_end_ns"] - scenario["measure_start_ns"]) / 1e9
        # The first load process of an engine starts behind its probe; the two are not told apart.
        spent[stage] += starts - free
        spent["warm-up"] += warm_up
        spent["measuring"] += measuring
        spent["last answers"] += max(ends - starts - warm_up - measuring, 0.0)
        free, stage = ends, "load process"
    spent["stop"] += max(_seconds(process["stopped_utc"]) - free, 0.0)
    return spent


def _seconds(utc: str) -> float:
    return datetime.fromisoformat(utc).timestamp()


def main() -> None:
    """Print a table of stages for each run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="+", type=Path)
    for path in parser.parse_args().runs:
        run = RunFolder(path)
        manifest = read_json(run.manifest)
        engines = [section["name"] for section in manifest["profile"]["engines"]]
        processes = [stages_of(folder) for engine in engines for folder in run.rounds(engine)]
        spent = {stage: sum(process[stage] for process in processes) for stage in STAGES}
        whole = sum(spent.values())
        print(f"{run.run_id}: {len(processes)} engine processes, {manifest.get('took_s', whole):.0f} s")
        for stage in STAGES:
            print(f"  {stage:20} {spent[stage]:6.1f} s {spent[stage] / whole:6.1%}")


if __name__ == "__main__":
    main()

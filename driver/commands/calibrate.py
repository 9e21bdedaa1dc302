"""`calibrate`: measures the load client's error and cost on this host, against a server with a known schedule."""

from __future__ import annotations

import json
import os
import tempfile
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from driver.errors import BenchError, ExitCode
from driver.options import shared
from records.wording import count

if TYPE_CHECKING:
    from driver.calibration import Row
    from engines.pacing import Pacing

READY_S = 30.0


@click.command(name="calibrate", short_help="Is the load client on this host exact and cheap enough?")
@click.option("--streams", default="1,8,64,256", show_default=True, help="Numbers of streams, with commas.")
@click.option("--seconds", type=click.FloatRange(0.5, 600), default=4.0, show_default=True, help="For each number.")
@click.option("--ttft-ms", type=click.FloatRange(0, 60_000), default=50.0, show_default=True)
@click.option("--interval-ms", type=click.FloatRange(0.1, 60_000), default=10.0, show_default=True)
@click.option("--tokens", type=click.IntRange(2, 100_000), default=100, show_default=True, help="Of each answer.")
@click.option("--tokens-per-chunk", type=click.IntRange(1, 64), default=1, show_default=True)
@click.option("--together", is_flag=True, help="All streams tick at the same instants: the hardest case.")
@shared.as_json("the figures")
def command(streams: str, seconds: float, as_json: bool, together: bool, **schedule: Any) -> int:
    """Run the load client against a built-in server that logs its send times, and show the client's error and cost.

    Server and client each run on their own core, if there are two. TTFT's error is reported minus true per request, p50
    and p99. Lag is from the server's send to the client's stamp, for every chunk. The exit code is always 0.
    """
    from driver.calibration import verdict
    from engines import EngineConfig, EngineError, create, running

    counts = _counts(streams)
    server_core, client_core = _cores()
    engine: Any = create(EngineConfig("pacing", "pacing", options={**schedule, "grid": together, "stamps": True}))
    rows: list[Row] = []
    with tempfile.TemporaryDirectory(prefix="enginebench-calibrate-") as scratch, ExitStack() as stack:
        from driver.run.pinning import pinned

        try:
            with pinned(server_core):
                stack.enter_context(running(engine, Path(scratch) / "server.log", ready_timeout_s=READY_S))
        except EngineError as error:
            raise BenchError(str(error)) from None
        for number in counts:
            click.echo(f"{count(number, 'stream')} ...", err=True)
            rows.append(_measure(engine, number, seconds, Path(scratch) / str(number), client_core))
    words = verdict(rows)
    if as_json:
        result = {"schedule": {**schedule, "grid": together}, "rows": [asdict(row) for row in rows], "verdict": words}
        click.echo(json.dumps(result, indent=2))
    else:
        _show(rows)
        click.echo(f"verdict: {words}")
    return int(ExitCode.DONE)


def _counts(streams: str) -> list[int]:
    try:
        counts = [int(number) for number in streams.split(",")]
    except ValueError:
        counts = []
    if not counts or min(counts) < 1:
        raise BenchError(f"--streams {streams}: numbers above 0 with commas were expected", ExitCode.USAGE)
    return sorted(counts)


def _cores() -> tuple[str | None, str | None]:
    """A core for the server and another for the client; (None, None) if there is only one core."""
    cores = sorted(os.sched_getaffinity(0))
    return (str(cores[0]), str(cores[1])) if len(cores) > 1 else (None, None)


def _measure(engine: Pacing, streams: int, seconds: float, path: Path, core: str | None) -> Row:
    from driver.calibration import Row, Seen, accuracy
    from driver.profile.read import Cell
    from driver.run.launcher import Load, run_load
    from records import CellFolder, read_json, read_records

    options = engine.config.options
    each_s = (options["ttft_ms"] + options["interval_ms"] * options["tokens"] / options["tokens_per_chunk"]) / 1000
    cell = Cell(
        scenario="closed_loop",
        workload="perf-short",
        requests=streams * max(2, round(seconds / each_s)),
        warmup=streams,
        users=streams,
        max_tokens=options["tokens"],
        cores=core,
    )
    folder = CellFolder(path)
    engine.requests()
    load = Load(cell, folder, "pacing", 1, engine.base_url, engine.model_name, "perf-short", request_extras={}, seed=1)
    result = run_load(load, engine_alive=lambda: True, on_tick=lambda: None)
    if not folder.requests.exists() or not result.complete:
        raise BenchError(f"calibrate: the load at {count(streams, 'stream')} did not end: {result.why}")
    records = [record for record in read_records(folder.requests) if record.measured]
    try:
        seen = accuracy([Seen.of(record) for record in records if record.ok], engine.requests().get("requests", []))
    except ValueError as error:
        raise BenchError(f"calibrate: at {count(streams, 'stream')}: {error}") from None
    scenario = read_json(folder.scenario)
    client = scenario["client"] or {}
    share = client.get("cpu_share")
    window_ns = max(record.end_ns for record in records) - scenario["measure_start_ns"]
    cost = None if share is None else share * window_ns / 1000 / seen.chunks
    return Row(streams, seen, sum(not record.ok for record in records), cost, share, client.get("loop_lag_ms_p99"))


def _show(rows: list[Row]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    for name in ("streams", "chunks", "TTFT error ms p50 / p99", "TPOT error %", "lag us p50 / p99", "CPU us/chunk",
                 "CPU", "loop lag ms p99", "server late ms p99", "errors"):  # fmt: skip
        table.add_column(name, justify="right")
    for row in rows:
        seen = row.accuracy
        table.add_row(
            str(row.streams),
            str(seen.chunks),
            f"{seen.ttft_error_ms_p50:.2f} / {seen.ttft_error_ms_p99:.2f}",
            f"{seen.tpot_error_percent:+.3f}",
            f"{seen.lag_us_p50:.0f} / {seen.lag_us_p99:.0f}",
            "-" if row.cpu_us_per_chunk is None else f"{row.cpu_us_per_chunk:.1f}",
            "-" if row.cpu_share is None else f"{row.cpu_share:.0%}",
            "-" if row.loop_lag_ms_p99 is None else f"{row.loop_lag_ms_p99:.2f}",
            f"{seen.server_late_ms_p99:.2f}",
            str(row.errors),
        )
    Console(width=160 if not os.isatty(1) else None, highlight=False).print(table)

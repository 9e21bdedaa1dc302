"""`history`: shows, stores and exports the figures of earlier runs."""

from __future__ import annotations

import io
import json
import os
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import quote

import click
from click.shell_completion import CompletionItem

from driver.errors import BenchError, ExitCode
from driver.options import shared
from driver.options.history import history_option, one_line_errors, open_history
from driver.shell_completion import RunArgument
from nightly.baseline import FAILING
from nightly.gate_rules import check_metrics
from nightly.history.export import export_csv, otava_config
from nightly.history.store import History, HistoryError, read_run, require_history
from nightly.history.trends import lines, to_json, trends
from nightly.page import history_html
from nightly.report import columns, printable
from records import write_text
from records.utc import utc_now
from reporting.format import count
from scoring.metrics import DECIDING, METRICS


class MetricArgument(click.ParamType):  # type: ignore[type-arg]
    """A metric by name; the shell completes it."""

    name = "metric"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        try:
            check_metrics([value])
        except ValueError as error:
            self.fail(str(error), param, ctx)
        return value

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        return [CompletionItem(name) for name in METRICS if name.startswith(incomplete)]


@click.group(short_help="Figures of earlier runs: list, trends, html, export, merge, pin, prune.")
@history_option("path")
@click.pass_context
def command(context: click.Context, path: Path) -> None:
    r"""Figures of earlier runs, kept in one SQLite file.

    \b
    enginebench history list                      every run with its verdict
    enginebench history trends output_tok_s       one figure over the nights
    enginebench history html nights.html          one page: which night broke what
    enginebench history pin RUN                   accept a new level as the baseline
    """
    context.obj = path


@command.command("import")
@click.argument("runs", nargs=-1, required=True, type=RunArgument(path_type=Path))
@click.pass_obj
@one_line_errors
def import_(path: Path, runs: tuple[Path, ...]) -> None:
    """Add scored RUNS (folders, or ids under bench-out/). Importing a run again changes nothing."""
    # Imported here, because it loads the engines, which no other history command needs.
    from driver.run.run import open_run

    # All runs are read before the history is created, so that a wrong name leaves no empty file.
    imported = [read_run(open_run(name)) for name in runs]
    with open_history(path, begin=True) as history:
        for run in imported:
            new = history.add(run)
            figures = count(len(run.figures), "figure")
            click.echo(f"{printable(run.run_id)}: {run.status}, {figures}{'' if new else ', there already'}")


@command.command("list")
@click.option("--profile", help="Only runs of this profile.")
@shared.as_json("the list")
@click.pass_obj
@one_line_errors
def list_(path: Path, profile: str | None, as_json: bool) -> None:
    """List all runs, oldest first."""
    with open_history(path) as history:
        runs = history.runs(profile=profile)
        builds = {run.run_id: {name: info.build for name, info in history.engines(run.run_id).items()} for run in runs}
        gates = {run.run_id: [gate.verdict for gate in history.gates(run.run_id)] for run in runs}
    if as_json:
        rows = [asdict(run) | {"builds": builds[run.run_id], "verdicts": gates[run.run_id]} for run in runs]
        click.echo(json.dumps(rows, indent=2))
        return
    table = []
    for run in runs:
        engines = ", ".join(f"{name} {build or 'unknown'}" for name, build in builds[run.run_id].items())
        verdicts = gates[run.run_id]
        failing = sum(verdict in FAILING for verdict in verdicts)
        gate = f"{failing} of {len(verdicts)} failed" if failing else ("ok" if verdicts else None)
        table.append(
            [
                run.created_utc,
                run.run_id,
                run.kind,
                run.status,
                gate,
                "pinned" if run.pinned_utc else None,
                engines,
                run.note,
            ]
        )
    header = ("created", "run", "kind", "status", "gate", "pin", "engines", "note")
    click.echo("\n".join(columns(header, table, limit=60)))


@command.command("trends")
@click.argument("metric", type=MetricArgument())
@click.option("--profile", help="Only this profile.")
@click.option("--engine", help="Only this engine.")
@click.option("--cell", help="Only this cell.")
@shared.as_json("the series")
@click.pass_obj
@one_line_errors
def trends_(path: Path, metric: str, profile: str | None, engine: str | None, cell: str | None, as_json: bool) -> None:
    """Show METRIC over the nights, with regressions, breaks, new builds and changes of level.

    METRIC is output_tok_s, output_tok_s_whole, requests_s, goodput_s, prefill_tok_s, joules_per_token, peak_vram_mib,
    or ttft_ms, ttfa_ms, tpot_ms, itl_ms, icl_ms or e2e_ms with _p50, _p90, _p95, _p99 or _mean: ttft_ms_p50.
    """
    with open_history(path) as history:
        series = trends(history, metric, profile=profile, engine=engine, cell=cell)
        if not series:
            engines = sorted({name for run in history.runs() for name in history.engines(run.run_id)})
            if engine is not None and engine not in engines:
                known_engines = printable(", ".join(engines)) or "none"
                raise BenchError(f"--engine {printable(engine)!r}: {path} has {known_engines}", ExitCode.USAGE)
            known = sorted({figure.metric for run in history.runs() for figure in history.figures(run.run_id)})
            raise HistoryError(f"{path}: no complete run has {metric!r} there; known are {', '.join(known) or 'none'}")
    if as_json:
        click.echo(json.dumps([to_json(each) for each in series], indent=2))
    else:
        click.echo("\n\n".join("\n".join(lines(each)) for each in series))


@command.command("html")
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@click.option("--profile", help="Only this profile.")
@click.option(
    "--metric",
    "metrics",
    multiple=True,
    type=MetricArgument(),
    help="Only this metric; may be repeated. Default: the metrics that nights judge.",
)
@shared.out
@click.pass_obj
@one_line_errors
def html(path: Path, file: Path, profile: str | None, metrics: tuple[str, ...], out: Path) -> None:
    """Write one static page to FILE: one row per figure, regressions first, with links to the nights' reports.

    Links point to the runs' folders under --out and are relative to FILE.
    """
    with open_history(path) as history:
        runs = history.runs(profile=profile)
        judged = {gate.metric for run in runs for gate in history.gates(run.run_id)} or set(DECIDING)
        wanted = metrics or tuple(metric for metric in METRICS if metric in judged)
        shown = [each for metric in wanted for each in trends(history, metric, profile=profile)]
    if not shown:
        raise HistoryError(f"{path}: no complete run has {' or '.join(wanted)}; see `enginebench history list`")

    def link(run_id: str) -> str | None:
        folder = out / run_id
        pages = [folder / "night.html", *sorted(folder.glob("comparison-*.html"), reverse=True)]
        page = next((page for page in pages if page.is_file()), None)
        return None if page is None else quote(os.path.relpath(page, file.parent))

    names = sorted({each.series.profile for each in shown})
    write_text(file, history_html(shown, link, ", ".join(names)))
    click.echo(str(file))


@command.command("export")
@click.option(
    "--csv",
    "target",
    type=click.Path(path_type=Path, dir_okay=False),
    required=True,
    help="File to write; - means stdout.",
)
@click.option("--profile", help="The profile; optional if the history has only one.")
@click.option("--metric", "metrics", multiple=True, type=MetricArgument(), help="Only this metric; may be repeated.")
@click.option(
    "--otava-config", type=click.Path(path_type=Path, dir_okay=False), help="Write an otava.yaml for it as well."
)
@click.pass_obj
@one_line_errors
def export(path: Path, target: Path, profile: str | None, metrics: tuple[str, ...], otava_config: Path | None) -> None:
    """Write the complete runs as CSV, one row per run, for Apache Otava or a spreadsheet."""
    with open_history(path) as history:
        text = io.StringIO()
        profile = profile or _only_profile(history)
        names = export_csv(history, text, profile=profile, metrics=metrics)
    if str(target) == "-":
        click.echo(text.getvalue(), nl=False)
    else:
        target.write_text(text.getvalue(), encoding="utf-8")
    if otava_config is not None:
        otava_config.write_text(_otava(str(target), profile, names), encoding="utf-8")


_otava = otava_config


def _only_profile(history: History) -> str:
    known = sorted({run.profile for run in history.runs()})
    if len(known) != 1:
        raise BenchError(
            f"--profile: choose one of: {printable(', '.join(known)) or 'none, the history is empty'}", ExitCode.USAGE
        )
    return known[0]


@command.command()
@click.argument("other", type=click.Path(path_type=Path))
@click.pass_obj
@one_line_errors
def merge(path: Path, other: Path) -> None:
    """Copy the runs of the history OTHER that this one lacks; OTHER does not change."""
    # Checked before this history is created, so that a wrong name leaves no empty file.
    require_history(other)
    with open_history(path, begin=True) as history:
        added, renamed = history.merge(other)
    more = f", {len(renamed)} under a new name because theirs was taken" if renamed else ""
    click.echo(f"{count(len(added), 'run')} added{more}")
    for name in renamed:
        click.echo(f"  {printable(name)}")


@command.command()
@click.argument("run")
@click.option("--remove", is_flag=True, help="Remove the pin.")
@click.pass_obj
@one_line_errors
def pin(path: Path, run: str, remove: bool) -> None:
    """Make RUN the baseline of its profile. This also accepts a new, slower level."""
    with open_history(path) as history:
        if history.find(run) is None:
            raise BenchError(f"{path}: no run {printable(run)!r}; `history list` shows them", ExitCode.USAGE)
        history.pin(run, None if remove else utc_now())
    click.echo(f"{printable(run)}: {'no longer pinned' if remove else 'pinned'}")


@command.command()
@click.option("--keep", type=click.IntRange(min=1), help="Keep the newest N runs of each profile.")
@click.option("--days", type=click.FloatRange(min=0, min_open=True), help="Keep the runs of the last N days.")
@click.pass_obj
@one_line_errors
def prune(path: Path, keep: int | None, days: float | None) -> None:
    """Remove old runs, but never a pinned run or the last good run of a profile."""
    if keep is None and days is None:
        raise BenchError("prune: give --keep N or --days N", ExitCode.USAGE)
    before = None if days is None else datetime.now(UTC) - timedelta(days=days)
    with open_history(path) as history:
        removed: list[Any] = history.prune(keep=keep, older_than=before)
    click.echo(f"{count(len(removed), 'run')} removed")

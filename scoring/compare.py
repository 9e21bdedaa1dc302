"""Builds the comparison from a run's folder: figures, audit, answers, verdict. The same captures give the same bytes.

Cells are processed one at a time (read, measured, audited, graded, released), so memory holds only one cell.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence

from records import JsonObject, RunFolder, workload_name
from scoring import summary, two_runs
from scoring.answers.extract import GRADER_VERSION
from scoring.audit.audit import audit_cell, audit_engine
from scoring.audit.model import CellFacts, EngineFacts, RoundFacts
from scoring.audit.neighbours import neighbour_rows
from scoring.audit.order import order_row
from scoring.captures import Capture
from scoring.cell_results import Parts, gpu_series, plain, request_rows
from scoring.metrics import DECIDING
from scoring.provenance import engine_card, provenance
from scoring.quality import accuracy, divergence, grading
from scoring.quality.problems import problem_rows
from scoring.quality.verdicts import judge_answers
from scoring.runs import Round, Run, load_run, plain_capture_rows
from scoring.speed import breakdown, gpu
from scoring.speed.cancellation import cancellation_rows
from scoring.speed.capacity import add_capacity, capacity_rows
from scoring.speed.host import host_figures
from scoring.speed.latency import CellFigures, cell_figures
from scoring.speed.reuse import add_reuse, planned_tokens, reuse_rows
from scoring.speed.rows import performance_rows
from scoring.speed.series import cell_series
from scoring.speed.steps import step_figures, step_rows
from scoring.speed.turns import add_turn_figures, conversation_rows, turn_rows
from scoring.speed.verdicts import TOO_FEW_ROUNDS, judge_speed
from scoring.statistics.rounds import FEWEST_ROUNDS
from workloads import Prompt, read_prompts

SCHEMA_VERSION = 1
DEFAULT_SPEED_MARGIN = 0.03


def compare(folder: RunFolder, *, created: str) -> JsonObject:
    """Audit and compare a run; the shape is docs/comparison.schema.json.

    Args:
        folder: the run's folder.
        created: the time stamp of the comparison; everything else follows from the captures.

    Raises:
        ValueError: the captures cannot be read; one line that names the file.
    """
    return compare_run(load_run(folder), created=created)


def compare_runs(
    a: RunFolder, b: RunFolder, *, created: str, engine_a: str | None = None, engine_b: str | None = None
) -> JsonObject:
    """Compare two runs, perhaps of two hosts: engines are labelled `engine@run`, the baseline is A's.

    The audit begins with the differences of the manifests (model, prompts, sampling, context, load, GPU, host); some of
    them void the comparison. Only cells that both runs have are compared.

    Raises:
        ValueError: the captures cannot be read, an engine is unknown, or the runs have no cell in common.
    """
    runs = load_run(a), load_run(b)
    both = two_runs.merged(*runs, engine_a, engine_b)
    alone = [(run, compare_run(run, created=created)["audit"]) for run in runs]
    rows = two_runs.manifest_rows(*runs, engine_a, engine_b)
    comparison = compare_run(both, created=created, extra_audit=rows, alone=alone)
    comparison["run_id"] = f"{a.run_id} / {b.run_id}"
    engines = (("--engine-a", engine_a), ("--engine-b", engine_b))
    chosen = [word for option, name in engines if name for word in (option, name)]
    comparison["provenance"]["commands"] = [shlex.join(["enginebench", "compare", str(a.path), str(b.path), *chosen])]
    return comparison


def compare_run(
    run: Run,
    *,
    created: str,
    extra_audit: list[JsonObject] | None = None,
    alone: Sequence[tuple[Run, list[JsonObject]]] = (),
) -> JsonObject:
    """`compare` for a run that is already open.

    Args:
        run: the run, or two joined.
        created: the time stamp of the comparison.
        extra_audit: audit rows that come first.
        alone: for two joined runs, each run with its own audit.
    """
    parts = Parts()
    rows = [*(extra_audit or []), *plain_capture_rows(run)]
    for engine in run.engines:
        rows += audit_engine(EngineFacts(run.of_engine(engine), engine, run.rounds.get(engine, [])))
        parts.gpu[engine] = {round_.number: round_.gpu_rows() for round_ in run.rounds.get(engine, [])}
    for cell in run.cells:
        _add_cell(run, cell, parts)
    for engine in run.engines:
        parts.audit += neighbour_rows(engine, parts.loads.get(engine, {}))
    rows = two_runs.joined_audit(run, [*rows, *parts.audit], alone)
    families = _judge(run, parts)
    rows.append(order_row(parts.performance, run.order, run.engines, families["speed"]["metrics"]))
    comparison: JsonObject = {
        "schema_version": SCHEMA_VERSION,
        "run_id": run.folder.run_id,
        "created": created,
        "grader_version": GRADER_VERSION,
        "baseline": run.baseline,
        "engines": {
            engine: engine_card(run, engine) | {"gpus": gpu.devices_used(parts.gpu.get(engine, {}).values())}
            for engine in run.engines
        },
        "verdict": {},
        "audit": rows,
        "performance": parts.performance,
        "steps": parts.steps,
        "turns": parts.turns,
        "conversations": parts.conversations,
        "reuse": parts.reuse,
        "capacity": parts.capacity,
        "cancellation": [
            row for engine, cells in parts.measured.items() for row in cancellation_rows(engine, cells, _margin(run))
        ],
        "breakdown": parts.breakdown(),
        "quality": parts.quality,
        "divergence": parts.divergence,
        "problems": parts.problems,
        "requests": parts.requests,
        "host": parts.host,
        "series": {"cells": parts.series, "gpu": gpu_series(parts)},
        "provenance": provenance(run),
    }
    comparison["verdict"] = summary.verdict(comparison, families)
    whole: JsonObject = plain(comparison)
    return whole


def _judge(run: Run, parts: Parts) -> JsonObject:
    """Give every deciding figure its verdict, over all cells and candidates; returns {speed, answers}, the families."""
    margin = _margin(run)
    # For two joined runs, it is enough that one of them was tested after every round.
    profiles = [run.profile, *((manifest.get("profile") or {}) for manifest in run.manifests.values())]
    sequential = any(profile.get("rounds") == "auto" for profile in profiles)
    judge_speed(parts.steps, run.baseline, margin, deciding=())
    judge_speed(parts.turns, run.baseline, margin, deciding=())
    return {
        "speed": judge_speed(parts.performance, run.baseline, margin, _deciding(run), sequential=sequential),
        "answers": judge_answers(parts.answer_pairs),
    }


def _margin(run: Run) -> float:
    """How far from 1 a speed ratio may be and still count as equally fast."""
    return float((run.profile.get("gate") or {}).get("threshold") or DEFAULT_SPEED_MARGIN)


def judged_so_far(folder: RunFolder) -> list[JsonObject]:
    """The deciding speed ratios that have a verdict, or would have one had no round failed, from the rounds so far.

    Raises:
        ValueError: the captures cannot be read.
    """
    run, parts = load_run(folder), Parts()
    metrics = _deciding(run)
    for cell in run.cells:
        if (run.cell_profile(cell).get("rounds") or FEWEST_ROUNDS) < FEWEST_ROUNDS:
            continue  # a cell in fewer rounds never gets a verdict
        figures = {
            engine: [
                (round_.number, _figures(run, capture))
                for round_, capture in run.captures(cell, engine)
                if not capture.disturbed
            ]
            for engine in run.engines
        }  # fmt: skip
        measured = {engine: rounds for engine, rounds in figures.items() if rounds}
        parts.performance += performance_rows(cell, "", "", measured, run.baseline, metrics=metrics)
    _judge(run, parts)
    ratios = [ratio for row in parts.performance for ratio in row["speed_ratio"].values()]
    return [ratio for ratio in ratios if ratio["verdict"] is not None or ratio["no_verdict"] == TOO_FEW_ROUNDS]


def _figures(run: Run, capture: Capture) -> CellFigures:
    figures = cell_figures(capture, run.profile.get("objectives"))
    add_capacity(figures, capture)
    add_turn_figures(figures)
    return figures


def _deciding(run: Run) -> tuple[str, ...]:
    return tuple((run.profile.get("verdict") or {}).get("deciding") or DECIDING)


def _add_cell(run: Run, cell: str, parts: Parts) -> None:
    section = run.cell_profile(cell)
    captured: dict[str, list[tuple[Capture, CellFigures]]] = {}
    prompts: list[Prompt] | None = None
    for engine in run.engines:
        captured[engine] = []
        for round_, capture in run.captures(cell, engine):
            scenario, workload = _names(cell, section, [capture])
            prompts = _prompts(run, workload) if prompts is None else prompts
            captured[engine].append(_measure(run, round_, capture, prompts, parts))
    captures = [capture for rounds in captured.values() for capture, _ in rounds]
    scenario, workload = _names(cell, section, captures)
    prompts = prompts or []
    compared = {e: [(c, f) for c, f in rounds if not c.disturbed] for e, rounds in captured.items()}
    figures = {e: [(c.round, f) for c, f in rounds] for e, rounds in compared.items() if rounds}
    parts.performance += performance_rows(cell, scenario, workload, figures, run.baseline)
    measured = {e: [(c.round, c.scenario, f) for c, f in rounds] for e, rounds in captured.items()}
    parts.capacity += capacity_rows(cell, workload, measured)
    parts.steps += step_rows(cell, scenario, workload, figures, run.baseline)
    parts.turns += turn_rows(cell, scenario, workload, figures, run.baseline)
    facts = {e: [RoundFacts(c, f) for c, f in rounds] for e, rounds in captured.items()}
    pools = {prompt.prompt_id: prompt.pool for prompt in prompts}
    planned = planned_tokens(prompts)
    for engine in run.engines:
        baseline = facts[run.baseline] if engine != run.baseline else []
        own = run.of_engine(engine)
        parts.audit += audit_cell(
            CellFacts(own, engine, cell, own.cell_profile(cell), facts[engine], baseline, pools, planned)
        )
        parts.loads.setdefault(engine, {})[cell] = workload, [f for _, f in figures.get(engine, [])]
        parts.measured.setdefault(engine, {})[cell] = measured[engine]
        parts.reuse += reuse_rows(cell, workload, engine, measured[engine])
        parts.conversations += conversation_rows(cell, engine, [(number, f) for number, _, f in measured[engine]])
        if means := breakdown.cell_means([f for _, f in figures.get(engine, [])]):
            parts.means[cell, workload, engine] = means
    texts = {engine: [capture for capture, _ in rounds] for engine, rounds in captured.items()}
    _answers(run, cell, scenario, workload, texts, prompts, parts)


def _measure(
    run: Run, round_: Round, capture: Capture, prompts: list[Prompt], parts: Parts
) -> tuple[Capture, CellFigures]:
    add_reuse(capture, prompts)
    figures = _figures(run, capture)
    figures.steps = step_figures(capture, run.profile.get("objectives"))
    gpu.add_gpu_figures(figures, gpu.cell_samples(capture, parts.gpu.get(round_.engine, {}).get(round_.number, [])))
    figures.reserves_memory = bool((round_.state.get("asked") or {}).get("reserves_memory"))
    figures.host = host_figures(round_.host_rows(), *capture.asked_span_ns())
    capture.engine = round_.engine
    if figures.host:
        head = {"engine": round_.engine, "cell": capture.cell, "round": capture.round}
        parts.host.append(head | figures.host.to_json())
    parts.series.append(cell_series(capture, figures))
    parts.requests += request_rows(capture, figures)
    capture.drop_chunks()
    return capture, figures


def _names(cell: str, section: JsonObject, captures: list[Capture]) -> tuple[str, str]:
    """Scenario and workload of a cell: as the profile says, else as the load process says, else from its name.

    Where the profile names a cell, the first part of its name stands for the scenario: cells of one scenario with other
    numbers of users would be called the same.
    """
    if section:
        own = cell.partition(".")[0] if section.get("name") else section["scenario"]
        return str(own), workload_name(str(section["workload"]))
    recorded = next((c.scenario for c in captures if c.scenario.get("scenario")), {})
    before, _, after = cell.partition(".")
    return str(recorded.get("scenario") or before), workload_name(str(recorded.get("workload") or after))


def _prompts(run: Run, workload: str) -> list[Prompt]:
    """The prompts of a workload; empty for a run of plain Locust, which stores none and is not graded.

    Raises:
        ValueError: the file is damaged, or the manifest lists it and it is missing (no answer could be graded).
    """
    path = run.folder.workload(workload)
    if path.exists():
        return read_prompts(path)
    if workload in (run.manifest.get("workloads") or {}):
        raise ValueError(f"{path}: missing; without it no answer can be graded")
    return []


def _answers(
    run: Run,
    cell: str,
    scenario: str,
    workload: str,
    captured: Mapping[str, list[Capture]],
    prompts: list[Prompt],
    parts: Parts,
) -> None:
    """Grade the answers of a cell where they can be graded, and compare its texts."""
    golds = grading.graded_prompts(prompts)
    texts: dict[str, list[dict[divergence.Key, divergence.Answered]]] = {}
    if golds:
        keys = grading.asked_keys(
            golds, [capture for rounds in captured.values() for capture in rounds], asks_all=run.asks_all(cell)
        )
        graded = {
            engine: [grading.grade_capture(capture, golds, keys) for capture in rounds]
            for engine, rounds in captured.items()
            if rounds
        }
        points = (run.profile.get("parity_margin") or {}).get(workload, accuracy.DEFAULT_MARGIN_POINTS)
        row, pairs = accuracy.quality_row(graded, run.baseline, points / 100)
        parts.quality.append({"cell": cell, "scenario": scenario, "workload": workload} | row)
        parts.answer_pairs += pairs
        first = {engine: rounds[0] for engine, rounds in graded.items()}
        parts.problems += problem_rows(cell, workload, golds, first, run.baseline)
        texts = {engine: [grading.answered(outcomes) for outcomes in rounds] for engine, rounds in graded.items()}
    else:
        texts = {e: [divergence.texts_of(capture) for capture in rounds] for e, rounds in captured.items() if rounds}
    for row in divergence.rows(texts, run.baseline, answers=bool(golds)):
        parts.divergence.append({"cell": cell, "scenario": scenario, "workload": workload} | row)


def score(folder: RunFolder) -> JsonObject:
    """Grade a run's answers again: {grader_version, quality, problems}, as in a comparison.

    Raises:
        ValueError: the captures cannot be read.
    """
    run, parts = load_run(folder), Parts()
    for cell in run.cells:
        captured = _captured(run, cell)
        scenario, workload = _names(cell, run.cell_profile(cell), [c for rounds in captured.values() for c in rounds])
        prompts = _prompts(run, workload)
        if grading.graded_prompts(prompts):
            _answers(run, cell, scenario, workload, captured, prompts, parts)
    judge_answers(parts.answer_pairs)
    return {"grader_version": GRADER_VERSION, "quality": parts.quality, "problems": parts.problems}


def graded_answers(folder: RunFolder) -> Iterator[tuple[str, str, grading.Outcome]]:
    """Yield every answer as scoring grades it: (its place, its gold, its outcome), without superseded records.

    Raises:
        ValueError: the captures cannot be read.
    """
    run = load_run(folder)
    for cell in run.cells:
        captured = _captured(run, cell)
        captures = [capture for rounds in captured.values() for capture in rounds]
        golds = grading.graded_prompts(_prompts(run, _names(cell, run.cell_profile(cell), captures)[1]))
        keys = grading.asked_keys(golds, captures, asks_all=run.asks_all(cell)) if golds else []
        for capture in captures:
            for (prompt_id, _), outcome in grading.grade_capture(capture, golds, keys).items():
                if outcome.error is None:
                    where = f"{capture.engine} r{capture.round} {cell} {prompt_id}"
                    yield where, str(golds[prompt_id].gold), outcome


def _captured(run: Run, cell: str) -> dict[str, list[Capture]]:
    return {engine: [capture for _, capture in run.captures(cell, engine)] for engine in run.engines}

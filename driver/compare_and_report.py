"""Compares and reports a run, from its captures to files in its folder.

Statistics and templates are imported where they are used: they take two seconds, which would delay a command that
starts an engine or shows its help.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from driver.cross_check import Graded
from driver.cross_check import cross_check as second_opinion
from driver.errors import BenchError, ExitCode, writing
from records import JsonObject, RunFolder, read_json, write_json, write_text
from records.utc import utc_stamp
from reporting.finding import finding
from reporting.junit import junit
from reporting.markdown import markdown
from reporting.view import View


def judge(folder: RunFolder, stamp: str | None = None) -> tuple[JsonObject, Path]:
    """Score, audit and compare a run, and write `comparison-<stamp>.json`.

    Returns:
        The comparison and the path of its file.

    Raises:
        BenchError: the captures cannot be read.
    """
    from scoring.compare import compare

    stamp = stamp or utc_stamp()
    try:
        comparison = _summed_up(compare(folder, created=stamp))
    except (ValueError, OSError) as error:
        raise BenchError(f"{folder.path}: cannot be compared: {error}") from None
    path = folder.comparison(stamp, "json")
    write_json(path, comparison)
    return comparison, path


def _summed_up(comparison: JsonObject) -> JsonObject:
    """The comparison with its finding as one line, with which every report begins."""
    comparison["verdict"]["summary"] = finding(View(comparison)).headline
    return comparison


def judge_runs(
    baseline: RunFolder, other: RunFolder, engine_a: str | None = None, engine_b: str | None = None
) -> tuple[JsonObject, Path]:
    """Compare two runs, or one engine of each; the comparison is written into the second run's folder.

    Raises:
        BenchError: the captures cannot be read, or the runs have nothing in common; with exit code 2 where an engine
            is not in its run.
    """
    from scoring.compare import compare_runs
    from scoring.two_runs import UnknownEngineError

    stamp = utc_stamp()
    try:
        comparison = _summed_up(compare_runs(baseline, other, created=stamp, engine_a=engine_a, engine_b=engine_b))
    except UnknownEngineError as error:
        raise BenchError(str(error), ExitCode.USAGE) from None
    except (ValueError, OSError) as error:
        raise BenchError(f"{baseline.run_id} and {other.run_id}: cannot be compared: {error}") from None
    path = other.comparison(f"{stamp}-against-{baseline.run_id}", "json")
    write_json(path, comparison)
    return comparison, path


def score_run(folder: RunFolder, *, cross_check: bool) -> JsonObject:
    """Grade a run's answers; with `cross_check`, list math-verify's disagreements, or note that it is not installed.

    Raises:
        BenchError: the captures cannot be read.
    """
    from scoring.compare import score

    try:
        scores = score(folder)
    except (ValueError, OSError) as error:
        raise BenchError(f"{folder.path}: cannot be scored: {error}") from None
    if cross_check:
        try:
            result = second_opinion(_graded(folder))
        except (ValueError, OSError) as error:
            raise BenchError(f"{folder.path}: cannot be scored: {error}") from None
        scores["cross_check"] = {
            "checked": result.checked,
            "unchecked": result.unchecked,
            "disagreements": list(result.disagreements),
            "note": result.note,
        }
    return scores


def _graded(folder: RunFolder) -> Iterator[Graded]:
    """The graded answers that were not truncated."""
    from scoring.compare import graded_answers

    for where, gold, outcome in graded_answers(folder):
        if not outcome.truncated:
            yield Graded(where, gold, outcome.text, outcome.correct, outcome.answer)


def write_reports(comparison: JsonObject, json_path: Path, junit_path: Path | None = None) -> list[Path]:
    """Render a comparison next to its JSON, and as JUnit XML where asked; returns the paths of Markdown and HTML.

    Where the run was a night, each report begins with the night's verdict.
    """
    from reporting.html.page import html

    comparison = comparison | {"night": _night_of(comparison, RunFolder(json_path.parent))}
    written = []
    if junit_path is not None:
        with writing(junit_path):
            junit_path.parent.mkdir(parents=True, exist_ok=True)
            write_text(junit_path, junit(comparison))
    for suffix, render in ((".md", markdown), (".html", html)):
        path = json_path.with_suffix(suffix)
        with writing(path):
            write_text(path, render(comparison))
        written.append(path)
    return written


def _night_of(comparison: JsonObject, folder: RunFolder) -> JsonObject | None:
    """What a nightly made of the run; None of any other run, and of a comparison of two runs."""
    try:
        night = read_json(folder.night)
    except (OSError, ValueError):
        return None
    return night if night.get("run_id") == comparison.get("run_id") and night.get("headline") else None


def newest_comparison(folder: RunFolder) -> Path:
    """The path of the newest comparison of a run.

    Raises:
        BenchError: the run has none yet (exit code 2).
    """
    paths = sorted(folder.path.glob("comparison-*.json"))
    if not paths:
        hint = f"enginebench compare {folder.path}"
        raise BenchError(f"{folder.path}: has no comparison yet; make one with: {hint}", ExitCode.USAGE)
    return paths[-1]


def read_comparison(path: Path) -> JsonObject:
    """Read a comparison.

    Raises:
        BenchError: the file cannot be read, or is not a comparison (exit code 2).
    """
    try:
        comparison = read_json(path)
    except OSError as error:
        raise BenchError(f"{path}: {error.strerror}; give a comparison-*.json of a run", ExitCode.USAGE) from None
    except ValueError as error:
        raise BenchError(str(error), ExitCode.USAGE) from None
    if not {"schema_version", "baseline", "engines", "verdict"} <= comparison.keys():
        raise BenchError(f"{path}: is not a comparison; give a comparison-*.json of a run", ExitCode.USAGE)
    return comparison


def exit_code(comparison: JsonObject, *, all_ok: bool = True) -> ExitCode:
    """The comparison's exit code; if that is 0 but a request failed (`all_ok` is False), REGRESSION."""
    code = ExitCode(comparison["verdict"]["exit_code"])
    return ExitCode.REGRESSION if code is ExitCode.DONE and not all_ok else code


def to_json(comparison: JsonObject) -> str:
    """The comparison as text for scripts (`--json`)."""
    return json.dumps(comparison, indent=2, ensure_ascii=True)

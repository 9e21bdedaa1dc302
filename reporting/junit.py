"""Writes JUnit XML, and a comparison as test cases with one sentence each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal
from xml.etree import ElementTree as Xml

from records import JsonObject
from reporting.escape import visible
from reporting.finding import finding
from reporting.format import count, interval, quantity, ratio, shown_interval
from reporting.next_steps import step_of
from reporting.run_facts import failures
from reporting.terms import metric_phrase
from reporting.view import View, cell_of

Outcome = Literal["failure", "error", "skipped"]

_LIMIT = 4000


@dataclass(frozen=True)
class Case:
    """One test case with its message; `outcome` is None if it passed."""

    group: str
    name: str
    message: str
    outcome: Outcome | None = None


def junit_xml(name: str, suites: Mapping[str, Sequence[Case]]) -> str:
    """The document: one suite per list of cases. Any text may be untrusted."""
    everything = [case for cases in suites.values() for case in cases]
    root = Xml.Element("testsuites", {"name": _text(name), **_counts(everything)})
    for suite_name, cases in suites.items():
        suite = Xml.SubElement(root, "testsuite", {"name": _text(suite_name), **_counts(cases)})
        for case in cases:
            element = Xml.SubElement(suite, "testcase", classname=_text(case.group), name=_text(case.name))
            message = _text(case.message)
            if case.outcome:
                Xml.SubElement(element, case.outcome, message=message).text = message
            else:
                Xml.SubElement(element, "system-out").text = message
    Xml.indent(root)
    return '<?xml version="1.0" encoding="utf-8"?>\n' + Xml.tostring(root, encoding="unicode") + "\n"


def _counts(cases: Sequence[Case]) -> dict[str, str]:
    outcomes = Counter(case.outcome for case in cases)
    numbers = {"tests": len(cases), "failures": outcomes["failure"], "errors": outcomes["error"]}
    return {key: str(number) for key, number in (numbers | {"skipped": outcomes["skipped"]}).items()}


def junit(comparison: JsonObject) -> str:
    """A case for the finding, each audit check, each deciding figure, each paired workload and each loaded cell.

    A slower or worse candidate is a failure, an open verdict is skipped; a failed check is a failure, an unknown one is
    skipped.
    """
    view = View(comparison)
    suites = {
        **({"night": [_night(view)]} if view.night else {}),
        "finding": [_finding(view)],
        "audit": [_check(row) for row in view.audit],
        "speed": [_speed(view, row, c) for row in view.deciding_rows for c in row.get("speed_ratio") or {}],
        "answers": [_answers(view, row, c) for row in view.rows("quality") for c in row.get("paired") or {}],
        "requests": _requests(view),
    }
    return junit_xml(view.run_id, suites)


def _finding(view: View) -> Case:
    found = finding(view)
    text = "\n".join([found.first_line, *(f"{label}: {text}" for label, text in found.paragraphs)])
    return Case("finding", "is the comparison fair?", text, "failure" if view.void else None)


def _night(view: View) -> Case:
    text = "\n".join(view.night_lines)
    return Case("night", "the night's verdict", text, "failure" if view.night.get("exit_code") else None)


def _check(row: JsonObject) -> Case:
    outcomes: dict[str, Outcome] = {"fail": "failure", "unknown": "skipped", "not_applicable": "skipped"}
    place = ", ".join(str(row[key]) for key in ("engine", "cell") if row.get(key))
    message = f"{row['check']}{f' ({place})' if place else ''}: {row['status'].replace('_', ' ')}. {row['evidence']}"
    message += f". To do: {step}" if (step := step_of(row)) else ""
    return Case(place.replace(", ", ".") or "run", row["check"], message, outcomes.get(row["status"]))


def _speed(view: View, row: JsonObject, candidate: str) -> Case:
    speed_ratio = (row["speed_ratio"] or {}).get(candidate) or {}
    ours, theirs = (
        quantity((row["engines"].get(engine) or {}).get("value"), row.get("unit"))
        for engine in (candidate, view.baseline)
    )
    verdict = speed_ratio.get("verdict")
    no_verdict = f"no verdict{f': {why}' if (why := speed_ratio.get('no_verdict')) else ''}"
    outcomes: dict[str | None, Outcome] = {
        "slower": "failure",
        "worse": "failure",
        "inconclusive": "skipped",
        None: "skipped",
    }
    ci = shown_interval(speed_ratio)
    ends = f" (interval {interval(ci)})" if ci else ""
    ratio_words = (
        f"speed ratio {ratio(speed_ratio.get('value'), ci)}{ends}" if speed_ratio.get("value") else "no speed ratio"
    )
    message = (
        f"{cell_of(row)}: {metric_phrase(row['metric'])} of {candidate} is {ours}, of {view.baseline} {theirs};"
        f" {ratio_words}; {verdict or no_verdict}."
    )
    return Case(f"{candidate}.{cell_of(row)}", metric_phrase(row["metric"]), message, outcomes.get(verdict))


def _answers(view: View, row: JsonObject, candidate: str) -> Case:
    paired = (row["paired"] or {}).get(candidate) or {}
    ours, theirs = (row["engines"].get(engine) or {} for engine in (candidate, view.baseline))
    verdict = paired.get("verdict")
    outcomes: dict[str | None, Outcome] = {
        "worse": "failure", "different": "failure", "inconclusive": "skipped", None: "skipped",
    }  # fmt: skip
    message = (
        f"{row['workload']}: {candidate} answered {ours.get('correct')} of {ours.get('n')} right, {view.baseline}"
        f" {theirs.get('correct')} of {theirs.get('n')}; {paired.get('text') or verdict or 'not compared'}."
    )
    return Case(f"{candidate}.{cell_of(row)}", str(row["workload"]), message, outcomes.get(verdict))


def _requests(view: View) -> list[Case]:
    """A case per engine and cell; it fails if a measured request failed."""
    sent = Counter((row["engine"], row["cell"]) for row in view.rows("requests") if row.get("phase") != "warmup")
    cases = []
    for (engine, cell), number in sent.items():
        failed = [f for f in failures(view.failed_requests) if (f.engine, f.cell) == (engine, cell)]
        message = f"{engine}, {cell}: all of {count(number, 'request')} succeeded."
        if failed:
            kinds = "; ".join(f"{f.requests} {f.kind}{f': {f.message}' if f.message else ''}" for f in failed)
            message = (
                f"{engine}, {cell}: {sum(f.requests for f in failed):,} of {count(number, 'request')} failed: {kinds}"
            )
        cases.append(Case(f"{engine}.{cell}", "requests", message, "failure" if failed else None))
    return cases


def _text(value: object) -> str:
    """Only what XML 1.0 allows; ElementTree escapes the rest."""
    return visible(value, _LIMIT)

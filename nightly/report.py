"""A night for people and for CI: terminal lines, Markdown for a summary, JUnit XML. Pure functions."""

from __future__ import annotations

from nightly.history.terminal_text import columns, figure, printable
from nightly.result import Finding, NightResult
from reporting.escape import markdown as md
from reporting.junit import Case, Outcome, junit_xml
from reporting.terms import metric_phrase
from scoring.metrics import unit_and_better

_LIMIT = 500
"""Longer texts are cut: evidence can name every fact of a host."""
_ORDER = ("regression", "suspected", "unconfirmed", "improved", "ok", "not judged")


def terminal(result: NightResult) -> list[str]:
    """The night as plain lines."""
    text = [printable(result.headline)]
    text += [f"  {printable(note)}" for note in [*result.void[1:], *result.breaks, *result.builds, *result.trends]]
    if result.findings:
        rows = [_row(finding) for finding in _sorted(result.findings)]
        text += columns(_HEADER, rows, limit=90)
    return text


def markdown(result: NightResult) -> str:
    """The night for a CI summary; every word that came from a run is inert in it, and cut where it is long."""
    text = [f"## Nightly {_md(result.profile)}: {_md(result.headline)}", ""]
    text.append(f"Run {_md(result.run_id)}, baseline {_md(result.baseline)}, exit code {result.exit_code}.")
    for title, notes in (
        ("Void", result.void),
        ("Series broken", result.breaks),
        ("New build", result.builds),
        ("Level changed lately", result.trends),
    ):
        text += ["", f"**{title}**", "", *(f"- {_md(note)}" for note in notes[:20])] if notes else []
    if result.findings:
        text += ["", "| " + " | ".join(_HEADER) + " |", "|" + " --- |" * len(_HEADER)]
        shown = _sorted(result.findings)
        text += ["| " + " | ".join(_md(value) for value in _row(finding)) + " |" for finding in shown[:100]]
        if len(shown) > 100:
            text.append(f"\n{len(shown) - 100} more are in the history.")
    return "\n".join([*text, ""])


def junit(result: NightResult) -> str:
    """The night as JUnit XML: a test case a figure; a night that failed or is void is one error."""
    cases = [Case("nightly", "the night ended", result.failure or "It did.", "error" if result.failure else None)]
    if result.failure is None:
        void = "; ".join(result.void)
        cases.append(Case("nightly", "the comparison is fair", void or "No check failed.", "error" if void else None))
    outcomes: dict[str, Outcome] = {"regression": "failure", "suspected": "failure", "not judged": "skipped"}
    cases += [
        Case(f"{f.engine}.{f.cell}", f.metric, _sentence(f), outcomes.get(f.verdict)) for f in _sorted(result.findings)
    ]
    return junit_xml(f"nightly {result.profile}", {f"nightly {result.profile}": cases})


def _sentence(finding: Finding) -> str:
    """One decision in words, with names and units: "concurrent_4.perf: output throughput of b was ..."."""
    unit = "" if finding.metric == "accuracy" else unit_and_better(finding.metric)[0]
    what = "accuracy" if finding.metric == "accuracy" else metric_phrase(finding.metric)
    tonight, before, second = (
        f"{figure(value)} {unit}".strip() for value in (finding.tonight, finding.before, finding.second)
    )
    text = f"{finding.cell}: {what} of {finding.engine} is {tonight} tonight, {before} before"
    text += f", {second} when measured again" if finding.second is not None else ""
    if finding.ratio is not None:
        name = "difference" if finding.metric == "accuracy" else "speed ratio"
        ends = f" [{finding.ci[0]:.3f}, {finding.ci[1]:.3f}]" if finding.ci else ""
        limit = f", fails below {finding.limit:.3f}" if finding.limit is not None else ""
        text += f"; {name} {finding.ratio:.3f}{ends}{limit}"
    return f"{text}; {finding.verdict}{f': {finding.evidence}' if finding.evidence else ''}"


_HEADER = (
    "engine",
    "cell",
    "metric",
    "verdict",
    "speed ratio",
    "95% interval",
    "fails below",
    "before",
    "tonight",
    "second",
    "evidence",
)


def _row(finding: Finding) -> list[str]:
    places = "+.3f" if finding.metric == "accuracy" else ".3f"
    return [
        finding.engine,
        finding.cell,
        finding.metric,
        finding.verdict,
        "-" if finding.ratio is None else format(finding.ratio, places),
        "-" if finding.ci is None else f"[{finding.ci[0]:.3f}, {finding.ci[1]:.3f}]",
        # + 0.0: a limit of minus nothing is nothing.
        "-" if finding.limit is None else format(round(finding.limit, 3) + 0.0, places),
        figure(finding.before),
        figure(finding.tonight),
        figure(finding.second),
        finding.evidence,
    ]


def _sorted(findings: list[Finding]) -> list[Finding]:
    return sorted(findings, key=lambda f: (_ORDER.index(f.verdict), f.engine, f.cell, f.metric))


def _md(text: str) -> str:
    return md(text, _LIMIT)

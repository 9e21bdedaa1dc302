"""Formats a night for people and for CI: terminal lines, Markdown for a summary, JUnit XML. Pure functions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from nightly.baseline import FAILING
from nightly.result import Finding, NightResult
from reporting.escape import markdown as md
from reporting.escape import one_line
from reporting.format import UNKNOWN, count, metric_name
from reporting.junit import Case, Outcome, junit_xml

_LIMIT = 500
"""Length at which a text is cut: evidence may list every fact of a host."""
_ORDER = ("regression", "missing", "suspected", "unconfirmed", "improved", "too young", "ok", "not judged")
_NOTES = (
    ("Regressions", lambda result: [finding.sentence for finding in result.failing]),
    ("Void", lambda result: result.void),
    ("Series broken", lambda result: result.breaks),
    ("New build", lambda result: result.builds),
    ("Level changed lately", lambda result: result.trends),
)


def terminal(result: NightResult) -> list[str]:
    """The night as plain lines: the headline, further regressions, changes, and the figures."""
    text = [printable(result.headline)]
    notes = [
        *result.details[:1],
        *[f.sentence for f in result.failing[1:]],
        *result.void[1:],
        *result.breaks,
        *result.builds,
        *result.trends,
    ]
    text += [f"  {printable(note)}" for note in notes]
    if result.findings:
        text += columns(_HEADER, [_row(finding) for finding in _sorted(result.findings)], limit=90)
    if result.report:
        text.append(printable(f"report: {result.report}"))
    return text


def figures_table(result: NightResult) -> tuple[Sequence[str], list[list[str]]]:
    """Header and rows of the table of figures, regressions first."""
    return _HEADER, [_row(finding) for finding in _sorted(result.findings)]


def printable(text: object) -> str:
    """The whole text in one line; control and invisible characters become visible."""
    return one_line(text, None)


def columns(header: Sequence[str], rows: Iterable[Sequence[object]], *, limit: int = 40) -> list[str]:
    """Format rows as lines of aligned columns. None becomes a dash; a long value is cut with an ellipsis."""
    table = [list(header)] + [
        [UNKNOWN if value is None else _cut(printable(value), limit) for value in row] for row in rows
    ]
    widths = [max(len(row[i]) for row in table) for i in range(len(header))]
    return ["  ".join(value.ljust(width) for value, width in zip(row, widths, strict=True)).rstrip() for row in table]


def _cut(text: str, limit: int) -> str:
    return text if len(text) <= limit else text[: limit - 1] + "…"


def markdown(result: NightResult) -> str:
    """The night as Markdown for a CI summary. Texts from a run are escaped, and cut if they are long."""
    text = [f"## Nightly {_md(result.profile)}: {_md(result.headline)}", ""]
    text += [*(f"{_md(detail)}" for detail in result.details[:1]), ""] if result.details else []
    text.append(f"Run {_md(result.run_id)}, baseline {_md(result.baseline)}, exit code {result.exit_code}.")
    if result.report:
        text += ["", f"Report: {_md(result.report)}"]
    for title, notes_of in _NOTES:
        notes = notes_of(result)
        text += ["", f"**{title}**", "", *(f"- {_md(note)}" for note in notes[:20])] if notes else []
    if result.findings:
        text += ["", "| " + " | ".join(_HEADER) + " |", "|" + " --- |" * len(_HEADER)]
        shown = _sorted(result.findings)
        text += ["| " + " | ".join(_md(value) for value in _row(finding)) + " |" for finding in shown[:100]]
        if len(shown) > 100:
            text.append(f"\n{count(len(shown) - 100, 'more figure')} in the history.")
    return "\n".join([*text, ""])


def junit(result: NightResult) -> str:
    """The night as JUnit XML: one test case per figure; a night that failed or is void is one error."""
    said = " ".join(
        [f"{result.headline}.", *result.details[:1], *([f"Page: {result.report}"] if result.report else [])]
    )
    cases = [Case("nightly", "the night ended", said, "error" if result.failure else None)]
    if result.failure is None:
        void = "; ".join(result.void)
        cases.append(Case("nightly", "the comparison is fair", void or "No check failed.", "error" if void else None))
    outcomes: dict[str, Outcome] = {"not judged": "skipped", "too young": "skipped"}
    outcomes |= dict.fromkeys(FAILING, "failure")
    for finding in _sorted(result.findings):
        message = f"{finding.verdict}: {finding.sentence}; {finding.evidence}"
        message += f"; report: {result.report}" if result.report and finding.verdict in FAILING else ""
        group = f"{finding.engine}.{finding.cell}"
        cases.append(Case(group, finding.metric, message, outcomes.get(finding.verdict)))
    return junit_xml(f"nightly {result.profile}: {result.headline}", {f"nightly {result.profile}": cases})


_HEADER = (
    "engine",
    "cell",
    "figure",
    "verdict",
    "speed ratio",
    "interval",
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
        metric_name(finding.metric),
        finding.verdict,
        UNKNOWN if finding.ratio is None else format(finding.ratio, places),
        UNKNOWN if finding.ci is None else f"[{finding.ci[0]:.3f}, {finding.ci[1]:.3f}]",
        # + 0.0 turns -0.0 into 0.0.
        UNKNOWN if finding.limit is None else format(round(finding.limit, 3) + 0.0, places),
        finding.level(finding.before),
        finding.level(finding.tonight),
        finding.level(finding.second),
        finding.evidence,
    ]


def _sorted(findings: list[Finding]) -> list[Finding]:
    return sorted(findings, key=lambda f: (_ORDER.index(f.verdict), f.engine, f.cell, f.metric))


def _md(text: str) -> str:
    return md(text, _LIMIT)

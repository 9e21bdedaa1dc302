"""A night for people and for CI: terminal lines, Markdown for a summary, JUnit XML. Pure functions."""

from __future__ import annotations

from xml.etree import ElementTree as Xml

from nightly.history.terminal_text import columns, figure, printable
from nightly.result import Finding, NightResult
from reporting.escape import markdown as md
from reporting.escape import visible

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
    suite = Xml.Element("testsuite", name=_xml(f"nightly {result.profile}"))
    counts = {"failure": 0, "error": 0, "skipped": 0}

    def case(group: str, name: str, kind: str | None, message: str) -> None:
        element = Xml.SubElement(suite, "testcase", classname=_xml(group), name=_xml(name))
        if kind is not None:
            counts[kind] += 1
            Xml.SubElement(element, kind, message=_xml(message)).text = _xml(message)

    case("nightly", "the night ended", "error" if result.failure is not None else None, result.failure or "")
    if result.failure is None:
        case("nightly", "the comparison is not void", "error" if result.void else None, "; ".join(result.void))
    for finding in result.findings:
        kind = {"regression": "failure", "suspected": "failure", "not judged": "skipped"}.get(finding.verdict)
        message = f"{finding.verdict}: {'; '.join(str(value) for value in _row(finding)[3:])}"
        case(f"{finding.engine}.{finding.cell}", finding.metric, kind, message)
    suite.set("tests", str(len(suite)))
    for kind, attribute in (("failure", "failures"), ("error", "errors"), ("skipped", "skipped")):
        suite.set(attribute, str(counts[kind]))
    Xml.indent(suite)
    return '<?xml version="1.0" encoding="utf-8"?>\n' + Xml.tostring(suite, encoding="unicode") + "\n"


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


def _xml(text: str) -> str:
    return visible(text, None)

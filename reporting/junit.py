"""A comparison as JUnit XML: a test case per audit check, speed ratio, paired answers and loaded cell."""

from __future__ import annotations

from collections import Counter
from xml.etree import ElementTree as Xml

from records import JsonObject
from reporting.escape import visible
from reporting.failures import failures
from reporting.format import count, metric_name, ratio_with_interval
from reporting.view import View, cell_of

_LIMIT = 4000


def junit(comparison: JsonObject) -> str:
    """JUnit XML. A check that failed is a failure, one that cannot tell is skipped; so is a verdict without proof.

    A slower or worse candidate is a failure: what makes a night fail is the gate's business, with its threshold.
    """
    view = View(comparison)
    suites = Xml.Element("testsuites", name=_text(view.run_id))
    suite = Xml.SubElement(suites, "testsuite", name="audit")
    for row in view.audit:
        kind = {"fail": "failure", "unknown": "skipped", "not_applicable": "skipped"}.get(row["status"])
        group = ".".join(str(row[key]) for key in ("engine", "cell") if row.get(key)) or "run"
        _case(suite, group, row["check"], kind, f"{row['status']}: {row['evidence']}")
    _count(suite)
    suite = Xml.SubElement(suites, "testsuite", name="speed")
    for row in view.lead_rows:
        for candidate, told in (row.get("speed_ratio") or {}).items():
            kind = {"slower": "failure", "worse": "failure", "inconclusive": "skipped", None: "skipped"}.get(
                told.get("verdict")
            )
            _case(
                suite, f"{candidate}.{cell_of(row)}", metric_name(row["metric"]), kind,
                f"speed ratio {ratio_with_interval(told)}",
            )  # fmt: skip
    _count(suite)
    suite = Xml.SubElement(suites, "testsuite", name="answers")
    for row in view.rows("quality"):
        for candidate, told in (row.get("paired") or {}).items():
            verdict = (told or {}).get("verdict")
            kind = {"worse": "failure", "different": "failure", "inconclusive": "skipped", None: "skipped"}.get(verdict)
            _case(suite, f"{candidate}.{cell_of(row)}", row["workload"], kind,
                  str((told or {}).get("text") or verdict or "not compared"))  # fmt: skip
    _count(suite)
    _requests(view, Xml.SubElement(suites, "testsuite", name="requests"))
    Xml.indent(suites)
    return '<?xml version="1.0" encoding="utf-8"?>\n' + Xml.tostring(suites, encoding="unicode") + "\n"


def _requests(view: View, suite: Xml.Element) -> None:
    """A case per engine and cell; it fails where a measured request did."""
    sent = Counter((row["engine"], row["cell"]) for row in view.rows("requests") if row.get("phase") != "warmup")
    failed = failures(view.failed_requests)
    for (engine, cell), number in sent.items():
        told = [f for f in failed if (f.engine, f.cell) == (engine, cell)]
        words = "; ".join(f"{f.requests} {f.kind}: {f.message}" for f in told)
        name, kind = f"{count(number, 'request')} ok", None
        if told:
            name, kind = f"{count(sum(f.requests for f in told), 'request')} of {number:,} failed", "failure"
        _case(suite, f"{engine}.{cell}", "requests", kind, f"{name}{': ' if words else ''}{words}")
    _count(suite)


def _case(suite: Xml.Element, group: str, name: str, kind: str | None, message: str) -> None:
    case = Xml.SubElement(suite, "testcase", classname=_text(group), name=_text(name))
    if kind:
        Xml.SubElement(case, kind, message=_text(message)).text = _text(message)
    else:
        Xml.SubElement(case, "system-out").text = _text(message)


def _count(suite: Xml.Element) -> None:
    suite.set("tests", str(len(suite)))
    for kind, attribute in (("failure", "failures"), ("skipped", "skipped")):
        suite.set(attribute, str(sum(case.find(kind) is not None for case in suite)))
    suite.set("errors", "0")


def _text(value: object) -> str:
    """Only what XML 1.0 allows; ElementTree escapes the rest."""
    return visible(value, _LIMIT)

"""No check of the audit leaves its reader without a next step."""

from __future__ import annotations

import re
from pathlib import Path

import scoring.audit.audit  # noqa: F401 (registers the checks)
from reporting.finding import finding
from reporting.html.page import html
from reporting.junit import junit
from reporting.markdown import markdown
from reporting.next_steps import NEXT_STEPS, next_step
from reporting.terminal import lines, summary
from reporting.view import View
from scoring.audit.model import CELL_CHECKS, ENGINE_CHECKS
from scoring.audit.neighbours import CHECK
from tests.reporting.report_builders import void_example

ROOT = Path(__file__).resolve().parents[2]


def every_check() -> set[str]:
    """The registered checks, and those whose rows are written without registration."""
    source = "\n".join(path.read_text() for path in (ROOT / "scoring").rglob("*.py"))
    written = set(re.findall(r'"check": "([^"]+)"', source)) | set(re.findall(r'"(runs: [^"]+)"', source))
    return {*CELL_CHECKS, *ENGINE_CHECKS, CHECK, *written}


def test_every_check_has_a_next_step_and_every_next_step_a_check() -> None:
    assert set(NEXT_STEPS) == every_check()


def test_a_next_step_is_one_sentence_that_says_what_to_do() -> None:
    for check, step in NEXT_STEPS.items():
        assert re.fullmatch(r"[A-Z][^\n]{10,110}\.", step), f"{check}: {step}"


def test_every_report_of_a_void_comparison_says_what_to_do_about_each_failed_check() -> None:
    comparison = void_example()
    view = View(comparison)
    assert len(view.failed_checks) > 1
    page = html(comparison).replace("&#39;", "'").replace("&#34;", '"')
    for check in view.failed_checks:
        step = next_step(check)
        assert ("Next", f"“{check}”: {step}") in finding(view).paragraphs
        assert step in lines(comparison)
        assert step in " ".join(summary(comparison, width=200, plain=False).split())
        assert page.count(step) >= 2, "in the finding and in the table of checks"
        assert markdown(comparison).replace("\\", "").count(step.replace("\\", "")) >= 2
        assert step in junit(comparison)


def test_failed_checks_with_one_remedy_share_a_sentence() -> None:
    comparison = void_example()
    row = next(row for row in comparison["audit"] if row["status"] == "fail")
    checks = ("same prompt tokens", "same prompt tokens in the probe")
    comparison["audit"] = [row | {"check": check} for check in checks]
    steps = [text for label, text in finding(View(comparison)).paragraphs if label == "Next"]
    assert steps == [f"“{checks[0]}” and “{checks[1]}”: Give both engines the same chat template."]


def test_a_check_of_a_newer_version_gets_general_advice() -> None:
    assert next_step("new check") == "Remove the cause, then run again."

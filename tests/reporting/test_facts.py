"""How answers were found (strict and flexible, methods, samples, noise floor), which prompts were asked."""

from pathlib import Path

from reporting.html.page import html
from reporting.markdown import markdown
from reporting.run_facts import answer_facts, noise_floors, workload_words
from reporting.view import View
from scoring.compare import compare
from tests.builders import Answer, RunBuilder, boxed


def asked_twice(path: Path) -> View:
    """Four problems, each asked twice in one round, in two rounds: one box, one bare number, one cut, one wrong."""
    run = RunBuilder(rounds=2)
    given = [boxed(1), Answer("It is 2"), Answer("so 3", finish_reason="length"), boxed(9)]
    run.answers("single.gsm8k", ["1", "2", "3", "4"], dict.fromkeys(run.engines, given))
    for (engine, number, _), records in run.records.items():
        again = [type(r)(**r.to_dict() | {"sample": 1, "id": r.id + "-1"}) for r in records]
        if (engine, number) == ("cand", 2):
            again[0].text = boxed(7).text
        records += again
        run.scenarios[engine, number, "single.gsm8k"]["asked"]["samples"] = 2
    return View(compare(run.write(path / "run"), created="now"))


def test_answers_are_counted_by_method_and_by_rule(tmp_path: Path) -> None:
    view = asked_twice(tmp_path)
    base, cand = answer_facts(view)
    assert (base.engine, cand.engine) == ("base", "cand")
    assert base.strict == "2 (25.0%)"
    assert "boxed 4" in base.methods and "last number 2" in base.methods
    assert base.truncated == "2 (25.0%)"
    assert base.failed == "0 failed, 0 missing"
    assert base.samples == "avg@2 50.0% ± 28.9% (standard error, clustered by problem), pass@2 50.0%"


def test_an_engine_that_was_asked_again_has_a_noise_floor(tmp_path: Path) -> None:
    base, cand = noise_floors(asked_twice(tmp_path))
    assert base.startswith("Noise floor on gsm8k: base against itself (A/A) flips 0 of 8 answers")
    flips, _, changes = cand.partition(", and changes the text of 12.5%")
    assert flips.endswith("cand against itself (A/A) flips 1 of 8 answers per repeat from right to wrong or back")
    assert changes


def test_both_reports_show_it(tmp_path: Path) -> None:
    view = asked_twice(tmp_path)
    # In Markdown nothing may read as the mention of a user.
    for report, pass_at_2 in ((markdown(view.data), "pass@&#8203;2 50.0%"), (html(view.data), "pass@2 50.0%")):
        assert pass_at_2 in report and "last number 2" in report
        assert "cand against itself (A/A) flips" in " ".join(report.split())


def test_the_report_says_which_prompts_were_asked() -> None:
    described = {"n": 50, "sha256": "52fefbf90a4b77", "subset": "first 50", "few_shot": 1}
    assert workload_words("gsm8k", described) == "gsm8k: 50 prompts (first 50, 1 worked example), SHA-256 52fefbf90a4b"
    assert workload_words("aime2025", {"n": 30, "subset": "all"}).startswith("aime2025: 30 prompts, SHA-256")

"""The grader against case files and against the gold solutions of a whole data set."""

from __future__ import annotations

from scoring.answers.extract import grade
from tests.scoring.shared_files import rows

POLICIES = {
    # What the case file leaves open (expected null), decided in docs/answers.md: (correct, strict).
    "aime text pt": (True, True),
    "truncated open brace": (True, False),
    "unclosed think": (False, False),
    "float noise": (False, False),
    "boxed a set": (True, True),
    "time": (True, True),
}

ADJUDICATED: dict[str, bool] = {}
"""Verdicts of the sources that are wrong, by source. The end of each of the 107 was read; none had to be overruled,
the one that a lesser grader would overrule (aime24#12: an unevaluated root, boxed, that comes to 540) included."""


def test_every_edge_case_with_a_verdict_is_met_and_every_open_one_is_decided() -> None:
    failed = []
    for row in rows("cases/answer_edges.jsonl"):
        verdict = grade(row["task"], row["completion"], row["gold"])
        if row["expected"] is None:
            if (verdict.correct, verdict.strict) != POLICIES[row["name"]]:
                failed.append((row["name"], verdict))
        elif verdict.correct != row["expected"]:
            failed.append((row["name"], verdict))
    assert not failed


def test_real_completions_are_judged_as_adjudicated() -> None:
    failed = []
    for row in rows("cases/real_completions.jsonl"):
        verdict = grade(row["task"], row["completion"], row["gold"])
        if verdict.correct != ADJUDICATED.get(row["source"], row["verdict"]):
            failed.append((row["source"], row["gold"], verdict))
    assert not failed


def test_every_gold_solution_of_gsm8k_is_right_and_none_is_right_when_its_number_is_changed() -> None:
    for row in rows("data/gsm8k_test.jsonl"):
        solution, _, gold = row["answer"].rpartition("#### ")
        number = int(gold.replace(",", ""))
        for form in ("#### {}", r"\boxed{{{}}}", "**Answer:** {}", r"The answer is $\boxed{{{}}}$.", "#### {:,}"):
            assert grade("gsm8k", solution + form.format(number), gold).strict, (form, gold)
            for other in (number + 1, number * 10, -number or 7):
                assert not grade("gsm8k", solution + form.format(other), gold).correct, (form, gold, other)


def test_every_aime_gold_is_right_in_three_digits_and_wrong_with_one_more() -> None:
    for row in rows("data/aime2025.jsonl"):
        gold = int(row["answer"])
        assert grade("aime2025", rf"$m+n = \boxed{{{gold:03d}}}$", row["answer"]).strict
        assert not grade("aime2025", rf"$m+n = \boxed{{{gold}1}}$", row["answer"]).correct

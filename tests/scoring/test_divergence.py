"""Divergence of texts, against itself and between engines."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from scoring.quality.divergence import Answered, divergence, first_difference, rows

A = {("p1", 0): Answered("same text", "1"), ("p2", 0): Answered("abcdef", "2"), ("p3", 0): Answered("only here")}
B = {("p1", 0): Answered("same text", "1"), ("p2", 0): Answered("abcXYZ!!", "3")}


@given(st.text("ab", max_size=40), st.text("ab", max_size=40))
def test_the_first_differing_character_is_found(a: str, b: str) -> None:
    slowly = next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))
    assert first_difference(a, b) == (None if a == b else slowly)


def test_only_prompts_that_both_answered_are_compared() -> None:
    found = divergence(A, B, answers=True)
    assert found is not None
    assert found["n"] == 2
    assert found["exact_match"] == 0.5
    assert found["answer_agreement"] == 0.5
    assert found["first_difference"] == {"p10": 3, "p50": 3, "p90": 3}
    assert found["prefix_share"]["p50"] == (1 + 3 / 8) / 2
    assert found["length_ratio"]["p90"] > 1


def test_nothing_in_common_is_no_figure() -> None:
    assert divergence({}, B) is None


def test_answers_of_ungraded_texts_are_not_compared() -> None:
    found = divergence(A, B)
    assert found is not None
    assert found["answer_agreement"] is None


def test_repeats_stand_beside_engine_against_engine() -> None:
    found = rows({"base": [A, A], "cand": [B, B], "silent": []}, "base")
    told = [(r["kind"], r["a"], r["b"], r["pairs"], r["exact_match"]) for r in found]
    assert told == [("A/A", "base", "base", 1, 1.0), ("A/A", "cand", "cand", 1, 1.0), ("A/B", "base", "cand", 2, 0.5)]

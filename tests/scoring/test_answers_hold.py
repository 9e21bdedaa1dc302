"""What must hold for any text: no exception, linear time, the same verdict whatever stands round an answer."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.grading import SEEDS, hard, milliseconds
from scoring.answers.extract import grade
from scoring.answers.numbers import value

PIECES = st.lists(st.sampled_from(SEEDS) | st.text(max_size=8), max_size=40).map("".join)


@given(PIECES, st.text(max_size=12), st.sampled_from(["stop", "length", None, "nonsense"]))
def test_no_text_raises(completion: str, gold: str, finish: str | None) -> None:
    verdict = grade("gsm8k", completion, gold, finish)
    assert verdict.correct or not verdict.strict
    assert not (verdict.truncated and verdict.correct)


@given(
    PIECES.filter(lambda text: "<think>" not in text and "<" not in text and "\\" not in text), st.integers(0, 10**9)
)
def test_a_box_at_the_end_wins_over_anything_before_it(before: str, number: int) -> None:
    text = before.replace("Question:", "").replace("Problem:", "").replace("boxed", "") + f"\n\\boxed{{{number}}}"
    assert grade("gsm8k", text, str(number)).strict


@given(st.integers(-(10**12), 10**12))
def test_a_number_is_read_in_every_way_of_writing_it(number: int) -> None:
    ways = [str(number), f"{number:,}", f"{number}.00", f"${number}$", f"x = {number}", rf"\text{{{number}}} cups"]
    ways += [f"{number:,}".replace(",", "{,}"), f"{number:,}".replace(",", r"\,"), f"{number}\N{DEGREE SIGN}"]
    ways += [str(number).replace("-", "\N{MINUS SIGN}"), rf"\frac{{{2 * number}}}{{2}}", rf"\mathbf{{{number}}}"]
    assert [value(way) for way in ways] == [number] * len(ways)


@given(st.integers(0, 999), st.integers(1, 999))
def test_fractions_are_exact(numerator: int, denominator: int) -> None:
    expected = Fraction(numerator, denominator)
    assert value(rf"\dfrac{{{numerator}}}{{{denominator}}}") == expected
    assert value(f"{numerator}/{denominator}") == expected


@given(st.integers(0, 10**6), st.integers(0, 10**6), st.sampled_from([", ", " or ", " and ", "; ", r" \text{ or } "]))
def test_two_values_are_never_one(first: int, second: int, between: str) -> None:
    assert value(f"{first}{between}{second}") is None


LENGTHS = (20_000, 80_000)
GROWTH = 4 * 2.5  # four times the length; quadratic would be sixteen times, and small times are noisy


@pytest.mark.parametrize("part", range(8))
def test_time_grows_no_faster_than_the_text(part: int) -> None:
    for (name, short), (_, long) in list(zip(*(hard(length) for length in LENGTHS), strict=True))[part::8]:
        if name.startswith("mixture"):
            continue  # drawn anew for each length: not the same text
        for _attempt in range(3):
            before, after = milliseconds(short, repeat=2), milliseconds(long, repeat=2)
            if after <= max(before, 0.5) * GROWTH:
                break
        else:
            pytest.fail(f"{name}: {before:.2f} ms for {len(short)} characters, {after:.2f} ms for {len(long)}")

"""The second opinion: a process that hangs, lies or is absent never decides and never holds anybody up."""

from __future__ import annotations

from pathlib import Path

import pytest

from driver.cross_check import Graded, cross_check

RIGHT, WRONG = Graded("p1", "18", "18", True, "18"), Graded("p2", "18", "19", False, "19")


def python(tmp_path: Path, script: str) -> str:
    """A Python that has, as it were, a math-verify that behaves like this."""
    path = tmp_path / "python"
    path.write_text(f"#!/bin/sh\necho '\"ready\"'\n{script}\n", encoding="utf-8")
    path.chmod(0o755)
    return str(path)


def test_disagreements_are_listed_with_both_verdicts(tmp_path: Path) -> None:
    found = cross_check([RIGHT, WRONG], python=python(tmp_path, "while read -r line; do echo false; done"))
    assert (found.checked, found.unchecked, found.note) == (2, 0, None)
    assert found.disagreements == ("p1: right here (answer 18, gold 18), wrong to math-verify",)


@pytest.mark.parametrize("script", ["exec sleep 60", "exit 1", "read -r line; exit 1"])
def test_one_that_hangs_or_dies_is_given_up_and_the_rest_is_asked_of_a_new_one(tmp_path: Path, script: str) -> None:
    found = cross_check([RIGHT, WRONG], python=python(tmp_path, script), seconds_each=0.2)
    assert (found.checked, found.unchecked, found.disagreements) == (0, 2, ())
    assert found.note is not None and "2 of 2 answers left unchecked" in found.note


def test_an_answer_it_cannot_tell_is_left_unchecked(tmp_path: Path) -> None:
    found = cross_check([RIGHT], python=python(tmp_path, "while read -r line; do echo null; done"))
    assert (found.checked, found.unchecked) == (0, 1)


def test_nothing_is_asked_after_the_deadline_of_all(tmp_path: Path) -> None:
    found = cross_check([RIGHT], python=python(tmp_path, "exec cat"), seconds_all=0.0)
    assert found.unchecked == 1


def test_where_the_package_is_absent_one_line_says_so(tmp_path: Path) -> None:
    found = cross_check([RIGHT], python=str(tmp_path / "none"))
    assert found.unchecked == 1 and not found.disagreements
    assert found.note is not None and "pip install math-verify" in found.note

"""Answers: found in a completion and judged. `grade` is the one entry."""

from scoring.answers.extract import Grade, grade

__all__ = ["Grade", "grade"]

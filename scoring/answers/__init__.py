"""Extracts the answer from a completion and grades it. `grade` is the only entry point."""

from scoring.answers.extract import Grade, grade

__all__ = ["Grade", "grade"]

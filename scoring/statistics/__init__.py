"""Intervals, verdicts and the nightly gate."""

"""Nightly comparisons: measure, compare with the baseline, confirm, report."""

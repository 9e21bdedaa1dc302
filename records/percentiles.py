"""Which percentiles are given, and from how many requests on."""

PERCENTILES = (50, 90, 95, 99)
BEYOND = 10
"""A tail percentile rests on the requests beyond it; with fewer than these, one slow request is the whole figure."""


def enough(percent: int, requests: int) -> bool:
    """Whether so many requests can show a percentile: 100 for p90, 200 for p95, 1,000 for p99; any for the median."""
    return percent <= 50 or requests * (100 - percent) >= BEYOND * 100

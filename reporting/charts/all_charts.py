"""The charts of the HTML report, each with its figures as a table. Everything is drawn from the comparison JSON."""

from __future__ import annotations

from reporting.charts.answers import accuracy
from reporting.charts.chart import Draw, Group
from reporting.charts.distributions import distributions
from reporting.charts.load import gpu, load
from reporting.charts.throughput import ratio_trend, scaling
from reporting.view import View


def groups(view: View) -> list[Group]:
    """All groups that have anything to show."""
    draw = Draw(view)
    found = [
        Group("Throughput and answers", "With 95% intervals.", [*scaling(draw), *accuracy(draw)]),
        Group(
            "Ratio by round",
            "Candidate against baseline in each round; the band is the interval over all rounds.",
            ratio_trend(draw),
        ),
        Group(
            "Latency distributions",
            "Share of requests at or below a latency; a curve further left is faster. All rounds together.",
            distributions(draw),
            pairs=True,
        ),
        Group(
            "Load over time",
            "Tokens a second, and requests in flight below; the steady window is shaded.",
            load(draw),
            pairs=len(view.engines) == 2,
        ),
        Group("GPU", "Board power and memory, summed over the devices.", gpu(draw)),
    ]
    return [group for group in found if group.charts]

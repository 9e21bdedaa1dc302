"""Public name of `scoring.speed.latency`: scripts outside this tree import `scoring.latency.cell_figures`."""

from scoring.speed.latency import cell_figures

__all__ = ["cell_figures"]

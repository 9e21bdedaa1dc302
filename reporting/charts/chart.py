"""The base of every chart of the HTML report: the plot area, the engines' colours, and the chart's data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from markupsafe import Markup

from records import JsonObject
from reporting.charts.svg import Plot, picture
from reporting.escape import one_line
from reporting.view import View

WIDTH, HEIGHT = 400, 220
LEFT, RIGHT, TOP, BOTTOM = 52, 380, 26, 178


@dataclass(frozen=True)
class Chart:
    """A chart: its SVG, title, legend and figures."""

    title: str
    svg: Markup
    header: list[str]
    rows: list[list[str]]
    legend: list[tuple[str, str]] = field(default_factory=list)
    """(style class, name) of each series."""
    note: str = ""


@dataclass(frozen=True)
class Group:
    """Charts under one heading."""

    title: str
    lead: str
    charts: list[Chart]
    pairs: bool = False
    """Whether to place two charts side by side."""


class Draw:
    """Draws the charts of one comparison: colours follow the engines' order (`css`), long names are cut (`names`)."""

    def __init__(self, view: View) -> None:
        self.view = view
        self.css = {engine: f"s{i % 6}" for i, engine in enumerate(view.engines)}
        self.names = {engine: one_line(engine, 40) for engine in view.engines}
        series = view.data.get("series")
        known = series if isinstance(series, dict) else {}
        self.cell_series: list[JsonObject] = list(known.get("cells") or [])
        self.gpu_series: list[JsonObject] = list(known.get("gpu") or [])
        self._keys = 0

    def picture(self, title: str, description: str, plots: Sequence[Plot], height: int = HEIGHT) -> Markup:
        """An SVG whose ids are unique in the page."""
        self._keys += 1
        return picture(f"c{self._keys}", title, description, WIDTH, height, plots)

    def legend(self, engines: Sequence[str]) -> list[tuple[str, str]]:
        return [(self.css[engine], self.names[engine]) for engine in engines]

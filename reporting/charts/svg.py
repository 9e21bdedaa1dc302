"""Small inline SVG charts: scales, axes, marks. Static, printable, no script; colours come from the page's style sheet.

A mark's coordinates can be turned back into figures: the plot area carries its scales as `data-x` and `data-y`
("low high from to kind"), which the tests use to hold charts against the JSON.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from markupsafe import Markup, escape

from reporting.charts.scale import MAX_POINTS, Scale, thin, tick_label


@dataclass
class Plot:
    """One plot area with its axes; an SVG may have several."""

    x: Scale
    y: Scale
    x_label: str = ""
    y_label: str = ""
    y_ticks: Sequence[tuple[float, str]] | None = None
    x_ticks: Sequence[tuple[float, str]] | None = None
    marks: list[str] = field(default_factory=list)
    grid: bool = True

    def shade(self, low: float, high: float, title: str) -> None:
        """A vertical band, such as the steady window."""
        a, b = self.x.at(max(low, self.x.low)), self.x.at(min(high, self.x.high))
        top, bottom = sorted((self.y.start, self.y.end))
        self.marks.append(
            f'<rect class="shade" x="{a}" y="{top}" width="{max(b - a, 0):.2f}" height="{bottom - top}">'
            f"<title>{escape(title)}</title></rect>"
        )

    def line(self, points: Sequence[tuple[float, float]], css: str, name: str, *, steps: bool = False) -> None:
        """A curve; with steps, each value holds until the next."""
        shown = thin(points, MAX_POINTS // 2 if steps else MAX_POINTS)
        path: list[str] = []
        before: float | None = None
        for px, py in shown:
            x, y = self.x.at(px), self.y.at(py)
            if steps and before is not None:
                path.append(f"{x:g},{before:g}")
            path.append(f"{x:g},{y:g}")
            before = y
        self.marks.append(
            f'<polyline class="line {css}" data-series="{escape(name)}" points="{" ".join(path)}">'
            f"<title>{escape(name)}</title></polyline>"
        )

    def whisker(self, x: float, low: float, high: float, css: str) -> None:
        """A vertical interval; an end beyond the scale is left open."""
        px, path = self.x.at(x), []
        for end in (low, high):
            if self.y.low <= end <= self.y.high:
                path.append(f"M{px - 3} {self.y.at(end)}h6")
        top, bottom = self.y.at(min(high, self.y.high)), self.y.at(max(low, self.y.low))
        self.marks.append(f'<path class="whisker {css}" d="M{px} {top}V{bottom}{"".join(path)}"/>')

    def bar_h(self, y: float, low: float, high: float, css: str) -> None:
        """A horizontal interval."""
        py, a, b = self.y.at(y), self.x.at(low), self.x.at(high)
        self.marks.append(f'<path class="whisker {css}" d="M{a} {py - 3}v6M{a} {py}H{b}M{b} {py - 3}v6"/>')

    def point(self, x: float, y: float, css: str, title: str, name: str = "") -> None:
        self.marks.append(
            f'<circle class="point {css}" data-series="{escape(name)}" cx="{self.x.at(x)}" cy="{self.y.at(y)}" r="3.5">'
            f"<title>{escape(title)}</title></circle>"
        )

    def rule_x(self, x: float, css: str = "rule") -> None:
        """A vertical line at a figure."""
        self.marks.append(f'<path class="{css}" d="M{self.x.at(x)} {self.y.start}V{self.y.end}"/>')

    def rule_y(self, y: float, css: str = "rule") -> None:
        """A horizontal line at a figure."""
        self.marks.append(f'<path class="{css}" d="M{self.x.start} {self.y.at(y)}H{self.x.end}"/>')

    def band_y(self, low: float, high: float) -> None:
        """A horizontal band, such as the interval of the whole."""
        top, bottom = self.y.at(min(high, self.y.high)), self.y.at(max(low, self.y.low))
        self.marks.append(
            f'<rect class="shade" x="{self.x.start}" y="{top}" width="{self.x.end - self.x.start}" '
            f'height="{bottom - top:.2f}"/>'
        )

    def render(self) -> str:
        parts = [f'<g class="plot" data-x="{self.x.data}" data-y="{self.y.data}">']
        left, right, bottom, top = self.x.start, self.x.end, self.y.start, self.y.end
        for value, label in self.y_ticks if self.y_ticks is not None else _labels(self.y, 4):
            y = self.y.at(value)
            if self.grid:
                parts.append(f'<path class="grid" d="M{left} {y}H{right}"/>')
            parts.append(f'<text class="tick" x="{left - 6}" y="{y + 4}" text-anchor="end">{escape(label)}</text>')
        parts.append(f'<path class="axis" d="M{left} {bottom}H{right}"/>')
        for value, label in self.x_ticks if self.x_ticks is not None else _labels(self.x, 5):
            x = self.x.at(value)
            parts.append(f'<path class="axis" d="M{x} {bottom}v4"/>')
            parts.append(f'<text class="tick" x="{x}" y="{bottom + 16}" text-anchor="middle">{escape(label)}</text>')
        if self.x_label:
            parts.append(
                f'<text class="label" x="{right}" y="{bottom + 31}" text-anchor="end">{escape(self.x_label)}</text>'
            )
        if self.y_label:
            parts.append(
                f'<text class="label" x="{left}" y="{top - 8}" text-anchor="start">{escape(self.y_label)}</text>'
            )
        return "".join([*parts, *self.marks, "</g>"])


def _labels(scale: Scale, about: int) -> list[tuple[float, str]]:
    return [(tick, tick_label(tick)) for tick in scale.ticks(about)]


def picture(key: str, title: str, description: str, width: int, height: int, plots: Sequence[Plot]) -> Markup:
    """The whole SVG with its title and description for screen readers.

    Args:
        key: unique in the page; an HTML id is made of it.
        title: what is shown.
        description: what it says, in a sentence.
        width: of the view box; the page scales it.
        height: of the view box.
        plots: the plot areas.
    """
    body = "".join(plot.render() for plot in plots)
    return Markup(  # noqa: S704 (every string in it went through escape)
        f'<svg viewBox="0 0 {width} {height}" role="img" aria-labelledby="{key}-t {key}-d">'
        f'<title id="{key}-t">{escape(title)}</title><desc id="{key}-d">{escape(description)}</desc>{body}</svg>'
    )

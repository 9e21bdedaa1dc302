"""A report's page taken apart: its pictures, and the figures that their marks stand for."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from xml.etree import ElementTree as Xml


@dataclass(frozen=True)
class Mark:
    """A series' marks as figures, turned back through the plot's own scales."""

    picture: str
    kind: str
    series: str
    points: list[tuple[float, float]]


def svgs(page: str) -> list[Xml.Element]:
    return [Xml.fromstring(found) for found in re.findall(r"<svg .*?</svg>", page, re.DOTALL)]


def marks(page: str) -> list[Mark]:
    found = []
    for svg in svgs(page):
        title = svg.findtext("title") or ""
        for plot in svg.findall("g"):
            x, y = plot.get("data-x", ""), plot.get("data-y", "")
            for line in plot.findall("polyline"):
                pairs = [pair.split(",") for pair in line.get("points", "").split()]
                points = [(figure(x, float(a)), figure(y, float(b))) for a, b in pairs]
                found.append(Mark(title, "line", line.get("data-series", ""), points))
            for point in plot.findall("circle"):
                at = (figure(x, float(point.get("cx", ""))), figure(y, float(point.get("cy", ""))))
                found.append(Mark(title, "point", point.get("data-series", ""), [at]))
    return found


def figure(scale: str, pixel: float) -> float:
    """The figure at a pixel of a scale "low high start end kind"."""
    low, high, start, end = (float(part) for part in scale.split()[:4])
    share = (pixel - start) / (end - start)
    if scale.endswith("log"):
        return math.exp(math.log(low) + share * math.log(high / low))
    return low + share * (high - low)

"""Writes static HTML: a page over all nights, and a page for a single night. No script, no network, two themes.

The page over all nights has one row per series, regressions first: its chart with the band of allowed values, its
verdict, breaks and new builds, and a link from each night to its report. It shows which night caused a regression.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Sequence
from statistics import median

from markupsafe import Markup, escape

from nightly.baseline import FAILING
from nightly.history.series import Point, Series
from nightly.history.trends import Trend, describe, scale
from nightly.report import figures_table
from nightly.result import NightResult
from reporting.escape import one_line
from reporting.format import count, figure, metric_name, quantity
from scoring.metrics import higher_is_better

Link = Callable[[str], str | None]
"""From a run's id to the address of its report, relative to the page; None where there is none."""

NIGHTS_SHOWN = 60
WIDTH, HEIGHT, EDGE = 640, 120, 8

_STYLE = """
:root { color-scheme: light dark; --paper: light-dark(#fdfdfc, #15171a); --ink: light-dark(#1b1d20, #e6e7e9);
  --quiet: light-dark(#585d66, #a0a6b0); --line: light-dark(#dddcd6, #33373d); --bad: light-dark(#b02318, #f28b80);
  --good: light-dark(#19683c, #6cc795); --open: light-dark(#7a5400, #dfb258); --link: light-dark(#1c5aa6, #83b4ee);
  --shade: light-dark(#e9edf2, #23292f); }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 60rem; padding: 0 1rem 3rem; background: var(--paper); color: var(--ink);
  font: 15px/1.5 system-ui, sans-serif; font-variant-numeric: tabular-nums; overflow-wrap: anywhere; }
h1 { font-size: 1.35rem; line-height: 1.3; margin: 1.4rem 0 .6rem; }
h2 { font-size: 1rem; margin: 0; }
a { color: var(--link); }
.bad { color: var(--bad); } .good { color: var(--good); } .open { color: var(--open); }
.quiet { color: var(--quiet); font-size: .86rem; }
article { border-top: 1px solid var(--line); padding: .9rem 0; }
article p { margin: .1rem 0; }
svg { display: block; width: 100%; height: auto; margin-top: .4rem; }
.band { fill: var(--shade); } .curve { fill: none; stroke: var(--quiet); stroke-width: 1.5; }
.level { stroke: var(--quiet); stroke-dasharray: 2 4; }
.night { fill: var(--quiet); } .broke { stroke: var(--bad); stroke-width: 2.5; fill: none; }
.faster { fill: var(--good); } .doubt { stroke: var(--open); fill: var(--paper); stroke-width: 2; }
.break { stroke: var(--ink); } .build { stroke: var(--open); stroke-dasharray: 4 3; }
.scroll { overflow-x: auto; } table { border-collapse: collapse; font-size: .86rem; }
th, td { text-align: left; padding: .25rem .8rem .25rem 0; border-bottom: 1px solid var(--line); vertical-align: top; }
@media (max-width: 40rem) {
  thead { position: absolute; left: -99rem; } table, tbody, tr, td { display: block; }
  tr { padding: .5rem 0; border-bottom: 1px solid var(--line); } td { border: 0; padding: 0; }
  td::before { content: attr(data-name) ": "; color: var(--quiet); }
}
"""
_KEY = (
    "Dots are nights; × is a regression, ○ a slowdown that a second measurement did not show, ▲ a gain. The dotted "
    "line is the level of the good nights; a night below the shaded band fails on its own. A solid vertical line is a "
    "break of the series (other driver, host or load), a dashed one a new build. Up is always faster."
)


def history_html(trends: Sequence[Trend], link: Link, title: str) -> str:
    """The page over all nights: one row per series, series with an open regression first."""
    ordered = sorted(trends, key=_urgency)
    open_now = [each for each in ordered if _verdict(each.series) in FAILING]
    if open_now:
        first = open_now[0].series
        more = f"; and {count(len(open_now) - 1, 'more figure')}" if len(open_now) > 1 else ""
        headline = f"{_name(first)}: {_broken(first)}{more}"
        tone = "bad"
    else:
        headline, tone = f"No open regression in {count(len(ordered), 'series', 'series')}", "good"
    rows = Markup("").join(_row(each, link) for each in ordered)
    key = Markup('<p class="quiet">{}</p>').format(_KEY)
    about = Markup('<p class="quiet">{}</p>').format(one_line(title, None))
    return _page(f"{title}: nights", headline, tone, about + rows + key)


def night_html(result: NightResult, comparison: str | None = None) -> str:
    """The page of one night: its headline, a sentence per regression, and the table of figures."""
    tone = "bad" if result.exit_code else "open" if not result.by_verdict("ok", "improved") else "good"
    notes = [
        *result.details[:1],
        *(f.sentence for f in result.failing[1:]),
        *result.void[1:],
        *result.breaks,
        *result.builds,
        *result.trends,
    ]
    body = Markup('<p class="quiet">Night {} of {}, compared with: {}.</p>').format(
        one_line(result.run_id), one_line(result.profile), one_line(result.baseline)
    )
    body += Markup("<ul>{}</ul>").format(_items(notes)) if notes else Markup("")
    if comparison:
        body += Markup(
            '<p><a href="{}">Report of the measurement</a>: all figures, charts, checks, answers</p>'
        ).format(comparison)
    header, rows = figures_table(result)
    head = Markup("").join(Markup('<th scope="col">{}</th>').format(name) for name in header)
    lines = Markup("").join(
        Markup("<tr>{}</tr>").format(
            Markup("").join(
                Markup('<td data-name="{}">{}</td>').format(name, one_line(value, None))
                for name, value in zip(header, row, strict=True)
            )
        )
        for row in rows
    )
    if rows:
        table = '<div class="scroll"><table><thead><tr>{}</tr></thead><tbody>{}</tbody></table></div>'
        body += Markup(table).format(head, lines)  # noqa: S704  a constant
    return _page(f"{one_line(result.run_id)}: night", result.headline, tone, body)


def _page(title: str, headline: str, tone: str, body: Markup) -> str:
    digest = base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()
    policy = f"default-src 'none'; base-uri 'none'; form-action 'none'; style-src 'sha256-{digest}'"
    return str(
        Markup(
            '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
            '<meta http-equiv="Content-Security-Policy" content="{}">\n'
            '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
            "<title>{}</title>\n<style>{}</style>\n</head>\n<body>\n<main>\n"
            '<h1 class="{}">{}</h1>\n{}\n</main>\n</body>\n</html>\n'
        ).format(policy, one_line(title, None), Markup(_STYLE), tone, one_line(headline, None), body)  # noqa: S704
    )


def _items(texts: Sequence[str]) -> Markup:
    return Markup("").join(Markup("<li>{}</li>").format(one_line(text, None)) for text in texts)


def _urgency(each: Trend) -> tuple[bool, bool, str]:
    verdict = _verdict(each.series)
    return verdict not in FAILING, not each.shifts, _name(each.series)


def _verdict(series: Series) -> str | None:
    return series.points[-1].verdict if series.points else None


def _name(series: Series) -> str:
    return one_line(f"{series.engine}, {series.cell}: {metric_name(series.metric)}", None)


def _broken(series: Series) -> str:
    """The present problem of a series, as text."""
    gate = series.points[-1].gate
    if gate is None:
        return "not judged"
    if gate.verdict == "missing":
        return "missing since the newest night"
    lost = "" if gate.ratio is None else f" {100 * abs(1 - gate.ratio):.1f}% slower"
    return f"{gate.verdict}{lost}" + (f", since {one_line(gate.since, None)}" if gate.since else "")


def _row(each: Trend, link: Link) -> Markup:
    series = each.series
    point, verdict = series.points[-1], _verdict(series)
    tone = "bad" if verdict in FAILING else "good" if verdict in ("ok", "improved") else "open"
    words = _broken(series) if verdict in FAILING else verdict or "not judged"
    parts = [Markup("<b>{}</b>").format(words)]
    gate = point.gate
    if verdict in FAILING and gate is not None and gate.since and link(gate.since):
        parts.append(_linked("the night that broke it", link(gate.since)))
    parts.append(Markup("newest night {}").format(quantity(point.value, series.unit)))
    parts.append(_linked(one_line(point.run_id, None), link(point.run_id)))
    shifts = [f"Level changed at {shift.run_id}: {describe(shift, series.unit)}" for shift in each.shifts]
    notes = Markup("").join(Markup('<p class="quiet">{}</p>').format(one_line(text, None)) for text in shifts)
    return Markup('<article>\n<h2>{}</h2>\n<p class="{}">{}</p>\n{}\n{}</article>\n').format(
        _name(series), tone, Markup(" · ").join(parts), _chart(series, link), notes
    )


def _linked(text: str, address: str | None) -> Markup:
    return Markup('<a href="{}">{}</a>').format(address, text) if address else escape(text)


def _chart(series: Series, link: Link) -> Markup:
    points = series.points[-NIGHTS_SHOWN:]
    values = [point.value for point in points if point.value is not None]
    if not values:
        return Markup("")
    up = 1 if higher_is_better(series.metric) else -1
    low, high = scale(values)
    stretch = points[max(i for i, point in enumerate(points) if not i or point.broken_by) :]
    good = [p.value for p in stretch if p.value is not None and p.verdict in (None, "ok", "too young", "not judged")]

    def x(place: int) -> float:
        return round(EDGE + (WIDTH - 2 * EDGE) * (place + 0.5) / len(points), 1)

    def y(value: float) -> float:
        share = (value - low) / (high - low)
        return round(EDGE + (HEIGHT - 2 * EDGE) * min(1.0, max(0.0, 1 - share if up > 0 else share)), 1)

    marks: list[Markup] = []
    limit = next((p.gate.limit_ratio for p in reversed(points) if p.gate and p.gate.limit_ratio), None)
    if good:
        level = median(good)
        if limit:
            ends = sorted((y(level * limit**up), y(level / limit**up)))
            left = x(len(points) - len(stretch))
            box = (left, ends[0], round(x(len(points) - 1) - left, 1), round(ends[1] - ends[0], 1))
            marks.append(Markup('<rect class="band" x="{}" y="{}" width="{}" height="{}"/>').format(*box))
        marks.append(_line("level", EDGE, y(level), WIDTH - EDGE, y(level)))
    path = " ".join(f"{x(i)},{y(p.value)}" for i, p in enumerate(points) if p.value is not None)
    marks.append(Markup('<polyline class="curve" points="{}"/>').format(path))
    for place, point in enumerate(points):
        middle = round((x(place) + x(place - 1)) / 2, 1) if place else x(0)
        if place and point.broken_by:
            marks.append(_line("break", middle, 0, middle, HEIGHT, f"series broken: {'; '.join(point.broken_by)}"))
        elif place and point.build != points[place - 1].build:
            text = f"build {points[place - 1].build or 'unknown'} to {point.build or 'unknown'}"
            marks.append(_line("build", middle, 0, middle, HEIGHT, text))
        marks.append(_mark(point, x(place), y(point.value) if point.value is not None else HEIGHT - EDGE, series, link))
    span = f"{figure(values[0])} to {quantity(values[-1], series.unit)}"
    title = f"{_name(series)} over {count(len(points), 'night')}, {span}"
    top, bottom = (high, low) if up > 0 else (low, high)
    edges = f"top {quantity(top, series.unit)}, bottom {quantity(bottom, series.unit)}"
    picture = '<svg viewBox="0 0 {} {}" role="group" aria-label="{}">{}</svg>\n<p class="quiet">Scale: {}</p>'
    return Markup(picture).format(WIDTH, HEIGHT, title, Markup("").join(marks), edges)  # noqa: S704  a constant


def _line(css: str, x1: float, y1: float, x2: float, y2: float, title: str = "") -> Markup:
    inside = Markup("<title>{}</title>").format(one_line(title, None)) if title else Markup("")
    template = '<line class="{}" x1="{}" y1="{}" x2="{}" y2="{}">{}</line>'
    return Markup(template).format(css, x1, y1, x2, y2, inside)  # noqa: S704  a constant


def _mark(point: Point, x: float, y: float, series: Series, link: Link) -> Markup:
    text = f"{point.run_id}, {point.created_utc}: {quantity(point.value, series.unit)}, {point.verdict or 'not judged'}"
    title = Markup("<title>{}</title>").format(one_line(text, None))
    if point.verdict in FAILING:
        path = f"M{x - 5},{y - 5}l10,10m0,-10l-10,10"
        mark = Markup('<path class="broke" d="{}">{}</path>').format(path, title)
    elif point.verdict == "improved":
        path = f"M{x},{y - 5}l5,9h-10z"
        mark = Markup('<path class="faster" d="{}">{}</path>').format(path, title)
    else:
        css, radius = ("doubt", 4) if point.verdict == "unconfirmed" else ("night", 2.5)
        mark = Markup('<circle class="{}" cx="{}" cy="{}" r="{}">{}</circle>').format(css, x, y, radius, title)
    address = link(point.run_id)
    if address is None:
        return mark
    return Markup('<a href="{}" aria-label="{}">{}</a>').format(address, one_line(text, None), mark)

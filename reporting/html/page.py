"""Renders a comparison as one self-contained HTML page: no network, no library, every untrusted string escaped.

The page is a template with autoescape, one style sheet and one small script; the page's content security policy allows
both by their hash. The page works without the script, which only adds copying and the choice of theme.
"""

from __future__ import annotations

import base64
import hashlib
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import ChainableUndefined, Environment, FileSystemLoader
from markupsafe import Markup

from records import JsonObject
from reporting.capacity import capacity_facts, capacity_lead
from reporting.charts.chart import Draw, Group
from reporting.charts.distributions import distributions
from reporting.charts.load import gpu, load
from reporting.charts.pareto import pareto
from reporting.charts.results import accuracy, depth, ratio_trend, scaling
from reporting.charts.turns import reuse, turns
from reporting.conversations import REUSE_HEADER, REUSE_LEAD, conversation_notes, reuse_table
from reporting.escape import one_line, visible
from reporting.finding import finding
from reporting.format import (
    DAGGER_NOTE,
    TONES,
    UNKNOWN,
    count,
    figure,
    interval,
    metric_name,
    points,
    quantity,
    ratio_with_interval,
    share,
    shown_interval,
)
from reporting.html.cards import cards
from reporting.html.problems import flip_grids, problems
from reporting.html.speed_table import SpeedTable
from reporting.machine import MACHINE_COLUMNS, MACHINE_LEAD, machine_facts
from reporting.next_steps import step_of
from reporting.run_facts import (
    CANCELLATION_LEAD,
    answer_facts,
    cancellation_notes,
    commands,
    engine_facts,
    error_words,
    failures,
    noise_floors,
    run_facts,
)
from reporting.terms import DEFINITIONS, explained
from reporting.view import View, cell_of

TEMPLATES = Path(__file__).with_name("templates")
FAILED_LISTED = 500
STATUS_TONES = {"fail": "bad", "warn": "open", "unknown": "open", "pass": "good", "not_applicable": "same"}


def html(comparison: JsonObject) -> str:
    """The page. It needs nothing but the comparison."""
    view = View(comparison)
    style, script = _asset("report.css"), _asset("report.js")
    return _environment().get_template("report.html.j2").render(
        view=view,
        style=Markup(style),  # noqa: S704 (our own file)
        script=Markup(script),  # noqa: S704 (our own file)
        policy=f"default-src 'none'; base-uri 'none'; form-action 'none'; img-src data:; "
        f"style-src '{_hash(style)}'; script-src '{_hash(script)}'",
        finding=finding(view),
        who=f"{', '.join(view.candidates)} against {view.baseline}" if view.candidates else f"{view.baseline} alone",
        cards=cards(view),
        speed=SpeedTable.make(view, view.lead_rows),
        steps=SpeedTable.make(view, view.step_rows),
        turns=SpeedTable.make(view, view.turn_rows),
        conversations=conversation_notes(view),
        reuse_header=REUSE_HEADER,
        reuse_lead=REUSE_LEAD,
        reuse=reuse_table(view),
        other_speed=SpeedTable.make(view, view.other_rows),
        groups=_chart_groups(view),
        problems=problems(view),
        grids=flip_grids(view),
        answer_facts=answer_facts(view),
        floors=noise_floors(view),
        engine_facts=engine_facts(view),
        run_facts=run_facts(view),
        commands=commands(view),
        capacity=capacity_facts(view),
        capacity_lead=capacity_lead(view),
        machine=machine_facts(view),
        machine_columns=MACHINE_COLUMNS,
        machine_lead=MACHINE_LEAD,
        cancellation_lead=CANCELLATION_LEAD,
        cancellation=cancellation_notes(view),
        errors=failures(view.failed_requests),
        failed=view.failed_requests[:FAILED_LISTED],
        passed=Counter(row["check"] for row in view.audit if row["status"] == "pass"),
        dagger=DAGGER_NOTE if view.blind else "",
        definitions=DEFINITIONS,
    )  # fmt: skip


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=ChainableUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(
        line=one_line, text=visible, explained=explained, num=_number, share=lambda value: share(_known(value)),
        step_of=step_of,
        tone=lambda verdict: TONES.get(verdict or "", "none"),
        status_tone=lambda status: STATUS_TONES.get(status, "open"),
    )  # fmt: skip
    environment.globals.update(
        UNKNOWN=UNKNOWN,
        count=count,
        points=points,
        metric_name=metric_name,
        quantity=quantity,
        ratio_with_interval=ratio_with_interval,
        interval=interval,
        shown_interval=shown_interval,
        cell_of=cell_of,
        error_words=error_words,
    )
    return environment


def _known(value: Any) -> float | None:
    """A number; None for null and for a part that an older comparison lacks."""
    return float(value) if isinstance(value, int | float) else None


def _number(value: Any, digits: int = 4) -> str:
    return figure(_known(value), digits)


@cache
def _asset(name: str) -> str:
    return (TEMPLATES / name).read_text(encoding="utf-8").strip()


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _chart_groups(view: View) -> list[Group]:
    """The charts under their headings; each has its figures as a table."""
    draw = Draw(view)
    groups = [
        Group("Throughput and answers", "With 95% intervals.", [*scaling(draw), *accuracy(draw)]),
        Group(
            "Depth",
            "The same load behind prompts of different lengths: what a longer context costs.",
            depth(draw),
            pairs=True,
        ),
        Group(
            "Speed for one user and for all",
            "Each level of load is a point: further right is faster for one user, further up for all together.",
            pareto(draw),
        ),
        Group(
            "Conversations and reused prefixes",
            "Late turns have long prompts: where an engine finds their beginning in its cache, TTFT hardly grows.",
            [*turns(draw), *reuse(draw)],
            pairs=True,
        ),
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
            "Tokens per second, and requests in flight below; the steady window is shaded.",
            load(draw),
            pairs=len(view.engines) == 2,
        ),
        Group("GPU", "Board power and memory, summed over the devices.", gpu(draw)),
    ]
    return [group for group in groups if group.charts]

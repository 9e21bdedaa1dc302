"""A figure of 0 is real: an engine that sends all its tokens at once has a TPOT of 0, and gets its report."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np

from scoring.speed.rows import _speed_ratio


def figure(known: list[float], draws: list[float] | None = None) -> Any:
    value = sum(known) / len(known)
    drawn = None if draws is None else np.array(draws)
    return SimpleNamespace(
        metric="tpot_ms_p50", value=value, known=known, sources=set(), is_setting=False, draws=drawn, brackets=[],
        resolution=None,
    )  # fmt: skip


def test_a_ratio_without_a_bound_has_no_interval() -> None:
    slow, jumpy, even = figure([2.0], [1.0, 2.0, 3.0]), figure([1.0], [0.0, 1.0, 2.0]), figure([1.0], [0.5, 1.0, 2.0])
    found = _speed_ratio(slow, jumpy, "lower")
    assert (found["value"], found["ci"], found["method"]) == (2.0, None, "no interval")
    assert _speed_ratio(slow, even, "lower")["ci"] is not None


def test_rounds_of_which_one_is_zero_have_a_ratio_and_no_interval() -> None:
    found = _speed_ratio(figure([2.0, 2.0]), figure([0.0, 2.0]), "lower")
    assert (found["value"], found["ci"], found["method"]) == (2.0, None, "no interval")


def test_a_figure_of_zero_has_no_ratio() -> None:
    found = _speed_ratio(figure([2.0], [1.0, 2.0]), figure([0.0], [0.0, 0.0]), "lower")
    assert found["value"] is None and found["text"] == "a figure of 0 has no ratio"

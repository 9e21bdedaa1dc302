"""Comparisons to report on: what scoring makes of the reference run today, and what can be done to them."""

from __future__ import annotations

import json
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

from driver.compare_and_report import judge
from scoring.metrics import WITHIN_RUN
from tests.reference_run import reference_run

HOSTILE = (
    "<script>window.hit = 1</script><img src=x onerror='window.hit = 1'>\"'</style></title></textarea>"
    "\x1b[31m\x1b]0;title\x07\x9b[2J\r\n](javascript:window.hit=1) | `code` **bold** @someone #12 "
    "https://example.org/x {{ 7 * 7 }} {% raw %} "
    "\u202eevil\u2066 \u200bhidden \ue000 \ud800 \x00 ``` </pre> &amp;"
)


@cache
def _text(*, void: bool) -> str:
    with tempfile.TemporaryDirectory() as scratch:
        folder = reference_run(rounds=3, wrong_context=void).write(Path(scratch) / "reference")
        return judge(folder, stamp="20260101T000000Z")[1].read_text(encoding="utf-8")


def example() -> dict[str, Any]:
    """A fresh comparison of the reference run, three rounds."""
    comparison: dict[str, Any] = json.loads(_text(void=False))
    return comparison


def void_example() -> dict[str, Any]:
    """A fresh comparison of the reference run with too small a context per slot: void."""
    comparison: dict[str, Any] = json.loads(_text(void=True))
    return comparison


def one_round(comparison: dict[str, Any]) -> dict[str, Any]:
    """The comparison as one round of each engine gives it: intervals within the round, and no verdict on speed."""
    for row in comparison["performance"]:
        for told in row["speed_ratio"].values():
            if told["value"] is not None:
                told |= {"rounds": [1, 1], "method": WITHIN_RUN, "verdict": None, "ci_adjusted": None}
                told["no_verdict"] = "fewer than 3 rounds" if told["deciding"] else "exploratory"
    return comparison


def with_speed(comparison: dict[str, Any], verdicts: dict[tuple[str, str], tuple[float, float, float, str]]) -> Any:
    """Ratio, interval and verdict of some (cell, metric); all other deciding figures have no ratio."""
    for row in comparison["performance"]:
        for told in row["speed_ratio"].values():
            if (given := verdicts.get((row["cell"], row["metric"]))) is None:
                told |= {"value": None, "ci": None, "ci_adjusted": None, "verdict": None} if told["deciding"] else {}
                continue
            value, low, high, verdict = given
            told |= {
                "value": value,
                "ci": [low, high],
                "ci_adjusted": [low, high],
                "verdict": verdict,
                "rounds": [3, 3],
            }
    return comparison


def with_rounds(comparison: dict[str, Any], ratios: tuple[float, ...] = (0.58, 0.6, 0.61)) -> dict[str, Any]:
    """Throughput measured in several rounds, the candidate at these ratios to the baseline."""
    for row in comparison["performance"]:
        if row["metric"] == "output_tok_s":
            row["engines"]["llama.cpp"]["rounds"] = {str(k): 100.0 for k in range(1, len(ratios) + 1)}
            row["engines"]["xserv"]["rounds"] = {str(k): 100.0 * r for k, r in enumerate(ratios, start=1)}
    return comparison


def with_gpu(comparison: dict[str, Any]) -> dict[str, Any]:
    curve = {"t_s": [0.0, 1.0, 2.0], "values": [90.0, 310.5, 300.0]}
    comparison["series"]["gpu"] = [
        {"engine": engine, "round": 1, "power_w": curve, "memory_mib": curve} for engine in comparison["engines"]
    ]
    return comparison


_STRUCTURE = frozenset({"baseline", "engine", "cell", "metric", "status", "phase", "candidate", "scenario", "workload"})


def poisoned(comparison: dict[str, Any], poison: str = HOSTILE) -> dict[str, Any]:
    """Every text of a comparison, but the names that hold it together, replaced by something hostile."""

    def walk(value: Any, key: str) -> Any:
        if isinstance(value, dict):
            return {k: walk(v, k) for k, v in value.items()}
        if isinstance(value, list):
            return [walk(item, key) for item in value]
        return f"{value} {poison}" if isinstance(value, str) and key not in _STRUCTURE else value

    found: dict[str, Any] = walk(comparison, "")
    return found


def renamed(comparison: dict[str, Any], names: dict[str, str]) -> dict[str, Any]:
    """The names themselves replaced everywhere, as keys and as values."""

    def walk(value: Any) -> Any:
        if isinstance(value, dict):
            return {names.get(k, k): walk(v) for k, v in value.items()}
        if isinstance(value, list):
            return [walk(item) for item in value]
        return names.get(value, value) if isinstance(value, str) else value

    found: dict[str, Any] = walk(comparison)
    return found


def failed_request(
    comparison: dict[str, Any],
    number: int = 1,
    kind: str = "silence_timeout",
    message: str = f"no byte for 30 s {HOSTILE}",
) -> dict[str, Any]:
    row = next(r for r in comparison["requests"] if r["phase"] != "warmup")
    told = {"status": "error", "error": {"kind": kind, "message": message}, "ttft_ms": None, "tpot_ms": None}
    for _ in range(number):
        comparison["requests"].append(row | told)
    return comparison

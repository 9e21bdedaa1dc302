"""The table of all figures: name, unit, whether higher is better, digits of the ratio.

It needs only the standard library, so profiles, reports and the history read it without loading the statistics.
"""

from __future__ import annotations

WITHIN_RUN = "bootstrap within one run"
"""The method of an interval that ignores the noise from round to round."""

DECIDING = ("output_tok_s", "ttft_ms_p50", "tpot_ms_p50")
"""The deciding figures of each cell, unless the profile names others; all others are exploratory."""

RATES = ("output_tok_s", "output_tok_s_whole", "requests_s", "goodput_s", "prefill_tok_s")
LATENCIES = ("ttft_ms", "ttfa_ms", "ttft_scheduled_ms", "tpot_ms", "itl_ms", "icl_ms", "e2e_ms", "e2e_scheduled_ms")
TURNS: dict[str, int | None] = {
    **{f"ttft_turn_{turn}_ms": turn for turn in (1, 2, 5, 10, 20)},
    "ttft_turn_last_ms": None,
}
"""TTFT of single turns of conversations, by name, with the turn; None for each conversation's last."""
SUFFIXES = ("p50", "p90", "p95", "p99", "mean")
MACHINE = ("joules_per_token", "peak_vram_mib")
CAPACITY = ("capacity_users", "capacity_requests_s")
"""The highest level of load that met the objectives: the only figures of a cell that searched one."""
TURN_METRICS = tuple(f"{name}_p50" for name in TURNS)
"""Of conversations only."""
METRICS = (
    *RATES,
    *(f"{name}_{suffix}" for name in LATENCIES for suffix in SUFFIXES),
    *TURN_METRICS,
    *MACHINE,
    *CAPACITY,
)

UNITS = {
    "capacity_users": ("users", "higher"),
    "capacity_requests_s": ("1/s", "higher"),
    "joules_per_token": ("J/token", "lower"),
    "peak_vram_mib": ("MiB", "lower"),
    "output_tok_s": ("tok/s", "higher"),
    "output_tok_s_whole": ("tok/s", "higher"),
    "prefill_tok_s": ("tok/s", "higher"),
    "requests_s": ("1/s", "higher"),
    "goodput_s": ("1/s", "higher"),
}


def unit_and_better(metric: str) -> tuple[str, str]:
    """(unit, "higher" or "lower" is better) of a metric; all others are latencies in ms."""
    return UNITS.get(metric, ("ms", "lower"))


def higher_is_better(metric: str) -> bool:
    """Whether a larger figure of this metric is the better one."""
    return unit_and_better(metric)[1] == "higher"


def ratio_digits(low: float, high: float) -> int:
    """Digits of a ratio in [low, high]: two, or three where two would not separate the ends, or an end from 1."""
    narrow = high - low < 0.015 or min(abs(low - 1), abs(high - 1)) < 0.005
    return 3 if narrow else 2

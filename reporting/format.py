"""Formats numbers and names for people. An unknown value is a dash, never 0."""

from __future__ import annotations

import re
from collections.abc import Sequence

from records import JsonObject
from records.wording import count as count
from scoring.metrics import WITHIN_RUN, ratio_digits

UNKNOWN = "–"

LEAD_METRICS = (
    "capacity_users",
    "capacity_requests_s",
    "output_tok_s",
    "ttft_ms_p50",
    "ttft_ms_p95",
    "ttft_ms_p99",
    "tpot_ms_p50",
    "tpot_ms_p95",
    "e2e_ms_p50",
    "goodput_s",
    "joules_per_token",
    "peak_vram_mib",
)
"""The metrics of the first table, in its order; the HTML report lists the others below it."""

_NAMES = {
    "capacity_users": "Capacity",
    "capacity_requests_s": "Capacity",
    "output_tok_s": "Output throughput",
    "output_tok_s_whole": "Output throughput, whole run",
    "requests_s": "Requests",
    "goodput_s": "Goodput",
    "prefill_tok_s": "Prefill",
    "joules_per_token": "Energy per token",
    "peak_vram_mib": "Peak VRAM",
}

DAGGER = "†"
HOW_TO_READ = "Speed ratio [95% interval]: above 1 the candidate is faster."
DAGGER_NOTE = f"{DAGGER} One round of each engine: the interval ignores the noise from round to round."


def metric_name(metric: str) -> str:
    """The display name of a metric: ttft_ms_p50 is "TTFT p50"."""
    if metric in _NAMES:
        return _NAMES[metric]
    if turn := re.fullmatch(r"ttft_turn_(\w+)_ms_(\w+)", metric):
        return f"TTFT of {'the last turn' if turn[1] == 'last' else f'turn {turn[1]}'} {turn[2]}"
    name, _, suffix = metric.rpartition("_")
    name, _, scheduled = name.removesuffix("_ms").partition("_")
    return f"{name.upper()}{' from schedule' if scheduled else ''} {suffix}" if name else metric


def figure(value: float | None, digits: int = 4) -> str:
    """Significant digits without an exponent: 1,234 | 135.2 | 17.68 | 0.4213."""
    if value is None:
        return UNKNOWN
    magnitude = abs(value)
    if magnitude >= 1000:
        return f"{value:,.0f}"
    if magnitude == 0:
        return "0"
    places = digits
    for bound in (0.1, 1, 10, 100):
        places -= magnitude >= bound
    return f"{value:.{max(0, min(places, 6))}f}"


def quantity(value: float | None, unit: str | None) -> str:
    """A figure with its unit. Users are counted, so their figure has no needless zeros."""
    if value is None:
        return UNKNOWN
    return f"{value:.3g} users" if unit == "users" else f"{figure(value)} {word(unit)}".strip()


def ratio(value: float | None, ci: Sequence[float] | None = None) -> str:
    """A ratio with as many digits as its interval needs."""
    return UNKNOWN if value is None else f"{_end(value, _places(ci))}×"


def interval(ci: Sequence[float] | None) -> str:
    """[0.40, 0.44]; three digits where two would not separate the ends, or an end from 1."""
    return f"[{_end(ci[0], _places(ci))}, {_end(ci[1], _places(ci))}]" if ci else ""


def _end(value: float, places: int) -> str:
    """A ratio or an end of its interval; a very wide one keeps its magnitude instead of digits: 0.0042, 10.2, 114."""
    if value >= 10:
        return f"{value:,.0f}" if value >= 100 else f"{value:.1f}"
    return f"{value:.2g}" if 1e-4 < value < 0.05 else f"{value:.{places}f}"


def _places(ci: Sequence[float] | None) -> int:
    return ratio_digits(ci[0], ci[1]) if ci else 2


def word(value: object) -> str:
    """A known kind of unit or verdict, such as tok/s; any other text becomes empty."""
    return value if isinstance(value, str) and re.fullmatch(r"[A-Za-z0-9/% ]{1,24}", value) else ""


def blind(entry: JsonObject | None) -> bool:
    """Whether a ratio's interval comes from within one round of each engine."""
    return bool(entry) and (entry or {}).get("method") == WITHIN_RUN


def shown_interval(entry: JsonObject) -> list[float] | None:
    """The interval to show for a ratio or a difference: the verdict's, or without a verdict the 95% interval."""
    return (entry.get("ci_adjusted") if entry.get("verdict") else None) or entry.get("ci")


def ratio_with_interval(entry: JsonObject | None) -> str:
    """A `speed_ratio` entry as "0.42× [0.40, 0.44] slower"; a dagger marks an interval from a single round."""
    if not entry or entry.get("value") is None:
        return UNKNOWN
    ci = shown_interval(entry)
    text = " ".join(part for part in (ratio(entry["value"], ci), interval(ci), word(entry.get("verdict"))) if part)
    return text + (DAGGER if blind(entry) else "")


def share(value: float | None) -> str:
    """0.9231 -> 92.3%."""
    return UNKNOWN if value is None else f"{100 * value:.1f}%"


def share_with_interval(value: float | None, ci: Sequence[float] | None) -> str:
    """A share with its interval, in percent: 12.5% [2.2, 47.1]."""
    tail = f" [{100 * ci[0]:.1f}, {100 * ci[1]:.1f}]" if ci else ""
    return share(value) + tail


def points(value: float | None, ci: Sequence[float] | None = None) -> str:
    """A difference of shares in percentage points: +1.2 points [-0.4, +2.8]."""
    if value is None:
        return UNKNOWN
    tail = f" [{_signed(100 * ci[0])}, {_signed(100 * ci[1])}]" if ci else ""
    return f"{_signed(100 * value)} points{tail}"


def _signed(value: float) -> str:
    return "0.0" if abs(value) < 0.05 else f"{value:+.1f}".replace("-", "−")


def short_hash(value: str | None) -> str:
    """The first 12 digits of a hash."""
    return value[:12] if value else UNKNOWN


TONES = {
    "faster": "good", "better": "good", "slower": "bad", "worse": "bad", "equivalent": "same", "inconclusive": "open",
}  # fmt: skip


def tone(entry: JsonObject) -> str:
    """The style of a verdict: good, bad, same, open, or none where there is none."""
    return TONES.get(str(entry.get("verdict")), "none")

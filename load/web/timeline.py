"""Keeps the last minutes of a test, second by second."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Any

from load.live_percentiles import quantile

METRICS = ("ttft_ms", "tpot_ms", "itl_ms", "icl_ms", "e2e_ms")
CHARTED = ("ttft_ms", "tpot_ms", "itl_ms", "icl_ms")
KEEP_S = 600
"""Seconds of history."""
RECENT_S = 10


def _empty() -> dict[str, list[float]] | None:
    return {name: [] for name in METRICS}


@dataclass(slots=True)
class Second:
    """One second of a test. `values` are kept while it is recent; later only their figures, in `frozen`."""

    tokens: float = 0.0
    ended: int = 0
    errors: int = 0
    in_flight: int | None = None
    lag_ms: float | None = None
    values: dict[str, list[float]] | None = field(default_factory=_empty)
    frozen: dict[str, dict[str, float | None]] = field(default_factory=dict)

    def figures(self, name: str) -> dict[str, float | None]:
        """Median and largest value: a second has too few requests for a tail percentile."""
        if self.values is None:
            return self.frozen[name]
        values = sorted(self.values[name])
        return {"p50": quantile(values, 0.5), "max": values[-1] if values else None}

    def freeze(self) -> None:
        if self.values is not None:
            self.frozen = {name: self.figures(name) for name in METRICS}
            self.values = None


class Seconds:
    """The seconds since a test's start, the newest last, at most `KEEP_S`. Times are seconds since the start."""

    def __init__(self) -> None:
        self._kept: deque[Second] = deque([Second()])
        self._dropped = 0

    def at(self, time: float) -> Second:
        """The second of a time; missing seconds before it are created."""
        number = max(0, int(time))
        # After a long gap (a suspended laptop) not every second of it is created.
        if number - self._dropped - len(self._kept) > KEEP_S:
            self._kept.clear()
            self._dropped = number
        while self._dropped + len(self._kept) <= number:
            self._kept.append(Second())
            if len(self._kept) > RECENT_S + 1:
                self._kept[-RECENT_S - 2].freeze()
            if len(self._kept) > KEEP_S:
                self._kept.popleft()
                self._dropped += 1
        return self._kept[number - self._dropped]

    def known(self, time: float) -> Second | None:
        """The second of a time; None if it does not exist (any more)."""
        number = int(time) - self._dropped
        return self._kept[number] if 0 <= number < len(self._kept) else None

    def recent(self) -> dict[str, Any]:
        """The figures of the last complete seconds, all exact."""
        seconds = list(self._kept)[-RECENT_S - 1 : -1]
        latency = {}
        for name in METRICS:
            values = sorted(v for second in seconds for v in (second.values or {}).get(name, ()))
            latency[name] = {"n": len(values), "p50": quantile(values, 0.5)}
        n = len(seconds)
        return {"seconds": n, "latency": latency, "tokens_per_s": sum(s.tokens for s in seconds) / n if n else None}

    def columns(self) -> dict[str, list[Any]]:
        """All seconds as columns; `t` counts from the start."""
        shown: dict[str, list[Any]] = {"t": [self._dropped + n for n in range(len(self._kept))]}
        for name in ("tokens", "ended", "errors", "in_flight", "lag_ms"):
            shown[name] = [_short(getattr(second, name)) for second in self._kept]
        for metric in CHARTED:
            figures = [second.figures(metric) for second in self._kept]
            for name in ("p50", "max"):
                shown[f"{metric}_{name}"] = [_short(of_second[name]) for of_second in figures]
        return shown


def _short(value: float | None) -> float | None:
    return value if value is None or isinstance(value, int) else round(value, 3)

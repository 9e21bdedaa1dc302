"""Gives reports read access to a comparison: ordered rows, headline, failures. Missing parts are empty."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from functools import cached_property

from records import JsonObject
from reporting.format import LEAD_METRICS, blind
from scoring.metrics import CAPACITY

DECIDING_METRICS = ("output_tok_s", "ttft_ms_p50", "tpot_ms_p50")
STATUSES = ("fail", "warn", "unknown", "pass", "not_applicable")


@dataclass(frozen=True)
class View:
    """Read access to one comparison JSON (docs/comparison.schema.json)."""

    data: JsonObject

    @property
    def run_id(self) -> str:
        return str(self.data.get("run_id") or "")

    @property
    def created(self) -> str:
        """The comparison's time for people: "2026-11-30 10:40 UTC"; any other text stays as it is."""
        entry = str(self.data.get("created") or "")
        return re.sub(r"^(\d{4})(\d\d)(\d\d)T(\d\d)(\d\d)\d\dZ$", r"\1-\2-\3 \4:\5 UTC", entry)

    @property
    def baseline(self) -> str:
        return str(self.data["baseline"])

    @cached_property
    def engines(self) -> list[str]:
        """All engines, the baseline first."""
        return [self.baseline, *self.candidates]

    @cached_property
    def candidates(self) -> list[str]:
        return [name for name in self.data["engines"] if name != self.baseline]

    def card(self, engine: str) -> JsonObject:
        """The facts of an engine: build, model, slots ...; empty if the baseline did not run."""
        entry: JsonObject = self.data["engines"].get(engine, {})
        return entry

    @property
    def night(self) -> JsonObject:
        """What a nightly made of this run (`NightResult.to_json`): `headline`, `details`, `exit_code` ...; else empty.

        No part of a comparison: whoever renders one adds it (`driver.compare_and_report.write_reports`).
        """
        return self.data.get("night") or {}

    @cached_property
    def night_lines(self) -> list[str]:
        """The night's verdict, before everything else in a report: its headline, its proof, its page; else empty."""
        if not self.night:
            return []
        page = f"A night of the profile “{self.night.get('profile')}”: night.html beside this file has all its figures"
        page += ", new builds and what else changed since the last good night." if self.night.get("exit_code") else "."
        return [f"Night: {self.night['headline']}", *(self.night.get("details") or [])[:1], page]

    @property
    def provenance(self) -> JsonObject:
        return self.data.get("provenance") or {}

    @property
    def verdict(self) -> JsonObject:
        return self.data.get("verdict") or {}

    @property
    def void(self) -> bool:
        return bool(self.verdict.get("void"))

    def rows(self, key: str) -> list[JsonObject]:
        """A list of the comparison; empty if it is missing."""
        rows = self.data.get(key)
        return rows if isinstance(rows, list) else []

    @cached_property
    def audit(self) -> list[JsonObject]:
        """The checks, worst first."""
        return sorted(self.rows("audit"), key=lambda row: _rank(row["status"]))

    @cached_property
    def audit_counts(self) -> dict[str, int]:
        counts = Counter(row["status"] for row in self.audit)
        return {status: counts[status] for status in STATUSES if counts[status]}

    @cached_property
    def failed_checks(self) -> list[str]:
        return list(dict.fromkeys(row["check"] for row in self.audit if row["status"] == "fail"))

    @cached_property
    def cells(self) -> list[str]:
        """Cell names in the order of the performance rows."""
        return list(dict.fromkeys(cell_of(row) for row in self.rows("performance")))

    @cached_property
    def lead_rows(self) -> list[JsonObject]:
        """The performance rows of the first table: lead metrics for which any engine has a value."""
        order = {metric: i for i, metric in enumerate(self._lead_metrics)}
        places = {cell: i for i, cell in enumerate(self.cells)}
        rows = [row for row in self.rows("performance") if row["metric"] in order and _known(row)]
        return sorted(rows, key=lambda row: (places[cell_of(row)], order[row["metric"]]))

    @cached_property
    def _lead_metrics(self) -> list[str]:
        return list(dict.fromkeys([*LEAD_METRICS, *(self.speed_rules.get("metrics") or [])]))

    @cached_property
    def other_rows(self) -> list[JsonObject]:
        return [row for row in self.rows("performance") if row["metric"] not in self._lead_metrics and _known(row)]

    @cached_property
    def deciding_rows(self) -> list[JsonObject]:
        """The rows of the deciding figures; all others are exploratory."""
        return [row for row in self.lead_rows if _decides(row)]

    @property
    def speed_rules(self) -> JsonObject:
        """How the verdicts on speed were made: `fewest_rounds`, `margin`; empty in an older comparison."""
        rules: JsonObject = (self.verdict.get("families") or {}).get("speed") or {}
        return rules

    @cached_property
    def step_rows(self) -> list[JsonObject]:
        """The rows of sweeps, each level as a separate cell."""
        return [row | {"cell": f"{row['scenario']}.{row['workload']}"} for row in self.rows("steps") if _known(row)]

    @cached_property
    def turn_rows(self) -> list[JsonObject]:
        """The rows of the turns of conversations, each turn under a name of its own."""
        rows = [
            row | {"scenario": f"turn {row['turn']}, {row['scenario']}"} for row in self.rows("turns") if _known(row)
        ]
        return [row | {"cell": f"{row['scenario']}.{row['workload']}"} for row in rows]

    @cached_property
    def capacity_rows(self) -> list[JsonObject]:
        """The capacity of each cell that searched one, with its ratio."""
        return [row for row in self.rows("performance") if row["metric"] in CAPACITY]

    @cached_property
    def cancellation_rows(self) -> list[JsonObject]:
        """Figures with and without cancelled requests, where at least one of them is known."""
        sides = ("without", "with")
        return [
            row
            for row in self.rows("cancellation")
            if any((row[side] or {}).get("value") is not None for side in sides)
        ]

    @cached_property
    def blind(self) -> bool:
        """Whether any interval of the first table comes from within one round."""
        return any(blind(entry) for row in self.lead_rows for entry in (row.get("speed_ratio") or {}).values())

    @property
    def caveats(self) -> list[str]:
        return [str(caveat) for caveat in self.verdict.get("caveats") or []]

    @cached_property
    def failed_requests(self) -> list[JsonObject]:
        return [row for row in self.rows("requests") if row.get("status") == "error" and row.get("phase") != "warmup"]

    @cached_property
    def flips(self) -> list[JsonObject]:
        """Problems that one engine got right and another wrong."""
        return [row for row in self.rows("problems") if is_flip(row)]

    @cached_property
    def both_failed(self) -> list[JsonObject]:
        """Problems that no engine got right."""
        return [row for row in self.rows("problems") if not any(e.get("correct") for e in row["engines"].values())]


def cell_of(row: JsonObject) -> str:
    """The label of a row's cell."""
    return str(row["cell"])


def is_flip(row: JsonObject) -> bool:
    """Whether some engines answered this problem right and others wrong."""
    return len({bool(engine.get("correct")) for engine in row["engines"].values()}) > 1


def rounds_of(engine_row: JsonObject) -> dict[int, float | None]:
    """Round number -> value."""
    return {int(number): value for number, value in (engine_row.get("rounds") or {}).items()}


def _decides(row: JsonObject) -> bool:
    """Whether a row's ratios have verdicts. Older comparisons do not record it; there the default metrics have them."""
    ratios = list((row.get("speed_ratio") or {}).values())
    return any(entry.get("deciding", row["metric"] in DECIDING_METRICS) for entry in ratios)


def _known(row: JsonObject) -> bool:
    return any(engine.get("value") is not None for engine in row["engines"].values())


def _rank(status: str) -> int:
    return STATUSES.index(status) if status in STATUSES else 0

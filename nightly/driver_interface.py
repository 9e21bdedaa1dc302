"""The interface between a night and the driver: run engines and cells under a run id, and return the comparison."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from nightly.gate_rules import GateRules
from records import JsonObject, RunFolder


@dataclass(frozen=True, slots=True)
class Measured:
    """A run that was measured and compared. `report` is the path of its report, if one was written."""

    folder: RunFolder
    comparison: JsonObject
    all_ok: bool
    report: Path | None = None

    def void_reasons(self) -> list[str]:
        """The failed checks of the audit, each with its evidence."""
        return [
            f"{row['check']} ({row.get('engine') or 'all'}, {row.get('cell') or 'all'}): {row.get('evidence')}"
            for row in self.comparison.get("audit", [])
            if row["status"] == "fail"
        ]


Measure = Callable[[GateRules, str], Measured]
"""Measures the engines and cells of the rules under a run id, completely, and compares them.

Raises an error with `message` and `exit_code` where it could not be measured.
"""

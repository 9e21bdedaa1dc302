"""Runs every registered audit check over the records and the read-back: one row per engine and cell.

One `fail` makes a comparison void. `unknown` means that the engine or the run does not report the fact; it is shown and
counts as a warning. docs/methodology.md explains each check and its limits.
"""

from __future__ import annotations

# Importing a group of checks registers them; the order here is the order of the audit's rows.
import scoring.audit.answers
import scoring.audit.cache
import scoring.audit.engine
import scoring.audit.host
import scoring.audit.load
import scoring.audit.machine
import scoring.audit.requests
import scoring.audit.responses
import scoring.audit.streams  # noqa: F401
from records import JsonObject
from scoring.audit.model import CELL_CHECKS, ENGINE_CHECKS, CellFacts, EngineFacts, Finding


def audit_cell(facts: CellFacts) -> list[JsonObject]:
    """The rows of one engine in one cell, in the order of registration."""
    return [_row(name, facts.engine, facts.cell, check(facts)) for name, check in CELL_CHECKS.items()]


def audit_engine(facts: EngineFacts) -> list[JsonObject]:
    """The rows of one engine, in the order of registration."""
    return [_row(name, facts.engine, None, check(facts)) for name, check in ENGINE_CHECKS.items()]


def _row(check: str, engine: str, cell: str | None, finding: Finding) -> JsonObject:
    return {
        "check": check,
        "engine": engine,
        "cell": cell,
        "status": finding.status.value,
        "evidence": finding.evidence,
    }

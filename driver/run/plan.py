"""The plan of a run: the order in which engines start, and their cells. `--dry-run` only prints it."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from driver.profile.cell_options import exact_users
from driver.profile.read import Cell, EngineSection, Profile
from engines import KINDS
from load.options import DEFAULT_MAX_TOKENS
from records import RunFolder, read_json
from scoring.statistics.rounds import MOST_ROUNDS

DEFAULT_OUT = Path("bench-out")
"""Default output folder (`--out` overrides it)."""
ASSUMED_SEARCH_S = 600.0
"""Assumed length in seconds of a capacity search without a time limit."""
ASSUMED_TOKEN_S = 0.02
MANY_SLOTS = 32
"""What a server of unknown slots is taken to answer at the same time, at most."""


@dataclass(frozen=True, slots=True)
class EngineRound:
    """One round of one engine: an engine process and the cells that it gets."""

    engine: EngineSection
    number: int
    cells: tuple[Cell, ...]


def round_orders(engines: Sequence[str], seed: int) -> Iterator[list[str]]:
    """The order of the engines in round 1, 2, 3 ...: drawn from the seed, and balanced.

    Each second round reverses the one before (A B, B A), so that neither a drift nor a cycle of two rounds favours an
    engine. Every pair of rounds is drawn anew, so that no longer cycle does.
    """
    rng = random.Random(f"{seed}/order")  # noqa: S311 (seeded)
    while True:
        order = rng.sample(list(engines), len(engines))
        yield order
        yield order[::-1]


def engine_rounds(profile: Profile) -> Iterator[EngineRound]:
    """All rounds of all engines in their order; `rounds = "auto"` gives the largest possible number of rounds."""
    engines = {engine.name: engine for engine in profile.engines}
    orders = round_orders(list(engines), profile.seed)
    most = MOST_ROUNDS if profile.rounds == "auto" else profile.rounds
    for number, order in zip(range(1, most + 1), orders, strict=False):
        for name in order:
            cells = tuple(cell for cell in profile.cells if cell.rounds is None or number <= cell.rounds)
            yield EngineRound(engines[name], number, cells)


def pending(folder: RunFolder, round_: EngineRound) -> list[Cell]:
    """The cells of an engine's round that are not complete yet."""
    round_folder = folder.round(round_.engine.name, round_.number)
    return [cell for cell in round_.cells if not round_folder.cell(cell.label).complete]


@dataclass(frozen=True, slots=True)
class Estimate:
    """The estimated length of a run in seconds, and the basis of the estimate as text."""

    seconds: float
    basis: str


def estimate(
    profile: Profile,
    sizes: Mapping[str, int],
    earlier: list[RunFolder],
    *,
    requests_each: Mapping[str, float] = {},
) -> Estimate:
    """Estimate a run's length from the newest complete run of the same profile name, else from a stated assumption.

    Args:
        profile: the profile of the run.
        sizes: measured prompts of each workload.
        earlier: run folders in which to look for an earlier run, newest first.
        requests_each: requests that a prompt of each workload makes on average, where that is not 1.
    """
    for folder in earlier:
        seconds = _took(folder, profile.name)
        if seconds is not None:
            return Estimate(seconds, f"as long as {folder.run_id} took")
    if profile.rounds == "auto":
        return Estimate(profile.time_s, "the time that the profile gives")
    seconds = 0.0
    for round_ in engine_rounds(profile):
        seconds += KINDS[round_.engine.kind].usual_start_s
        for cell in round_.cells:
            prompts = (cell.asked or sizes.get(cell.workload_name, 0) * cell.samples) + cell.warmup
            requests = prompts * requests_each.get(cell.workload_name, 1.0)
            if cell.searches_capacity:
                seconds += float(cell.options.get("time_limit") or ASSUMED_SEARCH_S)
                continue
            tokens = requests * (cell.max_tokens or DEFAULT_MAX_TOKENS)
            seconds += cell.duration_s or tokens * ASSUMED_TOKEN_S / _in_flight(cell, round_.engine)
    if profile.time is not None and profile.time_s < seconds:
        return Estimate(profile.time_s, "the time that the profile gives")
    basis = f"{ASSUMED_TOKEN_S * 1000:.0f} ms per token of each stream, and what a start of such engines takes"
    return Estimate(seconds, basis)


def _in_flight(cell: Cell, engine: EngineSection) -> int:
    """Requests of a cell that an engine answers at the same time, as far as that is known before."""
    return min(exact_users(cell.scenario) or cell.users or 1, engine.slots or MANY_SLOTS)


def _took(folder: RunFolder, profile_name: str) -> float | None:
    try:
        manifest = read_json(folder.manifest)
    except (OSError, ValueError):
        return None
    took, profile = manifest.get("took_s"), manifest.get("profile")
    same = isinstance(profile, dict) and profile.get("name") == profile_name
    return float(took) if same and took and not manifest.get("resumed_utc") else None


def earlier_runs(out: Path) -> list[RunFolder]:
    """The runs under an output folder, newest first."""
    manifests = list(out.glob("*/run.json"))
    return [RunFolder(path.parent) for path in sorted(manifests, key=lambda path: path.stat().st_mtime, reverse=True)]

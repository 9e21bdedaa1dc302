"""A run that has a time: whether it may stop after a round, what more time would decide, and shorter cells to fit."""

from __future__ import annotations

from collections.abc import Sequence

from driver.profile.sections import Cell
from driver.run.plan import Life
from records import RunFolder
from records.wording import count
from scoring.statistics.rounds import FEWEST_ROUNDS, MOST_ROUNDS

LEAST_CELL_S = 1.0
"""A cell is not made shorter than this: it would measure next to nothing."""


def fitting_share(lives: Sequence[Life], *, round_s: float, left_s: float, rounds: int) -> float:
    """The share of their `duration_s`, at most 1, that the cells of further rounds may take so that all end in time.

    What a round takes beside its durations (starts, warm-up, the last answers) is taken to stay as it was measured.

    Args:
        lives: a round as planned.
        round_s: how long it took with whole durations.
        left_s: the time that is left.
        rounds: the rounds that should fit into it.
    """
    durations = [cell.duration_s for life in lives for cell in life.cells if cell.duration_s]
    if not durations or rounds * round_s <= left_s:
        return 1.0
    asked = sum(durations)
    share = (left_s / rounds - (round_s - asked)) / asked
    return max(share, min(1.0, LEAST_CELL_S / min(durations)))


def shortened(life: Life, share: float) -> Life:
    """An engine process with this share of the durations of its cells."""
    if share == 1:
        return life

    def shorter(cell: Cell) -> Cell:
        return cell.model_copy(update={"duration_s": round(cell.duration_s * share, 1)}) if cell.duration_s else cell

    return Life(life.engine, life.round, tuple(map(shorter, life.cells)))


def why_stop_counted(done: int, planned: int, *, elapsed_s: float, round_s: float, time_s: float) -> str | None:
    """Why a run of so many planned rounds ends before them, as a sentence; None where the next round ends in time."""
    if done >= planned or elapsed_s + round_s <= time_s:
        return None
    more = round_s * (planned - done)
    verdicts = f"; a verdict needs {FEWEST_ROUNDS}" if done < FEWEST_ROUNDS else ""
    return f"the time is up after {count(done, 'round')} of {planned}{verdicts}: the others need {_minutes(more)} more"


def why_stop(folder: RunFolder, rounds: int, *, elapsed_s: float, round_s: float, time_s: float) -> str | None:
    """Why the run ends after this round, as a sentence; None where another round is due.

    Args:
        folder: the run's folder, with all rounds so far.
        rounds: rounds done.
        elapsed_s: how long this run has taken.
        round_s: how long its last round took, and the next may take.
        time_s: how long the run may take.
    """
    # Here, since pandas and scipy take a second that a command which starts an engine should not spend.
    from scoring.compare import judged_so_far
    from scoring.statistics.verdict import INCONCLUSIVE

    time_is_up = elapsed_s + round_s > time_s
    if rounds < FEWEST_ROUNDS:
        if not time_is_up:
            return None
        more = round_s * (FEWEST_ROUNDS - rounds)
        return (
            f"the time is up after {count(rounds, 'round')}, and a verdict needs {FEWEST_ROUNDS}:"
            f" about {_minutes(more)} more"
        )
    ratios = judged_so_far(folder)
    still_open = [ratio for ratio in ratios if ratio["verdict"] in (INCONCLUSIVE, None)]
    if ratios and not still_open:
        return f"all {len(ratios)} deciding figures are decided after {count(rounds, 'round')}"
    if not time_is_up and rounds < MOST_ROUNDS:
        return None
    reason = "the time is up" if time_is_up else "no more rounds are planned"
    needed = [ratio["needed_rounds"] for ratio in still_open]
    known = [number for number in needed if number is not None]
    text = f"{reason} after {count(rounds, 'round')}: {len(still_open)} of {len(ratios)} deciding figures are open"
    if known and len(known) == len(needed):
        more = (max(known) - rounds) * round_s
        return f"{text}; about {count(max(known) - rounds, 'round')} ({_minutes(more)}) more would decide them"
    return f"{text}; how many rounds would decide them all cannot be told from their spread"


def _minutes(seconds: float) -> str:
    return count(max(1, round(seconds / 60)), "minute")

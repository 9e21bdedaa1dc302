"""Decides when a run with a time limit stops: after which round, with what message, and with how much shorter cells."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from driver.profile.read import Profile
from driver.profile.sections import Cell
from driver.run.plan import EngineRound
from records import JsonObject, RunFolder
from records.wording import count
from scoring.statistics.rounds import FEWEST_ROUNDS, MOST_ROUNDS

LEAST_CELL_S = 1.0
"""Least length of a shortened cell: a shorter one would measure next to nothing."""


class TimeLimit:
    """Keeps a run within its time: after a round it shortens the cells of further rounds, or stops the run."""

    def __init__(self, profile: Profile, say: Callable[[str], None], side_of: float | None = None) -> None:
        """Start the clock. `say` shows a message to the user; `side_of` is that of `why_stop`."""
        self._profile, self._say, self._side_of = profile, say, side_of
        self._started = self._round_began = time.monotonic()
        self.share = 1.0
        """Share of their duration for which the cells of the next round measure."""

    @property
    def applies(self) -> bool:
        """Whether the run may end before its last planned round."""
        return self._profile.rounds == "auto" or self._profile.time is not None

    def after_round(self, folder: RunFolder, number: int, planned: Sequence[EngineRound]) -> str | None:
        """Why the run stops after round `number`, as a sentence; None if another round is due.

        `planned` are the rounds of all engines with this number, with full durations.
        """
        now, asked = time.monotonic(), self._profile.rounds
        elapsed_s, round_s = now - self._started, now - self._round_began
        self._round_began = now
        wanted = FEWEST_ROUNDS if asked == "auto" else asked
        if self.share == 1 and number < wanted:
            left_s = self._profile.time_s - elapsed_s
            self.share = fitting_share(planned, round_s=round_s, left_s=left_s, rounds=wanted - number)
            if self.share < 1:
                round_s -= (1 - self.share) * sum(cell.duration_s or 0.0 for each in planned for cell in each.cells)
                self._say(f"round {number} took longer than planned: further cells measure {self.share:.0%} as long")
        times = {"elapsed_s": elapsed_s, "round_s": round_s, "time_s": self._profile.time_s}
        if asked == "auto":
            return why_stop(folder, number, **times, side_of=self._side_of)
        return why_stop_counted(number, asked, **times)


def fitting_share(rounds_of_engines: Sequence[EngineRound], *, round_s: float, left_s: float, rounds: int) -> float:
    """The share of `duration_s` (at most 1) for the cells of further rounds, such that all rounds end in time.

    The rest of a round (starts, warm-up, the last answers) is assumed to take as long as it did.

    Args:
        rounds_of_engines: the planned rounds of all engines with one number.
        round_s: seconds that they took with full durations.
        left_s: remaining seconds.
        rounds: the number of rounds that should fit into the remaining time.
    """
    durations = [cell.duration_s for round_ in rounds_of_engines for cell in round_.cells if cell.duration_s]
    if not durations or rounds * round_s <= left_s:
        return 1.0
    asked = sum(durations)
    share = (left_s / rounds - (round_s - asked)) / asked
    return max(share, min(1.0, LEAST_CELL_S / min(durations)))


def shortened(round_: EngineRound, share: float) -> EngineRound:
    """An engine's round with this share of the durations of its cells."""
    if share == 1:
        return round_

    def shorter(cell: Cell) -> Cell:
        return cell.model_copy(update={"duration_s": round(cell.duration_s * share, 1)}) if cell.duration_s else cell

    return EngineRound(round_.engine, round_.number, tuple(map(shorter, round_.cells)))


def why_stop_counted(rounds: int, planned: int, *, elapsed_s: float, round_s: float, time_s: float) -> str | None:
    """Why a run stops before its planned number of rounds, as a sentence; None if the next round ends in time."""
    if rounds >= planned or elapsed_s + round_s <= time_s:
        return None
    more = round_s * (planned - rounds)
    verdicts = f"; a verdict needs {FEWEST_ROUNDS}" if rounds < FEWEST_ROUNDS else ""
    ended = f"the time is up after {count(rounds, 'round')} of {planned}{verdicts}"
    return f"{ended}: the others need {_minutes(more)} more"


def why_stop(
    folder: RunFolder, rounds: int, *, elapsed_s: float, round_s: float, time_s: float, side_of: float | None = None
) -> str | None:
    """Why the run stops after this round, as a sentence; None if another round is due.

    Args:
        folder: the run's folder, with all rounds so far.
        rounds: number of complete rounds.
        elapsed_s: seconds that this run has taken.
        round_s: seconds that its last round took; the next is assumed to take as long.
        time_s: time limit of the run in seconds.
        side_of: a figure is decided once its speed ratio's interval lies on one side of this ratio; None: once it has
            a verdict.
    """
    # Imported here, because pandas and scipy would delay every command that starts an engine by a second.
    from scoring.compare import judged_so_far
    from scoring.statistics.joint_verdict import INCONCLUSIVE

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
    if side_of is None:
        still_open = [ratio for ratio in ratios if ratio["verdict"] in (INCONCLUSIVE, None)]
    else:
        still_open = [ratio for ratio in ratios if _holds(ratio, side_of)]
    if ratios and not still_open:
        which = f"all {len(ratios)} deciding figures are" if len(ratios) > 1 else "the deciding figure is"
        return f"{which} decided after {count(rounds, 'round')}"
    if not time_is_up and rounds < MOST_ROUNDS:
        return None
    reason = "the time is up" if time_is_up else "no more rounds are planned"
    needed = [ratio["needed_rounds"] if side_of is None else None for ratio in still_open]
    known = [number for number in needed if number is not None]
    text = f"{reason} after {count(rounds, 'round')}: {len(still_open)} of {len(ratios)} deciding figures are open"
    if known and len(known) == len(needed):
        more = (max(known) - rounds) * round_s
        return f"{text}; about {count(max(known) - rounds, 'round')} ({_minutes(more)}) more would decide them"
    return f"{text}; their spread does not show how many rounds would decide them all"


def _holds(ratio: JsonObject, value: float) -> bool:
    """Whether the interval of a speed ratio holds a value; one without an interval may be anything."""
    interval = ratio["ci_adjusted"] or ratio["ci"]
    return not interval or interval[0] <= value <= interval[1]


def _minutes(seconds: float) -> str:
    return count(max(1, round(seconds / 60)), "minute")

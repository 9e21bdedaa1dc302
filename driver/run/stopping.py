"""`rounds = "auto"`: whether a run may stop after a round, and what more time would decide."""

from __future__ import annotations

from records import RunFolder
from records.wording import count
from scoring.statistics.rounds import FEWEST_ROUNDS, MOST_ROUNDS


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
    still_open = [ratio for ratio in ratios if ratio["verdict"] == INCONCLUSIVE]
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

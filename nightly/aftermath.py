"""What a night adds once it is judged: why it is void, what moved lately, which folders may go."""

from __future__ import annotations

from driver.profile.read import Profile
from nightly.history.store import History
from nightly.history.trends import trends
from nightly.measurement import Measured

RECENT = 14
"""Changes of level within so many nights are shown with the night."""


def void_reasons(run: Measured) -> list[str]:
    """The failed checks with their evidence."""
    rows = [row for row in run.comparison.get("audit", []) if row["status"] == "fail"]
    return [
        f"{row['check']} ({row.get('engine') or 'all'}, {row.get('cell') or 'all'}): {row.get('evidence')}"
        for row in rows
    ]


def recent_shifts(history: History, profile: Profile) -> list[str]:
    """Changes of level in the last nights, which a gate against the night before can't see while they creep."""
    notes = []
    for metric in profile.gate.metrics:
        for found in trends(history, metric, profile=profile.name):
            of, newest = found.series, len(found.series.points) - RECENT
            for shift in found.shifts:
                if shift.index >= newest:
                    levels = f"{shift.before:.4g} -> {shift.after:.4g}"
                    notes.append(f"{of.engine}, {of.cell}, {metric}: since {shift.run_id}, {levels}")
    return notes


def old_nights(history: History, profile: Profile, keep: int) -> list[str]:
    """Nights beyond the newest `keep`, with their confirmations; pinned ones stay, and so does the last good one."""
    nights = history.runs(profile=profile.name, where="kind = 'nightly' AND status != 'running'")
    good = history.runs(profile=profile.name, good=True)
    staying = {run.run_id for run in nights[max(0, len(nights) - keep) :]} | {run.run_id for run in good[-1:]}
    staying |= {run.run_id for run in nights if run.pinned_utc}
    second = history.runs(profile=profile.name, where="kind = 'confirmation' AND status != 'running'")
    return [run.run_id for run in nights if run.run_id not in staying] + [
        r.run_id for r in second if r.confirms not in staying
    ]

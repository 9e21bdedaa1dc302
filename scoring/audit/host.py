"""Audit check of the host during a cell: did other programs slow one engine down more than the other?"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import geometric_mean

from scoring.audit.model import CellFacts, Finding, RoundFacts, Status, cell_check, failed, passed, unknown, warned
from scoring.speed.host import HostFigures

SLOWDOWN_WARN = 1.25
"""Slowdown of our CPU work by other programs from which the audit warns that the machine was busy."""
UNEVEN_WARN, UNEVEN_FAIL = 1.10, 1.50
"""Ratio of two engines' slowdowns. It voids only if each round of one engine is worse than each round of the other."""
CLOCK_WARN = 1.10
"""Ratio of two engines' mean clocks."""
MEMORY_WARN = 0.05
"""Share of time in which a process waited for memory."""


@cell_check("machine left alone")
def left_alone(facts: CellFacts) -> Finding:
    """No other program took more CPU time, clock or memory from one engine than from the other."""
    mine, theirs = _known(facts.rounds), _known(facts.baseline)
    if not mine or len(mine) < len(facts.rounds):
        return unknown("the host was not sampled throughout")
    worst = max(mine, key=lambda host: host.slowdown)
    evidence = _evidence(worst)
    unevenness = _uneven(mine, theirs) if theirs else None
    if unevenness and unevenness.status is Status.FAIL:
        return Finding(Status.FAIL, f"{unevenness.evidence}; {evidence}")
    if unevenness:
        return Finding(Status.WARN, f"{unevenness.evidence}; {evidence}")
    if worst.slowdown >= SLOWDOWN_WARN:
        return warned(f"other programs crowded the CPU: {evidence}")
    if any((host.memory_stalled or 0.0) > MEMORY_WARN for host in mine):
        return warned(f"processes waited for memory: {evidence}")
    if any(host.throttled for host in mine):
        return warned(f"the CPU throttled because of heat: {evidence}")
    return passed(evidence)


def _uneven(mine: Sequence[HostFigures], theirs: Sequence[HostFigures]) -> Finding | None:
    """The finding on a machine that was busier for one engine than for the other; None where both are alike."""
    ours, base = ([host.slowdown for host in side] for side in (mine, theirs))
    ratio = geometric_mean(ours) / geometric_mean(base)
    slowed, other = ("this engine's", "the baseline's") if ratio >= 1 else ("the baseline's", "this engine's")
    text = f"other programs slowed {slowed} CPU work down {max(ratio, 1 / ratio):.2f} times as much as {other}"
    apart = min(ours) > max(base) or max(ours) < min(base)
    if max(ratio, 1 / ratio) >= UNEVEN_FAIL and apart and min(len(ours), len(base)) > 1:
        return failed(f"{text}, in every round")
    if max(ratio, 1 / ratio) >= UNEVEN_WARN:
        return warned(text)
    clocks = [[host.mhz for host in side if host.mhz] for side in (mine, theirs)]
    if all(clocks):
        ours_mhz, base_mhz = (sum(side) / len(side) for side in clocks)
        if max(ours_mhz / base_mhz, base_mhz / ours_mhz) >= CLOCK_WARN:
            return warned(f"the CPU's clock was {ours_mhz:,.0f} MHz, {base_mhz:,.0f} MHz under the baseline")
    return None


def _known(rounds: Sequence[RoundFacts]) -> list[HostFigures]:
    return [round_.figures.host for round_ in rounds if round_.figures.host]


def _evidence(host: HostFigures) -> str:
    parts = [
        f"others used {100 * host.others:.0f}% of the CPU",
        f"our threads waited {host.waited:.2f} s per second on it",
        f"steal {100 * host.steal:.1f}%",
    ]
    if host.load1 is not None:
        parts.append(f"load {host.load1:.1f}")
    if host.mhz is not None:
        parts.append(f"{host.mhz:,.0f} MHz{f', governor {host.governor}' if host.governor else ''}")
    if host.memory_stalled is not None:
        parts.append(f"memory stalled {100 * host.memory_stalled:.1f}%")
    return ", ".join(parts)

"""Audit checks of the load: the concurrency was reached, the client was healthy, and each round is complete."""

from __future__ import annotations

from typing import Any

import numpy as np

from records import Phase
from records.wording import count
from scoring.audit.model import (
    CellFacts,
    Finding,
    RoundFacts,
    cell_check,
    failed,
    not_applicable,
    passed,
    unknown,
    warned,
)

AT_ASKED_WARN, AT_ASKED_FAIL = 0.98, 0.80
"""Share of the time up to the last send that must have the whole concurrency in flight."""
LATE_SEND_MS, LATE_SHARE_WARN = 20.0, 0.01
"""How late a request of an open loop counts as late, and from which share of such requests the audit warns."""
LAG_WARN_MS = 20.0
"""The client's loop lag (p99) from which the audit warns. It fails beyond one of the following shares of a median."""
LAG_FAIL_DATED = (("TTFT", 0.25), ("TPOT", 5.0))
"""Limits where lag moves time stamps. A late client lengthens TTFT, but hardly the time per token."""
LAG_FAIL_SENT = (("E2E", 0.25),)
"""Limit where lag only delays the next request: the kernel stamped arrivals, and no two tokens waited together."""
LATE_SHARE_FAIL = 0.10
"""Share of a cell's time in which the loop was late by more than `LAG_WARN_MS`: from here such lag is a failure.

A p99 of lag is one hiccup in a cell of two seconds (100 samples). The share says how much of the cell it touched: of
requests that are spread over time, no larger share has a late stamp or send. Below a tenth, a median moves by five
percentiles at most.
"""
LATE_SAMPLES_FAIL = 3
"""Late moments that a failure needs: one or two are hiccups of the machine, which the interval over rounds carries."""
CPU_WARN, CPU_FAIL = 0.80, 0.95
"""Share of one core that the load process used."""
TIMING_TOLERANCE, TIMING_FAIL = 0.05, 0.20
"""Relative difference of the median TPOT, client against server."""
TIMING_TOKENS = 16
"""With fewer tokens the server's TPOT is too coarse to compare."""
DRIFT_WARN, DRIFT_FAIL = 0.10, 0.50
DRIFT_FROM = 15
"""Requests that a cell needs to judge a drift between its thirds."""


@cell_check("round complete")
def complete(facts: CellFacts) -> Finding:
    """Every round of the profile was captured, and its load is complete."""
    # A profile may ask for a cell in the first rounds only.
    planned, manifest = facts.run.profile.get("rounds"), facts.run.manifest
    ended = planned == "auto" or manifest.get("stopped")
    wanted = facts.section.get("rounds") or (manifest.get("rounds_done") if ended else None) or planned
    have = {r.number for r in facts.rounds}
    if not have:
        return failed("no capture of this cell")
    missing = sorted(set(range(1, wanted + 1)) - have) if isinstance(wanted, int) else []
    if missing:
        return failed(f"round {', '.join(map(str, missing))} of {wanted} has no capture of this cell")

    def check(round_: RoundFacts) -> Finding:
        scenario = round_.capture.scenario
        if not scenario:
            return failed("no scenario.json: the load was cut off")
        if scenario.get("complete") is not True:
            return failed(f"the load did not end as asked: {scenario.get('incomplete_reason') or 'cut off'}")
        # A retry after HTTP 429 or 503 is no further request.
        first = round_.figures.measured[round_.figures.measured["attempt"] == 1]
        measured = int((~first["turn"].gt(1)).sum())
        what = "conversation" if first["turn"].notna().any() else "measured request"
        if facts.run.asks_all(facts.cell):
            # In a resumed cell the load process counts only its own part.
            samples = int(facts.section.get("samples") or 1)
            expected = samples * sum(pool == "measure" for pool in facts.prompts.values())
            have = len(round_.figures.measured[["asked_id", "sample"]].drop_duplicates())
            each = "" if samples == 1 else f" and samples ({samples} of each)"
            prompts = f"{count(expected, 'prompt')}{each}"
            if have < expected:
                return failed(f"{have:,} of {prompts} in the records")
            return passed(f"all {prompts}, ended as asked" if expected > 1 else f"{prompts}, ended as asked")
        asked = {**round_.capture.asked, **{key: value for key, value in facts.section.items() if value}}
        wanted_n = asked.get("conversations") or asked.get("requests")
        by_time = round_.capture.asked.get("duration_s") or round_.capture.scenario.get("steps")
        if wanted_n and not by_time and measured != wanted_n:
            return failed(f"{count(measured, what)} in the records; the profile asks for {wanted_n:,}")
        return passed(f"{count(measured, what)}, ended as asked")

    return facts.each(check)


@cell_check("undisturbed")
def undisturbed(facts: CellFacts) -> Finding:
    """No hook ran beside the load. A round with one is marked, and its speed is not compared."""
    disturbed = [facts_.number for facts_ in facts.rounds if facts_.capture.disturbed]
    if not disturbed:
        return not_applicable("no hook ran beside the load")
    rounds = f"round{'s' if len(disturbed) > 1 else ''} {', '.join(map(str, disturbed))}"
    if len(disturbed) == len(facts.rounds):
        return warned(f"{rounds}: the hook during_cell ran beside the load, and there is no other round to compare")
    return warned(f"{rounds}: the hook during_cell ran beside the load; its speed is not compared")


@cell_check("records as counted")
def as_counted(facts: CellFacts) -> Finding:
    """requests.jsonl has as many requests as the load process counted: this detects a truncated file."""

    def check(round_: RoundFacts) -> Finding:
        counts = round_.capture.scenario.get("counts")
        if not counts:
            return unknown("scenario.json does not record the number of requests")
        frame = round_.figures.requests
        phases = frame["phase"].value_counts()
        measured = frame[frame["phase"] != Phase.WARMUP.value]
        recorded = {phase.value: int(phases.get(phase.value, 0)) for phase in Phase}
        recorded |= {"ok": int(measured["ok"].sum()), "error": int(measured["failed"].sum())}
        recorded |= {"cancelled": int(measured["cancelled"].sum())}
        # The load process of a resumed cell counts only its own part, so the file may have more.
        resumed = bool(round_.capture.earlier)
        for name, number in recorded.items():
            counted = int(counts.get(name) or 0)
            if number < counted or (number > counted and not resumed):
                return failed(f"{number:,} {name} requests in the records; the load process counted {counted:,}")
        return passed(f"{count(len(frame), 'record')}, as counted")

    return facts.each(check)


@cell_check("concurrency achieved")
def concurrency(facts: CellFacts) -> Finding:
    """The records show exactly the requested number in flight throughout the steady window."""

    def check(round_: RoundFacts) -> Finding:
        steady = round_.figures.steady
        if round_.figures.steps:
            return _levels_reached(round_)
        if steady.asked is None:
            mean = steady.mean_in_flight
            return not_applicable(f"no fixed concurrency is asked; {mean or 0:.1f} were in flight on average")
        if not steady.windows:
            return failed(f"at most {steady.reached} in flight; the profile asks for {steady.asked}")
        users = round_.capture.asked.get("users")
        if users is not None and steady.asked != users:
            return failed(f"all workers together have {steady.asked} users; the profile asks for {users}")
        share = steady.at_asked or 0.0
        evidence = f"{steady.asked} in flight for {100 * share:.1f}% of the load, steady for {steady.length_s:.1f} s"
        if steady.reached > steady.asked:
            return failed(f"{steady.reached} in flight at once; the profile asks for {steady.asked}")
        if share < AT_ASKED_FAIL:
            return failed(evidence)
        if steady.pauses_ms:
            longest = max(steady.pauses_ms) / 1000
            return warned(
                f"{evidence}; the load paused {count(len(steady.pauses_ms), 'time')}, up to {longest:.1f} s (resumed?)"
            )
        mean = steady.mean_in_flight or 0.0
        if round_.figures.measured["turn"].notna().any():
            evidence = f"{evidence}; held are conversations, and {mean:.2f} requests were in flight on average"
        elif mean < AT_ASKED_FAIL * steady.asked:
            return warned(
                f"{evidence}; {mean:.2f} on average: requests are so short that the client's pauses between them matter"
            )
        return warned(evidence) if share < AT_ASKED_WARN else passed(evidence)

    return facts.each(check)


def _levels_reached(round_: RoundFacts) -> Finding:
    """In a sweep over users, each level reached its number in flight."""
    held = {level: figures.steady for level, figures in round_.figures.steps.items()}
    if any(steady.asked is None for steady in held.values()):
        rates = ", ".join(f"{level:g}" for level in held)
        return not_applicable(f"the load asks for {rates} requests per second and no fixed concurrency")
    for level, steady in held.items():
        if steady.reached != level:
            return failed(f"{steady.reached} in flight at once; this step asks for {level:g}")
    return passed(f"{', '.join(f'{level:g}' for level in held)} in flight, each in its step")


@cell_check("sent on time")
def on_time(facts: CellFacts) -> Finding:
    """In an open loop, requests went out when they were due. Late ones found no free user, or a slow client."""

    def check(round_: RoundFacts) -> Finding:
        measured = round_.figures.measured
        due = measured[measured["scheduled_ms"].notna() & measured["sent_ms"].notna()]
        if due.empty:
            return not_applicable("a closed loop: no request has a time at which it is due")
        late_ms = (due["sent_ms"] - due["scheduled_ms"]).to_numpy(float)
        late = int((late_ms > LATE_SEND_MS).sum())
        evidence = f"{late:,} of {count(len(due), 'request')} sent more than {LATE_SEND_MS:g} ms late"
        evidence += f"; p99 {np.percentile(late_ms, 99):.1f} ms, at most {late_ms.max():.1f} ms"
        if late > LATE_SHARE_WARN * len(due):
            return warned(f"{evidence}: the load was not the one that was asked")
        return passed(evidence)

    return facts.each(check)


@cell_check("client healthy")
def client(facts: CellFacts) -> Finding:
    """The load process was fast enough: its CPU share and loop lag are small against the measured times.

    Where the kernel stamps arrivals, a lag shorter than one TPOT moves no time stamp. A longer lag does: tokens that
    wait together are read together, and all get the stamp of the last. The client's `bottleneck` report is a warning.

    Lag fails where it is long against what is measured and touched enough of the cell to move its figures. Captures
    without `loop_late_share` (older ones) are judged by the lag's p99 alone.
    """

    def check(round_: RoundFacts) -> Finding:
        reports = round_.capture.clients
        if not reports:
            return unknown("the load process left no health figures")
        cpu, lag, delay = (_largest(reports, key) for key in ("cpu_share", "loop_lag_ms_p99", "send_delay_ms_p99"))
        late_share, late_times = (_largest(reports, key) for key in ("loop_late_share", "loop_late_samples"))
        if lag is None and cpu is None:
            return unknown("neither loop lag nor CPU share was measured")
        evidence = f"loop lag p99 {_show(lag)}, CPU {_percent(cpu)} of a core, send delay p99 {_show(delay)}"
        if late_share is not None:
            times = "" if late_times is None else f"{count(int(late_times), 'time')}, "
            evidence += f", late by over {LAG_WARN_MS:g} ms {times}for {100 * late_share:.1f}% of the time"
        if cpu is not None and cpu >= CPU_FAIL:
            return failed(evidence)
        by_kernel = all(c.get("arrival_stamps") == "kernel" for c in reports)
        apart = lag is not None and lag <= (round_.figures.values.get("tpot_ms_p50") or 0.0)
        for name, share in LAG_FAIL_SENT if by_kernel and apart else LAG_FAIL_DATED:
            spoiled = round_.figures.values.get(f"{name.lower()}_ms_p50")
            if lag is not None and spoiled is not None and lag > LAG_WARN_MS and lag > share * spoiled:
                beside = f"{evidence}, with a median {name} of {spoiled:.1f} ms"
                seldom = late_times is not None and late_times < LATE_SAMPLES_FAIL
                if late_share is None or (late_share >= LATE_SHARE_FAIL and not seldom):
                    return failed(beside)
                return warned(f"{beside}: too seldom to move a median, but tails (p95, p99) show it")
        if worst := next((c for c in reports if c.get("bottleneck") is True), None):
            # The client's limits are absolute; whether the figures suffer depends on the engine's speed.
            return warned(f"the client reports: {worst.get('bottleneck_reason')}; {evidence}")
        strained = (cpu is not None and cpu >= CPU_WARN) or any(v is not None and v > LAG_WARN_MS for v in (lag, delay))
        return warned(evidence) if strained else passed(evidence)

    return facts.each(check)


@cell_check("client and server agree")
def timings_agree(facts: CellFacts) -> Finding:
    """The client's TPOT agrees with the server's own.

    llama.cpp's predicted_ms starts at the first token, so its n tokens span n - 1 intervals: the server's time per
    token is predicted_ms / (n - 1).
    """

    def check(round_: RoundFacts) -> Finding:
        good = round_.figures.good
        timed = good[good["server_predicted_ms"].gt(0) & good["server_predicted_n"].ge(TIMING_TOKENS)]
        timed = timed[timed["tpot_ms"].gt(0)]
        if timed.empty:
            return unknown("the engine sends no timings (or too few tokens per request)")
        server = timed["server_predicted_ms"] / (timed["server_predicted_n"] - 1)
        ratio = float(np.median(timed["tpot_ms"] / server))
        evidence = f"median TPOT is {ratio:.3f} times the server's, over {count(len(timed), 'request')}"
        if abs(ratio - 1) > TIMING_FAIL:
            return failed(evidence)
        return warned(evidence) if abs(ratio - 1) > TIMING_TOLERANCE else passed(evidence)

    return facts.each(check)


@cell_check("no drift")
def no_drift(facts: CellFacts) -> Finding:
    """The last third of a cell is as fast as its first third (median time per token).

    The check warns where they differ, either way, by more than 10% plus the spread within the first third. It fails
    only beyond 50% plus that spread, because the speed of a shared machine varies.
    """

    def check(round_: RoundFacts) -> Finding:
        if round_.capture.asked.get("shape") in ("sweep", "ramp", "capacity"):
            return not_applicable("the load itself changes by plan")
        good = round_.figures.good
        good = good[good["tpot_ms"].gt(0)].sort_values("sent_ms")
        if good["turn"].notna().any():
            # Late turns are slower, since their prompts are longer: each is held against its like.
            of_turn = good.groupby("turn")["tpot_ms"].transform("median")
            good = good.assign(tpot_ms=good["tpot_ms"] / of_turn)
        if len(good) < DRIFT_FROM:
            return not_applicable(f"{count(len(good), 'request is', 'requests are')} too few to judge a drift")
        third = len(good) // 3
        first, last = good["tpot_ms"][:third], good["tpot_ms"][-third:]
        ratio = float(last.median() / first.median())
        evidence = f"median TPOT of the last third is {ratio:.2f} times that of the first"
        # Less than the spread within a third is no drift.
        spread = float(np.subtract(*np.percentile(first, [75, 25])) / first.median())
        if max(ratio, 1 / ratio) - 1 > DRIFT_FAIL + spread:
            return failed(evidence)
        return warned(evidence) if max(ratio, 1 / ratio) - 1 > DRIFT_WARN + spread else passed(evidence)

    return facts.each(check)


def _largest(clients: list[dict[str, Any]], key: str) -> float | None:
    values = [c[key] for c in clients if isinstance(c.get(key), int | float)]
    return float(max(values)) if values else None


def _show(value: float | None) -> str:
    return "unknown" if value is None else f"{value:.1f} ms"


def _percent(value: float | None) -> str:
    return "unknown" if value is None else f"{100 * value:.0f}%"

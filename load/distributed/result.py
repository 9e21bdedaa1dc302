"""How a distributed run came out: one scenario.json from the ends of all workers.

Clocks are never compared: a record's stamps mean something only among those of the same worker, and so does a window.
"""

from __future__ import annotations

import logging
from typing import Any

from load.capture import CaptureError, utc_now
from load.distributed.master import Master
from load.distributed.master import of as master_of
from workloads import load_prompts

log = logging.getLogger("enginebench")


def finish(environment: Any) -> None:
    """Write the whole scenario from the ends of the workers."""
    master = master_of(environment)
    if master is None:
        return
    silent = master.expected - set(master.ends)
    reason = _incomplete_reason(master, silent)
    workers = [{**end, "in_flight_clock": "this worker's own"} for _, end in sorted(master.ends.items())]
    first = workers[0] if workers else {}
    options = environment.parsed_options
    prompts = load_prompts(options.prompts, seed=options.seed) if not options.requests else []
    total = options.requests or sum(p.pool != "warmup" for p in prompts) * options.samples
    asked = {**first.get("asked", {}), "users": sum(w["asked"]["users"] or 0 for w in workers)}
    asked["requests"] = None if options.duration and not options.requests else total
    fields = {key: first.get(key) for key in ("engine", "cell", "scenario", "workload", "round")}
    try:
        master.capture.write_scenario(
            **fields,
            asked=asked,
            started_utc=master.started_utc,
            ended_utc=utc_now(),
            # Each worker's window is on its own clock, in `workers`.
            measure_start_ns=None,
            measure_end_ns=None,
            steps=[],
            saturated_at=None,
            client=_worst(workers),
            workers=workers,
            complete=reason is None,
            incomplete_reason=reason,
        )
    except CaptureError as error:
        master.failure = str(error)
        log.error("%s", error)
    master.capture.close()
    failed = any(end["failed"] for end in master.ends.values()) or master.failure or silent
    environment.process_exit_code = 1 if failed else 0
    environment.enginebench_master = None


def _incomplete_reason(master: Master, silent: set[str]) -> str | None:
    if master.failure:
        return master.failure
    if silent:
        return f"worker lost: {', '.join(sorted(silent))}"
    reasons = {end["incomplete_reason"] for end in master.ends.values() if end["incomplete_reason"]}
    sent = sum(end["counts"]["measure"] + end["counts"]["drain"] for end in master.ends.values())
    written = master.capture.counts["measure"] + master.capture.counts["drain"]
    if sent != written:
        return f"workers sent {sent} records, {written} were written"
    return "; ".join(sorted(reasons)) or None


def _worst(workers: list[dict[str, Any]]) -> dict[str, Any] | None:
    """The health of the least healthy worker; its curve is in `workers`."""
    clients = [w["client"] for w in workers if w.get("client")]
    if not clients:
        return None
    worst = max(clients, key=lambda c: (bool(c["bottleneck"]), c["loop_lag_ms_p99"] or 0.0))
    late = sum(c["late_sends"] for c in clients)
    return {**worst, "in_flight": [], "late_sends": late}

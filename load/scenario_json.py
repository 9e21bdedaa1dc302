"""Builds the fields of scenario.json (except `counts`, which the capture adds), for one process or several workers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from load import conversation
from load.options import TRACE
from load.record_builder import Labels
from load.schedule.admission import Admission
from records.headers import shown
from records.redaction import shown_fields
from records.utc import utc_now

NOT_ENDED = "not ended"


def asked_fields(
    options: Any,
    kind: str,
    *,
    users: int | None,
    measured_prompts: int,
    conversations: bool,
    extras: Mapping[str, Any],
    headers: Mapping[str, str],
) -> dict[str, Any]:
    """The requested load. Null means: does not apply, or no limit."""
    return {
        "users": users,
        "rate": options.rate if kind == "open" and options.arrivals != TRACE else None,
        "arrivals": options.arrivals if kind == "open" else None,
        "burstiness": options.burstiness if kind == "open" else None,
        "steps": options.steps if kind == "sweep" else None,
        ("conversations" if conversations else "requests"): conversation.admitted(options)
        or (None if options.duration or kind == "capacity" else measured_prompts * options.samples),
        **({"carry": options.carry} if conversations else {}),
        "duration_s": options.duration or None,
        "warmup": options.warmup,
        # Null: each prompt's own limit.
        "max_tokens": options.max_tokens or None,
        "fixed_length": options.fixed_length,
        "cancel_share": options.cancel_share,
        "cancel_after_tokens": options.cancel_after_tokens if options.cancel_share else None,
        "samples": options.samples,
        "seed": options.seed,
        "endpoint": options.endpoint,
        "model": options.model or None,
        "max_tokens_field": options.max_tokens_field,
        "headers": shown(headers),
        "request_extras": shown_fields(extras),
        "shape": kind,
    }


def process_fields(
    labels: Labels,
    asked: Mapping[str, Any],
    admission: Admission,
    *,
    started_utc: str,
    ended: bool,
    reason: str | None,
    client: Mapping[str, Any] | None,
    capacity: Mapping[str, Any] | None,
) -> dict[str, Any]:
    """The fields for one process, which runs a whole test or a worker's part of it."""
    sweep = admission.sweep
    reason = reason if ended else NOT_ENDED
    return {
        "engine": labels.engine,
        "cell": labels.cell,
        "scenario": labels.scenario,
        "workload": labels.workload,
        "round": labels.round,
        "asked": dict(asked),
        "started_utc": started_utc,
        "ended_utc": utc_now(milliseconds=True) if ended else None,
        "measure_start_ns": admission.measure_start_ns,
        "measure_end_ns": admission.measure_end_ns,
        "steps": [step.to_dict() for step in sweep.steps] if sweep else [],
        "saturated_at": sweep.saturated_at if sweep else None,
        "capacity": capacity,
        "client": client if ended else None,
        "workers": [],
        "complete": ended and reason is None,
        "incomplete_reason": reason,
    }


def distributed_fields(
    ends: Iterable[Mapping[str, Any]],
    *,
    users: int,
    admitted: int | None,
    started_utc: str,
    reason: str | None,
    capacity: Mapping[str, Any] | None,
) -> dict[str, Any]:
    """The fields for a distributed test, from the ends that its workers reported.

    Clocks of different hosts are never compared, so a worker's stamps and window stay in `workers`.
    """
    workers = [{**end, "in_flight_clock": "this worker's own"} for end in ends]
    first: dict[str, Any] = workers[0] if workers else {}
    asked = first.get("asked", {})
    return {
        **{key: first.get(key) for key in ("engine", "cell", "scenario", "workload", "round")},
        "asked": {**asked, "users": users, ("conversations" if "conversations" in asked else "requests"): admitted},
        "started_utc": started_utc,
        "ended_utc": utc_now(milliseconds=True),
        "measure_start_ns": None,
        "measure_end_ns": None,
        "steps": [],
        "saturated_at": None,
        "capacity": capacity,
        "client": _least_healthy(workers),
        "workers": workers,
        "complete": reason is None,
        "incomplete_reason": reason,
    }


def _least_healthy(workers: list[dict[str, Any]]) -> dict[str, Any] | None:
    """The health of the least healthy worker; its curve of requests in flight is in `workers`."""
    clients = [worker["client"] for worker in workers if worker.get("client")]
    if not clients:
        return None
    worst = max(clients, key=lambda client: (bool(client["bottleneck"]), client["loop_lag_ms_p99"] or 0.0))
    return {**worst, "in_flight": [], "late_sends": sum(client["late_sends"] for client in clients)}

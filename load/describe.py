"""What scenario.json says of a test, but for the counts, which the capture keeps."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from load.capture import utc_now
from records.redaction import shown_fields

if TYPE_CHECKING:
    from load.session import Session


def describe(session: Session, *, ended: bool) -> dict[str, Any]:
    """The fields of scenario.json: at the start of a test, and when it has ended."""
    options, admission, sweep = session.options, session.admission, session.admission.sweep
    reason = session.incomplete_reason if ended else "not ended"
    return {
        "engine": options.engine,
        "cell": session.cell,
        "scenario": session.scenario,
        "workload": session.workload,
        "round": options.round,
        "asked": _asked(session),
        "started_utc": session.started_utc,
        "ended_utc": utc_now() if ended else None,
        "measure_start_ns": admission.measure_start_ns,
        "measure_end_ns": admission.measure_end_ns,
        "steps": [step.to_dict() for step in sweep.steps] if sweep else [],
        "saturated_at": sweep.saturated_at if sweep else None,
        "client": session.health.summary() if ended else None,
        "workers": [],
        "complete": ended and reason is None,
        "incomplete_reason": reason,
    }


def _asked(session: Session) -> dict[str, Any]:
    options, kind = session.options, session.kind
    return {
        "users": session.users if session.environment.runner else None,
        "rate": options.rate if kind == "open" else None,
        "arrivals": options.arrivals if kind == "open" else None,
        "burstiness": options.burstiness if kind == "open" else None,
        "steps": options.steps if kind == "sweep" else None,
        "requests": options.requests or (None if options.duration else session.prompts.total * options.samples),
        "duration_s": options.duration or None,
        "warmup": options.warmup,
        "max_tokens": options.max_tokens,
        "fixed_length": options.fixed_length,
        "samples": options.samples,
        "seed": options.seed,
        "model": options.model or None,
        "request_extras": shown_fields(session.extras),
        "shape": kind,
    }

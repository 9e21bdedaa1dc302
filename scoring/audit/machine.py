"""Audit checks of the engine's machine: alone on the GPU, not throttled, no swapping, memory freed at the end."""

from __future__ import annotations

from typing import Any

from records.wording import count
from scoring.audit.model import EngineFacts, Finding, engine_check, failed, not_applicable, passed, unknown, warned
from scoring.runs import Round
from scoring.speed.gpu import throttle_reasons

MEMORY_TOLERANCE_MIB = 256
"""GPU memory after an engine's end may exceed that before its start by this much (other contexts vary)."""

HARMLESS_THROTTLING = frozenset({"gpu_idle", "none", "applications_clocks_setting", "display_clock_setting"})
POWER_CAP = "sw_power_cap"
HARMFUL_SHARE = 0.01
"""Above this share of samples, throttling fails the check instead of warning."""


@engine_check("alone on the GPU")
def alone(facts: EngineFacts) -> Finding:
    """No other process was on the GPU when the engine was started or while it ran."""

    def check(round_: Round) -> Finding:
        machine = round_.state.get("machine") or {}
        if _no_gpu(facts):
            return not_applicable("no GPU on this host")
        others = machine.get("cotenants")
        if others is None:
            return unknown("other processes on the GPU were not recorded")
        if others:
            return failed(f"{count(len(others), 'other process', 'other processes')} on the GPU: {_listed(others)}")
        return passed("no other process on the GPU")

    return facts.each_process(check)


@engine_check("GPU not throttled")
def not_throttled(facts: EngineFacts) -> Finding:
    """The meter's samples show no throttling (power, heat, hardware)."""

    def check(round_: Round) -> Finding:
        if _no_gpu(facts):
            return not_applicable("no GPU on this host")
        rows = round_.gpu_rows()
        if not any(gpu.get("throttle") is not None for row in rows for gpu in row.get("gpus") or []):
            return unknown("throttling was not measured")
        reasons = {k: n for k, n in throttle_reasons(rows).items() if k.lower() not in HARMLESS_THROTTLING}
        if not reasons:
            return passed(f"none in {count(len(rows), 'sample')}")
        shares = ", ".join(f"{reason} in {n:,} of {len(rows):,}" for reason, n in sorted(reasons.items()))
        # A power cap affects all engines of a card equally, so it does not void.
        serious = any(n / len(rows) > HARMFUL_SHARE for k, n in reasons.items() if k.lower() != POWER_CAP)
        return failed(f"throttled: {shares} samples") if serious else warned(f"throttled: {shares} samples")

    return facts.each(check)


@engine_check("memory freed")
def memory_freed(facts: EngineFacts) -> Finding:
    """After the engine's end its port is free, no process is left, and the GPU memory is freed."""

    def check(round_: Round) -> Finding:
        machine: dict[str, Any] = round_.state.get("machine") or {}
        if round_.state.get("kind") == "remote":
            return not_applicable("the driver does not stop a remote engine")
        if machine.get("processes_left"):
            return failed(f"{machine['processes_left']} of its processes were still running after the end")
        if machine.get("port_free_after") is False:
            return failed("its port was still open after the end")
        before, after = machine.get("vram_before_mib"), machine.get("vram_after_mib")
        if before is not None and after is not None and after - before > MEMORY_TOLERANCE_MIB:
            return failed(f"GPU memory {after:,.0f} MiB after the end, {before:,.0f} before the start")
        if machine.get("processes_left") is None or machine.get("port_free_after") is None:
            return unknown("remaining processes and ports were not checked after the end")
        if before is None or after is None:
            if _no_gpu(facts):
                return passed("no process and no port left")
            return unknown("no process and no port left; GPU memory was not measured")
        return passed(f"no process, no port left; GPU memory {before:,.0f} MiB before, {after:,.0f} after")

    return facts.each_process(check)


@engine_check("no swapping")
def no_swapping(facts: EngineFacts) -> Finding:
    """The engine's log shows no swap of KV blocks to host memory."""

    def check(round_: Round) -> Finding:
        events = (round_.state.get("log_findings") or {}).get("swap_events")
        if events is None:
            if round_.state.get("kind") == "xserv":
                return unknown("swap events were not read from the log")
            return not_applicable("this kind of engine does not swap")
        return failed(f"{events} swap events in its log") if events else passed("0 swap events in its log")

    return facts.each_process(check)


def _no_gpu(facts: EngineFacts) -> bool:
    host = facts.run.manifest.get("host") or {}
    return not host.get("gpu") and not any(round_.folder.gpu.exists() for round_ in facts.rounds)


def _listed(others: list[Any]) -> str:
    names = [str(o.get("name") or o.get("pid")) if isinstance(o, dict) else str(o) for o in others]
    return ", ".join(names[:3])

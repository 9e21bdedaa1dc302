"""Explains why an engine ended: by its signal, or by log lines that all CUDA servers share."""

from __future__ import annotations

import re
import signal
from pathlib import Path

from engines.base import Engine

LOG_TAIL_BYTES = 8192

_SIGNALS = {
    signal.SIGILL: (
        "ended by SIGILL: its binary has instructions that this CPU does not run (some virtual machines advertise AMX"
        " and trap on it); build it with GGML_NATIVE=OFF: enginebench build"
    ),
    signal.SIGKILL: "killed from outside (SIGKILL); perhaps the host ran out of memory",
}

_GPU_MEMORY = r"cuda.*out of memory|out of memory.*cuda|OutOfMemoryError|cudaErrorMemoryAllocation|cudaMalloc failed"
_HOST_MEMORY = r"bad_alloc|cannot allocate memory|failed to allocate.*(CPU|buffer)|unable to allocate.*CPU"
_LINES: tuple[tuple[str, str], ...] = (
    (
        _GPU_MEMORY,
        "out of GPU memory; lower max_seq_len or slots, or free the card (enginebench doctor shows the estimate)",
    ),
    (r"no kernel image is available", "built for another GPU than this one; build it with --cuda-arch of this card"),
    (
        r"driver version is insufficient|unsupported toolchain",
        "the GPU driver is older than the CUDA that the engine was built with",
    ),
    (_HOST_MEMORY, "out of host memory"),
    (r"address already in use|couldn'?t bind|failed to bind", "its port was taken"),
    (r"cannot open shared object file|GLIBC\w*_[\d.]+' not found", "a library that it needs is missing"),
    (r"unrecognized argument|unexpected argument|invalid argument:|unknown option", "it refuses its arguments"),
)


def explain_exit(log_tail: str, code: int | None) -> str | None:
    """Explains an exit: an error line of the log, or the signal (`code` is 128 + n). None: unknown."""
    for line in log_tail.splitlines():
        for pattern, words in _LINES:
            if re.search(pattern, line, re.IGNORECASE):
                return f"{words}; its log says: {line.strip()[:300]}"
    if code is not None and 128 < code < 128 + signal.NSIG:
        return _SIGNALS.get(signal.Signals(code - 128))
    return None


def why_it_ended(engine: Engine, log: Path, code: int) -> str:
    """Explain any exit: by a known cause, else by exit code or signal and the log's last lines."""
    tail = log_tail(log)
    known = engine.explain_exit(tail, code) or explain_exit(tail, code)
    if known:
        return known
    is_signal = 128 < code < 128 + signal.NSIG
    how = f"signal {signal.Signals(code - 128).name}" if is_signal else f"exit code {code}"
    lines = [line.strip() for line in tail.splitlines() if line.strip()][-4:]
    if not lines:
        return f"ended by itself ({how}); its log {log} is empty"
    # The last line comes first: it has the cause, and messages are shortened at the end.
    before = f"; before that: {' | '.join(lines[:-1])}" if lines[:-1] else ""
    return f"ended by itself ({how}): {lines[-1]}{before}; log: {log}"


def log_tail(path: Path) -> str:
    """The last few KiB of a log as text."""
    try:
        with path.open("rb") as log:
            log.seek(max(0, path.stat().st_size - LOG_TAIL_BYTES))
            return log.read().decode("utf-8", "replace")
    except OSError:
        return ""

"""llama-server b9371 as a person starts it at a prompt: built from source, none of our adapters in between."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import requests

from engines.build.llama_server import find_build
from engines.process.port import free_port
from tests.engines.helpers import ROOT, smollm2

BUILD = "b9371"


def built_server() -> Path:
    """The server of the pinned source; compiled now where that was not done before (minutes)."""
    told = subprocess.run([sys.executable, "run_bench.py", "build", "--cpu"], cwd=ROOT, capture_output=True, text=True)
    assert told.returncode == 0, told.stderr[-2000:]
    built = find_build(BUILD)
    assert built is not None, "the build has another name than the pin"
    return built.server


@contextmanager
def llama_server(log: Path, *, slots: int = 4, context_per_slot: int = 1024) -> Iterator[str]:
    """SmolLM2 on one thread; yields the base URL."""
    port = free_port()
    argv = [str(built_server()), "--model", str(smollm2()), "--host", "127.0.0.1", "--port", str(port), "--metrics"]
    argv += ["--parallel", str(slots), "--ctx-size", str(slots * context_per_slot), "--threads", "1"]
    with log.open("wb") as told, subprocess.Popen(argv, stdout=told, stderr=told) as process:
        try:
            url = f"http://127.0.0.1:{port}"
            wait_until_up(process, url, log)
            yield url
        finally:
            process.terminate()


def wait_until_up(process: subprocess.Popen[bytes], url: str, log: Path) -> None:
    end = time.monotonic() + 120
    while time.monotonic() < end:
        assert process.poll() is None, log.read_text(errors="replace")[-2000:]
        try:
            if requests.get(f"{url}/health", timeout=5).ok:
                return
        except requests.RequestException:
            pass
        time.sleep(0.1)
    raise AssertionError(f"not ready: {log.read_text(errors='replace')[-2000:]}")

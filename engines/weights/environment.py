"""Makes the converter's Python environment, which is separate because its requirements name other indexes."""

from __future__ import annotations

import collections
import os
import re
import subprocess
import venv
from collections.abc import Callable
from pathlib import Path

from engines.base import EngineError
from engines.build.source import cache_dir

PINS = (
    "torch==2.13.0",
    "transformers[serving]>=5.24,<6",
    "gguf>=0.19,<1",  # reads a GGUF for --unpack; the converter brings its tree's own
    "sentencepiece>=0.2",
    "safetensors>=0.5",
    "protobuf>=5",
    "numpy>=2",
)
"""torch 2.13.0 is the CPU build if pip's settings offer one; only pip reads those settings."""

Say = Callable[[str], None]
Progress = Callable[[int, int], None]


def environment(say: Say) -> Path:
    """The converter's Python, created on first use.

    Raises:
        EngineError: it can't be created; without a network, use --python.
    """
    folder = cache_dir() / "venv-convert"
    stamp = folder / ".installed"
    wanted = "\n".join(PINS)
    python = folder / "bin" / "python"
    if stamp.exists() and stamp.read_text(encoding="utf-8") == wanted:
        return python
    say("making the converter's own environment (torch, transformers): some minutes, once")
    if not python.exists():
        venv.create(folder, with_pip=True, symlinks=True, clear=True)
    # torch first and alone: together with its dependents, pip may choose a larger build.
    for pins in (PINS[:1], PINS):
        run(
            [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *pins],
            {},
            "convert: pip install",
        )
    stamp.write_text(wanted, encoding="utf-8")
    return python


def run(command: list[str], env: dict[str, str], what: str, on_progress: Progress | None = None) -> None:
    """Run a step of the converter, and report its progress.

    Raises:
        EngineError: the step failed; the message has `what` and the line with the cause.
    """
    tail: collections.deque[str] = collections.deque(maxlen=50)
    with subprocess.Popen(
        command,
        env={**os.environ, **env},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    ) as process:
        assert process.stdout is not None
        try:
            # A progress bar ends its lines with a carriage return, which text mode treats as a line end.
            for line in process.stdout:
                if found := re.match(r"Writing: +(\d+)%", line):
                    if on_progress:
                        on_progress(int(found[1]), 100)
                elif line.strip():
                    tail.append(line.strip())
        except BaseException:
            process.kill()
            raise
    if process.returncode:
        # Of a traceback the line that names the exception, which need not be the last one.
        named = [line for line in tail if re.match(r"[\w.]*(Error|Exception)\b|ERROR:", line)]
        why = (named or list(tail) or ["no output"])[-1][:300]
        raise EngineError(f"{what} failed (exit code {process.returncode}): {why}")

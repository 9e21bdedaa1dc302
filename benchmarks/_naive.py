"""What a first Locust script for a streaming API looks like; shared by the two naive locustfiles.

Environment: NAIVE_OUT (result file), NAIVE_REQUESTS, NAIVE_TOKENS, NAIVE_PROMPT_CHARS, NAIVE_MODEL.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

REQUESTS = int(os.environ.get("NAIVE_REQUESTS", "64"))
BODY = {
    "model": os.environ.get("NAIVE_MODEL", "pacing"),
    "messages": [{"role": "user", "content": "x " * (int(os.environ.get("NAIVE_PROMPT_CHARS", "400")) // 2)}],
    "stream": True,
    "stream_options": {"include_usage": True},
    "max_tokens": int(os.environ.get("NAIVE_TOKENS", "100")),
}


class Results:
    """What the users of one process saw, and when to stop."""

    def __init__(self) -> None:
        self.begun = 0
        self.ended = 0
        self.rows: list[dict[str, Any]] = []
        self.failed = 0

    def may_begin(self) -> bool:
        self.begun += 1
        return self.begun <= REQUESTS

    def read(self, sent_ns: int, lines: Iterable[bytes]) -> None:
        """Read a stream line by line."""
        arrivals: list[int] = []
        stamps: list[int] = []
        tokens = None
        for line in lines:
            now = time.monotonic_ns()
            if not line.startswith(b"data: ") or line == b"data: [DONE]":
                continue
            event = json.loads(line[6:])
            if event["choices"]:
                text = event["choices"][0]["delta"].get("content")
                if text:
                    arrivals.append(now)
                    stamps.append(int(text.split()[0]))
            elif event.get("usage"):
                tokens = event["usage"]["completion_tokens"]
        self.rows.append({"sent_ns": sent_ns, "arrivals": arrivals, "stamps": stamps, "tokens": tokens})

    def one_ended(self, runner: Any) -> None:
        """Count; after the last one write the file and quit."""
        self.ended += 1
        if self.ended == REQUESTS:
            import gevent

            cpu = time.process_time()
            Path(os.environ["NAIVE_OUT"]).write_text(
                json.dumps({"process_cpu_s": cpu, "requests": self.rows, "failed": self.failed})
            )
            gevent.spawn(runner.quit)


RESULTS = Results()

"""Locustfile: what people write first. `iter_lines`, JSON as it comes, chunks counted as tokens.

BENCH_SEEN=seen.jsonl BENCH_LAPS=10 BENCH_TOKENS=100 locust -f benchmarks/_naive.py NaiveHttp --headless -u 64 -r 64
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from locust import FastHttpUser, HttpUser, events, task  # before whatever imports urllib3

from benchmarks._seen import SeenFile, body

PATH = "/v1/chat/completions"
LAPS = int(os.environ.get("BENCH_LAPS", "1"))
OUT = SeenFile(Path(os.environ.get("BENCH_SEEN", os.devnull)))
MODEL = os.environ.get("BENCH_MODEL", "pacing")
BODY = body(MODEL, int(os.environ.get("BENCH_TOKENS", "100")), int(os.environ.get("BENCH_CHARACTERS", "400")))
HEADERS = {"Content-Type": "application/json"}


class _Naive:
    """The task that both clients share."""

    def lines(self) -> Iterator[bytes | str]:
        raise NotImplementedError

    def ask(self) -> None:
        self.laps = getattr(self, "laps", 0) + 1
        arrivals: list[int] = []
        stamps: list[int] = []
        sent = time.monotonic_ns()
        try:
            for line in self.lines():
                self._take(line, arrivals, stamps)
        finally:
            if stamps:
                OUT.add(sent, arrivals, stamps, len(arrivals))
            if self.laps >= LAPS:
                self._retire()

    def _take(self, line: bytes | str, arrivals: list[int], stamps: list[int]) -> None:
        text = line.decode() if isinstance(line, bytes) else line
        if not text.startswith("data: ") or text == "data: [DONE]":
            return
        choices = json.loads(text[6:]).get("choices")
        content = choices[0]["delta"].get("content") if choices else None
        if content:
            arrivals.append(time.monotonic_ns())
            stamps.append(int(content.split(None, 1)[0]))

    def _retire(self) -> None:
        runner = self.environment.runner  # type: ignore[attr-defined]
        runner.retired = getattr(runner, "retired", 0) + 1
        if runner.retired >= runner.target_user_count:
            runner.quit()
        self.stop()  # type: ignore[attr-defined]


class NaiveHttp(_Naive, HttpUser):
    """Locust's HttpUser, which is requests."""

    chat = task(_Naive.ask)

    def lines(self) -> Iterator[bytes | str]:
        response = self.client.post(PATH, data=BODY, headers=HEADERS, stream=True)
        yield from response.iter_lines()


class NaiveFast(_Naive, FastHttpUser):
    """Locust's FastHttpUser, which is geventhttpclient."""

    chat = task(_Naive.ask)

    def lines(self) -> Iterator[bytes | str]:
        return self.client.iter_lines(PATH, "POST", data=BODY, headers=HEADERS)


def _write(**_: Any) -> None:
    OUT.write()


events.quit.add_listener(_write)  # type: ignore[no-untyped-call]

"""A naive Locust FastHttpUser that reads the stream with iter_lines."""

from __future__ import annotations

import time

import gevent
from locust import FastHttpUser, task

from benchmarks._naive import BODY, RESULTS


class Naive(FastHttpUser):
    """Asks, reads line by line, asks again."""

    @task
    def chat(self) -> None:
        if not RESULTS.may_begin():
            gevent.sleep(3600)
        sent = time.monotonic_ns()
        try:
            lines = self.client.iter_lines("/v1/chat/completions", method="POST", json=BODY)
            RESULTS.read(sent, (line.encode() for line in lines))
        except Exception as error:
            RESULTS.failed += 1
            print(f"naive: {error!r}")
        finally:
            RESULTS.one_ended(self.environment.runner)

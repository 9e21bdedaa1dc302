"""A naive Locust HttpUser that reads the stream with iter_lines."""

from __future__ import annotations

import time

import gevent
from locust import HttpUser, task

from benchmarks._naive import BODY, RESULTS


class Naive(HttpUser):
    """Asks, reads line by line, asks again."""

    @task
    def chat(self) -> None:
        if not RESULTS.may_begin():
            gevent.sleep(3600)
        sent = time.monotonic_ns()
        try:
            with self.client.post("/v1/chat/completions", json=BODY, stream=True, catch_response=True) as response:
                RESULTS.read(sent, response.iter_lines())
                if response.status_code == 200:
                    response.success()
        except Exception as error:
            RESULTS.failed += 1
            print(f"naive: {error!r}")
        finally:
            RESULTS.one_ended(self.environment.runner)

"""Tests that mostly wait for load processes of their own run a few at a time.

A module says so with `pytestmark = pytest.mark.together`. The bodies of its tests then begin, in threads, when the
first of them is come to, and each test waits for its own: it passes, fails or skips as its body does. Only tests that
take nothing but `tmp_path` and parameters can be run so; all others are left alone.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest

AT_ONCE = 1 + (os.cpu_count() or 1)
"""Load processes start on the CPU and then wait: one more than there are cores keeps the cores busy."""


class Together:
    """Bodies of tests that have begun."""

    def __init__(self, folders: pytest.TempPathFactory) -> None:
        self._folders = folders
        self._pool = ThreadPoolExecutor(AT_ONCE)
        self._begun: dict[pytest.Function, Future[None]] = {}

    def run(self, test: pytest.Function) -> None:
        """Wait for a test's body; it and its whole module begin now, if they have not."""
        if test not in self._begun:
            for other in test.session.items:
                if isinstance(other, pytest.Function) and other.module is test.module and can_run(other):
                    self._begun[other] = self._pool.submit(other.obj, **self._arguments(other))
        self._begun[test].result()

    def _arguments(self, test: pytest.Function) -> dict[str, Any]:
        given = {"tmp_path": self._folders.mktemp("together"), **parameters(test)}
        return {name: given[name] for name in inspect.signature(test.obj).parameters}

    def close(self) -> None:
        self._pool.shutdown(cancel_futures=True)


def parameters(test: pytest.Function) -> dict[str, Any]:
    return dict(test.callspec.params) if hasattr(test, "callspec") else {}


def can_run(test: pytest.Function) -> bool:
    """Whether a test's body can run in a thread, with what it takes and is marked with."""
    takes = set(inspect.signature(test.obj).parameters)
    marks = {mark.name for mark in test.iter_markers()}
    return "together" in marks and not marks & {"skip", "skipif"} and takes <= {"tmp_path", *parameters(test)}


TOGETHER = pytest.StashKey[Together]()


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "together: bodies of a module's tests run a few at a time")


@pytest.fixture(scope="session", autouse=True)
def together(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    request.config.stash[TOGETHER] = made = Together(tmp_path_factory)
    yield
    made.close()


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    if not can_run(pyfuncitem):
        return None
    pyfuncitem.config.stash[TOGETHER].run(pyfuncitem)
    return True

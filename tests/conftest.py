"""Fixtures that more than one folder of tests needs."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from typing import Any

import hypothesis
import pytest

from tests.browser import axe_source, chromium


def pytest_configure() -> None:
    """Hear SIGINT also where the suite runs in the background: all it starts inherits a signal that is ignored."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    # What an example takes depends on what else the machine does.
    hypothesis.settings.register_profile("enginebench", deadline=None)
    hypothesis.settings.load_profile("enginebench")


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """A headless Chromium (see `tests.browser`). Of one module only: its event loop must not meet other tests."""
    with chromium() as running:
        yield running


@pytest.fixture(scope="session")
def axe(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The script of axe-core."""
    return axe_source(tmp_path_factory.mktemp("axe"))

"""A real headless Chromium for the tests of pages, and axe-core to judge them.

Where something is missing the tests are skipped, with the reason; with ENGINEBENCH_REQUIRE_BROWSER=1 (CI) they fail.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn

import pytest

NAMES = ("chromium", "chromium-browser", "chromium-headless-shell", "google-chrome")
AXE = "axe-core@4.14.1"
AXE_SHA256 = "e6b0ce02b84d892e2e33e403485e7f3d6c29e2be6df65daf44d89ba564139745"

WIDTHS = (1200, 390)
THEMES = ("light", "dark")
LOOKS = [(width, theme) for width in WIDTHS for theme in THEMES]


def missing(what: str) -> NoReturn:
    """Skip, or fail where a browser is required."""
    if os.environ.get("ENGINEBENCH_REQUIRE_BROWSER") == "1":
        pytest.fail(what, pytrace=False)
    pytest.skip(what)


@contextmanager
def chromium() -> Iterator[Any]:
    """Debian's (or another installed) Chromium, else the one of `playwright install chromium`."""
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        missing("playwright is not installed: pip install -e '.[browser]'")
    with sync_playwright() as running:
        found = next(filter(None, map(shutil.which, NAMES)), running.chromium.executable_path)
        if not Path(found).exists():
            missing("no Chromium: apt-get install chromium, or playwright install chromium")
        # As root there is no sandbox; the pages are our own.
        browser = running.chromium.launch(executable_path=found, args=["--no-sandbox", "--disable-gpu"])
        yield browser
        browser.close()


class Visit:
    """A page at one width and in one theme, with what it said and what it asked for.

    `errors` holds messages of level error and exceptions; `said` every message; `asked` the URL of every request.
    """

    def __init__(self, browser: Any, url: str, width: int = 1200, theme: str = "light", **options: Any) -> None:
        options = {"viewport": {"width": width, "height": 900}, "color_scheme": theme, **options}
        self.context = browser.new_context(**options)
        self.page = self.context.new_page()
        self.said: list[str] = []
        self.errors: list[str] = []
        self.asked: list[str] = []
        self.page.on("console", self._heard)
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.on("request", lambda request: self.asked.append(request.url))
        self.page.goto(url)

    def _heard(self, message: Any) -> None:
        self.said.append(message.text)
        if message.type == "error":
            self.errors.append(message.text)

    def __enter__(self) -> Visit:
        return self

    def __exit__(self, *_: object) -> None:
        self.context.close()

    def violations(self, axe: str, where: str = "document") -> list[tuple[str, str, str]]:
        """What axe-core finds wrong in this look: (rule, element, what to do)."""
        for frame in self.page.frames:
            frame.evaluate(axe)
        # Everything else is told in full only for its first element: a quarter of the time.
        found = self.page.evaluate(f"axe.run({where}, {{resultTypes: ['violations']}})")
        assert len(found["passes"]) > 15, "axe-core saw next to nothing"
        return [
            (broken["id"], node["html"][:200], node["failureSummary"])
            for broken in found["violations"]
            for node in broken["nodes"]
        ]


def axe_source(folder: Path) -> str:
    """The script of axe-core: of the file named by ENGINEBENCH_AXE, else fetched with npm into `folder`."""
    if given := os.environ.get("ENGINEBENCH_AXE"):
        return Path(given).read_text(encoding="utf-8")
    if shutil.which("npm") is None:
        missing("no npm to fetch axe-core with, and ENGINEBENCH_AXE is not set")
    done = subprocess.run(["npm", "pack", AXE], cwd=folder, capture_output=True, text=True, timeout=120)
    if done.returncode:
        missing(f"npm pack {AXE}: {done.stderr.strip()[-300:]}")
    [packed] = folder.glob("*.tgz")
    assert hashlib.sha256(packed.read_bytes()).hexdigest() == AXE_SHA256, f"{AXE} is not what was pinned"
    with tarfile.open(packed) as archive:
        script = archive.extractfile("package/axe.min.js")
        assert script
        return script.read().decode()

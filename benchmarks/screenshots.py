"""The pictures of the docs: a report in both themes and at two widths, and the web UI's tab in the middle of a test.

    python -m benchmarks.screenshots COMPARISON.json [--out docs/img]

The tab is that of a distributed run with two workers in front of the pacing server: its figures are known beforehand.
Needs what the browser tests need (tests/browser.py).
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from typing import Any

from records import read_json
from reporting.html.page import html
from tests.browser import LOOKS, Visit, chromium
from tests.load.web import pacing, web_ui

HEIGHTS = {1200: 560, 390: 640}
NAMES = {1200: "report", 390: "report-phone"}
LIMIT_BYTES = 150_000
TEST_S = 25


def report(browser: Any, comparison: Path, out: Path) -> None:
    """The top of the page, as it is seen before anything is touched."""
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder) / "report.html"
        page.write_text(html(read_json(comparison)), encoding="utf-8")
        for width, theme in LOOKS:
            with Visit(browser, page.as_uri(), width, theme) as visit:
                visit.page.set_viewport_size({"width": width, "height": HEIGHTS[width]})
                visit.page.screenshot(path=out / f"{NAMES[width]}-{theme}.png")


def tab(browser: Any, out: Path) -> None:
    """The tab after some seconds under load."""
    with (
        tempfile.TemporaryDirectory() as folder,
        pacing("--ttft-ms", "60", "--interval-ms", "12") as host,
        web_ui(Path(folder), host, workers=2) as web,
    ):
        web.start(requests="100000", max_tokens="40", user_count="8")
        web.until(lambda live: len((live.get("series") or {"t": []})["t"]) > TEST_S)
        with Visit(browser, f"{web.url}/?tab=streaming", 1200, "light") as visit:
            frame = visit.page.frame_locator("iframe")
            frame.locator("path[data-key=ttft_ms_p50]").wait_for(state="attached")
            visit.page.wait_for_timeout(2500)
            visit.page.set_viewport_size({"width": 1200, "height": 760})
            visit.page.screenshot(path=out / "webui.png")


def main() -> None:
    """Write the pictures; each must stay small."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("comparison", type=Path)
    parser.add_argument("--out", type=Path, default=Path("docs/img"))
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    with chromium() as browser:
        report(browser, given.comparison, given.out)
        tab(browser, given.out)
    for path in sorted(given.out.glob("*.png")):
        size = path.stat().st_size
        print(f"{path}: {size / 1e3:.0f} KB{'' if size < LIMIT_BYTES else ', too large'}")


if __name__ == "__main__":
    main()

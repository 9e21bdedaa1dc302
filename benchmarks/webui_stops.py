"""Stops tests from Locust's own page in a real Chromium while slow requests are in flight, again and again.

    python -m benchmarks.webui_stops --cycles 20

Each cycle starts a test in the page, waits until all users have a request in flight, presses Stop, and measures how
long after the drain's end the page shows STOPPED. The figures in Locust's table, in the Streaming tab and on the page
with the charts must then equal those of the records.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from records import read_records
from tests.browser import Visit, chromium
from tests.load.web import Web, pacing, web_ui

USERS = 8


def stop_cycle(visit: Visit, web: Web) -> dict[str, Any]:
    """Start, wait, stop; returns what was seen.

    Raises:
        AssertionError: the page is stuck, or a figure differs from the records.
    """
    page = visit.page
    number = web.live()["test"] + 1
    if page.get_by_role("button", name="New").count():
        page.get_by_role("button", name="New").click()
    page.get_by_role("button", name="Start").click()
    web.until(lambda live: live["test"] == number and live["in_flight"] == USERS, 60)
    # Some have ended, and all are busy again.
    web.until(lambda live: live["counts"]["ok"] >= USERS, 60)
    page.get_by_role("button", name="Stop", exact=True).click()
    web.until(lambda live: live["state"] == "stopped", 60)
    ended = time.monotonic()
    page.get_by_role("button", name="New").wait_for(timeout=20_000)
    back_s = time.monotonic() - ended
    records = list(read_records(web.capture / "requests.jsonl"))
    ok = sum(record.measured and record.ok for record in records)
    live = web.live()
    page.get_by_role("tab", name="Statistics").click()
    statistics_row = page.locator("tbody tr").first.locator("td").all_inner_texts()
    page.get_by_role("tab", name="Streaming").click()
    values = (
        page.locator("tr", has=page.get_by_role("cell", name="E2E", exact=True)).first.locator("td").nth(1).inner_text()
    )
    frame = page.frame_locator("iframe")
    frame.locator("#state", has_text="stopped").wait_for(state="attached", timeout=5_000)
    card = frame.locator("dd[data-card=ok]").inner_text()
    shown = {
        "records": ok,
        "live.json": live["counts"]["ok"],
        "Locust's table": int(statistics_row[2].replace(",", "")) - live["counts"]["warmup"],
        "Streaming tab": int(values.replace(",", "")),
        "page with charts": int(card.replace(",", "")),
        "scenario.json": json.loads((web.capture / "scenario.json").read_text())["counts"]["ok"],
    }
    assert len(set(shown.values())) == 1, shown
    assert visit.errors == [], visit.errors
    return {"back_s": round(back_s, 2), "ok": ok}


@contextmanager
def slow_requests(workers: int = 0) -> Iterator[Web]:
    """A web UI whose users each have a slow request in flight nearly all the time."""
    with (
        tempfile.TemporaryDirectory() as folder,
        pacing("--ttft-ms", "300", "--interval-ms", "60") as host,
        web_ui(Path(folder), host, "-u", str(USERS), "--max-tokens", "20", "--duration", "600", workers=workers) as web,
    ):
        yield web


def run(cycles: int, workers: int) -> list[dict[str, Any]]:
    """So many cycles against one server and one page."""
    with slow_requests(workers) as web, chromium() as browser, Visit(browser, web.url) as visit:
        return [stop_cycle(visit, web) for _ in range(cycles)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cycles", type=int, default=20)
    parser.add_argument("--workers", type=int, nargs="*", default=[0, 2], help="0: a single process")
    options = parser.parse_args()
    for workers in options.workers:
        seen = run(options.cycles, workers)
        back = [one["back_s"] for one in seen]
        print(
            f"{workers or 'no'} workers: {len(seen)} stops, never stuck, figures equal to the records; after the drain"
            f" end the page was back in {statistics.median(back):.2f} s (median), {max(back):.2f} s (most)"
        )


if __name__ == "__main__":
    main()

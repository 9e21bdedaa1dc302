"""The web UI's tab and its page in a real headless Chromium."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from benchmarks.webui_stops import USERS, slow_requests, stop_cycle
from tests.browser import LOOKS, Visit
from tests.load.scripted_server import ScriptedServer, chat
from tests.load.web import pacing, web_ui

HOSTILE = '<img src=x onerror="window.hacked=1"><script>window.hacked=1</script>' + "W" * 300
TAB = "{include: [['.MuiTableContainer-root'], ['iframe']]}"
"""What this project puts into Locust's page; the rest of the page is Locust's own."""


def at_home(visit: Visit) -> bool:
    """Whether nothing was asked of another host."""
    return all(url.startswith(("http://127.0.0.1:", "data:")) for url in visit.asked)


def test_the_tab_shows_table_and_charts_and_leaves_with_its_tab(tmp_path: Path, browser: Any) -> None:
    with pacing("--ttft-ms", "30", "--interval-ms", "5") as host, web_ui(tmp_path, host) as web:
        web.start(duration="600", max_tokens="20")
        web.until(lambda live: live["test"] == 1 and live["counts"]["ok"] >= 20 and len(live["series"]["t"]) > 3)
        with Visit(browser, f"{web.url}/?tab=streaming") as visit:
            page = visit.page
            page.get_by_role("tab", name="Streaming").wait_for()
            page.get_by_role("cell", name="TTFT").wait_for()
            frame = page.frame_locator("iframe")
            frame.locator("path[data-key=ttft_ms_p50]").wait_for(state="attached")
            # The chart of ICL is there only where chunks brought several tokens, as on a busy host.
            assert frame.locator("figure:visible").count() in (7, 8)
            page.get_by_role("tab", name="Statistics").click()
            page.locator("iframe").wait_for(state="detached")
            assert visit.errors == []
            assert at_home(visit)


def test_the_page_holds_the_figures_reads_by_keyboard_and_hostile_text_stays_text(tmp_path: Path, browser: Any) -> None:
    refusal = b"HTTP/1.1 500 " + HOSTILE.encode() + b"\r\nContent-Length: 0\r\n\r\n"

    def script(asked: Any) -> list[Any]:
        return [0.02, chat([HOSTILE, HOSTILE])] if asked.number % 2 else [refusal]

    with ScriptedServer(script) as server, web_ui(tmp_path, server.url) as web:
        web.start(requests="10", prompts=HOSTILE)
        web.until(lambda live: HOSTILE in (live["problem"] or ""))
        with Visit(browser, f"{web.url}/enginebench/", 390) as visit:
            visit.page.get_by_role("alert").get_by_text("window.hacked").wait_for()
            assert visit.page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        web.start(requests="10", max_tokens="20", prompts=str(tmp_path / "asked.jsonl"), model=HOSTILE)
        live = web.until(lambda live: live["state"] == "stopped" and live["test"] == 1)
        for width, theme in LOOKS:
            with Visit(browser, f"{web.url}/enginebench/", width, theme) as visit:
                page = visit.page
                row = page.locator("#latency tr").first
                row.locator("td").nth(1).wait_for()
                shown = row.locator("td").nth(3).inner_text().replace(",", "")
                assert float(shown) == pytest.approx(live["latency"]["ttft_ms"]["p50"], abs=0.006)
                chart = page.get_by_role("img", name="Output tokens a second")
                chart.focus()
                page.keyboard.press("End")
                page.keyboard.press("ArrowLeft")
                assert "tokens/s" in page.locator("figure", has=chart).locator("output").inner_text()
                assert page.evaluate("window.hacked") is None
                assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
                assert visit.errors == []
                assert at_home(visit)


def test_the_page_comes_back_from_a_stop_with_requests_in_flight_and_final_figures(browser: Any) -> None:
    """`python -m benchmarks.webui_stops` does it twenty times, with workers too."""
    with slow_requests() as web, Visit(browser, web.url) as visit:
        seen = [stop_cycle(visit, web) for _ in range(2)]
    assert all(cycle["ok"] >= USERS for cycle in seen)


def test_the_form_puts_first_what_the_scenario_uses_and_keeps_its_values(tmp_path: Path, browser: Any) -> None:
    with (
        pacing("--ttft-ms", "30", "--interval-ms", "5") as host,
        web_ui(tmp_path, host) as web,
        Visit(browser, web.url) as visit,
    ):
        page = visit.page
        page.get_by_role("button", name="Custom parameters").click()
        page.get_by_role("heading", name="What is asked").wait_for()
        tops = {name: page.locator(f"[name={name}]").bounding_box() for name in ("requests", "prompts", "retries")}
        assert tops["requests"]["y"] < tops["prompts"]["y"] < tops["retries"]["y"]
        assert page.locator("[name=rate]").is_hidden()
        start = page.get_by_role("button", name="Start").bounding_box()
        assert start["y"] + start["height"] <= 900
        page.locator("[name=userCount]").fill("3")
        page.locator("[name=requests]").fill("6")
        page.get_by_role("button", name="Start").click()
        page.get_by_role("button", name="New").wait_for()
        page.reload()
        page.get_by_role("button", name="New").click()
        page.wait_for_function("document.querySelector('[name=requests]')?.value === '6'")
        assert page.locator("[name=userCount]").input_value() == "3"
        assert visit.errors == []


@pytest.mark.axe
def test_axe_finds_nothing_on_the_page_and_in_the_tab(tmp_path: Path, browser: Any, axe: str) -> None:
    with pacing("--ttft-ms", "30", "--interval-ms", "5") as host, web_ui(tmp_path, host) as web:
        web.start(requests="40", max_tokens="20")
        web.until(lambda live: live["test"] == 1 and live["state"] == "stopped")
        for width, theme in LOOKS:
            with Visit(browser, f"{web.url}/enginebench/", width, theme) as visit:
                visit.page.get_by_role("cell", name="TTFT").wait_for()
                assert visit.violations(axe) == []
            with Visit(browser, f"{web.url}/?tab=streaming", width, theme) as visit:
                frame = visit.page.frame_locator("iframe")
                frame.locator("path[data-key=ttft_ms_p50]").wait_for(state="attached")
                assert visit.violations(axe, TAB) == []

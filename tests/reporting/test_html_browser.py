"""The report in a real headless Chromium: what a reader sees, does and prints."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from reporting.html.page import html
from tests.browser import LOOKS, Visit
from tests.reporting.report_builders import (
    HOSTILE,
    example,
    failed_request,
    poisoned,
    void_example,
    with_gpu,
    with_rounds,
)

TILES = """
[...document.querySelectorAll('.chart svg')].map(svg =>
    [svg.clientWidth, svg.querySelectorAll('.line, .point').length])
"""
POINTS = """
title => {
    const svg = [...document.querySelectorAll('.chart svg')]
        .find(svg => svg.querySelector('title').textContent === title);
    const back = svg.getScreenCTM().inverse();
    const figure = (scale, pixel) => {
        const [low, high, start, end] = scale.split(' ').slice(0, 4).map(Number);
        return low + (pixel - start) / (end - start) * (high - low);
    };
    return [...svg.querySelectorAll('circle.point')].map(point => {
        const box = point.getBoundingClientRect(), plot = point.closest('.plot');
        const at = new DOMPoint(box.x + box.width / 2, box.y + box.height / 2).matrixTransform(back);
        return [point.dataset.series, figure(plot.dataset.x, at.x), figure(plot.dataset.y, at.y)];
    });
}
"""


def megabyte(comparison: dict[str, Any]) -> dict[str, Any]:
    """One answer a megabyte long without a place to break it, one of a megabyte of hostile lines."""
    first, second = comparison["problems"][:2]
    for engine in first["engines"].values():
        engine["completion"] = "\u202e" + "W" * 1_000_000
    for engine in second["engines"].values():
        engine["completion"] = HOSTILE * (1_000_000 // len(HOSTILE))
    return comparison


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("pages")
    told = {
        "fair": with_gpu(with_rounds(example())),
        "void": failed_request(void_example(), 3),
        "hostile": megabyte(failed_request(poisoned(void_example()))),
    }
    urls = {}
    for name, comparison in told.items():
        path: Path = folder / f"{name}.html"
        path.write_text(html(comparison), encoding="utf-8")
        urls[name] = path.as_uri()
    return urls


@pytest.mark.parametrize("name", ["fair", "void", "hostile"])
@pytest.mark.parametrize(("width", "theme"), LOOKS)
def test_it_renders_without_an_error_and_asks_for_nothing(
    browser: Any, pages: dict[str, str], name: str, width: int, theme: str
) -> None:
    with Visit(browser, pages[name], width, theme) as visit:
        visit.page.get_by_role("button", name="Open all").click()
        tiles = visit.page.evaluate(TILES)
        assert len(tiles) > 10
        assert all(size > 200 and drawn for size, drawn in tiles)
        assert visit.page.evaluate("document.documentElement.scrollWidth") <= width
        assert visit.said == visit.errors == []
        assert visit.asked == [pages[name]]


def test_on_a_phone_no_interval_and_no_verdict_is_cut_off(browser: Any, pages: dict[str, str]) -> None:
    # A value counts as shown where all of it lies on the screen and no scrolling part around it hides an end.
    cut = """() => [...document.querySelectorAll('.ci, .word, .ratio, .card-value, .finding dd')]
        .filter(cell => cell.checkVisibility() && cell.textContent.trim())
        .filter(cell => { const range = document.createRange(); range.selectNodeContents(cell);
            return [...range.getClientRects()].some(box => box.left < 0 || box.right > innerWidth); })
        .map(cell => cell.textContent)"""
    with Visit(browser, pages["fair"], 390) as visit:
        assert visit.page.evaluate("document.querySelectorAll('.speed .ci, .answers .ci').length") > 10
        assert visit.page.evaluate(cut) == []


def test_points_are_painted_where_the_figures_of_the_json_lie(browser: Any, pages: dict[str, str]) -> None:
    told = with_gpu(with_rounds(example()))
    [row] = [r for r in told["performance"] if r["metric"] == "output_tok_s" and len(r["speed_ratio"]) == 1][:1]
    cell = f"{row['scenario']}.{row['workload']}"
    with Visit(browser, pages["fair"]) as visit:
        ratios = visit.page.evaluate(POINTS, f"Throughput ratio, {cell}")
        accuracies = visit.page.evaluate(POINTS, "Accuracy by workload")
    assert [(series, round(x)) for series, x, _ in ratios] == [("xserv", 1), ("xserv", 2), ("xserv", 3)]
    assert [y for _, _, y in ratios] == pytest.approx([0.58, 0.6, 0.61], abs=0.003)
    asked = [(e, q["engines"][e]["accuracy"]) for q in told["quality"] for e in ("llama.cpp", "xserv")]
    assert [series for series, _, _ in accuracies] == [engine for engine, _ in asked]
    assert [x for _, x, _ in accuracies] == pytest.approx([share for _, share in asked], abs=0.005)


def test_hostile_strings_are_inert(browser: Any, pages: dict[str, str]) -> None:
    # Without the page's own policy, so that escaping alone has to hold.
    with Visit(browser, pages["hostile"], bypass_csp=True) as visit:
        page = visit.page
        page.get_by_role("button", name="Open all").click()
        assert page.evaluate("window.hit") is None
        assert page.evaluate("document.querySelectorAll('script').length") == 1
        assert page.evaluate("document.querySelectorAll('img, a:not([href^=\"#\"])').length") == 0
        assert (
            page.evaluate(
                "/[\\u0000-\\u0008\\u001b\\u009b\\u200b\\u202a-\\u202e\\u2066-\\u2069]/.test(document.body.innerText)"
            )
            is False
        )
        assert page.evaluate("document.body.innerText.includes('](javascript:window.hit=1)')")


def test_a_reader_gets_along_with_the_keyboard_alone(browser: Any, pages: dict[str, str]) -> None:
    colour = "getComputedStyle(document.body).backgroundColor"
    at = "document.activeElement"
    with Visit(browser, pages["fair"], reduced_motion="reduce") as visit:
        page = visit.page
        before = page.evaluate(colour)
        page.keyboard.press("Tab")
        assert page.evaluate(f"{at}.className") == "skip"
        page.keyboard.press("Tab")
        page.keyboard.press("Enter")
        # What is chosen wins over the system's theme.
        assert page.evaluate(colour) != before
        assert page.evaluate(f"{at}.textContent") == "Light theme"
        page.keyboard.press("Tab")
        page.keyboard.press("Space")
        assert page.evaluate("[...document.querySelectorAll('details')].every(part => part.open)")
        # Every place that can be reached is visible when it is reached, and none is a trap.
        reached = set()
        for _ in range(60):
            page.keyboard.press("Tab")
            reached.add(page.evaluate(f"{at}.outerHTML.slice(0, 300)"))
            assert page.evaluate(
                f"(box => box.width > 0 && box.bottom > 0 && box.top < innerHeight)({at}.getBoundingClientRect())"
            )
            assert page.evaluate(f"getComputedStyle({at}).outlineStyle") != "none"
        assert len(reached) > 40


def test_tables_copy_as_markdown_and_csv(browser: Any, pages: dict[str, str]) -> None:
    with Visit(browser, pages["fair"], permissions=["clipboard-read", "clipboard-write"]) as visit:
        page = visit.page
        page.get_by_role("button", name="Copy speed as Markdown").click()
        page.get_by_text("Copied as Markdown").wait_for(state="attached")
        text = page.evaluate("navigator.clipboard.readText()").splitlines()
        assert text[1].startswith("| --- | --- |")
        assert text[2].startswith("| single / perf-medium | Output throughput | 95.1 tok/s | 56.6 tok/s | 0.595× |")
        page.get_by_role("button", name="Copy answers as CSV").click()
        page.get_by_text("Copied as CSV").wait_for(state="attached")
        rows = page.evaluate("navigator.clipboard.readText()").splitlines()
        assert rows[1].startswith('gsm8k,50,"48/50 = 96.0% [86.5%, 98.9%]"')


def test_it_prints_dark_on_light_with_every_answer_and_no_button(browser: Any, pages: dict[str, str]) -> None:
    with Visit(browser, pages["fair"], theme="dark") as visit:
        page = visit.page
        page.get_by_role("button", name="Light theme").click()
        page.get_by_role("button", name="Dark theme").click()
        page.evaluate("dispatchEvent(new Event('beforeprint'))")
        page.emulate_media(media="print")
        ink, paper = (
            sum(map(int, page.evaluate(f"getComputedStyle(document.body).{key}.match(/\\d+/g)")[:3]))
            for key in ("color", "backgroundColor")
        )
        assert ink < 150 < 700 < paper
        assert page.evaluate("[...document.querySelectorAll('.problem')].every(problem => problem.open)")
        assert page.evaluate("[...document.querySelectorAll('button')].every(button => !button.checkVisibility())")
        texts = "[...document.querySelectorAll('.problem .model')]"
        assert page.evaluate(f"{texts}.every(text => text.scrollHeight <= text.clientHeight + 1)")
        assert page.pdf().startswith(b"%PDF")


@pytest.mark.axe
@pytest.mark.parametrize(
    ("name", "width", "theme"),
    [*(("fair", *look) for look in LOOKS), ("void", 1200, "light"), ("void", 390, "dark"), ("hostile", 390, "light")],
)
def test_axe_finds_nothing(browser: Any, pages: dict[str, str], axe: str, name: str, width: int, theme: str) -> None:
    with Visit(browser, pages[name], width, theme, bypass_csp=True) as visit:
        visit.page.get_by_role("button", name="Open all").click()
        assert visit.violations(axe) == []

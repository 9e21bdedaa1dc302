"""The page in a real headless Chromium; skipped, with the reason, where there is none.

Needs `chromium` on the PATH (Debian's package), `pip install playwright` (no browser of its own), and for the last test
axe-core: the file named by ENGINEBENCH_AXE, or npm to fetch it.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from reporting.html import html
from tests.reporting.report_builders import example, failed_request, poisoned, void_example, with_gpu, with_rounds

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
AXE = "axe-core@4.14.1"
LOOKS = [(width, theme) for width in (1200, 390) for theme in ("light", "dark")]

if CHROMIUM is None:
    pytest.skip("no chromium on the PATH", allow_module_level=True)
playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed (extra: browser)")


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with playwright.sync_playwright() as running:
        found = running.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        yield found
        found.close()


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("pages")
    told = {
        "fair": with_gpu(with_rounds(example())),
        "void": failed_request(void_example(), 3),
        "hostile": failed_request(poisoned(void_example())),
    }
    for name, comparison in told.items():
        (folder / f"{name}.html").write_text(html(comparison), encoding="utf-8")
    return {name: folder / f"{name}.html" for name in told}


class Visit:
    """An open page, with what it said and asked for."""

    def __init__(self, browser: Any, path: Path, width: int = 1200, theme: str = "light", **options: Any) -> None:
        context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=theme, **options)
        self.page = context.new_page()
        self.said: list[str] = []
        self.asked: list[str] = []
        self.page.on("console", lambda message: self.said.append(message.text))
        self.page.on("pageerror", lambda error: self.said.append(str(error)))
        self.page.on("request", lambda request: self.asked.append(request.url))
        self.page.goto(path.as_uri())


@pytest.mark.parametrize("name", ["fair", "void", "hostile"])
@pytest.mark.parametrize(("width", "theme"), LOOKS)
def test_it_renders_without_an_error_and_asks_for_nothing(
    browser: Any, pages: dict[str, Path], name: str, width: int, theme: str
) -> None:
    visit = Visit(browser, pages[name], width, theme)
    visit.page.get_by_role("button", name="Open all").click()
    assert visit.said == []
    assert visit.asked == [pages[name].as_uri()]
    assert visit.page.evaluate("document.documentElement.scrollWidth") <= width
    sizes = visit.page.evaluate(
        "[...document.querySelectorAll('.chart svg')]"
        ".map(svg => [svg.clientWidth, svg.querySelectorAll('.line, .point').length])"
    )
    assert len(sizes) > 10
    assert all(size > 200 and drawn for size, drawn in sizes)


def test_hostile_strings_are_inert(browser: Any, pages: dict[str, Path]) -> None:
    # Without the page's own policy, so that escaping alone has to hold.
    visit = Visit(browser, pages["hostile"], bypass_csp=True)
    visit.page.get_by_role("button", name="Open all").click()
    assert visit.page.evaluate("window.hit") is None
    assert visit.page.evaluate("document.querySelectorAll('script').length") == 1
    assert visit.page.evaluate("document.querySelectorAll('img, a:not([href^=\"#\"])').length") == 0


def test_the_theme_can_be_chosen_from_the_keyboard_and_wins_over_the_system(
    browser: Any, pages: dict[str, Path]
) -> None:
    page = Visit(browser, pages["fair"], theme="light").page
    colour = "getComputedStyle(document.body).backgroundColor"
    before = page.evaluate(colour)
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    assert page.evaluate(colour) != before
    assert page.evaluate("document.activeElement.textContent") == "Light theme"


def test_tables_copy_as_markdown_and_csv(browser: Any, pages: dict[str, Path]) -> None:
    page = Visit(browser, pages["fair"], permissions=["clipboard-read", "clipboard-write"]).page
    page.get_by_role("button", name="Copy speed as Markdown").click()
    text = page.evaluate("navigator.clipboard.readText()").splitlines()
    assert text[1].startswith("| --- | --- |")
    assert text[2].startswith("| single / perf-medium | Output throughput | 95.1 tok/s | 56.5 tok/s | 0.594× |")
    page.get_by_role("button", name="Copy answers as CSV").click()
    rows = page.evaluate("navigator.clipboard.readText()").splitlines()
    assert rows[1].startswith('gsm8k,50,"48/50 = 96.0% [86.5%, 98.9%]"')
    assert page.evaluate("document.getElementById('said').textContent") == "Copied as CSV"


def test_it_prints_all_of_it(browser: Any, pages: dict[str, Path]) -> None:
    assert Visit(browser, pages["fair"]).page.pdf().startswith(b"%PDF")


@pytest.fixture(scope="module")
def axe(tmp_path_factory: pytest.TempPathFactory) -> str:
    if given := os.environ.get("ENGINEBENCH_AXE"):
        return Path(given).read_text(encoding="utf-8")
    if shutil.which("npm") is None:
        pytest.skip("no npm to fetch axe-core with, and ENGINEBENCH_AXE is not set")
    folder = tmp_path_factory.mktemp("axe")
    done = subprocess.run(["npm", "pack", AXE], cwd=folder, capture_output=True, text=True, timeout=120)
    if done.returncode:
        pytest.skip(f"npm pack {AXE}: {done.stderr.strip()[-200:]}")
    with tarfile.open(next(folder.glob("*.tgz"))) as archive:
        script = archive.extractfile("package/axe.min.js")
        assert script
        return script.read().decode()


@pytest.mark.parametrize(
    ("name", "width", "theme"),
    [*(("fair", *look) for look in LOOKS), *(("void", *look) for look in LOOKS), ("hostile", 390, "dark")],
)
def test_axe_finds_nothing(browser: Any, pages: dict[str, Path], axe: str, name: str, width: int, theme: str) -> None:
    page = Visit(browser, pages[name], width, theme, bypass_csp=True).page
    page.get_by_role("button", name="Open all").click()
    page.evaluate(axe)
    found = page.evaluate("axe.run()")
    assert len(found["passes"]) > 20
    assert [(v["id"], v["nodes"][0]["html"][:200]) for v in found["violations"]] == []

"""The pages of the nights in a real browser: nothing that a model, an engine or a host wrote runs in them."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from nightly.history.store import GateRow, History, read_run
from nightly.history.trends import trends
from nightly.page import history_html, night_html
from nightly.result import Finding, NightResult
from reporting.html.page import html
from tests.browser import LOOKS, Visit
from tests.nightly.nightly_builders import HOST, Night
from tests.reporting.report_builders import HOSTILE, example

ODD = "/[\\u0000-\\u0008\\u001b\\u009b\\u200b\\u202a-\\u202e\\u2066-\\u2069]/.test(document.body.innerText)"


def night() -> NightResult:
    finding = Finding(
        HOSTILE, HOSTILE, "output_tok_s", "regression", HOSTILE, 0.9, (0.8, 0.95), 0.97, 10.0, 9.0, 9.0, HOSTILE,
        HOSTILE, HOSTILE,
    )  # fmt: skip
    notes = [HOSTILE]
    return NightResult("r", HOSTILE, HOSTILE, "complete", 1, [finding], notes, notes, notes, notes, report="night.html")


def all_nights(tmp_path: Path) -> str:
    rng = random.Random(4)
    with History(tmp_path / "h.db") as history:
        for day in range(1, 6):
            host = HOST | {"gpu": [HOST["gpu"][0] | {"driver": "1" if day < 3 else HOSTILE}]}
            made = Night(f"n{day:02}", f"2026-01-{day:02}T02:00:00Z", {}, host=host)
            made.build = {"llama": "b1" if day < 4 else HOSTILE}
            history.add(read_run(made.write(tmp_path / "runs", rng)))
        row = GateRow(
            "llama", "single.perf-short", "ttft_ms_p50", HOSTILE, 0.9, 0.8, 0.95, 0.97, "regression", HOSTILE, HOSTILE
        )
        history.add_gates("n05", [row], 1)
        return history_html(trends(history), lambda run_id: f"{run_id}/night.html", HOSTILE)


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("pages")
    of_run = example() | {"night": night().to_json()}
    texts = {"night": night_html(night(), "comparison.html"), "nights": all_nights(folder), "run": html(of_run)}
    for name, text in texts.items():
        (folder / f"{name}.html").write_text(text, encoding="utf-8", errors="surrogatepass")
    return {name: (folder / f"{name}.html").as_uri() for name in texts}


@pytest.mark.parametrize("name", ["night", "nights", "run"])
def test_nothing_hostile_runs_in_a_page_of_the_nights(browser: Any, pages: dict[str, str], name: str) -> None:
    # Without the page's own policy, so that escaping alone has to hold.
    with Visit(browser, pages[name], bypass_csp=True) as visit:
        page = visit.page
        assert "window.hit = 1" in page.inner_text("body"), "it is there, as text"
        assert page.evaluate("window.hit") is None
        assert page.evaluate("document.querySelectorAll('script').length") == (1 if name == "run" else 0)
        assert page.evaluate("document.querySelectorAll('img').length") == 0
        assert page.evaluate("[...document.links].every((a) => a.protocol === 'file:')")
        assert page.evaluate(ODD) is False


@pytest.mark.parametrize(("width", "theme"), LOOKS)
@pytest.mark.parametrize("name", ["night", "run"])
def test_a_broken_night_is_seen_first_and_fits_the_screen(
    browser: Any, pages: dict[str, str], name: str, width: int, theme: str
) -> None:
    with Visit(browser, pages[name], width, theme) as visit:
        page = visit.page
        first = page.locator(".night-verdict" if name == "run" else "h1").first
        box = first.bounding_box()
        assert box is not None and box["y"] < 300, "at the head of the page"
        assert "REGRESSION" in first.inner_text()
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        assert visit.errors == []

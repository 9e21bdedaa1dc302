"""The static pages of the nights: what they say first, what they mark, and that nothing in them runs."""

import random
import re
from pathlib import Path

from nightly.history.store import GateRow, History, read_run
from nightly.history.trends import trends
from nightly.page import history_html, night_html
from nightly.result import Finding, NightResult
from tests.nightly.nightly_builders import HOST, Night

NAME = "<script>x</script>\x1b[31m"


def filled(tmp_path: Path, *, broken: bool) -> History:
    history = History(tmp_path / "h.db")
    rng = random.Random(4)
    for day in range(1, 15):
        driver = "575.20" if day > 3 else "570.10"
        host = HOST | {"gpu": [HOST["gpu"][0] | {"driver": driver}]}
        slower = {"llama": 0.08} if broken and day > 11 else {}
        night = Night(f"n{day:02}", f"2026-01-{day:02}T02:00:00Z", slower, host=host)
        night.build = {"llama": "b9371" if day < 8 else NAME}
        history.add(read_run(night.write(tmp_path / "runs", rng)))
        if broken and day > 11:
            row = GateRow(
                "llama", "single.perf-short", "ttft_ms_p50", None, 0.92, 0.9, 0.94, 0.95, "regression", "", "n12"
            )
            history.add_gates(f"n{day:02}", [row], 1)
    return history


def test_the_page_of_all_nights_begins_with_what_broke_and_since_when(tmp_path: Path) -> None:
    with filled(tmp_path, broken=True) as history:
        page = history_html(trends(history), lambda run_id: f"{run_id}/night.html", "night")
    assert '<h1 class="bad">llama, single.perf-short: TTFT p50: regression 8.0% slower, since n12</h1>' in page
    rows = re.findall(r"<h2>(.*?)</h2>", page)
    assert len(rows) == 3 and "TTFT p50" in rows[0], "the regressed first"
    first = page.partition("</article>")[0]
    assert first.count('class="broke"') == 3
    assert first.count('class="break"') == 1 and "driver 570.10 -&gt; 575.20" in first
    assert first.count('class="build"') == 1 and "<script" not in page and "\x1b" not in page
    assert '<a href="n12/night.html">the night that broke it</a>' in first
    assert "http" not in re.sub(r"http-equiv", "", page), "no network"


def test_a_page_without_a_regression_says_so(tmp_path: Path) -> None:
    with filled(tmp_path, broken=False) as history:
        page = history_html(trends(history), lambda run_id: None, "night")
    assert '<h1 class="good">No open regression in 3 series</h1>' in page
    assert "<a " not in page


def test_a_regressed_night_says_so_in_its_first_line() -> None:
    finding = Finding(
        "llama", "single.perf-short", "output_tok_s", "regression", "n11 and 9 before", 0.92, (0.9, 0.94), 0.95, 100.0,
        92.0, 92.5, "why", "n12", "tok/s",
    )  # fmt: skip
    page = night_html(NightResult("n12", NAME, "series", "complete", 1, [finding]), "comparison-1.html")
    headline = (
        "REGRESSION: llama, single.perf-short: output throughput 8.0% slower (100 tok/s -&gt; 92.0 tok/s), since n12"
    )
    assert f'<main>\n<h1 class="bad">{headline}</h1>' in page
    assert '<a href="comparison-1.html">' in page and "<script" not in page

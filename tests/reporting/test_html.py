import base64
import hashlib
import re
from html.parser import HTMLParser
from typing import Any

import pytest

from reporting.html.page import html
from tests.reporting.report_builders import HOSTILE, example, failed_request, poisoned, renamed, void_example

VOID_TAGS = {"meta", "link", "br", "img", "hr", "input"}


class Page(HTMLParser):
    """What a browser would see: the tags with their attributes, and the text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text: list[str] = []
        self.open: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID_TAGS:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def shown(page: str) -> str:
    return " ".join(" ".join(Page(page).text).split())


def test_the_verdict_and_the_audit_come_first() -> None:
    page = html(void_example())
    places = [page.index(f'id="{name}"') for name in ("verdict-title", "audit", "speed", "answers", "figures", "ran")]
    assert places == sorted(places)
    assert "2 checks failed (context per slot, not cut at the context), so the figures prove nothing." in shown(page)
    assert shown(page).startswith("Void: xserv against llama.cpp")
    assert shown(html(example())).startswith("Fair: xserv against llama.cpp")


def test_it_is_well_formed_and_ids_are_unique() -> None:
    page = Page(html(void_example()))
    assert page.open == []
    ids = [attrs["id"] for _, attrs in page.tags if "id" in attrs]
    assert len(ids) == len(set(ids))


def test_nothing_is_loaded_and_only_our_own_style_and_script_may_run() -> None:
    text = html(example())
    page = Page(text)
    assert not [tag for tag, _ in page.tags if tag in {"img", "link", "iframe", "object", "embed", "form", "base"}]
    assert not [a for _, attrs in page.tags for a in attrs if a in {"src", "style"} or a.startswith("on")]
    assert all(str(attrs["href"]).startswith("#") for tag, attrs in page.tags if tag == "a")
    policy = str(next(attrs["content"] for _, attrs in page.tags if attrs.get("http-equiv")))
    assert policy.startswith("default-src 'none'; base-uri 'none'; form-action 'none'")
    for tag in ("style", "script"):
        [body] = re.findall(f"<{tag}>(.*?)</{tag}>", text, re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(body.encode()).digest()).decode()
        assert f"{tag}-src 'sha256-{digest}'" in policy


def test_the_tables_hold_the_figures_of_the_json() -> None:
    text = shown(html(example()))
    for told in ("95.1 tok/s", "56.6 tok/s", "0.595×", "[0.591, 0.600]", "48/50 = 96.0%", "+2.0 points [−7.3, +12.5]"):
        assert told in text


def test_a_flip_is_shown_side_by_side_with_its_first_difference_and_why() -> None:
    comparison = example()
    [problem] = [row for row in comparison["problems"] if row["prompt_id"] == "gsm8k-0032"]
    for engine, answer in (("llama.cpp", "0"), ("xserv", "41")):
        problem["engines"][engine]["completion"] = f"So it is \\boxed{{{answer}}}. Done"
    page = html(comparison)
    flip = page[page.index("<b>gsm8k-0032</b>") :][:3000]
    assert "So it is \\boxed{</span><mark>0}.</mark> Done" in flip
    assert "So it is \\boxed{</span><mark>41}.</mark> Done" in flip
    assert "answer 41, from the last box; finish reason stop" in flip


def test_problems_beyond_the_room_are_listed_and_counted() -> None:
    comparison = example()
    [flip] = [p for p in comparison["problems"] if p["prompt_id"] == "gsm8k-0032"]
    comparison["problems"] += [flip | {"prompt_id": f"again-{i}"} for i in range(2000)]
    text = shown(html(comparison))
    assert "2,005 flipped" in text
    assert "1,500 more problems, listed" in text
    assert re.search(r"\d+ more problems are in the JSON", text)


def test_failed_requests_are_counted_and_listed() -> None:
    text = shown(html(failed_request(example(), 3)))
    assert "silence_timeout 3 no byte for 30 s" in text
    assert "3 requests, one by one" in text
    assert text.count("silence_timeout: no byte for 30 s") == 3
    assert "No request failed." in shown(html(example()))


@pytest.mark.parametrize("source", [example, void_example])
def test_hostile_strings_make_no_tag_and_no_invisible_character(source: Any) -> None:
    plain, text = html(source()), html(poisoned(source()))
    tags = Page(text)
    assert [t for t, _ in tags.tags if t == "script"] == ["script"]
    assert not [t for t, _ in tags.tags if t in {"img", "iframe"}]
    assert {a for _, attrs in tags.tags for a in attrs} <= {a for _, attrs in Page(plain).tags for a in attrs}
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b\u202e\u2066\ud800]", text)
    assert "49 {% raw" not in text
    assert "␛[31m" in text
    assert "⟨U+202E⟩evil" in text


def test_hostile_names_are_text_everywhere() -> None:
    page = html(renamed(example(), {"xserv": HOSTILE, "perf-medium": HOSTILE, "single.perf-medium": HOSTILE}))
    assert [tag for tag, _ in Page(page).tags].count("script") == 1


def test_a_megabyte_from_a_model_is_cut_and_the_page_stays_under_five() -> None:
    comparison = example()
    for problem in comparison["problems"]:
        for engine in problem["engines"].values():
            engine |= {"completion": "A" * 1_000_000, "completion_chars": 1_000_000, "correct": False}
    page = html(comparison)
    assert len(page.encode()) < 5_000_000
    assert "991,808 characters more are in the records." in page


def test_a_comparison_with_little_in_it_is_reported() -> None:
    text = shown(html({"baseline": "a", "engines": {"a": {}}, "run_id": "r", "created": "now"}))
    assert "Not audited" in text
    assert "No performance cell was measured." in text


def test_the_same_comparison_gives_the_same_bytes() -> None:
    assert html(example()) == html(example())

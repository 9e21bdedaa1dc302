"""The words of a report are explained where they stand, and in the glossary."""

from __future__ import annotations

import re
from pathlib import Path

from reporting.terms import DEFINITIONS, explained, metric_phrase, spelled_out

GLOSSARY = Path(__file__).parents[2] / "docs" / "glossary.md"


def test_the_glossary_has_every_word_that_a_report_explains() -> None:
    entries = re.findall(r"^\| ([^|]+) \|", GLOSSARY.read_text(encoding="utf-8"), re.MULTILINE)
    words = {word.strip("()") for entry in entries for word in [entry, *re.split(r",? ", entry)]}
    assert set(DEFINITIONS) - words == set()


def test_the_first_use_of_a_word_has_its_definition_and_the_text_stays_what_it_was() -> None:
    text = explained("TTFT <b> and ttft")
    assert text == f'<abbr title="{DEFINITIONS["TTFT"]}">TTFT</abbr> &lt;b&gt; and ttft'
    assert "<abbr" not in explained("warm-upper")


def test_a_metric_is_spelled_out_in_a_sentence_and_in_a_header() -> None:
    assert metric_phrase("ttft_ms_p50") == "median TTFT (time to first token)"
    assert metric_phrase("itl_ms_p99") == "p99 of ITL (inter-token latency)"
    assert metric_phrase("output_tok_s") == "output throughput"
    assert spelled_out("tpot_ms_p50") == "TPOT p50 (time per output token)"

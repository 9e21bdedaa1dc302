"""The mission's reference run: its figures come back from records, its first, wrong run is void."""

from __future__ import annotations

from pathlib import Path

import pytest

from records import JsonObject
from scoring.compare import compare
from tests.reference_run import reference_run


@pytest.fixture(scope="module")
def comparison(tmp_path_factory: pytest.TempPathFactory) -> JsonObject:
    return compare(reference_run().write(tmp_path_factory.mktemp("ref") / "reference"), created="now")


def row_of(comparison: JsonObject, cell: str, metric: str) -> JsonObject:
    return next(r for r in comparison["performance"] if (r["cell"], r["metric"]) == (cell, metric))


@pytest.mark.parametrize(
    ("cell", "metric", "xserv", "llama_cpp", "ratio"),
    [
        ("single.perf-medium", "ttft_ms_p50", 28.0, 17.7, 0.63),
        ("single.perf-medium", "tpot_ms_p50", 17.5, 10.4, 0.59),
        ("single.perf-medium", "output_tok_s", 56.6, 95.1, 0.60),
        ("concurrent_4.perf-medium", "output_tok_s", 135.2, 317.1, 0.43),
        ("concurrent_8.perf-medium", "output_tok_s", 135.5, 322.5, 0.42),
    ],
)
def test_the_reference_figures_and_speed_ratios_come_back(
    comparison: JsonObject, cell: str, metric: str, xserv: float, llama_cpp: float, ratio: float
) -> None:
    row = row_of(comparison, cell, metric)
    assert row["engines"]["xserv"]["value"] == pytest.approx(xserv, rel=0.006)
    assert row["engines"]["llama.cpp"]["value"] == pytest.approx(llama_cpp, rel=0.006)
    speed = row["speed_ratio"]["xserv"]
    assert speed["value"] == pytest.approx(ratio, abs=0.006)
    assert speed["verdict"] is None
    assert speed["ci"][0] <= speed["value"] <= speed["ci"][1] < 1
    assert speed["text"].endswith("within one round, no verdict: fewer than 3 rounds")


def test_gsm8k_and_aime_are_inconclusive_with_their_intervals(comparison: JsonObject) -> None:
    gsm8k, aime = comparison["quality"]
    assert (gsm8k["cell"], aime["cell"]) == ("single.gsm8k", "single.aime2025")
    assert (gsm8k["engines"]["xserv"]["correct"], gsm8k["engines"]["llama.cpp"]["correct"]) == (49, 48)
    assert (aime["engines"]["xserv"]["correct"], aime["engines"]["llama.cpp"]["correct"]) == (6, 6)
    # Wilson, 95%: 49/50, 48/50, 6/30.
    assert gsm8k["engines"]["xserv"]["ci"] == pytest.approx([0.8950, 0.9965], abs=5e-5)
    assert gsm8k["engines"]["llama.cpp"]["ci"] == pytest.approx([0.8654, 0.9890], abs=5e-5)
    assert aime["engines"]["xserv"]["ci"] == pytest.approx([0.0951, 0.3731], abs=5e-5)
    for row, difference in ((gsm8k, 0.02), (aime, 0.0)):
        paired = row["paired"]["xserv"]
        assert paired["difference"] == pytest.approx(difference)
        assert paired["ci"][0] < 0 < paired["ci"][1]
        assert paired["mcnemar_p"] == 1.0
        assert paired["verdict"] == "inconclusive"
        assert paired["text"].startswith(f"inconclusive: {row['n']} problems can't settle less than ")
        assert "2 points needs n = " in paired["text"]
    assert sorted(flip[2] for flip in aime["paired"]["xserv"]["flips"]) == ["lost", "lost", "won", "won"]


def test_the_right_run_is_not_void(comparison: JsonObject) -> None:
    assert comparison["verdict"]["void"] is False
    assert comparison["verdict"]["exit_code"] == 0


def test_the_wrong_first_run_is_void_and_names_the_context(tmp_path: Path) -> None:
    comparison = compare(reference_run(wrong_context=True).write(tmp_path / "wrong"), created="now")
    verdict = comparison["verdict"]
    assert (verdict["void"], verdict["exit_code"]) == (True, 3)
    context = "each slot has 1,024 tokens; the profile asks for 8,192"
    assert verdict["reasons"][0].startswith(f"context per slot: {context} (llama.cpp)")
    cut = next(reason for reason in verdict["reasons"] if reason.startswith("not cut at the context"))
    assert "29 of 30 answers were cut at about 940 tokens (finish=length)" in cut
    aime = comparison["quality"][1]
    assert (aime["engines"]["llama.cpp"]["correct"], aime["engines"]["xserv"]["correct"]) == (1, 6)
    assert aime["engines"]["llama.cpp"]["truncated"] == 29

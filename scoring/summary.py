"""The first lines of a report: is it void, what was found, and what to bear in mind."""

from __future__ import annotations

from records import JsonObject
from scoring.metrics import WITHIN_RUN
from scoring.speed.percentiles import BEYOND, PERCENTILES
from scoring.statistics.verdict import BLIND_NOTE

DONE, FAILED_REQUESTS, VOID = 0, 1, 3
"""Exit codes (of design): done, requests failed, void."""

HEADLINE = ("output_tok_s", "ttft_ms_p50", "tpot_ms_p50")


def verdict(comparison: JsonObject) -> JsonObject:
    """{void, summary, reasons, warnings, speed, quality, caveats, exit_code} of a comparison that else is whole."""
    reasons = [_reason(row) for row in comparison["audit"] if row["status"] == "fail"]
    warnings = [_reason(row) for row in comparison["audit"] if row["status"] in ("warn", "unknown")]
    speed, answers = _speed(comparison), _quality(comparison)
    void = bool(reasons)
    errors = sum(r["status"] == "error" for r in comparison["requests"] if r["phase"] != "warmup")
    if void:
        more = f" (and {len(reasons) - 1} more)" if len(reasons) > 1 else ""
        summary = f"VOID: {reasons[0]}{more}"
    else:
        # In a cell that is graded the answers are the headline, in the others the throughput; caveats come once.
        graded = {row["cell"] for row in comparison["quality"]}
        fast = [line for line in speed if line["metric"] == HEADLINE[0] and line["cell"] not in graded]
        summary = "; ".join(str(line["text"]) for line in [*fast, *answers]).replace(BLIND_NOTE, "")
        summary = summary or "nothing to compare"
    return {
        "void": void,
        "summary": summary,
        "reasons": reasons,
        "warnings": warnings,
        "speed": speed,
        "quality": answers,
        "caveats": _caveats(comparison),
        "exit_code": VOID if void else FAILED_REQUESTS if errors else DONE,
    }


def _reason(row: JsonObject) -> str:
    where = f"{row['engine']}, {row['cell']}" if row["cell"] else row["engine"]
    return f"{row['check']}: {row['evidence']} ({where})"


def _speed(comparison: JsonObject) -> list[JsonObject]:
    return [
        {
            "cell": row["cell"],
            "metric": row["metric"],
            "candidate": engine,
            "verdict": ratio["verdict"],
            "text": f"{engine}, {row['cell']}, {row['metric']}: {ratio['text']}",
        }
        for row in comparison["performance"]
        if row["metric"] in HEADLINE
        for engine, ratio in row["speed_ratio"].items()
        if ratio["value"] is not None
    ]


def _quality(comparison: JsonObject) -> list[JsonObject]:
    found = []
    for row in comparison["quality"]:
        for engine, pair in row["paired"].items():
            ours, theirs = row["engines"][engine], row["engines"][comparison["baseline"]]
            counts = f"{ours['correct']}/{ours['n']} against {theirs['correct']}/{theirs['n']}"
            text = f"{engine}, {row['cell']}: {counts}, {pair['text']}"
            found.append({"cell": row["cell"], "candidate": engine, "verdict": pair["verdict"], "text": text})
    return found


def _caveats(comparison: JsonObject) -> list[str]:
    caveats = []
    blind, all_cells = set(), set()
    for row in comparison["performance"]:
        all_cells.add(row["cell"])
        if any(told["method"] == WITHIN_RUN for told in row["speed_ratio"].values()):
            blind.add(row["cell"])
    if blind:
        where = "" if blind == all_cells else f" in {', '.join(sorted(blind))}"
        caveats.append(
            f"One run per engine{where}: the speed intervals are bootstrapped within the run and blind to the noise"
            " from run to run; ask for rounds = 3 or more to measure it."
        )
    if sweeps := sorted({row["cell"] for row in comparison["steps"]}):
        caveats.append(f"Figures of a whole sweep mix its levels ({', '.join(sweeps)}): read them step by step.")
    withheld: dict[str, list[str]] = {}
    for percent in PERCENTILES:
        if cells := _withheld(comparison, percent):
            withheld.setdefault(", ".join(cells), []).append(f"p{percent}")
    if withheld:
        told = "; ".join(f"{', '.join(percents)} of {cells}" for cells, percents in withheld.items())
        caveats.append(f"Percentiles with fewer than {BEYOND} requests beyond them are withheld: {told}.")
    if any(line["kind"] == "A/B" for line in comparison["divergence"]) and not any(
        line["kind"] == "A/A" for line in comparison["divergence"]
    ):
        caveats.append(
            "No engine was asked twice: how far one agrees with itself is not known, so differing texts prove nothing."
        )
    return caveats


def _withheld(comparison: JsonObject, percent: int) -> list[str]:
    """The cells in which no engine's requests are enough for a percentile."""
    return sorted(
        {
            row["cell"]
            for row in comparison["performance"]
            if row["metric"].endswith(f"_p{percent}")
            and all(e["value"] is None and e["n"] for e in row["engines"].values())
        }
    )

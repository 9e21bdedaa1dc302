"""Writes the first lines of a report: whether it is void, the result, and the caveats."""

from __future__ import annotations

from records import JsonObject
from records.exit_codes import ExitCode
from records.percentiles import BEYOND, PERCENTILES
from scoring.metrics import WITHIN_RUN
from scoring.speed.verdicts import TOO_FEW_ROUNDS
from scoring.statistics.rounds import FEWEST_ROUNDS


def verdict(comparison: JsonObject, families: JsonObject) -> JsonObject:
    """{void, reasons, warnings, speed, quality, families, caveats, exit_code} of a complete comparison.

    `families` says how the verdicts were reached: {speed, answers}, as `judge_speed` and `judge_answers` return it.
    `reporting.finding` adds the finding as a sentence; this folder writes no sentences.
    """
    reasons = [_reason(row) for row in comparison["audit"] if row["status"] == "fail"]
    warnings = [_reason(row) for row in comparison["audit"] if row["status"] in ("warn", "unknown")]
    speed, answers = _speed(comparison), _quality(comparison)
    void = bool(reasons)
    errors = sum(r["status"] == "error" for r in comparison["requests"] if r["phase"] != "warmup")
    return {
        "void": void,
        "reasons": reasons,
        "warnings": warnings,
        "speed": speed,
        "quality": answers,
        "families": families,
        "caveats": _caveats(comparison),
        "exit_code": int(ExitCode.VOID if void else ExitCode.REGRESSION if errors else ExitCode.DONE),
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
        for engine, ratio in row["speed_ratio"].items()
        if ratio["deciding"] and ratio["value"] is not None
    ]


def _quality(comparison: JsonObject) -> list[JsonObject]:
    lines = []
    for row in comparison["quality"]:
        for engine, pair in row["paired"].items():
            candidate, baseline = row["engines"][engine], row["engines"][comparison["baseline"]]
            counts = f"{candidate['correct']}/{candidate['n']} against {baseline['correct']}/{baseline['n']}"
            text = f"{engine}, {row['cell']}: {counts}, {pair['text']}"
            lines.append({"cell": row["cell"], "candidate": engine, "verdict": pair["verdict"], "text": text})
    return lines


def _caveats(comparison: JsonObject) -> list[str]:
    caveats = []
    one_round, few_rounds, all_cells = set(), set(), set()
    for row in comparison["performance"]:
        all_cells.add(row["cell"])
        for ratio in row["speed_ratio"].values():
            if ratio["method"] == WITHIN_RUN:
                one_round.add(row["cell"])
            if ratio["no_verdict"] == TOO_FEW_ROUNDS:
                few_rounds.add(row["cell"])
    if few_rounds:
        where = "" if few_rounds == all_cells else f" in {', '.join(sorted(few_rounds))}"
        caveats.append(
            f"Fewer than {FEWEST_ROUNDS} rounds{where}: no verdict on speed, since the noise from round to round is not"
            f" known; ask for rounds = {FEWEST_ROUNDS} or more."
        )
    if one_round:
        where = "" if one_round == all_cells else f" in {', '.join(sorted(one_round))}"
        caveats.append(
            f"One round per engine{where}: the speed intervals are bootstrapped within the round and ignore the noise"
            " from round to round."
        )
    # A cell that searched a capacity has no figures of the whole cell.
    searched = {row["cell"] for row in comparison.get("capacity", [])}
    if sweeps := sorted({row["cell"] for row in comparison["steps"]} - searched):
        caveats.append(f"Figures of a whole sweep mix its levels ({', '.join(sweeps)}): read them step by step.")
    withheld: dict[str, list[str]] = {}
    for percent in PERCENTILES:
        if cells := _withheld(comparison, percent):
            withheld.setdefault(", ".join(cells), []).append(f"p{percent}")
    if withheld:
        percentiles = "; ".join(f"{', '.join(percents)} of {cells}" for cells, percents in withheld.items())
        caveats.append(f"Percentiles with fewer than {BEYOND} requests beyond them are withheld: {percentiles}.")
    if any(line["kind"] == "A/B" for line in comparison["divergence"]) and not any(
        line["kind"] == "A/A" for line in comparison["divergence"]
    ):
        caveats.append(
            "No engine was asked twice, so its agreement with itself is unknown and differing texts prove nothing."
        )
    return caveats


def _withheld(comparison: JsonObject, percent: int) -> list[str]:
    """The cells in which no engine has enough requests for a percentile."""
    return sorted(
        {
            row["cell"]
            for row in comparison["performance"]
            if row["metric"].endswith(f"_p{percent}")
            and all(e["value"] is None and e["n"] for e in row["engines"].values())
        }
    )

"""Writes the finding: the first lines of every report, from the verdicts of a comparison.

They answer, in this order: which engine is faster, where, and by how much at least; are the answers as good; can the
comparison be trusted; what would settle what is open. A bound is the end of the 95% interval that is nearer to "no
difference", rounded towards it.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from records import JsonObject
from reporting.capacity import capacity_sentences
from reporting.format import count, ratio, shown_interval
from reporting.next_steps import next_step
from reporting.terms import metric_phrase
from reporting.view import View, cell_of
from scoring.statistics.rounds import FEWEST_ROUNDS

DEFAULT_MARGIN = 1.03
"""Ratio up to which engines count as equally fast, for older comparisons that do not record it."""
FASTER, SLOWER = ("faster", "better"), ("slower", "worse")
_NAMED_CELLS = 3
_MOST_ROUNDS = 50
_NAMED_CHECKS = 4


@dataclass(frozen=True)
class Finding:
    """The finding of a comparison. Its texts are not escaped: each report escapes them for its own medium."""

    state: str
    """Fair, Void or Not audited."""
    lead: str
    """The first sentence: which engine is faster; for a void comparison, why it proves nothing."""
    paragraphs: list[tuple[str, str]]
    """(label, text) of the further paragraphs: Speed, Capacity, Answers, Trust, Next; if void: Why and Next."""

    @property
    def first_line(self) -> str:
        """The first line of a report."""
        return f"VOID: {self.lead}" if self.state == "Void" else f"{self.state}. {self.lead}"

    @property
    def headline(self) -> str:
        """The finding in one line: speed and answers, or why it is void."""
        more = (text for label, text in self.paragraphs if label in ("Speed", "Answers"))
        return " ".join([self.first_line, *more])


def finding(view: View) -> Finding:
    """The finding of one comparison."""
    if view.void:
        failed = view.failed_checks
        names = ", ".join(failed[:_NAMED_CHECKS]) + (" and more" if len(failed) > _NAMED_CHECKS else "")
        lead = f"{count(len(failed), 'check')} failed ({names}), so the figures prove nothing."
        why = [("Why", _reason(view, check)) for check in failed] or [("Why", str(r)) for r in view.verdict["reasons"]]
        return Finding("Void", lead, [*why, *(("Next", step) for step in _remedies(failed))])
    speed = [_speed(view, candidate) for candidate in view.candidates]
    capacities = capacity_sentences(view)
    if capacities and not view.deciding_rows:
        # Nothing else was asked of their speed.
        speed, capacities = [[capacities[0]]], capacities[1:]
    return Finding(
        "Fair" if view.audit else "Not audited",
        " ".join(first for first, *_ in speed) or f"{view.baseline} was measured alone: nothing is compared.",
        [
            *(("Speed", " ".join(more)) for _, *more in speed if more),
            *(("Capacity", text) for text in capacities),
            *(("Answers", text) for text in _answers(view)),
            ("Trust", _trust(view)),
            *(("Next", step) for step in _next_steps(view)),
        ],
    )


# Speed


def _speed(view: View, candidate: str) -> list[str]:
    """Sentences on one candidate: on the first metric, then on each other metric with a different verdict."""
    rows = [row for row in view.deciding_rows if _ratio(row, candidate).get("value") is not None]
    if not rows:
        return [f"The speed of {candidate} was not compared with that of {view.baseline}."]
    judged = [row for row in rows if _ratio(row, candidate).get("verdict")]
    if not judged:
        return _no_verdict(view, candidate, rows)
    metrics = list(dict.fromkeys(row["metric"] for row in judged))
    lead = [row for row in judged if row["metric"] == metrics[0]]
    sentences = [_lead_sentence(view, candidate, lead)]
    verdicts = {cell_of(row): _ratio(row, candidate)["verdict"] for row in lead}
    for metric in metrics[1:]:
        others = [
            row
            for row in judged
            if row["metric"] == metric and _ratio(row, candidate)["verdict"] != verdicts.get(cell_of(row))
        ]
        clauses = [
            f"{_comparative(group[0], better=words is FASTER)} {_where(group, len(lead))} ({_bound(group, candidate)})"
            for words in (FASTER, SLOWER)
            if (group := _with_verdict(others, candidate, words))
        ]
        if clauses:
            sentences.append(f"The {metric_phrase(metric)} of {candidate} is {' and '.join(clauses)}.")
    return sentences


def _no_verdict(view: View, candidate: str, rows: list[JsonObject]) -> list[str]:
    """Sentences on measured speed ratios without a verdict."""
    reasons = {_ratio(row, candidate).get("no_verdict") for row in rows}
    rounds = min(number for row in rows for number in _ratio(row, candidate).get("rounds") or [1])
    least = view.speed_rules.get("fewest_rounds") or FEWEST_ROUNDS
    if rounds < least:
        why = f"{count(rounds, 'round')} of each engine cannot show how much rounds differ; {least} are needed"
    else:
        why = ", ".join(sorted(str(reason) for reason in reasons if reason)) or "the comparison has none"
    lead = [row for row in rows if row["metric"] == rows[0]["metric"]]
    ratios = sorted(float(_ratio(row, candidate)["value"]) for row in lead)
    ends = list(dict.fromkeys([ratio(ratios[0]), ratio(ratios[-1])]))
    return [
        f"No verdict on speed: {why}.",
        f"{candidate} against {view.baseline} measured a speed ratio of {' to '.join(ends)} for"
        f" {metric_phrase(lead[0]['metric'])} {_where(lead, len(lead))}.",
    ]


def _lead_sentence(view: View, candidate: str, lead: list[JsonObject]) -> str:
    """Which engine is faster, by the first metric."""
    metric = metric_phrase(lead[0]["metric"])
    parts: list[str] = []
    for words in (FASTER, SLOWER):
        if group := _with_verdict(lead, candidate, words):
            word, bound = _ratio(group[0], candidate)["verdict"], _bound(group, candidate)
            what = bound if parts else f"{metric} is {_comparative(group[0], better=words is FASTER)}, {bound}"
            parts.append(f"{word}{'' if parts else f' than {view.baseline}'} {_where(group, len(lead))} ({what})")
    if group := _with_verdict(lead, candidate, ("equivalent",)):
        margin = _margin(view)
        equal = f"{metric} {f'equal within {margin}' if margin else 'is equivalent'}"
        parts.append(
            f"{'equally fast' if parts else f'as fast as {view.baseline}'} {_where(group, len(lead))} ({equal})"
        )
    open_rows = _with_verdict(lead, candidate, ("inconclusive",))
    if not parts:
        where = _where(open_rows, len(lead)).replace("in all ", "in any of ").replace("in both cells", "in either cell")
        return f"Whether {candidate} or {view.baseline} is faster is not settled {where} ({metric})."
    sentence = f"{candidate} is {_listed(parts)}"
    return f"{sentence}; not settled {_where(open_rows, len(lead))}." if open_rows else f"{sentence}."


def _with_verdict(rows: Sequence[JsonObject], candidate: str, words: Sequence[str | None]) -> list[JsonObject]:
    return [row for row in rows if _ratio(row, candidate).get("verdict") in words]


def _where(rows: Sequence[JsonObject], total: int) -> str:
    """The cells as text: their names if they are few, else their number."""
    cells = [cell_of(row) for row in rows]
    if len(cells) == total > 1:
        return "in both cells" if total == 2 else f"in all {total} cells"
    if len(cells) > _NAMED_CELLS:
        return f"in {len(cells)} of {total} cells"
    scenarios: dict[str, list[str]] = {}
    for row in rows:
        scenarios.setdefault(str(row["workload"]), []).append(str(row["scenario"]))
    together = len(scenarios) == 1 < len(cells)
    return f"in {rows[0]['workload']} under {_listed(*scenarios.values())}" if together else f"in {_listed(cells)}"


def _comparative(row: JsonObject, *, better: bool) -> str:
    if row.get("better") == "higher":
        return "higher" if better else "lower"
    if row.get("unit") == "ms":
        return "shorter" if better else "longer"
    return "lower" if better else "higher"


def _bound(rows: Sequence[JsonObject], candidate: str) -> str:
    """The least difference, over several rows the smallest: "at least 40%", "at least 2.3 times"."""
    bounds = [bound for row in rows if (bound := near_bound(row, candidate)) is not None]
    if len(bounds) < len(rows):
        return "by an unknown amount"
    least = min(bounds)
    if least >= 1:
        return f"at least {math.floor(10 * (1 + least)) / 10:g} times"
    places = 0 if least >= 0.1 else 1
    percent = math.floor(100 * least * 10**places + 1e-9) / 10**places
    return f"by at least {percent:g}%" if percent else "by less than 0.1%"


def near_bound(row: JsonObject, candidate: str) -> float | None:
    """The smallest difference that the interval allows, as a share of the baseline's figure; None without one.

    A speed ratio of [0.50, 0.60] is a rate at least 40% lower, or a latency at least 67% longer.
    """
    speed_ratio = _ratio(row, candidate)
    if not (ci := shown_interval(speed_ratio)) or min(ci) <= 0:
        return None
    near = ci[0] if speed_ratio["value"] > 1 else ci[1]
    relative = near if row.get("better") == "higher" else 1 / near
    return max(0.0, relative - 1 if relative > 1 else 1 - relative)


def _ratio(row: JsonObject, candidate: str) -> JsonObject:
    return (row.get("speed_ratio") or {}).get(candidate) or {}


def _margin(view: View) -> str:
    """The margin within which engines count as equally fast: "3%"; empty in an older comparison."""
    margin = view.speed_rules.get("margin")
    return f"{100 * (margin[1] - 1):.3g}%" if margin else ""


# Answers


def _answers(view: View) -> list[str]:
    """A sentence on each candidate; one for all of them where no answers were graded."""
    if view.candidates and not view.rows("quality"):
        return ["Not compared: the run asked no workload whose answers are graded."]
    return [_answers_of(view, candidate) for candidate in view.candidates]


def _answers_of(view: View, candidate: str) -> str:
    parts: dict[str, list[str]] = {}
    for row in view.rows("quality"):
        paired = (row.get("paired") or {}).get(candidate)
        ours, theirs = (row["engines"].get(engine) or {} for engine in (candidate, view.baseline))
        if not paired or not ours or not theirs:
            continue
        verdict = str(paired.get("verdict") or "inconclusive")
        counts = f"{ours.get('correct')} of {ours.get('n')} right against {theirs.get('correct')} of {theirs.get('n')}"
        ends = shown_interval(paired) or [0.0, 0.0]
        bound = (
            f"by at least {100 * min(abs(end) for end in ends):.2g} points, " if verdict in ("better", "worse") else ""
        )
        margin = (
            f", equal within {100 * paired['margin']:.3g} points"
            if verdict == "equivalent" and paired.get("margin")
            else ""
        )
        parts.setdefault(verdict, []).append(f"{row['workload']} ({bound}{counts}{margin})")
    if not parts:
        return f"Those of {candidate} were not compared with those of {view.baseline}."
    settled = [f"{verdict} on {_listed(of)}" for verdict in parts if verdict not in ("equivalent", "inconclusive")
               for of in [parts[verdict]]]  # fmt: skip
    if as_good := parts.get("equivalent"):
        settled.append(f"as good on {_listed(as_good)}")
    still_open = _listed(parts.get("inconclusive", []))
    if not settled:
        return (
            f"Whether the answers of {candidate} are as good as those of {view.baseline} is not settled: {still_open}."
        )
    more = f"; not settled on {still_open}" if still_open else ""
    return f"The answers of {candidate}, against {view.baseline}, are {_listed(settled)}{more}."


# Trust


def _trust(view: View) -> str:
    if not view.audit:
        return "No check was made: nothing shows whether the comparison was fair."
    open_checks = Counter(row["check"] for row in view.audit if row["status"] in ("warn", "unknown"))
    sentence = f"No check failed and {view.audit_counts.get('pass', 0):,} passed"
    if not open_checks:
        return f"{sentence}."
    most = open_checks.most_common(_NAMED_CHECKS)
    names = [f"“{name}”" if number == 1 else f"“{name}” ({number} times)" for name, number in most]
    if more := len(open_checks) - len(names):
        names.append(count(more, "other check"))
    return f"{sentence}; {open_checks.total():,} gave a warning or could not be made: {_listed(names)}."


def _reason(view: View, check: str) -> str:
    """Where a check failed first, with its evidence; further places are counted."""
    first, *others = [row for row in view.audit if row["check"] == check and row["status"] == "fail"]
    place = ", ".join(str(first[key]) for key in ("engine", "cell") if first.get(key))
    more = f". It failed in {count(len(others), 'other place')} too." if others else ""
    return f"{check}{f' ({place})' if place else ''}: {first.get('evidence')}{more}"


# What to do next


def _remedies(failed: Sequence[str]) -> list[str]:
    """What to do about each failed check; checks with the same remedy share a sentence."""
    checks: dict[str, list[str]] = {}
    for check in failed:
        checks.setdefault(next_step(check), []).append(f"“{check}”")
    return [f"{_listed(names)}: {step}" for step, names in checks.items()] or ["Remove the cause, then run again."]


def _next_steps(view: View) -> list[str]:
    steps = [*_more_rounds(view), *_more_problems(view)]
    if view.night.get("exit_code"):
        # Of a red night: the run itself leaves nothing open, but somebody has to find out what changed.
        return [
            *steps,
            "Find what changed: night.html names new builds and hosts; `enginebench bisect` finds the commit.",
        ]
    if not view.candidates:
        return [*steps, "To compare, add a second engine, or give two runs: `enginebench compare RUN OTHER`."]
    return steps or ["Nothing is open: every question that was asked has an answer."]


def _more_rounds(view: View) -> list[str]:
    """The number of further rounds that would settle the speed, by the figure that needs most of them."""
    ratios = [
        (row, speed_ratio)
        for row in view.deciding_rows
        for candidate in view.candidates
        if (speed_ratio := _ratio(row, candidate)).get("value") is not None
    ]
    if ratios and not any(speed_ratio.get("verdict") for _, speed_ratio in ratios):
        least = view.speed_rules.get("fewest_rounds") or FEWEST_ROUNDS
        return [
            f"For a verdict on speed, run again with {least} rounds or more (rounds in the profile, --rounds of ab)."
        ]
    needed = [
        (rounds, min(speed_ratio["rounds"]), row)
        for row, speed_ratio in ratios
        if speed_ratio.get("verdict") == "inconclusive"
        and (rounds := speed_ratio.get("needed_rounds") or needed_rounds(speed_ratio, view.speed_rules))
    ]
    if not needed:
        return []
    near = [known for known in needed if known[0] <= _MOST_ROUNDS]
    if not near:
        return [
            f"More rounds will hardly settle the speed: each open figure needs more than {_MOST_ROUNDS} rounds"
            f" ({needed[0][1]} now). Make the machine quieter, or accept a wider margin."
        ]
    most, now, row = max(near, key=lambda known: known[0])
    far = len(needed) - len(near)
    others = f"{count(len(near) - 1, 'other open figure')}" if len(near) > 1 else ""
    more = f" and {others}" if others else ""
    more += f"; {count(far, 'figure')} would need more than {_MOST_ROUNDS}" if far else ""
    return [
        f"To settle the speed, run about {count(most - now, 'more round')} (rounds = {most} in the profile, {now} now):"
        f" that many settle {metric_phrase(row['metric'])} in {cell_of(row)}{more}."
    ]


def needed_rounds(speed_ratio: JsonObject, rules: JsonObject) -> int | None:
    """Rounds per engine that would settle an open ratio of a comparison that does not hold its `needed_rounds`.

    Assumes that its value and its spread stay what they are.

    The interval's half width on the logarithmic scale shrinks with the square root of the rounds. It settles the ratio
    where it excludes 1, or lies inside the margin, whichever needs fewer rounds.
    """
    ci, rounds = shown_interval(speed_ratio), speed_ratio.get("rounds")
    if not ci or not rounds or min(ci) <= 0:
        return None
    effect, margin = abs(math.log(speed_ratio["value"])), math.log((rules.get("margin") or [0, DEFAULT_MARGIN])[1])
    half_width = math.log(ci[1] / ci[0]) / 2
    now = int(min(rounds))
    return max(now + 1, math.ceil(now * (half_width / max(effect, margin - effect)) ** 2))


def _more_problems(view: View) -> list[str]:
    """The number of problems that would settle the answers, for each open workload."""
    steps = []
    for row in view.rows("quality"):
        needed = [
            int(paired["needed_n"])
            for paired in (row.get("paired") or {}).values()
            if paired and paired.get("verdict") == "inconclusive" and paired.get("needed_n")
        ]
        if needed and max(needed) > row["n"]:
            margin = f"{100 * row['margin']:.3g} points" if row.get("margin") else "the margin"
            steps.append(
                f"To settle whether answers to {row['workload']} are equal within {margin}, ask"
                f" {max(needed):,} problems ({row['n']:,} now)."
            )
    return steps


def _listed(parts: Sequence[str]) -> str:
    """a; a and b; a, b and c."""
    return " and ".join(filter(None, [", ".join(parts[:-1]), parts[-1]])) if parts else ""

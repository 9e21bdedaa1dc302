"""Short definitions of the terms in reports, for tooltips and for the first use in a text.

docs/glossary.md explains the same terms in more detail; a test checks that it has all of them.
"""

from __future__ import annotations

import re

from markupsafe import Markup, escape

from reporting.format import metric_name

SPELLED_OUT = {
    "TTFT": "time to first token",
    "TTFA": "time to first token of the answer",
    "TPOT": "time per output token",
    "ITL": "inter-token latency",
    "ICL": "inter-chunk latency",
    "E2E": "end-to-end time",
}
"""Abbreviations and what they stand for."""

DEFINITIONS = {
    "TTFT": "Time to first token: from sending a request to its first token.",
    "TTFA": "Time to first token of the answer: from sending a request to the first token that is not a thought.",
    "TPOT": "Time per output token: the mean gap between the tokens of one request after its first.",
    "ITL": "Inter-token latency: each gap between two tokens, one by one.",
    "ICL": "Inter-chunk latency: each gap between two chunks of the stream; a chunk may hold several tokens.",
    "E2E": "End-to-end time: from sending a request to its last token.",
    "throughput": "Output throughput: tokens generated per second, over all requests in flight.",
    "goodput": "Requests per second that met every latency objective of the profile.",
    "capacity": "The most load (users, or requests per second) at which enough requests met every objective.",
    "Pareto front": "Levels of load that no other level beats both in speed for one user and in speed for all.",
    "prefill": "The engine processes the prompt, before the first token is generated.",
    "decode": "The engine generates the answer, after the first token.",
    "speed ratio": "Candidate against baseline. Above 1 the candidate is faster, for rates and for latencies alike.",
    "95% interval": "The values that the measurements allow: of 100 such intervals, 95 hold the true value. Beside a"
    " verdict it is wider, to allow for the number of verdicts in the report.",
    "baseline": "The engine with which all others are compared.",
    "candidate": "An engine that is compared with the baseline.",
    "cell": "One scenario with one workload, such as concurrent_4.perf-medium.",
    "scenario": "A shape of load, such as four requests at a time.",
    "workload": "A set of prompts.",
    "round": "One start of an engine with all its cells. Engines take turns, and are compared over several rounds.",
    "void": "A check of the audit failed, so the comparison proves nothing.",
    "fair": "No check of the audit failed.",
    "audit": "The checks that say whether both engines were measured under the same conditions.",
    "steady window": "The time in which the full requested number was in flight. Rates count only that time.",
    "drain": "The end of a cell: no new request is sent, and the requests in flight end.",
    "warm-up": "Requests before measuring starts. No figure counts them.",
    "flip": "A problem that one engine answered right and the other wrong.",
    "A/A": "An engine compared with itself: every difference is noise.",
    "†": "One round of each engine: the interval ignores the noise from round to round.",
    "McNemar p": "How likely so uneven a split of the flips is if both engines are equally good.",
    "exploratory": "A figure with an interval but no verdict: it was not chosen before the run as a deciding figure.",
    "p50": "Median: half of the values are below.",
    "p90": "90 of 100 values are below.",
    "p95": "95 of 100 values are below.",
    "p99": "99 of 100 values are below.",
}
"""One sentence per term, understandable without other text."""

_WORD = re.compile(
    r"(?<![\w.-])("
    + "|".join(re.escape(word) for word in sorted(DEFINITIONS, key=len, reverse=True))
    + r")(s?)(?![\w-])",
    re.IGNORECASE,
)
_BY_LOWER = {word.lower(): text for word, text in DEFINITIONS.items()}


def metric_phrase(metric: str) -> str:
    """A metric in the middle of a sentence: "output throughput", "median TTFT (time to first token)"."""
    first, _, rest = metric_name(metric).partition(" ")
    if first not in SPELLED_OUT:
        name = metric_name(metric)
        return name[0].lower() + name[1:]
    statistic = {"p50": "median ", "mean": "mean "}.get(rest, f"{rest} of " if rest else "")
    return f"{statistic}{first} ({SPELLED_OUT[first]})"


def spelled_out(metric: str) -> str:
    """A metric's name for a table's header, spelled out: "TTFT p50 (time to first token)"."""
    name = metric_name(metric)
    abbreviation = name.partition(" ")[0]
    return f"{name} ({SPELLED_OUT[abbreviation]})" if abbreviation in SPELLED_OUT else name


def explained(text: object) -> Markup:
    """Our own text as HTML: escaped, with a tooltip at the first use of each known term."""
    seen = set()

    def tooltip(match: re.Match[str]) -> str:
        word = match[1].lower()
        if word in seen:
            return match[0]
        seen.add(word)
        return f'<abbr title="{escape(_BY_LOWER[word])}">{match[0]}</abbr>'

    return Markup(_WORD.sub(tooltip, str(escape(text))))  # noqa: S704 (escaped before)

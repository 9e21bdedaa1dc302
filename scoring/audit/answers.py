"""Audit checks of the answers' texts and lengths: did both engines do the same work, with the same model?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from records.wording import count
from scoring.audit.model import (
    CellFacts,
    Finding,
    RoundFacts,
    cell_check,
    failed,
    is_greedy,
    not_applicable,
    passed,
    unknown,
    warned,
)

LENGTH_WARN = 0.05
"""Relative difference of the mean answer, on the same prompts, from which on E2E and rates compare other work."""
SLACK_TOKENS = 1
"""Some engines count the token that ends an answer, others do not."""
OTHER_COUNT_SHARE = 0.05
"""From this share of identical texts on, differing token counts are no accident of sampling."""
FEWEST_GREEDY = 2
"""One answer that differs is no sign yet: greedy decoding is not the same to the last bit everywhere."""

OTHER_START_WARN, OTHER_START_FAIL = 0.2, 0.5
"""Share of prompts whose answers begin with another word in another round. Rounding moves a near tie now and then; an
engine that samples moves most of them."""
FEWEST_REPEATED = 4

Answer = tuple[str, str]
"""Text and reasoning."""


@cell_check("answers as long as the baseline's")
def as_long(facts: CellFacts) -> Finding:
    """On the same prompts the answers are as long: E2E, requests/s and throughput of shorter ones are of less work."""
    if facts.is_baseline or not facts.baseline:
        return not_applicable("compared with the baseline, for the candidates")
    mine, theirs = _mean_lengths(facts.rounds), _mean_lengths(facts.baseline)
    common = sorted(mine.keys() & theirs.keys())
    if not common:
        return unknown("no prompt was answered by both, with tokens that are known")
    ours, base = (sum(lengths[key] for key in common) / len(common) for lengths in (mine, theirs))
    if not base:
        return unknown("the baseline's answers have no tokens")
    evidence = f"{ours:,.1f} tokens an answer, {base:,.1f} in the baseline, over {count(len(common), 'prompt')}"
    if abs(ours / base - 1) > LENGTH_WARN:
        return warned(f"{evidence}: E2E, requests/s and throughput compare different work")
    return passed(evidence)


@cell_check("same tokens for the same text")
def same_tokens(facts: CellFacts) -> Finding:
    """Where both engines gave the same text, their usage counts the same tokens."""
    if facts.is_baseline or not facts.baseline:
        return not_applicable("compared with the baseline, for the candidates")
    mine, theirs = _counts_by_text(facts.rounds), _counts_by_text(facts.baseline)
    common = sorted(mine.keys() & theirs.keys())
    if not common:
        return not_applicable("no text is the same in both engines")
    differing = [key for key in common if _apart(mine[key], theirs[key]) > SLACK_TOKENS]
    if not differing:
        return passed(f"equal in {count(len(common), 'identical answer')}, but for the token that ends an answer")
    first = differing[0]
    evidence = (
        f"{len(differing)} of {count(len(common), 'identical answer')} have another count, such as"
        f" {max(mine[first])} tokens here and {max(theirs[first])} in the baseline"
    )
    return failed(evidence) if len(differing) > OTHER_COUNT_SHARE * len(common) else warned(evidence)


@cell_check("greedy answers agree")
def greedy_agree(facts: CellFacts) -> Finding:
    """At temperature 0 at least one answer is the baseline's: where none is, another model may be behind it."""
    if facts.is_baseline or not facts.baseline:
        return not_applicable("compared with the baseline, for the candidates")
    if not all(_greedy(round_) for round_ in (*facts.rounds, *facts.baseline)):
        return not_applicable("answers are sampled, or the sampling is unknown")
    mine, theirs = _texts(facts.rounds), _texts(facts.baseline)
    common = mine.keys() & theirs.keys()
    if len(common) < FEWEST_GREEDY:
        return not_applicable(f"{count(len(common), 'prompt')} answered by both: too few to tell")
    agreeing = sum(bool(mine[key] & theirs[key]) for key in common)
    evidence = f"{agreeing} of {count(len(common), 'greedy answer')} are the baseline's to the last character"
    return passed(evidence) if agreeing else warned(f"{evidence}: is it the same model?")


@cell_check("greedy answers begin alike")
def greedy_repeats(facts: CellFacts) -> Finding:
    """At temperature 0 an engine's answer to a prompt begins with the same word in every round.

    Greedy decoding may drift apart later, where two tokens are nearly tied. An engine that ignores the temperature
    differs from the first word on: vllm.rs 0.8.12 sampled at 0.7 although every request said 0.
    """
    if not facts.rounds or not all(_greedy(round_) for round_ in facts.rounds):
        return not_applicable("answers are sampled, or the sampling is unknown")
    starts: dict[str, list[str]] = {}
    for sha, (text, reasoning), _ in _answers(facts.rounds):
        starts.setdefault(sha, []).append("".join((reasoning or text).split()[:1]))
    repeated = [words for words in starts.values() if len(words) > 1]
    if len(repeated) < FEWEST_REPEATED:
        return not_applicable(f"{count(len(repeated), 'prompt')} answered more than once: too few to tell")
    differing = sum(len(set(words)) > 1 for words in repeated)
    evidence = f"{differing} of {count(len(repeated), 'prompt')} begin with another word in another round"
    if differing > OTHER_START_FAIL * len(repeated):
        return failed(f"{evidence}: the engine samples although temperature 0 was sent")
    return warned(evidence) if differing > OTHER_START_WARN * len(repeated) else passed(evidence)


def _answers(rounds: list[RoundFacts]) -> Iterator[tuple[str, Answer, float]]:
    """(prompt, answer, tokens) of every ok measured request."""
    for round_ in rounds:
        good, capture = round_.figures.good, round_.capture
        for row, sha, tokens in zip(good.index, good["prompt_sha256"], good["completion_tokens"], strict=True):
            yield sha, (capture.texts[row], capture.reasonings[row]), float(tokens)


def _mean_lengths(rounds: list[RoundFacts]) -> Mapping[str, float]:
    """Mean tokens of the answers to each prompt, where all of them are known."""
    lengths: dict[str, list[float]] = {}
    for sha, _, tokens in _answers(rounds):
        lengths.setdefault(sha, []).append(tokens)
    means = {sha: sum(values) / len(values) for sha, values in lengths.items()}
    return {sha: mean for sha, mean in means.items() if mean == mean}


def _counts_by_text(rounds: list[RoundFacts]) -> Mapping[tuple[str, Answer], set[int]]:
    counts: dict[tuple[str, Answer], set[int]] = {}
    for sha, answer, tokens in _answers(rounds):
        if tokens == tokens:
            counts.setdefault((sha, answer), set()).add(int(tokens))
    return counts


def _apart(ours: set[int], theirs: set[int]) -> int:
    return min(abs(a - b) for a in ours for b in theirs)


def _texts(rounds: list[RoundFacts]) -> Mapping[str, set[Answer]]:
    texts: dict[str, set[Answer]] = {}
    for sha, answer, _ in _answers(rounds):
        texts.setdefault(sha, set()).add(answer)
    return texts


def _greedy(round_: RoundFacts) -> bool:
    extras = round_.capture.asked.get("request_extras")
    # The load process sends temperature 0 unless the extras say otherwise.
    return isinstance(extras, dict) and is_greedy(({"temperature": 0} | extras).get("temperature"))

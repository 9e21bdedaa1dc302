"""Audit checks of answers: do their texts and lengths show the same work and the same model in both engines?"""

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
"""Relative difference of the mean answer length, on the same prompts, above which the audit warns."""
SLACK_TOKENS = 1
"""Some engines count the token that ends an answer, others do not."""
OTHER_COUNT_SHARE = 0.05
"""Above this share of identical texts, differing token counts fail instead of warn."""
FEWEST_GREEDY = 2
"""Fewer common prompts prove nothing: greedy decoding is not deterministic in every engine."""

OTHER_START_WARN, OTHER_START_FAIL = 0.2, 0.5
"""Share of prompts whose answers begin with different words in different rounds. Rounding sometimes changes a near tie;
sampling changes most first words."""
FEWEST_REPEATED = 4

Answer = tuple[str, str]
"""Text and reasoning."""


@cell_check("answers as long as the baseline's")
def as_long(facts: CellFacts) -> Finding:
    """On the same prompts, both engines' answers have the same mean length: shorter answers are less work."""
    if facts.is_baseline or not facts.baseline:
        return not_applicable("compared with the baseline, for the candidates")
    mine, theirs = _mean_lengths(facts.rounds), _mean_lengths(facts.baseline)
    common = sorted(mine.keys() & theirs.keys())
    if not common:
        return unknown("no prompt has an answer of known length from both engines")
    ours, base = (sum(lengths[key] for key in common) / len(common) for lengths in (mine, theirs))
    if not base:
        return unknown("the baseline's answers have no tokens")
    evidence = f"{ours:,.1f} tokens per answer, {base:,.1f} in the baseline, over {count(len(common), 'prompt')}"
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
        return passed(f"equal in {count(len(common), 'identical answer')}, apart from the token that ends an answer")
    first = differing[0]
    evidence = (
        f"{len(differing)} of {count(len(common), 'identical answer')} have different counts, such as"
        f" {max(mine[first])} tokens here and {max(theirs[first])} in the baseline"
    )
    return failed(evidence) if len(differing) > OTHER_COUNT_SHARE * len(common) else warned(evidence)


@cell_check("greedy answers agree")
def greedy_agree(facts: CellFacts) -> Finding:
    """At temperature 0, at least one answer equals the baseline's; if none does, the model may be a different one."""
    if facts.is_baseline or not facts.baseline:
        return not_applicable("compared with the baseline, for the candidates")
    if not all(_greedy(round_) for round_ in (*facts.rounds, *facts.baseline)):
        return not_applicable("answers are sampled, or the sampling is unknown")
    mine, theirs = _texts(facts.rounds), _texts(facts.baseline)
    common = mine.keys() & theirs.keys()
    if len(common) < FEWEST_GREEDY:
        return not_applicable(f"{count(len(common), 'prompt')} answered by both: too few to judge")
    agreeing = sum(bool(mine[key] & theirs[key]) for key in common)
    evidence = f"{agreeing} of {count(len(common), 'greedy answer')} equal the baseline's to the last character"
    return passed(evidence) if agreeing else warned(f"{evidence}: is it the same model?")


@cell_check("greedy answers begin alike")
def greedy_repeats(facts: CellFacts) -> Finding:
    """At temperature 0 an engine's answer to a prompt begins with the same word in every round.

    Greedy answers may diverge later, where two tokens are nearly tied. An engine that ignores the temperature
    differs from the first word on: vllm.rs 0.8.12 sampled at 0.7 although every request had temperature 0.
    """
    if not facts.rounds or not all(_greedy(round_) for round_ in facts.rounds):
        return not_applicable("answers are sampled, or the sampling is unknown")
    starts: dict[str, list[str]] = {}
    for sha, (text, reasoning), _ in _answers(facts.rounds):
        starts.setdefault(sha, []).append("".join((reasoning or text).split()[:1]))
    repeated = [words for words in starts.values() if len(words) > 1]
    if len(repeated) < FEWEST_REPEATED:
        return not_applicable(f"{count(len(repeated), 'prompt')} answered more than once: too few to judge")
    differing = sum(len(set(words)) > 1 for words in repeated)
    evidence = f"{differing} of {count(len(repeated), 'prompt')} have answers whose first word differs between rounds"
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
    """Mean tokens of the answers to each prompt, where all lengths are known."""
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

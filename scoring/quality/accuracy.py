"""Summarises graded answers: accuracy per engine, paired differences between engines, self-agreement of an engine."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from records import JsonObject
from scoring.quality.grading import Outcomes
from scoring.quality.sampling import FEWEST_DIFFERING, PairedProblems, mean_clustered, pass_at_k
from scoring.statistics.proportions import EQUIVALENCE_CONFIDENCE, PairedTable, mcnemar_p, wilson

DEFAULT_MARGIN_POINTS = 2.0

AnswersPair = tuple[JsonObject, PairedTable | PairedProblems]
"""The report's figures for two engines' answers to one workload, and the evidence for their verdict."""


def engine_summary(outcomes: Outcomes) -> JsonObject:
    """One engine's answers: {correct, strict_correct, n, problems, accuracy, ci, strict_accuracy, truncated, no_answer,
    errors, missing, by_method, by_fault, standard_error, pass_at_k}.

    n counts answers (problems x samples). With several samples the interval is clustered by problem.
    """
    values = list(outcomes.values())
    n, correct = len(values), sum(o.correct for o in values)
    means = _problem_means(outcomes)
    summary: JsonObject = {
        "correct": correct,
        "strict_correct": sum(o.strict for o in values),
        "n": n,
        "problems": len(means),
        "accuracy": correct / n if n else None,
        "ci": None,
        "strict_accuracy": sum(o.strict for o in values) / n if n else None,
        "truncated": sum(o.truncated for o in values),
        "no_answer": sum(o.error is None and o.answer is None for o in values),
        "errors": sum(o.error is not None and o.error != "missing" for o in values),
        "missing": sum(o.error == "missing" for o in values),
        "by_method": dict(sorted(Counter(o.method for o in values if o.error is None).items())),
        "by_fault": dict(sorted(Counter(o.fault for o in values if o.fault is not None).items())),
        "standard_error": None,
        "pass_at_k": None,
    }
    if n and n == len(means):
        summary["ci"] = wilson(correct, n).as_list()
    elif n:
        mean, error, ci = mean_clustered(list(means.values()))
        if min(sum(m < 1 for m in means.values()), sum(m > 0 for m in means.values())) < FEWEST_DIFFERING:
            # Nearly all problems have the same result, so their spread cannot be estimated.
            ci = wilson(mean * len(means), len(means))
        summary["standard_error"] = error
        samples = _samples(outcomes)
        k = min(len(row) for row in samples.values())
        summary["pass_at_k"] = {str(j): pass_at_k(list(samples.values()), j) for j in sorted({1, k})}
        summary["ci"] = [max(0.0, ci.low), min(1.0, ci.high)] if ci else None
    return summary


def _samples(outcomes: Outcomes) -> dict[str, list[bool]]:
    """Whether each sample is right, by problem."""
    samples: dict[str, list[bool]] = {}
    for (prompt_id, _), outcome in outcomes.items():
        samples.setdefault(prompt_id, []).append(outcome.correct)
    return samples


def _problem_means(outcomes: Outcomes) -> dict[str, float]:
    return {prompt_id: sum(row) / len(row) for prompt_id, row in _samples(outcomes).items()}


def paired_summary(baseline: Outcomes, candidate: Outcomes, margin: float) -> AnswersPair | None:
    """{difference, ci, ci_90, mcnemar_p, discordant, table, margin, flips} of two engines, with the evidence.

    `table` is [[both, only baseline], [only candidate, neither]]; `flips` lists [prompt_id, sample, "lost" or "won"]
    from the candidate's side. With several samples per problem, the evidence is clustered by problem, and there is no
    McNemar test. None where no prompt was asked of both.
    """
    keys = [key for key in baseline if key in candidate]
    if not keys:
        return None
    flips: list[list[object]] = []
    counts: Counter[tuple[bool, bool]] = Counter()
    for key in keys:
        was, now = baseline[key].correct, candidate[key].correct
        counts[was, now] += 1
        if was != now:
            flips.append([key[0], key[1], "won" if now else "lost"])
    lost, won = counts[True, False], counts[False, True]
    before, after = (_problem_means({key: side[key] for key in keys}) for side in (baseline, candidate))
    evidence: PairedTable | PairedProblems
    if len(before) == len(keys):
        evidence = PairedTable(won, lost, len(keys))
    else:
        evidence = PairedProblems([after[prompt_id] - before[prompt_id] for prompt_id in before])
    ci, narrow = evidence.interval(), evidence.interval(EQUIVALENCE_CONFIDENCE)
    summary: JsonObject = {
        "table": [[counts[True, True], lost], [won, counts[False, False]]],
        "discordant": won + lost,
        "margin": margin,
        "flips": flips,
        "difference": evidence.estimate,
        "ci": ci.as_list() if ci else None,
        "ci_90": narrow.as_list() if narrow else None,
        "mcnemar_p": mcnemar_p(won, lost) if isinstance(evidence, PairedTable) else None,
    }
    return summary, evidence


def self_agreement(rounds: Sequence[Outcomes]) -> JsonObject | None:
    """The noise floor: {pairs, n, flips (mean number per pair of rounds), flip_share, answers_changed (share)}.

    None for an engine with one round.
    """
    pairs = [(a, b) for i, a in enumerate(rounds) for b in rounds[i + 1 :]]
    pairs = [(a, b) for a, b in pairs if a.keys() & b.keys()]
    if not pairs:
        return None
    flips = changed = total = 0
    for a, b in pairs:
        keys = a.keys() & b.keys()
        flips += sum(a[key].correct != b[key].correct for key in keys)
        changed += sum(a[key].answer != b[key].answer for key in keys)
        total += len(keys)
    return {
        "pairs": len(pairs),
        "n": total // len(pairs),
        "flips": flips / len(pairs),
        "flip_share": flips / total,
        "answers_changed": changed / total,
    }


def quality_row(
    graded: Mapping[str, Sequence[Outcomes]], baseline: str, margin: float
) -> tuple[JsonObject, list[AnswersPair]]:
    """{n, margin, engines, paired, self_agreement} of one cell, and its pairs, which have no verdict yet.

    Only the first round of each engine is compared. Further rounds of greedy decoding add no problems; they show how
    far an engine agrees with itself.
    """
    first = {engine: rounds[0] for engine, rounds in graded.items()}
    pairs = {
        engine: pair
        for engine, outcomes in first.items()
        if engine != baseline
        and baseline in first
        and (pair := paired_summary(first[baseline], outcomes, margin)) is not None
    }
    row: JsonObject = {
        "n": max(len(outcomes) for outcomes in first.values()),
        "margin": margin,
        "engines": {engine: engine_summary(outcomes) for engine, outcomes in first.items()},
        "paired": {engine: summary for engine, (summary, _) in pairs.items()},
        "self_agreement": {engine: self_agreement(rounds) for engine, rounds in graded.items()},
    }
    return row, list(pairs.values())

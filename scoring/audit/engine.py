"""Audit checks of an engine's lives: was each what it was asked to be, and alive to the end?"""

from __future__ import annotations

import re
from typing import Any

from records.wording import count
from scoring.audit.model import (
    EngineFacts,
    Finding,
    Status,
    engine_check,
    failed,
    not_applicable,
    passed,
    unknown,
    warned,
)
from scoring.runs import Round


@engine_check("context per slot")
def context_per_slot(facts: EngineFacts) -> Finding:
    """Each slot has the context that was asked for (llama.cpp divides `-c` by `--parallel`)."""

    def check(life: Round) -> Finding:
        asked = life.state.get("asked") or {}
        wanted = asked.get("context_per_slot") or asked.get("max_seq_len") or facts.run.profile.get("max_seq_len")
        told = _readback(life, "context_per_slot")
        if wanted is None:
            return not_applicable("no context was asked for")
        if told is None:
            return unknown(f"the engine does not report its context; {wanted:,} tokens were asked")
        evidence = f"each slot has {told:,} tokens, {wanted:,} asked"
        return failed(evidence) if told < wanted else passed(evidence)

    return facts.each(check)


@engine_check("slots")
def slots(facts: EngineFacts) -> Finding:
    """The engine batches as many requests as the profile says."""

    def check(life: Round) -> Finding:
        wanted, told = (life.state.get("asked") or {}).get("slots"), _readback(life, "slots")
        if wanted is None:
            return not_applicable("no number of slots was asked for")
        if told is None:
            return unknown(f"the engine does not report its slots; {wanted} were asked")
        evidence = f"{told} slots, {wanted} asked"
        return failed(evidence) if told != wanted else passed(evidence)

    return facts.each(check)


@engine_check("same weights")
def same_weights(facts: EngineFacts) -> Finding:
    """Both engines' weights come from the same source: the same file, or files converted from the same safetensors."""
    if facts.is_baseline:
        return _one_hash(facts)
    baseline = facts.run.rounds.get(facts.run.baseline, [])
    mine = [life.state.get("weights") or {} for life in facts.lives]
    theirs = [life.state.get("weights") or {} for round_ in baseline for life in round_.all_lives()]
    for key, what in (("source_sha256", "source"), ("sha256", "file")):
        ours, base = {w.get(key) for w in mine}, {w.get(key) for w in theirs}
        if None in ours or None in base or not ours or not base:
            continue
        if ours == base and len(ours) == 1:
            return passed(f"the same {what}, sha256 {_short(ours)}")
        if key == "source_sha256" or len(ours | base) == 1:
            return failed(f"{what} sha256 {_short(ours)}, the baseline's {_short(base)}")
        # Two files may be one model in two formats; only a source that both were made of could show it.
        if not any(w.get("source_sha256") for w in mine + theirs):
            return unknown(f"other files ({_short(ours)} against {_short(base)}), and their source is not recorded")
    sources = {w.get("source_sha256") or w.get("sha256") for w in mine + theirs}
    if None not in sources and len(sources) == 1:
        return passed(f"one was made of the other, sha256 {_short(sources)}")
    return unknown("the weights' hashes are not known on both sides")


def _one_hash(facts: EngineFacts) -> Finding:
    hashes = {(life.state.get("weights") or {}).get("sha256") for life in facts.lives}
    if None in hashes or not hashes:
        return unknown("the hash of the weights is not known")
    if len(hashes) > 1:
        return failed(f"other weights in other rounds: {_short(hashes)}")
    return passed(f"sha256 {_short(hashes)}")


@engine_check("same model read back")
def same_build_in_all_rounds(facts: EngineFacts) -> Finding:
    """Every life of every round ran the same build with the same chat template."""
    for name in ("build", "model", "chat_template_sha256"):
        told = {value for life in facts.lives if (value := _readback(life, name)) is not None}
        if len(told) > 1:
            return failed(f"{name} differs from round to round: {_short(told)}")
    if not any(_readback(life, "build") or _readback(life, "model") for life in facts.rounds):
        return unknown("the engine tells neither its build nor its model")
    return passed(f"build {_readback(facts.rounds[0], 'build') or 'unknown'} in every round")


@engine_check("same model as the baseline")
def same_model(facts: EngineFacts) -> Finding:
    """The model's name and the chat template are the baseline's, as far as both engines report them.

    Names are free text (a file's, a repository's, an alias), so another name is a warning, unless the weights are
    known to be the same. Names with different sizes, such as 8b and 1b, are two models.
    """
    if facts.is_baseline:
        return not_applicable("compared with the baseline, for the candidates")
    baseline = facts.run.rounds.get(facts.run.baseline, [])
    mine, theirs = (_reported(lives, "model") for lives in (facts.rounds, baseline))
    if not mine or not theirs:
        return unknown("the model's name is not reported by both engines")
    told = f"model {', '.join(sorted(mine))}, in the baseline {', '.join(sorted(theirs))}"
    sizes, base_sizes = _sizes(mine), _sizes(theirs)
    same_hash = same_weights(facts).status is Status.PASS
    if sizes and base_sizes and sizes != base_sizes and not same_hash:
        return failed(f"{told}: the sizes differ")
    templates = _reported(facts.rounds, "chat_template_sha256"), _reported(baseline, "chat_template_sha256")
    if all(templates) and templates[0] != templates[1]:
        return warned(f"chat template {_short(templates[0])}, in the baseline {_short(templates[1])}; {told}")
    if {_stem(name) for name in mine} != {_stem(name) for name in theirs} and not same_hash:
        return warned(f"{told}: is it the same model?")
    return passed(told)


def _reported(lives: list[Round], name: str) -> set[str]:
    return {str(value) for life in lives if (value := _readback(life, name)) is not None}


def _stem(model: str) -> str:
    """A model's name without folders and the ending of its file."""
    return model.rstrip("/").rpartition("/")[2].lower().removesuffix(".gguf")


def _sizes(models: set[str]) -> set[str]:
    """The numbers of parameters in the names: {"8b"} of Qwen3-8B, {"30b", "a3b"} of Qwen3-30B-A3B."""
    return {
        size for model in models for size in re.findall(r"(?<![a-z0-9.])a?\d+(?:\.\d+)?[bm](?![a-z0-9])", model.lower())
    }


@engine_check("same sampling asked")
def same_sampling(facts: EngineFacts) -> Finding:
    """The engine was asked for the sampling that the profile and the baseline have, and did not refuse it."""
    wanted = facts.run.profile.get("sampling")
    base = [(life.state.get("asked") or {}).get("sampling") for life in facts.run.rounds.get(facts.run.baseline, [])]

    def check(life: Round) -> Finding:
        mine = (life.state.get("asked") or {}).get("sampling")
        if (life.state.get("probe") or {}).get("sampling_accepted") is False:
            return failed("the engine refuses the sampling that was asked for")
        if mine is None:
            return unknown("engine.json does not say which sampling was asked for")
        for other, who in ((wanted, "the profile"), (base[0] if base else None, "the baseline")):
            differing = _differing(mine, other) if other else None
            if differing:
                return failed(f"{differing} (asked here, then in {who})")
        told = ", ".join(f"{key} {value}" for key, value in sorted(mine.items()) if value is not None)
        if (life.state.get("probe") or {}).get("sampling_accepted") is None:
            return unknown(f"asked: {told}; the probe can't tell whether it is obeyed")
        return passed(told)

    return facts.each(check)


@engine_check("thinking as asked")
def thinking(facts: EngineFacts) -> Finding:
    """What the probe saw: thinking is off where the profile says so."""

    def check(life: Round) -> Finding:
        wanted = bool((life.state.get("asked") or {}).get("thinking", facts.run.profile.get("thinking")))
        seen = (life.state.get("probe") or {}).get("thinking")
        if seen is None:
            return unknown("the probe can't tell whether the engine thinks")
        if seen and not wanted:
            return failed("the probe got think text although thinking is off")
        if wanted and not seen:
            return warned("thinking is asked, but no think text was in the probe's answer")
        return passed("the probe got think text, as asked" if seen else "no think text in the probe's answer")

    return facts.each(check)


@engine_check("same prompt tokens in the probe")
def probe_tokens(facts: EngineFacts) -> Finding:
    """The probe's messages have as many tokens as in the baseline: the chat templates match before anything is run."""
    if facts.is_baseline:
        return not_applicable("compared with the baseline, for the candidates")
    theirs = _probed(facts.run.rounds.get(facts.run.baseline, []))
    mine = _probed(facts.rounds)
    common = sorted(mine.keys() & theirs.keys())
    if not common:
        return unknown("the probe got no prompt tokens from both engines")
    differing = [key for key in common if mine[key] != theirs[key]]
    if differing:
        return failed(f"{mine[differing[0]]} tokens for a prompt that has {theirs[differing[0]]} in the baseline")
    return passed(f"equal for {count(len(common), 'probe')}")


def _probed(lives: list[Round]) -> dict[str, int]:
    told = [(life.state.get("probe") or {}).get("prompt_tokens") or {} for life in lives]
    return {key: int(tokens) for probe in told for key, tokens in probe.items() if tokens is not None}


@engine_check("engine alive")
def alive(facts: EngineFacts) -> Finding:
    """Each life ended because it was asked to: the engine never died, and was not started again in between."""

    def check(life: Round) -> Finding:
        if not life.state:
            return unknown("no engine.json")
        reason = life.state.get("stop_reason")
        if reason == "died":
            return failed(f"the engine died (exit code {life.state.get('exit_code')})")
        if died := [earlier for earlier in life.earlier if earlier.get("stop_reason") == "died"]:
            code = died[0].get("exit_code")
            return failed(f"the engine died (exit code {code}) and was started again to finish the round")
        if reason is None:
            return unknown("engine.json does not say how the engine ended")
        if reason != "asked":
            return failed(f"the engine's life ended otherwise: {reason}")
        served = [earlier for earlier in life.earlier if earlier.get("ready_s") is not None]
        if served:
            times = len(served) + 1
            return warned(f"started {times} times in this round: the run was interrupted and finished later")
        if life.earlier:
            attempts = count(len(life.earlier), "start")
            return passed(f"it ran from start to stop in one process; {attempts} before it ended before it was ready")
        return passed("it ran from start to stop in one process")

    return facts.each(check)


def _readback(life: Round, name: str) -> Any:
    return (life.state.get("readback") or {}).get(name)


def _differing(mine: dict[str, Any], other: dict[str, Any]) -> str | None:
    for key in sorted({*mine, *other}):
        if mine.get(key) != other.get(key):
            return f"{key} {mine.get(key)} against {other.get(key)}"
    return None


def _short(values: set[Any]) -> str:
    return ", ".join(sorted(str(value)[:12] for value in values))

"""Audit checks of engine processes: does each have the requested settings, and did it run to the end?"""

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
    """Each slot has the requested context (llama.cpp divides `-c` by `--parallel`)."""

    def check(round_: Round) -> Finding:
        asked = round_.state.get("asked") or {}
        wanted = asked.get("context_per_slot") or asked.get("max_seq_len") or facts.run.profile.get("max_seq_len")
        reported = _readback(round_, "context_per_slot")
        if wanted is None:
            return not_applicable("the profile asks for no context")
        if reported is None:
            return unknown(f"the engine does not report its context; the profile asks for {wanted:,} tokens")
        evidence = f"each slot has {reported:,} tokens; the profile asks for {wanted:,}"
        return failed(evidence) if reported < wanted else passed(evidence)

    return facts.each(check)


@engine_check("slots")
def slots(facts: EngineFacts) -> Finding:
    """The engine has as many slots as the profile asks for."""

    def check(round_: Round) -> Finding:
        wanted, reported = (round_.state.get("asked") or {}).get("slots"), _readback(round_, "slots")
        if wanted is None:
            return not_applicable("the profile asks for no number of slots")
        if reported is None:
            return unknown(f"the engine does not report its slots; the profile asks for {wanted}")
        evidence = f"the server runs {count(reported, 'slot')}; the profile asks for {wanted}"
        return failed(evidence) if reported != wanted else passed(evidence)

    return facts.each(check)


@engine_check("same weights")
def same_weights(facts: EngineFacts) -> Finding:
    """Both engines' weights come from one source: the same file, or files converted from the same safetensors."""
    if facts.is_baseline:
        return _one_hash(facts)
    baseline = facts.run.rounds.get(facts.run.baseline, [])
    mine = [round_.state.get("weights") or {} for round_ in facts.processes]
    theirs = [round_.state.get("weights") or {} for round_ in baseline for round_ in round_.all_processes()]
    for key, what in (("source_sha256", "source"), ("sha256", "file")):
        ours, base = {w.get(key) for w in mine}, {w.get(key) for w in theirs}
        if None in ours or None in base or not ours or not base:
            continue
        if ours == base and len(ours) == 1:
            return passed(f"the same {what}, sha256 {_short(ours)}")
        if key == "source_sha256" or len(ours | base) == 1:
            return failed(f"{what} sha256 {_short(ours)}, the baseline's {_short(base)}")
        # Two files may be one model in two formats; only the hash of a common source could prove it.
        if not any(w.get("source_sha256") for w in mine + theirs):
            return unknown(f"different files ({_short(ours)} against {_short(base)}), and their source is not recorded")
    sources = {w.get("source_sha256") or w.get("sha256") for w in mine + theirs}
    if None not in sources and len(sources) == 1:
        return passed(f"one was converted from the other, sha256 {_short(sources)}")
    return unknown("the weights' hashes are not known on both sides")


def _one_hash(facts: EngineFacts) -> Finding:
    hashes = {(round_.state.get("weights") or {}).get("sha256") for round_ in facts.processes}
    if None in hashes or not hashes:
        return unknown("the hash of the weights is not known")
    if len(hashes) > 1:
        return failed(f"the weights differ between rounds: {_short(hashes)}")
    return passed(f"sha256 {_short(hashes)}")


@engine_check("same model read back")
def same_build_in_all_rounds(facts: EngineFacts) -> Finding:
    """Every engine process ran the same build with the same chat template."""
    for name in ("build", "model", "chat_template_sha256"):
        values = {value for round_ in facts.processes if (value := _readback(round_, name)) is not None}
        if len(values) > 1:
            return failed(f"{name} differs from round to round: {_short(values)}")
    if not any(_readback(round_, "build") or _readback(round_, "model") for round_ in facts.rounds):
        return unknown("the engine reports neither its build nor its model")
    return passed(f"build {_readback(facts.rounds[0], 'build') or 'unknown'} in every round")


@engine_check("same model as the baseline")
def same_model(facts: EngineFacts) -> Finding:
    """The model's name and the chat template are the baseline's, as far as both engines report them.

    Names are free text (of a file, a repository, an alias), so a different name is a warning, unless the weights are
    known to be the same. Names with different sizes, such as 8b and 1b, are different models.
    """
    if facts.is_baseline:
        return not_applicable("compared with the baseline, for the candidates")
    baseline = facts.run.rounds.get(facts.run.baseline, [])
    mine, theirs = (_reported(rounds, "model") for rounds in (facts.rounds, baseline))
    if not mine or not theirs:
        return unknown("the model's name is not reported by both engines")
    names = f"model {', '.join(sorted(mine))}, in the baseline {', '.join(sorted(theirs))}"
    sizes, base_sizes = _sizes(mine), _sizes(theirs)
    same_hash = same_weights(facts).status is Status.PASS
    if sizes and base_sizes and sizes != base_sizes and not same_hash:
        return failed(f"{names}: the sizes differ")
    templates = _reported(facts.rounds, "chat_template_sha256"), _reported(baseline, "chat_template_sha256")
    if all(templates) and templates[0] != templates[1]:
        return warned(f"chat template {_short(templates[0])}, in the baseline {_short(templates[1])}; {names}")
    if {_stem(name) for name in mine} != {_stem(name) for name in theirs} and not same_hash:
        return warned(f"{names}: is it the same model?")
    return passed(names)


def _reported(rounds: list[Round], name: str) -> set[str]:
    return {str(value) for round_ in rounds if (value := _readback(round_, name)) is not None}


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
    """The engine was asked for the sampling of the profile and of the baseline, and did not refuse it."""
    wanted = facts.run.profile.get("sampling")
    base = [
        (round_.state.get("asked") or {}).get("sampling") for round_ in facts.run.rounds.get(facts.run.baseline, [])
    ]

    def check(round_: Round) -> Finding:
        mine = (round_.state.get("asked") or {}).get("sampling")
        if (round_.state.get("probe") or {}).get("sampling_accepted") is False:
            return failed("the engine refuses the requested sampling")
        if mine is None:
            return unknown("engine.json does not record the requested sampling")
        for other, who in ((wanted, "the profile"), (base[0] if base else None, "the baseline")):
            differing = _differing(mine, other) if other else None
            if differing:
                return failed(f"{differing} (this engine against {who})")
        samplers = ", ".join(f"{key} {value}" for key, value in sorted(mine.items()) if value is not None)
        if (round_.state.get("probe") or {}).get("sampling_accepted") is None:
            return unknown(f"asked: {samplers}; the probe can't show whether the engine obeys it")
        return passed(samplers)

    return facts.each(check)


@engine_check("thinking as asked")
def thinking(facts: EngineFacts) -> Finding:
    """The probe saw no think text where the profile switches thinking off."""

    def check(round_: Round) -> Finding:
        wanted = bool((round_.state.get("asked") or {}).get("thinking", facts.run.profile.get("thinking")))
        seen = (round_.state.get("probe") or {}).get("thinking")
        if seen is None:
            return unknown("the probe did not find out whether the engine thinks")
        if seen and not wanted:
            return failed("the probe got think text although thinking is off")
        if wanted and not seen:
            return warned("the profile asks for thinking, but the probe's answer had no think text")
        return passed("the probe got think text, as asked" if seen else "no think text in the probe's answer")

    return facts.each(check)


@engine_check("same prompt tokens in the probe")
def probe_tokens(facts: EngineFacts) -> Finding:
    """The probe's messages have as many tokens as in the baseline, so the chat templates match."""
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


def _probed(rounds: list[Round]) -> dict[str, int]:
    probes = [(round_.state.get("probe") or {}).get("prompt_tokens") or {} for round_ in rounds]
    return {key: int(tokens) for probe in probes for key, tokens in probe.items() if tokens is not None}


@engine_check("engine alive")
def alive(facts: EngineFacts) -> Finding:
    """The engine ran until the driver stopped it: it never died, and was not started again within a round."""

    def check(round_: Round) -> Finding:
        if not round_.state:
            return unknown("no engine.json")
        reason = round_.state.get("stop_reason")
        if reason == "died":
            return failed(f"the engine died (exit code {round_.state.get('exit_code')})")
        if died := [earlier for earlier in round_.earlier if earlier.get("stop_reason") == "died"]:
            code = died[0].get("exit_code")
            return failed(f"the engine died (exit code {code}) and was started again to finish the round")
        if reason is None:
            return unknown("engine.json does not record how the engine ended")
        if reason != "asked":
            return failed(f"the engine process was not stopped by the driver: {reason}")
        served = [earlier for earlier in round_.earlier if earlier.get("ready_s") is not None]
        if served:
            times = len(served) + 1
            return warned(f"started {times} times in this round: the run was interrupted and finished later")
        if round_.earlier:
            attempts = count(len(round_.earlier), "start")
            return passed(f"it ran from start to stop in one process; {attempts} before it failed before it was ready")
        return passed("it ran from start to stop in one process")

    return facts.each(check)


def _readback(round_: Round, name: str) -> Any:
    return (round_.state.get("readback") or {}).get(name)


def _differing(mine: dict[str, Any], other: dict[str, Any]) -> str | None:
    for key in sorted({*mine, *other}):
        if mine.get(key) != other.get(key):
            return f"{key} {mine.get(key)} against {other.get(key)}"
    return None


def _short(values: set[Any]) -> str:
    return ", ".join(sorted(str(value)[:12] for value in values))

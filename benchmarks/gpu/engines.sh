#!/usr/bin/env bash
# llama.cpp, vLLM and vllm.rs through the product. The profile's time ends a call after a whole round (TIME, default 9m);
# the same call again makes the rounds that are left. LIMIT_S (default 580) ends a call that takes longer all the same.
source "$(dirname "$0")/common.sh"
profile=${PROFILE:-profiles/qwen3-8b-engines-h200.toml} id=${RUN_ID:-engines}
echo "GPU memory before: $(used) MiB"
code=0
timeout -s INT "${LIMIT_S:-580}" "$PY" run_bench.py run "$profile" --run-id "$id" --out "$WORK/runs" || code=$?
echo "exit code $code; GPU memory after: $(used) MiB"
keep "$WORK/runs/$id" "$id"
"$PY" benchmarks/gpu/instrument.py "$WORK/runs/$id" | tee "$OUT/instrument-$id.txt"
exit "$code"

#!/usr/bin/env bash
# llama.cpp, vLLM and vllm.rs through the product. A run that LIMIT_S (default 540) cut is finished by the same command again.
source "$(dirname "$0")/common.sh"
export QWEN3_DIR="$WORK/qwen3" QWEN3_GGUF="$WORK/qwen3-BF16.gguf"
export VLLM_BIN="$WORK/bin/vllm" VLLM_RS_PYTHON="$WORK/bin/vllm-rs-python" CUDA_CACHE_PATH="$WORK/cuda-cache"
profile=${PROFILE:-profiles/qwen3-8b-engines-h200.toml} id=${RUN_ID:-engines}
used() { nvidia-smi --query-gpu=memory.used --format=csv,noheader,nounits 2>/dev/null || echo 0; }
echo "GPU memory before: $(used) MiB"
code=0
timeout -s INT "${LIMIT_S:-540}" "$PY" run_bench.py run "$profile" --run-id "$id" --out "$WORK/runs" || code=$?
echo "exit code $code; GPU memory after: $(used) MiB"
if compgen -G "$WORK/runs/$id/comparison-*.md" >/dev/null; then
  keep "$WORK/runs/$id" "$id"
  "$PY" benchmarks/gpu/instrument.py "$WORK/runs/$id" | tee "$OUT/instrument-$id.txt"
else
  tar czf "$OUT/$id.tar.gz" -C "$WORK/runs" "$id"
fi
exit "$code"

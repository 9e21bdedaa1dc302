#!/usr/bin/env bash
# Build for this card, make and convert the weights, one llama.cpp cell with read-back.
source "$(dirname "$0")/common.sh"
shape=()
[ "${SHAPE:-8b}" = tiny ] && shape=(--layers 2 --hidden 256 --heads 4 --kv-heads 2 --head-dim 64 --ffn 512)
nvidia-smi 2>/dev/null | head -15 || true
# Weights are made and converted beside the build, which needs the processor for minutes; by then its source is unpacked.
{
  time "$PY" benchmarks/gpu/make_weights.py --vocab "$(vocabulary)" --out "$WORK/qwen3" "${shape[@]}"
  until ls "$ENGINEBENCH_CACHE"/source/*/CMakeLists.txt >/dev/null 2>&1; do sleep 1; done
  time bench convert "$WORK/qwen3" --out "$WORK/qwen3-BF16.gguf" --python "$(command -v "${CONVERT_PY:-$PY}")"
} >"$OUT/weights.log" 2>&1 &
weights=$!
( time bench build ${BUILD:-} ) 2>&1 | tee "$OUT/build.log" | tail -8
wait $weights || { tail -5 "$OUT/weights.log"; exit 1; }
tail -12 "$OUT/weights.log"
ls -la "$WORK"/*.gguf
bench doctor profiles/gpu-smoke.toml || true
bench run profiles/gpu-smoke.toml --run-id smoke --out "$WORK/runs" || echo "exit code $?"
cat "$WORK"/runs/smoke/llama.cpp/r1/engine.json | head -60
keep "$WORK/runs/smoke" smoke
"$PY" benchmarks/gpu/instrument.py "$WORK/runs/smoke" | tee "$OUT/instrument-smoke.txt"
"$PY" benchmarks/gpu/floor.py 2>&1 | tee "$OUT/floor.txt" || true
bench_bin=$(ls "$ENGINEBENCH_CACHE"/build/*/bin/llama-bench | head -1)
timeout 120 "$bench_bin" -m "$QWEN3_GGUF" -p 0 -n 256 -r 3 -ngl 999 2>&1 | tee "$OUT/llama-bench.txt" | tail -4 || true

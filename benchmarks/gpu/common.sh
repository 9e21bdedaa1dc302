# Shared by the scripts here: where things are, and the Python that has them. Sourced, not run.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
export OUT="${OUT:-$PWD/bench-out/gpu}" WORK="${WORK:-/tmp/enginebench-gpu}" PYTHONUNBUFFERED=1
export ENGINEBENCH_CACHE="$WORK/cache" ENGINEBENCH_LLAMA_SOURCE="${ENGINEBENCH_LLAMA_SOURCE:-$PWD/.gpu/llama_cpp.tar.xz}"
export QWEN3_DIR="$WORK/qwen3" QWEN3_GGUF="$WORK/qwen3-BF16.gguf"
# The driver keeps what it translates from PTX, and its default limit is too small for vllm.rs.
export VLLM_BIN="$WORK/bin/vllm" VLLM_RS_PYTHON="$WORK/bin/vllm-rs-python" CUDA_CACHE_PATH="$WORK/cuda-cache"
PY="${PY:-python3}"
mkdir -p "$OUT" "$WORK"
if [ -d .whl ] && [ ! -e "$WORK/site/.done" ]; then
  "$PY" -m pip install -q --no-index --no-deps --no-compile --no-cache-dir --upgrade --target "$WORK/site" .whl/*.whl
  touch "$WORK/site/.done"
fi
if [ -d "$WORK/site" ]; then export PYTHONPATH="$WORK/site:$PWD" PATH="$WORK/site/bin:$PATH"; fi
bench() { "$PY" run_bench.py "$@"; }
used() { nvidia-smi --query-gpu=memory.used --format=csv,noheader,nounits 2>/dev/null || echo 0; }
vocabulary() { # the path of the vocabulary that came along with llama.cpp's source
  tar xJf "$ENGINEBENCH_LLAMA_SOURCE" -C "$WORK" models/ggml-vocab-qwen2.gguf
  echo "$WORK/models/ggml-vocab-qwen2.gguf"
}
keep() { # a run and its reports, small enough to be brought back
  local run=$1 name=$2
  for kind in md html; do
    report=$(compgen -G "$run/comparison-*.$kind" | tail -1) && cp "$report" "$OUT/$name.$kind"
  done
  tar czf "$OUT/$name.tar.gz" -C "$(dirname "$run")" "$(basename "$run")"
}

#!/usr/bin/env bash
# First call on a fresh host: starts the build of llama.cpp and the weights in a session of their own, so that they go on
# while the next calls bring the other engines. `wait.sh` waits for them.
source "$(dirname "$0")/common.sh"
shape=()
[ "${SHAPE:-8b}" = tiny ] && shape=(--layers 2 --hidden 256 --heads 4 --kv-heads 2 --head-dim 64 --ffn 512)
nvidia-smi 2>/dev/null | head -15 || true
# A later call brings another .gpu/ in its place.
cp "$ENGINEBENCH_LLAMA_SOURCE" "$WORK/llama_cpp.tar.xz"
export ENGINEBENCH_LLAMA_SOURCE="$WORK/llama_cpp.tar.xz"
vocab=$(vocabulary)
setsid -f bash -c "{ time '$PY' run_bench.py build ${BUILD:-}; } >'$WORK/build.log' 2>&1; echo \$? >'$WORK/build.rc'" </dev/null
setsid -f bash -c "{
  time '$PY' benchmarks/gpu/make_weights.py --vocab '$vocab' --out '$WORK/qwen3' ${shape[*]} &&
  touch '$WORK/qwen3.done' &&
  until ls '$ENGINEBENCH_CACHE'/source/*/CMakeLists.txt >/dev/null 2>&1; do sleep 1; done &&
  time '$PY' run_bench.py convert '$WORK/qwen3' --out '$WORK/qwen3-BF16.gguf' --python \"\$(command -v '${CONVERT_PY:-$PY}')\"
} >'$WORK/weights.log' 2>&1; echo \$? >'$WORK/weights.rc'" </dev/null
echo "started: build and weights; logs are in $WORK"

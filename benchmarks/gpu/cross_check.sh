#!/usr/bin/env bash
# The product's TPOT beside an independent client's, on one engine process each, at 1, 4 and 8 users, with the same prompts.
source "$(dirname "$0")/common.sh"
export QWEN3_DIR="$WORK/qwen3" QWEN3_GGUF="$WORK/qwen3-BF16.gguf" HF_HUB_OFFLINE=1
export VLLM_USE_FLASHINFER_SAMPLER=0 CUDA_CACHE_PATH="$WORK/cuda-cache" CUDA_CACHE_MAXSIZE=4294967296
prompts=${PROMPTS:-$(ls -t "$WORK"/runs/*/workloads/perf-medium.jsonl | head -1)}
port=18400
start() {
  case $1 in
    llama.cpp) exec "$(ls -t "$ENGINEBENCH_CACHE"/build/*/bin/llama-server | head -1)" -m "$QWEN3_GGUF" --port $port -c 65536 -np 8 -ngl 999 --fit off --cache-ram 0 ;;
    vllm) exec "$WORK/bin/vllm" serve "$QWEN3_DIR" --port $port --max-num-seqs 8 --max-model-len 8192 --gpu-memory-utilization 0.22 --served-model-name default --no-enable-prefix-caching ;;
    vllm.rs) exec "$WORK/bin/vllm-rs-python" -m vllm_rs.server --w "$QWEN3_DIR" --host 127.0.0.1 --port $port --max-num-seqs 8 --max-model-len 8192 ;;
  esac
}
for engine in ${ENGINES:-llama.cpp vllm vllm.rs}; do
  # A process group of its own, ended whole: vLLM and vllm.rs start children.
  (start "$engine") >"$OUT/cross-$engine.log" 2>&1 &
  pid=$!
  for _ in $(seq 300); do curl -sf -o /dev/null "http://127.0.0.1:$port/v1/models" && break; sleep 1; kill -0 $pid 2>/dev/null || break; done
  for users in 1 4 8; do
    "$PY" benchmarks/gpu/bare_client.py http://127.0.0.1:$port $users $((users * 3)) 256 "$prompts" | sed "s/^/$engine /"
    "$PY" -m locust -f locustfiles/closed_loop.py -u $users --headless --only-summary --loglevel ERROR --host http://127.0.0.1:$port \
      --prompts "$prompts" --requests $((users * 3)) --warmup 0 --max-tokens 256 --request-extras '{"ignore_eos": true, "thinking": false, "chat_template_kwargs": {"enable_thinking": false}}' \
      --capture-dir "$WORK/cross/$engine-$users" >/dev/null 2>&1 || echo "locust: exit code $?"
    "$PY" benchmarks/gpu/bare_client.py --capture "$WORK/cross/$engine-$users" | sed "s/^/$engine $users users, product: /"
  done
  "$PY" -c 'import os, psutil, sys
top = psutil.Process(int(sys.argv[1])); family = [top, *top.children(recursive=True)]
for p in family: p.terminate()
_, alive = psutil.wait_procs(family, timeout=15)
for p in alive: p.kill()' $pid 2>/dev/null || true
  sleep 3; nvidia-smi --query-gpu=memory.used --format=csv,noheader
done 2>&1 | tee "$OUT/cross-check.txt"

#!/usr/bin/env bash
# From 1 to 32 users, and from no depth to 16,384 tokens. vLLM and vllm.rs with 32 slots in one run; llama.cpp with as many
# slots as users, since four users of its eight slots are decoded in two batches (docs/gpu-results.md), and once with one
# KV cache for all slots. An independent client measures the same processes after the cells of 1, 4 and 8 users.
source "$(dirname "$0")/common.sh"
part() { # name, seconds at most, arguments of make_profile
  local name=$1 limit=$2
  shift 2
  "$PY" -m benchmarks.gpu.make_profile "$name" "$@" >"$WORK/$name.toml"
  timeout -s INT "$limit" "$PY" run_bench.py run "$WORK/$name.toml" --run-id "$name" --out "$WORK/runs" \
    >"$WORK/$name.log" 2>&1 || echo "$name: exit code $?"
  echo "$name: $SECONDS s so far; GPU memory $(used) MiB"
  # After each part: a call that its time limit ends brings back what it has.
  tar czf "$OUT/$name.tar.gz" -C "$WORK" "$name.log" "runs/$name"
}
for what in ${PARTS:-sweep llama}; do
  case $what in
    sweep) part sweep 330 vllm vllm.rs --slots 32 --max-seq-len 17408 --users 1,2,4,8,16,32 --depths 0,4096,16384 ;;
    llama)
      part llama-1 60 llama.cpp --slots 1 --max-seq-len 17408 --users 1 --depths 0,4096,16384
      for users in 4 8 16 32 2; do part "llama-$users" 60 llama.cpp --slots "$users" --users "$users"; done
      part llama-unified 60 llama.cpp --slots 8 --users 4,8 --arg=--kv-unified
      ;;
  esac
done
for log in "$WORK"/runs/*/*/r1/*/after_cell.log; do
  # Ours and the independent client's, on the same process.
  echo "${log#"$WORK/runs/"}: $(cat "$log") | product: $("$PY" benchmarks/gpu/bare_client.py --capture "$(dirname "$log")")"
done | grep bare || true

#!/usr/bin/env bash
# The three findings of the first run, on the real server; and a killed driver.
source "$(dirname "$0")/common.sh"
{
  echo "== finding 3: greedy, three times"
  bench run profiles/gpu-finding3.toml --run-id f3 --out "$WORK/runs" || echo "exit code $?"
  keep "$WORK/runs/f3" finding3 || true
  echo "== a killed driver"
  echo "before: $(used) MiB"
  bench run profiles/gpu-smoke.toml --run-id killed --out "$WORK/runs" >/dev/null 2>&1 &
  driver=$!
  for _ in $(seq 60); do [ "$(used)" -gt 15000 ] && break; sleep 1; done
  sleep 3; echo "while it runs: $(used) MiB"
  kill -KILL $driver
  for second in $(seq 30); do sleep 1; [ "$(used)" -lt 1000 ] && break; done
  echo "$second s after SIGKILL of the driver: $(used) MiB; llama-server processes: $(pgrep -xc llama-server || true)"
  echo "== finding 1: -c 4096 --parallel 4"
  bench run profiles/gpu-finding1.toml --run-id f1 --out "$WORK/runs" || echo "exit code $?"
  keep "$WORK/runs/f1" finding1 || true
  echo "== finding 2: a context that does not fit"
  bench run profiles/gpu-finding2.toml --run-id f2 --out "$WORK/runs" || echo "exit code $?"
} 2>&1 | tee "$OUT/findings.log"

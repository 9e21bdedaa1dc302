#!/usr/bin/env bash
# Two engines, all cells, repeats interleaved; then instrument against engine. `prepare.sh` must have run on this host.
# A run that LIMIT_S (default 520) cut is finished by the same command again.
source "$(dirname "$0")/common.sh"
timeout -s INT "${LIMIT_S:-520}" "$PY" run_bench.py run "${PROFILE:-profiles/qwen3-8b-h200.toml}" --run-id compare --out "$WORK/runs" \
  || echo "exit code $?"
keep "$WORK/runs/compare" compare || true
"$PY" benchmarks/gpu/instrument.py "$WORK/runs/compare" | tee "$OUT/instrument.txt"

#!/usr/bin/env bash
# A driver that is killed with SIGKILL while its engine is up: what is left of the engine's processes and GPU memory.
#   killed.sh start ENGINE PORT    starts a driver in the background, once the weights are there
#   killed.sh finish ENGINE PORT   when the engine is up: records its streams, kills the driver, watches
# The first start of an engine is slow (PTX is translated, graphs are captured and compiled): this one may as well be it.
source "$(dirname "$0")/common.sh"
what=$1 engine=$2 port=$3
of_engine() { # vLLM's core renames itself
  pgrep -af "$([ "$engine" = vllm ] && echo 'vllm\.entrypoints\.cli|VLLM::' || echo 'vllm_rs\.server|vllm_rs/runner')" || true
}
case $what in
  start)
    "$PY" -m benchmarks.gpu.make_profile "killed-$engine" "$engine" --slots 32 --max-seq-len 17408 --users 1 \
      --seconds 3600 --port "$port" --shared-card >"$WORK/killed-$engine.toml"
    setsid -f bash -c "until [ -e '$WORK/qwen3.done' ]; do sleep 1; done; echo \$\$ >'$WORK/killed-$engine.pid'
      exec '$PY' run_bench.py run '$WORK/killed-$engine.toml' --run-id 'killed-$engine' --out '$WORK/runs'" \
      >"$WORK/killed-$engine.log" 2>&1 </dev/null
    ;;
  finish)
    for _ in $(seq "${PATIENCE_S:-280}"); do
      curl -sf -o /dev/null "http://127.0.0.1:$port/v1/models" && break
      [ -e "$WORK/killed-$engine.pid" ] && ! kill -0 "$(cat "$WORK/killed-$engine.pid")" && break
      sleep 1
    done
    sleep 3
    # The first request to vllm.rs waits until its kernels are translated.
    timeout 200 "$PY" -m benchmarks.gpu.record_streams "$engine" "$port" "$WORK/streams/$engine" || echo "not recorded"
    tail -2 "$WORK/killed-$engine.log"
    echo "$engine: $(of_engine | wc -l) processes, $(used) MiB on the card; SIGKILL to the driver"
    of_engine | cut -c1-150
    kill -KILL "$(cat "$WORK/killed-$engine.pid")" || exit 1
    for second in $(seq 30); do
      sleep 1
      [ -z "$(of_engine)" ] && break
    done
    echo "$engine: after $second s $(of_engine | wc -l) processes"
    sleep 2
    echo "$engine: then $(used) MiB on the card"
    ;;
esac

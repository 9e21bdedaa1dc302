#!/bin/sh
# Run on the other side: start a run that outlives the connection, or join the one that goes on; show its log to the
# end and exit with its code. Usage: run.sh RUN_ID PROFILE build|no-build
set -eu
job=.shipped-runs/$1
mkdir -p "$job"
alive() { [ -f "$job/pid" ] && kill -0 "$(cat "$job/pid")" 2>/dev/null; }
if ! alive && [ "$(cat "$job/rc" 2>/dev/null || true)" != 0 ]; then
  rm -f "$job/rc"
  # shellcheck disable=SC2016
  setsid sh -c '
    echo $$ > "$1/pid"
    code=0
    [ "$4" != build ] || .venv/bin/python run_bench.py build || code=$?
    [ $code != 0 ] || .venv/bin/python run_bench.py run "$3" --run-id "$2" || code=$?
    echo $code > "$1/rc.new" && mv "$1/rc.new" "$1/rc"
  ' run "$job" "$1" "$2" "$3" > "$job/log" 2>&1 < /dev/null &
  tries=0
  while [ ! -s "$job/pid" ] && [ ! -f "$job/rc" ] && [ $tries -lt 50 ]; do tries=$((tries + 1)); sleep 0.1; done
fi
if alive; then
  tail -n +1 -f --pid="$(cat "$job/pid")" "$job/log"
else
  cat "$job/log"
fi
tries=0
while [ ! -f "$job/rc" ] && [ $tries -lt 50 ]; do tries=$((tries + 1)); sleep 0.1; done
[ -f "$job/rc" ] || { echo "the run on this host was killed; the same command starts what is not complete"; exit 4; }
exit "$(cat "$job/rc")"

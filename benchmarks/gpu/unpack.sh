#!/usr/bin/env bash
# Unpacks the engines that came along in .gpu/ (vllm.tar.xz, vllm_rs.tar.xz; packed by pack.py) and makes their launchers:
# $WORK/bin/vllm, and $WORK/bin/vllm-rs-python, a Python that has the wheel vllm-rs and CUDA 13's libraries under the names
# of CUDA 12 that it opens.
source "$(dirname "$0")/common.sh"
mkdir -p "$WORK/bin"
if [ -e .gpu/vllm.tar.xz ] && [ ! -e "$WORK/vllm/.done" ]; then
  mkdir -p "$WORK/vllm/packages" && tar xJf .gpu/vllm.tar.xz -C "$WORK/vllm/packages"
  "$PY" -m venv --without-pip "$WORK/vllm/venv"
  inside=$("$WORK/vllm/venv/bin/python" -c 'import site; print(site.getsitepackages()[0])')
  # The unpacked folder comes first, then the packages of the host, of which torch is one.
  { echo "$WORK/vllm/packages"; "$PY" -c 'import site; print("\n".join(site.getsitepackages()))'; } >"$inside/host.pth"
  # This environment's PYTHONPATH is the benchmark's own; vLLM must not see it.
  printf '#!/bin/sh\nunset PYTHONPATH\nexec %s -c "import sys; from vllm.entrypoints.cli.main import main; sys.argv[0] = \\"vllm\\"; sys.exit(main())" "$@"\n' \
    "$WORK/vllm/venv/bin/python" >"$WORK/bin/vllm"
  chmod +x "$WORK/bin/vllm" && touch "$WORK/vllm/.done"
fi
if [ -e .gpu/vllm_rs.tar.xz ] && [ ! -e "$WORK/vllm_rs/.done" ]; then
  mkdir -p "$WORK/vllm_rs/lib" && tar xJf .gpu/vllm_rs.tar.xz -C "$WORK/vllm_rs"
  chmod +x "$WORK/vllm_rs/vllm_rs/runner"
  cuda=$("$PY" -c 'import glob, os, site
print(next((os.path.dirname(f) for p in site.getsitepackages() for f in glob.glob(p + "/nvidia/**/libcublas.so.1*", recursive=True)), "/usr/local/cuda/lib64"))')
  for name in cublas cublasLt nvrtc cudart; do
    file=$(ls "$cuda/lib$name.so.1"[0-9] 2>/dev/null | head -1) || true
    [ -n "$file" ] && ln -sf "$file" "$WORK/vllm_rs/lib/lib$name.so.12" && ln -sf "$file" "$WORK/vllm_rs/lib/lib$name.so"
  done
  [ -e "$cuda/libcurand.so.10" ] && ln -sf "$cuda/libcurand.so.10" "$WORK/vllm_rs/lib/" && ln -sf "$cuda/libcurand.so.10" "$WORK/vllm_rs/lib/libcurand.so"
  printf '#!/bin/sh\nexport PYTHONPATH=%s LD_LIBRARY_PATH=%s:%s:$LD_LIBRARY_PATH\nexec %s "$@"\n' \
    "$WORK/vllm_rs" "$WORK/vllm_rs/lib" "$cuda" "$(command -v "$PY")" >"$WORK/bin/vllm-rs-python"
  chmod +x "$WORK/bin/vllm-rs-python" && touch "$WORK/vllm_rs/.done"
fi
ls -la "$WORK/bin"

"""Runs llama.cpp's HTTP server from the `xllamacpp` wheel until it is stopped, with llama-server's option names."""

from __future__ import annotations

import argparse
import os
import signal
import sys
import threading


def main() -> None:
    """Serve until SIGTERM or SIGINT."""
    parser = argparse.ArgumentParser(prog="llama_cpp_wheel", allow_abbrev=False)
    parser.add_argument("--model", required=True)
    parser.add_argument("--alias")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--parallel", "-np", type=int, required=True)
    parser.add_argument("--ctx-size", "-c", type=int, required=True)
    parser.add_argument("--threads", "-t", type=int)
    parser.add_argument("--cache", action="store_true")
    parser.add_argument("--chat-template")
    arguments = parser.parse_args()

    import xllamacpp

    params = xllamacpp.CommonParams()
    params.model.path = arguments.model
    if arguments.alias:
        params.model_alias = {arguments.alias}
    params.hostname = arguments.host
    params.port = arguments.port
    params.n_parallel = arguments.parallel
    params.n_ctx = arguments.ctx_size
    # With a unified cache one slot could use the context of the others.
    params.kv_unified = False
    if arguments.threads:
        params.cpuparams.n_threads = arguments.threads
        params.cpuparams_batch.n_threads = arguments.threads
    params.fit_params = False
    params.cache_ram_mib = -1 if arguments.cache else 0
    params.endpoint_metrics = True
    params.endpoint_slots = True
    params.endpoint_props = True
    params.use_jinja = True
    if arguments.chat_template:
        params.chat_template = arguments.chat_template

    ended = threading.Event()
    server = xllamacpp.Server(params)
    # Set after the server's start, because its own handlers stop it without ending this process.
    for sign in (signal.SIGTERM, signal.SIGINT):
        signal.signal(sign, lambda *_: ended.set())
    print(f"serving {arguments.model} on {server.listening_address}", file=sys.stderr, flush=True)  # noqa: T201
    ended.wait()
    # The server's destructor can wait forever for its own threads; the kernel frees all resources.
    os._exit(0)


if __name__ == "__main__":
    main()

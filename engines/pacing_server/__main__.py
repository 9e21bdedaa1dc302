"""An OpenAI-compatible streaming server with a known schedule, to measure clients against.

    python -m engines.pacing_server --port 8090 --ttft-ms 50 --interval-ms 10 --tokens 100

One thread, one selector, one heap of due times; chunks are encoded beforehand. With `--stamps` every chunk carries its
send time as text (see `engines.pacing_server.script`). `GET /requests` returns the log of each request since the
last call: received, first and last send, how late the server itself was. A request may change
the schedule with a `pacing` object, and ask for a fault with that object or with the model name `pacing:<fault>`.
"""

from __future__ import annotations

import argparse
import gc
import resource
import signal
import sys
from dataclasses import fields
from typing import NoReturn

from engines.pacing_server.loop import PacingServer
from engines.pacing_server.schedule import Schedule


def _on_sigterm(*_: object) -> NoReturn:
    sys.exit(0)


def main() -> None:
    """Serve by the command line; the first line on stdout has the port."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=0, help="0 takes a free one")
    parser.add_argument("--ttft-ms", type=float, default=50.0)
    parser.add_argument("--interval-ms", type=float, default=10.0)
    parser.add_argument("--tokens", type=int, default=100, help="of an answer whose request names no max_tokens")
    parser.add_argument("--tokens-per-chunk", type=int, default=1)
    parser.add_argument("--grid", action="store_true", help="all streams tick together")
    parser.add_argument("--stamps", action="store_true", help="each chunk's text is the time at which it was sent")
    parser.add_argument("--slots", type=int, default=0, help="answers under way at once; the rest wait; 0: no limit")
    parser.add_argument("--fault", default="", help="of every answer whose request names none")
    asked = parser.parse_args()
    try:
        schedule = Schedule(**{field.name: getattr(asked, field.name) for field in fields(Schedule)})
        server = PacingServer(asked.host, asked.port, schedule)
    except (ValueError, OSError) as error:
        parser.error(str(error))
    signal.signal(signal.SIGTERM, _on_sigterm)
    signal.signal(signal.SIGINT, _on_sigterm)
    # Thousands of streams need thousands of file descriptors.
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    gc.freeze()
    gc.set_threshold(200_000)
    sys.stdout.write(f"listening on http://{asked.host}:{server.port}\n")
    sys.stdout.flush()
    server.run()


if __name__ == "__main__":
    main()

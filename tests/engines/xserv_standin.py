#!/usr/bin/env python3
"""A stand-in for xserv-server: its command line and its behaviour towards a client, without a model. Stdlib only.

Environment switches it into the states that matter: STANDIN_OOM=1 (ends at start with a CUDA message),
STANDIN_NO_USAGE=1, STANDIN_STALL=N (streams end cleanly after N tokens with finish_reason null), STANDIN_RANDOM=1
(greedy answers differ from run to run), STANDIN_TOKEN_MS (time a token, default 2), STANDIN_HELPER=1 (leaves a child in
a session of its own). XSERV_MAX_KV_BLOCKS below 64 forces swapping, which shows in the log.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import os
import queue
import random
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

CHANNEL = 64
MAX_BODY = 4 * 1024 * 1024
WORDS = ("so", "we", "count", "the", "apples", "and", "find", "that", "there", "are", "more", "of", "them", "now")
TOKEN_S = float(os.environ.get("STANDIN_TOKEN_MS", "2")) / 1000
STALL = int(os.environ.get("STANDIN_STALL", "0"))
KV_BLOCKS = int(os.environ.get("XSERV_MAX_KV_BLOCKS", "4096"))


def log(level: str, message: str) -> None:
    """A line as the tracing crate writes them."""
    stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime())
    print(f"{stamp}Z {level:>5} xserv_server: {message}", file=sys.stderr, flush=True)


def answer_words(messages: list[dict[str, str]]) -> list[str]:
    """The model: a greedy answer that depends on the prompt alone, unless nondeterminism is forced."""
    seed: Any = hashlib.sha256(json.dumps(messages, sort_keys=True).encode()).hexdigest()
    chance = random.Random(os.urandom(8) if os.environ.get("STANDIN_RANDOM") else seed)
    if "one word" in messages[-1]["content"]:
        return ["Paris."]
    body = [chance.choice(WORDS) for _ in range(chance.randint(30, 60))]
    return [*body, "The", "answer", "is", f"{chance.randint(1, 99)}."]


class Engine:
    """What the requests share: the batch."""

    def __init__(self, max_batch: int) -> None:
        self.slots = threading.Semaphore(max_batch)

    def generate(self, words: list[str], limit: int, channel: queue.Queue[str | None]) -> None:
        """Put one word a step into the client's channel; a full channel drops the client, as xserv does."""
        if KV_BLOCKS < 64:
            log("WARN", "swapped out 3 KV blocks to host memory")
            log("INFO", "swapped in 3 KV blocks from host memory")
        try:
            for word in words[:limit]:
                time.sleep(TOKEN_S)
                channel.put_nowait(word + " ")
            channel.put_nowait("<stop>" if len(words) <= limit else "<length>")
        except queue.Full:
            log("WARN", "client channel full, dropping stream")
        finally:
            # Not put_nowait: the reader still drains what is there.
            channel.put(None)
            self.slots.release()


class Handler(BaseHTTPRequestHandler):
    """The routes of the axum app."""

    protocol_version = "HTTP/1.1"
    engine: Engine
    model: str

    def log_message(self, format: str, *args: Any) -> None:
        log("DEBUG", format % args)

    def do_GET(self) -> None:
        if self.path == "/health":
            # No JSON, and no body at all: a status is all that readiness may rest on.
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()
        elif self.path == "/v1/models":
            self.reply(200, {"object": "list", "data": [{"id": self.model, "object": "model"}]})
        else:
            self.reply(404, {"error": {"message": "not found"}})

    def do_POST(self) -> None:
        length = int(self.headers.get("Content-Length", 0))
        if length > MAX_BODY:
            self.close_connection = True
            self.reply(413, {"error": {"message": "length limit exceeded"}})
            return
        body = json.loads(self.rfile.read(length))
        temperature = body.get("temperature", 0.0)
        if not isinstance(temperature, int | float) or math.isnan(temperature) or temperature < 0:
            self.reply(400, {"error": {"message": "temperature must be a non-negative number"}})
            return
        if not self.engine.slots.acquire(blocking=False):
            log("WARN", "engine is busy, request refused")
            self.reply(503, {"error": {"message": "engine is busy", "type": "server_error"}})
            return
        channel: queue.Queue[str | None] = queue.Queue(CHANNEL)
        words = answer_words(body["messages"])
        limit = int(body.get("max_tokens") or 256)
        threading.Thread(target=self.engine.generate, args=(words, limit, channel), daemon=True).start()
        prompt = 4 + sum(len(message["content"].split()) for message in body["messages"])
        self.answer(body, channel, prompt)

    def answer(self, body: dict[str, Any], channel: queue.Queue[str | None], prompt_tokens: int) -> None:
        """Send what comes out of the channel: as a stream, or whole."""
        stream = bool(body.get("stream"))
        if stream:
            self.send_response(200)
            self.send_header("Content-Type", "text/event-stream")
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            self.event({"role": "assistant", "content": ""}, None)
        text, count, reason, dropped = "", 0, None, False
        while (word := channel.get()) is not None:
            if word in ("<stop>", "<length>"):
                reason = word.strip("<>")
            elif STALL and count >= STALL:
                dropped = True
            elif not dropped:
                text += word
                count += 1
                if stream:
                    self.event({"content": word}, None)
        reason = None if dropped else reason
        usage = {"prompt_tokens": prompt_tokens, "completion_tokens": count, "total_tokens": prompt_tokens + count}
        if os.environ.get("STANDIN_NO_USAGE"):
            usage = {}
        if not stream:
            choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": reason}
            self.reply(200, {"choices": [choice], **({"usage": usage} if usage else {})})
            return
        self.event({}, reason)
        if usage and (body.get("stream_options") or {}).get("include_usage"):
            self.chunk(json.dumps({"choices": [], "usage": usage}))
        self.chunk("[DONE]")
        self.wfile.write(b"0\r\n\r\n")

    def event(self, delta: dict[str, str], reason: str | None) -> None:
        choice = {"index": 0, "delta": delta, "finish_reason": reason}
        self.chunk(json.dumps({"object": "chat.completion.chunk", "choices": [choice]}))

    def chunk(self, data: str) -> None:
        payload = f"data: {data}\n\n".encode()
        self.wfile.write(f"{len(payload):x}\r\n".encode() + payload + b"\r\n")
        self.wfile.flush()

    def reply(self, status: int, value: dict[str, Any]) -> None:
        payload = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(payload)))
        self.end_headers()
        self.wfile.write(payload)


class Server(ThreadingHTTPServer):
    """Quiet about clients that go."""

    daemon_threads = True
    request_queue_size = 128

    def handle_error(self, request: Any, client_address: Any) -> None:
        log("DEBUG", f"client gone: {sys.exc_info()[1]!r}")


def main() -> int:
    """Serve until it is ended."""
    parser = argparse.ArgumentParser(prog="xserv-server")
    parser.add_argument("model")
    parser.add_argument("--port", type=int, default=8080)
    parser.add_argument("--max-seq-len", type=int, default=4096)
    parser.add_argument("--max-batch", type=int, default=8)
    parser.add_argument("--swap-space-gb", type=int, default=8)
    parser.add_argument("--tp", type=int, default=1)
    arguments = parser.parse_args()
    log("INFO", f"loading {arguments.model}")
    if os.environ.get("STANDIN_OOM"):
        log("INFO", f"allocating KV cache for {arguments.max_batch} x {arguments.max_seq_len} tokens")
        print("Error: CUDA error: out of memory (cudaMalloc of 21474836480 bytes)", file=sys.stderr, flush=True)
        return 1
    if os.environ.get("STANDIN_HELPER"):
        subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
    Handler.engine = Engine(arguments.max_batch)
    Handler.model = Path(arguments.model).name
    server = Server(("127.0.0.1", arguments.port), Handler)
    log("INFO", f"listening on 127.0.0.1:{arguments.port}")
    server.serve_forever()
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""An independent streaming client: a thread and a blocking socket for each user, arrivals dated by the read.

    python benchmarks/gpu/bare_client.py URL USERS REQUESTS MAX_TOKENS PROMPTS.jsonl
    python benchmarks/gpu/bare_client.py --hook               # as a hook after a cell: the same load once more
    python benchmarks/gpu/bare_client.py --capture FOLDER     # the same figures from a capture of the product

It shares no code with the product's load client. It counts an event with text as one token, which is right for engines
that send one token per event; it prints how many events an answer had. Prints median TTFT and TPOT.
"""

from __future__ import annotations

import json
import os
import socket
import statistics
import sys
import threading
import time
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import urlopen

# Greedy decoding in the words of each engine: vllm.rs takes a temperature of 0 as none.
FIELDS = {
    "temperature": 1e-8,
    "top_k": 1,
    "ignore_eos": True,
    "thinking": False,
    "chat_template_kwargs": {"enable_thinking": False},
    "cache_prompt": False,
}
HOOK_USERS = (1, 4, 8)
"""As a hook, it measures cells of so many users, and leaves the others."""


def ask(host: str, port: int, model: str, messages: list[dict[str, str]], max_tokens: int) -> tuple[float, list[float]]:
    """One request on a connection of its own: when it was sent, and when each event with text arrived."""
    body = {"model": model, "messages": messages, "max_tokens": max_tokens, "stream": True, **FIELDS}
    data = json.dumps(body).encode()
    head = f"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: {len(data)}\r\nConnection: close\r\n"
    arrivals: list[float] = []
    with socket.create_connection((host, port)) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sent = time.monotonic()
        connection.sendall(head.encode() + b"Content-Type: application/json\r\n\r\n" + data)
        rest = b""
        while chunk := connection.recv(65536):
            now = time.monotonic()
            *events, rest = (rest + chunk).split(b"\n\n")
            arrivals += [now for event in events if has_text(event)]
            if any(b"[DONE]" in event for event in events):
                break
    return sent, arrivals


def has_text(event: bytes) -> bool:
    """Whether an event's first choice carries content."""
    data = event.partition(b"data: ")[2]
    return data.startswith(b"{") and any(c["delta"].get("content") for c in json.loads(data).get("choices", []))


def measure(url: str, users: int, requests: int, max_tokens: int, prompts: Path) -> None:
    """Closed loop of `users` threads over the first prompts of a file."""
    host, port = urlsplit(url).hostname or "127.0.0.1", urlsplit(url).port or 80
    with urlopen(f"{url}/v1/models") as answer:
        model = json.load(answer)["data"][0]["id"]
    rows = [json.loads(line) for line in prompts.read_text(encoding="utf-8").splitlines()]
    work = iter([row["messages"] for row in rows if row.get("pool") != "warmup"][:requests])
    results: list[tuple[float, list[float]]] = []
    lock = threading.Lock()

    def user() -> None:
        while True:
            with lock:
                messages = next(work, None)
            if messages is None:
                return
            results.append(ask(host, port, model, messages, max_tokens))

    threads = [threading.Thread(target=user) for _ in range(users)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    show(
        [(a[0] - sent, (a[-1] - a[0]) / (len(a) - 1), len(a)) for sent, a in results if len(a) > 1],
        f"{users} users, bare: ",
    )


def hook() -> None:
    """Measure the engine of a cell that has just ended, with its users, prompts and answers."""
    folder = Path(os.environ["ENGINEBENCH_FOLDER"])
    scenario, _, workload = os.environ["ENGINEBENCH_CELL"].partition(".")
    users = int(scenario.rpartition("_")[2]) if "_" in scenario else 1
    if users in HOOK_USERS and workload.startswith("perf"):
        prompts = folder.parents[2] / "workloads" / f"{workload}.jsonl"
        measure(os.environ["ENGINEBENCH_URL"], users, 3 * users, 256, prompts)


def show(rows: list[tuple[float, float, int]], label: str = "") -> None:
    """Medians of (TTFT s, TPOT s, events with text)."""
    ttft, tpot, tokens = (statistics.median(column) for column in zip(*rows, strict=True))
    print(
        f"{label}n={len(rows)} TTFT p50 {ttft * 1e3:.1f} ms, TPOT p50 {tpot * 1e3:.4f} ms, {tokens:.0f} events",
        flush=True,
    )


def captured(folder: Path) -> None:
    """The same figures from a capture of the product: arrivals of its chunks."""
    rows = []
    for line in (folder / "requests.jsonl").read_text(encoding="utf-8").splitlines():
        record = json.loads(line)
        chunks = record["chunk_ns"]
        if record["status"] == "ok" and record["phase"] != "warmup" and len(chunks) > 1:
            rows.append(
                ((chunks[0] - record["sent_ns"]) / 1e9, (chunks[-1] - chunks[0]) / 1e9 / (len(chunks) - 1), len(chunks))
            )
    show(rows)


if __name__ == "__main__":
    if sys.argv[1] == "--capture":
        captured(Path(sys.argv[2]))
    elif sys.argv[1] == "--hook":
        hook()
    else:
        measure(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]), Path(sys.argv[5]))

"""Records what a running engine answers, byte for byte, with the requests that a run would send it.

    python -m benchmarks.gpu.record_streams ENGINE PORT FOLDER

ENGINE is one of profiles/qwen3-8b-engines-h200.toml. Leaves length.sse (a fixed length of 24 tokens), free.sse (as long
as the model likes, at most 24), too_long.json, and the pages that the adapter reads.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import requests

from driver.profile.read import load_profile
from engines import EngineConfig, create

QUESTION = [{"role": "user", "content": "What is the capital of France? Answer with one word."}]
TOO_LONG = [{"role": "user", "content": "word " * 60_000}]
SAMPLING = {"temperature": 0.0, "top_p": 1.0, "presence_penalty": 0.0, "frequency_penalty": 0.0}
PAGES = ("/v1/models", "/version", "/health", "/metrics")


def main() -> None:
    """Ask and write."""
    name, port, folder = sys.argv[1], int(sys.argv[2]), Path(sys.argv[3])
    folder.mkdir(parents=True, exist_ok=True)
    section = next(e for e in load_profile("profiles/qwen3-8b-engines-h200.toml").engines if e.name == name)
    engine = create(EngineConfig(name, section.kind, Path(section.model or ""), port=port, binary=section.binary))
    url = f"http://127.0.0.1:{port}"
    for page in PAGES:
        answer = requests.get(url + page, timeout=10)
        (folder / f"{page.strip('/').replace('/', '_')}.{answer.status_code}").write_bytes(answer.content)
    for file, messages, fixed in (
        ("length.sse", QUESTION, True),
        ("free.sse", QUESTION, False),
        ("too_long.json", TOO_LONG, True),
    ):
        body: dict[str, Any] = {"model": engine.model_name or "default", "messages": messages, "max_tokens": 24}
        body |= {"stream": True, "stream_options": {"include_usage": True}}
        body |= engine.request_fields(SAMPLING, fixed_length=fixed)
        answer = requests.post(f"{url}/v1/chat/completions", json=body, timeout=180)
        (folder / file).write_bytes(answer.content)
        told = {"status": answer.status_code, "content_type": answer.headers.get("content-type"), "body": body}
        if messages is not TOO_LONG:
            (folder / f"{file}.asked").write_text(json.dumps(told, indent=1), encoding="utf-8")
        print(f"{name} {file}: HTTP {answer.status_code}, {len(answer.content)} bytes")


if __name__ == "__main__":
    main()

"""A few requests before the run that show in which mode an engine really generates. What it can't tell is None."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import requests

from engines._base import Engine

TIMEOUT_S = 180.0
PROBES: tuple[list[dict[str, str]], ...] = (
    [{"role": "user", "content": "What is the capital of France? Answer with one word."}],
    [
        {"role": "system", "content": "You are a careful assistant."},
        {"role": "user", "content": "List three colours, then say why the sky is blue, in two sentences."},
    ],
)
FIXED_TOKENS = 24


def probe(engine: Engine, *, sampling: dict[str, Any]) -> dict[str, Any]:
    """Ask the running engine what a run will rely on.

    Returns:
        prompt_tokens: {sha256 of the messages: tokens or None}, equal in two engines whose templates match;
        thinking: whether think text was seen; fixed_length: whether exactly the asked tokens came;
        sampling_accepted; cache_hit: whether the same prompt asked twice came from a cache; notes: what went wrong.
    """
    notes: list[str] = []
    tokens: dict[str, int | None] = {}
    thinking: bool | None = None
    accepted: bool | None = None
    for messages in PROBES:
        status, answer = _ask(engine, messages, sampling, fixed=False, notes=notes)
        accepted = status == 200 if status in (200, 400, 422) else accepted
        tokens[_sha256(messages)] = (answer.get("usage") or {}).get("prompt_tokens") if answer else None
        if answer:
            thinking = bool(thinking) or _thinks(answer)
    _, answer = _ask(engine, PROBES[0], sampling, fixed=True, notes=notes)
    return {
        "prompt_tokens": tokens,
        "thinking": thinking,
        "fixed_length": _fixed(answer),
        "sampling_accepted": accepted,
        # PROBES[0] has just been asked a second time.
        "cache_hit": _cache_hit(answer),
        "notes": notes,
    }


def _ask(
    engine: Engine, messages: list[dict[str, str]], sampling: dict[str, Any], *, fixed: bool, notes: list[str]
) -> tuple[int | None, dict[str, Any] | None]:
    body = {
        "model": engine.model_name or "default",
        "messages": messages,
        "stream": False,
        "max_tokens": FIXED_TOKENS,
        **sampling,
        **engine.request_extras(fixed_length=fixed),
    }
    try:
        with requests.Session() as session:
            session.trust_env = False
            answer = session.post(
                engine.base_url + "/v1/chat/completions",
                json=body,
                timeout=TIMEOUT_S,
                headers=engine.auth(),
                allow_redirects=False,
            )
        if answer.status_code != 200:
            notes.append(f"HTTP {answer.status_code}: {answer.text[:200]}")
            return answer.status_code, None
        value = answer.json()
    except (requests.RequestException, ValueError) as error:
        notes.append(f"{type(error).__name__}: {str(error)[:200]}")
        return None, None
    return 200, value if isinstance(value, dict) else None


def _choice(answer: dict[str, Any]) -> dict[str, Any]:
    choices = answer.get("choices") or [{}]
    return choices[0] if isinstance(choices[0], dict) else {}


def _thinks(answer: dict[str, Any]) -> bool:
    message = _choice(answer).get("message") or {}
    reasoning = message.get("reasoning_content") or message.get("reasoning") or ""
    return bool(reasoning.strip()) or "<think>" in (message.get("content") or "")


def _fixed(answer: dict[str, Any] | None) -> bool | None:
    if not answer:
        return None
    completion = (answer.get("usage") or {}).get("completion_tokens")
    reason = _choice(answer).get("finish_reason")
    if completion is None and reason is None:
        return None
    return reason == "length" and completion in (None, FIXED_TOKENS)


def _cache_hit(answer: dict[str, Any] | None) -> bool | None:
    if not answer:
        return None
    cached = ((answer.get("usage") or {}).get("prompt_tokens_details") or {}).get("cached_tokens")
    if cached is None:
        cached = (answer.get("timings") or {}).get("cache_n")
    return None if cached is None else cached > 0


def _sha256(messages: list[dict[str, str]]) -> str:
    canonical = json.dumps(messages, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(canonical.encode("ascii")).hexdigest()

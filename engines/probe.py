"""A few requests before the run that show in which mode an engine really generates. What it can't tell is None."""

from __future__ import annotations

import hashlib
import json
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import requests

from engines.base import Engine

TIMEOUT_S = 180.0
BUSY_RETRIES = 5
PROBES: tuple[list[dict[str, str]], ...] = (
    [{"role": "user", "content": "What is the capital of France? Answer with one word."}],
    [
        {"role": "system", "content": "You are a careful assistant."},
        {"role": "user", "content": "List three colours, then say why the sky is blue, in two sentences."},
    ],
)
FIXED_TOKENS = 24
# An empty pair is what some templates put before an answer without thinking.
_NO_THOUGHT = re.compile(r"<think>\s*</think>")


@dataclass(slots=True)
class Answer:
    """What one streamed request brought; None where the engine did not say."""

    status: int
    text: str = ""
    reasoning: str = ""
    finish_reason: str | None = None
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    cached_tokens: int | None = None


def probe(engine: Engine, *, sampling: Mapping[str, Any], extras: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Ask the running engine what a run will rely on; never raises for what it can't tell.

    Args:
        engine: the running engine.
        sampling: the profile's samplers.
        extras: request fields of the profile, which have the last word in the load's requests and so in these.

    Returns:
        prompt_tokens: {sha256 of the messages: tokens or None}, equal in two engines whose templates match;
        thinking: whether think text was seen; fixed_length: whether exactly the asked tokens came;
        sampling_accepted; cache_hit: whether the same prompt asked twice came from a cache; notes: what went wrong.
    """
    notes: list[str] = []
    free = engine.request_fields(sampling, fixed_length=False) | dict(extras or {})
    answers = [_ask(engine, messages, free, notes) for messages in PROBES]
    # The first prompt a second time: a cache would show.
    fixed_fields = engine.request_fields(sampling, fixed_length=True) | dict(extras or {})
    fixed = _ask(engine, PROBES[0], fixed_fields, notes)
    good = [answer for answer in answers if answer and answer.status == 200]
    told = [answer.status for answer in answers if answer and answer.status in (200, 400, 422)]
    return {
        "prompt_tokens": {
            messages_sha256(messages): answer.prompt_tokens if answer else None
            for messages, answer in zip(PROBES, answers, strict=True)
        },
        "thinking": any(_thinks(answer) for answer in good) if good else None,
        "fixed_length": _fixed(fixed, answers[0], notes),
        "sampling_accepted": all(status == 200 for status in told) if told else None,
        "cache_hit": None if fixed is None or fixed.cached_tokens is None else fixed.cached_tokens > 0,
        "notes": notes,
    }


def messages_sha256(messages: list[dict[str, str]]) -> str:
    """The identity of a prompt, as the records have it."""
    canonical = json.dumps(messages, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(canonical.encode("ascii")).hexdigest()


def _ask(engine: Engine, messages: list[dict[str, str]], fields: Mapping[str, Any], notes: list[str]) -> Answer | None:
    """One streamed request, as the load sends them; None where no answer came."""
    body = {
        "model": engine.model_name or "default",
        "messages": messages,
        "stream": True,
        "stream_options": {"include_usage": True},
        "max_tokens": FIXED_TOKENS,
        **{name: value for name, value in fields.items() if value is not None},
    }
    for attempt in range(BUSY_RETRIES + 1):
        try:
            answer = _post(engine, body, notes)
        except (requests.RequestException, ValueError) as error:
            notes.append(f"{type(error).__name__}: {str(error)[:200]}")
            return None
        if answer.status != 503 or attempt == BUSY_RETRIES:
            return answer
        time.sleep(0.5)
    return None


def _post(engine: Engine, body: dict[str, Any], notes: list[str]) -> Answer:
    deadline = time.monotonic() + TIMEOUT_S
    with requests.Session() as session:
        # Proxies of the environment must not come between us and the engine; .netrc must not add a password.
        session.trust_env = False
        with session.post(
            engine.base_url + "/v1/chat/completions",
            json=body,
            timeout=TIMEOUT_S,
            headers=engine.auth(),
            allow_redirects=False,
            stream=True,
        ) as response:
            answer = Answer(response.status_code)
            if response.status_code != 200:
                notes.append(f"HTTP {response.status_code}: {' '.join(response.text.split())[:200]}")
                return answer
            for line in response.iter_lines():
                if line.startswith(b"data:") and line[5:].strip() != b"[DONE]":
                    _take(answer, json.loads(line[5:]), notes)
                if time.monotonic() > deadline:
                    notes.append(f"no end within {TIMEOUT_S:g} s")
                    break
            return answer


def _take(answer: Answer, event: Any, notes: list[str]) -> None:
    if not isinstance(event, dict):
        return
    if error := event.get("error"):
        notes.append(f"error in the stream: {str(error)[:200]}")
    for choice in event.get("choices") or []:
        delta = choice.get("delta") or {}
        answer.text += delta.get("content") or ""
        answer.reasoning += delta.get("reasoning_content") or delta.get("reasoning") or ""
        answer.finish_reason = choice.get("finish_reason") or answer.finish_reason
    usage = event.get("usage") or {}
    answer.prompt_tokens = usage.get("prompt_tokens", answer.prompt_tokens)
    answer.completion_tokens = usage.get("completion_tokens", answer.completion_tokens)
    cached = (usage.get("prompt_tokens_details") or {}).get("cached_tokens")
    if cached is None:
        cached = (event.get("timings") or {}).get("cache_n")
    if cached is not None:
        answer.cached_tokens = cached


def _thinks(answer: Answer) -> bool:
    # Where the template itself opens the block, only its end is in the answer.
    text = _NO_THOUGHT.sub("", answer.text)
    return bool(answer.reasoning.strip()) or "<think>" in text or "</think>" in text


def _fixed(answer: Answer | None, free: Answer | None, notes: list[str]) -> bool | None:
    """Whether the asked length was obeyed; an answer that is that long anyway proves nothing."""
    if answer is None or answer.status != 200 or (answer.finish_reason is None and answer.completion_tokens is None):
        return None
    if answer.finish_reason not in (None, "length") or answer.completion_tokens not in (None, FIXED_TOKENS):
        return False
    if free is None or free.finish_reason != "stop":
        notes.append("fixed length not shown: the model's own answer to the probe is as long as that")
        return None
    return True

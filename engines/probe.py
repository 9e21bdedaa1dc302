"""Probes an engine before the run: a few requests show its mode (thinking, cache, ...). Unknown facts are None."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import requests

from engines.base import Engine
from engines.http import session
from load.chat.decode import decode
from load.chat.usage import count_of, detail
from records import prompt_sha256
from records.endpoint import CHAT, ENDPOINTS, MAX_TOKENS_FIELDS, request_body, server_url
from records.thinking import holds_thought

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
SECOND_TOKENS = 8
"""Most tokens of the second question: it is asked for its prompt tokens, and a thought would begin at once."""


@dataclass(slots=True)
class ProbeAnswer:
    """The response to one streamed request. None: not reported."""

    status: int
    text: str = ""
    reasoning: str = ""
    finish_reason: str | None = None
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    cached_tokens: int | None = None


def probe(
    engine: Engine,
    *,
    sampling: Mapping[str, Any],
    extras: Mapping[str, Any] | None = None,
    endpoint: str = CHAT,
    max_tokens_field: str | None = None,
) -> dict[str, Any]:
    """Probe a running engine for the facts on which a run relies. An unreadable answer never raises.

    Args:
        engine: the running engine.
        sampling: the profile's samplers.
        extras: the profile's request fields; they override all others, as in the load's requests.
        endpoint: the API's endpoint that the load uses, a key of `ENDPOINTS`.
        max_tokens_field: the request field for the largest length of an answer; None: find it out.

    Returns:
        endpoint, max_tokens_field: the endpoint, and the field that the load must use;
        prompt_tokens: {sha256 of the messages: tokens or None}, equal in two engines whose templates match;
        thinking: whether think text was seen; fixed_length: whether exactly the requested tokens came;
        sampling_accepted; cache_hit: whether the repeated prompt came from a cache; notes: problems.
    """
    asked = _Asked(engine, endpoint, max_tokens_field)
    notes = asked.notes
    free = request_fields(engine, sampling, extras, endpoint=endpoint, fixed_length=False)
    answers = [asked.ask(PROBES[0], free), asked.ask(PROBES[1], free, SECOND_TOKENS)]
    # The first prompt a second time, which detects a cache.
    fixed_fields = request_fields(engine, sampling, extras, endpoint=endpoint, fixed_length=True)
    fixed = asked.ask(PROBES[0], fixed_fields)
    good = [answer for answer in answers if answer and answer.status == 200]
    statuses = [answer.status for answer in answers if answer and answer.status in (200, 400, 422)]
    return {
        "endpoint": endpoint,
        "max_tokens_field": asked.max_tokens_field,
        "prompt_tokens": {
            prompt_sha256(messages): answer.prompt_tokens if answer else None
            for messages, answer in zip(PROBES, answers, strict=True)
        },
        "thinking": any(holds_thought(answer.text, answer.reasoning) for answer in good) if good else None,
        "fixed_length": _fixed(fixed, answers[0], notes),
        "sampling_accepted": all(status == 200 for status in statuses) if statuses else None,
        "cache_hit": None if fixed is None or fixed.cached_tokens is None else fixed.cached_tokens > 0,
        "notes": notes,
    }


def request_fields(
    engine: Engine,
    sampling: Mapping[str, Any],
    extras: Mapping[str, Any] | None,
    *,
    endpoint: str,
    fixed_length: bool,
) -> dict[str, Any]:
    """The fields of a request beside the question: the engine's dialect, then the profile's fields, which override.

    `/v1/completions` applies no chat template, so the dialect's chat-template switches are left out.
    """
    fields = engine.request_fields(sampling, fixed_length=fixed_length)
    if endpoint != CHAT:
        fields.pop("chat_template_kwargs", None)
    return fields | dict(extras or {})


class _Asked:
    """Sends the requests of one probe, and remembers the facts that they show."""

    def __init__(self, engine: Engine, endpoint: str, max_tokens_field: str | None) -> None:
        self._engine, self._endpoint = engine, endpoint
        self._may_learn = max_tokens_field is None
        self.max_tokens_field = max_tokens_field or MAX_TOKENS_FIELDS[0]
        self.notes: list[str] = []

    def ask(
        self, messages: list[dict[str, str]], fields: Mapping[str, Any], max_tokens: int = FIXED_TOKENS
    ) -> ProbeAnswer | None:
        """Send one streamed request as the load does; None if no answer came."""
        for attempt in range(BUSY_RETRIES + 1):
            try:
                answer = self._post(messages, fields, max_tokens)
            except (requests.RequestException, ValueError) as error:
                self.notes.append(f"{type(error).__name__}: {str(error)[:200]}")
                return None
            if answer.status != 503 or attempt == BUSY_RETRIES:
                return answer
            time.sleep(0.5)
        return None

    def _post(self, messages: list[dict[str, str]], fields: Mapping[str, Any], max_tokens: int) -> ProbeAnswer:
        engine = self._engine
        body = request_body(
            messages,
            self._endpoint,
            model=engine.model_name,
            max_tokens_field=self.max_tokens_field,
            max_tokens=max_tokens,
            fields=fields,
        )
        deadline = time.monotonic() + TIMEOUT_S
        url = server_url(engine.base_url, f"/v1/{ENDPOINTS[self._endpoint]}")
        with (
            session() as http,
            http.post(
                url, json=body, timeout=TIMEOUT_S, headers=engine.headers(), allow_redirects=False, stream=True
            ) as response,
        ):
            if response.status_code != 200:
                refusal = " ".join(response.text.split())[:200]
                if self._may_learn and response.status_code in (400, 422) and MAX_TOKENS_FIELDS[1] in response.text:
                    # OpenAI's newer models say: "Use 'max_completion_tokens' instead."
                    self._may_learn, self.max_tokens_field = False, MAX_TOKENS_FIELDS[1]
                    self.notes.append(f"the server wants max_completion_tokens: {refusal}")
                    return self._post(messages, fields, max_tokens)
                self.notes.append(f"HTTP {response.status_code}: {refusal}")
                return ProbeAnswer(response.status_code)
            pieces = []
            for piece in response.iter_content(chunk_size=None):
                pieces.append((0, piece))
                if b"[DONE]" in piece[-20:]:
                    break
                if time.monotonic() > deadline:
                    self.notes.append(f"no end within {TIMEOUT_S:g} s")
                    break
            return _read(pieces, response.headers.get("content-type", ""), self.notes)


def _read(pieces: list[tuple[int, bytes]], content_type: str, notes: list[str]) -> ProbeAnswer:
    """Read a body by the rules of the load."""
    *_, answer = decode(pieces, content_type=content_type)
    if answer.error:
        notes.append(f"error in the stream: {answer.error[0]}: {answer.error[1][:200]}")
    notes += answer.notes
    usage = answer.usage or {}
    cached = detail(usage, "prompt_tokens_details", "cached_tokens")
    return ProbeAnswer(
        200,
        text="".join(answer.text),
        reasoning="".join(answer.reasoning),
        finish_reason=answer.finish_reason,
        prompt_tokens=count_of(usage.get("prompt_tokens")) or None,
        completion_tokens=answer.completion_tokens,
        cached_tokens=count_of((answer.timings or {}).get("cache_n")) if cached is None else cached,
    )


def _fixed(answer: ProbeAnswer | None, free: ProbeAnswer | None, notes: list[str]) -> bool | None:
    """Whether the engine obeyed the fixed length; None if the model's own answer is as long anyway."""
    if answer is None or answer.status != 200 or (answer.finish_reason is None and answer.completion_tokens is None):
        return None
    if answer.finish_reason not in (None, "length") or answer.completion_tokens not in (None, FIXED_TOKENS):
        return False
    if free is None or free.finish_reason != "stop":
        notes.append("fixed length not shown: the model's own answer to the probe is as long as that")
        return None
    return True

"""The bytes of a request, for both endpoints of the API."""

from __future__ import annotations

import json
from typing import Any

from load.options import plain_parser
from load.request import RequestWriter
from records.endpoint import Target
from workloads import Prompt

PROMPT = Prompt("p", ({"role": "system", "content": "Be brief."}, {"role": "user", "content": "Why?"}), max_tokens=9)


def written(
    *words: str, extras: dict[str, Any] | None = None, headers: dict[str, str] | None = None
) -> tuple[str, dict[str, Any], int | None]:
    options = plain_parser().parse_args(list(words))
    target = Target.parse("http://h:8080/v1", options.endpoint)
    request, limit = RequestWriter(options, target, extras=extras or {}, headers=headers or {}, key="k-1").write(PROMPT)
    head, _, body = request.decode().partition("\r\n\r\n")
    assert f"Content-Length: {len(body)}" in head
    return head, json.loads(body), limit


def test_a_chat_request_holds_the_messages_and_the_length() -> None:
    head, body, limit = written("--fixed-length")
    assert head.startswith("POST /v1/chat/completions HTTP/1.1\r\nHost: h:8080\r\n")
    assert "Authorization: Bearer k-1" in head
    assert body["messages"] == list(PROMPT.messages)
    assert (body["max_tokens"], body["ignore_eos"], limit) == (9, True, 9)


def test_a_completions_request_holds_the_texts_as_one_prompt() -> None:
    head, body, _ = written("--endpoint", "completions")
    assert head.startswith("POST /v1/completions HTTP/1.1\r\n")
    assert body["prompt"] == "Be brief.\n\nWhy?"
    assert "messages" not in body


def test_the_length_goes_by_the_name_that_the_server_wants() -> None:
    _, body, limit = written("--max-tokens-field", "max_completion_tokens", "--max-tokens", "5")
    assert (body["max_completion_tokens"], limit) == (5, 5)
    assert "max_tokens" not in body


def test_a_header_takes_the_place_of_ours_with_the_same_name() -> None:
    own = {"authorization": "Basic abc", "X-Team": "blue"}
    head, _, _ = written(headers=own)
    assert "Bearer" not in head
    assert "authorization: Basic abc" in head
    assert "X-Team: blue" in head


def test_null_among_the_extras_leaves_a_field_out() -> None:
    _, body, _ = written(extras={"temperature": None, "top_k": 3})
    assert "temperature" not in body
    assert body["top_k"] == 3

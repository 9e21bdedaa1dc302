"""Chooses the requests that the client cancels in the middle of the answer, and decides when."""

from __future__ import annotations

import hashlib
from collections.abc import Callable

from load.chat.answer import Answer
from load.chat.sse import SSEDecoder
from load.http.response import Reply
from load.schedule.tickets import Ticket
from records import Phase


class Cancellation:
    """Cancels a seeded share of one test's measured requests, each after a number of tokens."""

    def __init__(self, share: float, after_tokens: int, seed: int) -> None:
        self._share, self._after_tokens, self._seed = share, after_tokens, seed

    def of(self, ticket: Ticket) -> Callable[[Reply], bool] | None:
        """A function that decides after each read whether to close the stream; None if the request is never cancelled.

        The choice depends only on seed, prompt and sample, so the same requests are cancelled for all engines.
        """
        if not self._share or ticket.phase is Phase.WARMUP:
            return None
        drawn = hashlib.sha256(f"{self._seed}/{ticket.prompt.prompt_id}/{ticket.sample}".encode()).digest()
        if int.from_bytes(drawn[:8], "big") >= self._share * 2**64:
            return None
        return _AfterTokens(self._after_tokens).has_come


class _AfterTokens:
    """Counts the tokens of one stream while it arrives."""

    def __init__(self, tokens: int) -> None:
        self._tokens = tokens
        self._decoder, self._answer = SSEDecoder(), Answer()
        self._taken = 0

    def has_come(self, reply: Reply) -> bool:
        """Whether the number of tokens has arrived; an event whose tokens are unknown counts as one token."""
        answer = self._answer
        for stamp, data in reply.content[self._taken :]:
            for event in self._decoder.feed(data):
                answer.take(event, stamp)
        self._taken = len(reply.content)
        return sum(answer.chunk_tokens or [1] * len(answer.chunk_ns)) >= self._tokens

"""The user of every scenario: sends requests, reads streams, records. Scenarios set the number and timing of users."""

from __future__ import annotations

import logging
import time
from dataclasses import replace
from typing import Any, ClassVar

import gevent
from locust import User, task

from load import plugin
from load.conversation import Place
from load.environment_state import state_of
from load.http.connection import Connection, StreamError
from load.http.response import Reply
from load.record_builder import Exchange, retry_after_s
from load.schedule.tickets import Ticket
from load.session import Session
from records import ErrorKind, Phase
from workloads.conversations import REAL

plugin.install()

log = logging.getLogger("enginebench")


class ChatUser(User):
    """One client that sends streaming chat completions, one after the other.

    `kind` is the shape of the load: closed (send when the last one has ended), open (send when due), sweep or ramp.
    `fixed_count` users run unless the command line or the web UI gives another number. A scenario with `exact_count`
    refuses another number, because its name contains the number.
    """

    abstract = True
    kind: ClassVar[str] = "closed"
    exact_count: ClassVar[bool] = False

    def __init__(self, environment: Any) -> None:
        super().__init__(environment)
        state = state_of(environment)
        assert state.session is not None
        self.session: Session = state.session
        self._number = next(state.user_numbers)
        self._seq = 0
        self._connection = Connection(
            self.session.target, keep_raw=self.session.options.keep_raw, ca=self.session.options.ca or None
        )

    def on_start(self) -> None:
        session = self.session
        if self.kind == "ramp" and session.users() > 1:
            gevent.sleep(session.options.ramp * self._number / (session.users() - 1))
        session.admission.arrive()

    def on_stop(self) -> None:
        self._connection.close()

    @task
    def chat(self) -> None:
        """Send the next request; if there is none, wait for the end of the test."""
        ticket = self.session.next(self._number)
        if ticket is None:
            self.session.over.wait()
            gevent.sleep(0.1)
            return
        try:
            if ticket.prompt.turns:
                self._converse(ticket)
            else:
                self._ask(ticket)
        finally:
            self.session.admission.done(ticket)

    def _converse(self, ticket: Ticket) -> None:
        """Hold a conversation to its last turn, or to one that fails, or to the end of a test that is cut short."""
        turns, answers = ticket.prompt.turns, list[str]()
        carries_real = self.session.options.carry == REAL
        conversation = f"{self.session.labels.session}-{self._number}-{self._seq}"
        ended_ns = 0
        for number, turn in enumerate(turns, start=1):
            if number > 1 and not self._think(turn.think_s, ended_ns, ticket.phase):
                return
            asked = replace(
                ticket,
                prompt=ticket.prompt.turn(number, answers),
                place=Place(conversation, number, len(turns)),
                # An arrival is that of the whole conversation.
                due_ns=ticket.due_ns if number == 1 else None,
            )
            exchange = self._ask(asked)
            record = self.session.record_of(exchange)
            if record is None or record.failed:
                return
            ended_ns = exchange.end_ns
            answers.append(record.text if carries_real else turn.assistant or "")

    def _think(self, seconds: float, since_ns: int, phase: Phase) -> bool:
        """Pause before the next turn, not in the warm-up; false where there will be no next turn."""
        left_s = seconds - (time.monotonic_ns() - since_ns) / 1e9 if phase is not Phase.WARMUP else 0.0
        return not self.session.admission.cut.wait(max(left_s, 0.0))

    def _ask(self, ticket: Ticket) -> Exchange:
        """Send a request, and again while it is told to come back later and retries are left; returns the last."""
        attempt = 0
        while True:
            attempt += 1
            exchange, wait_s = self._attempt(ticket, attempt)
            if wait_s is None:
                self._seq += 1
                return exchange
            log.info("asked to come back: attempt %d of %s waits %.1f s", attempt + 1, ticket.prompt.prompt_id, wait_s)
            gevent.sleep(wait_s)

    def _attempt(self, ticket: Ticket, attempt: int) -> tuple[Exchange, float | None]:
        """One attempt; with how long to wait before another, None where there is no use in one."""
        session, health = self.session, self.session.health
        request, max_tokens = self._request(ticket)
        exchange = Exchange(ticket, self._number, self._seq, attempt, end_ns=0, max_tokens=max_tokens)
        began = time.monotonic_ns()
        health.began(began, ticket.due_ns)
        reply: Reply | None = None
        try:
            reply = self._connection.exchange(
                request,
                total_s=session.options.request_timeout,
                silence_s=session.options.silence_timeout,
                on_reply=lambda started: setattr(exchange, "reply", started),
                until=session.cancellation.of(ticket),
            )
            exchange.reply = reply
        except StreamError as error:
            exchange.failure = (error.kind, str(error))
        except gevent.GreenletExit:
            exchange.failure = (ErrorKind.CANCELLED, "the test was stopped")
            raise
        finally:
            exchange.end_ns = reply.end_ns if reply else time.monotonic_ns()
            if exchange.reply is not None and not exchange.reply.end_ns:
                exchange.reply.end_ns = exchange.end_ns
            health.ended(exchange.end_ns)
            if exchange.reply is not None and exchange.reply.head is not None:
                health.dated(exchange.reply.kernel_stamps)
            again = attempt <= session.options.retries and not session.admission.stop_reason
            wait_s = retry_after_s(reply) if reply is not None and again else None
            exchange.retried = wait_s is not None
            session.ended(exchange)
        return exchange, wait_s

    def _request(self, ticket: Ticket) -> tuple[bytes, int | None]:
        """The bytes of a ticket's request, and the largest number of tokens that it asks for."""
        return self.session.requests.write(ticket.prompt)

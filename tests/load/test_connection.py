"""The state machines of a connection and its reader, against a scripted socket in the same process."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from load.http.connection import Connection, StreamError
from load.http.framing import parse_head
from load.http.response import End, Reply
from records import ErrorKind
from records.endpoint import Target

HEAD = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
DONE = b"data: [DONE]\n\n"
LAST = b"0\r\n\r\n"


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


@contextmanager
def server(*connections: Callable[[socket.socket], None]) -> Iterator[Connection]:
    """A connection to a server that runs one function for each connection it accepts."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            for handle in connections:
                accepted, _ = listener.accept()
                with accepted:
                    handle(accepted)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        connection = Connection(Target("127.0.0.1", listener.getsockname()[1], False, "/"))
        yield connection
        connection.close()
        thread.join(5)


def ask(connection: Connection, request: bytes = b"x", total_s: float = 5.0, silence_s: float = 5.0) -> Reply:
    reply = connection.exchange(request, total_s=total_s, silence_s=silence_s, on_reply=lambda _: None)
    reply.finish()
    return reply


def answers(*responses: bytes) -> Callable[[socket.socket], None]:
    def handle(accepted: socket.socket) -> None:
        for response in responses:
            accepted.recv(65536)
            accepted.sendall(response)
        accepted.recv(1)

    return handle


def body_of(reply: Reply) -> bytes:
    return b"".join(data for _, data in reply.content)


def test_a_connection_is_kept_where_the_framing_ends_with_done() -> None:
    whole = HEAD + chunk(DONE) + LAST
    with server(answers(whole, whole)) as connection:
        first, second = ask(connection), ask(connection)
    assert (first.end, second.end) == (End.COMPLETE, End.COMPLETE)
    assert first.connect_ns is not None
    assert second.connect_ns is None


@pytest.mark.parametrize(
    "pieces", [[chunk(DONE)], [b"e\r\ndata: [DO", b"NE]\n\n\r\n"], [chunk(b"data: {}\n\n" + DONE)]]
)
def test_done_ends_an_answer_whose_framing_stays_open(pieces: list[bytes]) -> None:
    def handle(accepted: socket.socket) -> None:
        accepted.recv(65536)
        accepted.sendall(HEAD)
        for piece in pieces:
            time.sleep(0.02)
            accepted.sendall(piece)
        accepted.recv(1)

    with server(handle, answers(HEAD + LAST)) as connection:
        reply = ask(connection, silence_s=60.0, total_s=60.0)
        # Closed aside, since the rest of the old response may still come.
        assert ask(connection).connect_ns is not None
    assert reply.end is End.DONE
    assert reply.content[-1][0] <= reply.end_ns < reply.sent_ns + 30_000_000_000


def test_the_word_done_inside_an_answer_ends_nothing() -> None:
    event = b'data: {"x": "data: [DONE]"}\n\n'
    with server(answers(HEAD + chunk(event))) as connection:
        reply = ask(connection, silence_s=0.2)
    assert reply.end is End.SILENCE


def test_an_answer_is_read_while_a_large_request_still_goes_out() -> None:
    def handle(accepted: socket.socket) -> None:
        accepted.recv(1024)
        accepted.sendall(b"HTTP/1.1 413 Too Large\r\nContent-Length: 9\r\n\r\ntoo large")
        time.sleep(0.3)

    with server(handle) as connection:
        reply = ask(connection, b"x" * 32_000_000)
    assert reply.head is not None
    assert (reply.head.status, body_of(reply)) == (413, b"too large")


def test_a_large_request_arrives_whole() -> None:
    size = 16_000_000
    got = 0

    def handle(accepted: socket.socket) -> None:
        nonlocal got
        while got < size:
            got += len(accepted.recv(1 << 20))
        accepted.sendall(HEAD + chunk(b"ok") + LAST)
        accepted.recv(1)

    with server(handle) as connection:
        reply = ask(connection, b"x" * size, total_s=30.0)
    assert (got, body_of(reply), reply.end) == (size, b"ok", End.COMPLETE)


def test_a_kept_connection_that_the_server_has_closed_is_opened_again() -> None:
    whole = HEAD + chunk(b"a") + LAST

    def once(accepted: socket.socket) -> None:
        accepted.recv(65536)
        accepted.sendall(whole)

    with server(once, once) as connection:
        assert body_of(ask(connection)) == b"a"
        time.sleep(0.05)
        assert ask(connection).connect_ns is not None


def test_a_connection_that_ends_in_the_middle_is_no_complete_response() -> None:
    def handle(accepted: socket.socket) -> None:
        accepted.recv(65536)
        accepted.sendall(HEAD + b"5\r\nab")

    with server(handle) as connection:
        assert ask(connection).end is End.CLOSED


def test_the_deadlines_of_silence_and_of_the_whole_request_are_told_apart() -> None:
    def drip(accepted: socket.socket) -> None:
        accepted.recv(65536)
        accepted.sendall(HEAD)
        for _ in range(40):
            time.sleep(0.02)
            try:
                accepted.sendall(chunk(b": ping\n\n"))
            except OSError:
                return

    with server(answers(HEAD)) as connection:
        assert ask(connection, silence_s=0.1).end is End.SILENCE
    with server(drip) as connection:
        assert ask(connection, silence_s=5.0, total_s=0.2).end is End.TOTAL


def test_nobody_listening_is_connect_failed() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    with pytest.raises(StreamError) as error:
        Connection(Target("127.0.0.1", port, False, "/")).open()
    assert error.value.kind is ErrorKind.CONNECT_FAILED


@pytest.mark.parametrize(
    ("head", "kept"),
    [
        (b"HTTP/1.1 200 OK\r\n\r\n", True),
        (b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n", False),
        (b"HTTP/1.1 200 OK\r\nConnection: keep-alive, Close\r\n\r\n", False),
        (b"HTTP/1.1 200 OK\r\nConnection: keep-alive\r\nConnection: close\r\n\r\n", False),
        (b"HTTP/1.0 200 OK\r\n\r\n", False),
        (b"HTTP/1.0 200 OK\r\nConnection: Keep-Alive\r\n\r\n", True),
    ],
)
def test_a_connection_is_used_again_only_where_the_response_lets_it(head: bytes, *, kept: bool) -> None:
    parsed = parse_head(head)
    assert parsed is not None
    assert parsed[0].keeps_alive is kept


def test_a_folded_header_line_goes_on_with_the_one_before() -> None:
    parsed = parse_head(b"HTTP/1.1 200 OK\r\nX-Long: a\r\n  b\r\n\tc\r\nY: d\r\n\r\n")
    assert parsed is not None
    assert parsed[0].headers == {"x-long": "a b c", "y": "d"}

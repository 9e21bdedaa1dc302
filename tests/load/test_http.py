"""Response heads, and the three ways of framing a body."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from load.http.framing import Body, FramingError, parse_head

CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


def body(head: bytes) -> Body:
    found = parse_head(head)
    assert found is not None
    return Body(found[0])


def test_a_head_gives_status_headers_and_what_follows() -> None:
    found = parse_head(b"HTTP/1.1 429 Too Many\r\nRetry-After: 3\r\nX: a\r\nx: b\r\n\r\nrest")
    assert found is not None
    head, rest = found
    assert (head.status, head.headers, rest) == (429, {"retry-after": "3", "x": "a, b"}, b"rest")


def test_an_interim_response_is_skipped() -> None:
    found = parse_head(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\n\r\n")
    assert found is not None
    assert found[0].status == 200


def test_a_head_that_is_not_complete_is_waited_for() -> None:
    assert parse_head(b"HTTP/1.1 200 OK\r\nA: b\r\n") is None
    assert parse_head(b"HTT") is None


@pytest.mark.parametrize(
    "data", [b"SSH-2.0-x\r\n", b"HTTP/1.1 abc\r\n\r\n", b"HTTP/1.1 200 OK\r\nnocolon\r\n\r\n", b"HTTP/" + b"a" * 70_000]
)
def test_what_is_no_http_response_is_refused(data: bytes) -> None:
    with pytest.raises(FramingError):
        parse_head(data)


@given(st.lists(st.binary(min_size=1, max_size=40), max_size=6), st.lists(st.integers(0, 10_000), max_size=12))
def test_any_split_of_a_chunked_body_gives_the_same_content(parts: list[bytes], cuts: list[int]) -> None:
    data = b"".join(b"%X;ext=1\r\n%s\r\n" % (len(part), part) for part in parts) + b"0\r\nTrailer: x\r\n\r\n"
    places = sorted(cut % (len(data) + 1) for cut in cuts)
    framed = body(CHUNKED)
    pieces = [data[a:b] for a, b in zip([0, *places], [*places, len(data)], strict=True)]
    assert b"".join(framed.feed(piece) for piece in pieces) == b"".join(parts)
    assert framed.complete


def test_a_chunked_body_is_complete_only_after_its_last_chunk() -> None:
    framed = body(CHUNKED)
    assert framed.feed(b"5\r\nhello\r\n") == b"hello"
    assert not framed.complete
    assert framed.feed(b"0\r\n") == b""
    assert not framed.complete
    assert framed.feed(b"\r\nmore") == b""
    assert framed.complete


@pytest.mark.parametrize("data", [b"-1\r\n", b"0x5\r\n", b"+5\r\n", b"\r\n", b"5_0\r\n", b"2\r\nabc\r\n", b"z" * 2000])
def test_a_chunk_that_lies_about_itself_is_a_framing_error(data: bytes) -> None:
    with pytest.raises(FramingError):
        body(CHUNKED).feed(data)


def test_a_content_length_says_where_the_body_ends() -> None:
    framed = body(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n")
    assert framed.feed(b"he") == b"he"
    assert not framed.complete
    assert framed.feed(b"lloXX") == b"llo"
    assert framed.complete


@pytest.mark.parametrize("header", [b"Content-Length: -1", b"Content-Length: x", b"Transfer-Encoding: gzip, chunked"])
def test_a_framing_that_was_not_asked_for_is_refused(header: bytes) -> None:
    with pytest.raises(FramingError):
        body(b"HTTP/1.1 200 OK\r\n" + header + b"\r\n\r\n")


def test_without_framing_only_the_end_of_the_connection_ends_a_body() -> None:
    framed = body(b"HTTP/1.1 200 OK\r\n\r\n")
    assert (framed.feed(b"abc"), framed.complete, framed.how) == (b"abc", False, "close")

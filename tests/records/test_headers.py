"""Extra headers: what may be sent, and that a secret is only ever read from the environment."""

from __future__ import annotations

import pytest

from records.headers import check_headers, parse_headers, resolved, shown
from records.redaction import scrub


def test_a_reference_is_read_from_the_environment_and_scrubbed_from_texts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GATEWAY_KEY", "Bearer q7-very-long-word")
    headers = parse_headers(["X-Api-Key=ENV:GATEWAY_KEY", "X-Team=blue"])
    assert headers == {"X-Api-Key": "ENV:GATEWAY_KEY", "X-Team": "blue"}
    assert resolved(headers) == {"X-Api-Key": "Bearer q7-very-long-word", "X-Team": "blue"}
    assert shown(headers) == headers
    # A server may quote the key with or without its scheme.
    assert scrub("denied: Bearer q7-very-long-word") == "denied: ***"
    assert scrub("denied: q7-very-long-word!") == "denied: ***!"


def test_a_secret_on_the_command_line_is_refused_and_not_shown() -> None:
    with pytest.raises(ValueError, match="Authorization: others can read a command line") as refused:
        parse_headers(["Authorization=Bearer s3cr3t-word"])
    assert "s3cr3t" not in str(refused.value)


def test_a_secret_of_a_profile_is_hidden_where_it_is_written_down() -> None:
    assert shown({"Authorization": "Bearer s3cr3t-w0rd", "X-Team": "blue"}) == {
        "Authorization": "***",
        "X-Team": "blue",
    }
    assert "s3cr3t-w0rd" not in scrub("quoted s3cr3t-w0rd")


def test_words_override_what_the_driver_hands_over_whatever_the_case() -> None:
    assert parse_headers(["x-team=red"], '{"X-Team": "blue", "X-Other": "1"}') == {"X-Other": "1", "x-team": "red"}


@pytest.mark.parametrize(
    ("headers", "why"),
    [
        ({"Content-Length": "3"}, "the client writes it itself"),
        ({"X Y": "3"}, "not a name"),
        ({"X-A": "a\r\nX-B: c"}, "no header may hold"),
        ({"X-A": ""}, "empty"),
        ({"X-A": "ENV:not a name"}, "ENV:NAME"),
    ],
)
def test_what_no_request_can_hold_is_refused(headers: dict[str, str], why: str) -> None:
    with pytest.raises(ValueError, match=why):
        check_headers(headers)


def test_a_variable_that_is_not_set_is_named() -> None:
    with pytest.raises(ValueError, match="X-Key: the environment variable NO_SUCH_KEY is not set"):
        resolved({"X-Key": "ENV:NO_SUCH_KEY"})


def test_a_variable_with_a_line_break_is_refused_and_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BROKEN_KEY", "abc-def-ghi\n")
    with pytest.raises(ValueError, match="BROKEN_KEY") as refused:
        resolved({"X-Key": "ENV:BROKEN_KEY"})
    assert "abc-def" not in str(refused.value)

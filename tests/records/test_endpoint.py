"""Where requests go, by the base URL that a user gives."""

from __future__ import annotations

import pytest

from records.endpoint import Target, api_target, server_url


@pytest.mark.parametrize(
    ("base", "target"),
    [
        ("http://h", "/v1/chat/completions"),
        ("h:8080/", "/v1/chat/completions"),
        ("http://h/v1/", "/v1/chat/completions"),
        ("http://h/v1/chat/completions", "/v1/chat/completions"),
        ("http://h/proxy/llama", "/proxy/llama/v1/chat/completions"),
        ("http://h/api/v3", "/api/v3/chat/completions"),
        ("http://h/v1beta/openai/v2", "/v1beta/openai/v2/chat/completions"),
        ("http://h/my model/v1?key=a b&x=é", "/my%20model/v1/chat/completions?key=a%20b&x=%C3%A9"),
        ("http://h/a%20b", "/a%20b/v1/chat/completions"),
    ],
)
def test_the_path_and_query_of_a_base_url_are_kept(base: str, target: str) -> None:
    assert api_target(base) == target
    assert Target.parse(base).path == target


def test_paths_beside_the_api_follow_the_prefix_and_those_of_the_api_its_version() -> None:
    assert server_url("http://h:1/proxy/v1?k=1", "/health") == "http://h:1/proxy/health?k=1"
    assert server_url("http://h:1/api/v3", "/v1/models") == "http://h:1/api/v3/models"
    assert server_url("http://h:1", "/v1/chat/completions") == "http://h:1/v1/chat/completions"


def test_a_host_name_is_sent_in_ascii() -> None:
    assert Target.parse("http://bücher.example").authority == "xn--bcher-kva.example"
    assert Target.parse("https://[::1]:443/").authority == "[::1]"


@pytest.mark.parametrize("url", ["ftp://h", "http://", "http:///v1"])
def test_what_is_no_url_of_a_server_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match="was expected"):
        Target.parse(url)

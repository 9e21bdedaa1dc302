"""What is hidden where it stands, and scrubbed wherever else it turns up."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator

import pytest

from records import redaction
from records.redaction import (
    KNOWN_SECRETS,
    is_secret_name,
    remember,
    scrub,
    scrub_bytes,
    scrubbed,
    shown_argv,
    shown_env,
    shown_fields,
    shown_text,
)

S = "SEKret42"


@pytest.fixture(autouse=True)
def forget(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(redaction, "_remembered", {})
    for name in (*redaction.CLIENT_KEYS, KNOWN_SECRETS):
        monkeypatch.delenv(name, raising=False)
    yield


@pytest.mark.parametrize(
    "name",
    [
        *(
            "HF_TOKEN",
            "HF_TOKEN_2",
            "MY_TOKENS",
            "GITHUB_PAT",
            "GITHUBPAT",
            "PASSWORD",
            "PGPASS",
            "MYSQL_PWD",
            "COOKIE",
        ),
        *(
            "Set-Cookie",
            "AUTH",
            "BASIC_AUTH",
            "Authorization",
            "Proxy-Authorization",
            "API_KEY",
            "X-Api-Key",
            "KEYFILE",
        ),
        *("bearer", "session", "SESSION_ID", "client_secret", "credentials", "jwt", "--api-key", "--hf-token", "-hft"),
        *("access_token", "token", "x-amz-signature", "SSH_PRIVATE_KEY", "passphrase"),
    ],
)
def test_names_of_secrets(name: str) -> None:
    assert is_secret_name(name)


@pytest.mark.parametrize(
    "name",
    [
        *("max_tokens", "--max-num-batched-tokens", "MAX_TOKENS", "num_prompt_tokens", "stop_token_ids", "tokenizer"),
        *(
            "--tokenizer-mode",
            "return_tokens_as_token_ids",
            "skip_special_tokens",
            "PATH",
            "--path",
            "bypass",
            "compat",
        ),
        *("author", "temperature", "OMP_NUM_THREADS", "seed", "pattern", "--parallel", "passes"),
    ],
)
def test_names_of_other_things(name: str) -> None:
    assert not is_secret_name(name)


@pytest.mark.parametrize(
    ("argv", "shown"),
    [
        (["--api-key", S, "--seed", "1"], ["--api-key", "***", "--seed", "1"]),
        (["--api-key", S, "SEKret43", "--seed", "1"], ["--api-key", "***", "***", "--seed", "1"]),
        (["--api-key", S, "--api-key", "SEKret43"], ["--api-key", "***", "--api-key", "***"]),
        (["--api-key", "-SEKret42", "--seed", "1"], ["--api-key", "***", "--seed", "1"]),
        (["--api-key", "--SEKret42"], ["--api-key", "***"]),
        ([f"--api-key={S}"], ["--api-key=***"]),
        (["-hft", S, "-c", "8"], ["-hft", "***", "-c", "8"]),
        (["--header", f"Authorization: Bearer {S}"], ["--header", "Authorization: ***"]),
        ([f"--header=X-Api-Key: {S}"], ["--header=X-Api-Key: ***"]),
        (["-H", f"Cookie: a={S}"], ["-H", "Cookie: ***"]),
        (["-e", f"HF_TOKEN={S}", f"--env=MY_PAT={S}"], ["-e", "HF_TOKEN=***", "--env=MY_PAT=***"]),
        (["--hide-key", "--seed", "1"], ["--hide-key", "--seed", "1"]),
        (["--no-auth", "7"], ["--no-auth", "7"]),
        (["--extra", json.dumps({"api_key": S, "n": 1})], ["--extra", '{"api_key": "***", "n": 1}']),
        (["--extra", '{"n":1}'], ["--extra", '{"n":1}']),
        ([f"http://me:{S}@host/x"], ["http://host/x"]),
        ([f"http://host/x?access_token={S}&n=1"], ["http://host/x?access_token=***&n=1"]),
        (["--override-kv", "tokenizer.ggml.add_bos_token=bool:false"],) * 2,
        (["--max-num-batched-tokens", "8192", "--tokenizer", "a/b"],) * 2,
        (["sk-0123456789abcdefXYZ", f"Bearer {S}"], ["***", "Bearer ***"]),
    ],
)  # fmt: skip
def test_a_command_line_shows_no_secret_and_all_else(argv: list[str], shown: list[str]) -> None:
    assert shown_argv(argv) == shown
    if shown != argv and f"-{S}" not in " ".join(argv):
        assert S not in scrub(f"the server says {S}"), "what is hidden once is hidden everywhere"
    assert shown_argv(shown) == shown, "again changes nothing"


def test_an_environment_and_fields_show_no_secret_and_all_else() -> None:
    env = {"HF_TOKEN": S, "PROXY": f"http://me:{S}@proxy:1", "OMP_NUM_THREADS": "2", "EXTRA": json.dumps({"key": S})}
    assert shown_env(env) == {
        "HF_TOKEN": "***", "PROXY": "http://proxy:1", "OMP_NUM_THREADS": "2", "EXTRA": '{"key": "***"}',
    }  # fmt: skip
    fields = {
        "max_tokens": 5, "stop": ["a"], "session_id": 123456789, "use_session": True, "key": None,
        "headers": [{"Authorization": f"Bearer {S}"}], "nested": {"passwords": {"a": [S]}},
    }  # fmt: skip
    assert shown_fields(fields) == {
        "max_tokens": 5, "stop": ["a"], "session_id": "***", "use_session": True, "key": None,
        "headers": [{"Authorization": "***"}], "nested": {"passwords": "***"},
    }  # fmt: skip


@pytest.mark.parametrize("secret", [S, 'se"K\\ret-42', "SEK/ret+42==", "a<b>&SEK42"])
def test_a_known_secret_is_scrubbed_in_every_form(secret: str) -> None:
    remember(secret)
    quoted = json.dumps({"error": f"bad key {secret}!"})
    assert json.loads(scrub(quoted)) == {"error": "bad key ***!"}
    assert scrub_bytes(f"HTTP/1.1 401\r\n\r\n{secret}".encode()) == b"HTTP/1.1 401\r\n\r\n***"
    assert scrubbed({"a": [f"x{secret}x", 1, None], secret: 1}) == {"a": ["x***x", 1, None], secret: 1}


def test_a_secret_that_a_cut_message_ends_in_is_scrubbed_but_not_in_an_answer() -> None:
    remember(S)
    assert scrub(f"bad key {S[:5]}") == "bad key ***"
    assert scrub(f"bad key b'{S[:5]}'") == "bad key b'***'"
    assert scrub(f"the answer is {S[:5]}", cut=False) == f"the answer is {S[:5]}"


def test_the_clients_key_and_what_the_driver_hands_over_are_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-client")
    monkeypatch.setenv(KNOWN_SECRETS, json.dumps(["sk-handed"]))
    assert scrub("sk-client and sk-handed") == "*** and ***"


@pytest.mark.parametrize("word", ["disabled", "8080", "/run/user/agent.sock", "--port", "auto"])
def test_an_ordinary_word_under_a_secrets_name_is_not_scrubbed_from_other_texts(word: str) -> None:
    assert shown_env({"AUTH_MODE": word}) == {"AUTH_MODE": "***"}
    assert scrub(f"it says {word} here") == f"it says {word} here"


def test_the_value_of_an_authorization_header_is_known_without_its_scheme() -> None:
    basic = base64.b64encode(b"me:SEKret42").decode()
    assert shown_text(f"Authorization: Basic {basic}") == "Authorization: ***"
    assert scrub(f"quoted: {basic}") == "quoted: ***"


@pytest.mark.parametrize(
    ("word", "shown"),
    [
        (f"exec server --api-key {S} --port 1", "exec server --api-key *** --port 1"),
        (f"server --api-key={S} -v", "server --api-key=*** -v"),
        (f"cd /x; HF_TOKEN='{S}' server", "cd /x; HF_TOKEN='***' server"),
        (f"curl -H 'X-Api-Key: {S}' http://h/", "curl -H 'X-Api-Key: ***' http://h/"),
        ("server --max-tokens 5 --tokenizer t --hide-key 3", "server --max-tokens 5 --tokenizer t --hide-key 3"),
    ],
)
def test_a_command_line_in_one_word_shows_no_secret(word: str, shown: str) -> None:
    assert shown_argv(["sh", "-c", word]) == ["sh", "-c", shown]


def test_the_key_before_a_program_is_scrubbed_from_its_log() -> None:
    shown_argv([f"API_KEY={S} server --port 1"])
    assert scrub(f"invalid key {S}.") == "invalid key ***."


def test_a_small_number_of_tokens_is_no_secret() -> None:
    words = ["server", "--tokens", "9", "--slot-tokens=512", "sh -c 'server --tokens 9'"]
    assert shown_argv(words) == words
    assert shown_argv(["--tokens", S, "--token", "9"]) == ["--tokens", "***", "--token", "***"]

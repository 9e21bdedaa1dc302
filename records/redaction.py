"""Keeps secrets out of everything that is written down: the key for the requests, and secrets of a profile.

Two rules. What looks like a secret, by the name it stands under or by its form, is hidden in every command line,
environment, URL and request field that is shown. And each secret that is known is remembered and scrubbed from every
text that comes from outside, since servers quote keys in their errors. Standard library only: the load imports this.
"""

from __future__ import annotations

import functools
import html
import json
import os
import re
import urllib.parse
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

HIDDEN = "***"
CLIENT_KEYS = ("ENGINEBENCH_API_KEY", "OPENAI_API_KEY")
"""Where the key for the client's requests comes from, the first before the second; no engine needs to see them."""
KNOWN_SECRETS = "ENGINEBENCH_KNOWN_SECRETS"
"""The variable that hands the secrets which the driver knows to its load processes, as a JSON list."""

_NAME = re.compile(
    r"key|token(?!s_as|iz|_?ids?$)|secret|(?<!by)pass(?!es$|ive|-?through)|(?<!com)pat(?![a-z])|cookie"
    r"|auth(?!ors?$)|bearer|session|credential|jwt|signature|^hft$|(?<=.)pwd",
    re.IGNORECASE,
)
"""Names of secrets, of variables, options, headers, fields and query parameters alike: the one list."""
_COUNT = re.compile(
    r"(max|min|num|new|batched|total|special|prompt|completion|cached|draft)[\w-]*tokens", re.IGNORECASE
)
"""Names of numbers of tokens."""
_NUMBER_OF_TOKENS = re.compile(r"[\w-]*tokens[=\s]+\d{1,7}", re.IGNORECASE)
"""A name and value such as `--tokens 9`: no secret is a small number of tokens."""
_SWITCH = re.compile(r"^--?(no|hide|show|enable|disable|use|allow|skip|trust|require)-", re.IGNORECASE)
"""Options that take no value although their name looks like a secret's, such as --hide-key."""
_OPTION = re.compile(r"--?[A-Za-z][\w.-]*(=.*)?", re.DOTALL)
# `--override-kv tokenizer.ggml.add_bos_token=...` is no setting: its name has dots.
_SETTING = re.compile(r"(--?[A-Za-z][\w-]*|[A-Za-z_]\w*)=(.*)", re.DOTALL)
_HEADER = re.compile(r"([A-Za-z][\w-]*)(\s*:\s*)(?!//)(.+)", re.DOTALL)
_INNER = re.compile(
    r"""(?<![\w.-])(--?[A-Za-z][\w-]*(?:=|\s+)|[A-Za-z_]\w*=)("[^"]*"|'[^']*'|(?!-)[^\s"';&|]+)""",
)
"""An option or variable with its value inside a command line that is one word, as in `sh -c "server --api-key K"`."""
_INNER_HEADER = re.compile(r"""(?<=['"])([A-Za-z][\w-]*\s*:\s*)(?!//)([^'"]+)""")
_URL_USER = re.compile(r"(?<=://)[^/\s?#]*@")
_QUERY = re.compile(r"([?&;])([\w.-]+)=([^&;#\s]*)")
_FORMS = re.compile(
    r"(?<![\w-])(?:sk-[\w-]{16,}|hf_[A-Za-z0-9]{20,}|gh[pousr]_\w{16,}|github_pat_\w{16,}|glpat-[\w-]{16,}|xox[abeprs]-[\w-]{10,}"
    r"|AKIA[A-Z0-9]{16}|eyJ[\w-]{8,}\.eyJ[\w-]{8,}\.[\w-]*)"
    r"|(?<=[Bb]earer )[\w.~+/=-]{6,}|(?<=[Bb]asic )[\w+/=]{8,}"
)
"""What keys of well-known services, and the value of an Authorization header, look like."""

LEAST_CHARS = 6
"""Shorter secrets are hidden where they stand, but not scrubbed from other texts: they would hit ordinary words."""
_PART = 4
"""Characters of a secret at the end of a cut text that are hidden; fewer are in many words."""

_ORDINARY = r"[A-Z]?[a-z]{1,11}|[\d.]{1,7}|[./~].*/.*|--?[a-z][a-z-]*"
_remembered: dict[str, None] = {}


def is_secret_name(name: str) -> bool:
    """Whether a variable, option, header or field of this name holds a secret."""
    return _NAME.search(_COUNT.sub("", name.lstrip("-"))) is not None


def is_ordinary(value: str) -> bool:
    """Whether a value is a word, a number, a path or an option, as ordinary texts hold them too."""
    return re.fullmatch(_ORDINARY, value, re.DOTALL) is not None


def remember(secret: str) -> None:
    """Scrub this secret from all texts from now on; what is too short or an ordinary word is left alone."""
    if len(secret) >= LEAST_CHARS and not is_ordinary(secret):
        _remembered[secret] = None


def known_secrets() -> list[str]:
    """The client's keys, what was remembered, and what the driver handed to this process; the longest first."""
    known = dict(_remembered)
    known.update((os.environ[name], None) for name in CLIENT_KEYS if len(os.environ.get(name, "")) >= LEAST_CHARS)
    known.update(_handed(os.environ.get(KNOWN_SECRETS, "[]")))
    return sorted(known, key=len, reverse=True)


@functools.cache
def _handed(secrets: str) -> dict[str, None]:
    return dict.fromkeys(map(str, json.loads(secrets)))


def scrub(text: str, *, cut: bool = True) -> str:
    """A text from outside without any known secret, escaped ones included.

    Args:
        text: the text.
        cut: whether the text may have been cut to a length, through a secret at its end.
    """
    for secret in known_secrets():
        for form in written_forms(secret):
            text = text.replace(form, HIDDEN)
        if cut:
            text = _without_cut(text, secret)
    return text


def scrub_bytes(data: bytes) -> bytes:
    """`scrub` of raw bytes, such as a response or a log."""
    for secret in known_secrets():
        for form in written_forms(secret):
            data = data.replace(form.encode(), HIDDEN.encode())
    return data


def scrubbed(value: Any) -> Any:
    """A JSON value with each text in it scrubbed; the names of its fields stay."""
    return _scrubbed(value) if known_secrets() else value


def scrub_file(path: Path) -> None:
    """Scrub a log that another process has written; one that cannot be read or written stays as it is."""
    try:
        data = path.read_bytes()
        clean = scrub_bytes(data)
        if clean != data:
            path.write_bytes(clean)
    except OSError:
        return


def _scrubbed(value: Any) -> Any:
    if isinstance(value, str):
        return scrub(value)
    if isinstance(value, Mapping):
        return {name: _scrubbed(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_scrubbed(item) for item in value]
    return value


def written_forms(secret: str) -> dict[str, None]:
    """The forms in which a secret stands in a text, as the keys: as it is, in JSON, in a URL, in HTML."""
    return dict.fromkeys([secret, json.dumps(secret)[1:-1], urllib.parse.quote(secret, safe=""), html.escape(secret)])


def _without_cut(text: str, secret: str) -> str:
    """A text without the beginning of a secret at its end."""
    bare = text.rstrip("'\"")
    if secret[:_PART] not in bare[-len(secret) :]:
        return text
    for length in range(min(len(secret) - 1, len(bare)), _PART - 1, -1):
        if bare.endswith(secret[:length]):
            return bare[:-length] + HIDDEN + text[len(bare) :]
    return text


def shown_url(text: str) -> str:
    """A text without the user and password of any URL in it."""
    return _URL_USER.sub(_forget_user, text)


def shown_text(text: str) -> str:
    """A text of a profile or command line with user and password of URLs left out, and what looks like a key hidden."""
    text = shown_url(text)
    text = _QUERY.sub(lambda m: f"{m[1]}{m[2]}={_hide(m[3])}" if is_secret_name(m[2]) else m[0], text)
    if (header := _HEADER.fullmatch(text)) and is_secret_name(header[1]):
        for part in re.split(r"[\s;,]+", header[3]):
            # A server quotes the key without its scheme, or one cookie of several.
            _hide(part)
            _hide(part.partition("=")[2])
        return f"{header[1]}{header[2]}{_hide(header[3])}"
    return _FORMS.sub(lambda match: _hide(match[0]), text)


def shown_argv(words: Iterable[str]) -> list[str]:
    """A command line with its secrets hidden and remembered: values of `--api-key` and the like, headers, settings."""
    shown: list[str] = []
    hiding = first = False
    before = ""
    for word in words:
        counts = _NUMBER_OF_TOKENS.fullmatch(f"{before} {word}")
        before = word
        if counts:
            shown.append(word)
        elif hiding and (first or not _OPTION.fullmatch(word)):
            # The first value of such an option may begin with a dash, and there may be several.
            shown.append(_hide(word))
        else:
            shown.append(_shown_word(word))
        if _OPTION.fullmatch(word):
            # Also a word that was hidden: it may be the next option after one without a value.
            secret = "=" not in word and is_secret_name(word) and not _SWITCH.match(word)
            hiding, first = secret or (hiding and first), secret
        else:
            first = False
    return shown


def _shown_word(word: str) -> str:
    if _NUMBER_OF_TOKENS.fullmatch(word):
        return word
    setting = _SETTING.fullmatch(word)
    if setting and is_secret_name(setting[1]):
        # A command line, such as `API_KEY=K server`, holds the key in its first word.
        _hide(setting[2].partition(" ")[0].strip("'\""))
        return f"{setting[1]}={_hide(setting[2])}"
    if " " in word:
        word = _INNER_HEADER.sub(lambda m: shown_text(m[0]), _INNER.sub(_shown_inner, word))
    if setting and setting[1].startswith("-"):
        return f"{setting[1]}={_shown_word(setting[2])}"
    if word[:1] in ("{", "["):
        try:
            fields = json.loads(word)
        except ValueError:
            return shown_text(word)
        shown = shown_fields(fields)
        return word if shown == fields else json.dumps(shown)
    return shown_text(word)


def _shown_inner(match: re.Match[str]) -> str:
    name = match[1].rstrip("= \t\n")
    takes_value = match[1].endswith("=") or not _SWITCH.match(name)
    if not (takes_value and is_secret_name(name)) or _NUMBER_OF_TOKENS.fullmatch(match[0]):
        return match[0]
    quote = match[2][0] if match[2][0] in "'\"" else ""
    return f"{match[1]}{quote}{_hide(match[2].strip(quote) if quote else match[2])}{quote}"


def shown_env(env: Mapping[str, str]) -> dict[str, str]:
    """An environment with its secrets hidden and remembered."""
    return {name: _hide(value) if is_secret_name(name) else _shown_word(value) for name, value in env.items()}


def shown_fields(value: Any) -> Any:
    """A JSON value, such as request fields, with its secrets hidden and remembered, at any depth."""
    if isinstance(value, Mapping):
        return {
            name: _hide_all(item) if is_secret_name(str(name)) else shown_fields(item) for name, item in value.items()
        }
    if isinstance(value, list | tuple):
        if all(isinstance(item, str) for item in value):
            return shown_argv(value)
        return [shown_fields(item) for item in value]
    return _shown_word(value) if isinstance(value, str) else value


def _hide(secret: str) -> str:
    if secret and secret != HIDDEN:
        remember(secret)
    return HIDDEN


def _hide_all(value: Any) -> Any:
    """Hide what a secret's name holds; null, switches such as `"use_session": true` and small numbers are none."""
    if value is None or isinstance(value, bool) or (isinstance(value, int | float) and abs(value) < 10**LEAST_CHARS):
        return value
    for text in _texts(value):
        _hide(text)
    return HIDDEN


def _texts(value: Any) -> Iterable[str]:
    if isinstance(value, Mapping):
        for item in value.values():
            yield from _texts(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _texts(item)
    else:
        yield str(value)


def _forget_user(match: re.Match[str]) -> str:
    user, _, password = match[0][:-1].partition(":")
    remember(password or user)
    return ""


def client_key() -> str | None:
    """The key of the environment for the client's requests; None where there is none.

    Raises:
        ValueError: it cannot be put in a header; one line that does not show it.
    """
    for name in CLIENT_KEYS:
        if key := os.environ.get(name):
            return _checked(name, key)
    return None


def _checked(name: str, key: str) -> str:
    # An error of the HTTP client would quote the whole header.
    for place, char in enumerate(key, start=1):
        if not "!" <= char <= "~":
            raise ValueError(
                f"{name}: character {place} of the key is a space, a control character or not ASCII (a copied dash or"
                " ellipsis?); set the key again"
            )
    return key

"""Escapes untrusted text (of a model, an engine, a user's file): one function per medium.

Characters that could hide text, move a cursor, run or link become visible symbols: control characters become control
pictures (ESC is ␛); bidirectional marks, zero-width, private and unpaired code points become ⟨U+202E⟩.
"""

from __future__ import annotations

import re
import unicodedata

from markupsafe import Markup, escape

CELL_LIMIT = 160
BLOCK_LIMIT = 8192

_HIDDEN = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
_KEPT = "\n\t"
_SUSPECT = re.compile(r"[^\x20-\x7e\n\t]")
_MARKDOWN = re.compile(r"[\\`*{}\[\]~^$]|(?<![^\W_])_|_(?![^\W_])|:(?=//)|(?<=www)\.", re.IGNORECASE)
_ENTITIES = {"&": "&amp;", "<": "&lt;", ">": "&gt;", "|": "&#124;"}
_ENTITY = re.compile("[&<>|]")


def visible(text: object, limit: int | None = None) -> str:
    """Make invisible characters visible, and cut the text to `limit` characters with a note. Lines are kept.

    The result has no character that XML 1.0 forbids, so JUnit XML needs only XML's own escapes in addition.
    """
    value = str(text).replace("\r\n", "\n")
    left = 0
    if limit is not None and len(value) > limit:
        left = len(value) - limit
        value = value[:limit]
    value = _SUSPECT.sub(_symbol, value)
    return f"{value}… ({left:,} more characters)" if left else value


def _symbol(match: re.Match[str]) -> str:
    char = match[0]
    if unicodedata.category(char) not in _HIDDEN:
        return char
    code = ord(char)
    if code < 0x20:
        return chr(0x2400 + code)
    return "␡" if code == 0x7F else f"⟨U+{code:04X}⟩"


def one_line(text: object, limit: int | None = CELL_LIMIT) -> str:
    """`visible`, with newlines and tabs as symbols too."""
    return visible(text, limit).replace("\n", "␤").replace("\t", "␉")


def html(text: object, limit: int | None = BLOCK_LIMIT) -> Markup:
    """Escape for an element's content or a quoted attribute; lines are kept (the style sheet uses pre-wrap)."""
    return escape(visible(text, limit))


def markdown(text: object, limit: int | None = CELL_LIMIT) -> str:
    """Escape for a cell of a Markdown table or a line of text: no markup, link or mention, and no further cell."""
    escaped = _MARKDOWN.sub(r"\\\g<0>", one_line(text, limit))
    # Parsers of tables differ on a backslash before a pipe, but not on an entity.
    escaped = _ENTITY.sub(lambda match: _ENTITIES[match[0]], escaped)
    # GitHub looks for mentions and issue numbers in the rendered text, where a backslash is gone.
    escaped = re.sub(r"@(?=\w)|(?<!&)#(?=\w)", r"\g<0>&#8203;", escaped)
    return re.sub(r"^([-+#=]|\d+(?=[.)]\s))", r"\\\1" if escaped[:1] in "-+#=" else r"\1\\", escaped.strip()) or " "


def markdown_code(text: object, limit: int | None = 2000) -> str:
    """Escape for one line of a fenced code block, such that it cannot end the block."""
    return visible(text, limit).replace("\n", " ").replace("```", "'''").replace("~~~", "'''")


def terminal(text: object, limit: int | None = CELL_LIMIT) -> str:
    """Escape for a terminal: one line, no escape sequence. Callers must avoid rich markup (use `rich.text.Text`)."""
    return one_line(text, limit)

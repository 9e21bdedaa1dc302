"""Text that somebody else wrote (a model, an engine, a user's file) made inert: one function per medium.

Whatever could hide, move a cursor, run or link is shown as a visible symbol instead: control characters as control
pictures (ESC is ␛), bidirectional marks, zero-width, private and unpaired code points as ⟨U+202E⟩.
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
    """The text with everything invisible made visible, cut to `limit` characters; it says how much was cut. Lines stay.

    For JUnit XML this is all that is needed besides XML's own escapes: no character is left that XML 1.0 forbids.
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
    """Safe in an element's content or a quoted attribute; lines are kept (the style sheet says pre-wrap)."""
    return escape(visible(text, limit))


def markdown(text: object, limit: int | None = CELL_LIMIT) -> str:
    """Safe in a cell of a Markdown table and in a line of text: no markup, no link, no mention, no cell of its own."""
    escaped = _MARKDOWN.sub(r"\\\g<0>", one_line(text, limit))
    # A backslash before a pipe is read differently by different parsers of tables; an entity is not.
    escaped = _ENTITY.sub(lambda match: _ENTITIES[match[0]], escaped)
    # GitHub looks for mentions and issue numbers in the rendered text, where a backslash is gone.
    escaped = re.sub(r"@(?=\w)|(?<!&)#(?=\w)", r"\g<0>&#8203;", escaped)
    return re.sub(r"^([-+#=]|\d+(?=[.)]\s))", r"\\\1" if escaped[:1] in "-+#=" else r"\1\\", escaped.strip()) or " "


def markdown_code(text: object, limit: int | None = 2000) -> str:
    """One line of a fenced code block, which cannot end it."""
    return visible(text, limit).replace("\n", " ").replace("```", "'''").replace("~~~", "'''")


def terminal(text: object, limit: int | None = CELL_LIMIT) -> str:
    """Safe on a terminal: one line, no escape sequence. Rich markup is the caller's to avoid (use `rich.text.Text`)."""
    return one_line(text, limit)

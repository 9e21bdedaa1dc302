"""Answers that are JSON: read strictly, held against a schema, and compared as values. Pure.

Every policy is in docs/answers.md. `jsonschema` does the checking, without any network: a `$ref` stays in its schema.
"""

from __future__ import annotations

import json
import re
import unicodedata
from functools import lru_cache
from typing import Any

import jsonschema
from jsonschema.protocols import Validator
from referencing import Registry

from records.wording import count
from scoring.answers.extract import Fault, Grade, Method, answer_part

DEEPEST = 100
"""Levels of nesting that are read; a client's parser has a limit too."""
SHOWN = 80
"""Characters of an answer as a report shows it."""


class NotJsonError(ValueError):
    """A text that is not one JSON value which every client reads alike."""


def read_json(text: str) -> Any:
    """Parse a whole text as one JSON value (RFC 8259), without what parsers disagree on.

    Raises:
        NotJsonError: it is none, a key stands twice in an object, it holds NaN or Infinity, or is nested too deeply.
    """
    return _checked(lambda: json.loads(text, object_pairs_hook=_object, parse_constant=_no_constant))


def _checked(parse: Any) -> Any:
    try:
        value = parse()
    except RecursionError:
        raise NotJsonError(f"nested more than {count(DEEPEST, 'level')} deep") from None
    except ValueError as error:
        raise NotJsonError(str(error)) from None
    if _is_too_deep(value):
        raise NotJsonError(f"nested more than {count(DEEPEST, 'level')} deep")
    return value


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        keys = [key for key, _ in pairs]
        raise NotJsonError(f"the key {next(key for key in keys if keys.count(key) > 1)!r} stands twice")
    return found


def _no_constant(name: str) -> None:
    raise NotJsonError(f"{name} is no JSON")


def _is_too_deep(value: Any) -> bool:
    level = [value]
    for _ in range(DEEPEST):
        level = [
            inner
            for outer in level
            if isinstance(outer, dict | list)
            for inner in (outer.values() if isinstance(outer, dict) else outer)
        ]
        if not level:
            return False
    return True


def same(a: Any, b: Any, *, exact: bool) -> bool:
    """Whether two JSON values are equal: 1 is 1.0 and not true, keys in any order, text in NFC.

    Without `exact`, text is compared without case and without white space around it or doubled in it.
    """
    if isinstance(a, bool) or isinstance(b, bool):
        return a is b
    if isinstance(a, int | float) and isinstance(b, int | float):
        return a == b
    if isinstance(a, str) and isinstance(b, str):
        return _text(a, exact) == _text(b, exact)
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(same(x, y, exact=exact) for x, y in zip(a, b, strict=True))
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(same(value, b[key], exact=exact) for key, value in a.items())
    return a is None and b is None


def _text(text: str, exact: bool) -> str:
    text = unicodedata.normalize("NFC", text)
    return text if exact else " ".join(text.split()).casefold()


def meets(schema: dict[str, Any], value: Any) -> bool:
    """Whether a value is valid by a JSON Schema (draft 2020-12 unless its `$schema` names another)."""
    try:
        return bool(_validator(json.dumps(schema, sort_keys=True)).is_valid(value))
    except RecursionError:
        return False


def check_schema(schema: dict[str, Any]) -> None:
    """Look at whether a schema is one, and refers only to itself.

    Raises:
        ValueError: in one line, what is wrong.
    """
    try:
        validator = _validator(json.dumps(schema, sort_keys=True))
        type(validator).check_schema(schema)
        for reference in re.findall(r'"\$ref": "([^"]*)"', json.dumps(schema)):
            if not reference.startswith("#"):
                raise ValueError(f"`$ref` {reference!r} is not in the schema itself")
    except jsonschema.SchemaError as error:
        raise ValueError(f"no JSON Schema: {error.message[:200]}") from None


@lru_cache(maxsize=256)
def _validator(schema: str) -> Validator:
    value = json.loads(schema)
    kind = jsonschema.validators.validator_for(value, default=jsonschema.Draft202012Validator)
    # An empty registry: a reference to elsewhere is an error, never a download.
    made: Validator = kind(value, registry=Registry())
    return made


_FENCE = re.compile(r"^[ \t]*```[\w+-]*[ \t]*\n(.*?)^[ \t]*```[ \t]*$", re.MULTILINE | re.DOTALL)
_OPENS = re.compile(r"[{\[]")


def find_json(text: str) -> tuple[Any, Method]:
    """The JSON of an answer, and where it stood: the whole text, the last code fence, or from the first bracket on.

    Raises:
        NotJsonError: there is none.
    """
    text = text.strip().removeprefix("\ufeff")
    try:
        return read_json(text), Method.JSON
    except NotJsonError as error:
        reason = error
    if fences := _FENCE.findall(text):
        return read_json(fences[-1]), Method.FENCED
    if opening := _OPENS.search(text):
        decoder = json.JSONDecoder(object_pairs_hook=_object, parse_constant=_no_constant)
        return _checked(lambda: decoder.raw_decode(text, opening.start())[0]), Method.IN_TEXT
    raise reason


def grade_json(text: str, gold: str | None, schema: dict[str, Any] | None, finish_reason: str | None) -> Grade:
    """Judge an answer that should be one JSON value: valid, by the schema, and equal to the gold where there is one.

    `correct` also takes JSON in a code fence or with text round it, and text values in other case; `strict` does not.
    """
    cut = finish_reason == "length"
    answer = answer_part(text)
    try:
        value, method = find_json(answer or "")
    except NotJsonError:
        return Grade(False, False, None, Method.NONE, cut, Fault.NOT_JSON)
    fault = None
    if schema is not None and not meets(schema, value):
        fault = Fault.SCHEMA
    elif gold is not None and not same(value, json.loads(gold), exact=False):
        fault = Fault.VALUES
    exact = gold is None or same(value, json.loads(gold), exact=True)
    correct = fault is None
    return Grade(correct, correct and exact and method == Method.JSON, shown(value), method, False, fault)


def shown(value: Any) -> str:
    """A JSON value as a report shows it: ASCII on one line, cut."""
    return json.dumps(value, separators=(",", ":"))[:SHOWN]

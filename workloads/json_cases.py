"""The cases of the task `json`: 40 short texts, each with a schema and the one value that says what the text says.

Texts are made from the values, so that every gold is right by construction.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

Schema = dict[str, Any]
EACH = 8
"""Cases of each kind."""

_NAMES = ("Ana Silva", "Björn Dahl", "Chiara Rossi", "Dmitri Orlov", "Élodie Petit", "Farah Aziz", "Goran Novak",
          "Hana Sato", "Íris Jónsdóttir", "Juan Núñez")  # fmt: skip
_ITEMS = ("lamp", "chair", "teapot", "notebook", "blanket", "rake", "clock", "basket")
_LANGUAGES = ("English", "French", "Hindi", "Korean", "Swahili", "Turkish")
_SENSORS = ("boiler", "cellar", "garage", "roof")
_MEETINGS = ("Budget review", "Team lunch", "Site visit", "Kick-off", "Retrospective")
_DISHES = ("Lentil soup", "Apple pie", "Fried rice", "Fish stew", "Pancakes")


def _object(**properties: Schema) -> Schema:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def _array(items: Schema) -> Schema:
    return {"type": "array", "items": items, "minItems": 1, "maxItems": 4}


# With limits, so that an engine that obeys the schema comes to an end whatever the model says.
_TEXT: Schema = {"type": "string", "maxLength": 40}
_WHOLE: Schema = {"type": "integer", "minimum": 0, "maximum": 1000}
_NUMBER: Schema = {"type": "number"}
_YES: Schema = {"type": "boolean"}


def _order(r: random.Random) -> tuple[str, Any]:
    value = {
        "customer": r.choice(_NAMES),
        "item": r.choice(_ITEMS),
        "quantity": r.randint(2, 12),
        "unit_price": r.randint(4, 400) / 4,
        "paid": r.random() < 0.5,
    }
    paid = "has paid" if value["paid"] else "has not paid yet"
    text = "{customer} ordered {quantity} of the item {item} at {unit_price} euros each".format(**value)
    return f"{text} and {paid}.", value


def _person(r: random.Random) -> tuple[str, Any]:
    languages = r.sample(_LANGUAGES, r.randint(1, 3))
    value = {"name": r.choice(_NAMES), "age": r.randint(18, 80), "languages": languages}
    return f"{value['name']}, {value['age']} years old, speaks {' and '.join(languages)}.", value


def _meeting(r: random.Random) -> tuple[str, Any]:
    people = [{"name": name, "role": r.choice(("host", "guest"))} for name in r.sample(_NAMES, 2)]
    date = f"2027-{r.randint(1, 12):02d}-{r.randint(1, 28):02d}"
    value = {"title": r.choice(_MEETINGS), "date": date, "people": people}
    who = " and ".join(f"{one['name']} as {one['role']}" for one in people)
    return f"{value['title']} on {date}, with {who}.", value


def _readings(r: random.Random) -> tuple[str, Any]:
    value = [
        {"sensor": sensor, "value": r.randint(-40, 400) / 4, "unit": r.choice(("C", "kPa"))}
        for sensor in r.sample(_SENSORS, r.randint(2, 3))
    ]
    return "Readings: " + ", ".join("{sensor} {value} {unit}".format(**one) for one in value) + ".", value


def _recipe(r: random.Random) -> tuple[str, Any]:
    minutes = {"prepare": 5 * r.randint(1, 6), "cook": 5 * r.randint(2, 18)}
    value = {"title": r.choice(_DISHES), "minutes": minutes, "vegetarian": r.random() < 0.5, "note": None}
    kind = "vegetarian" if value["vegetarian"] else "not vegetarian"
    text = f"{value['title']} ({kind}): {minutes['prepare']} minutes to prepare, {minutes['cook']} minutes to cook."
    return f"{text} There is no note.", value


_KINDS: dict[str, tuple[Schema, Callable[[random.Random], tuple[str, Any]]]] = {
    "order": (_object(customer=_TEXT, item=_TEXT, quantity=_WHOLE, unit_price=_NUMBER, paid=_YES), _order),
    "person": (_object(name=_TEXT, age=_WHOLE, languages=_array(_TEXT)), _person),
    "meeting": (
        _object(
            title=_TEXT,
            date={"type": "string", "pattern": "^[0-9]{4}-[0-9]{2}-[0-9]{2}$"},
            people=_array(_object(name=_TEXT, role={"type": "string", "enum": ["host", "guest"]})),
        ),
        _meeting,
    ),
    "readings": (
        _array(_object(sensor=_TEXT, value=_NUMBER, unit={"type": "string", "enum": ["C", "kPa"]})),
        _readings,
    ),
    "recipe": (
        _object(
            title=_TEXT,
            minutes=_object(prepare=_WHOLE, cook=_WHOLE),
            vegetarian=_YES,
            note={"type": ["string", "null"], "maxLength": 40},
        ),
        _recipe,
    ),
}


@dataclass(frozen=True, slots=True)
class JsonCase:
    """One text with the schema of its answer and the value that is right."""

    kind: str
    text: str
    schema: Schema
    value: Any


def json_cases(each: int = EACH, seed: int = 11) -> list[JsonCase]:
    """So many cases of each of the five kinds, by turns; the same for the same arguments."""
    r = random.Random(seed)  # noqa: S311 (seeded)
    cases = []
    for _ in range(each):
        for kind, (schema, make) in _KINDS.items():
            text, value = make(r)
            cases.append(JsonCase(kind, text, schema, value))
    return cases

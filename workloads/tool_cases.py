"""The cases of the task `tools`: 30 that need one call, 16 that need several, 14 that need none; all of our own.

Each sentence says all that a call needs, so that one set of arguments is right.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

Call = dict[str, Any]
Schema = dict[str, Any]

SYSTEM = (
    "You can call functions. Call every function that the request needs, with exactly what the request says."
    " Where no function fits, answer in words and call none."
)

_CURRENCIES = ["EUR", "USD", "GBP", "JPY", "CHF", "NOK"]
_DATE = {"type": "string", "pattern": "^[0-9]{4}-[0-9]{2}-[0-9]{2}$", "description": "as YYYY-MM-DD"}
_TIME = {"type": "string", "pattern": "^[0-9]{2}:[0-9]{2}$", "description": "as HH:MM, 24 hours"}
_TEXT = {"type": "string"}

FUNCTIONS: dict[str, tuple[str, Schema]] = {
    "get_weather": (
        "The weather in a city now.",
        {"city": _TEXT, "unit": {"type": "string", "enum": ["celsius", "fahrenheit"], "default": "celsius"}},
    ),
    "convert_currency": (
        "Convert an amount of money.",
        {
            "amount": {"type": "number"},
            "source": {"type": "string", "enum": _CURRENCIES},
            "target": {"type": "string", "enum": _CURRENCIES},
        },
    ),
    "set_alarm": ("Set an alarm.", {"time": _TIME}),
    "send_message": ("Send a text message.", {"recipient": _TEXT, "text": _TEXT}),
    "add_event": (
        "Put an event into the calendar.",
        {"title": _TEXT, "date": _DATE, "start": _TIME, "minutes": {"type": "integer", "default": 60}},
    ),
    "find_flights": ("Look for flights on a day.", {"origin": _TEXT, "destination": _TEXT, "date": _DATE}),
    "translate": (
        "Translate a text.",
        {"text": _TEXT, "language": {"type": "string", "enum": ["French", "German", "Spanish", "Polish"]}},
    ),
    "set_light": (
        "Turn the light of a room on or off.",
        {"room": {"type": "string", "enum": ["kitchen", "bedroom", "hall", "office"]}, "on": {"type": "boolean"}},
    ),
    "multiply": ("The product of two numbers.", {"a": {"type": "number"}, "b": {"type": "number"}}),
    "get_stock": ("The price of a share by its symbol.", {"symbol": {"type": "string", "pattern": "^[A-Z]{1,5}$"}}),
}

_Asked = tuple[str, str, dict[str, Any]]
"""A request in words, the function that it needs, and the arguments."""

_ONE: list[_Asked] = [
    ("What is the weather in Rome, in celsius?", "get_weather", {"city": "Rome", "unit": "celsius"}),
    ("Tell me the weather in Chicago in fahrenheit.", "get_weather", {"city": "Chicago", "unit": "fahrenheit"}),
    ("How is the weather in São Paulo right now, in celsius?", "get_weather", {"city": "São Paulo"}),
    ("Convert 250 EUR to USD.", "convert_currency", {"amount": 250, "source": "EUR", "target": "USD"}),
    ("How much is 99.5 GBP in JPY?", "convert_currency", {"amount": 99.5, "source": "GBP", "target": "JPY"}),
    ("I have 1200 NOK. What is that in CHF?", "convert_currency", {"amount": 1200, "source": "NOK", "target": "CHF"}),
    ("Wake me at 06:45.", "set_alarm", {"time": "06:45"}),
    ("Set an alarm for half past seven in the evening.", "set_alarm", {"time": "19:30"}),
    ("Please set an alarm for 05:00.", "set_alarm", {"time": "05:00"}),
    ('Send Marta the message "Running late".', "send_message", {"recipient": "Marta", "text": "Running late"}),
    ('Text "See you at noon" to Jürgen.', "send_message", {"recipient": "Jürgen", "text": "See you at noon"}),
    ('Send the message "Done" to Li Wei.', "send_message", {"recipient": "Li Wei", "text": "Done"}),
    (
        'Put "Dentist" into my calendar on 2027-03-09 at 14:30 for 45 minutes.',
        "add_event",
        {"title": "Dentist", "date": "2027-03-09", "start": "14:30", "minutes": 45},
    ),
    (
        'Add the event "Choir" on 2027-01-15, from 18:00, 90 minutes long.',
        "add_event",
        {"title": "Choir", "date": "2027-01-15", "start": "18:00", "minutes": 90},
    ),
    (
        'Add "Planning" to the calendar: 2027-06-01, start 09:00, 60 minutes.',
        "add_event",
        {"title": "Planning", "date": "2027-06-01", "start": "09:00"},
    ),
    (
        "Find flights from Lisbon to Oslo on 2027-05-20.",
        "find_flights",
        {"origin": "Lisbon", "destination": "Oslo", "date": "2027-05-20"},
    ),
    (
        "I want to fly from Osaka to Seoul on 2027-11-03. What is there?",
        "find_flights",
        {"origin": "Osaka", "destination": "Seoul", "date": "2027-11-03"},
    ),
    (
        "Which flights go from Porto to Genoa on 2027-08-30?",
        "find_flights",
        {"origin": "Porto", "destination": "Genoa", "date": "2027-08-30"},
    ),
    ('Translate "good morning" into French.', "translate", {"text": "good morning", "language": "French"}),
    ('Put "where is the station" into Polish.', "translate", {"text": "where is the station", "language": "Polish"}),
    ('Translate "thank you" into German.', "translate", {"text": "thank you", "language": "German"}),
    ("Turn on the light in the kitchen.", "set_light", {"room": "kitchen", "on": True}),
    ("Switch the office light off.", "set_light", {"room": "office", "on": False}),
    ("It is dark in the hall: turn the light on there.", "set_light", {"room": "hall", "on": True}),
    ("Use the function to multiply 317 by 29.", "multiply", {"a": 317, "b": 29}),
    ("Multiply 2.5 by 640 with the function.", "multiply", {"a": 2.5, "b": 640}),
    ("Call the function for the product of 81 and 12.", "multiply", {"a": 81, "b": 12}),
    ("What is the share price of MSFT?", "get_stock", {"symbol": "MSFT"}),
    ("Look up the stock with the symbol IBM.", "get_stock", {"symbol": "IBM"}),
    ("How much does a share of symbol SAP cost now?", "get_stock", {"symbol": "SAP"}),
]
_SEVERAL: list[tuple[int, ...]] = [
    *((0, 1), (3, 4), (6, 8), (9, 10), (15, 16), (18, 20), (21, 22), (24, 25)),
    *((27, 28), (0, 21), (3, 27), (6, 9), (12, 7), (19, 2), (0, 3, 21), (6, 9, 28)),
]
"""Places in `_ONE` that are asked together."""
_NONE = [
    "Hello! How are you?",
    "Who wrote the play Hamlet?",
    "Tell me a joke about a snail.",
    "What is the capital of Portugal?",
    "Explain in one sentence why the sky is blue.",
    "Which of the two is heavier: a kilogram of feathers or a kilogram of lead?",
    "Write two lines of verse about autumn.",
    "How many legs does a spider have?",
    "What does the abbreviation CPU stand for?",
    "Name three fruits that are red.",
    "What is a good name for a grey cat?",
    "In which month does summer begin in Australia?",
    "What is the opposite of the word early?",
    "Give me a short tip for learning to swim.",
]


@dataclass(frozen=True, slots=True)
class ToolCase:
    """One case: the request, the functions that are offered, and the calls that are right."""

    kind: str
    """one, several or none."""
    text: str
    functions: tuple[str, ...]
    calls: tuple[Call, ...]

    @property
    def request(self) -> dict[str, Any]:
        """What its request carries beside the messages."""
        return {"tools": [tool(name) for name in self.functions], "tool_choice": "auto"}


def tool(name: str) -> dict[str, Any]:
    """A function as the API describes it; what has a default is not required."""
    description, properties = FUNCTIONS[name]
    required = [key for key, schema in properties.items() if "default" not in schema]
    parameters = {"type": "object", "properties": properties, "required": required, "additionalProperties": False}
    return {"type": "function", "function": {"name": name, "description": description, "parameters": parameters}}


def tool_cases() -> list[ToolCase]:
    """All 60, always the same ones: the kinds by turns, so that a subset has some of each."""
    one = [_case("one", (asked,), place) for place, asked in enumerate(_ONE)]
    several = [_case("several", tuple(_ONE[at] for at in places), n) for n, places in enumerate(_SEVERAL)]
    none = [ToolCase("none", text, _offered((), place), ()) for place, text in enumerate(_NONE)]
    mixed: list[ToolCase] = []
    while one or several or none:
        mixed += one[:2] + several[:1] + none[:1]
        one, several, none = one[2:], several[1:], none[1:]
    return mixed


def _case(kind: str, asked: tuple[_Asked, ...], place: int) -> ToolCase:
    text = asked[0][0] if len(asked) == 1 else "Do all of this. " + " ".join(sentence for sentence, _, _ in asked)
    needed = tuple(name for _, name, _ in asked)
    calls = tuple({"name": name, "arguments": arguments} for _, name, arguments in asked)
    return ToolCase(kind, text, _offered(needed, place), calls)


def _offered(needed: tuple[str, ...], place: int) -> tuple[str, ...]:
    """The functions that are needed among others, five in all, in an order that gives nothing away."""
    names = list(FUNCTIONS)
    wanted = set(needed)
    for step in range(len(names)):
        if len(wanted) < 5:
            wanted.add(names[(3 * place + 7 * step) % len(names)])
    return tuple(name for name in names if name in wanted)

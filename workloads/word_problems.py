"""Word problems of our own in one to three steps. Numbers are drawn, every answer is computed, none is written down.

A template draws its numbers and returns the problem, the steps of a worked solution (for few-shot), and the answer.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

PROBLEMS = 60
"""How many measured problems there are: each of the templates is used, and steps 1, 2, 3 alternate."""


@dataclass(frozen=True, slots=True)
class WordProblem:
    """A problem, the lines of its worked solution, and its answer (always an integer)."""

    text: str
    solution: tuple[str, ...]
    answer: int
    steps: int


Drawn = tuple[str, tuple[str, ...], int]
Template = Callable[[random.Random, str], Drawn]

_NAMES = (
    *("Ada", "Bilal", "Chen", "Dagny", "Emeka", "Farah", "Goran", "Hana", "Ivo", "Jamila", "Kofi", "Lena"),
    *("Mateo", "Noor", "Olga", "Pavel", "Quinn", "Rosa", "Samir", "Tove", "Uma", "Viktor", "Wanda", "Yusuf", "Zoe"),
)


def _marbles(r: random.Random, name: str) -> Drawn:
    a, b = r.randint(12, 60), r.randint(5, 40)
    return (
        f"{name} has {a} marbles and finds {b} more. How many marbles does {name} have now?",
        (f"{a} + {b} = {a + b} marbles.",),
        a + b,
    )


def _pages(r: random.Random, name: str) -> Drawn:
    total, read = r.randint(150, 400), r.randint(40, 140)
    return (
        f"A book has {total} pages. {name} has read {read} of them. How many pages are left to read?",
        (f"{total} - {read} = {total - read} pages are left.",),
        total - read,
    )


def _chairs(r: random.Random, name: str) -> Drawn:
    rows, seats = r.randint(6, 15), r.randint(4, 12)
    return (
        f"{name} sets up {rows} rows with {seats} chairs in each row. How many chairs are there in total?",
        (f"{rows} * {seats} = {rows * seats} chairs.",),
        rows * seats,
    )


def _boxes(r: random.Random, name: str) -> Drawn:
    each, boxes = r.randint(4, 12), r.randint(5, 14)
    return (
        f"{name} packs {each * boxes} candles into boxes of {each}. How many boxes does {name} fill?",
        (f"{each * boxes} / {each} = {boxes} boxes.",),
        boxes,
    )


def _shopping(r: random.Random, name: str) -> Drawn:
    count, price, extra = r.randint(3, 9), r.randint(2, 8), r.randint(5, 20)
    return (
        f"{name} buys {count} notebooks at ${price} each and a pen case for ${extra}."
        f" How many dollars does {name} spend altogether?",
        (
            f"The notebooks cost {count} * {price} = {count * price} dollars.",
            f"With the pen case: {count * price} + {extra} = {count * price + extra} dollars.",
        ),
        count * price + extra,
    )


def _bus(r: random.Random, name: str) -> Drawn:
    start, off = r.randint(25, 48), r.randint(6, 20)
    on = r.randint(3, 18)
    return (
        f"{name} drives a bus with {start} passengers. At the market {off} get off and {on} get on."
        " How many passengers are on the bus then?",
        (f"{start} - {off} = {start - off} stay on.", f"{start - off} + {on} = {start - off + on} passengers."),
        start - off + on,
    )


def _sharing(r: random.Random, name: str) -> Drawn:
    friends, share, kept = r.randint(3, 8), r.randint(4, 12), r.randint(3, 15)
    total = friends * share + kept
    return (
        f"{name} picks {total} apples, keeps {kept} and shares the rest equally among {friends} friends."
        " How many apples does each friend get?",
        (
            f"{total} - {kept} = {total - kept} apples are shared.",
            f"{total - kept} / {friends} = {share} apples each.",
        ),
        share,
    )


def _minutes(r: random.Random, name: str) -> Drawn:
    hours, minutes, laps = r.randint(2, 5), r.choice((10, 15, 20, 30)), 0
    laps = hours * 60 // minutes
    return (
        f"{name} trains for {hours} hours. One lap takes {minutes} minutes. How many laps are that?",
        (f"{hours} hours are {hours} * 60 = {hours * 60} minutes.", f"{hours * 60} / {minutes} = {laps} laps."),
        laps,
    )


def _garden(r: random.Random, name: str) -> Drawn:
    rows, plants, lost, price = r.randint(4, 9), r.randint(5, 10), r.randint(3, 15), r.randint(2, 5)
    grown, sold = rows * plants, rows * plants - lost
    return (
        f"{name} plants {rows} rows of {plants} tomato plants. {lost} plants die, and {name} sells the others for"
        f" ${price} each. How many dollars does {name} earn?",
        (
            f"{rows} * {plants} = {grown} plants.",
            f"{grown} - {lost} = {sold} are sold.",
            f"{sold} * {price} = {sold * price} dollars.",
        ),
        sold * price,
    )


def _trip(r: random.Random, name: str) -> Drawn:
    first, speed, second, total = r.randint(2, 4), r.randint(40, 70), r.randint(2, 3), 0
    slower = speed - r.randint(10, 20)
    total = first * speed + second * slower
    return (
        f"{name} drives for {first} hours at {speed} km per hour and then for {second} hours at {slower} km per hour."
        f" How many kilometres does {name} drive in total?",
        (
            f"First {first} * {speed} = {first * speed} km.",
            f"Then {second} * {slower} = {second * slower} km.",
            f"{first * speed} + {second * slower} = {total} km.",
        ),
        total,
    )


def _savings(r: random.Random, name: str) -> Drawn:
    weekly, weeks, spent, gift = r.randint(8, 25), r.randint(6, 12), r.randint(10, 40), r.randint(15, 60)
    saved = weekly * weeks
    return (
        f"{name} saves ${weekly} a week for {weeks} weeks, spends ${spent} on a present and gets ${gift} for a"
        f" birthday. How many dollars does {name} have then?",
        (
            f"{weekly} * {weeks} = {saved} dollars are saved.",
            f"{saved} - {spent} = {saved - spent} are left.",
            f"{saved - spent} + {gift} = {saved - spent + gift} dollars.",
        ),
        saved - spent + gift,
    )


def _bakery(r: random.Random, name: str) -> Drawn:
    trays, per, bag = r.randint(4, 9), r.randint(8, 12), r.choice((2, 4))
    per -= per % bag
    baked, bags = trays * per, trays * per // bag
    price = r.randint(3, 7)
    return (
        f"{name} bakes {trays} trays of {per} rolls, puts them into bags of {bag} and sells each bag for ${price}."
        f" How many dollars does {name} take in when all bags are sold?",
        (
            f"{trays} * {per} = {baked} rolls.",
            f"{baked} / {bag} = {bags} bags.",
            f"{bags} * {price} = {bags * price} dollars.",
        ),
        bags * price,
    )


_TEMPLATES: tuple[tuple[Template, ...], ...] = (
    (_marbles, _pages, _chairs, _boxes),
    (_shopping, _bus, _sharing, _minutes),
    (_garden, _trip, _savings, _bakery),
)
"""By number of steps, 1 to 3."""


def word_problems(count: int = PROBLEMS, *, seed: int = 2025, names: tuple[str, ...] = _NAMES) -> list[WordProblem]:
    """Draw `count` different problems; the first n are the same whatever the count, and steps 1, 2, 3 alternate."""
    r = random.Random(seed)  # noqa: S311 (the same problems for everybody is the point)
    problems: list[WordProblem] = []
    seen: set[str] = set()
    while len(problems) < count:
        steps = len(problems) % len(_TEMPLATES)
        templates = _TEMPLATES[steps]
        text, solution, answer = templates[len(problems) // len(_TEMPLATES) % len(templates)](r, r.choice(names))
        if text not in seen:
            seen.add(text)
            problems.append(WordProblem(text, solution, answer, steps + 1))
    return problems

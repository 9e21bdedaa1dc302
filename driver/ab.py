"""Makes a profile from the command line of `enginebench ab`: engines, and cells from user numbers and a time."""

from __future__ import annotations

import json
import math
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import workloads as tasks
from driver.errors import BenchError, ExitCode
from driver.profile.fields import complete_url, looks_like_url
from driver.profile.read import find_profile, load_profile
from records import NAME
from records.endpoint import CHAT
from records.redaction import shown_argv
from workloads.conversations import FIXED
from workloads.perf_prompts import TOKENS

SCENARIOS = {1: "single", 4: "concurrent_4", 8: "concurrent_8"}
START_S = 4.0
"""Assumed seconds for an engine's start and probe."""
MEASURING_SHARE = 0.5
"""Share of a cell's time in which requests may begin; in the rest, the requests in flight end."""
AUTO_ROUNDS = 6
"""Number of rounds by which `--rounds auto` divides its time; a clear difference needs fewer."""
LEAST_CELL_S = 2.0
SHORT_CELL_S = 8.0
ANSWER_TOKENS = 256
QUESTION_TOKENS = 32
"""Default tokens of a prompt after its depth (`--input-tokens` overrides it)."""
HOOKS = ("before_cell", "after_cell", "during_cell", "on_regression")
TEMPLATE_TOKENS = 160
"""Room for a chat template around a prompt."""
MESSAGE_TOKENS = 12
"""Room for what a chat template puts around each message of a conversation."""
CHARS_PER_TOKEN = 2
"""Assumed lower limit of characters per token, to plan the context."""

Values = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Asked:
    """The command line of `ab`; None where an option was not given."""

    sides: tuple[str, ...]
    users: tuple[int, ...] = (1, 4, 8)
    prompts: str = "perf-short"
    input_tokens: int | None = None
    depths: tuple[int, ...] = ()
    turns: int | None = None
    conversations: str | None = None
    think_s: float | None = None
    carry: str = FIXED
    cache: bool = False
    output_tokens: int | None = None
    fixed_length: bool = True
    answers: tuple[tuple[str, int | None], ...] = ()
    rounds: int | str = 3
    time_s: float = 600.0
    max_seq_len: int | None = None
    slots: tuple[int, ...] = ()
    names: tuple[str, ...] = ()
    env: Mapping[str, str] | None = None
    model: str | None = None
    threads: int | None = None
    engine: str | None = None
    """The kind whose program each side is, with more words of its command line; None: whole command lines."""
    ready_timeout_s: float | None = None
    endpoint: str = CHAT
    headers: Mapping[str, str] | None = None
    hooks: Mapping[str, str] = field(default_factory=dict)
    """Command line by name of HOOKS."""


def profile_values(asked: Asked) -> Values:
    """The profile as a dictionary, as TOML would give it, for `driver.profile.read.parse_profile`.

    Raises:
        BenchError: the command line does not make a profile (exit code 2).
    """
    if len(asked.sides) < 2:
        raise _usage("give at least two engines: command lines, URLs or PROFILE:ENGINE")
    engines = engine_sections(asked)
    names = [engine["name"] for engine in engines]
    rounds = asked.rounds if isinstance(asked.rounds, int) else AUTO_ROUNDS
    _check_conversations(asked)
    speed_cells = len(asked.users) * max(len(asked.depths), 1)
    seconds = (asked.time_s / rounds / len(asked.sides) - START_S) / speed_cells * MEASURING_SHARE
    seconds = round(max(LEAST_CELL_S, seconds), 1)
    output_tokens = asked.output_tokens or (64 if seconds >= SHORT_CELL_S else 32)
    workloads = _workloads(asked, output_tokens)
    # Of conversations each cell has its own: an engine would find those of another cell in its cache.
    loads = list(zip(workloads, asked.users, strict=True)) if asked.turns else list(product(workloads, asked.users))
    cells = [
        _speed_cell(users, workload, seconds, output_tokens, asked.fixed_length)
        | ({} if asked.carry == FIXED else {"options": {"carry": asked.carry}})
        for workload, users in loads
    ]
    # The first request of a fresh server is its slowest. In further cells a warm-up would only take their time.
    cells[0]["warmup"] = 1
    sections = {name: section for name, section in workloads.items() if section}
    for task, first in asked.answers:
        cells.append({"scenario": "concurrent_4", "workload": task, "max_tokens": ANSWER_TOKENS, "rounds": 1})
        sections |= {task: {"first": first}} if first else {}
    return {
        "name": "ab",
        "description": " against ".join(names),
        "baseline": names[0],
        # A round with a profiler beside it is not compared, so one round is added.
        "rounds": asked.rounds + ("during_cell" in asked.hooks) if isinstance(asked.rounds, int) else asked.rounds,
        "time": f"{asked.time_s:g}s",
        **({} if asked.endpoint == CHAT else {"endpoint": asked.endpoint}),
        **({"cache": True} if asked.cache else {}),
        "max_seq_len": asked.max_seq_len or _context(asked, workloads, output_tokens),
        "engines": engines,
        "cells": cells,
        **({"workloads": sections} if sections else {}),
        **({"hooks": {name: _split(hook) for name, hook in asked.hooks.items()}} if asked.hooks else {}),
    }


def engine_sections(asked: Asked) -> list[Values]:
    """The engines, each with a name of its own.

    Raises:
        BenchError: there are not as many names or slots as engines (exit code 2).
    """
    for option, given in (("--name", asked.names), ("--slots", asked.slots)):
        if (given and len(given) not in (1, len(asked.sides))) or (
            option == "--name" and 1 == len(given) < len(asked.sides)
        ):
            raise _usage(f"{option} was given {len(given)} times for {len(asked.sides)} engines")
    names = asked.names or tuple(names_of(asked.sides))
    return [_engine(asked, number, name) for number, name in enumerate(names)]


def parse_answers(text: str) -> tuple[str, int | None]:
    """Parse `arithmetic:24`: the first 24 problems of arithmetic; without a number, all problems.

    Raises:
        BenchError: the task is unknown, or has no known answers (exit code 2).
    """
    name, _, number = text.partition(":")
    graded = sorted(task for task in tasks.TASKS if task not in TOKENS)
    if name not in graded or (number and not (number.isdigit() and int(number))):
        raise _usage(f"--answers {text}: expected TASK or TASK:N, such as arithmetic:24; tasks are {', '.join(graded)}")
    return name, int(number) if number else None


def names_of(sides: Sequence[str]) -> list[str]:
    """A name per side that shows its difference from the others: `parallel-4` and `parallel-1`."""
    words = [_words(side) for side in sides]
    differing = []
    for number, mine in enumerate(words):
        others = [word for place, theirs in enumerate(words) if place != number for word in theirs]
        differing.append([word for word in mine if word not in others] or mine[:1])
    names: list[str] = []
    # Use as few words as needed to distinguish all sides.
    for most in range(1, max(map(len, differing)) + 1):
        names = [_slug("-".join(mine[:most])) or f"engine-{number}" for number, mine in enumerate(differing, 1)]
        if len(set(names)) == len(names):
            return names
    return [f"{name}-{number}" for number, name in enumerate(names, 1)]


def _slug(text: str) -> str:
    slug = re.sub(r"[^A-Za-z0-9._]+", "-", text).strip("-._")[:40].strip("-._")
    return slug if NAME.fullmatch(slug) else ""


def _words(side: str) -> list[str]:
    """The words of a side that may distinguish it from another. An option with its value is one word."""
    if looks_like_url(side):
        parts = urlsplit(complete_url(side))
        return [f"port-{parts.port}" if parts.port else "", str(parts.hostname), parts.path]
    if _named_engine(side):
        return [side.rpartition(":")[2]]
    words: list[str] = []
    # A name is shown everywhere, so it must contain no secret.
    for word in shown_argv(_split(side)):
        if words and words[-1].startswith("-") and not word.startswith("-") and " " not in words[-1]:
            words[-1] += f" {Path(word).name}"
        else:
            words.append(Path(word).name if "/" in word else word)
    return words


def _split(side: str) -> list[str]:
    try:
        return shlex.split(side)
    except ValueError as error:
        raise _usage(f"{side!r}: not a command line: {str(error).lower()}") from None


def _engine(asked: Asked, number: int, name: str) -> Values:
    side = asked.sides[number]
    own: Values = {"name": name}
    if asked.slots:
        own["slots"] = asked.slots[number % len(asked.slots)]
    if asked.max_seq_len:
        own["max_seq_len"] = asked.max_seq_len
    if asked.headers:
        own["headers"] = dict(asked.headers)
    if looks_like_url(side):
        return {**own, "kind": "remote", "url": side}
    if named := _named_engine(side):
        return {**named, **own}
    words = _split(side)
    env = dict(asked.env or {})
    # As in a shell, NAME=VALUE words before the program set its environment.
    while words and (assigned := re.fullmatch(r"([A-Za-z_]\w*)=(.*)", words[0], re.DOTALL)):
        env[assigned[1]] = assigned[2]
        words.pop(0)
    if not words:
        raise _usage(f"{side!r}: holds no program")
    if asked.engine:
        own |= {"kind": asked.engine, "binary": words[0]} | ({"args": words[1:]} if words[1:] else {})
    else:
        own |= {"kind": "command", "command": words}
    own |= {"env": env} if env else {}
    own |= {"model": asked.model} if asked.model else {}
    own |= {"ready_timeout_s": asked.ready_timeout_s} if asked.ready_timeout_s else {}
    return own | ({"threads": asked.threads} if asked.threads else {})


def _named_engine(side: str) -> Values | None:
    """The engine section of PROFILE:ENGINE; None if the text is something else."""
    profile_name, colon, wanted = side.rpartition(":")
    try:
        if not colon or " " in side or not find_profile(profile_name).is_file():
            return None
    except OSError:
        return None  # too long for a file's name
    profile = load_profile(profile_name)
    for section in profile.engines:
        if section.name == wanted:
            values = section.model_dump(exclude_defaults=True, exclude={"name"}, mode="json")
            return {"max_seq_len": profile.max_seq_len, **values}
    known = ", ".join(section.name for section in profile.engines)
    raise _usage(f"{profile_name}: no engine {wanted!r}; there are {known}")


def _check_conversations(asked: Asked) -> None:
    given = [name for name in ("turns", "conversations", "depths") if getattr(asked, name)]
    if len(given) > 1:
        raise _usage(f"--{given[0]} and --{given[1].replace('depths', 'depth')} exclude each other")
    if not (asked.turns or asked.conversations):
        for option, set_ in (("think", asked.think_s is not None), ("carry", asked.carry != FIXED)):
            if set_:
                raise _usage(f"--{option}: only conversations have a use for it; give --turns or --conversations")
    if asked.conversations and asked.think_s is not None:
        raise _usage("--think: the file of --conversations says how long users think (think_s)")
    if asked.conversations and asked.cache and len(asked.users) > 1:
        raise _usage("--users: give one number with --conversations and --cache; a second cell would find all cached")


def _workloads(asked: Asked, output_tokens: int) -> dict[str, Values]:
    """The workloads of the speed cells, by name, each with its section (empty if it needs none)."""
    if asked.turns:
        lengths = {"input_tokens": asked.input_tokens or QUESTION_TOKENS, "output_tokens": output_tokens}
        section = {"synthetic": {**lengths, "turns": asked.turns, "think_s": asked.think_s or 0.0}}
        name = f"turns-{asked.turns}"
        return {name if len(asked.users) == 1 else f"{name}-at-{users}": section for users in asked.users}
    if asked.depths:
        own = asked.input_tokens or QUESTION_TOKENS
        return {f"depth-{depth}": {"synthetic": {"input_tokens": depth + own}} for depth in asked.depths}
    if asked.input_tokens:
        return {f"synthetic-{asked.input_tokens}": {"synthetic": {"input_tokens": asked.input_tokens}}}
    prompts = asked.conversations or asked.prompts
    if not prompts.endswith((".jsonl", ".json")):
        return {prompts: {}}
    name = re.sub(r"[^A-Za-z0-9_-]+", "-", Path(prompts).stem).strip("-_") or "prompts"
    return {name: {"file": str(Path(prompts).absolute())}}


def _speed_cell(users: int, workload: str, seconds: float, output_tokens: int, fixed_length: bool) -> Values:
    own = {} if users in SCENARIOS else {"users": users, "name": f"concurrent_{users}.{workload}"}
    return {
        "scenario": SCENARIOS.get(users, "closed_loop"),
        "workload": workload,
        **own,
        "duration_s": seconds,
        "max_tokens": output_tokens,
        "fixed_length": fixed_length,
    }


def _context(asked: Asked, workloads: Mapping[str, Values], output_tokens: int) -> int:
    """Tokens per slot for the longest prompt and its answer, in steps of 256."""
    tokens = _longest_prompt(asked, workloads) + output_tokens
    answers = [2 * ANSWER_TOKENS, *(_longest_own(task) + ANSWER_TOKENS for task, _ in asked.answers)]
    needed = TEMPLATE_TOKENS + max(tokens, *(answers if asked.answers else [0]))
    return math.ceil(needed / 256) * 256


def _longest_own(task: str) -> int:
    """Tokens of the longest prompt, at most, of a task of our own whose requests hold tools or a schema; else 0."""
    if tasks.TASKS[task].data_set is not None:
        return 0
    prompts = [prompt for prompt in tasks.load_prompts(task) if prompt.request]
    texts = [json.dumps([prompt.messages, (prompt.request or {}).get("tools")]) for prompt in prompts]
    return math.ceil(max(map(len, texts), default=0) / CHARS_PER_TOKEN)


def _longest_prompt(asked: Asked, workloads: Mapping[str, Values]) -> int:
    """Tokens of the longest prompt of the speed cells, at most."""
    planned = [section["synthetic"] for section in workloads.values() if "synthetic" in section]
    if planned:
        return max(_longest_planned(**lengths) for lengths in planned)
    option, name = ("conversations", asked.conversations) if asked.conversations else ("prompts", asked.prompts)
    try:
        prompts = tasks.load_prompts(name)
    except tasks.TaskError as error:
        raise _usage(f"--{option} {error}") from None
    longest = max(map(_chars, prompts))
    return TOKENS.get(name, math.ceil(longest / CHARS_PER_TOKEN))


def _longest_planned(input_tokens: int, output_tokens: int = 0, turns: int = 1, **_: Any) -> int:
    """Tokens of the last turn's prompt, with room for a chat template around each message."""
    return input_tokens if turns == 1 else turns * (input_tokens + 2 * MESSAGE_TOKENS) + (turns - 1) * output_tokens


def _chars(prompt: tasks.Prompt) -> int:
    """Characters of a prompt, or of all that is said in a conversation."""
    said = [message["content"] for message in prompt.messages]
    said += [text for turn in prompt.turns for text in (turn.user, turn.assistant or "")]
    return sum(map(len, said)) + len(prompt.turns) * 2 * MESSAGE_TOKENS * CHARS_PER_TOKEN


def to_toml(values: Values) -> str:
    """A profile as TOML text for `run` and `nightly`."""
    lines = [f"{key} = {_toml(value)}" for key, value in values.items() if not isinstance(value, list | dict)]
    for key, value in values.items():
        tables = value if isinstance(value, list) else []
        for table in tables:
            lines += ["", f"[[{key}]]", *(f"{name} = {_toml(item)}" for name, item in table.items())]
        if isinstance(value, dict):
            lines += ["", f"[{key}]", *(f"{name} = {_toml(item)}" for name, item in value.items())]
    return "\n".join(lines) + "\n"


def _toml(value: Any) -> str:
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{json.dumps(key)} = {_toml(item)}" for key, item in value.items()) + " }"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_toml, value)) + "]"
    # JSON strings, numbers, true and false are valid TOML, apart from the DEL character.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def _usage(message: str) -> BenchError:
    return BenchError(message, ExitCode.USAGE)

"""The public problem sets: where they come from, how a local JSONL of one is read, and what must hold of it.

Standard library only, since the load process reads prompts through it. `workloads.fetch` writes the files read here.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from records.files import parse_json, require_regular

DATA_ENV = "ENGINEBENCH_DATA"
SHIPPED = Path(__file__).resolve().parents[1] / "offline" / "data"
"""What `ship` brings along; in a checkout that nobody shipped it is absent."""


class TaskError(ValueError):
    """Prompts that can't be had. The message is one line: what, where, and what to do about it."""


@dataclass(frozen=True, slots=True)
class Source:
    """A data set on the Hugging Face hub: its configs are read in this order and joined."""

    repo: str
    configs: tuple[str | None, ...]
    split: str
    revision: str | None
    """Commit of the data set; None where the specification pins none (the golds are checked instead)."""


@dataclass(frozen=True, slots=True)
class DataSet:
    """One problem set: `sources` in order of preference, and what a complete copy of it must look like."""

    name: str
    sources: tuple[Source, ...]
    rows: int
    golds: tuple[int, ...] | None = None
    """Every gold, in the set's own order, where the set is small enough to list."""
    columns: tuple[str, ...] = ("id", "question", "problem", "answer")
    """The columns that are kept of a copy."""
    read: Callable[[Any, int, str, str], Problem] | None = None
    """Takes a row, its index, the set's name and the place; None: `to_problem`."""

    def problem(self, row: Any, index: int, where: str) -> Problem:
        """Take one row of any copy of the set; `index` (from 0) names a row that has no id.

        Raises:
            TaskError: the row cannot be used.
        """
        return (self.read or to_problem)(row, index, self.name, where)


@dataclass(frozen=True, slots=True)
class Problem:
    """One problem with its gold: a plain integer, such as "-3" or "70000", or the letter of one of its choices."""

    id: str
    text: str
    gold: str
    choices: tuple[str, ...] = ()


def default_data_dir() -> Path:
    """Where problem sets are kept: `ENGINEBENCH_DATA`, else what was shipped with this tree, else the user's cache."""
    if named := os.environ.get(DATA_ENV):
        return Path(named)
    return SHIPPED if SHIPPED.is_dir() else Path.home() / ".cache" / "enginebench" / "data"


def local_path(data_set: DataSet, data_dir: Path | None) -> Path:
    """Where the local copy of a set lies, or would."""
    return (data_dir or default_data_dir()) / f"{data_set.name}.jsonl"


def load_problems(data_set: DataSet, data_dir: Path | None = None) -> list[Problem]:
    """Read the local copy of a set that `fetch` (or the user) has placed.

    Raises:
        TaskError: there is no file, it is not the one that was fetched, or it is not this set.
    """
    path = local_path(data_set, data_dir)
    try:
        if not path.is_dir():
            require_regular(path)
        content = path.read_bytes()
    except FileNotFoundError:
        raise TaskError(
            f"{data_set.name}: no {path}; run `enginebench fetch {data_set.name}` where there is network, or place"
            f" a JSONL copy with `enginebench fetch {data_set.name} --from FILE`"
        ) from None
    except OSError as error:
        raise TaskError(f"{data_set.name}: can't read {path}: {error.strerror}") from None
    except ValueError as error:
        raise TaskError(f"{data_set.name}: {error}") from None
    recorded = fetch_note(path).get("sha256")
    if recorded is not None and recorded != hashlib.sha256(content).hexdigest():
        raise TaskError(f"{path}: changed since it was fetched (its hash is another); fetch {data_set.name} again")
    return parse_problems(data_set, content, str(path))


def fetch_note(path: Path) -> dict[str, Any]:
    """What `fetch` wrote down beside a local copy: source, revision, sha256, rows; empty where it wrote nothing."""
    try:
        note = json.loads(path.with_suffix(".fetch.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return note if isinstance(note, dict) else {}


def parse_problems(data_set: DataSet, content: bytes, where: str) -> list[Problem]:
    """Parse JSONL rows (`question` or `problem`, `answer`, perhaps `id` and choices), and check the set as a whole.

    Raises:
        TaskError: a row can't be used, or this is not the set it should be; the message names file and line.
    """
    problems: list[Problem] = []
    for number, line in enumerate(content.splitlines(), start=1):
        if not line.strip():
            continue
        try:
            row = parse_json(line)
        except ValueError as error:
            raise TaskError(f"{where}:{number}: not JSON: {error}") from None
        problems.append(data_set.problem(row, len(problems), f"{where}:{number}"))
    check(data_set, problems, where)
    return problems


def to_problem(row: Any, index: int, prefix: str, where: str) -> Problem:
    """Take one row of any copy of a set; `index` (from 0) names a row that has no id.

    Raises:
        TaskError: no text or no integer gold, or a control character in the text.
    """
    if not isinstance(row, dict):
        raise TaskError(f"{where}: a JSON object was expected")
    text = row.get("question", row.get("problem"))
    if not isinstance(text, str) or not text.strip():
        raise TaskError(f"{where}: no text under `question` or `problem`")
    if control := control_character(text):
        raise TaskError(
            f"{where}: the text holds the control character {control}, as copies do that decoded \\f of \\frac as a"
            " form feed; take another copy"
        )
    gold = normalise_gold(row.get("answer", row.get("gold")))
    if gold is None:
        raise TaskError(f"{where}: no integer under `answer` (a number, or a solution that ends in `#### N`)")
    named = row.get("id")
    return Problem(str(named) if named not in (None, "") else f"{prefix}-{index + 1:04d}", text.strip(), gold)


def check(data_set: DataSet, problems: list[Problem], where: str) -> None:
    """Whether these are all problems of the set.

    Raises:
        TaskError: the number of rows, the ids or the golds are not those of the set.
    """
    if len(problems) != data_set.rows:
        raise TaskError(f"{where}: {len(problems)} rows, but {data_set.name} has {data_set.rows}")
    if len({problem.id for problem in problems}) != len(problems):
        raise TaskError(f"{where}: two rows have the same id")
    if data_set.golds is None:
        return
    # Copies order the problems differently; the golds are what they agree on.
    unknown = sorted(int(problem.gold) for problem in problems)
    if unknown != sorted(data_set.golds):
        odd = next(p for p in problems if unknown.count(int(p.gold)) != data_set.golds.count(int(p.gold)))
        raise TaskError(f"{where}: the golds are not those of {data_set.name} (problem {odd.id} has {odd.gold})")


_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def control_character(text: str) -> str | None:
    """The first control character other than newline and tab, as `U+000C`; None if there is none."""
    found = _CONTROL.search(text)
    return f"U+{ord(found[0]):04X}" if found else None


def without_controls(text: str) -> str:
    """The text with a space for each such character, and none around it."""
    return _CONTROL.sub(" ", text).strip()


_INTEGER = re.compile(r"([-+]?)\$?0*(\d{1,30})(?:\.0*)?")


def normalise_gold(answer: Any) -> str | None:
    """The integer that a set means by its answer: 70, "033", "70.0", "... #### 1,450,000"; None if it is none."""
    if isinstance(answer, bool) or not isinstance(answer, int | float | str):
        return None
    text = str(answer).rpartition("####")[2].replace(",", "").replace("\N{MINUS SIGN}", "-").strip()
    found = _INTEGER.fullmatch(text)
    return str(int(found[1] + found[2])) if found else None

"""Extracts the answer from a completion and grades it. Pure, exact, linear in the completion's length.

docs/answers.md has the order in which places are searched, and every policy. Change `GRADER_VERSION` with any change of
a verdict: it is stored with every result.
"""

from __future__ import annotations

import re
from collections import deque
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction

from records.thinking import TAGS
from scoring.answers.numbers import LONGEST, NEGATIVE, numbers, plain, value, value_around, value_of_plain

GRADER_VERSION = "3"


class Method(StrEnum):
    """Where the answer stood; of numbers and text in the order of preference."""

    BOXED = "boxed"
    HASH = "hash"
    PHRASE = "phrase"
    LAST_NUMBER = "last_number"
    WHOLE = "whole"
    LINE = "line"
    LAST_LETTER = "last_letter"
    JSON = "json"
    FENCED = "fenced"
    IN_TEXT = "in_text"
    TOOL_CALLS = "tool_calls"
    TEXT = "text"
    NONE = "none"


class Fault(StrEnum):
    """What is wrong with an answer that should be JSON or tool calls; the first of these that holds."""

    NOT_JSON = "not_json"
    FUNCTION = "function"
    SCHEMA = "schema"
    VALUES = "values"


@dataclass(frozen=True, slots=True)
class Grade:
    """The verdict on one completion."""

    correct: bool
    """The flexible verdict: any place counts."""
    strict: bool
    """The strict verdict: a bare last number does not count as an answer."""
    answer: str | None
    """The number as an exact string ("18", "1/3"), or the text that is not one number; None if there is no answer."""
    method: str
    truncated: bool
    """Whether the text was cut at the token limit before an answer was complete (such an answer is wrong)."""
    fault: str | None = None
    """A `Fault`, for an answer that should be JSON or tool calls."""


@dataclass(frozen=True, slots=True)
class _Extracted:
    text: str
    number: Fraction | None
    method: Method
    closed: bool
    """Whether more tokens could not have changed it."""


def grade(task: str, completion: str, gold: str | None, finish_reason: str | None = "stop") -> Grade:
    """Judge a completion against its gold. Never raises for any text.

    Args:
        task: gsm8k, arithmetic, aime*, amc*: the answer is a number. Any other task (a user's file) is graded the same
            way if its gold is a number, else as text.
        completion: the model's text, without reasoning that the engine delivers separately.
        gold: the right answer; with None every answer is wrong.
        finish_reason: the engine's; with "length" an answer that is not complete is truncated and wrong.
    """
    text = answer_part(completion)
    as_text = gold is not None and value(gold.rpartition("####")[2]) is None
    found = (
        None if text is None else (_boxed(text) or _stated_text(text, gold or "") if as_text else None) or _find(text)
    )
    cut = finish_reason == "length"
    if found is None or (cut and not found.closed):
        return Grade(False, False, None, Method.NONE, cut)
    correct = gold is not None and _agree(found, gold)
    answer = found.text if found.number is None else str(found.number)
    return Grade(correct, correct and found.method != Method.LAST_NUMBER, answer, found.method, False)


def _agree(found: _Extracted, gold: str) -> bool:
    wanted = value(gold.rpartition("####")[2])
    if wanted is not None:
        return found.number == wanted
    return _folded(found.text) == _folded(plain(gold[:LONGEST]))


def _folded(text: str) -> str:
    return re.sub(r"[\s()*.]+", "", text).casefold()


# gpt-oss without its special tokens: "analysisWe need ...assistantfinal18".
_THOUGHT_BEGINS = re.compile("|".join(re.escape(begin) for begin, _ in TAGS) + r"|\Aanalysis(?=[A-Z])")
_THOUGHT_ENDS = re.compile("|".join(re.escape(end) for _, end in TAGS) + "|assistantfinal")
_SPECIAL = re.compile(r"<[|｜][^<>|｜\n]{1,64}[|｜]>")
_RUN_ON = re.compile(r"\n(?:Question|Problem):")


def answer_part(completion: str) -> str | None:
    """The text without thinking, special tokens and invented further problems; None if it never answers."""
    ends = deque(_THOUGHT_ENDS.finditer(completion), maxlen=1)
    text = completion[ends[0].end() :] if ends else completion
    if _THOUGHT_BEGINS.search(text):
        return None
    text = _SPECIAL.sub("", text)
    # A model may restate its problem first. Only after a possible answer is it the next problem.
    digit = re.search(r"\d", text)
    run_on = _RUN_ON.search(text, digit.end()) if digit else None
    return text[: run_on.start()] if run_on else text


def _find(text: str) -> _Extracted | None:
    return _boxed(text) or _hash_line(text) or _stated(text) or _last_number(text)


def _balanced(depth: int) -> str:
    """A pattern for text with balanced braces, up to a depth; possessive, so that a failure does not backtrack."""
    inside = rf"|\{{{_balanced(depth - 1)}\}}" if depth else ""
    return rf"(?:[^{{}}\\]++|\\.{inside})*+"


BOX = re.compile(
    rf"(?:boxed|fbox)\s*+(?:\{{({_balanced(4)})\}}|(?<=\s)(-?\$?\d[\d,.]*))",
    re.DOTALL,
)


# An instruction that is repeated: \boxed{}, \boxed{...}, \boxed{your final answer}.
_NO_ANSWER = re.compile(r"[\W_]*?(?:\\text\{)?(?:(?:the|your|final) )*+(?:(?:answer|ANSWER|Answer)[\W_]*)?")


def _boxed(text: str) -> _Extracted | None:
    """The last box that closes and is not empty; for nested boxes the innermost."""
    last = ""
    for found in BOX.finditer(text):
        if _NO_ANSWER.fullmatch((content := found[1] or found[2] or "")[:LONGEST]) is None:
            last = content
    if not last:
        return None
    if "box" in last and (inner := _boxed(last)):
        return inner
    return _Extracted(_shown(last), value(last), Method.BOXED, closed=True)


_HASH_LINE = re.compile(r"^[ \t>*]*####+[ \t]*([^\n]{1,120})$", re.MULTILINE)
# Words with a capital make a heading; a unit of capitals, such as L or MB, does not.
_HASH_ANSWER = re.compile(r"[\s=]*(?!\d+[.)]\s+\S)[^A-Za-z\s_][^A-Z]*(?:(?<![A-Za-z])[a-z]?[A-Z]{1,3}\b\W*)?")


def _hash_line(text: str) -> _Extracted | None:
    """The last `#### N` line. `#### Step 1`, `#### 1. Sum up` and `#### 3 Steps` are headings."""
    for found in reversed(deque(_HASH_LINE.finditer(text), maxlen=32)):
        line = plain(found[1])
        number = value_of_plain(line)
        if number is not None and _HASH_ANSWER.fullmatch(line):
            return _Extracted(_shown(found[1]), number, Method.HASH, closed=found.end() < len(text))
    return None


_ANSWER_WORD = re.compile(
    # Literals only: the regex engine then searches them at C speed.
    "answer|Answer|ANSWER|答案|réponse|Réponse|respuesta|Respuesta|resposta|Resposta|risposta|Risposta|Antwort|ответ|Ответ"
)
_IS = re.compile(
    r"[^.:：。=\d\n]{0,40}?(?:\b(?:is|are|be|equals|est|es|é|è|ist|lautet)\b|[:：=是为為]|(?P<heading>[*_]*[ ]*\n))"
)
# "add 1 to get the final answer: 5 + 1 = 6" is a step.
_ON_THE_WAY = re.compile(
    r"\b(?:get|find|obtain|reach|determine|calculate)\s+(?:us |you )?(?:the|your|our|an) (?:final )?$"
)
_SENTENCE_END = re.compile(r"[.!?](?=\s|$)|[。\n]")
_FILLER = frozenset(
    {"the", "about", "approximately", "around", "roughly", "simply", "just", "exactly", "therefore", "thus", "then"}
    | {"equal", "equals", "to", "is", "x", "n"}
)
_ANOTHER_VALUE = re.compile(
    r"\s*(?:(?:or|and|to|and/or|,|;|或)\s*[-+]?\d|and (?:a|one|two|three)[ -](?:half|halves|third|quarter|fifth|eighth)"
    r"|(?:[A-Za-z]+ ){1,2}(?:and|or) [-+]?\d"
    r"|(?:hours?|h|minutes?|days?|weeks?|months?|years?|feet|foot|ft|pounds?|lbs?|dollars?|m|km|kg),? \d)"
)
_UNFINISHED = re.compile(r"\s*(?:[+\-*/^][\s(]*|and(?: a)?\s*)")
"""An operator or "and" after a number at the end of a cut text: the number would have become a different one."""
_NEGATED = re.compile(r"\bnot\b|n't\b", re.I)


_WHY = re.compile(r"\s*(?:[;(]|,\s*(?:the|an?|which|since|because|as|so|where|who)\b|\b(?:because|since)\b)")
_OPTION = re.compile(r"(?:(?:option|choice|letter|the|simply)\s+)*+(?:\(?([A-Za-z])(?:\)|[.:](?=\s))[\s:]*)?", re.I)


def _stated_text(text: str, gold: str) -> _Extracted | None:
    """The last "#### ...", "answer is ..." or "Answer: ..." of a completion whose gold is no number.

    In "(B) Paris, the capital" both B and Paris are answers; `gold` decides which of the two is compared.
    """
    starts = [(found.start(1), Method.HASH) for found in deque(_HASH_LINE.finditer(text), maxlen=1)]
    for word in reversed(deque(_ANSWER_WORD.finditer(text), maxlen=32)):
        if verb := _IS.match(text, word.end()):
            starts.append((verb.end(), Method.PHRASE))
            break
    for start, method in starts:
        statement = plain(text[start : start + LONGEST]).lstrip(" \t\r\n*_:#>\"'")
        option = _OPTION.match(statement)
        body = option.end() if option else 0
        end = _SENTENCE_END.search(statement, body)
        sentence = statement[: end.start()] if end else statement
        reason = _WHY.search(sentence, body)
        said = sentence[: reason.start()] if reason else sentence
        ways = [sentence, said, said[body:]] + ([option[1]] if option and option[1] else [])
        wanted = _folded(plain(gold[:LONGEST]))
        matching = [way for way in ways if _folded(way.strip(" \t_'\"")) == wanted]
        if said.strip():
            shown = (matching or [said])[0].strip(" \t_'\"")
            return _Extracted(shown, None, method, closed=end is not None or reason is not None)
    return None


def _stated(text: str) -> _Extracted | None:
    """The last "answer is ..." or "Answer: ..." that states one number."""
    for word in reversed(deque(_ANSWER_WORD.finditer(text), maxlen=32)):
        verb = _IS.match(text, word.end())
        if verb is None or _ON_THE_WAY.search(text[max(0, word.start() - 30) : word.start()]):
            continue
        statement = plain(text[verb.end() : verb.end() + LONGEST])
        # Under a heading a hyphen is the bullet of a list, not a sign.
        found = _statement(statement.lstrip(" \t\r\n*_:#>-" if verb["heading"] else " \t\r\n*_:#>"))
        if found is not None:
            return found
    return None


def _statement(text: str) -> _Extracted | None:
    """The number that a sentence after "answer is" states; None if it states none, or it is unclear which."""
    end = _SENTENCE_END.search(text)
    sentence = text[: end.start()] if end else text
    sentence = NEGATIVE.sub("-", sentence)
    # "9 * 2 = 18" states 18, "18, since 9 * 2 = 18" the first.
    while (sides := re.match(r"[^,;(=]*=\s*(?=\S)", sentence)) and not re.search(
        r"\b(?:because|since|as|for)\b", sides[0]
    ):
        sentence = sentence[sides.end() :]
    found = list(numbers(sentence))
    if not found:
        return None
    first, lead = found[0], sentence[: found[0].start()]
    words = {word.lower() for word in re.findall(r"[^\W\d_]+", lead)}
    if _NEGATED.search(lead) or (len({match[0] for match in found}) > 1 and not words <= _FILLER):
        return None
    behind = sentence[first.end() :]
    if _ANOTHER_VALUE.match(behind):
        return _Extracted(_shown(sentence), None, Method.PHRASE, closed=True)
    closed = bool(re.match(r"[.,]?[^\d.,]", behind + (text[end.start() :] if end else "")))
    closed = closed and _UNFINISHED.fullmatch(behind + (text[end.start() :] if end else "")) is None
    number = value_around(sentence, first.start(), first.end())
    return _Extracted(_shown(first[0] if number is not None else sentence), number, Method.PHRASE, closed)


def _last_number(text: str) -> _Extracted | None:
    """The last number in the text; it is never closed, because more tokens could replace it."""
    backwards = re.search(r"\d", text[::-1])
    if backwards is None:
        return None
    end = len(text) - backwards.start()
    around = plain(text[max(0, end - LONGEST // 2) : end + 40])
    *_, last = None, *numbers(around)
    return (
        None if last is None else _Extracted(_shown(last[0]), value_of_plain(last[0]), Method.LAST_NUMBER, closed=False)
    )


def _shown(text: str) -> str:
    """An answer as a report shows it: one line without markup."""
    return " ".join(plain(text[:LONGEST]).split())[:80]

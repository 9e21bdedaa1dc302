r"""Finds the letter of a multiple-choice answer, A to J. Pure, linear; policies in docs/answers.md.

The order: the last `\boxed`, the last "answer is"/"Answer:", a line that is only a letter (or begins with one as an
option does), and, flexibly, the last letter that is marked as one.
"""

from __future__ import annotations

import re

from scoring.answers.extract import BOX, Grade, Method, answer_part
from scoring.answers.numbers import LONGEST, plain

_MARKS = r"[\s*_`\"'“”‘’>#~]*"
_LETTER = r"(?<![A-Za-z])([A-J])(?![A-Za-z'’])"
_PHRASE = re.compile(
    r"(?:answer|Answer|ANSWER|choice|Choice|option|Option)\b[^.\n:A-J]{0,40}?(?:\bis\b|\bare\b|:|=)",
)
_STATED = re.compile(
    rf"(?:{_MARKS}(?:the|option|choice|letter|correct|answer|is|:)\b)*{_MARKS}[:(\[{{]*{_MARKS}{_LETTER}", re.I
)
# Behind an A or I that is a word: "A good question", "I think". Behind a letter that is an answer: "A because ...".
_A_WORD = re.compile(r"\s+(?!(?:because|since|as|is|for|which|with|and|or|with|due|given|by)\b)[a-z]")
_ANOTHER = re.compile(rf"[\s*_)\].:]*(?:,|/|&|\bor\b|\band\b|\bor else\b){_MARKS}\(?{_LETTER}(?![a-z])")
_LINE = re.compile(rf"^{_MARKS}[(\[]?{_MARKS}([A-J]){_MARKS}(?:[)\].:]|$)", re.MULTILINE)
_ALONE = re.compile(rf"^{_MARKS}[(\[]?{_MARKS}([A-J]){_MARKS}[)\].:]*{_MARKS}$", re.MULTILINE)
_MARKED = re.compile(r"\(([A-J])\)|\*\*\(?([A-J])\)?[.:]?\*\*|(?<![A-Za-z])([B-HJ])(?![A-Za-z'’])")


def grade_choice(text: str, gold: str, finish_reason: str | None) -> Grade:
    """Judge an answer that should name one letter; `strict` without the last letter that merely stands in the text."""
    cut = finish_reason == "length"
    answer = answer_part(text)
    letters, method = _find(answer or "")
    if not letters or (cut and method in (Method.LINE, Method.LAST_LETTER)):
        return Grade(False, False, None, Method.NONE, cut)
    correct = letters == {gold.strip().upper()}
    return Grade(correct, correct and method != Method.LAST_LETTER, " ".join(sorted(letters)), method, False)


def _find(text: str) -> tuple[set[str], Method]:
    """The letters that an answer names (two are one too many), and where they stood."""
    boxes = [found for found in BOX.finditer(text) if (found[1] or "").strip()]
    if boxes:
        inside = plain(boxes[-1][1][:LONGEST])
        letters = set(re.findall(_LETTER, re.sub(r"\s*[:.)]\s.*", "", inside, flags=re.DOTALL)))
        if letters:
            return letters, Method.BOXED
    for phrase in reversed(list(_PHRASE.finditer(text))[-32:]):
        behind = text[phrase.end() : phrase.end() + LONGEST]
        if letters := _stated(re.sub(r"\\(?:text|mathrm|mathbf|textbf)\{|[$}]", "", behind)):
            return letters, Method.PHRASE
    if alone := _ALONE.findall(text):
        return {alone[-1]}, Method.LINE
    listed = _LINE.findall(text)
    # An answer that begins as an option does; more of them are the options repeated.
    if len(listed) == 1:
        return {listed[0]}, Method.LINE
    *_, last = None, *_MARKED.finditer(text)
    return ({last[1] or last[2] or last[3]} if last else set()), Method.LAST_LETTER


def _stated(behind: str) -> set[str]:
    """The letters right behind "answer is"."""
    found = _STATED.match(behind)
    if found is None or found[1] not in "ABCDEFGHIJ":
        return set()
    end = found.end()
    if found[1] in "AI" and not re.search(r"[(\[*]", behind[: found.start(1)]) and _A_WORD.match(behind, end):
        return set()
    letters = {found[1]}
    while another := _ANOTHER.match(behind, end):
        letters.add(another[1])
        end = another.end()
    return letters

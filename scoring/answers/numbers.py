r"""Parses one exact number from the notations that models use. Linear in its input, standard library only.

`value("x = \dfrac{18}{2} \text{ cups}")` is 9. Text that is not exactly one number (a list, a range, a time, an
expression with a variable) has no value. The functions are for short texts: callers cut them to `LONGEST` characters.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from fractions import Fraction
from math import isqrt

LONGEST = 400
"""Largest length of an answer in characters; longer text is no answer."""

_FRAC, _SQRT = "\ue000", "\ue001"  # stand for \frac and \sqrt, which are then single characters of an expression

_VULGAR = {character: f" {unicodedata.normalize('NFKC', character)}" for character in "½⅓⅔¼¾⅕⅖⅗⅘⅙⅚⅛⅜⅝⅞"}
_SUPERSCRIPTS = str.maketrans(dict(zip("⁰¹²³⁴⁵⁶⁷⁸⁹", (f"^{digit}" for digit in "0123456789"), strict=True)) | _VULGAR)
_LIKE_ASCII = str.maketrans(
    dict.fromkeys("\N{MINUS SIGN}\N{HYPHEN}\N{NON-BREAKING HYPHEN}\N{FIGURE DASH}\N{EN DASH}", "-")
    | dict.fromkeys("×∙⋅·", "*")
    | {"÷": "/", "⁄": "/", "٫": ".", "٬": ",", "≡": "=", "≈": "=", "√": _SQRT}
    | dict.fromkeys("$€£¥₹₩°`\N{ZERO WIDTH SPACE}\N{WORD JOINER}\N{ZERO WIDTH NO-BREAK SPACE}\N{SOFT HYPHEN}", "")
)


def _rules(*rules: tuple[str, str]) -> tuple[tuple[re.Pattern[str], str], ...]:
    return tuple((re.compile(pattern), replacement) for pattern, replacement in rules)


_GROUP = "(?<=\\d)%s(?=\\d{3}(?!\\d))"  # between a digit and exactly three
_LATEX = _rules(
    (r"\\{2,}(?=[a-zA-Z$%,!])", r"\\"),  # escaped twice on its way
    (_GROUP % r"(?:\{,\}|\\[,;:! ]|,\\!)", ","),  # 1{,}000 and 1\,000
    (r"\{,\}", ","),
    (r"\\(?:pounds|euro|texteuro|yen|textyen|textsterling)(?![a-zA-Z])", ""),
    (r"\^\s*(?:\\circ|\{\s*\\circ\s*\})|\\degree|\\[!%#]|%", ""),
    (r"\\(?:text|math|mbox)[a-z]*\s*\{([^{}\\]*)\}", r" \1 "),
    (r"\\(?:text|math|operatorname|mbox|hbox|emph|underline|boldsymbol|bm|boxed|fbox)[a-z]*\*?(?=\s*\{)", ""),
    (r"\\(?:text)?color\s*\{[a-z]*\}|\\(?:left|right|displaystyle|textstyle|bf|rm|large|Large|huge|Huge)\b", ""),
    (r"\\p?mod\s*\{[^{}]*\}|\\[bp]?mod\s*\d+", ""),
    (r"\\(?:times|cdot|ast)(?![a-zA-Z])", "*"),
    (r"\\div(?![a-zA-Z])", "/"),
    (r"\\(?:approx|simeq|equiv|sim)(?![a-zA-Z])", "="),
    (r"\\[dtc]?frac\s*(?![a-z])", _FRAC),
    (r"\\sqrt\s*(?=[{\d])", _SQRT),
    (_FRAC + r"(\d)", _FRAC + r"{\1}"),  # \frac42, \frac{18}2
    (_FRAC + r"(\{[^{}]*\})\s*(\d)", _FRAC + r"\1{\2}"),
    (_SQRT + r"(\d+)", _SQRT + r"{\1}"),
    (r"\\[{}]|\\[()\[\]]", " "),  # a set of one, math delimiters
    (r"\\q?quad(?![a-zA-Z])|\\\\|\\[,;: ]|[~&]", " "),
    (r"\*\*|__", ""),  # markdown
)


def plain(text: str) -> str:
    """The text without markup: NFKC, ASCII signs, LaTeX commands unwrapped or turned into operators, braces as parens.

    An unknown LaTeX command keeps its backslash, so that no number is read across it.
    """
    text = re.sub(rf"\\+(?=[$€£¥])|[{_FRAC}{_SQRT}]", "", text)
    # Must come before NFKC, which turns 3½ into 31/2, 10⁴ into 104, and a no-break space into a space.
    text = re.sub(_GROUP % "[\u00a0\u2009\u202f']" + "|(?<=\\d) (?=000(?!\\d))", ",", text.translate(_SUPERSCRIPTS))
    text = unicodedata.normalize("NFKC", text).translate(_LIKE_ASCII)
    for pattern, replacement in _LATEX:
        text = pattern.sub(replacement, text)
    return text.replace("{", "(").replace("}", ")")


_THOUSANDS = re.compile(r"(?<![\d.])\d{1,3}(?:,\d{2,3})*,\d{3}(?![\d,])")
_SPACED = re.compile(r"(?<![\d.,] )(?<![\d.])\d{1,3}(?: \d{3})+(?! ?\d)")
NEGATIVE = re.compile(r"\b(?:[Mm]inus|[Nn]egative)\s+(?=[\d.])")
_WHOLE = _rules(
    (NEGATIVE.pattern, "-"),
    (r"^\s*[A-Za-z][A-Za-z ]*:\s*(?=\S)", ""),  # a label: Total: 18
    (r"^\s*\(?[A-E]\)\s*(?=\S)", ""),  # the letter of an option before its value
    (r"(?<=\w)\s*\(\s*[A-Za-z]{2,}[^()]*\)[\s.]*$", ""),  # a remark behind, such as (mod 1000)
    (r"(?<=[A-Za-z])\s*\^\s*\(?[23]\)?", ""),  # cm^2
    (r"(?<=\d)\s*[xX]\s*(?=\d)", "*"),
    (r"(?<=\d)[eE]([+-]?\d{1,3})(?!\w)", r"*10^(\1)"),
    (rf"(\d+)\s*{_FRAC}\(\s*(\d+)\s*\)\s*\(\s*(\d+)\s*\)", r"(\1+\2/\3)"),  # 3\frac{1}{2}
    (r"(?<![\d.^/])(\d+) +(\d+)/(\d+)(?![\d.])", r"(\1+\2/\3)"),  # 3 1/2
)
_WHOLE_HOUR = re.compile(r"(?<![\d:])(\d{1,2}):00(?![\d:])")
_CORE = re.compile(rf"([^\d(+\-.{_FRAC}{_SQRT}]*)([\d\s+\-*/^().{_FRAC}{_SQRT}]*)(\D*)", re.DOTALL)
_OPERATORS = f"+-*/^().{_FRAC}{_SQRT}"
# Spaces before a parenthesis begin a remark: 18 (16 + 2).
_MORE_OF_IT = re.compile(rf"(?:[\d+\-*/^().{_FRAC}{_SQRT}]|\s+(?![\s(])|[xX](?=\s*\d))*")
_SCALES = {"hundred": 100, "thousand": 1000, "k": 1000, "million": 10**6, "billion": 10**9}
_NO_UNIT = re.compile(
    r"[<>≤≥≠!\\^=:;|_\u0370-\u03ff]|\b(?:and|or|not|sqrt|log|ln|sin|cos|tan)\b|^\s*[a-ik-z]\s*$", re.I
)
_UNITS_OF_ONE_LETTER = frozenset("mghlsdftkwcpLCFNWVA")
_RELATION = re.compile(r"[<>≤≥≠]|\\(?:[gl]eq?q?|[gl]eqslant|neq?|gt|lt|not|log|ln|sin|cos|tan|sqrt)(?![a-zA-Z])")
# Text after a number that changes its value: 18x, 18\\pi, 18!, 18 > n; but not </answer>.
_FACTOR = re.compile(
    r"!|\s*(?:[_^\u0370-\u03ff>≤≥≠]|<(?!/?[A-Za-z_|]{2})|\\(?:[a-z]*pi|sqrt|theta|alpha|beta|lambda|log|ln|sin|cos|tan"
    r"|[gl]eq?q?|neq?)(?![a-zA-Z]))"
)
_VARIABLE = re.compile(r"(?<![A-Za-z])[A-Za-z]$|\\[a-z]+$")
_WORD = re.compile(r"\s*([A-Za-z]+)(?![A-Za-z])")


def value(text: str) -> Fraction | None:
    """The number in a text of exactly one number with an optional unit, name or currency; else None."""
    return None if len(text) > LONGEST else value_of_plain(plain(text))


def value_of_plain(text: str) -> Fraction | None:
    """`value` of a text that went through `plain` already, such as a match of `numbers`."""
    text = text.strip(" \t\r\n*")
    text = _WHOLE_HOUR.sub(r"\1", text)
    text = _THOUSANDS.sub(lambda found: found[0].replace(",", ""), text)
    text = _SPACED.sub(lambda found: found[0].replace(" ", ""), text)
    for pattern, replacement in _WHOLE:
        text = pattern.sub(replacement, text)
    sides = text.split("=")
    if any(re.search(r"[,;]|\b(?:and|or)\b", side) for side in sides[1:-1]):
        return None  # a = 3, b = 4
    side = next((side for side in reversed(sides) if re.search(r"\d", side)), "")
    found = _CORE.fullmatch(side.strip())
    if not found:
        return None
    before, core, unit = found[1], found[2], found[3].strip(" .,")
    first_word = unit.partition(" ")[0].lower()
    scale = _SCALES.get(first_word, 1)
    if _no_unit(before) or (scale == 1 and _no_unit(unit)):
        return None
    number = _Expression(core.strip().rstrip("+-*/^(., ")).value()
    return None if number is None else number * scale


def value_around(text: str, start: int, end: int) -> Fraction | None:
    """The value of the whole expression around the number at `start:end` of a `plain` text; None if it is not a number.

    `2^(3)` is 8 and `3*6` is 18; `18x`, `n > 18` and `18!` are other values than 18.
    """
    lead = text[:start]
    inside = lead.rstrip(_OPERATORS + " \t")
    if _RELATION.search(lead) or (_VARIABLE.search(inside) and re.match(r"\s*[+\-*/^]", lead[len(inside) :])):
        return None
    more = _MORE_OF_IT.match(text, end)
    stop = end + len(more[0].rstrip()) if more else end
    if _FACTOR.match(text, stop):
        return None
    word = _WORD.match(text, stop)
    # A letter after a number is a variable, unless it is a unit; in "18 a day" it is an article.
    if word and len(word[1]) == 1 and _no_unit(word[1]) and (word.start(1) == stop or word[1] not in "aAI"):
        return None
    whole = lead[len(inside) :].lstrip("*/^). \t") + text[start:stop]
    whole = re.sub(r"^[+-]\s+", "", whole).rstrip("+-*/^(., \t")
    opened, closed = whole.count("("), whole.count(")")
    if closed > opened:
        whole = whole.rstrip(") .*") + ")" * (opened - whole.rstrip(") .*").count(")"))
    elif opened > closed and whole.startswith("("):
        whole = whole[opened - closed :]
    return value_of_plain(whole)


def _no_unit(words: str) -> bool:
    """Whether these words change the value of the number beside them (a variable, a bound, a function)."""
    return bool(_NO_UNIT.search(words)) and words.strip() not in _UNITS_OF_ONE_LETTER


_DIGITS = r"(?:\d{1,3}(?:,\d{2,3})*,\d{3}(?![\d,])|\d+)(?:\.\d+)?"
_NUMBER = re.compile(
    rf"""(?<![A-Za-z_\d])(?<!\d[.,:])
    (?:(?<![\w)\].%\s])[-+]|(?<![\w)\].%])(?<![\w)\]]\s)[-+]|(?<=[\s(=:])[-+](?=[\d.]))?
    (?: {_FRAC}\({_DIGITS}\)\({_DIGITS}\)
      | \d{{1,4}}\ \d{{1,3}}/\d{{1,3}}                               # 3 1/2
      | \d{{1,2}}:\d\d(?::\d\d)?                                 # a time: one token, and no number
      | {_DIGITS} (?: \s?[*xX]\s?10\s?\^\s?\(?-?\d+\)? | \s?/\s?{_DIGITS} | [eE][+-]?\d+ )?
      | (?<![\w.])\.\d+ )
    (?!st\b|nd\b|rd\b|th\b|\d|-[A-Za-z])
    (?:\s?(?:hundred|thousand|million|billion)\b|k\b)?""",
    re.VERBOSE,
)


def numbers(text: str) -> Iterator[re.Match[str]]:
    """The numbers in a text that went through `plain`, from left to right, without ordinals and words like 3-digit."""
    return _NUMBER.finditer(text)


class _Expression:
    """Exact arithmetic: + - * / ^, parentheses, fractions and roots that come out even; all of it bounded."""

    _TOKEN = re.compile(rf"\s*(\d+\.?\d*|\.\d+|[-+*/^()]|{_FRAC}|{_SQRT})\s*")
    _DEEPEST, _MOST_DIGITS, _HIGHEST_POWER = 20, 40, 99

    def __init__(self, text: str) -> None:
        self._tokens = self._TOKEN.findall(text)
        self._complete = self._TOKEN.sub("", text) == ""
        self._next = 0
        self._depth = 0

    def value(self) -> Fraction | None:
        """The value of the expression; None if it is no expression or exceeds the bounds."""
        try:
            result = self._sum() if self._complete else None
        except (ArithmeticError, ValueError):
            return None
        return result if self._next == len(self._tokens) else None

    def _peek(self) -> str:
        return self._tokens[self._next] if self._next < len(self._tokens) else ""

    def _take(self, *expected: str) -> str:
        symbol = self._peek()
        if expected and symbol not in expected:
            raise ValueError(f"{symbol!r} instead of one of {expected}")
        self._next += 1
        return symbol

    def _sum(self) -> Fraction:
        total = self._product()
        while self._peek() in ("+", "-"):
            total = total + self._product() if self._take() == "+" else total - self._product()
        return total

    def _product(self) -> Fraction:
        result = self._power()
        while self._peek() in ("*", "/"):
            result = result * self._power() if self._take() == "*" else result / self._power()
        return result

    def _power(self) -> Fraction:
        if self._peek() in ("+", "-"):
            return self._power() if self._take() == "+" else -self._power()
        base = self._atom()
        if self._peek() != "^":
            return base
        self._take()
        exponent = -self._atom() if self._peek() == "-" and self._take() else self._atom()
        if exponent.denominator != 1 or abs(exponent) > self._HIGHEST_POWER or abs(base) > 10**6:
            raise ValueError("a power out of bounds")
        return base ** int(exponent)

    def _atom(self) -> Fraction:
        symbol = self._take()
        if symbol == "(":
            self._depth += 1
            if self._depth > self._DEEPEST:
                raise ValueError("nested too deeply")
            inner = self._sum()
            self._take(")")
            self._depth -= 1
            return inner
        if symbol == _FRAC:
            return self._atom() / self._atom()
        if symbol == _SQRT:
            square = self._atom()
            root = Fraction(isqrt(square.numerator), isqrt(square.denominator))
            if root * root != square:
                raise ValueError("a root that does not come out even")
            return root
        if not symbol or symbol in "+-*/^)" or len(symbol) > self._MOST_DIGITS:
            raise ValueError(f"{symbol!r} instead of a number")
        return Fraction(symbol)

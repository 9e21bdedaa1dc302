"""Graders other than that of stated numbers: each row is a policy of docs/answers.md."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from scoring.answers.extract import Fault, Grade
from scoring.answers.graders import GRADERS, Reply, check_gradable, judge
from scoring.answers.structured import DEEPEST, NotJsonError, read_json, same
from workloads import Prompt, load_prompts
from workloads import prompts as prompt_files
from workloads.tool_cases import tool

SCHEMA = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "age": {"type": "integer"}},
    "required": ["name", "age"],
    "additionalProperties": False,
}
GOLD = {"name": "Élodie", "age": 40}
GOOD = json.dumps(GOLD)


def json_prompt(gold: Any = GOLD, schema: dict[str, Any] | None = SCHEMA) -> Prompt:
    wanted = {"response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}}}
    text = None if gold is None else json.dumps(gold)
    return Prompt("p", ({"role": "user", "content": "?"},), text, request=wanted if schema else None, grader="json")


def of_json(text: str, finish: str = "stop", **made: Any) -> Grade:
    return judge(json_prompt(**made), Reply(text, finish))


@pytest.mark.parametrize(
    ("written", "right", "strict", "fault"),
    [
        (GOOD, True, True, None),
        ('  {"age": 40,\n "name": "Élodie"}\n', True, True, None),
        ('{"name": "\\u00c9lodie", "age": 40}', True, True, None),
        ('{"name": "E\u0301lodie", "age": 40}', True, True, None),  # the accent as a character of its own
        ('{"name": "Élodie", "age": 40.0}', True, True, None),  # JSON Schema: 40.0 is an integer
        ('{"name": "Élodie", "age": 4e1}', True, True, None),
        ('\ufeff{"name": "Élodie", "age": 40}', True, True, None),
        ("<think>{}</think>" + GOOD, True, True, None),
        ('{"name": "élodie ", "age": 40}', True, False, None),
        (f"```json\n{GOOD}\n```", True, False, None),
        (f"Here:\n```\n{{}}\n```\nor rather\n```json\n{GOOD}\n```\nBye.", True, False, None),
        (f"Sure! {GOOD} I hope this helps.", True, False, None),
        (GOOD + GOOD, True, False, None),  # the first value counts, and the rest is text behind it
        ('{"name": "Élodie", "age": 41}', False, False, Fault.VALUES),
        ('{"name": "Élodie", "age": "40"}', False, False, Fault.SCHEMA),
        ('{"name": "Élodie", "age": true}', False, False, Fault.SCHEMA),
        ('{"name": "Élodie"}', False, False, Fault.SCHEMA),
        ('{"name": "Élodie", "age": 40, "city": "Metz"}', False, False, Fault.SCHEMA),
        (json.dumps(GOOD), False, False, Fault.SCHEMA),  # JSON in a JSON string is a string
        ('{"name": "Élodie", "age": 40, "age": 40}', False, False, Fault.NOT_JSON),
        ('{"name": "Élodie", "age": NaN}', False, False, Fault.NOT_JSON),
        ('{"name": "Élodie", "age": Infinity}', False, False, Fault.NOT_JSON),
        ("{'name': 'Élodie', 'age': 40}", False, False, Fault.NOT_JSON),
        ('{"name": "Élodie", "age": 40,}', False, False, Fault.NOT_JSON),
        ('{"name": "Élodie", "age": 40', False, False, Fault.NOT_JSON),
        ('{"name": "Élodie", "age": ' + "4" * 5000 + "}", False, False, Fault.NOT_JSON),
        ("[" * 100_000, False, False, Fault.NOT_JSON),
        ("[" * 500 + "]" * 500, False, False, Fault.NOT_JSON),
        ("", False, False, Fault.NOT_JSON),
        ("Élodie is 40.", False, False, Fault.NOT_JSON),
        ("<think>" + GOOD, False, False, Fault.NOT_JSON),
    ],
)
def test_an_answer_in_json(written: str, right: bool, strict: bool, fault: Fault | None) -> None:
    grade = of_json(written)
    assert (grade.correct, grade.strict, grade.fault) == (right, strict, fault)


def test_json_that_was_cut_is_truncated_and_whole_json_is_not() -> None:
    assert of_json('{"name": "Élo', "length").truncated
    grade = of_json(GOOD, "length")
    assert grade.correct and not grade.truncated


def test_without_a_gold_the_schema_alone_decides() -> None:
    assert json_prompt(gold=None).graded and not json_prompt(gold=None, schema=None).graded
    assert of_json('{"name": "x", "age": 1}', gold=None).correct
    assert of_json('{"name": "x"}', gold=None).fault == Fault.SCHEMA


def test_what_a_report_shows_of_an_answer_is_ascii_and_short() -> None:
    grade = of_json(json.dumps({"name": "\ud800" + "é" * 1000, "age": 40}))
    assert grade.answer is not None and grade.answer.isascii() and len(grade.answer) <= 80


def test_nesting_is_read_to_its_limit_and_no_deeper() -> None:
    read_json("[" * DEEPEST + "]" * DEEPEST)
    with pytest.raises(NotJsonError, match="100 levels"):
        read_json("[" * (DEEPEST + 1) + "]" * (DEEPEST + 1))


@pytest.mark.parametrize(
    ("a", "b", "equal"),
    [
        (1, 1.0, True),
        (1, True, False),
        (0, False, False),
        (None, 0, False),
        ([1, 2], [2, 1], False),
        ("a", ["a"], False),
        (10**20, 1e20, True),
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}, True),
        ({"a": None}, {}, False),
    ],
)
def test_values_are_equal_as_json_and_not_as_python(a: Any, b: Any, equal: bool) -> None:
    assert same(a, b, exact=True) is equal


def test_json_of_any_length_is_judged_quickly() -> None:
    texts = [
        "{" * 200_000,
        '{"a":' * 60_000,
        "```\n" * 50_000,
        '{"name": "' + "é" * 200_000 + '", "age": 40}',
        "[[" * 99,
    ]
    for text in texts:
        began = time.process_time()
        of_json(text)
        assert time.process_time() - began < 2.0  # minutes, if it were quadratic


# -- tool calls ---------------------------------------------

TOOLS = {"tools": [tool("get_weather"), tool("set_light"), tool("multiply")]}
ROME = {"name": "get_weather", "arguments": '{"city": "Rome"}'}


def tool_prompt(*gold: dict[str, Any]) -> Prompt:
    return Prompt("p", ({"role": "user", "content": "?"},), json.dumps(gold), request=TOOLS, grader="tools")


def of_tools(prompt: Prompt, *calls: dict[str, Any], text: str = "", finish: str = "tool_calls") -> Grade:
    return judge(prompt, Reply(text, finish, calls))


ONE = tool_prompt({"name": "get_weather", "arguments": {"city": "Rome"}})
TWO = tool_prompt(
    {"name": "get_weather", "arguments": {"city": "Rome"}},
    {"name": "set_light", "arguments": {"room": "hall", "on": True}},
)
HALL = {"name": "set_light", "arguments": '{"on": true, "room": "hall"}'}


@pytest.mark.parametrize(
    ("call", "right", "strict", "fault"),
    [
        (ROME, True, True, None),
        ({"name": "get_weather", "arguments": '{"unit": "celsius", "city": "Rome"}'}, True, True, None),  # the default
        ({"name": "get_weather", "arguments": '{"city": " rome"}'}, True, False, None),
        ({"name": "get_weather", "arguments": '{"city": "Rome", "unit": "fahrenheit"}'}, False, False, Fault.VALUES),
        ({"name": "get_weather", "arguments": '{"city": "Oslo"}'}, False, False, Fault.VALUES),
        ({"name": "get_weather", "arguments": '{"city": "Rome", "unit": "kelvin"}'}, False, False, Fault.SCHEMA),
        ({"name": "get_weather", "arguments": '{"town": "Rome"}'}, False, False, Fault.SCHEMA),
        ({"name": "get_weather", "arguments": '["Rome"]'}, False, False, Fault.SCHEMA),
        ({"name": "get_weather", "arguments": '"{\\"city\\": \\"Rome\\"}"'}, False, False, Fault.SCHEMA),
        ({"name": "get_weather", "arguments": ""}, False, False, Fault.SCHEMA),
        ({"name": "get_weather", "arguments": '{"city": "Rome"} now'}, False, False, Fault.NOT_JSON),
        ({"name": "get_weather", "arguments": '{"city": "Oslo", "city": "Rome"}'}, False, False, Fault.NOT_JSON),
        ({"name": "Get_Weather", "arguments": '{"city": "Rome"}'}, False, False, Fault.FUNCTION),
        ({"name": "set_light", "arguments": '{"room": "hall", "on": true}'}, False, False, Fault.FUNCTION),
        ({"name": "", "arguments": "{}"}, False, False, Fault.FUNCTION),
    ],
)
def test_one_call(call: dict[str, Any], right: bool, strict: bool, fault: Fault | None) -> None:
    grade = of_tools(ONE, call)
    assert (grade.correct, grade.strict, grade.fault) == (right, strict, fault)


def test_the_order_of_calls_and_words_beside_them_do_not_matter_but_their_number_does() -> None:
    assert of_tools(TWO, ROME, HALL).strict and of_tools(TWO, HALL, ROME, text="Both, then.", finish="stop").strict
    assert of_tools(TWO, ROME).fault == of_tools(TWO, ROME, HALL, HALL).fault == Fault.FUNCTION
    assert of_tools(ONE, ROME, ROME).fault == Fault.FUNCTION


def test_numbers_of_arguments_are_equal_by_value() -> None:
    prompt = tool_prompt({"name": "multiply", "arguments": {"a": 2, "b": 2.5}})
    assert of_tools(prompt, {"name": "multiply", "arguments": '{"a": 2.0, "b": 25e-1}'}).strict
    assert of_tools(prompt, {"name": "multiply", "arguments": '{"a": "2", "b": 2.5}'}).fault == Fault.SCHEMA


def test_no_call_is_right_where_none_is_needed_and_a_call_is_not() -> None:
    none = tool_prompt()
    assert of_tools(none, text="Lisbon.", finish="stop").strict
    assert of_tools(none, ROME).fault == Fault.FUNCTION
    # A call that the engine left in the text is no call: the client would have nothing to run.
    written = '<tool_call>{"name": "get_weather", "arguments": {"city": "Rome"}}</tool_call>'
    assert of_tools(ONE, text=written, finish="stop").fault == Fault.FUNCTION


def test_a_cut_answer_is_truncated_and_never_right() -> None:
    grade = of_tools(ONE, ROME, finish="length")
    assert (grade.correct, grade.truncated) == (False, True)


# -- letters ---------------------------------------------


def of_choice(text: str, gold: str = "C", finish: str = "stop") -> Grade:
    return judge(Prompt("p", ({"role": "user", "content": "?"},), gold, grader="choice"), Reply(text, finish))


@pytest.mark.parametrize(
    ("written", "letter", "strict"),
    [
        ("The answer is (C)", "C", True),
        ("The answer is C.", "C", True),
        ("The answer is **C**", "C", True),
        ("**The answer is: C**", "C", True),
        ("Answer: C because A is wrong", "C", True),
        ("Answer: C) 42, since B) is too small", "C", True),
        ("The correct answer is option C, not A.", "C", True),
        ("The best answer is: $\\boxed{C}$", "C", True),
        (r"so \boxed{\text{C}}", "C", True),
        (r"\boxed{\text{(C) } 42}", "C", True),
        (r"First \boxed{A}, no: \boxed{C}", "C", True),
        (r"$\boxed{\mathrm{C}}$ and A was close", "C", True),
        ("The answer is $\\text{C}$", "C", True),
        ("C", "C", True),
        ("C.", "C", True),
        ("**C**", "C", True),
        ("(C)\n", "C", True),
        ("C. Paris", "C", True),
        ("C) Paris is the capital.", "C", True),
        ("A is wrong.\nSo is B.\n\nC", "C", True),
        ("The answer is A. Wait: the answer is C.", "C", True),
        ("<think>The answer is A</think>The answer is C", "C", True),
        ("The answer is A because it is first", "A", True),
        ("The answer is A", "A", True),
        ("The answer is I.", "I", True),
        ("The answer is (I)", "I", True),
        ("Answer: J", "J", True),
        ("It must be (C), all things weighed", "C", False),
        ("A good question. I think C fits best", "C", False),
        ("I would say it is B", "B", False),
        ("I think a bit about it. I am not sure", None, False),
        ("A fine day", None, False),
        ("The answer is a good one", None, False),
        ("The answer is not known", None, False),
        ("The answer is K", None, False),
        ("", None, False),
        ("Calcium", None, False),
        ("The answer is A or C", "A C", True),
        ("Answer: (A) and (C)", "A C", True),
        ("Answer: A, C", "A C", True),
        (r"\boxed{A, C}", "A C", True),
    ],
)
def test_the_letter_of_an_answer(written: str, letter: str | None, strict: bool) -> None:
    grade = of_choice(written, gold=letter or "C")
    assert grade.answer == letter
    assert (grade.correct, grade.strict) == (letter is not None and len(letter) == 1, strict and len(letter or "") == 1)


def test_a_cut_text_has_a_letter_only_where_it_was_stated() -> None:
    assert of_choice("The answer is C because the oth", finish="length").correct
    grade = of_choice("Now look at (C)", finish="length")
    assert (grade.correct, grade.truncated) == (False, True)


def test_letters_of_a_long_text_are_found_quickly() -> None:
    for text in (
        "answer is " * 20_000,
        "(C) " * 50_000,
        "A\n" * 100_000,
        "answer" + " " * 200_000,
        "\\boxed{" * 30_000,
    ):
        began = time.process_time()
        of_choice(text)
        assert time.process_time() - began < 2.0


# -- exact, numeric, and the table of graders ---------------------------------------------


@pytest.mark.parametrize(
    ("written", "right", "strict"),
    [
        ("Paris", True, True),
        (" Paris\n", True, True),
        ("paris.", True, False),
        ("It is Paris", False, False),
        ("", False, False),
    ],
)
def test_exact_is_the_whole_answer(written: str, right: bool, strict: bool) -> None:
    grade = judge(Prompt("p", ({"role": "user", "content": "?"},), "Paris", grader="exact"), Reply(written))
    assert (grade.correct, grade.strict) == (right, strict)


def test_numeric_takes_the_stated_number() -> None:
    prompt = Prompt("p", ({"role": "user", "content": "?"},), "0.5", grader="numeric")
    assert judge(prompt, Reply("The answer is 1/2.")).strict
    assert not judge(prompt, Reply("The answer is 5.")).correct


def test_every_grader_that_a_file_may_name_is_there_and_the_other_way_round() -> None:
    assert tuple(GRADERS) == prompt_files.GRADERS


@pytest.mark.parametrize(
    ("row", "told"),
    [
        ({"gold": "twelve", "grader": "numeric"}, "no number"),
        ({"gold": "Paris", "grader": "choice"}, "a letter from A to J"),
        ({"gold": "{", "grader": "json"}, "no JSON"),
        ({"gold": "{}", "grader": "tools"}, "is a list"),
        ({"gold": '[{"name": "f", "arguments": {}}]', "grader": "tools"}, "does not offer"),
        (
            {"gold": '[{"name": "multiply", "arguments": {}}]', "grader": "tools", "request": TOOLS},
            "break the parameters",
        ),
        ({"request": {"response_format": {"schema": {"type": "strange"}}}}, "no JSON Schema"),
        ({"request": {"response_format": {"schema": {"$ref": "http://127.0.0.1/x"}}}}, "not in the schema itself"),
    ],
)
def test_a_gold_that_its_grader_cannot_use_is_named_before_anything_is_asked(row: dict[str, Any], told: str) -> None:
    made = Prompt("p7", ({"role": "user", "content": "?"},), **row)
    with pytest.raises(ValueError, match=f"(?s)'p7'.*{told}"):
        check_gradable([made])


# -- the tasks of our own ---------------------------------------------


@pytest.mark.parametrize(("task", "number"), [("tools", 60), ("json", 40)])
def test_a_task_of_our_own_can_be_graded_and_its_golds_are_right(task: str, number: int) -> None:
    prompts = load_prompts(task)
    measured = [prompt for prompt in prompts if prompt.pool == "measure"]
    check_gradable(prompts)
    assert len(measured) == number == len({prompt.messages[-1]["content"] for prompt in measured})
    for prompt in prompts:
        calls = json.loads(prompt.gold or "") if task == "tools" else []
        replies = [{"name": call["name"], "arguments": json.dumps(call["arguments"])} for call in calls]
        text = "Well." if task == "tools" else prompt.gold or ""
        assert judge(prompt, Reply(text, "stop", replies)).strict, prompt.prompt_id


def test_the_cases_of_tools_need_one_call_several_or_none_and_offer_others_besides() -> None:
    prompts = [prompt for prompt in load_prompts("tools") if prompt.pool == "measure"]
    numbers = [len(json.loads(prompt.gold or "")) for prompt in prompts]
    assert (numbers.count(1), sum(n > 1 for n in numbers), numbers.count(0)) == (30, 16, 14)
    for prompt in prompts:
        offered = {one["function"]["name"] for one in (prompt.request or {})["tools"]}
        assert len(offered) == 5 > len({call["name"] for call in json.loads(prompt.gold or "")})

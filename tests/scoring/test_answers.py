"""Verdicts on single completions: the named traps, and what models are known to write."""

from __future__ import annotations

import pytest

from scoring.answers.extract import Method, grade

RIGHT, FLEXIBLE, WRONG = (True, True), (True, False), (False, False)

CASES = [
    ("The answer is 18", "18", RIGHT),
    ("711", "11", WRONG),
    ("\\boxed{18.0}", "18", RIGHT),
    ("$29.00.", "29", FLEXIBLE),
    ("m+n = 70", "70", FLEXIBLE),
    ("\\boxed{m+n = 70}", "70", RIGHT),
    ("\\boxed{50\\%}", "50", RIGHT),
    ("\\boxed{0.5}", "50", WRONG),
    ("答案是 18", "18", RIGHT),
    ("所以答案是18美元。", "18", RIGHT),
    ("答案：**18**", "18", RIGHT),
    ("**18**", "18", FLEXIBLE),
    ("\\boxed{x=5}", "5", RIGHT),
    ("\\boxed{3\\frac{1}{2}}", "31/2", WRONG),
    ("\\boxed{3\\frac{1}{2}}", "7/2", RIGHT),
    ("\\boxed{1/2}", "1/2", RIGHT),
    ("\\boxed{\\frac12}", "1/2", RIGHT),
    ("\\boxed{\\frac{1}{2}}", "12", WRONG),
    ("\\boxed{7e4}", "70000", RIGHT),
    ("\\boxed{7 x 10^4}", "70000", RIGHT),
    ("\\boxed{7\\times10^{4}}", "70000", RIGHT),
    ("\\boxed{10-15}", "15", WRONG),
    ("The answer is 18 or 20.", "18", WRONG),
    ("The answer is 18 or 20.", "20", WRONG),
    ("The answer is 10-15.", "15", WRONG),
    ("between 10-15", "15", FLEXIBLE),
    ("\\boxed{5:30}", "5", WRONG),
    ("\\boxed{5:30}", "30", WRONG),
    ("at 5:30 pm", "30", WRONG),
    ("\\boxed{-3}", "-3", RIGHT),
    ("The answer is -3", "-3", RIGHT),
    ("The answer is −3.", "-3", RIGHT),
    ("\\boxed{18}\\boxed{19}", "19", RIGHT),
    ("\\boxed{18}\\boxed{19}", "18", WRONG),
    ("\\boxed{\\boxed{18}}", "18", RIGHT),
    ("\\boxed{18\\text{ and a half}}", "18", WRONG),
    ("\\boxed{3 \\text{ million}}", "3000000", RIGHT),
    ("\\boxed{3 \\text{ million}}", "3", WRONG),
    ("\\boxed{18x}", "18", WRONG),
    ("\\boxed{18\\pi}", "18", WRONG),
    ("\\boxed{18π}", "18", WRONG),
    ("\\boxed{2\\sqrt{3}}", "2", WRONG),
    ("\\boxed{2\\sqrt{3}}", "3", WRONG),
    ("\\boxed{\\sqrt{16}}", "4", RIGHT),
    ("\\boxed{20 \\text{ cm}^2}", "20", RIGHT),
    ("\\boxed{20 cm^2}", "20", RIGHT),
    ("\\boxed{20\\text{ m}^{3}}", "20", RIGHT),
    ("\\boxed{20\\,\\mathrm{m}}", "20", RIGHT),
    ("\\boxed{18 \\text{ km/h}}", "18", RIGHT),
    ("\\boxed{\\$18/\\text{hour}}", "18", RIGHT),
    ("\\boxed{1\\,000}", "1000", RIGHT),
    ("\\boxed{1,\\!000}", "1000", RIGHT),
    ("\\boxed{1{,}234{,}567}", "1234567", RIGHT),
    ("\\boxed{12,34,567}", "1234567", RIGHT),
    ("\\boxed{(33)}", "33", RIGHT),
    ("\\boxed{(3, 4)}", "4", WRONG),
    ("\\boxed{a=3, b=4}", "4", WRONG),
    ("\\boxed{\\textbf{(B) }18}", "18", RIGHT),
    ("\\boxed{B}", "18", WRONG),
    ("**Answer:** Janet makes $18 every day.", "18", RIGHT),
    ("### Final Answer\n\n**18**", "18", RIGHT),
    ("### Final Answer\nShe needs 3 eggs and 18 cups.", "18", FLEXIBLE),
    ("#### 1. Find the cost\ntext 18", "18", FLEXIBLE),
    ("#### 1. Find the cost\ntext 18", "1", WRONG),
    ("#### 3 Steps\nSo 18", "18", FLEXIBLE),
    ("#### Step 1", "1", FLEXIBLE),
    ("####18", "18", RIGHT),
    ("#### -18", "-18", RIGHT),
    ("#### \\frac{36}{2}", "18", RIGHT),
    ("#### 18.", "18", RIGHT),
    ("#### 1,450,000 dollars.", "1450000", RIGHT),
    ("The answer is 9 * 2 = 18.", "18", RIGHT),
    ("The answer is 18, since 9 * 2 = 18.", "18", RIGHT),
    ("The answer is 18 because 16-3-4 = 9 and 9*2=18", "18", RIGHT),
    ("The answer is not 18, it is 20", "18", WRONG),
    ("The answer is \\(18\\).", "18", RIGHT),
    ("The answer is: $\\frac{36}{2}$", "18", RIGHT),
    ("The answer is 18 and 20", "20", WRONG),
    ("the answer is x = 5", "5", RIGHT),
    ("the answer is\n\n$$18$$", "18", RIGHT),
    ("The final answer is **$1,234.50**", "2469/2", RIGHT),
    ("The answer must be a 3-digit number", "3", WRONG),
    ("La respuesta es 18", "18", RIGHT),
    ("Die Antwort lautet 18.", "18", RIGHT),
    ("La réponse est 18", "18", RIGHT),
    ("Ответ: 18", "18", RIGHT),
    ("<think>\\boxed{3}</think>\n\\boxed{18}", "18", RIGHT),
    ("<think>a</think>b<think> 18", "18", WRONG),
    ("18<|im_end|>", "18", FLEXIBLE),
    ("\\boxed{18}<｜end▁of▁sentence｜>", "18", RIGHT),
    ("The answer is 18.\n\nQuestion: next 7\nThe answer is 9", "18", RIGHT),
    ("She has 18.\nProblem: next\n\\boxed{7}", "18", FLEXIBLE),
    ("Restating\nProblem: Janet\n\\boxed{7}", "7", RIGHT),
    ("１８", "18", FLEXIBLE),
    ("\\boxed{１８}", "18", RIGHT),
    ("3½ cups", "7/2", FLEXIBLE),
    ("10⁴", "10000", WRONG),
    ("\\boxed{10⁴}", "10000", RIGHT),
    ("\\boxed{18 - 20}", "18", WRONG),
    ("\\boxed{N \\equiv 33 \\pmod{1000}}", "33", RIGHT),
    ("\\boxed{033}", "33", RIGHT),
    ("\\boxed{eighteen}", "18", WRONG),
    ("\\boxed{}", "18", WRONG),
    ("\\boxed{\\text{No solution}}", "18", WRONG),
    ("\\boxed{18!}", "18", WRONG),
    ("It is 18!", "18", FLEXIBLE),
    ("$\\boxed 18$", "18", RIGHT),
    ("boxed{18}", "18", RIGHT),
    ("\\boxed{18}.", "18", RIGHT),
    ("\\boxed{18 \\text{ dollars}, 20 \\text{ cents}}", "18", WRONG),
    ("\\boxed{\\left(18\\right)}", "18", RIGHT),
    ("\\boxed{18\\ \\text{apples}}", "18", RIGHT),
    ("\\boxed{~18~}", "18", RIGHT),
    ("\\boxed{\\color{red}{18}}", "18", RIGHT),
    ("\\boxed{18\\quad}", "18", RIGHT),
    ("\\boxed{18 \\text{ (exactly)}}", "18", RIGHT),
    ("\\boxed{x+3}", "3", WRONG),
    ("\\boxed{2(x+3)}", "2", WRONG),
    ("\\boxed{3x}", "3", WRONG),
    ("\\boxed{n>18}", "18", WRONG),
    ("\\boxed{\\ge 18}", "18", WRONG),
    ("\\boxed{18 = 2 \\cdot 9}", "18", RIGHT),
    ("\\boxed{2 \\cdot 9}", "18", RIGHT),
    ("\\boxed{18\\text{th}}", "18", RIGHT),
    ("\\boxed{5 \\text{ p.m.}}", "5", RIGHT),
    ("\\boxed{5:00 \\text{ PM}}", "5", RIGHT),
    ("2:00 pm", "2", FLEXIBLE),
    ("$118 000.", "118000", FLEXIBLE),
    ("Answer: $18", "18", RIGHT),
    ("Answer = 18", "18", RIGHT),
    ("ANSWER: 18", "18", RIGHT),
    ("A: 18", "18", FLEXIBLE),
    ("\\boxed{18 hours 30 minutes}", "18", WRONG),
    ("\\boxed{\\frac{m}{n}=\\frac{9}{3}}", "3", RIGHT),
    ("\\boxed{1.5 \\text{ dozen}}", "18", WRONG),
    ("\\boxed{+18}", "18", RIGHT),
    ("\\boxed{- 18}", "-18", RIGHT),
    ("\\boxed{-\\$18}", "-18", RIGHT),
    ("\\boxed{\\$-18}", "-18", RIGHT),
    ("-$18", "-18", FLEXIBLE),
    ("16-3", "3", FLEXIBLE),
    ("16-3", "-3", WRONG),
    ("= -3", "-3", FLEXIBLE),
    ("\\boxed{18.}", "18", RIGHT),
    ("\\boxed{.5}", "1/2", RIGHT),
    ("the 2nd of 18 on the 3rd day", "18", FLEXIBLE),
    ("The answer is **18 apples**.", "18", RIGHT),
    ("So the answer to the question is 18.", "18", RIGHT),
    ("Answer (in dollars): 18", "18", RIGHT),
    ("\\[\n\\boxed{\n18\n}\n\\]", "18", RIGHT),
    ("\\boxed{\\mathbf{18}}", "18", RIGHT),
    ("\\boxed{\\text{The answer is } 18}", "18", RIGHT),
    ("\\boxed{18 \\mbox{ m}}", "18", RIGHT),
    ("\\boxed{18°}", "18", RIGHT),
    ("\\boxed{90^{\\circ}}", "90", RIGHT),
    ("\\boxed{12\\frac{3}{4}\\%}", "51/4", RIGHT),
    ("She has 70k dollars", "70000", FLEXIBLE),
    ("1/2", "1/2", FLEXIBLE),
    ("\\frac{9}{4}", "9/4", FLEXIBLE),
    ("the total is $1,234", "1234", FLEXIBLE),
    ("x2", "2", WRONG),
    ("Total = 1.5e3", "1500", FLEXIBLE),
    ("\\boxed{\\dfrac{18}{1}}", "18", RIGHT),
    # As SmolLM2-135M ends on the word problems of this project:
    ("4. Add 1 to the result to get the final answer: 1 + 0.25 = 0.25.\n\nSo, Rosa has 2 marbles now.", "2", FLEXIBLE),
    ("So, 14 apples are each shared equally among 4 friends.\n\nThe final answer is 4.", "4", RIGHT),
    ("we round to 11 kilometres.\n\nSo, the answer is 11.", "11", RIGHT),
    ("The final answer is 1784 / 129 = 12.", "12", RIGHT),
    # As gemma and its like end on GSM8K, from evaluation logs in public repositories:
    ("9 eggs * $2 per egg = $18\n\n**Answer:** Janet makes **$18** every day at the farmers' market.", "18", RIGHT),
    (r"* Earnings: $9 \times \$2 = \$18$" "\n\n**Answer:** Janet makes **\\$18** every day", "18", RIGHT),
    (r"**Answer:** Janet saves **\$2** per week by purchasing the pass.", "2", RIGHT),
    (r"Therefore, the final answer is: $\boxed{290}$. I hope it is correct.", "290", RIGHT),
    (r"It is \boxed{18}. As asked, it is within \boxed{answer}, as \boxed{\text{your final answer}}.", "18", RIGHT),
    (r"\boxed{...}", "18", WRONG),
    # A phrase states the whole value or none.
    ("The answer is 18x.", "18", WRONG),
    ("The answer is $18\\pi$.", "18", WRONG),
    ("The answer is $2\\sqrt{3}$.", "2", WRONG),
    ("The answer is $\\sqrt{16}$.", "4", RIGHT),
    ("The answer is n > 18.", "18", WRONG),
    ("The answer is $n \\ge 18$.", "18", WRONG),
    ("The answer is $x + 18$.", "18", WRONG),
    ("The answer is 18!.", "18", WRONG),
    ("The answer is 18!", "18", RIGHT),
    ("The answer is 18 and a half.", "18", WRONG),
    ("The answer is 18 dollars and 50 cents.", "18", WRONG),
    ("The answer is 18 hours 30 minutes.", "18", WRONG),
    ("The answer is 18 eggs and they cost 3 dollars each.", "18", RIGHT),
    ("The answer is 18 a day.", "18", RIGHT),
    ("The answer is 18 (9 * 2).", "18", RIGHT),
    ("The answer is 18</answer>", "18", RIGHT),
    ("The answer is $2^{3}$.", "8", RIGHT),
    ("The answer is $2^{3}$.", "2", WRONG),
    ("The answer is 3*6, which is 18.", "3", WRONG),
    ("The answer is 3*6, which is 18.", "18", RIGHT),
    ("The answer is 20 - 2.", "18", RIGHT),
    ("The answer is negative 5.", "-5", RIGHT),
    ("The answer is negative 5.", "5", WRONG),
    ("\\boxed{\\text{minus } 5}", "5", WRONG),
    ("\\boxed{\\text{minus } 5}", "-5", RIGHT),
    # Units and labels fall away.
    ("\\boxed{18^\\circ\\text{C}}", "18", RIGHT),
    ("\\boxed{18°F}", "18", RIGHT),
    ("\\boxed{18\\text{ L}}", "18", RIGHT),
    ("The answer is 18 N.", "18", RIGHT),
    ("\\boxed{\\pounds18}", "18", RIGHT),
    ("\\boxed{\\text{Total: } 18}", "18", RIGHT),
    ("\\boxed{\\text{Total: } 18, \\text{Rest: } 3}", "18", WRONG),
    ("#### 18 L\n", "18", RIGHT),
    ("#### 18 MB\n", "18", RIGHT),
    # Thoughts are no answers, under whatever mark.
    ("[THINK]maybe \\boxed{18} but", "18", WRONG),
    ("<|channel|>analysis<|message|>maybe \\boxed{18} but", "18", WRONG),
    ("<thinking>maybe \\boxed{18} but", "18", WRONG),
    ("◁think▷maybe \\boxed{18} but", "18", WRONG),
    ("analysisWe try \\boxed{18} but", "18", WRONG),
    ("[THINK]\\boxed{3}[/THINK]The answer is 18.", "18", RIGHT),
    ("<|channel|>analysis<|message|>3<|end|><|start|>assistant<|channel|>final<|message|>\\boxed{18}", "18", RIGHT),
    ("analysisWe try 3.assistantfinalThe answer is 18.", "18", RIGHT),
]


@pytest.mark.parametrize(("completion", "gold", "expected"), CASES)
def test_an_answer_is_judged_as_a_careful_reader_would(completion: str, gold: str, expected: tuple[bool, bool]) -> None:
    verdict = grade("gsm8k", completion, gold)
    assert (verdict.correct, verdict.strict) == expected, verdict


@pytest.mark.parametrize(
    ("completion", "method"),
    [
        ("#### 3\nThe answer is 4. \\boxed{5} 6", Method.BOXED),
        ("The answer is 4.\n#### 3\n6", Method.HASH),
        ("The answer is 4. There are 6 of them.", Method.PHRASE),
        ("There are 6 of them.", Method.LAST_NUMBER),
        ("There are some of them.", Method.NONE),
        ("", Method.NONE),
    ],
)
def test_the_place_that_says_most_about_intent_is_read_first(completion: str, method: Method) -> None:
    assert grade("gsm8k", completion, "1").method == method


@pytest.mark.parametrize(
    ("completion", "correct", "truncated"),
    [
        ("so \\boxed{18}. Let me check ag", True, False),
        ("so \\boxed{18", False, True),
        ("#### 18\n\nNow", True, False),
        ("#### 18", False, True),
        ("The answer is 18", False, True),
        ("The answer is 18.", False, True),
        ("The answer is 18 doll", True, False),
        ("The answer is 18 +", False, True),
        ("The answer is $18^{", False, True),
        ("which makes 18 dollars in", False, True),
        ("<think>18", False, True),
        ("", False, True),
    ],
)
def test_an_answer_cut_at_the_limit_counts_only_if_more_tokens_could_not_change_it(
    completion: str, correct: bool, truncated: bool
) -> None:
    verdict = grade("aime2025", completion, "18", finish_reason="length")
    assert (verdict.correct, verdict.truncated) == (correct, truncated)


def test_a_truncated_completion_has_no_answer() -> None:
    assert grade("gsm8k", "which makes 18", "18", "length").answer is None


def test_an_answer_is_reported_as_an_exact_number_or_as_what_stood_there() -> None:
    assert grade("gsm8k", r"\boxed{18.50}", "18").answer == "37/2"
    assert grade("gsm8k", r"\boxed{033}", "18").answer == "33"
    assert grade("gsm8k", r"\boxed{(3, 4)}", "18").answer == "(3, 4)"


def test_two_boxes_in_a_box_give_the_innermost() -> None:
    assert grade("gsm8k", r"\boxed{x = \boxed{18}}", "18").strict


def test_a_box_that_holds_an_essay_is_no_number() -> None:
    assert not grade("gsm8k", r"\boxed{" + "word " * 200 + "18}", "18").correct


def test_a_gold_that_is_no_number_is_compared_as_text() -> None:
    assert grade("jsonl", r"So it is \boxed{\text{Paris}}.", "paris").correct
    assert not grade("jsonl", r"So it is \boxed{\text{London}}.", "paris").correct


@pytest.mark.parametrize(
    ("completion", "gold", "correct"),
    [
        ("Answer: B", "B", True),
        ("**Answer:** (B)", "B", True),
        ("The answer is B) Paris.", "B", True),
        ("The answer is (B) Paris.", "Paris", True),
        ("The answer is Paris, the capital of France.", "paris", True),
        ("The capital of 3 states. Answer: **Paris**.", "Paris", True),
        ("#### Paris", "Paris", True),
        ("Answer: B", "C", False),
        ("The answer is not B.", "B", False),
        ("The answer is A dog.", "A", False),
        ("The answer is Paris or London.", "Paris", False),
        ("The answer is Paris, London.", "Paris", False),
        (r"Answer: B, so \boxed{C}", "B", False),
    ],
)
def test_a_text_gold_is_found_in_a_phrase(completion: str, gold: str, *, correct: bool) -> None:
    verdict = grade("jsonl", completion, gold)
    assert (verdict.correct, verdict.strict) == (correct, correct), verdict


def test_a_text_answer_that_was_cut_is_truncated() -> None:
    assert grade("jsonl", "Answer: Par", "Paris", "length").truncated


def test_no_gold_is_never_met() -> None:
    assert not grade("jsonl", r"\boxed{18}", None).correct

"""What grading costs: median and worst time a completion, on ordinary text and on text made to be slow.

    python -m benchmarks.grading [COMPLETIONS.jsonl]

COMPLETIONS.jsonl has rows with task, completion and gold; without it, worked word problems of this project are graded.
"""

from __future__ import annotations

import json
import random
import statistics
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from scoring.answers.extract import grade
from workloads.word_problems import word_problems

LENGTH = 200_000
SEEDS = (
    *(
        "\\boxed{",
        "\\boxed{1}",
        "{",
        "}",
        "{}",
        "\\",
        "\\\\boxed{",
        "\\boxed 1",
        "boxed",
        "$",
        "$$\\boxed{\\frac{",
        "\\{",
    ),
    *(
        "#### ",
        "#### 1\n",
        "#### Step 1\n",
        "\n####",
        "The answer is ",
        "answer: 1 ",
        "answer is 1\n",
        "answer" + " " * 40,
    ),
    *(
        "<think>",
        "</think>",
        "<|im_end|>",
        "<|",
        "<｜",
        "\nQuestion:",
        "\nProblem: 1",
        "1",
        "1,",
        "1,000,",
        "1 000 ",
        "1/",
    ),
    *(
        "9" * 50 + ",",
        "-",
        "- 1",
        "1:00",
        "1e9",
        "10^",
        "^",
        "(",
        ")",
        "((1)",
        "*",
        "**",
        " ",
        "\n",
        "\t",
        "\u00a0",
        "\u200b",
    ),
    *(
        "\ufdfa",
        "\u0344",
        "e\u0301\u0327",
        "½",
        "⁴",
        "答案是",
        "答案",
        "١",
        "\ud800",
        "\x00",
        "\ue000",
        "\ue001(",
        "x =",
        "=1",
    ),
    *(
        "\\frac",
        "\\frac{1}{2}",
        "\\sqrt",
        "\\sqrt{4}",
        "\\text{",
        "\\text{a}",
        "\\left(",
        "million ",
        "1 million",
        "and ",
        "1 or ",
    ),
)


def hard(length: int) -> Iterator[tuple[str, str]]:
    """(name, text of that length): one thing repeated, also before an answer and in a box, pairs, random mixtures."""
    r = random.Random(1)
    for seed in SEEDS:
        body = (seed * (length // len(seed) + 1))[:length]
        yield repr(seed), body
        yield f"{seed!r}, then an answer", body + "\nThe answer is \\boxed{18}."
        yield f"{seed!r} in a box", "\\boxed{" + body + "}"
    for _ in range(150):
        pair = "".join(r.sample(SEEDS, 2))
        yield f"pair {pair!r}", (pair * (length // len(pair) + 1))[:length]
    for number in range(50):
        chosen = r.sample(SEEDS, 6)
        yield f"mixture {number} of {chosen}", "".join(r.choices(chosen, k=length))[:length]


def milliseconds(text: str, task: str = "gsm8k", gold: str = "18", repeat: int = 1) -> float:
    """The best of some gradings, in milliseconds of CPU time."""
    best = float("inf")
    for _ in range(repeat):
        start = time.process_time_ns()
        grade(task, text, gold)
        best = min(best, (time.process_time_ns() - start) / 1e6)
    return best


def main() -> None:
    """Print the figures."""
    if len(sys.argv) > 1:
        rows = [json.loads(line) for line in Path(sys.argv[1]).read_text(encoding="utf-8").splitlines()]
    else:
        problems = word_problems(500)
        rows = [
            {"task": "arithmetic", "completion": "\n".join(p.solution) + f"\n\\boxed{{{p.answer}}}", "gold": p.answer}
            for p in problems
        ]
    usual = [milliseconds(row["completion"], row["task"], str(row["gold"]), repeat=5) for row in rows]
    print(f"{len(usual)} completions: median {statistics.median(usual):.3f} ms, worst {max(usual):.2f} ms")
    slow = sorted(((milliseconds(text, repeat=3), name) for name, text in hard(LENGTH)), reverse=True)
    print(
        f"{len(slow)} hard texts of {LENGTH} characters: median {statistics.median(t for t, _ in slow):.2f} ms, worst:"
    )
    for taken, name in slow[:8]:
        print(f"  {taken:6.2f} ms  {name[:100]}")


if __name__ == "__main__":
    main()

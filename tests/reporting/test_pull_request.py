"""The comment for a pull request: nothing is cut, and what its signs mean stands below the table."""

from reporting.format import DAGGER_NOTE, HOW_TO_READ
from reporting.pull_request import pull_request
from tests.reporting.report_builders import example, one_round


def test_a_long_sentence_on_trust_is_whole() -> None:
    comparison = example()
    named = [f"a check with a name of forty characters, {i}" for i in range(4)]
    comparison["audit"] += [
        {"check": name, "engine": "xserv", "cell": "single.gsm8k", "status": "warn", "evidence": "doubtful"}
        for name in named
    ]
    text = pull_request(comparison)
    assert "more characters" not in text
    assert "characters, 2”" in text


def test_it_explains_the_ratio_and_the_dagger_where_there_is_one() -> None:
    assert HOW_TO_READ in pull_request(example()).replace("\\", "")
    several_rounds = example()
    several_rounds["performance"] = [row for row in several_rounds["performance"] if "perf" in row["workload"]]
    assert DAGGER_NOTE not in pull_request(several_rounds)
    assert DAGGER_NOTE in pull_request(one_round(example()))

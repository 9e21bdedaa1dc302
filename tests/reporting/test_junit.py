from xml.etree import ElementTree as Xml

from reporting.junit import junit
from tests.reporting.report_builders import example, failed_request, one_round, poisoned, void_example


def suites(text: str) -> dict[str, Xml.Element]:
    return {suite.get("name", ""): suite for suite in Xml.fromstring(text.encode())}


def test_a_failed_check_is_a_failure() -> None:
    audit = suites(junit(void_example()))["audit"]
    failed = [row["check"] for row in void_example()["audit"] if row["status"] == "fail"]
    assert "context per slot" in failed
    assert audit.get("tests") == str(len(void_example()["audit"]))
    assert audit.get("failures") == str(len(failed))
    failure = next(case for case in audit if case.get("name") == "context per slot")
    assert "1,024 tokens" in str(failure.findtext("failure"))
    assert suites(junit(example()))["audit"].get("failures") == "0"


def test_a_slower_candidate_is_a_failure_in_a_sentence_with_names_and_units() -> None:
    speed = suites(junit(example()))["speed"]
    # Three loaded cells with three deciding figures each; exploratory figures are no test.
    assert (speed.get("failures"), speed.get("tests")) == ("9", "15")
    failure = speed.find("testcase/failure")
    assert failure is not None
    assert failure.text == (
        "single.perf-medium: output throughput of xserv is 56.6 tok/s, of llama.cpp 95.1 tok/s;"
        " speed ratio 0.595× (interval [0.591, 0.600]); slower."
    )


def test_an_open_verdict_is_skipped_and_one_round_fails_nothing() -> None:
    assert suites(junit(example()))["answers"].get("skipped") == "2"
    speed = suites(junit(one_round(example())))["speed"]
    assert (speed.get("failures"), speed.get("skipped")) == ("0", "15")
    assert str(speed.findtext("testcase/skipped")).endswith("no verdict: fewer than 3 rounds.")


def test_hostile_strings_leave_it_well_formed() -> None:
    found = suites(junit(poisoned(void_example())))
    assert list(found) == ["finding", "audit", "speed", "answers", "requests"]


def test_a_cell_with_failed_requests_is_a_failure_that_names_them() -> None:
    told = failed_request(example(), 3, message="no byte for 30 s")
    found = suites(junit(told))["requests"]
    assert found.get("failures") == "1"
    [failure] = found.iter("failure")
    assert str(failure.text) == (
        "llama.cpp, single.perf-medium: 3 of 51 requests failed: 3 silence_timeout: no byte for 30 s"
    )
    assert suites(junit(example()))["requests"].get("failures") == "0"

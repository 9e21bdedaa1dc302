from xml.etree import ElementTree as Xml

from reporting.junit import junit
from tests.reporting.report_builders import example, failed_request, poisoned, void_example


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


def test_slower_is_a_failure_and_inconclusive_is_skipped() -> None:
    found = suites(junit(example()))
    assert int(found["speed"].get("failures", "0")) == 18
    assert found["answers"].get("skipped") == "2"


def test_hostile_strings_leave_it_well_formed() -> None:
    assert list(suites(junit(poisoned(void_example())))) == ["audit", "speed", "answers", "requests"]


def test_a_cell_with_failed_requests_is_a_failure_that_names_them() -> None:
    told = failed_request(example(), 3, message="no byte for 30 s")
    found = suites(junit(told))["requests"]
    assert found.get("failures") == "1"
    [failure] = found.iter("failure")
    assert str(failure.text).endswith("failed: 3 silence_timeout: no byte for 30 s")
    assert suites(junit(example()))["requests"].get("failures") == "0"

"""Times as text: one form, UTC, sortable; and no second place that makes one."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, timezone

from records.utc import utc_now, utc_stamp, utc_text
from tests.test_dependencies import PRODUCT, ROOT


def test_a_moment_of_another_zone_is_given_in_utc() -> None:
    moment = datetime(2026, 12, 1, 1, 30, 5, 250_999, tzinfo=timezone(timedelta(hours=2)))
    assert utc_text(moment) == "2026-11-30T23:30:05Z"
    assert utc_text(moment, milliseconds=True) == "2026-11-30T23:30:05.250Z"


def test_whole_seconds_keep_their_milliseconds_so_that_texts_sort() -> None:
    assert utc_text(datetime(2026, 12, 1, tzinfo=UTC), milliseconds=True) == "2026-12-01T00:00:00.000Z"


def test_the_clock_is_read_now() -> None:
    before = datetime.now(UTC).replace(microsecond=0)
    assert before <= datetime.fromisoformat(utc_now()) <= datetime.now(UTC)
    assert before <= datetime.strptime(utc_stamp(), "%Y%m%dT%H%M%S%z") <= datetime.now(UTC)
    assert re.fullmatch(r"[-\d]{10}T[:\d]{8}\.\d{3}Z", utc_now(milliseconds=True))


def test_only_this_module_makes_a_time_stamp() -> None:
    makes = re.compile(r"strftime|%H[:%]|\.isoformat\(")
    paths = [path for folder in PRODUCT for path in (ROOT / folder).rglob("*.py")]
    found = [str(path.relative_to(ROOT)) for path in paths if makes.search(path.read_text(encoding="utf-8"))]
    assert found == ["records/utc.py"]

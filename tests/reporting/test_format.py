import pytest

from reporting import format
from reporting.view import View
from scoring.metrics import WITHIN_RUN


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (None, "–"),
        (0, "0"),
        (0.01234, "0.0123"),
        (0.4213, "0.421"),
        (17.68, "17.7"),
        (135.2, "135"),
        (12345.6, "12,346"),
    ],
)
def test_figures_have_the_digits_that_matter(value: float | None, shown: str) -> None:
    assert format.figure(value) == shown


@pytest.mark.parametrize(
    ("metric", "name"),
    [
        ("ttft_ms_p50", "TTFT p50"),
        ("tpot_ms_mean", "TPOT mean"),
        ("e2e_scheduled_ms_p99", "E2E from schedule p99"),
        ("output_tok_s", "Output throughput"),
    ],
)
def test_metrics_have_names_for_people(metric: str, name: str) -> None:
    assert format.metric_name(metric) == name


def test_an_interval_from_within_one_round_has_a_dagger_and_no_verdict() -> None:
    told = {"value": 0.5, "ci": [0.4, 0.6], "verdict": None, "method": WITHIN_RUN}
    assert format.ratio_with_interval(told) == "0.50× [0.40, 0.60]†"


def test_beside_a_verdict_stands_the_interval_that_it_was_made_with() -> None:
    told = {"value": 0.5, "ci": [0.45, 0.55], "ci_adjusted": [0.4, 0.6], "verdict": "slower", "method": "Welch"}
    assert format.ratio_with_interval(told) == "0.50× [0.40, 0.60] slower"
    assert format.ratio_with_interval(told | {"verdict": None}) == "0.50× [0.45, 0.55]"


def test_an_interval_near_one_shows_on_which_side_it_is() -> None:
    told = {"value": 0.993, "ci": [0.987, 0.998], "verdict": "slower", "method": "welch"}
    assert format.ratio_with_interval(told) == "0.993× [0.987, 0.998] slower"


def test_an_unknown_ratio_is_a_dash() -> None:
    assert format.ratio_with_interval({"value": None, "ci": None, "verdict": None}) == "–"
    assert format.ratio_with_interval(None) == "–"


def test_points_are_signed() -> None:
    assert format.points(0.02, [-0.0528, 0.1]) == "+2.0 points [−5.3, +10.0]"
    assert format.points(None) == "–"


def test_a_very_wide_interval_keeps_its_magnitude() -> None:
    assert format.interval([0.0042, 114.28]) == "[0.0042, 114]"


def test_a_ratio_and_its_interval_are_rounded_alike() -> None:
    told = {"value": 10.213, "ci": [9.924, 10.4996], "verdict": "faster", "method": "Welch on log rounds"}
    assert format.ratio_with_interval(told) == "10.2× [9.92, 10.5] faster"


def test_a_stamp_is_shown_as_a_time_and_anything_else_as_it_is() -> None:
    assert View({"created": "20261130T104020Z"}).created == "2026-11-30 10:40 UTC"
    assert View({"created": "now"}).created == "now"

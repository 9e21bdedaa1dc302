"""The nightly gate on answers: paired where it can be, and never beyond the parity margin by chance alone."""

import pytest
from scipy import stats

from scoring.statistics.answers_gate import decide_answers
from scoring.statistics.proportions import paired_difference


def test_answers_are_paired_where_both_runs_list_every_problem() -> None:
    lost = [(True, False)] * 8 + [(True, True)] * 40 + [(False, False)] * 2
    decision = decide_answers((48, 50), (40, 50), lost, 2.0)
    assert decision.verdict == "regression"
    assert decision.ratio == pytest.approx(-0.16)
    assert "8 lost, 0 won" in decision.evidence
    assert decide_answers((48, 50), (40, 50), lost, 20.0).verdict == "ok"
    swapped = [(True, False)] * 4 + [(False, True)] * 4 + [(True, True)] * 42
    assert decide_answers((46, 50), (46, 50), swapped, 2.0).verdict == "ok"


def test_several_samples_a_problem_are_clustered_by_problem() -> None:
    same = [(0.5, 0.5)] * 20 + [(1.0, 0.75), (0.75, 1.0)] * 5
    worse = [(0.75, 0.25)] * 20 + [(1.0, 0.75)] * 10
    assert decide_answers((70, 120), (70, 120), same, 2.0).verdict == "ok"
    assert decide_answers((90, 120), (42, 120), worse, 2.0).verdict == "regression"


def test_a_mean_loss_whose_clustered_interval_holds_0_is_none() -> None:
    # Ten of twenty problems changed by a half, six down and four up: mean -0.05, standard error about 0.08.
    mixed = [(1.0, 0.5)] * 6 + [(0.5, 1.0)] * 4 + [(1.0, 1.0)] * 10
    decision = decide_answers((36, 40), (34, 40), mixed, 2.0)
    assert decision.verdict == "ok"
    assert decision.evidence == "mean over 20 problems, interval clustered by problem"
    changes = [now - was for was, now in mixed]
    assert decision.ci == pytest.approx(stats.t.interval(0.99, 19, -0.05, stats.sem(changes)))


def test_fewer_than_six_problems_that_changed_are_no_regression_as_in_the_exact_test() -> None:
    few = [(1.0, 0.75)] * 4 + [(1.0, 1.0)] * 26
    decision = decide_answers((120, 120), (116, 120), few, 2.0)
    assert decision.verdict == "ok"
    assert decision.ci == tuple(paired_difference(0, 4, 30).as_list())
    assert decision.evidence == "4 lost, 0 won of 30 problems, McNemar p = 0.125"
    enough = [(1.0, 0.75)] * 8 + [(1.0, 1.0)] * 22
    assert decide_answers((120, 120), (112, 120), enough, 2.0).verdict == "regression"


def test_each_of_many_figures_is_tested_at_its_share_of_the_error() -> None:
    # 8 lost and none won: McNemar p = 2 / 2^8 = 0.0078.
    lost = [(True, False)] * 8 + [(True, True)] * 42
    assert decide_answers((50, 50), (42, 50), lost, 2.0, figures=1).verdict == "regression"
    assert decide_answers((50, 50), (42, 50), lost, 2.0, figures=2).verdict == "ok"


def test_answers_without_pairs_fall_back_to_the_counts() -> None:
    worse = decide_answers((95, 100), (70, 100), None, 2.0)
    assert worse.verdict == "regression"
    assert worse.evidence.startswith("95/100 -> 70/100, Fisher p = ")
    assert decide_answers((95, 100), (92, 100), None, 2.0).verdict == "ok"
    assert decide_answers((0, 0), (1, 1), None, 2.0).verdict == "not judged"

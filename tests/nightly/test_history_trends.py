import csv
import io
import random
from pathlib import Path

import numpy as np
import pytest

from nightly.history.change_points import change_points
from nightly.history.export import _inert, export_csv, otava_config
from nightly.history.store import GateRow, History, read_run
from nightly.history.trends import Trend, lines, to_json, trends
from nightly.report import columns, printable
from scoring.metrics import METRICS, unit_and_better
from tests.nightly.nightly_builders import HOST, Night

NEW_DRIVER = HOST | {"gpu": [HOST["gpu"][0] | {"driver": "575.20"}]}


def filled(tmp_path: Path, nights: list[Night]) -> History:
    history = History(tmp_path / "h.db")
    rng = random.Random(4)
    for each in nights:
        history.add(read_run(each.write(tmp_path / "runs", rng)))
    return history


def series_of_nights(count: int, **changes: object) -> list[Night]:
    return [Night(f"n{day:02}", f"2026-01-{day:02}T02:00:00Z", **changes) for day in range(1, count + 1)]  # type: ignore[arg-type]


def only(found: list[Trend]) -> Trend:
    assert len(found) == 1
    return found[0]


def test_a_lasting_shift_is_found_at_its_night_and_a_quiet_series_has_none() -> None:
    rng = np.random.default_rng(7)
    quiet = rng.normal(0, 0.013, 30)
    shifted = quiet + np.where(np.arange(30) >= 18, -0.06, 0.0)
    assert change_points(list(quiet)) == []
    assert change_points(list(shifted)) == [18]


def test_two_shifts_are_found_although_the_level_comes_back() -> None:
    rng = np.random.default_rng(3)
    values = rng.normal(0, 0.01, 45)
    values[15:30] += 0.06
    assert [abs(a - b) <= 1 for a, b in zip(change_points(list(values)), [15, 30], strict=True)] == [True, True]


def test_change_points_rarely_appear_in_noise() -> None:
    rng = np.random.default_rng(11)
    false = sum(bool(change_points(list(rng.normal(0, 1, 30)))) for _ in range(100))
    assert false <= 4


@pytest.mark.parametrize("values", [[], [1.0], [1.0] * 5, [2.0] * 40, [1.0, 2.0] * 2])
def test_a_short_or_constant_series_has_no_change_point(values: list[float]) -> None:
    assert change_points(values) == []


def test_a_trend_shows_the_shift_with_its_speed_ratio_and_run(tmp_path: Path) -> None:
    nights = series_of_nights(24)
    for each in nights[14:]:
        each.slower = {"llama": 0.08}
    with filled(tmp_path, nights) as history:
        for metric in ("output_tok_s", "ttft_ms_p50"):
            shift = only(trends(history, metric)).shifts
            assert [each.run_id for each in shift] == ["n15"]
            assert shift[0].speed_ratio == pytest.approx(0.92, abs=0.02)
        assert "slower" in "\n".join(lines(only(trends(history, "ttft_ms_p50"))))
        assert to_json(only(trends(history, "output_tok_s")))["shifts"][0]["index"] == 14


def test_a_driver_change_breaks_the_series_visibly_and_hides_no_shift_as_one(tmp_path: Path) -> None:
    nights = series_of_nights(20)
    for each in nights[10:]:
        each.host, each.slower = NEW_DRIVER, {"llama": 0.10}
    with filled(tmp_path, nights) as history:
        found = only(trends(history, "output_tok_s"))
        assert found.shifts == ()
        assert [p.run_id for p in found.series.points if p.broken_by] == ["n11"]
        assert "series broken: gpu0.driver 570.10 -> 575.20" in "\n".join(lines(found))


def test_a_reading_such_as_a_temperature_breaks_nothing(tmp_path: Path) -> None:
    nights = series_of_nights(2)
    nights[1].host = HOST | {"gpu": [HOST["gpu"][0] | {"temperature_c": 71}], "memory_bytes": 5}
    with filled(tmp_path, nights) as history:
        assert not any(p.broken_by for p in only(trends(history, "output_tok_s")).series.points)


def test_a_changed_load_breaks_the_series_of_its_cell(tmp_path: Path) -> None:
    nights = series_of_nights(2)
    nights[1].profile = {"sampling": {"temperature": 0.7}}
    with filled(tmp_path, nights) as history:
        assert (
            "load of single.perf-short changed" in only(trends(history, "output_tok_s")).series.points[1].broken_by[0]
        )


def test_a_new_build_is_shown_but_breaks_nothing(tmp_path: Path) -> None:
    nights = series_of_nights(2)
    nights[1].build = {"llama": "b9500"}
    with filled(tmp_path, nights) as history:
        found = only(trends(history, "output_tok_s"))
        assert not found.series.points[1].broken_by
        assert "build b9371 -> b9500" in "\n".join(lines(found))


def test_void_runs_and_confirmations_are_no_part_of_a_trend(tmp_path: Path) -> None:
    nights = series_of_nights(3)
    nights[1].void = True
    with filled(tmp_path, nights) as history:
        run = read_run(Night("again", "2026-01-04T02:00:00Z").write(tmp_path / "runs", random.Random(1)))
        run.kind, run.confirms = "confirmation", "n03"
        history.add(run)
        assert [p.run_id for p in only(trends(history, "output_tok_s")).series.points] == ["n01", "n03"]


def test_the_csv_has_a_row_a_run_and_counts_series(tmp_path: Path) -> None:
    nights = series_of_nights(4, engines=("llama", "xserv"))
    nights[2].host = nights[3].host = NEW_DRIVER
    with filled(tmp_path, nights) as history:
        out = io.StringIO()
        names = export_csv(history, out, profile="night", metrics=("output_tok_s",))
        rows = list(csv.DictReader(io.StringIO(out.getvalue())))
        assert names == ["llama.single.perf-short.output_tok_s", "xserv.single.perf-short.output_tok_s"]
        assert [row["series"] for row in rows] == ["1", "1", "2", "2"]
        assert rows[2]["broken_by"] == "gpu0.driver 570.10 -> 575.20"
        assert rows[0]["time"] == "2026-01-01T02:00:00+00:00"
        figure = next(
            f for f in history.figures("n01") if f.engine == "xserv" and f.metric == "output_tok_s" and not f.round
        )
        assert float(rows[0][names[1]]) == figure.value


def test_the_export_gives_each_metric_the_direction_that_scoring_gives_it() -> None:
    for metric in METRICS:
        told = otava_config("h.csv", "night", [f"llama.single.perf-short.{metric}"])
        direction = 1 if unit_and_better(metric)[1] == "higher" else -1
        assert f"direction: {direction}\n" in told, metric


def test_a_hostile_name_can_neither_move_the_cursor_nor_run_in_a_spreadsheet(tmp_path: Path) -> None:
    nights = series_of_nights(2)
    nights[0].build = {"llama": "\x1b[2Jb1\u202egnp.exe"}
    with filled(tmp_path, nights) as history:
        text = "\n".join(lines(only(trends(history, "output_tok_s"))))
        assert "\x1b" not in text and "\u202e" not in text and "␛[2J" in text
        history.end("n01", note="=cmd()")
        run = history.get("n01")
        assert printable(run.note) == "=cmd()"
    assert columns(("a", "b"), [["x\ny", None]]) == ["a    b", "x␤y  –"]


def test_a_formula_or_control_character_in_an_exported_text_is_inert(tmp_path: Path) -> None:
    nights = series_of_nights(2)
    nights[0].build = {"llama": "\x1b[2J=1"}
    with filled(tmp_path, nights) as history:
        with history._change() as db:
            db.execute("UPDATE run SET created_utc = '=HYPERLINK(1)', place_utc = '2026-01-01' WHERE run_id = 'n01'")
        out = io.StringIO()
        export_csv(history, out, profile="night")
        first, second = csv.DictReader(io.StringIO(out.getvalue()))
        assert first["time"] == "'=HYPERLINK(1)"
        assert "\x1b" not in out.getvalue() and second["broken_by"] == ""
        assert first["builds"] == "llama=␛[2J=1"
    # A tab before a formula is taken off by some spreadsheets.
    assert _inert("\t=1") == "'␉=1"


def test_the_chart_shows_an_8_percent_step_and_marks_the_night_that_broke(tmp_path: Path) -> None:
    nights = series_of_nights(20)
    for each in nights[12:]:
        each.slower = {"llama": 0.08}
    with filled(tmp_path, nights) as history:
        for run_id in ("n13", "n14"):
            row = GateRow(
                "llama", "single.perf-short", "output_tok_s", None, 0.92, 0.9, 0.94, 0.95, "regression", "", "n13"
            )
            history.add_gates(run_id, [row], 1)
        text = lines(only(trends(history, "output_tok_s")))
        place = {night: line.index("|") for night in ("n12", "n13") for line in text if night in line}
        charts = {night: next(line for line in text if f"|  {night}" in line) for night in ("n12", "n13", "n14")}
        step = charts["n12"].index("o") - charts["n13"].index("x")
        assert place and step >= 10
        assert charts["n13"].endswith("REGRESSION  since n13") and charts["n14"].endswith("REGRESSION  since n13")

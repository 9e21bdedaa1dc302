"""Runs the hook `on_regression`: starts each slower engine and the baseline once more, with the hook beside the load.

Only cells with a regression run again. The results are in `regressions/` of the run's folder and never compared.
"""

from __future__ import annotations

from driver.errors import BenchError
from driver.profile.model import Profile
from driver.profile.sections import Hooks
from driver.run.plan import EngineRound
from driver.run.progress import Display
from driver.run.prompts import load_workloads, write_workloads
from driver.run.round import run_engine_round
from records import JsonObject, RunFolder
from records.wording import count

REGRESSED = ("slower", "worse")
"""Verdicts of `scoring.statistics.joint_verdict` that mean a regression of the candidate."""


def regressed_cells(comparison: JsonObject) -> dict[str, list[str]]:
    """By candidate, the cells with slower speed or worse answers; empty if the comparison is void."""
    if comparison["verdict"].get("void"):
        return {}
    cells: dict[str, list[str]] = {}
    for kind, ratios in (("performance", "speed_ratio"), ("quality", "paired")):
        for row in comparison[kind]:
            for candidate, result in (row.get(ratios) or {}).items():
                lost = cells.setdefault(candidate, [])
                if result.get("verdict") in REGRESSED and row["cell"] not in lost:
                    lost.append(row["cell"])
    return {candidate: lost for candidate, lost in cells.items() if lost}


def look_into(profile: Profile, folder: RunFolder, comparison: JsonObject, display: Display) -> None:
    """Run the hook `on_regression` if a candidate has a regression; errors are only reported."""
    hook = profile.hooks.on_regression
    regressed = regressed_cells(comparison) if hook else {}
    if not regressed:
        return
    names = dict.fromkeys(cell for cells in regressed.values() for cell in cells)
    display.say(f"on_regression: {count(len(names), 'cell')} once more, with the hook; figures are not compared")
    hooks = Hooks(during_cell=hook, during_round=1, timeout_s=profile.hooks.timeout_s)
    attached = profile.model_copy(update={"hooks": hooks})
    again = RunFolder(folder.path / "regressions")
    again.path.mkdir(exist_ok=True)
    try:
        write_workloads(again, load_workloads(profile))
        for engine in profile.engines:
            wanted = names if engine.name == profile.baseline else regressed.get(engine.name, ())
            cells = tuple(cell for cell in profile.cells if cell.label in wanted)
            if cells:
                with display:
                    run_engine_round(again, attached, EngineRound(engine, 1, cells), display)
    except BenchError as error:
        display.say(f"on_regression: {error.message}")

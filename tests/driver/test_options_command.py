"""`enginebench options` and the page made of it."""

from __future__ import annotations

import pytest

from driver.cli import cli
from driver.commands.options import markdown
from driver.profile.cell_options import scenarios
from tests.engines.helpers import ROOT


def test_docs_options_md_is_what_the_program_knows_today() -> None:
    page = (ROOT / "docs/options.md").read_text(encoding="utf-8")
    assert page == markdown(), "out of step; make it again: enginebench options --markdown > docs/options.md"


@pytest.mark.parametrize(
    ("scenario", "has", "lacks"),
    [("sweep", "--steps", "--rate "), ("open_loop", "--rate RATE", "--steps"), ("single", "--requests", "--ramp")],
)
def test_a_scenario_lists_the_options_that_it_has_a_use_for(
    scenario: str, has: str, lacks: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli(["options", scenario]) == 0
    told = capsys.readouterr().out
    assert has in told and lacks not in told and f"scenario-path {scenario}" in told


def test_without_a_scenario_each_special_option_says_which_takes_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli(["options"]) == 0
    assert "[only sweep; default 1,2,4,8]" in " ".join(capsys.readouterr().out.split())


def test_the_path_of_every_scenario_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    for name in scenarios():
        assert cli(["scenario-path", name]) == 0
        assert capsys.readouterr().out == f"{ROOT}/locustfiles/{name}.py\n"

"""The profiles printed in docs/profiles.md are whole ones that can be used as they stand."""

from __future__ import annotations

import re
import tomllib

import pytest

from driver.profile.read import parse_profile
from tests.engines.helpers import ROOT

BLOCKS = re.findall(r"```toml\n(.*?)```", (ROOT / "docs/profiles.md").read_text(encoding="utf-8"), re.DOTALL)


@pytest.mark.parametrize("text", BLOCKS)
def test_a_profile_in_the_docs_is_accepted(text: str) -> None:
    profile = parse_profile(tomllib.loads(text), "docs/profiles.md")
    assert len(profile.engines) == 2 and profile.rounds == 3


def test_the_docs_begin_with_three_profiles() -> None:
    assert len(BLOCKS) == 3

"""The profiles printed in docs/profiles.md are whole ones that can be used as they stand."""

from __future__ import annotations

import ast
import itertools
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


def test_the_docs_begin_with_whole_profiles() -> None:
    assert len(BLOCKS) == 5


@pytest.mark.parametrize("name", ["model", "sections"])
def test_every_field_of_a_profile_is_documented_where_it_stands(name: str) -> None:
    tree = ast.parse((ROOT / f"driver/profile/{name}.py").read_text(encoding="utf-8"))
    for section in (node for node in tree.body if isinstance(node, ast.ClassDef)):
        for field, following in itertools.pairwise(section.body):
            if isinstance(field, ast.AnnAssign):
                documented = isinstance(following, ast.Expr) and isinstance(following.value, ast.Constant)
                assert documented, f"{section.name}.{ast.unparse(field.target)} has no docstring"

"""The tree keeps its order: small folders, no prefix families, no private imports across folders, no circles."""

from __future__ import annotations

from pathlib import Path

from tests import house
from tests.house import Module, product
from tests.test_dependencies import ROOT


def module(name: str, *imports: str) -> Module:
    path = ROOT / Path(*name.split(".")).with_suffix(".py")
    return Module(name, path, 1, frozenset(imports))


def test_no_folder_is_crowded() -> None:
    assert house.crowded_folders(product()) == {}
    assert house.crowded_folders([module(f"load.m{i}") for i in range(21)]) == {"load": 21}


def test_no_folder_has_three_names_with_one_prefix() -> None:
    assert house.shared_prefixes(product()) == {}
    names = ["load.sse_a", "load.sse_b", "load._sse_c", "load.chat.sse_d"]
    assert house.shared_prefixes(list(map(module, names))) == {"load/sse_*": ["sse_a", "sse_b", "_sse_c"]}


def test_no_private_module_is_imported_from_another_top_level_folder() -> None:
    assert house.private_imports(product()) == []
    modules = [module("driver.run", "scoring._merge", "driver._own")]
    assert house.private_imports(modules) == ["driver.run imports scoring._merge"]


def test_there_is_no_import_circle() -> None:
    assert house.circle(product()) == []
    modules = [module("a", "b"), module("b", "a")]
    assert set(house.circle(modules)) == {"a", "b"}


def test_an_import_inside_a_function_counts_and_one_for_type_checking_does_not() -> None:
    names = {"load.environment_state", "load.session", "records"}
    text = (
        "from typing import TYPE_CHECKING\n"
        "if TYPE_CHECKING:\n    from load.session import Session\n"
        "def f():\n    from load import environment_state\n    from records import Record\n"
    )
    assert house._imports("load.plugin", text, names) == {"load.environment_state", "records"}

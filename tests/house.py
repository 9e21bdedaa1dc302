"""Measures the tree by its own imports; `python -m tests.house` prints the figures."""

from __future__ import annotations

import ast
from collections import Counter, defaultdict
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

from tests.test_dependencies import PRODUCT, ROOT, declared, undeclared

MOST_MODULES = 20
MOST_WITH_ONE_PREFIX = 2
SHORT = 60


@dataclass(frozen=True)
class Module:
    """A module of the product: its dotted name, its lines, and the modules of the product that it imports."""

    name: str
    path: Path
    lines: int
    imports: frozenset[str]

    @property
    def top(self) -> str:
        return self.name.partition(".")[0]


def product() -> list[Module]:
    """All modules of the product, sorted by name."""
    files = [path for folder in PRODUCT for path in (ROOT / folder).rglob("*.py")]
    names = {_name(path): path for path in [*files, ROOT / "run_bench.py"]}
    modules = []
    for name, path in sorted(names.items()):
        text = path.read_text(encoding="utf-8")
        modules.append(Module(name, path, len(text.splitlines()), _imports(name, text, set(names))))
    return modules


def crowded_folders(modules: list[Module]) -> dict[str, int]:
    """Folders with more than `MOST_MODULES` modules."""
    return {folder: size for folder, size in sizes(modules).items() if size > MOST_MODULES}


def sizes(modules: list[Module]) -> Counter[str]:
    """The number of modules of each folder, its own `__init__` left out."""
    return Counter(_folder(module) for module in modules if module.path.stem != "__init__")


def shared_prefixes(modules: list[Module]) -> dict[str, list[str]]:
    """Names in one folder that share the word before the first underscore: they want a sub-folder."""
    names = defaultdict(list)
    for module in modules:
        prefix, underscore, _ = module.path.stem.lstrip("_").partition("_")
        if underscore:
            names[f"{_folder(module)}/{prefix}_*"].append(module.path.stem)
    return {prefix: stems for prefix, stems in names.items() if len(stems) > MOST_WITH_ONE_PREFIX}


def private_imports(modules: list[Module]) -> list[str]:
    """Imports of a private module (`_name`) from another top-level folder."""
    return [
        f"{module.name} imports {name}"
        for module in modules
        for name in sorted(module.imports)
        if name.partition(".")[0] != module.top and any(part.startswith("_") for part in name.split("."))
    ]


def circle(modules: list[Module]) -> list[str]:
    """The modules of one import circle; empty if there is none."""
    try:
        TopologicalSorter({module.name: module.imports for module in modules}).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def _name(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


def _folder(module: Module) -> str:
    return str(module.path.parent.relative_to(ROOT))


def _imports(name: str, text: str, names: set[str]) -> frozenset[str]:
    """The imported modules of the product. An import for type checking alone does not count: it never runs."""
    imported: set[str] = set()
    for node in _runtime_nodes(ast.parse(text)):
        if isinstance(node, ast.Import):
            candidates = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            candidates = [f"{node.module}.{alias.name}" for alias in node.names]
        else:
            continue
        for candidate in candidates:
            # An imported name that is no module belongs to the module before its last dot.
            imported.add(candidate if candidate in names else candidate.rpartition(".")[0])
    return frozenset(imported & names - {name})


def _runtime_nodes(tree: ast.AST) -> list[ast.AST]:
    nodes: list[ast.AST] = []
    for child in ast.iter_child_nodes(tree):
        if not (isinstance(child, ast.If) and "TYPE_CHECKING" in ast.dump(child.test)):
            nodes += [child, *_runtime_nodes(child)]
    return nodes


def main() -> None:
    """Print the size of the tree, and what breaks its rules."""
    modules = product()
    print(f"product modules: {len(modules)}")
    print(f"lines: {sum(module.lines for module in modules)}")
    print(f"modules under {SHORT} lines: {sum(module.lines < SHORT for module in modules)}")
    print(f"modules in the largest folder: {max(sizes(modules).values())} (at most {MOST_MODULES})")
    print(f"prefixes shared by more than {MOST_WITH_ONE_PREFIX} modules of a folder: {len(shared_prefixes(modules))}")
    print(f"private imports across top-level folders: {len(private_imports(modules))}")
    print(f"modules in an import circle: {len(circle(modules))}")
    print(f"packages imported but not declared: {len(undeclared(PRODUCT, declared('demo')))}")


if __name__ == "__main__":
    main()

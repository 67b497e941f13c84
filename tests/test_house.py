"""The house keeps its floors, and its tests keep their manners."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent

_BELOW_DRIVER = {"errors", "ir", "te", "schedule", "topi", "autoschedule", "codegen", "runtime", "autotune"}
ALLOWED = {
    "errors": set(),
    "limits": set(),
    "ir": {"errors"},
    "runtime": {"errors"},
    "te": {"errors", "ir"},
    "schedule": {"errors", "ir", "te"},
    "codegen": {"errors", "ir", "runtime"},
    "topi": {"errors", "ir", "te", "codegen.target", "codegen.machine"},
    "autoschedule": {"errors", "ir", "te", "schedule", "topi", "codegen.target", "codegen.machine"},
    "autotune": {"errors", "ir", "te", "schedule", "topi", "autoschedule", "codegen", "runtime"},
    "driver": _BELOW_DRIVER,
    "views": {"errors", "ir", "te", "schedule", "codegen", "runtime", "driver"},
}
"""Which of our floors, or modules of them, each floor may import; all may import limits. compat, cli and the package's own face
stand on top of all."""

INSIDE_IR = {"nodes": set(), "arith": {"nodes"}, "analysis": {"nodes", "arith"}, "passes": {"nodes", "arith", "analysis"}}
INSIDE_SCHEDULE = {"errors": set(), "model": {"errors"}, "primitives": {"errors", "model"},
                   "lowering": {"errors", "model", "tensorize"}, "tensorize": {"model", "lowering"}}
"""The rooms of ir/ and of schedule/, likewise."""


def modules() -> list[Path]:
    return [path for floor in ALLOWED for path in sorted(ROOT.glob(f"{floor}.py")) + sorted((ROOT / floor).rglob("*.py"))]


def imported_modules(path: Path) -> set[str]:
    """The modules of ours that a file imports, as dotted names below the package: 'ir.expr', 'errors'."""
    package = path.relative_to(ROOT).parts[:-1]
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.level:
            base = package[: len(package) - node.level + 1]
            target = ".".join((*base, *(node.module.split(".") if node.module else ())))
            found |= {f"{target}.{alias.name}".lstrip(".") for alias in node.names} if not node.module else {target}
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names if alias.name.split(".")[0] == "tilewright"}
    return found


def floor_of(module: str) -> str:
    return module.split(".")[0]


@pytest.mark.parametrize("path", modules(), ids=lambda path: str(path.relative_to(ROOT)))
def test_modules_import_lower_floors_only(path: Path) -> None:
    own = floor_of(".".join(path.relative_to(ROOT).with_suffix("").parts))
    face = path.name == "__init__.py"
    imports = imported_modules(path)
    assert not [name for name in imports if name.startswith("tilewright")], "inside the package imports are relative"
    if face:
        return  # a folder's face may hand on names of an upper floor lazily
    for name in imports:
        floor = floor_of(name)
        assert floor in (own, "limits") or not ALLOWED[own].isdisjoint((floor, name)), f"{own} may not import {name}"


@pytest.mark.parametrize("path", sorted((ROOT / "ir").rglob("*.py")), ids=lambda path: str(path.relative_to(ROOT)))
def test_ir_builds_upwards_from_nodes_to_arith_to_analysis_to_passes(path: Path) -> None:
    def level(parts: tuple[str, ...]) -> str:
        return parts[1] if len(parts) > 1 and parts[1] in INSIDE_IR else "nodes"

    own = level(path.relative_to(ROOT).parts)
    for name in imported_modules(path):
        if floor_of(name) == "ir":
            assert level(tuple(name.split("."))) in INSIDE_IR[own] | {own}, f"ir's {own} may not import {name}"


@pytest.mark.parametrize("path", sorted((ROOT / "schedule").rglob("*.py")), ids=lambda path: str(path.relative_to(ROOT)))
def test_primitives_and_lowering_stand_on_the_model_and_know_nothing_of_each_other(path: Path) -> None:
    own = path.relative_to(ROOT / "schedule").with_suffix("").parts[0]
    if own == "__init__":
        return
    rooms = {name.split(".")[1] for name in imported_modules(path) if floor_of(name) == "schedule"}
    assert rooms <= INSIDE_SCHEDULE[own] | {own}, f"schedule's {own} may not import {rooms}"


def test_every_expected_failure_in_the_tests_says_which_message_it_expects() -> None:
    careless = [
        f"{path.name}:{node.lineno}"
        for path in (ROOT / "tests").rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call)
        and ast.unparse(node.func) == "pytest.raises"
        and "match" not in {keyword.arg for keyword in node.keywords}
    ]
    assert careless == []


def test_every_package_folder_is_listed_for_the_wheel() -> None:
    import tomllib

    listed = set(tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["packages"])
    folders = {
        ".".join(("tilewright", *path.parent.relative_to(ROOT).parts))
        for floor in (*ALLOWED, "compat", "demo", "cli")
        for path in (ROOT / floor).rglob("__init__.py")
    }
    assert folders | {"tilewright"} == listed

"""Tests that name internals of autoschedule stand in `structure_tests.txt`, and may change with its structure. All others assert
behaviour: they stay as they are when the structure changes."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

TESTS = Path(__file__).parents[1]
LIST = Path(__file__).with_name("structure_tests.txt")
PUBLIC = {"schedule", "rules", "register", "Rule", "Candidate", "Estimate", "Plan"}


def names_in(node: ast.AST) -> set[str]:
    return {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}


def internals(tree: ast.Module) -> set[str]:
    """The names that a file imports from inside of autoschedule."""
    found = set[str]()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("tilewright.autoschedule"):
            names = {name.name: name.asname or name.name for name in node.names}
            whole = node.module == "tilewright.autoschedule"
            found |= {own for name, own in names.items() if not (whole and name in PUBLIC)}
    return found


def structure_tests(path: Path) -> Iterator[str]:
    """The tests of a file that use internals, by themselves or through what the file defines."""
    text = path.read_text()
    tree = ast.parse(text if "tilewright.autoschedule" in text else "")
    used = internals(tree)
    defined = [node for node in tree.body if isinstance(node, ast.FunctionDef | ast.ClassDef | ast.Assign)]
    found = dict.fromkeys(used)
    while used:
        more = [node for node in defined if names_in(node) & found.keys()]
        defined = [node for node in defined if node not in more]
        used = {name for node in more for name in defined_by(node)}
        found |= dict.fromkeys(used)
    return (f"{path.relative_to(TESTS)}::{name}" for name in found if name.startswith("test_"))


def defined_by(node: ast.stmt) -> set[str]:
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        return {node.name}
    assert isinstance(node, ast.Assign)
    return {name for target in node.targets for name in names_in(target)}


def test_the_list_of_tests_of_structure_is_right() -> None:
    found = sorted(test for path in TESTS.rglob("test_*.py") for test in structure_tests(path))
    assert found == LIST.read_text().split()

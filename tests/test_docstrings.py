"""Docstrings of what users call list its parameters, and name, with its code, every error that the function, or a helper in its
file, raises."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import tilewright as tw
from sources import ROOT, source_files

FACES = ("tilewright", "tilewright.te", "tilewright.runtime", "tilewright.autotune", "tilewright.driver")
# The reference's pages. topi's docstrings name errors by the checks that they share, which lie in files of their own.
PAGES = (
    *FACES,
    *("tilewright.graph", "tilewright.autoschedule", "tilewright.te.hybrid", "tilewright.te.blas", "tilewright.views"),
    *("tilewright.topi", "tilewright.topi.nn", "tilewright.topi.image", "tilewright.topi.vision"),
)


def codes() -> dict[str, str]:
    """The codes of errors by the names of their classes."""
    for path in source_files("tools"):
        if path.name.endswith("errors.py"):
            import_module(".".join(("tilewright", *path.relative_to(ROOT).with_suffix("").parts)))

    def below(kind: type[Any]) -> Iterator[type[Any]]:
        for sub in kind.__subclasses__():
            yield sub
            yield from below(sub)

    return {
        kind.__name__: kind.code
        for kind in below(tw.TilewrightError)
        if re.fullmatch(r"TW\d{4}", getattr(kind, "code", ""))
    }


CODES = codes()


def raised(function: ast.AST, helpers: Mapping[str, ast.AST], seen: set[str]) -> set[str]:
    """The codes of what a function raises, or what a private helper of its file that it calls does."""
    here: set[str] = set()
    for node in ast.walk(function):
        if isinstance(node, ast.Raise) and node.exc is not None:
            here |= {CODES[name.id] for name in ast.walk(node.exc) if isinstance(name, ast.Name) and name.id in CODES}
        called = node.func if isinstance(node, ast.Call) else None
        own = isinstance(called, ast.Attribute) and isinstance(called.value, ast.Name) and called.value.id == "self"
        name = (
            called.id
            if isinstance(called, ast.Name)
            else called.attr
            if isinstance(called, ast.Attribute) and own
            else ""
        )
        if name in CODES:
            here.add(CODES[name])
        if name.startswith("_") and name in helpers and name not in seen:
            seen.add(name)
            here |= raised(helpers[name], helpers, seen)
    return here


def described() -> Iterator[tuple[str, str, ast.FunctionDef, Mapping[str, ast.AST], str]]:
    """Every function and method of the faces: where it is, its name, itself, its file's functions, and what its class says."""
    homes: dict[Path, set[str]] = {}
    for face in map(import_module, FACES):
        for name in getattr(face, "__all__", None) or dir(face):
            public = getattr(face, name, None)
            if (inspect.isfunction(public) or inspect.isclass(public)) and public.__module__.startswith("tilewright."):
                file = inspect.getsourcefile(inspect.unwrap(public))
                homes.setdefault(Path(file or ""), set()).add(public.__name__)
    for path, names in sorted(homes.items()):
        tree = ast.parse(path.read_text())
        helpers = {node.name: node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
        for node in tree.body:
            if isinstance(node, ast.FunctionDef) and node.name in names:
                yield str(path.relative_to(ROOT)), node.name, node, helpers, ""
            elif isinstance(node, ast.ClassDef) and node.name in names:
                for method in node.body:
                    if (
                        isinstance(method, ast.FunctionDef)
                        and not method.name.startswith("_")
                        and ast.get_docstring(method)
                    ):
                        yield (
                            str(path.relative_to(ROOT)),
                            f"{node.name}.{method.name}",
                            method,
                            helpers,
                            ast.get_docstring(node) or "",
                        )


PUBLIC = {f"{file} {name}": (function, helpers, around) for file, name, function, helpers, around in described()}


@pytest.mark.parametrize("name", PUBLIC)
def test_a_docstring_names_the_errors_that_its_function_raises(name: str) -> None:
    function, helpers, around = PUBLIC[name]
    said = re.findall(r"TW\d+", (ast.get_docstring(function) or "") + around)
    missing = {code for code in raised(function, helpers, set()) if not code.startswith(tuple(said) or ("-",))}
    assert not missing, f"{name} raises {', '.join(sorted(missing))}"


def test_there_are_docstrings_to_look_at() -> None:
    assert len(PUBLIC) > 150 and CODES["BadExtent"] == "TW0110"
    sample = ast.parse("def _part():\n    raise BadExtent('x')\ndef f():\n    _part()\n")
    helpers = {node.name: node for node in sample.body if isinstance(node, ast.FunctionDef)}
    assert raised(helpers["f"], helpers, set()) == {"TW0110"}


SECTION = re.compile(r"^Parameters\n-{10}\n(.*?)(?=^\w+\n---|\Z)", re.DOTALL | re.MULTILINE)


def listed_parameters(doc: str) -> list[str]:
    """The names in a docstring's list of parameters, as numpy's convention has it."""
    section = SECTION.search(doc)
    return re.findall(r"^\**(\w+)(?: :|$)", section[1], re.MULTILINE) if section else []


def public_calls() -> Iterator[tuple[str, Any]]:
    """Every function and method on the pages of the reference, and every primitive, by name."""
    for face in map(import_module, PAGES):
        for name in getattr(face, "__all__", ()):
            public = getattr(face, name)
            if not getattr(public, "__module__", "").startswith("tilewright."):
                continue
            members = inspect.getmembers(public) if inspect.isclass(public) else [(name, public)]
            for member, function in members:
                if inspect.isroutine(function) and not member.startswith("_"):
                    yield f"{public.__module__}.{name}.{member}", inspect.unwrap(function)


def test_parameters_are_listed_where_there_are_more_than_two() -> None:
    faults = set[str]()
    for name, function in public_calls():
        if not inspect.isfunction(function) or not function.__code__.co_filename.startswith(str(ROOT)):
            continue  # the methods of dataclasses and of numpy's classes
        parameters = [
            each for each in inspect.signature(function).parameters.values() if each.name not in ("self", "cls")
        ]
        if all(each.kind is inspect.Parameter.POSITIONAL_ONLY for each in parameters):
            continue  # te.fma and its like are rows of a table, and take operands alone
        of_primitive = "/schedule/primitives/" in function.__code__.co_filename
        names = [each.name for each in parameters][of_primitive:]
        doc = inspect.getdoc(function) or ""
        if len(names) > 2 and not re.search("(primitives|scripts) alone", doc) and listed_parameters(doc) != names:
            faults.add(f"{name}: takes {names}, lists {listed_parameters(doc)}")
    assert sorted(faults) == []

"""Writes schedule/model/methods.pyi: the primitives as methods of stages, schedules and groups, for type checkers and editors.

Signatures and docstrings are those of the functions in schedule/primitives/, which are the methods.
tests/schedule/primitives/test_primitives.py holds both to them.
"""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
from pathlib import Path
from typing import get_args

from tilewright import ir, schedule
from tilewright.schedule.model import methods
from tilewright.schedule.model.primitive import Family, Primitive, primitives

PAGE = Path(__file__).parent / "primitives.md"
STUB = Path(schedule.__file__).parent / "model" / "methods.pyi"
CLASSES = (methods.StagePrimitives, methods.SchedulePrimitives, methods.GroupPrimitives)
_WIDTH = 132
CALLED = {methods.StagePrimitives: "s[T].", methods.SchedulePrimitives: "s.", methods.GroupPrimitives: "group."}
TITLES = {
    "loops": "The loops of a stage",
    "kinds": "How a loop runs",
    "hardware": "What it runs on",
    "placement": "Where a stage is computed",
    "storage": "How its results are stored",
    "stages": "Which stages there are",
}
INTRODUCTION = """\
What a schedule `s = te.create_schedule(ops)`, the stage `s[T]` of a tensor or an operation, and a group of stages can be told.
Each primitive holds or raises where it is called, and one that is refused leaves the schedule as it was; what only the whole
schedule decides raises when it is lowered. `s.options(T)` says which ones a stage can take now."""


def render() -> str:
    """The text of methods.pyi."""
    imports: dict[str, set[str]] = {}
    classes: list[str] = []
    for cls in CLASSES:
        lines = [f"class {cls.__name__}:"]
        for row in primitives(cls).values():
            lines += _method(row, imports)
        classes.append("\n".join(lines))
    head = ["# Written by docs/make_primitives.py from the rows of schedule/primitives/."]
    homes = sorted(imports, key=lambda home: (home.startswith("."), len(home.lstrip(".")) - len(home), home))
    for at, home in enumerate(homes):
        if at and home.startswith(".") and not homes[at - 1].startswith("."):
            head.append("")
        head.append(f"from {home} import {', '.join(sorted(imports[home]))}")
    named = ", ".join(sorted(f'"{cls.__name__}"' for cls in CLASSES))
    return "\n".join(head) + f"\n\n__all__ = [{named}]\n\n" + "\n\n".join(classes) + "\n"


def render_page() -> str:
    """docs/primitives.md."""
    rows = [row for cls in CLASSES for row in primitives(cls).values()]
    lines = ["# Schedule primitives", "", INTRODUCTION, ""]
    for family in get_args(Family):
        lines += [f"## {TITLES[family]}", ""]
        for row in rows:
            if row.family == family:
                signature = re.sub(r"'([^']*)'", r"\1", ", ".join(map(str, row.parameters)))
                lines += [
                    f"### `{CALLED[row.owner]}{row.name}({signature})`",
                    "",
                    *_sections(inspect.getdoc(row.method) or ""),
                    "",
                ]
    return "\n".join(lines).rstrip() + "\n"


_TITLE = re.compile(r"(\w+)\n-+\n(.*)", re.DOTALL)


def _sections(doc: str) -> list[str]:
    """The paragraphs of a docstring, its loops as blocks of text, its sections of parameters and errors as lists."""
    lines: list[str] = []
    for paragraph in doc.split("\n\n"):
        section = _TITLE.fullmatch(paragraph)
        if section:
            lines += [f"{section[1]}:", "", *_items(section[2]), ""]
        elif paragraph.startswith("    "):
            lines += ["```text", *textwrap.dedent(paragraph).split("\n"), "```", ""]
        else:
            lines += [*paragraph.split("\n"), ""]
    return lines[:-1]


def _items(section: str) -> list[str]:
    """The entries of a section, `name : type` with indented lines below, as items of a list."""
    lines: list[str] = []
    for line in section.split("\n"):
        if line.startswith("    "):
            lines.append(f"  {line.strip()}")
        else:
            name, colon, kind = line.partition(" : ")
            lines.append(f"- `{name}` : {kind}  " if colon else f"- {line}  ")
    return lines


def _method(row: Primitive, imports: dict[str, set[str]]) -> list[str]:
    """The lines of one method; the names that its signature needs are noted in `imports`, by module."""
    source = inspect.getsourcefile(row.method)
    assert source is not None
    tree = ast.parse(Path(source).read_text())
    *overloads, function = [node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == row.name]
    homes = {
        alias.name: f"{'.' * node.level}{node.module}"
        for node in tree.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    doc = inspect.getdoc(row.method) or ""
    quoted = textwrap.indent(
        f'"""{doc}\n"""' if "\n" in doc else f'"""{doc}"""', "        ", lambda line: bool(line.strip())
    )
    if not overloads:
        return [*_signature(function, homes, imports), *quoted.split("\n"), ""]
    imports.setdefault("typing", set()).add("overload")
    lines: list[str] = []
    for shown in overloads:
        lines += [
            "    @overload",
            *_signature(shown, homes, imports),
            *(["        ..."] if lines else quoted.split("\n")),
        ]
    return [*lines, ""]


def _signature(function: ast.FunctionDef, homes: dict[str, str], imports: dict[str, set[str]]) -> list[str]:
    """The lines of a method's `def`."""
    function.args.args[0] = ast.arg("self")
    for annotation in (
        *(one.annotation for one in ast.walk(function.args) if isinstance(one, ast.arg)),
        function.returns,
    ):
        for name in ast.walk(annotation) if annotation is not None else ():
            if isinstance(name, ast.Name) and name.id in homes:
                # of files that take it from ir's face and such that take it from its own file
                home = "...ir" if name.id in ir.__all__ else homes[name.id].replace("..model.", ".")
                imports.setdefault(home, set()).add(name.id)
    arguments = re.sub(r"(?<=[\w\]])=", " = ", ast.unparse(function.args))
    returned = ast.unparse(function.returns) if function.returns is not None else "None"
    line = f"    def {function.name}({arguments}) -> {returned}:"
    wrapped = textwrap.wrap(f"{arguments},", _WIDTH, initial_indent=" " * 8, subsequent_indent=" " * 8)
    return [line] if len(line) <= _WIDTH else [f"    def {function.name}(", *wrapped, f"    ) -> {returned}:"]


if __name__ == "__main__":
    STUB.write_text(render())
    PAGE.write_text(render_page())

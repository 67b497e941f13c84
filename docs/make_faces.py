"""Writes where the operators of topi live (topi/homes.py), and the stubs of faces, for type checkers and editors: of topi, topi.nn,
topi.image and topi.vision the operators that they hand on when they are first used; of te its functions of elements, with a result
for each kind of operand, which their own definitions, made for all kinds at once, do not tell. tests/test_faces.py holds them to the
faces."""

from __future__ import annotations

import ast
import inspect
import sys
import textwrap
from collections import defaultdict
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import tilewright

ROOT = Path(tilewright.__file__).parent
FACES = ("te", "autoschedule", "topi", "topi/nn", "topi/image", "topi/vision")
HOMES = "topi/homes.py"
_SUBPACKAGES = ("random",)
_WIDTH = 132
_ALIASES = ("_Scalar: TypeAlias = Expr | float | np.generic", "_Operand: TypeAlias = Tensor | _Scalar")


def render(face: str) -> str:
    """The stub of a face."""
    return _render_te() if face == "te" else _render_topi(face)


def _render_te() -> str:
    """The stub of te: what it imports, and its functions of elements."""
    face = ast.parse((ROOT / "te" / "__init__.py").read_text())
    imports = [node for node in ast.walk(face) if isinstance(node, ast.ImportFrom) and node.module != "__future__"]
    maths = import_module("tilewright.te.math")
    functions = {name: getattr(maths, name) for name in sorted(maths.__all__)}
    overloaded = {name: function for name, function in functions.items() if _is_of_elements(function)}
    here = {*overloaded, "comm_reducer", "max", "min", "prod", "sum"}
    lines: list[str] = []
    for node in sorted(imports, key=lambda node: (-node.level, node.module or "")):
        names = [alias.name for alias in node.names if alias.name not in here and alias.name in tilewright.te.__all__]
        if names:
            lines += _from("." * node.level + (node.module or ""), names)
    text = "\n\n".join("\n".join(_overloads(name, function)) for name, function in overloaded.items())
    listed = textwrap.fill(
        ", ".join(f'"{name}"' for name in tilewright.te.__all__),
        _WIDTH - 4,
        initial_indent="    ",
        subsequent_indent="    ",
    )
    return "\n".join(
        [
            '"""Tensor expressions: what to compute, with no word about how; written by docs/make_faces.py."""',
            "",
            "from collections.abc import Callable, Sequence",
            "from typing import Protocol, TypeAlias, overload",
            "",
            "import numpy as np",
            "",
            *lines,
            "",
            "__all__ = [",
            listed + ",",
            "]",
            "",
            *_ALIASES,
            "_Axes: TypeAlias = IterVar | Sequence[IterVar]",
            "",
            _reductions(),
            "",
            text,
            "",
        ]
    )


def _is_of_elements(function: object) -> bool:
    """Whether it gives an expression of expressions and a tensor of tensors."""
    return inspect.isfunction(function) and inspect.signature(function).return_annotation == "Any"


_REDUCTION = "axis: _Axes, where: _Scalar | None = None, init: _Scalar | None = None) -> Expr"
_REDUCERS = """\
class _Reduction(Protocol):
    def __call__(self, expr: _Scalar, {reduction}: ...

class _SeveralReductions(Protocol):
    def __call__(
        self, expr: Sequence[_Scalar], axis: _Axes, where: _Scalar | None = None, init: Sequence[_Scalar] | None = None,
    ) -> tuple[Expr, ...]: ...

class _OfKinds(Protocol):
    def __call__(self, *kinds: str) -> Sequence[_Scalar]: ...

@overload
def comm_reducer(
    fcombine: Callable[[Expr, Expr], _Scalar], fidentity: Callable[[str], _Scalar], name: str = "reduce",
) -> _Reduction:
{doc}
@overload
def comm_reducer(
    fcombine: Callable[[Sequence[Expr], Sequence[Expr]], Sequence[_Scalar]],
    fidentity: Callable[[str, str], Sequence[_Scalar]] | Callable[[str, str, str], Sequence[_Scalar]] | _OfKinds,
    name: str = "reduce",
) -> _SeveralReductions: ...
"""


def _reductions() -> str:
    """The signatures of te.sum and its like, which are objects."""
    te = tilewright.te
    parts = [_REDUCERS.format(reduction=_REDUCTION, doc=_docstring(te.comm_reducer))]
    for name in ("sum", "prod"):
        parts.append(f"def {name}(expr: _Scalar, {_REDUCTION}:\n{_docstring(getattr(te, name))}\n")
    for name in ("min", "max"):
        variants = [
            f"expr: _Scalar, {_REDUCTION}",
            "expr: _Scalar, second: _Scalar, /, *more: _Scalar) -> Expr",
            "expr: Tensor, second: _Operand, /, *more: _Operand) -> Tensor",
            "expr: _Scalar, second: Tensor, /, *more: _Operand) -> Tensor",
        ]
        parts.append("\n".join(_variants(name, variants, getattr(te, name))) + "\n")
    return "\n".join(parts)


def _docstring(function: Any) -> str:
    """Its docstring, as the body of a function."""
    return textwrap.indent(f'"""{inspect.getdoc(function)}' + '"""', "    ").rstrip()


def _variants(name: str, variants: list[str], function: Any) -> Iterator[str]:
    """Overloads; the first has the docstring, which editors then show for all."""
    for at, variant in enumerate(variants):
        yield "@overload"
        yield f"def {name}({variant}:" + ("" if at == 0 else " ...")
        if at == 0:
            yield _docstring(function)


def _overloads(name: str, function: Callable[..., Any]) -> Iterator[str]:
    """The signatures of a function of elements: an expression of scalars, and a tensor where any operand is one."""
    parameters = inspect.signature(function).parameters.values()
    if any(parameter.kind is parameter.VAR_POSITIONAL for parameter in parameters):
        variants = [
            "*conditions: _Scalar) -> Expr",
            "first: Tensor, *conditions: _Operand) -> Tensor",
            "first: _Scalar, second: Tensor, *conditions: _Operand) -> Tensor",
        ]
    else:
        variants = list(_by_kinds(list(parameters)))
    return _variants(name, variants, function)


def _by_kinds(parameters: list[inspect.Parameter]) -> Iterator[str]:
    operands = [each for each in parameters if each.annotation == "Operand"] or [
        each for each in parameters if each.annotation == "Any"
    ]
    slash = ", /" if operands[0].kind is inspect.Parameter.POSITIONAL_ONLY else ""
    for first in (None, *range(len(operands))):  # which operand is the first that is a tensor
        kinds = {
            parameter.name: "_Scalar" if first is None or at < first else "Tensor" if at == first else "_Operand"
            for at, parameter in enumerate(operands)
        }
        named = ", ".join(f"{each.name}: {kinds.get(each.name, each.annotation)}" for each in parameters)
        yield f"{named}{slash}) -> {'Expr' if first is None else 'Tensor'}"


def _from(home: str, names: list[str]) -> list[str]:
    """An import that hands its names on."""
    whole = f"from {home} import {', '.join(f'{name} as {name}' for name in sorted(names))}"
    return (
        [whole]
        if len(whole) <= _WIDTH
        else [f"from {home} import (", *(f"    {name} as {name}," for name in sorted(names)), ")"]
    )


def render_homes() -> str:
    """topi/homes.py: of each package the names that modules list in __all__, and the modules that have rows of operators."""
    lines = [
        '"""Homes of the operators of topi; written by docs/make_faces.py."""',
        "",
        "from __future__ import annotations",
        "",
        "from collections.abc import Mapping",
        "",
        '__all__ = ["HOMES", "ROWS"]',
        "",
        "HOMES: Mapping[str, Mapping[str, str]] = {",
    ]
    rows: list[str] = []
    for face in FACES[2:]:
        lines.append(f'    "{face.replace("/", ".")}": {{')
        for path in sorted((ROOT / face).glob("*.py")):
            tree = ast.parse(path.read_text())
            names = () if path.stem in ("homes", *_SUBPACKAGES) else _listed(tree)
            lines += [f'        "{name}": "{path.stem}",' for name in names]
            if any(isinstance(node, ast.ImportFrom) and node.module == "row" for node in tree.body):
                rows.append(".".join((*path.parent.relative_to(ROOT / "topi").parts, path.stem)))
        lines.append("    },")
    lines += [
        "}",
        '"""Of each package by name the module below it."""',
        "",
        "ROWS = (",
        *(f'    "{module}",' for module in rows),
        ")",
        '"""Modules, below topi, that have rows of operators."""',
        "",
    ]
    return "\n".join(lines)


def _listed(tree: ast.Module) -> list[str]:
    """The names in __all__ of a module."""
    lists = [
        node.value
        for node in tree.body
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and node.targets[0].id == "__all__"
    ]
    return sorted(ast.literal_eval(lists[0])) if lists else []


def _render_topi(face: str) -> str:
    module = import_module("tilewright." + face.replace("/", "."))
    names: dict[str, list[str]] = defaultdict(list)
    overloaded = {
        name: getattr(module, name)
        for name, home in sorted(module.homes.items())
        if home in ("elementwise", "mathematics") and _is_of_elements(getattr(module, name))
    }
    for name, home in module.homes.items():
        if name in overloaded:
            continue
        names[home if home.startswith(".") else f".{home}"].append(name)
    below = [name for name in dir(module) if name not in module.homes]
    lines = [f"from . import {', '.join(f'{name} as {name}' for name in below)}"] if below else []
    for home, handed in sorted(names.items()):
        lines += _from(home, handed)
    title = f'"""The operators of {module.__name__}; written by docs/make_faces.py."""'
    if overloaded:
        texts = ["\n".join(_overloads(name, function)) for name, function in overloaded.items()]
        imports = [
            "from typing import Any, TypeAlias, overload",
            "",
            "import numpy as np",
            "",
            "from ..te import Expr, Tensor",
        ]
        lines = [*imports, *lines, "", *_ALIASES, "", "\n\n".join(texts)]
    return "\n".join([title, "", *lines, ""])


if __name__ == "__main__":
    sys.dont_write_bytecode = True
    (ROOT / HOMES).write_text(render_homes())
    for face in FACES:
        (ROOT / face / "__init__.pyi").write_text(render(face))

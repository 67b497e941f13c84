"""The loops of scripts, and the storage that they name: what range, parallel, bind, output_tensor and allocate stand for."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from typing import Any, cast

from ...base.arguments import is_sequence, to_list
from ...base.errors import InternalError
from ...ir import SCOPES, Expr, IterVar, LoopKind
from ..axis import THREAD_TAGS
from ..shape import convert_shape
from .errors import BadHybridCall, BadHybridLoop, NotInHybridScripts
from .expressions import ExpressionReader
from .values import LoopSpec, Storage, is_number

__all__ = ["GREATEST_CONST_RANGE", "LOOPS", "LoopReader", "loop_kind"]

LOOPS: dict[str, LoopKind | None] = {
    "range": LoopKind.SERIAL,
    "serial": LoopKind.SERIAL,
    "parallel": LoopKind.PARALLEL,
    "vectorize": LoopKind.VECTORIZED,
    "vectorized": LoopKind.VECTORIZED,
    "unroll": LoopKind.UNROLLED,
    "unrolled": LoopKind.UNROLLED,
    "const_range": None,
}
"""How each kind of loop runs; None: it is written out while the script is read."""

GREATEST_CONST_RANGE = 4096
"""A const_range of more iterations makes a program that nobody wants to compile."""


class LoopReader(ExpressionReader):
    """Parser of calls that give loops and storage."""

    @property
    def special(self) -> Mapping[str, Callable[[ast.Call], Any]]:  # pyright: ignore[reportIncompatibleVariableOverride]
        """These calls, by name."""
        return {
            **dict.fromkeys(LOOPS, self._range),
            "bind": self._bind,
            "output_tensor": self._storage,
            "allocate": self._storage,
        }

    def _range(self, node: ast.Call) -> LoopSpec:
        assert isinstance(node.func, ast.Name)
        name = node.func.id
        independent = name == "parallel" and self._independent(node)
        given = [
            self.integer(argument, f"argument {at} of {name}")
            for at, argument in enumerate(
                self.arguments(node, 1, 3, f"{name}(end), {name}(begin, end) or {name}(begin, end, step)")
            )
        ]
        begin, end = (0, given[0]) if len(given) == 1 else given[:2]
        step = given[2] if len(given) == 3 else 1
        if not isinstance(step, int) or not step:
            raise self.source.error(
                BadHybridLoop,
                f"the step of {name} is {step}",
                node.args[2],
                reason="a loop counts in steps that are known while the script is read, and not 0",
                fix=f"loop over {name}(n), and compute the value from its index",
            )
        kind = LOOPS[name]
        if kind is not None:
            return LoopSpec(begin, end, step, kind, independent=independent)
        if not isinstance(begin, int) or not isinstance(end, int):
            raise self.source.error(
                BadHybridLoop,
                "the bounds of const_range are not known while the script is read",
                node,
                reason=f"they are {begin} and {end}",
                fix="use unroll(...), which takes any bounds",
            )
        values = range(begin, end, step)
        if len(values) > GREATEST_CONST_RANGE:
            raise self.source.error(
                BadHybridLoop,
                f"const_range over {len(values)} iterations",
                node,
                reason=f"every iteration is written out: at most {GREATEST_CONST_RANGE} are",
                fix="use range(...)",
            )
        return LoopSpec(kind=None, values=values)

    def _independent(self, node: ast.Call) -> bool:
        """Return whether a parallel loop says independent=True."""
        named = [argument for argument in node.keywords if argument.arg == "independent"]
        value = self.value(named[0].value) if named else False
        if not isinstance(value, bool):
            raise self.source.error(
                BadHybridLoop,
                "independent is neither True nor False",
                node,
                reason=f"it is {value!r}"[:200],
                fix="for i in parallel(n, independent=True)",
            )
        return value

    def _bind(self, node: ast.Call) -> LoopSpec:
        tag_node, extent_node = self.arguments(node, 2, 2, 'bind("threadIdx.x", extent)')
        tag = self.value(tag_node)
        if isinstance(tag, IterVar) and tag.kind == "thread":
            tag = tag.thread_tag
        if tag not in THREAD_TAGS:
            raise self.source.error(
                BadHybridLoop,
                f"unknown thread tag {tag!r}"[:100],
                tag_node,
                allowed=", ".join(THREAD_TAGS),
                fix='for i in bind("threadIdx.x", n)',
            )
        return LoopSpec(0, self.integer(extent_node, "the extent of bind"), 1, LoopKind.THREAD, str(tag))

    def _storage(self, node: ast.Call) -> Storage:
        assert isinstance(node.func, ast.Name)
        name = node.func.id
        named = {argument.arg: argument.value for argument in node.keywords}
        parameters = ("shape", "dtype") if name == "output_tensor" else ("shape", "dtype", "scope")
        usage = 'output_tensor(shape, "float32")' if name == "output_tensor" else 'allocate(shape, "float32", "global")'
        given: dict[str, ast.expr] = dict(
            zip(parameters, self.arguments(node, 0, len(parameters), usage), strict=False)
        )
        for keyword, value in named.items():
            if keyword not in parameters or keyword in given:
                raise self.source.error(
                    BadHybridCall,
                    f"{name} was given '{keyword}' twice"
                    if keyword in given
                    else f"{name} has no parameter '{keyword}'",
                    node,
                    fix=usage,
                )
            given[cast("str", keyword)] = value
        if "shape" not in given or "dtype" not in given and name == "output_tensor":
            raise self.source.error(BadHybridCall, f"{name} needs a shape and a dtype", node, fix=usage)
        dtype = (
            self.dtype(given["dtype"]) if "dtype" in given else self.dtype(ast.Constant("float32", lineno=node.lineno))
        )
        scope = "" if name == "output_tensor" else self.value(given["scope"]) if "scope" in given else "global"
        if scope and scope not in SCOPES:
            raise self.source.error(
                BadHybridCall,
                f"unknown scope {scope!r}"[:100],
                given["scope"],
                allowed=", ".join(SCOPES[:4]),
                fix='allocate(shape, dtype, "local")',
            )
        return Storage(self._shape(given["shape"], name), dtype, scope)

    def _shape(self, node: ast.expr, name: str) -> tuple[Expr, ...]:
        value = self.value(node)
        parts = to_list(value)
        for part in parts:
            if not is_number(part) and not isinstance(part, Expr) and not hasattr(part, "__index__"):
                raise self.source.error(
                    BadHybridCall,
                    f"the shape of {name} is not a tuple of integers",
                    node,
                    reason=f"it has {part!r} in it"[:200],
                    fix=f"{name}((n, m), dtype)",
                )
        with self.source.at(node):
            return convert_shape(parts, "the buffer")

    def loop_spec(self, node: ast.For) -> LoopSpec:
        """Return the range of a for statement. Raises BadHybridLoop (TW0157) and NotInHybridScripts (TW0151)."""
        if node.orelse:
            raise self.source.error(
                NotInHybridScripts,
                "a loop with `else` cannot stand in a hybrid script",
                node.orelse[0],
                reason="loops run to their end",
                fix="write what follows the loop after it",
            )
        if not isinstance(node.target, ast.Name):
            raise self.source.error(
                BadHybridLoop,
                "a loop has one variable",
                node.target,
                reason="it counts",
                fix="for i in range(n), with further loops inside it",
            )
        iterated = self.value(node.iter)
        if isinstance(iterated, LoopSpec):
            return iterated
        if isinstance(iterated, range):
            iterated = tuple(iterated)
        if is_sequence(iterated) and len(iterated) <= GREATEST_CONST_RANGE:
            return LoopSpec(kind=None, values=iterated)
        raise self.source.error(
            BadHybridLoop,
            f"cannot loop over `{ast.unparse(node.iter)}`",
            node.iter,
            reason=f"it is a {type(iterated).__name__}, no range",
            allowed=", ".join((*LOOPS, "bind")),
            fix=f"for {node.target.id} in range(n)",
        )


def loop_kind(spec: LoopSpec) -> LoopKind:
    """Return the kind of a loop that is not a const_range."""
    if spec.kind is None:
        raise InternalError("a const_range is not a loop")
    return spec.kind

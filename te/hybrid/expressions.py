"""Reading the expressions of a script: what is known now is computed by Python, the rest becomes expressions of the IR."""

from __future__ import annotations

import ast
import builtins
import operator
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import reduce
from typing import Any, cast

from ...base.arguments import is_a, to_tuple
from ...ir import NE, BufferLoad, DType, Expr, IntImm, Producer, ops
from ...ir.accesses import reads_memory
from ..shape import index_expr, scalar_dtype
from ..tensor import Tensor, TensorSlice, read
from .errors import BadHybridCall, BadHybridValue, HybridReadBeforeAssignment, NotInHybridScripts, UnknownHybridName
from .functions import FUNCTIONS
from .refusals import CONSTRUCT_FIXES, CONSTRUCTS
from .source import Source
from .values import LocalBuffer, LoopSpec, Scalar, Storage, UnboundName, is_number

__all__ = ["ExpressionReader"]

_BINARY: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: lambda a, b: a + b,
    ast.Sub: lambda a, b: a - b,
    ast.Mult: lambda a, b: a * b,
    ast.Div: lambda a, b: a / b,
    ast.FloorDiv: lambda a, b: a // b,
    ast.Mod: lambda a, b: a % b,
    ast.Pow: lambda a, b: a**b,
    ast.LShift: lambda a, b: a << b,
    ast.RShift: lambda a, b: a >> b,
    ast.BitAnd: lambda a, b: a & b,
    ast.BitOr: lambda a, b: a | b,
    ast.BitXor: lambda a, b: a ^ b,
}
_UNARY: dict[type[ast.unaryop], Callable[[Any], Any]] = {
    ast.USub: operator.neg,
    ast.UAdd: operator.pos,
    ast.Invert: operator.invert,
}
_COMPARE: dict[type[ast.cmpop], tuple[Callable[[Any, Any], Any], Callable[[Any, Any], Any]]] = {
    ast.Lt: (operator.lt, operator.lt),
    ast.LtE: (operator.le, operator.le),
    ast.Gt: (operator.gt, operator.gt),
    ast.GtE: (operator.ge, operator.ge),
    ast.Eq: (operator.eq, ops.equal),
    ast.NotEq: (operator.ne, lambda a, b: ops.binary(NE, a, b)),
}
"""A comparison of plain values, and of expressions."""

_LIMITS: dict[str, str] = {"min_value": "min_value", "max_value": "max_value", "infinity": "infinity"}
_RUNTIME = f"{__package__}.runtime"
"""Where the names of scripts are, for those who import them."""
_BUILTIN_CALLS = ("len", "max_num_threads", *_LIMITS)


def plain(value: Any) -> Any:
    """A constant integer expression as a plain number, so that it stays known."""
    return value.value if isinstance(value, IntImm) and not value.dtype.is_bool else value


class ExpressionReader:
    """Evaluates expressions of one script in the environment `names`.

    outside: what names that the script does not assign stand for: its closure and globals. unassigned: the scalars that
    may have no value at this point.
    """

    def __init__(self, source: Source, outside: Mapping[str, Any]) -> None:
        self.source, self.outside = source, outside
        self.names: dict[str, Any] = {}
        self.unassigned: set[str] = set()

    # Entry points

    def value(self, node: ast.expr) -> Any:
        """Return the value of the expression: a number, an expression, a tensor, a buffer, a tuple of such ..."""
        method = getattr(self, type(node).__name__, None)
        if method is None:
            raise self.source.error(
                NotInHybridScripts,
                f"{CONSTRUCTS.get(type(node).__name__, type(node).__name__)} cannot stand in a hybrid script",
                node,
                reason="a script is made of numbers, elements of tensors, and what operators and functions make of them",
                fix=CONSTRUCT_FIXES.get(type(node).__name__, "compute it before, and use the number in the script"),
            )
        with self.source.at(node):
            return method(node)

    def number(self, node: ast.expr) -> Any:
        """A plain number or a scalar expression."""
        value = self.value(node)
        return self.require_number(value, node)

    def require_number(self, value: Any, node: ast.expr) -> Any:
        """`value`, the value of `node`, if it is a scalar. Raises BadHybridValue (TW0158)."""
        if is_number(value) or isinstance(value, Expr):
            return value
        if isinstance(value, Tensor) and not value.shape:
            return read(value, ())
        if isinstance(value, LocalBuffer) and not value.buffer.shape:
            return BufferLoad(value.buffer, ())
        if hasattr(value, "dtype") and getattr(value, "ndim", None) == 0 and hasattr(value, "item"):
            return ops.const(value)
        what, fix = f"a {type(value).__name__}", "use numbers, and elements such as a[i]"
        if isinstance(value, (Tensor, TensorSlice, LocalBuffer)):
            name = value.buffer.name if isinstance(value, LocalBuffer) else value.name
            left = len(value.buffer.shape if isinstance(value, LocalBuffer) else value.shape)
            rank = len(value.tensor.shape) if isinstance(value, TensorSlice) else left
            what = f"a buffer of {left}{' more' if left < rank else ''} dimension{'s' if left > 1 else ''}"
            fix = f"give an index for each dimension: {name}[{', '.join('ijklmn'[:rank]) if rank <= 6 else '...'}]"
        elif getattr(value, "ndim", 0):
            what, fix = "an array that is not an argument", "pass it as an argument of the script"
        raise self.source.error(
            BadHybridValue, f"`{ast.unparse(node)}` is not a number", node, reason=f"it is {what}", fix=fix
        )

    def condition(self, node: ast.expr) -> Any:
        """True or False where that is known, else a bool expression."""
        number = self.number(node)
        if is_number(number):
            return bool(number)
        condition = ops.truth(number)
        return bool(condition.value) if isinstance(condition, IntImm) else condition

    def static(self, node: ast.expr, what: str) -> Any:
        """An integer that is known now."""
        number = plain(self.number(node))
        if isinstance(number, int):
            return int(number)
        raise self.source.error(
            BadHybridValue,
            f"{what} is not known while the script is read",
            node,
            reason=f"it is {number}",
            fix="use a number, or a name of one",
        )

    def integer(self, node: ast.expr, what: str) -> Any:
        """An integer, known or not, of int32 or int64."""
        number = plain(self.number(node))
        if isinstance(number, (bool, float)) or isinstance(number, Expr) and not number.dtype.is_integer:
            kind = number.dtype if isinstance(number, Expr) else type(number).__name__
            raise self.source.error(
                BadHybridValue,
                f"{what} is not an integer",
                node,
                reason=f"`{ast.unparse(node)}` is a {kind}",
                fix="use // between integers, and int32(x) to convert",
            )
        return index_expr(number) if isinstance(number, Expr) else number

    # Names and literals

    def Constant(self, node: ast.Constant) -> Any:
        if isinstance(node.value, complex) or node.value is Ellipsis:
            raise self.source.error(
                NotInHybridScripts,
                f"`{ast.unparse(node)}` cannot stand in a hybrid script",
                node,
                reason=f"it is a {type(node.value).__name__}",
                fix="use integers, floats and bools",
            )
        return node.value

    def Name(self, node: ast.Name) -> Any:
        name = node.id
        if name not in self.names:
            return self._read_captured(node)
        value = self.names[name]
        if isinstance(value, UnboundName):
            raise self.source.error(
                HybridReadBeforeAssignment, f"'{name}' has no value here", node, reason=value.why, fix=value.fix
            )
        if name in self.unassigned:
            raise self.source.error(
                HybridReadBeforeAssignment,
                f"'{name}' may be read before it has a value",
                node,
                reason="not every way to this line assigns it, and what a loop assigned in an earlier iteration counts only "
                "where it was assigned before the loop",
                fix=f"give it a value first, before the loop or the if: {name} = 0",
            )
        if isinstance(value, Scalar):
            assert value.buffer is not None
            return BufferLoad(value.buffer, ())
        return value

    def _read_captured(self, node: ast.Name) -> Any:
        name = node.id
        if name in self.own:
            raise self.source.error(
                HybridReadBeforeAssignment,
                f"'{name}' has no value here",
                node,
                reason="it is assigned elsewhere in the script",
                fix="assign it before it is read",
            )
        if name not in self.outside:
            why = "it is not an argument, nothing assigns it, and it stands neither around the script nor in its module"
            fix = f"pass {name} as an argument, or assign it"
            if name in FUNCTIONS or name in _BUILTIN_CALLS:
                why, fix = "it is a function, and has to be called", f"{name}(...)"
            elif hasattr(builtins, name):
                why, fix = (
                    "it is a function of Python: scripts have functions of numbers alone",
                    "write out what it does",
                )
            raise self.source.error(UnknownHybridName, f"the script does not know '{name}'", node, reason=why, fix=fix)
        value = self.outside[name]
        if isinstance(value, (Tensor, TensorSlice)):
            raise self.source.error(
                BadHybridValue,
                f"the script reads the tensor '{name}', which is not an argument of it",
                node,
                reason="a script takes every tensor that it reads as an argument, so that it also runs on arrays",
                fix=f"pass {name} as an argument",
            )
        return value

    def Tuple(self, node: ast.Tuple) -> Any:
        return tuple(self.value(element) for element in node.elts)

    def List(self, node: ast.List) -> Any:
        return [self.value(element) for element in node.elts]

    # Operators

    def BinOp(self, node: ast.BinOp) -> Any:
        function = _BINARY.get(type(node.op))
        if function is None:
            raise self.source.error(
                NotInHybridScripts,
                "the operator @ cannot stand in a hybrid script",
                node,
                reason="scripts speak of elements",
                fix="write the loops, or te.compute with te.sum",
            )
        a, b = self.value(node.left), self.value(node.right)
        if isinstance(a, (tuple, list)) and isinstance(b, (tuple, list)) and isinstance(node.op, ast.Add):
            return (*cast("tuple[Any]", a), *cast("tuple[Any]", b))
        a, b = self.require_number(a, node.left), self.require_number(b, node.right)
        if is_number(a) and is_number(b):
            return self._evaluate(node, lambda: function(a, b))
        if isinstance(node.op, ast.Pow):
            return ops.power(a if isinstance(a, Expr) else ops.convert(a), b)
        return plain(function(a, b))

    def UnaryOp(self, node: ast.UnaryOp) -> Any:
        if isinstance(node.op, ast.Not):
            operand = self.condition(node.operand)
            return not operand if isinstance(operand, bool) else ops.logical_not(operand)
        operand = self.number(node.operand)
        return self._evaluate(node, lambda: _UNARY[type(node.op)](operand))

    def _evaluate(self, node: ast.expr, compute: Callable[[], Any]) -> Any:
        """Something that Python computes. Its errors speak of the line."""
        try:
            return compute()
        except (ArithmeticError, TypeError, ValueError) as error:
            raise self.source.error(
                BadHybridValue,
                f"`{ast.unparse(node)}` has no value",
                node,
                reason=str(error),
                fix="correct the numbers that it is computed from",
            ) from None

    def Compare(self, node: ast.Compare) -> Any:
        operands = [self.value(operand) for operand in (node.left, *node.comparators)]
        nodes = [node.left, *node.comparators]
        result: Any = True
        for at, kind in enumerate(node.ops):
            result = self._both(result, self._compare(node, kind, operands[at : at + 2], nodes[at : at + 2]))
        return result

    def _compare(self, node: ast.Compare, kind: ast.cmpop, values: list[Any], nodes: list[ast.expr]) -> Any:
        if isinstance(kind, (ast.In, ast.NotIn, ast.Is, ast.IsNot)):
            raise self.source.error(
                NotInHybridScripts,
                "`in` and `is` cannot stand in a hybrid script",
                node,
                reason="values are compared as numbers",
                fix="compare by == and !=, joined by `or`",
            )
        now, later = _COMPARE[type(kind)]
        if all(isinstance(value, (str, tuple, list)) for value in values):  # dtypes, shapes
            return bool(now(*values))
        a, b = (self.require_number(value, at) for value, at in zip(values, nodes, strict=True))
        if is_number(a) and is_number(b):
            return bool(now(a, b))
        ops.warn_of_signs(a, b, self.source.line(node))
        return later(a, b)

    def _both(self, a: Any, b: Any) -> Any:
        """a and b, b being computed only where a holds, if it reads memory."""
        if isinstance(a, bool):
            return b if a else False
        if isinstance(b, bool):
            return a if b else False
        return ops.if_then_else(a, b, ops.FALSE) if reads_memory(b) else ops.logical_and(a, b)

    def _either(self, a: Any, b: Any) -> Any:
        if isinstance(a, bool):
            return True if a else b
        if isinstance(b, bool):
            return True if b else a
        return ops.if_then_else(a, ops.TRUE, b) if reads_memory(b) else ops.logical_or(a, b)

    def BoolOp(self, node: ast.BoolOp) -> Any:
        conjunction = isinstance(node.op, ast.And)
        result: Any = self.number(node.values[0])
        for operand in node.values[1:]:
            if is_number(result):
                if bool(result) is not conjunction:
                    return result  # what follows is not evaluated, and need not mean anything
                result = self.number(operand)
            else:
                result = self._join_logic(conjunction, result, self.number(operand))
        return result

    def _join_logic(self, conjunction: bool, a: Expr, b: Any) -> Any:
        """`a and b`, `a or b`: of bools whether they hold, of other numbers one of them, as in Python."""
        if a.dtype.is_bool and (isinstance(b, bool) or isinstance(b, Expr) and b.dtype.is_bool):
            return (self._both if conjunction else self._either)(a, b)
        return ops.if_then_else(ops.truth(a), b, a) if conjunction else ops.if_then_else(ops.truth(a), a, b)

    def IfExp(self, node: ast.IfExp) -> Any:
        condition = self.condition(node.test)
        if isinstance(condition, bool):
            return self.value(node.body if condition else node.orelse)
        a, b = self.number(node.body), self.number(node.orelse)
        choose = ops.if_then_else if reads_memory(a) or reads_memory(b) else ops.select
        if is_number(a) and is_number(b):
            a, b = ops.match_types(ops.convert(a), ops.convert(b))
        return choose(condition, a, b)

    # Elements

    def Attribute(self, node: ast.Attribute) -> Any:
        value = self.value(node.value)
        if isinstance(value, (Tensor, TensorSlice, LocalBuffer)):
            about = value.buffer if isinstance(value, LocalBuffer) else value
            known = {"shape": tuple(map(plain, about.shape)), "dtype": str(about.dtype), "ndim": len(about.shape)}
            if node.attr in known:
                return known[node.attr]
        elif isinstance(value, Expr) and node.attr == "dtype":
            return str(value.dtype)
        elif not isinstance(value, Expr) and hasattr(value, node.attr):
            return getattr(value, node.attr)
        raise self.source.error(
            UnknownHybridName,
            f"`{ast.unparse(node.value)}` has no attribute '{node.attr}'",
            node,
            reason=f"it is {_kind(value)}",
            allowed="shape, dtype and ndim of tensors and buffers",
        )

    def Subscript(self, node: ast.Subscript) -> Any:
        value = self.value(node.value)
        if isinstance(value, (Tensor, TensorSlice)):
            return value[self.indices(node)]
        if isinstance(value, LocalBuffer):
            return BufferLoad(value.buffer, self.element(value, node))
        at = plain(self.value(node.slice))
        if isinstance(at, Expr) or isinstance(value, Expr):
            why, fix = f"`{ast.unparse(node.value)}` is {_kind(value)}", "only tensors and buffers have elements"
            if not isinstance(value, Expr):
                why, fix = (
                    f"{why}, and the index {at} is not known while the script is read",
                    "pass the table as an argument",
                )
            raise self.source.error(BadHybridValue, f"cannot read `{ast.unparse(node)}`", node, reason=why, fix=fix)
        try:
            nested = is_a(value, (list, tuple)) and is_a(
                at, tuple
            )  # table[0, 1] of a list of lists, as of an array of it
            element = reduce(operator.getitem, at, value) if nested else value[at]
        except (IndexError, KeyError, TypeError) as error:
            raise self.source.error(
                BadHybridValue,
                f"cannot read `{ast.unparse(node)}`",
                node,
                reason=str(error),
                fix=f"`{ast.unparse(node.value)}` is {_kind(value)}",
            ) from None
        return ops.const(element) if getattr(element, "ndim", None) == 0 and hasattr(element, "dtype") else element

    def indices(self, node: ast.Subscript) -> tuple[Any, ...]:
        """The indices of a subscript, integers all. Raises BadHybridValue (TW0158) and NotInHybridScripts (TW0151)."""
        nodes = list(node.slice.elts) if isinstance(node.slice, ast.Tuple) else [node.slice]
        if any(isinstance(index, (ast.Slice, ast.Starred)) for index in nodes):
            raise self.source.error(
                NotInHybridScripts,
                f"`{ast.unparse(node)}` is a slice",
                node,
                reason="scripts speak of elements, one at a time",
                fix="write a loop over the elements",
            )
        values = [self.value(index) for index in nodes]
        if len(values) == 1 and is_a(values[0], tuple):
            return to_tuple(values[0])
        return tuple(
            self.integer(index, f"index {at} of `{ast.unparse(node.value)}`") for at, index in enumerate(nodes)
        )

    def element(self, local: LocalBuffer, node: ast.Subscript) -> tuple[Expr, ...]:
        """Return the element of a buffer of the script. Raises BadHybridValue (TW0158)."""
        buffer, given = local.buffer, self.indices(node)
        if len(given) != buffer.ndim:
            raise self.source.error(
                BadHybridValue,
                f"{buffer.name} has {buffer.ndim} dimension{'s' if buffer.ndim != 1 else ''}, and "
                f"{len(given)} {'index was' if len(given) == 1 else 'indices were'} given",
                node,
                reason=f"its shape is ({', '.join(map(str, buffer.shape))})",
                fix="give one index for each dimension",
            )
        for at, (index, extent) in enumerate(zip(given, buffer.shape, strict=True)):
            if isinstance(index, int) and (index < 0 or isinstance(extent, IntImm) and index >= extent.value):
                raise self.source.error(
                    BadHybridValue,
                    f"index {at} of {buffer.name} is out of range",
                    node,
                    reason=f"it is {index}, and dimension {at} has indices from 0 to {extent} - 1",
                    fix=f"write {buffer.name}.shape[{at}] - {-index}: nothing counts from the end"
                    if index < 0
                    else "stay within the shape",
                )
        return tuple(ops.convert(index) for index in given)

    # Calls

    def Call(self, node: ast.Call) -> Any:
        if isinstance(node.func, ast.Attribute) and node.func.attr == "astype":
            return self._astype(node)
        name = node.func.id if isinstance(node.func, ast.Name) else None
        if name is not None and self.names_ours(node.func, name):
            for table in (self.special, self.builtin):
                if name in table:
                    self._refuse_keywords(node, name)
                    return table[name](node)
            if name in FUNCTIONS:
                self._refuse_keywords(node, name)
                return self._function(node, name)
        return self.read_foreign_call(node, self.value(node.func))

    def names_ours(self, node: ast.expr, name: str) -> bool:
        """Return whether an expression is this name of hybrid scripts, which nothing else in the script is called; imported or not."""
        if not isinstance(node, ast.Name) or node.id != name or name in self.names:
            return False
        around = self.closure.get(name)
        return name not in self.closure or getattr(around, "__module__", "") == _RUNTIME

    own: Collection[str] = ()
    """The names that the script assigns anywhere."""
    closure: Mapping[str, Any] = {}
    """What stands around the script: these names come before the functions of hybrid scripts."""
    special: Mapping[str, Callable[[ast.Call], Any]] = {}
    """Calls that statements give a meaning to: loops and storage."""

    @property
    def builtin(self) -> Mapping[str, Callable[[ast.Call], Any]]:
        """Queries of shapes and types."""
        return {"len": self._len, "max_num_threads": lambda node: 1024, **dict.fromkeys(_LIMITS, self._limit)}

    def read_foreign_call(self, node: ast.Call, function: Any) -> Any:
        """A call of something that is not a function of hybrid scripts."""
        text = ast.unparse(node.func)
        arguments = [self.value(argument) for argument in node.args]
        named = {keyword.arg: self.value(keyword.value) for keyword in node.keywords if keyword.arg is not None}
        values = (*arguments, *named.values())
        symbolic = any(isinstance(value, (Expr, Producer, LocalBuffer, LoopSpec, Storage)) for value in values)
        if not callable(function) or symbolic:
            short = text.split(".")[-1]
            known = short in FUNCTIONS
            called = callable(function)
            raise self.source.error(
                UnknownHybridName,
                f"the script cannot call `{text}`",
                node,
                reason="its arguments are not known while the script is read" if called else f"it is {_kind(function)}",
                allowed="loops, output_tensor, allocate, " + ", ".join(sorted(FUNCTIONS)),
                fix=f"write {short}(...), which works on numbers and in kernels"
                if known
                else "write out what it computes",
            )
        return self._evaluate(node, lambda: function(*arguments, **named))

    def _refuse_keywords(self, node: ast.Call, name: str) -> None:
        vouches = name == "parallel" and [keyword.arg for keyword in node.keywords] == ["independent"]
        if node.keywords and name not in ("allocate", "output_tensor", "bind") and not vouches:
            raise self.source.error(
                BadHybridCall,
                f"{name} takes no arguments by name",
                node,
                fix=f"{name}({', '.join(ast.unparse(keyword.value) for keyword in node.keywords)})",
            )

    def arguments(self, node: ast.Call, least: int, most: int | None, usage: str) -> Sequence[ast.expr]:
        """The arguments of a call, `least` to `most` of them. Raises BadHybridCall (TW0153)."""
        count = len(node.args)
        if (
            count < least
            or most is not None
            and count > most
            or any(isinstance(argument, ast.Starred) for argument in node.args)
        ):
            given = f"{count} argument{'s' if count != 1 else ''}"
            raise self.source.error(BadHybridCall, f"{ast.unparse(node.func)} was given {given}", node, fix=usage)
        return node.args

    def _function(self, node: ast.Call, name: str) -> Any:
        row = FUNCTIONS[name]
        usage = f"{name}({', '.join('xyz'[: row.arity])})" if row.arity else f"{name}(x, ...)"
        arguments = self.arguments(node, row.arity or 1, row.arity, usage)
        values = [self.number(argument) for argument in arguments]
        if name in ("min", "max", "abs", "int", "bool", "ceil_div", "ceildiv") and all(
            is_number(value) for value in values
        ):
            return self._evaluate(node, lambda: {"int": int}.get(name, row.emulated)(*values))
        if name not in ("min", "max", "power", "pow", "select", "if_then_else"):
            values = [ops.convert(value) for value in values] if row.arity == 1 else values
        elif not any(isinstance(value, Expr) for value in values):
            values[0] = ops.convert(values[0])
        return row.symbolic(*values)

    def _astype(self, node: ast.Call) -> Any:
        assert isinstance(node.func, ast.Attribute)
        (given,) = self.arguments(node, 1, 1, 'x.astype("float32")')
        return ops.cast(self.number(node.func.value), self.dtype(given))

    def dtype(self, node: ast.expr) -> DType:
        """A dtype as the script writes it."""
        with self.source.at(node):
            return scalar_dtype(self.value(node))

    def _len(self, node: ast.Call) -> Any:
        (given,) = self.arguments(node, 1, 1, "len(a)")
        value = self.value(given)
        if isinstance(value, (tuple, list)):
            return len(cast("Sequence[Any]", value))
        shape = value.buffer.shape if isinstance(value, LocalBuffer) else getattr(value, "shape", ())
        if not shape:
            raise self.source.error(
                BadHybridValue,
                f"`{ast.unparse(given)}` has no length",
                node,
                reason=f"it is {_kind(value)}",
                fix="len takes a tensor, a buffer, or a list of tensors",
            )
        return plain(shape[0])

    def _limit(self, node: ast.Call) -> Any:
        name = node.func.id if isinstance(node.func, ast.Name) else ""
        (given,) = self.arguments(node, 1, 1, f'{name}("float32")')
        from .. import math as te_math

        with self.source.at(node):
            return getattr(te_math, name)(self.dtype(given))


def _kind(value: Any) -> str:
    if isinstance(value, Expr):
        return f"a number, {value.dtype}"
    if isinstance(value, LocalBuffer):
        return f"the buffer {value.buffer.name}"
    if isinstance(value, (Tensor, TensorSlice)):
        return f"the tensor {value.name}"
    return f"a {type(value).__name__}"

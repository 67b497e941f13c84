"""Limits on records that come as text from elsewhere: see `foreign` of a primitive's row.

A row lists the arguments that such a record may have, and what each may be. A primitive without a list is refused, because it
can leave out work (debug_skip_region, a store predicate), drop a guard or bring code of its own (import_c).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias, cast

from ...base.dataclass import dataclass
from ...ir import SCOPES, Add, Call, FloatImm, FloorDiv, FloorMod, IntImm, Mul, Sub, Var, post_order
from ...te.axis import THREAD_TAGS
from .records import AxisRef, ExprRef, GroupRef, IndexMapRef, IntrinsicRef, StageRef, TensorRef, ThreadRef

__all__ = [
    "AXES",
    "AXIS",
    "FLAG",
    "FLAGS",
    "GROUP",
    "INTRINSIC",
    "LAYOUT",
    "NAME",
    "NOTHING",
    "NUMBER",
    "PATH",
    "SCOPE",
    "SIZE",
    "SIZES",
    "STAGE",
    "TENSORS",
    "THREAD",
    "THREADS",
    "Arguments",
    "Taken",
    "either",
    "integer",
    "require_one",
]

LARGEST = (1 << 31) - 1
"""The greatest number that a record says."""
_MOST_ITEMS = 64  # bounds on sizes, so that a record from elsewhere cannot take long
_MOST_NODES = 256


@dataclass(frozen=True, slots=True)
class Taken:
    """Values that an argument may have: in words, and as a test of what stands in the record."""

    says: str
    test: Callable[[Any], bool]


Arguments: TypeAlias = Mapping[str, Taken]
"""What each argument may be. None may be missing that the primitive needs, and there are no others."""


def integer(least: int, greatest: int) -> Taken:
    """An integer in these bounds."""
    return Taken(
        # type(...) is int: True is an int, too
        f"an integer from {least} to {greatest}",
        lambda value: type(value) is int and least <= value <= greatest,
    )


def require_one(*values: Any) -> Taken:
    """One of these values, of its very type."""
    return Taken(
        f"one of {', '.join(map(repr, values))}",  # 1 == True, which only types tell apart
        lambda value: any(type(value) is type(one) and value == one for one in values),
    )


def either(*kinds: Taken) -> Taken:
    """Return what any of the kinds takes."""
    return Taken(" or ".join(kind.says for kind in kinds), lambda value: any(kind.test(value) for kind in kinds))


def _several(says: str, *classes: type[Any]) -> Taken:
    def test(value: Any) -> bool:
        items = cast("tuple[Any, ...]", value) if isinstance(value, tuple) else ()
        return (
            isinstance(value, tuple) and len(items) <= _MOST_ITEMS and all(isinstance(item, classes) for item in items)
        )

    return Taken(says, test)


def _single(says: str, *classes: type[Any]) -> Taken:
    return Taken(says, lambda value: isinstance(value, classes))


def _each(kind: Taken) -> Taken:
    def test(value: Any) -> bool:
        items = cast("tuple[Any, ...]", value) if isinstance(value, tuple) else ()
        return isinstance(value, tuple) and len(items) <= _MOST_ITEMS and all(map(kind.test, items))

    return Taken(f"several times {kind.says}", test)


NOTHING = require_one(None)
NUMBER = Taken(
    "a number",
    lambda value: (
        type(value) in (int, float) or isinstance(value, ExprRef) and isinstance(value.expr, (IntImm, FloatImm))
    ),
)
FLAG = require_one(False, True)
SIZE = integer(1, LARGEST)
FLAGS, SIZES = _each(FLAG), _each(SIZE)
# identifiers, as names appear in generated text
NAME = Taken("a name", lambda value: isinstance(value, str) and value.isidentifier() and len(value) < 100)
PATH = _each(_each(integer(0, _MOST_ITEMS)))
AXIS, AXES = _single("an axis", AxisRef), _several("axes", AxisRef)
STAGE, GROUP = _single("a stage", StageRef), _single("a group", GroupRef)
TENSORS = either(_single("a tensor", TensorRef), _several("tensors or stages", TensorRef, StageRef))
SCOPE = require_one("", *SCOPES)


def _is_thread(value: Any) -> bool:
    return isinstance(value, ThreadRef) and value.tag in THREAD_TAGS


THREAD = Taken("a thread axis", _is_thread)
THREADS = Taken(
    "thread axes",
    lambda value: (
        isinstance(value, tuple)
        and len(cast("tuple[Any, ...]", value)) <= 6
        and all(map(_is_thread, cast("tuple[Any, ...]", value)))
    ),
)


def _is_intrinsic(value: Any) -> bool:
    return (
        isinstance(value, IntrinsicRef)
        and value.arguments is not None
        and len(value.arguments) <= 8
        and all(
            # an intrinsic's sizes, or a dtype's name
            1 <= argument <= 4096 if type(argument) is int else isinstance(argument, str) and len(argument) <= 32
            for argument in value.arguments
        )
    )


INTRINSIC = Taken("a tensor intrinsic that comes with tilewright, of sizes up to 4096", _is_intrinsic)


def _is_layout(value: Any) -> bool:
    return (
        isinstance(value, IndexMapRef)
        and len(value.parameters) <= _MOST_ITEMS
        and len(value.indices) <= _MOST_ITEMS
        # names of axes such as i.outer
        and all(len(name) <= 256 and name.replace(".", "_").isidentifier() for name in value.parameters)
        and all(dtype in ("int32", "int64") for dtype in value.dtypes)
        and all(map(_is_index, value.indices))
    )


def _is_index(value: Any) -> bool:
    if not isinstance(value, ExprRef):
        return False
    nodes = list(post_order(value.expr))
    return len(nodes) <= _MOST_NODES and all(  # an allow-list: no calls, no reads of memory
        isinstance(node, (Var, IntImm, Add, Sub, Mul, FloorDiv, FloorMod))
        or (isinstance(node, Call) and node.name == "bitwise_xor")
        for node in nodes
    )


LAYOUT = Taken("indices made of parameters, integers and + - * // % ^", _is_layout)

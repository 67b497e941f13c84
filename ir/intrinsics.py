"""The intrinsics that a Call may name. One row each: adding an intrinsic begins with a row here.

The other places that know an intrinsic by name are tables too: how the interpreter computes it (ir/interpreter), and
how each target emits it (codegen/*/intrinsics).
"""

from __future__ import annotations

from typing import Literal

from ..base.dataclass import dataclass

__all__ = ["INTRINSICS", "Intrinsic", "is_pure"]


@dataclass(frozen=True, slots=True)
class Intrinsic:
    """Row of the table of intrinsics.

    operands: which types it takes (integers are converted to float32 where only floats are taken). result: the
    type of the first operand, bool, int32, or the one that the Call was made with. pure: no effect, no memory.
    of_integers: what it is of an integer or bool: computed (converted first), the operand itself, or known. approximate:
    whether targets may have it with other last bits; of all others the result is the one nearest to the exact one.
    """

    name: str
    arity: int
    operands: Literal["float", "integer", "any"] = "float"
    result: Literal["same", "bool", "int32", "given"] = "same"
    pure: bool = True
    of_integers: Literal["computed", "itself", "true", "false"] = "computed"
    approximate: bool = False


_APPROXIMATE = (
    "exp exp2 exp10 log log2 log10 log1p expm1 rsqrt sin cos tan sinh cosh tanh asin acos atan asinh acosh atanh erf sigmoid"
).split()

INTRINSICS: dict[str, Intrinsic] = {
    row.name: row
    for row in (
        *(Intrinsic(name, 1, approximate=True) for name in _APPROXIMATE),
        Intrinsic("sqrt", 1),
        *(Intrinsic(name, 1, of_integers="itself") for name in ("floor", "ceil", "round", "trunc", "nearbyint")),
        *(Intrinsic(name, 2, approximate=True) for name in ("pow", "atan2", "hypot")),
        Intrinsic("copysign", 2),
        Intrinsic("fma", 3),
        # a * b + c, rounded once where the target fuses and else twice. Resolved by a pass.
        Intrinsic("mul_add", 3),
        Intrinsic("abs", 1, "any"),
        *(Intrinsic(name, 1, "float", "bool", of_integers="false") for name in ("isnan", "isinf")),
        Intrinsic("isfinite", 1, "float", "bool", of_integers="true"),
        Intrinsic("popcount", 1, "integer"),
        Intrinsic("clz", 1, "integer", "int32"),
        *(Intrinsic(name, 2, "integer") for name in ("bitwise_and", "bitwise_or", "bitwise_xor")),
        *(Intrinsic(name, 2, "integer") for name in ("shift_left", "shift_right")),
        Intrinsic("bitwise_not", 1, "integer"),
        Intrinsic("reinterpret", 1, "any", "given"),
        Intrinsic("likely", 1, "any"),
        # Whether the target has what the name says: a CPU feature ("avx512vnni"), or "interpreter". Resolved by a pass.
        Intrinsic("target_has", 1, "any", "given"),
        # The address of an element for outside code; see ir/pointers.py. It reads nothing, but must stay where it is.
        Intrinsic("access_ptr", 3, "any", "given", pure=False),
        # A hint that what a pointer points to will be read soon; a second operand says into which cache, by default the first.
        Intrinsic("prefetch", -1, "any", "given", pure=False),
        # How many elements lie between where a pointer points to and the next multiple of so many bytes.
        Intrinsic("unaligned_elements", 2, "any", "given", pure=False),
        # Calls of outside code: the first argument is a StringImm with the symbol's name.
        Intrinsic("call_extern", -1, "any", "given", pure=False),
        Intrinsic("call_pure_extern", -1, "any", "given"),
        Intrinsic("call_llvm_intrinsic", -1, "any", "given"),
        # A Python function by its registered name; see ir/packed_functions.py and, for its array operands, ir/pointers.py.
        Intrinsic("call_packed", -1, "any", "given", pure=False),
        Intrinsic("packed_array", -1, "any", "given", pure=False),
        # The value of an element with a second operand added, stored to it in one step; see ir/atomics.py.
        Intrinsic("atomic_add", 2, "any", "same", pure=False),
        # Prints a tag (StringImm) and values while it runs; the last of them is what it gives.
        Intrinsic("trace", -1, "any", "given", pure=False),
    )
}


def is_pure(name: str) -> bool:
    """Return whether a call of it may be moved, shared and dropped. What has no row may not: the target says that it has none."""
    row = INTRINSICS.get(name)
    return row is not None and row.pure

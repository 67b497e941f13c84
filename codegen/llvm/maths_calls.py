"""Mathematical functions with a branch in them: those of scalars are calls, which LLVM, where it makes a vector of the loop
around them, turns into ones of the function of vectors; the branch would keep it from that. What is beyond the branch is a
function of its own, out of the way.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from .maths_lanes import Lanes
from .text import FunctionText
from .types import mangle_type

__all__ = ["called", "where"]

_PURE = "noinline nounwind willreturn memory(none)"

Body = Callable[..., str]
"""From the lanes and the operands to the result."""


def called(v: Lanes, name: str, body: Body, *operands: str) -> str:
    """The function of scalars tw_<name>, and for LLVM the one of vectors, `body` of each."""
    width = v.options.lanes * 32 // v.dtype.bits  # the width that LLVM will choose for this loop
    vector = Lanes(v.f, v.dtype.with_lanes(width), v.options)
    of_one, of_many = f"tw_{name}_{mangle_type(v.dtype)}", f"tw_{name}_{mangle_type(vector.dtype)}"
    for function, lanes in ((of_one, v), (of_many, vector)):
        _define(lanes, function, body, len(operands), _PURE)
    v.f.module.keep(of_many)  # LLVM would drop the vector function, which nobody calls by name
    v.f.module.keep(
        of_one
    )  # with all its parameters: one that is the same in every call would go, and leave `variant` invalid
    # OpenMP's mangling of vector functions: LLVM's own ABI, N lanes, v for each vector operand
    variant = f'"vector-function-abi-variant"="_ZGV_LLVM_N{width}{"v" * len(operands)}_{of_one}({of_many})"'
    return v.f.read(f"call {v.kind} @{of_one}({_pass_argument(v, operands)}) {variant}")


def where(v: Lanes, condition: str, usual: str, name: str, body: Body, *operands: str) -> str:
    """`usual`, but if the condition holds in any lane what `body` gives for all of them."""
    f, lanes = v.f, v.dtype.lanes
    if lanes > 1:
        # one lane is enough to leave the usual way
        condition = f.op(f"call i1 @llvm.vector.reduce.or.v{lanes}i1(<{lanes} x i1> {condition})")
    function = f"tw_{name}_{mangle_type(v.dtype)}"
    _define(v, function, body, len(operands), f"{_PURE} cold")
    before, otherwise, after = f.label, f.fresh("rare"), f.fresh("usual")
    f.branch(f.read(f"freeze i1 {condition}"), otherwise, after)  # a poison condition must not decide a branch
    f.begin(otherwise)
    other = f.read(f"call {v.kind} @{function}({_pass_argument(v, operands)})")
    f.jump(after)
    f.begin(after)
    return f.read(f"phi {v.kind} [ {usual}, %{before} ], [ {other}, %{otherwise} ]")


def _pass_argument(v: Lanes, operands: Sequence[str]) -> str:
    return ", ".join(f"{v.kind} {x}" for x in operands)


def _define(caller: Lanes, function: str, body: Body, count: int, attributes: str) -> None:
    def write() -> None:
        names = [f"%x{i}" for i in range(count)]
        f = FunctionText(
            caller.f.module, f"define internal {caller.kind} @{function}({_pass_argument(caller, names)}) {attributes}"
        )
        f.do(f"ret {caller.kind} {body(Lanes(f, caller.dtype, caller.options), *names)}")
        f.finish()

    caller.f.module.define_once(function, write)

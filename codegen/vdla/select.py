"""Loops to instructions: a nest around one statement becomes a call that says what an instruction does and on what.

    for y in 8:                                              Evaluate(call_extern("dma_copy2d", 2, 8, 8, 2,
      for x in 8:                                     →          access_ptr(A.inp[0, 0]), 8, 1,
        A.inp[y, x] = A[i * 8 + y, x]                            access_ptr(A[i * 8, 0]), 64, 1))

The call has the counted loops, then each operand: a pointer to its first element, and its stride in each loop; then numbers. So
passes that rewrite buffers and indices, that of virtual threads above all, go on working. Loops that no instruction takes in are
the host's, which sends what is inside again and again. What is refused is refused here, naming the stage.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...base import dataclass, user_source
from ...ir.analysis.linear import linear, occurs
from ...ir.buffer import Buffer
from ...ir.expr import BufferLoad, Call, Cast, Expr, IntImm, StringImm, Var
from ...ir.ops import const
from ...ir.pointers import READS, WRITES, pointed_buffer, pointer
from ...ir.stmt import Attr, BufferStore, Evaluate, For, LoopKind, Seq, Stmt
from ...ir.visit import Rewriter, seq, substitute
from .alu import Refusal, Step, chain
from .errors import NotOnAccelerator
from .intrinsics import GEMM
from .machine import MACHINE, acc_buffer

__all__ = ["buffer_strides", "select"]


def select(body: Stmt) -> Stmt:
    """`body` with instructions in the place of the nests that they take in. Raises NotOnAccelerator (TW0441)."""
    return _Selector().visit(body)


class _Selector(Rewriter):
    def For(self, node: For) -> Stmt:
        loops, leaf = _nest(node)
        if loops and isinstance(leaf, (BufferStore, Evaluate)):
            selected = _select(loops, leaf)
            if not isinstance(selected, Refusal):
                return selected
        return self.generic(node)

    def BufferStore(self, node: BufferStore) -> Stmt:
        return self._single(node)

    def Evaluate(self, node: Evaluate) -> Stmt:
        return self._single(node)

    def _single(self, node: BufferStore | Evaluate) -> Stmt:
        selected = _select((), node)
        if isinstance(selected, Refusal):
            raise NotOnAccelerator(
                f"the accelerator cannot do `{str(node).strip()[:200]}`",
                reason=selected.reason,
                called=user_source(),
                fix=selected.fix,
            )
        return selected


def _nest(node: Stmt) -> tuple[tuple[For, ...], Stmt]:
    """The counted loops that stand one in the other, and what is innermost. Unrolled ones are the host's, and so are threads."""
    loops: list[For] = []
    while True:
        if isinstance(node, Attr) or (isinstance(node, Seq) and len(node.body) == 1):
            node = node.body if isinstance(node, Attr) else node.body[0]
        elif (
            isinstance(node, For)
            and node.kind not in (LoopKind.UNROLLED, LoopKind.THREAD)
            and isinstance(node.begin, IntImm)
            and isinstance(node.extent, IntImm)
        ):
            loops.append(node)
            node = node.body
        else:
            return tuple(loops), node


def _select(loops: Sequence[For], leaf: BufferStore | Evaluate) -> Stmt | Refusal:
    if isinstance(leaf, Evaluate):
        return _gemm(loops, leaf)
    scope, value = leaf.buffer.scope, leaf.value
    source = value.value if isinstance(value, Cast) else value
    if leaf.predicate is not None:
        return Refusal("it stores under a mask", "leave the loops around it serial")
    if isinstance(source, BufferLoad) and _is_on_chip(source.buffer) != _is_on_chip(leaf.buffer):
        return _copy(loops, leaf, source)
    if scope == acc_buffer:
        return _alu(loops, leaf)
    name = leaf.buffer.name
    if not _is_on_chip(leaf.buffer):
        return Refusal(
            f"{name} lies in DRAM, where nothing is computed",
            f"CL = s.cache_write({name}, vdla.acc_buffer), or s[...].set_scope(vdla.acc_buffer) for what is not an output; "
            f"then {name} is a copy",
        )
    return Refusal(
        f"{name} lies in {scope}, which takes copies from DRAM and nothing else",
        "compute it in vdla.acc_buffer; pad and convert tensors before they are passed",
    )


def _is_on_chip(buffer: Buffer) -> bool:
    return buffer.scope in MACHINE.scratchpads


# Operands


@dataclass(frozen=True, slots=True)
class _Operand:
    """Operand of an instruction.

    buffer, begin: its first element, with all loops at their beginning. strides: for each loop.
    """

    buffer: Buffer
    begin: tuple[Expr, ...]
    strides: tuple[int, ...]

    def pointer(self, mode: int) -> Expr:
        return pointer(self.buffer, self.begin, const(0), mode)


def buffer_strides(buffer: Buffer) -> tuple[int, ...]:
    """Strides of a buffer whose extents are numbers, in elements. Raises NotOnAccelerator (TW0441) for others."""
    given = buffer.strides or buffer.shape
    numbers = [extent.value for extent in given if isinstance(extent, IntImm)]
    if len(numbers) < len(given):
        raise NotOnAccelerator(
            f"the accelerator cannot hold {buffer.name}",
            called=user_source(),
            reason=f"its shape, {', '.join(map(str, buffer.shape))}, is known in a call only",
            fix="give its extents as numbers",
        )
    if buffer.strides:
        return tuple(numbers)
    strides = [1]
    for extent in reversed(numbers[1:]):
        strides.insert(0, strides[0] * extent)
    return tuple(strides[: len(numbers)])


def _operand(loops: Sequence[For], buffer: Buffer, indices: Sequence[Expr]) -> _Operand | Refusal:
    """An access in terms of the loops around it."""
    variables = [loop.var for loop in loops]
    strides = [0] * len(loops)
    for index, step in zip(indices, buffer_strides(buffer), strict=True):
        form = linear(index)
        for at, var in enumerate(variables):
            if occurs(var, form):
                return Refusal(
                    f"the index `{index}` of {buffer.name} does not grow by one stride with '{var.name}'",
                    "split axes by factors that divide, so that indices have no quotients and remainders",
                )
            strides[at] += form.coefficient(var) * step
    first: dict[Var, Expr] = {loop.var: loop.begin for loop in loops}
    return _Operand(buffer, tuple(substitute(index, first) for index in indices), tuple(strides))


def _call(op: str, extents: Sequence[int], operands: Sequence[_Operand], numbers: Sequence[int] = ()) -> Stmt:
    """The instruction as a call: for each operand its pointer and its strides, padded for loops that it does not know."""
    args: list[Expr] = [StringImm(op), const(len(extents)), *map(const, extents), const(len(operands))]
    for at, operand in enumerate(operands):
        args += [operand.pointer(READS if at else READS | WRITES), *map(const, operand.strides)]
    return Evaluate(Call("call_extern", (*args, *(const(number, "int64") for number in numbers)), const(0).dtype))


def _extents(loops: Sequence[For]) -> list[int]:
    return [loop.extent.value for loop in loops if isinstance(loop.extent, IntImm)]


# Kinds of instruction


def _copy(loops: Sequence[For], leaf: BufferStore, source: BufferLoad) -> Stmt | Refusal:
    operands = [_operand(loops, leaf.buffer, leaf.indices), _operand(loops, source.buffer, source.indices)]
    known = [each for each in operands if isinstance(each, _Operand)]
    if len(known) < 2:
        return next(each for each in operands if isinstance(each, Refusal))
    if not all(buffer.dtype.is_integer for buffer in (leaf.buffer, source.buffer)):
        return Refusal(
            f"it copies {source.buffer.dtype} to {leaf.buffer.dtype}, and there are integers only",
            "quantise the tensors to int8",
        )
    return _call("dma_copy2d", _extents(loops), known)


def _alu(loops: Sequence[For], leaf: BufferStore) -> Stmt | Refusal:
    """The steps of an expression, one instruction each, in the place where its result goes."""
    target = _operand(loops, leaf.buffer, leaf.indices)
    if isinstance(target, Refusal):
        return target
    steps = chain(leaf.value)
    if isinstance(steps, Refusal):
        return steps
    if (
        len(steps) == 2
        and steps[0].load is not None
        and steps[1].load is not None
        and steps[1].load.buffer is leaf.buffer
    ):
        steps = [Step("mov", steps[1].load), Step(steps[1].op, steps[0].load)]  # max(x, P): P takes up x
    sources: list[_Operand | None] = []
    for step in steps:
        source = None if step.load is None else _operand(loops, step.load.buffer, step.load.indices)
        if isinstance(source, Refusal):
            return source
        sources.append(source)
    in_place = sources[0] is not None and _same(sources[0], target)
    if any(source is not None and source.buffer is leaf.buffer for source in sources[in_place:]):
        return Refusal(
            f"it reads other elements of {leaf.buffer.name} while it writes it", "compute it as a stage of its own"
        )
    repeated = any(stride == 0 and extent > 1 for stride, extent in zip(target.strides, _extents(loops), strict=True))
    if repeated and not (in_place and len(steps) == 2):
        return Refusal(f"several steps go into one element of {leaf.buffer.name}", "split the reduction's loops off")
    return seq(*_steps(_extents(loops), target, steps, sources))


def _steps(
    extents: Sequence[int], target: _Operand, steps: Sequence[Step], sources: Sequence[_Operand | None]
) -> list[Stmt]:
    """An instruction for each operation: the first takes what is begun with, the others go on with the target."""
    begin = sources[0]
    if begin is None or len(steps) == 1:
        known = [] if begin is None else [begin]
        calls, begin = [_call(steps[0].op, extents, [target, *known], steps[0].numbers)], target
    else:
        calls = list[Stmt]()
    for step, source in zip(steps[1:], sources[1:], strict=True):
        calls.append(_call(step.op, extents, [target, begin, *([] if source is None else [source])], step.numbers))
        begin = target
    return calls


def _same(a: _Operand, b: _Operand) -> bool:
    return (
        a.buffer is b.buffer
        and a.strides == b.strides
        and all((form := linear(x - y)).is_const and form.const == 0 for x, y in zip(a.begin, b.begin, strict=True))
    )


def _gemm(loops: Sequence[For], leaf: Evaluate) -> Stmt | Refusal:
    call = leaf.value
    name = call.args[0] if isinstance(call, Call) and call.name == "call_extern" else None
    if not isinstance(call, Call) or not isinstance(name, StringImm) or name.value != GEMM:
        return Refusal(
            "it calls a function", "tensorize by vdla.gemm8x8, vdla.gemm16x16 or vdla.gemm(rows, lanes, depth)"
        )
    sizes = [arg.value for arg in call.args[4:] if isinstance(arg, IntImm)]
    if len(sizes) < len(call.args) - 4:
        return Refusal(
            "the strides of its tiles are known in a call only", "give the extents of the tensors as numbers"
        )
    rows, lanes, depth, c0, c1, a0, a1, b0, b1 = sizes
    inner = ((c0, c1, 0), (a0, 0, a1), (0, b0, b1))
    operands: list[_Operand] = []
    for argument, strides in zip(call.args[1:4], inner, strict=True):
        pointed = pointed_buffer(argument)
        assert pointed is not None and isinstance(argument, Call) and isinstance(argument.args[0], BufferLoad)
        if not _is_on_chip(pointed[0]):
            memory = ("acc", "inp", "wgt")[len(operands)]
            return Refusal(
                f"its operand {pointed[0].name} lies in DRAM",
                f"s.cache_read({pointed[0].name}, vdla.{memory}_buffer), computed at a loop outside",
            )
        outer = _operand(loops, pointed[0], argument.args[0].indices)
        if isinstance(outer, Refusal):
            return outer
        operands.append(_Operand(outer.buffer, outer.begin, (*outer.strides, *strides)))
    if lanes > MACHINE.lanes_wide or depth > MACHINE.rows_wide:
        return Refusal(
            f"the array multiplies {MACHINE.rows_wide} inputs by {MACHINE.lanes_wide} lanes", "vdla.gemm(rows, 16, 16)"
        )
    return _call("gemm", [*_extents(loops), rows, lanes, depth], operands)

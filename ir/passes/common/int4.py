"""Integers of 4 bits: two lie in a byte of memory, and arithmetic on them is done in 8 bits.

    C[i] = A[i] + B[i]      →      wide[i] = wrapped(half(A[i // 2], i % 2) + half(B[i // 2], i % 2))
                                   C[p] = wide[2 * p] & 15 | wide[2 * p + 1] << 4

An argument is dense whatever its rows: element e in row-major order is in byte e // 2, in the lower four bits where e is even. Of an
odd number of elements, the upper half of the last byte is written as 0.

What a function computes on its way has a byte each, and so has a result until it is whole. Then a loop over bytes stores it: no
iteration, lane or thread writes half of a byte beside another one. Of results that may be written in part, what they held is
loaded first.

It stands beside float8, which is about numbers too, and before all that reasons about memory: the rest of a pipeline sees bytes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ....base import dataclass, replace, user_source
from ...buffer import Buffer
from ...contents import contains
from ...dtype import INT64, UINT8, DType
from ...expr import (
    Add,
    BinaryOp,
    BufferLoad,
    Call,
    Cast,
    Expr,
    FloorDiv,
    IfThenElse,
    IntImm,
    Let,
    Max,
    Min,
    Mul,
    Select,
    Sub,
    TruncDiv,
    Var,
)
from ...intrinsics import INTRINSICS
from ...ops import cast, const
from ...pointers import pointed_buffer
from ...stmt import Allocate, Attr, BufferStore, Evaluate, For, Function, If, LetStmt, LoopKind, Seq, Stmt
from ...visit import SharingRewriter, children, deep_recursion, rebuild, seq, walk
from .errors import PackedPointer
from .flatten import buffer_strides, flat_buffer

__all__ = ["WHOLE_RESULTS", "pack_int4"]

WHOLE_RESULTS = "whole_results"
"""The attribute of a function: the places among its parameters of results of 4 bits all elements of which it stores."""
_THREADS = 256
"""Of a block that stores bytes of a result."""
_LEAVING = (Add, Sub, Mul, FloorDiv, TruncDiv)
"""Operators whose result may need more than 4 bits."""


def pack_int4(function: Function, on_gpu: bool = False) -> Function:
    """`function` without integers of 4 bits. on_gpu: results are stored by threads.

    Raises PackedPointer (TW0362) where a program speaks of an element's address or of strides.
    """
    if not any(_is_narrow(item.dtype) for item in function.params) and not contains(function.body, "int4", "uint4"):
        return function
    with deep_recursion():
        return _Packer(function).packed(on_gpu)


def _is_narrow(dtype: DType) -> bool:
    return dtype.bits == 4


def _wide(dtype: DType) -> DType:
    """The type of 8 bits that values are computed in."""
    return DType(f"{dtype.kind}8").with_lanes(dtype.lanes)


def _call(name: str, a: Expr, b: int) -> Expr:
    return Call(name, (a, const(b, a.dtype)), a.dtype)


def _wrap(value: Expr) -> Expr:
    """A number of 8 bits reduced to the range of 4."""
    if value.dtype.kind == "uint":
        return _call("bitwise_and", value, 15)
    return _call("shift_right", _call("shift_left", value, 4), 4)


@dataclass(frozen=True, slots=True)
class _Packed:
    """Memory of bytes in place of an argument's. Rows of an even number of elements are kept; others are one row."""

    declared: Buffer
    bytes: Buffer

    @staticmethod
    def of(buffer: Buffer) -> _Packed:
        if buffer.strides or buffer.elem_offset is not None:
            raise PackedPointer(
                f"cannot lay out {buffer.name} by strides",
                called=user_source(),
                reason=f"two elements of {buffer.dtype} share a byte, and lie without gaps",
                fix='declare it of "int8", or pass a compact copy',
            )
        shape: tuple[Expr, ...]
        if _has_even_rows(buffer):
            shape = (*buffer.shape[:-1], buffer.shape[-1] // 2)
        else:
            shape = (FloorDiv(Add(_size(buffer), const(1, INT64)), const(2, INT64)),)
        return _Packed(buffer, replace(buffer, shape=shape, dtype=UINT8))

    def place(self, indices: tuple[Expr, ...]) -> tuple[tuple[Expr, ...], Expr]:
        """(the index of an element's byte, whether it is the upper half)."""
        if _has_even_rows(self.declared):
            return (*indices[:-1], indices[-1] // 2), (indices[-1] % 2).equal(1)
        offset: Expr = const(0, INT64)
        for index, stride in zip(indices, buffer_strides(self.declared), strict=True):
            offset = offset + cast(index, INT64.with_lanes(index.dtype.lanes)) * stride
        return (offset // 2,), (offset % 2).equal(1)


def _has_even_rows(buffer: Buffer) -> bool:
    last = buffer.shape[-1] if buffer.shape else None
    return isinstance(last, IntImm) and last.value % 2 == 0


def _size(buffer: Buffer) -> Expr:
    """The number of elements, which no operator simplifies, since the call reads symbols from it."""
    return flat_buffer(buffer).shape[0]


class _Packer(SharingRewriter):
    """`visit` makes an expression of 4 bits one of 8 with the same values."""

    def __init__(self, function: Function) -> None:
        super().__init__()
        self._function = function
        self._packed = {p: _Packed.of(p) for p in function.buffers if _is_narrow(p.dtype)}
        written = {node.buffer for node in walk(function.body) if isinstance(node, BufferStore)}
        self._results = [p for p in self._packed if p in written or p in function.outputs]
        self._memory: dict[Buffer, Buffer] = {}
        """Bytes that hold an element each, by the buffer that was allocated, or that is a result."""
        self._names: dict[Var, Var] = {}

    def packed(self, on_gpu: bool) -> Function:
        """The function."""
        function = self._function
        body: Stmt = self.visit(function.body)
        for result in reversed(self._results):
            body = seq(body, self._store_bytes(result, on_gpu))
            if function.params.index(result) not in function.attrs.get(WHOLE_RESULTS, ()):
                body = seq(self._unpack(result, on_gpu), body)
            body = Allocate(self._wide_buffer(result), body)
        params = tuple(self._param(p) for p in function.params)
        constants = tuple(
            held.packed if _is_narrow(buffer.dtype) else held for buffer, held in function.constant_buffers.items()
        )
        outputs = tuple(self._packed[p].bytes if p in self._packed else p for p in function.outputs)
        return replace(function, params=params, outputs=outputs, body=body, constants=constants)

    def _param(self, param: Buffer | Var) -> Buffer | Var:
        if isinstance(param, Var):
            return self._name(param)
        return self._packed[param].bytes if param in self._packed else param

    def _wide_buffer(self, buffer: Buffer) -> Buffer:
        if not _is_narrow(buffer.dtype):
            return buffer
        name = f"{buffer.name}.wide" if buffer in self._packed else buffer.name
        made = replace(buffer, name=name, dtype=_wide(buffer.dtype), data=None)
        return self._memory.setdefault(buffer, made)

    def _name(self, var: Var) -> Var:
        return self._names.setdefault(var, Var(var.name, _wide(var.dtype))) if _is_narrow(var.dtype) else var

    # Results

    def _store_bytes(self, result: Buffer, on_gpu: bool) -> Stmt:
        """Store a result that is whole, a byte an iteration."""
        wide, bytes_ = self._wide_buffer(result), self._packed[result].bytes

        def body(place: tuple[Expr, ...]) -> Stmt:
            (low, high), exists = _elements(result, place)
            lower = _call("bitwise_and", BufferLoad(wide, low), 15)
            upper = _call("shift_left", BufferLoad(wide, high), 4)
            upper = upper if exists is None else IfThenElse(exists, upper, const(0, wide.dtype))
            return BufferStore(bytes_, cast(Call("bitwise_or", (lower, upper), wide.dtype), UINT8), place)

        return _visit_bytes(bytes_, body, on_gpu)

    def _unpack(self, result: Buffer, on_gpu: bool) -> Stmt:
        """Load what a result holds."""
        wide, bytes_ = self._wide_buffer(result), self._packed[result].bytes

        def body(place: tuple[Expr, ...]) -> Stmt:
            (low, high), exists = _elements(result, place)
            byte = cast(BufferLoad(bytes_, place), wide.dtype)
            second: Stmt = BufferStore(wide, _call("shift_right", byte, 4), high)
            second = second if exists is None else If(exists, second)
            return Seq((BufferStore(wide, _wrap(byte), low), second))

        return _visit_bytes(bytes_, body, on_gpu)

    # Memory

    def Allocate(self, node: Allocate) -> Stmt:
        return Allocate(self._wide_buffer(node.buffer), self.visit(node.body))

    def Attr(self, node: Attr) -> Stmt:
        subject = self._wide_buffer(node.subject) if isinstance(node.subject, Buffer) else node.subject
        return Attr(node.key, subject, self.visit(node.value), self.visit(node.body))

    def BufferStore(self, node: BufferStore) -> Stmt:
        changed = self.generic(node)
        return replace(changed, buffer=self._wide_buffer(node.buffer)) if _is_narrow(node.buffer.dtype) else changed

    def BufferLoad(self, node: BufferLoad) -> Expr:
        if not _is_narrow(node.buffer.dtype):
            return self.generic(node)
        indices = tuple(map(self.visit, node.indices))
        predicate = None if node.predicate is None else self.visit(node.predicate)
        if node.buffer in self._packed and node.buffer not in self._results:
            return _load_half(self._packed[node.buffer], indices, predicate)
        return BufferLoad(self._wide_buffer(node.buffer), indices, predicate)

    def Evaluate(self, node: Evaluate) -> Stmt:
        call = node.value
        if isinstance(call, Call) and call.name == "prefetch":
            pointed = pointed_buffer(call.args[0])
            if pointed is not None and _is_narrow(pointed[0].dtype):
                return Seq(())  # a hint: the lines of bytes are half as many
        return self.generic(node)

    # Values

    def LetStmt(self, node: LetStmt) -> LetStmt:
        return LetStmt(self._name(node.var), self.visit(node.value), self.visit(node.body))

    def Let(self, node: Let) -> Let:
        return Let(self._name(node.var), self.visit(node.value), self.visit(node.body))

    def Var(self, node: Var) -> Var:
        return self._name(node)

    def IntImm(self, node: IntImm) -> IntImm:
        return IntImm(node.value, _wide(node.dtype)) if _is_narrow(node.dtype) else node

    def Cast(self, node: Cast) -> Expr:
        value = self.visit(node.value)
        if not _is_narrow(node.dtype):
            return cast(value, node.dtype)
        wide = cast(value, _wide(node.dtype))
        if node.value.dtype.is_float:  # which end at the ends of the range
            least, greatest = (const(end, wide.dtype) for end in (node.dtype.least, node.dtype.greatest))
            return Min(Max(wide, least), greatest)
        return wide if node.value.dtype.is_bool else _wrap(wide)

    def Call(self, node: Call) -> Expr:
        pointed = pointed_buffer(node)
        if pointed is not None and _is_narrow(pointed[0].dtype):
            raise PackedPointer(
                f"cannot make a pointer to {pointed[0].name}",
                called=user_source(),
                reason=f"two elements of {pointed[0].dtype} share a byte, and neither has an address",
                fix='give outside code a copy: te.compute(shape, lambda *i: A(*i).astype("int8"))',
            )
        args = [self.visit(argument) for argument in node.args]
        first = node.args[0].dtype if node.args else node.dtype
        if node.name in _COMPUTED and _is_narrow(first):
            return _COMPUTED[node.name](args, node.dtype)
        if not _is_narrow(node.dtype):
            return rebuild(node, list(args))
        if node.name == "reinterpret":  # of 4 bits: the same lower half
            return _wrap(cast(args[0], _wide(node.dtype)))
        made = Call(node.name, tuple(args), _wide(node.dtype))
        row = INTRINSICS.get(node.name)
        return made if row is not None and row.result == "same" else _wrap(made)

    def generic(self, node: Any) -> Any:
        if isinstance(node, BinaryOp) and _is_narrow(node.dtype):
            value = rebuild(node, list(map(self.visit, children(node))))
            return _wrap(value) if isinstance(node, _LEAVING) else value
        return super().generic(node)


def _low_bits(value: Expr) -> Expr:
    return _call("bitwise_and", value, 15)


def _shift(name: str, args: list[Expr]) -> Expr:
    """Shift by a number of places below 4."""
    value, places = args
    return Call(name, (value, _call("bitwise_and", places, 3)), value.dtype)


_COMPUTED: dict[str, Callable[[list[Expr], DType], Expr]] = {
    "abs": lambda args, _: _wrap(Call("abs", tuple(args), args[0].dtype)),
    "popcount": lambda args, _: Call("popcount", (_low_bits(args[0]),), args[0].dtype),
    "clz": lambda args, dtype: Sub(Call("clz", (_low_bits(args[0]),), dtype), const(4, dtype)),
    "bitwise_not": lambda args, _: _wrap(Call("bitwise_not", tuple(args), args[0].dtype)),
    "shift_left": lambda args, _: _wrap(_shift("shift_left", args)),
    "shift_right": lambda args, _: _shift("shift_right", args),
}
"""Functions of 4 bits, by those of 8, where these are not the same."""


def _load_half(packed: _Packed, indices: tuple[Expr, ...], predicate: Expr | None) -> Expr:
    """An element of what lies packed."""
    place, is_upper = packed.place(indices)
    byte = BufferLoad(packed.bytes, place, predicate)
    byte = cast(byte, _wide(packed.declared.dtype).with_lanes(byte.dtype.lanes))
    if byte.dtype.kind == "uint":
        return Select(is_upper, _call("shift_right", byte, 4), _low_bits(byte))
    return _call("shift_right", Select(is_upper, byte, _call("shift_left", byte, 4)), 4)


def _elements(buffer: Buffer, place: tuple[Expr, ...]) -> tuple[tuple[tuple[Expr, ...], tuple[Expr, ...]], Expr | None]:
    """(the indices of the two elements in a byte, the condition under which the second exists; None for always)."""
    first, second = place[-1] * 2, place[-1] * 2 + 1
    if _has_even_rows(buffer):
        return ((*place[:-1], first), (*place[:-1], second)), None

    def indices(element: Expr) -> tuple[Expr, ...]:
        strides, last = buffer_strides(buffer), len(buffer.shape) - 1
        return tuple(
            cast(
                (element // stride if at < last else element) % cast(extent, INT64) if at else element // stride,
                extent.dtype,
            )
            for at, (extent, stride) in enumerate(zip(buffer.shape, strides, strict=True))
        )

    return (indices(first), indices(second)), second < _size(buffer)


def _visit_bytes(buffer: Buffer, body: Any, on_gpu: bool) -> Stmt:
    """A loop nest over the bytes of a buffer, or threads over them in a row."""
    if not on_gpu:
        variables = [Var(f"byte{at}", extent.dtype) for at, extent in enumerate(buffer.shape)]
        nest: Stmt = body(tuple(variables))
        for var, extent in reversed(list(zip(variables, buffer.shape, strict=True))):
            nest = For(var, const(0, var.dtype), extent, LoopKind.SERIAL, nest)
        return nest
    count = _size(buffer)
    block, thread = Var("block", INT64), Var("thread", INT64)
    rest, place = block * _THREADS + thread, list[Expr]()
    guarded = rest < count
    for at, extent in reversed(list(enumerate(buffer.shape))):
        place.insert(0, cast(rest % cast(extent, INT64) if at else rest, extent.dtype))
        rest = rest // cast(extent, INT64)
    inner = For(
        thread, const(0, INT64), const(_THREADS, INT64), LoopKind.THREAD, If(guarded, body(tuple(place))), "threadIdx.x"
    )
    return For(block, const(0, INT64), (count + (_THREADS - 1)) // _THREADS, LoopKind.THREAD, inner, "blockIdx.x")

"""The bodies of an intrinsic in terms of real buffers: accesses shifted to the part, symbols replaced by what they are.

A declared buffer demands something of the part that it stands for: strides that are numbers, compactness where it has no
strides, an offset that is a multiple of offset_factor, an alignment, a scope. What is not proved is refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from ...base import LoweringError, dataclass
from ...ir import Broadcast, Buffer, BufferLoad, BufferStore, Expr, Node, Ramp, Stmt, Var, rewrite
from ...ir.ops import cast, const, floormod, is_const
from ...ir.pointers import READS, WRITES, pointer
from ..lowering.errors import TensorizeBuffer
from ..lowering.nest import Nest
from .plan import Part, Plan

__all__ = ["bind", "bind_parts"]


_OWN_ALIGNMENT = 64
"""What the addresses of allocated buffers are multiples of, in bytes."""


class _Error(Protocol):
    def __call__(self, kind: type[LoweringError], reason: str, fix: str) -> LoweringError: ...


@dataclass(frozen=True, slots=True)
class _Place:
    """Place of a declared buffer: its first element is `begin` of `buffer`, its dimensions are `dims` of that one's."""

    buffer: Buffer
    begin: tuple[Expr, ...]
    dims: tuple[int, ...]

    def indices(self, given: Sequence[Expr]) -> tuple[Expr, ...]:
        """An element's place in the real buffer."""
        indices = list(self.begin)
        for dim, index in zip(self.dims, given, strict=True):
            indices[dim] = _sum(self.begin[dim], index)
        lanes = max((index.dtype.lanes for index in indices), default=1)
        if (
            indices and indices[-1].dtype.lanes < lanes
        ):  # a layout put a dimension of one element behind that of the vectors
            indices[-1] = Broadcast(indices[-1], lanes)
        return tuple(indices)


def bind(nest: Nest, plan: Plan, body: Stmt, error: _Error) -> Stmt:
    """`body`, a body of the plan's intrinsic, on the parts of the plan. Raises TensorizeBuffer (TW0382)."""
    values: dict[Var, Expr] = {param: nest.value(value, {}) for param, value in plan.scalars.items()}
    return bind_parts(
        nest, [(plan.intrinsic.buffers[tensor], part) for tensor, part in plan.parts.items()], body, error, values
    )


def bind_parts(
    nest: Nest, parts: Sequence[tuple[Buffer, Part]], body: Stmt, error: _Error, values: dict[Var, Expr]
) -> Stmt:
    """`body` with each declared buffer at its part, and symbols replaced by `values` and by what the parts say.

    Raises by `error` where a part is not as its buffer demands."""
    places: dict[Buffer, _Place] = {}
    for declared, part in parts:
        place = places[declared] = _place(nest, part)
        _Demands(nest, declared, place, error).meet(values)

    def rule(node: Node) -> Node | None:
        if isinstance(node, Var):
            return values.get(node)
        if isinstance(node, BufferLoad) and node.buffer in places:
            place = places[node.buffer]
            return BufferLoad(place.buffer, place.indices(node.indices), node.predicate)
        if isinstance(node, BufferStore) and node.buffer in places:
            place = places[node.buffer]
            return BufferStore(place.buffer, node.value, place.indices(node.indices), node.predicate)
        return None

    return rewrite(body, rule)


def _place(nest: Nest, part: Part) -> _Place:
    buffer, origin = nest.storage.buffers[part.tensor], nest.storage.origins.get(part.tensor)
    begin = [nest.value(index, {}) for index in part.begin]
    if origin is not None:
        begin = [nest.analyzer.simplify(index - first) for index, first in zip(begin, origin, strict=True)]
    return _Place(buffer, tuple(begin), part.dims)


def _sum(begin: Expr, index: Expr) -> Expr:
    """begin + index, a vector of consecutive indices staying one."""
    index = cast(index, begin.dtype.with_lanes(index.dtype.lanes))
    if is_const(begin, 0):
        return index
    return Ramp(begin + index.base, index.stride, index.lanes) if isinstance(index, Ramp) else begin + index


class _Demands:
    """Demands of one declared buffer on its place."""

    def __init__(self, nest: Nest, declared: Buffer, place: _Place, error: _Error) -> None:
        self.analyzer, self.declared, self.place, self.error = nest.analyzer, declared, place, error
        self.storage = nest.storage

    def meet(self, values: dict[Var, Expr]) -> None:
        """Check everything, and note what the symbols of the buffer are."""
        declared, place = self.declared, self.place
        if declared.scope not in ("global", place.buffer.scope):
            raise self._refusal(
                f"it lies in {place.buffer.scope} memory, and {declared.name} is declared in {declared.scope}",
                f's[...].set_scope("{declared.scope}")',
            )
        strides = _strides(place.buffer)
        self._strides([strides[dim] for dim in place.dims], values)
        offset = self.analyzer.simplify(_dot(place.begin, strides))
        self._offset(offset, values)
        if declared.data is not None:
            values[declared.data] = pointer(place.buffer, place.begin, const(0), READS | WRITES)

    def _strides(self, real: Sequence[Expr], values: dict[Var, Expr]) -> None:
        declared = self.declared
        wanted = declared.strides or _strides(declared)
        for dim, (mine, its) in enumerate(zip(real, wanted, strict=True)):
            if isinstance(its, Var) and declared.strides:
                before = values.setdefault(its, cast(mine, its.dtype))
                if before is not mine and not self.analyzer.can_prove_equal(before, cast(mine, its.dtype)):
                    raise self._refusal(
                        f"the stride {its.name} would be {before} and {mine} at once", "declare a symbol for each"
                    )
            elif not is_const(declared.shape[dim], 1) and not self.analyzer.can_prove_equal(cast(mine, its.dtype), its):
                compact = "" if declared.strides else ", which has no strides and so is compact"
                steps = ", ".join("1" if at == len(wanted) - 1 else f'te.var("s{at}")' for at in range(len(wanted)))
                raise self._refusal(
                    f"its stride in dimension {dim} is {mine}, and {its} in the declared {declared.name}{compact}",
                    f"te.decl_buffer(..., strides=[{steps}]), or copy the part to a compact buffer by cache_read",
                )

    def _offset(self, offset: Expr, values: dict[Var, Expr]) -> None:
        declared, element = self.declared, self.place.buffer.dtype.bytes
        if isinstance(declared.elem_offset, Var):
            values[declared.elem_offset] = cast(offset, declared.elem_offset.dtype)
        factor = max(declared.offset_factor, 1)
        if factor > 1 and not self._divides(offset, factor):
            raise self._refusal(
                f"it begins at element {offset}, which is not proved to be a multiple of offset_factor={factor}",
                "pad what lies before it, or lower offset_factor",
            )
        if declared.alignment > element:
            self._alignment(offset, declared.alignment)

    def _alignment(self, offset: Expr, wanted: int) -> None:
        """Own memory is aligned for any vector; of an argument the call is to check it."""
        given = self.place.buffer in self.storage.given
        if not self._divides(offset, wanted // self.place.buffer.dtype.bytes) or not (
            given or wanted <= _OWN_ALIGNMENT
        ):
            why = f"and its memory is to {_OWN_ALIGNMENT} bytes" if wanted > _OWN_ALIGNMENT else "which is not proved"
            raise self._refusal(
                f"{self.declared.name} is declared with data_alignment={wanted}, so its first element, {offset}, "
                f"must be aligned to that, {why}",
                "pad what lies before it, or lower data_alignment",
            )
        if given:
            self.storage.alignments[self.place.buffer] = max(wanted, self.storage.alignments.get(self.place.buffer, 0))

    def _divides(self, offset: Expr, factor: int) -> bool:
        return self.analyzer.can_prove_equal(floormod(offset, const(factor, offset.dtype)), const(0, offset.dtype))

    def _refusal(self, reason: str, fix: str) -> LoweringError:
        return self.error(TensorizeBuffer, f"of the part of {self.place.buffer.name}: {reason}", fix)


def _strides(buffer: Buffer) -> tuple[Expr, ...]:
    if buffer.strides:
        return buffer.strides
    strides: list[Expr] = []
    step: Expr = const(1)
    for extent in reversed(buffer.shape):
        strides.insert(0, step)
        step = step * extent
    return tuple(strides)


def _dot(indices: Sequence[Expr], strides: Sequence[Expr]) -> Expr:
    total: Expr = const(0)
    for index, stride in zip(indices, strides, strict=True):
        total = total + index * stride
    return total

"""Scans, and what reads them at their own time, as loops over time: in one sweep, with the last states in rows of memory.

    F[t, j] = F[t - 1, j] + x[t, j]                           for j: last[j] = x[0, j];  G = ...;  y[0, j] = last[j] - G
    G[t, j] = max(G[t - 1, j], x[t, j])            →          for t in 1..n:
    y[t, j] = F[t, j] - G[t, j]                                   for j: F = last[j] + x[t, j];  ...;  y[t, j] = F - G;  last[j] = F

Columns, all dimensions but time, are left alone by each operation, so that no element of a row is read for another one, and each state
of all time needs no memory but for the steps that are read again. Each value is that of the same expression.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import ClassVar

from ..base import dataclass, field
from ..ir.analysis.linear import is_index, linear
from ..ir.buffer import Buffer
from ..ir.expr import BufferLoad, Expr, IfThenElse, IntImm, IterVar, Node, ProducerLoad, Range, Var
from ..ir.ops import const, integer_value
from ..ir.stmt import Allocate, BufferStore, For, LetStmt, LoopKind, Stmt
from ..ir.visit import rewrite, seq, substitute, walk
from .hybrid.op import HybridOp
from .operation import Operation, producers_first
from .scan import ScanOp
from .shape import constant_extent, same_extent
from .tensor import Tensor, find_tensor

__all__ = ["Sweep", "SweepOp", "find_sweep"]

MOST_FIRST = 4
"""Steps that are given, each of which is written out."""
_TIME = -1
"""The dimension that is time, where others are columns by their number."""


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class SweepOp(HybridOp):
    """Scans and their readers, step by step. Each element is written once, before it is read."""

    begins_undefined: ClassVar[bool] = True


@dataclass
class Sweep:
    """An operation, and the scans and what else is computed for it step by step. members: producers first."""

    output: Operation
    time: IterVar
    """An axis of the output, or of a scan."""
    columns: tuple[IterVar, ...]
    """Axes of the output, in their order."""
    roles: dict[Tensor, tuple[int, ...]] = field(default_factory=dict[Tensor, "tuple[int, ...]"])
    """The number of the column that each dimension of a tensor is."""
    scans: dict[Operation, ScanOp] = field(default_factory=dict[Operation, ScanOp])
    """By what computes their steps, the scans."""
    lags: dict[Tensor, int] = field(default_factory=dict[Tensor, int])
    """The steps of a scan's results that are read again."""
    members: dict[Operation, None] = field(default_factory=dict[Operation, None])

    @property
    def inputs(self) -> tuple[Tensor, ...]:
        """The tensors that are read, and not computed in it."""
        read = (tensor for op in self.members for tensor in op.input_tensors)
        return tuple(dict.fromkeys(tensor for tensor in read if self.memory(tensor) not in self.roles))

    def declare(self, *inputs: Tensor) -> Tensor:
        """The first result of the operation of loops that computes the output of these inputs."""
        return _Loops(self).declare().replace_inputs(dict(zip(self.inputs, inputs, strict=True))).output(0)

    def memory(self, tensor: Tensor) -> Tensor:
        """The result of a scan whose memory holds a tensor; other tensors have their own."""
        scan = self.scans.get(tensor.op)
        return tensor if scan is None else dict(scan.shared_memory).get(tensor, tensor)

    def reads(self, op: Operation) -> Iterator[tuple[Tensor, int]]:
        """The tensors of the sweep that a member reads, with the steps that lie between."""
        for load in op.loads:
            tensor = self.memory(find_tensor(load))
            if tensor in self.roles:
                yield find_tensor(load), self.lag(load, tensor)

    def lag(self, load: ProducerLoad, tensor: Tensor) -> int:
        """The steps that lie between a member and what it reads."""
        return -linear(load.indices[self.roles[tensor].index(_TIME)]).const

    def own_axes(self, op: Operation) -> dict[int, IterVar]:
        """The axes of a member by the numbers of their columns."""
        return dict(zip(self.roles[self.memory(op.output(0))], op.axis, strict=True))


def find_sweep(output: Operation) -> Sweep | None:
    """The sweep that computes an operation and all scans that it is computed from; None where columns are mixed, or steps are read that
    come later or long before, neighbours are steps, or nothing would be saved."""
    times = (
        (output.scan_axis,) if isinstance(output, ScanOp) else output.axis[:-1] if output.as_compute is not None else ()
    )
    return next((sweep for time in times if (sweep := _begin(output, time)) is not None and _take(sweep)), None)


def _begin(output: Operation, time: IterVar) -> Sweep | None:
    """The sweep of an operation alone, along an axis."""
    dims = output.dimensions[0]
    columns = tuple(axis for axis in dims if axis is not (dims[0] if output.is_stepwise else time))
    if not columns or any(tensor.ndim != len(dims) for tensor in output.outputs):
        return None
    roles = tuple(columns.index(axis) if axis in columns else _TIME for axis in dims)
    return Sweep(output, time, columns, dict.fromkeys(output.outputs, roles))


def _take(sweep: Sweep) -> bool:
    """Return whether all that depends on scans can be computed in the sweep, and note it."""
    order = producers_first([sweep.output])
    states = {state for op in order for state in op.own_placeholders}
    stepwise = set[Operation]()
    for op in order:
        if op.is_stepwise or any(tensor.op in stepwise or tensor in states for tensor in op.input_tensors):
            stepwise.add(op)
    for op in reversed(order):
        if op.is_given or all(sweep.memory(tensor) not in sweep.roles for tensor in op.outputs):
            continue
        sweep.members[op] = None
        holds = _take_scan(sweep, op) if isinstance(op, ScanOp) else _take_element(sweep, op, stepwise)
        if not holds or not all(_has_shape(sweep, tensor) for tensor in op.outputs):
            return False
    sweep.members = dict.fromkeys(op for op in order if op in sweep.members)
    stored = [op for op in sweep.members if op not in sweep.scans or op.is_stepwise]
    return any(op.is_stepwise for op in stored) and sum(op.num_outputs for op in stored) > 1


def _has_shape(sweep: Sweep, tensor: Tensor) -> bool:
    """Return whether a tensor of the sweep has elements for all columns, and all times unless they are a scan's steps."""
    own, (output, *_) = sweep.roles[sweep.memory(tensor)], sweep.output.outputs
    time = output.shape[sweep.roles[output].index(_TIME)]
    extents = {role: axis.dom.extent for role, axis in enumerate(sweep.columns) if axis.dom is not None}
    within_scan = tensor.op in sweep.scans and not tensor.op.is_stepwise
    return isinstance(time, IntImm) and all(
        role == _TIME
        and (within_scan or same_extent(extent, time))
        or role != _TIME
        and same_extent(extent, extents[role])
        for role, extent in zip(own, tensor.shape, strict=True)
    )


def _take_scan(sweep: Sweep, scan: ScanOp) -> bool:
    """Return whether the steps of a scan can be computed in the sweep."""
    given = constant_extent(scan.init[0].op.axis[0])
    steps = [tensor.op for tensor in (*scan.init, *scan.update)]
    roles = (_TIME, *range(len(sweep.columns)))
    for tensor in scan.outputs:
        if tensor.ndim != len(roles) or sweep.roles.setdefault(tensor, roles)[0] != _TIME:
            return False
    whole = integer_value(scan.states[0].shape[0])
    if given is None or whole is None or given > min(MOST_FIRST, whole) or any(op in sweep.scans for op in steps):
        return False
    sweep.scans |= dict.fromkeys((scan, *steps, *(state.op for state in scan.states)), scan)
    return True


def _take_element(sweep: Sweep, op: Operation, stepwise: Collection[Operation]) -> bool:
    """Return whether what is computed element by element reads others of the same column alone, now or a few steps before."""
    if op.as_compute is None or op.reduction is not None or op.num_outputs != 1 or op.calls_intrinsic:
        return False
    scan, time = sweep.scans.get(op), sweep.own_axes(op)[_TIME]
    is_update = scan is not None and any(tensor.op is op for tensor in scan.update)
    given = constant_extent(scan.init[0].op.axis[0]) if scan is not None and is_update else None
    guarded = any(isinstance(node, IfThenElse) for value in op.values for node in walk(value))
    for load in op.loads:
        tensor = sweep.memory(find_tensor(load))
        if tensor not in sweep.roles and tensor.op not in stepwise:
            continue
        roles = _find_columns(sweep, op, load)
        if roles is None or sweep.roles.setdefault(tensor, roles) != roles:
            return False
        lag, at = sweep.lag(load, tensor), load.indices[roles.index(_TIME)]
        is_state = find_tensor(load) is not tensor and find_tensor(load).op.is_given
        least, most = (int(is_state), given or 0) if tensor.op.is_stepwise else (0, 0)
        if not least <= lag <= most or not linear(at).coeffs and constant_extent(time) != 1:
            return False
        if guarded and not tensor.op.is_stepwise:  # where it is read alone its own reads need lie within bounds
            return False
        sweep.lags[tensor] = max(sweep.lags.get(tensor, 0), lag)
    return True


def _find_columns(sweep: Sweep, op: Operation, load: ProducerLoad) -> tuple[int, ...] | None:
    """The columns that the indices of a load are, one of them time but for a number; None where they are not."""
    own = {axis: role for role, axis in sweep.own_axes(op).items()}
    roles: list[int] = []
    for index in load.indices:
        form = linear(index) if is_index(index) else None
        if form is None or any(not isinstance(axis, IterVar) or times != 1 for axis, times in form.coeffs.items()):
            return None
        axes = {own.get(axis) for axis in form.coeffs if isinstance(axis, IterVar)} or {_TIME}
        role = axes.pop()
        if role is None or axes or role != _TIME and form.const:
            return None
        roles.append(role)
    return tuple(roles) if sorted(roles) == list(range(_TIME, len(sweep.columns))) else None


class _Loops:
    """The loops of a sweep."""

    def __init__(self, sweep: Sweep) -> None:
        self.sweep, output = sweep, sweep.output
        self.results = {tensor: Buffer(tensor.name, tensor.shape, tensor.dtype) for tensor in output.outputs}
        at = output.axis.index(sweep.time) if not output.is_stepwise else 0
        self.outer, self.inner = range(at), range(at, len(sweep.columns))
        shape = tuple(self._extent(column) for column in self.inner)
        self.rows = {
            tensor: [Buffer(f"{tensor.name}.{lag}", shape, tensor.dtype) for lag in range(1, lags + 1)]
            for tensor, lags in sweep.lags.items()
            if lags
        }

    def _extent(self, column: int) -> Expr:
        within = self.sweep.columns[column].dom
        assert within is not None, "axes of operations have a domain"
        return within.extent

    def declare(self) -> SweepOp:
        sweep, op = self.sweep, self.sweep.output
        outer = {column: self._axis(column) for column in self.outer}
        scans = [each for each in sweep.members if isinstance(each, ScanOp)]
        given = max(constant_extent(scan.init[0].op.axis[0]) or 0 for scan in scans)
        steps = integer_value(op.output(0).shape[sweep.roles[op.output(0)].index(_TIME)])
        assert steps is not None, "a sweep has a known number of steps"
        dtype = sweep.time.dtype
        time = IterVar(sweep.time.name, dtype, Range(const(given, dtype), const(steps - given, dtype)))
        main = _loop(time, self._step(outer, time, None))
        body = seq(*(self._step(outer, const(at, dtype), at) for at in range(given)), main)
        for rows in self.rows.values():
            for row in rows:
                body = Allocate(row, body)
        for axis in reversed(outer.values()):
            body = _loop(axis, body)
        return SweepOp(name=op.name, tag="", source=op.source, buffers=tuple(self.results.values()), body=body)

    def _axis(self, column: int) -> IterVar:
        axis = self.sweep.columns[column]
        return IterVar(axis.name, axis.dtype, axis.dom)

    def _step(self, outer: Mapping[int, IterVar], time: Expr, first: int | None) -> Stmt:
        """The loops over columns of a step, `first` of those that are given to some scan."""
        columns = {**outer, **{column: self._axis(column) for column in self.inner}}
        places: dict[int, Expr] = {_TIME: time, **columns}
        row = tuple(columns[column] for column in self.inner)
        sources = {op: self._sources(op, first) for op in self.sweep.members}
        values: dict[Tensor, Var] = {}
        names: list[tuple[Var, Expr]] = []
        for op in self._order_members(sources):
            for tensor, source in zip(op.outputs, sources[op], strict=True):
                if source.op is not op:  # a scan takes what its step computes
                    values[tensor] = values[source]
                    continue
                axes: dict[Var, Expr] = {axis: places[role] for role, axis in self.sweep.own_axes(op).items()}
                value = self._value(op, axes, values, row)
                values[tensor] = Var(tensor.name, tensor.dtype)
                names.append((values[tensor], value))
        stores = [
            BufferStore(buffer, values[tensor], tuple(places[role] for role in self.sweep.roles[tensor]))
            for tensor, buffer in self.results.items()
        ]
        for tensor, rows in self.rows.items():
            news: list[Expr] = [values[tensor], *(BufferLoad(each, row) for each in rows[:-1])]
            known = len(rows) if first is None else first + 1
            stores += [BufferStore(each, new, row) for each, new in [*zip(rows, news, strict=True)][:known][::-1]]
        body = seq(*stores)
        for var, value in reversed(names):
            body = LetStmt(var, value, body)
        for column in reversed(self.inner):
            body = _loop(columns[column], body)
        return body

    def _sources(self, op: Operation, first: int | None) -> tuple[Tensor, ...]:
        """The tensors that a step of an operation's results is taken from."""
        if not isinstance(op, ScanOp):
            return (op.output(0),)
        given = constant_extent(op.init[0].op.axis[0]) or 0
        return op.update if first is None or first >= given else op.init

    def _order_members(self, sources: Mapping[Operation, Sequence[Tensor]]) -> list[Operation]:
        """The members that a step computes, each behind those that it reads at that step."""
        sweep = self.sweep

        def reads(op: Operation) -> list[Operation]:
            now = [tensor.op for tensor, lag in sweep.reads(op) if lag == 0] if not op.is_stepwise else []
            return [*(tensor.op for tensor in sources[op] if tensor.op is not op), *now]

        return producers_first([op for op in sweep.members if op is sweep.output or op.is_stepwise], reads)

    def _value(
        self, op: Operation, axes: Mapping[Var, Expr], values: Mapping[Tensor, Var], row: tuple[Expr, ...]
    ) -> Expr:
        """The value of an element."""
        sweep = self.sweep

        def read(node: Node) -> Node | None:
            if isinstance(node, ProducerLoad):
                tensor = sweep.memory(find_tensor(node))
                if tensor in sweep.roles:
                    lag = sweep.lag(node, tensor)
                    return BufferLoad(self.rows[tensor][lag - 1], row) if lag else values[find_tensor(node)]
            return None

        return substitute(rewrite(op.values[0], read), axes)


def _loop(axis: IterVar, body: Stmt) -> Stmt:
    assert axis.dom is not None, "axes of operations have a domain"
    return For(axis, axis.dom.begin, axis.dom.extent, LoopKind.SERIAL, body)

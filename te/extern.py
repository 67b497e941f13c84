"""te.extern: tensors that outside code computes whole, from whole tensors, through pointers to their memory.

    C = te.extern((n, m), [A, B], lambda ins, outs: te.call_packed("matmul", ins[0], ins[1], outs[0]), name="C")

The body is a statement of the loop IR: a call (te.call_packed of a registered Python function, te.call_extern of a C
function), or what a tw.ir_builder() has collected.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, cast, overload

from ..base import dataclass, replace, user_source
from ..base.arguments import is_sequence, to_list
from ..ir import Allocate, Buffer, DType, Evaluate, Expr, IterVar, Node, Stmt, Var, free_vars, post_order
from ..ir.accesses import reading_only, written_buffers
from ..ir.lazy_values import cached_property
from .errors import BadExtern
from .intrin_declaration import decl_buffer
from .operation import Operation
from .shape import Extent, Shape, convert_shape, declare_axes, same_extent, scalar_dtype, shape_text
from .tag import current_tag
from .tensor import Tensor

__all__ = ["ExternOp", "extern"]


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class ExternOp(Operation):
    """Tensors that a statement computes whole.

    inputs: the tensors that it reads. in_buffers, out_buffers: what stands for each input and each output in `body`.
    dims: an iteration variable for each dimension of each output.
    """

    inputs: tuple[Tensor, ...]
    in_buffers: tuple[Buffer, ...]
    out_buffers: tuple[Buffer, ...]
    body: Stmt
    dims: tuple[tuple[IterVar, ...], ...]
    is_judged: ClassVar[bool] = True
    kind: ClassVar[str] = "extern"
    noun: ClassVar[str] = "an extern: outside code computes it whole"

    @property
    def output_dtypes(self) -> tuple[DType, ...]:
        return tuple(buffer.dtype for buffer in self.out_buffers)

    @property
    def output_shape(self) -> tuple[Expr, ...]:
        return self.out_buffers[0].shape

    @property
    def output_shapes(self) -> tuple[tuple[Expr, ...], ...]:
        return tuple(buffer.shape for buffer in self.out_buffers)

    @property
    def dimensions(self) -> tuple[tuple[IterVar, ...], ...]:
        return self.dims

    @property
    def parts(self) -> tuple[Node, ...]:
        """The symbols of the body, without those that stand for the place of a buffer."""
        places: set[object] = set()
        for buffer in (*self.in_buffers, *self.out_buffers):
            places.update((*buffer.strides, buffer.elem_offset, buffer.data))
        # strides and places are bound when the buffer is
        return tuple(var for var in free_vars(self.body) if var not in places)

    @cached_property
    def input_tensors(self) -> tuple[Tensor, ...]:
        return tuple(dict.fromkeys(self.inputs))  # a tensor given twice is one input

    def statement(self) -> Stmt:
        return self.body

    def replace_inputs(self, tensors: Mapping[Tensor, Tensor]) -> ExternOp:
        """The same body reading other tensors; itself where it reads none of them."""
        inputs = tuple(tensors.get(tensor, tensor) for tensor in self.inputs)
        return self if all(map(operator.is_, inputs, self.inputs)) else replace(self, inputs=inputs)


@overload
def extern(
    shape: Extent | Sequence[Extent],
    inputs: Sequence[Tensor],
    fcompute: Callable[[list[Buffer], list[Buffer]], Stmt | Expr],
    name: str = "extern",
    dtype: object = None,
    in_buffers: Buffer | Sequence[Buffer] | None = None,
    out_buffers: Buffer | Sequence[Buffer] | None = None,
    tag: str = "",
    attrs: Mapping[str, Any] | None = None,
) -> Tensor: ...
@overload
def extern(
    shape: Sequence[Sequence[Extent]],
    inputs: Sequence[Tensor],
    fcompute: Callable[[list[Buffer], list[Buffer]], Stmt | Expr],
    name: str = "extern",
    dtype: object = None,
    in_buffers: Buffer | Sequence[Buffer] | None = None,
    out_buffers: Buffer | Sequence[Buffer] | None = None,
    tag: str = "",
    attrs: Mapping[str, Any] | None = None,
) -> list[Tensor]: ...
def extern(
    shape: Shape | Sequence[Shape],
    inputs: Sequence[Tensor],
    fcompute: Callable[[list[Buffer], list[Buffer]], Stmt | Expr],
    name: str = "extern",
    dtype: object = None,
    in_buffers: Buffer | Sequence[Buffer] | None = None,
    out_buffers: Buffer | Sequence[Buffer] | None = None,
    tag: str = "",
    attrs: Mapping[str, Any] | None = None,
) -> Tensor | list[Tensor]:
    """The tensor (or the list of tensors) that outside code computes.

    Parameters
    ----------
    shape : shape or list of shapes
        Of the output, or of each of several.
    inputs : sequence of Tensor
        The tensors that it reads, each whole.
    fcompute : callable
        `fcompute(ins, outs)` gets a buffer for each input and each output and returns a statement or a call; it has to write every
        element of outs.
    name : str, default "extern"
        Of the operation.
    dtype : str, sequence of str or None, default None
        Of the outputs, one or a list; by default that of the inputs, where they agree.
    in_buffers : Buffer, sequence of Buffer or None, default None
        Declared buffers (te.decl_buffer), where the outside code asks for strides or alignment.
    out_buffers : Buffer, sequence of Buffer or None, default None
        The same, for outputs.
    tag : str, default ""
        See Operation.
    attrs : dict or None, default None
        See Operation.

    Raises
    ------
    BadExtern (TW0140)
        The body is no statement, touches other buffers or leaves an output unwritten.
    BadExtent (TW0110)
        An extent is not an integer, or negative.
    UnknownDType (TW0101)
        There is no such dtype.
    """
    source = user_source()
    tensors = _inputs(name, inputs)
    shapes = _shapes(shape, name)
    dtypes = _dtypes(name, dtype, tensors, len(shapes))
    ins = _buffers(name, "in_buffers", in_buffers, [(t.name, t.shape, t.dtype) for t in tensors])
    # TVM's names of several outputs
    names = [name] if len(shapes) == 1 else [f"{name}.v{at}" for at in range(len(shapes))]
    outs = _buffers(name, "out_buffers", out_buffers, list(zip(names, shapes, dtypes, strict=True)))
    if not callable(fcompute):
        raise BadExtern(
            f"{name} has no function that makes its body",
            reason=f"got {type(cast(object, fcompute)).__name__}",
            called=source,
            fix="te.extern(shape, inputs, lambda ins, outs: ...)",
        )
    body = reading_only(_body(name, fcompute(list(ins), list(outs))), ins)
    _check_body(name, body, ins, outs)
    dims = tuple(declare_axes(output_shape, "ax") for output_shape in shapes)
    op = ExternOp(
        name=name,
        tag=tag or current_tag(),
        attrs=attrs or {},
        source=source,
        inputs=tensors,
        in_buffers=ins,
        out_buffers=outs,
        body=body,
        dims=dims,
    )
    return op.outputs[0] if len(shapes) == 1 else list(op.outputs)  # one tensor for one shape, a list for a list


def _bad(name: str, reason: str, fix: str) -> BadExtern:
    return BadExtern(f"cannot declare the extern {name}", reason=reason[:300], called=user_source(), fix=fix)


def _inputs(name: str, inputs: object) -> tuple[Tensor, ...]:
    given = to_list(inputs)
    wrong = next((tensor for tensor in given if not isinstance(tensor, Tensor)), None)
    if wrong is not None:
        raise _bad(
            name,
            f"an input is {wrong!r}, not a tensor",
            "pass the tensors that it reads: te.extern(shape, [A, B], ...)",
        )
    return tuple(tensor for tensor in given if isinstance(tensor, Tensor))


def _shapes(shape: Any, name: str) -> list[tuple[Expr, ...]]:
    """One shape, or a list of shapes."""
    several = is_sequence(shape) and bool(shape) and all(map(is_sequence, shape))  # an empty list is a shape of rank 0
    return [convert_shape(each, name) for each in (to_list(shape) if several else [shape])]


def _dtypes(name: str, dtype: Any, inputs: tuple[Tensor, ...], count: int) -> list[DType]:
    if dtype is None:
        known = {tensor.dtype for tensor in inputs}
        if len(known) != 1:  # the inputs have to agree, or the dtype is asked for
            had = ", ".join(f"{tensor.name} is {tensor.dtype}" for tensor in inputs) or "there are no inputs"
            raise _bad(name, f"its dtype is not given, and the inputs do not tell: {had}", 'dtype="float32"')
        return [known.pop()] * count
    given = to_list(dtype) if is_sequence(dtype) else [dtype] * count
    if len(given) != count:
        raise _bad(name, f"{len(given)} dtypes for {count} outputs", "give one dtype, or one for each output")
    return [scalar_dtype(element) for element in given]


def _buffers(name: str, what: str, given: Any, wanted: list[tuple[str, tuple[Expr, ...], DType]]) -> tuple[Buffer, ...]:
    """Declared buffers, checked, or compact ones."""
    if given is None:
        # compact, where nothing is asked of strides
        return tuple(decl_buffer(shape, dtype, label) for label, shape, dtype in wanted)
    declared = to_list(given)
    if len(declared) != len(wanted):
        raise _bad(name, f"{len(declared)} {what} for {len(wanted)} tensors", "declare a buffer for each")
    for buffer, (label, shape, dtype) in zip(declared, wanted, strict=True):
        if (
            not isinstance(buffer, Buffer)
            or buffer.dtype != dtype
            or buffer.ndim != len(shape)
            or not all(map(same_extent, buffer.shape, shape))
        ):
            raise _bad(
                name,
                f"the buffer of {label} is {buffer!r}, the tensor {dtype} of shape {shape_text(shape)}",
                "te.decl_buffer(T.shape, T.dtype, ...)",
            )
    return tuple(buffer for buffer in declared if isinstance(buffer, Buffer))


def _body(name: str, returned: object) -> Stmt:
    if isinstance(returned, Expr):
        return Evaluate(returned)
    if not isinstance(returned, Stmt):
        raise _bad(
            name,
            f"its function returned {returned!r}, neither a statement nor a call",
            "return te.call_packed(...), te.call_extern(...), or ib.get() of a tw.ir_builder()",
        )
    return returned


def _check_body(name: str, body: Stmt, ins: tuple[Buffer, ...], outs: tuple[Buffer, ...]) -> None:
    """It touches its own buffers alone, writes no input, and has no loose axis."""
    own: set[object] = {*ins, *outs, *(node.buffer for node in post_order(body) if isinstance(node, Allocate))}
    for node in post_order(body):
        buffer = getattr(node, "buffer", None)
        if isinstance(buffer, Buffer) and buffer not in own:
            raise _bad(
                name,
                f"its body uses the buffer {buffer.name}, none of those that the function was given",
                "use ins[...] and outs[...], and pass declared buffers by in_buffers and out_buffers",
            )
    overwritten = next((buffer for buffer in ins if buffer in written_buffers(body)), None)
    if overwritten is not None:
        raise _bad(
            name,
            f"its body writes {overwritten.name}, which it is given to read",
            f'{overwritten.name}.access_ptr("r")',
        )
    loose = next((var for var in free_vars(body) if isinstance(var, IterVar)), None)
    if loose is not None:
        raise _bad(
            name, f"its body uses the axis {loose.name}, of which there is no loop", "open the loop: ib.for_range(0, n)"
        )
    unwritten = next(
        # a pointer that is handed on may be written through
        (buffer for buffer in outs if buffer not in written_buffers(body) and not _reads_pointer(body, buffer)),
        None,
    )
    if unwritten is not None:
        raise _bad(name, f"its body does not write {unwritten.name}", "write outs[...], or pass it to what does")


def _reads_pointer(body: Stmt, buffer: Buffer) -> bool:
    """Return whether the body hands on the bare pointer of a buffer (`buffer.data`)."""
    return buffer.data is not None and any(isinstance(node, Var) and node is buffer.data for node in post_order(body))

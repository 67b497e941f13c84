"""matricize: a sum of products of two factors as a product of matrices, padded to whole tiles.

What the factors are is computed once, as matrices of which every row and column is of one side's axes, or of those that are summed
over; the product of the two is a matrix, which the tensor is then copied from.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import prod

from ...base import dataclass, replace, user_source
from ...base.arguments import is_sequence
from ...ir.expr import Cast, Expr, IterKind, IterVar, Mul, Node, ProducerLoad, Range
from ...ir.ops import cast, conjunction, const, floordiv, floormod, if_then_else
from ...ir.tf32 import unwrap_tf32
from ...ir.visit import post_order, rewrite, substitute
from ...te.factors import factors, strip_casts
from ...te.operation import ComputeOp, Operation
from ...te.shape import constant_extent
from ...te.tensor import Tensor
from ..errors import BadMatrix
from ..model.checks import outline
from ..model.foreign import AXES, FLAG, FLAGS, SIZES, TENSORS, either, require_one
from ..model.inlining import expand_inlined, find_inlined
from ..model.layout import add_root_axis, check_outputs, refuse_dangling_predicate, retire
from ..model.methods import SchedulePrimitives
from ..model.primitive import Attempt, Drawer, Try, primitive
from ..model.schedule import Schedule
from ..model.stage import Stage

__all__ = ["matricize"]


WIDER = "int16"
"""What bytes are converted to where they are widened."""


@dataclass(frozen=True)
class _Product:
    """A tensor as a product: what each side is, and the axes that become rows, columns and the sum; outer ones stay."""

    op: ComputeOp
    sides: tuple[Expr, Expr]
    outer: tuple[IterVar, ...]
    rows: tuple[IterVar, ...]
    columns: tuple[IterVar, ...]
    widened: bool = False
    """Whether what is stored is kept as WIDER."""

    @property
    def summed(self) -> tuple[IterVar, ...]:
        return self.op.reduce_axis


def _tries(stage: Stage) -> Iterator[Try]:
    sides = None if not stage.is_untouched() else _find_sides(stage)
    if sides is not None:
        rows, columns = sides
        yield (
            "in tiles of 16 x 8 x 16",
            lambda one: one.schedule.matricize(one.op.output(0), rows, columns, (16, 8, 16)),
        )


def _draw(drawer: Drawer) -> Attempt | None:
    stage = drawer.some_stage(lambda stage: stage.is_untouched() and _find_sides(stage) is not None)
    if stage is None:
        return None
    rows, columns = _find_sides(stage) or ([], [])
    padding = [drawer.pick([1, 4, 16, 3]) for _ in range(3)]
    turned, kinds = [drawer.chance(0.5), drawer.chance(0.5)], [False, True, *([WIDER] if _are_narrow(stage.op) else [])]
    converted = drawer.pick(kinds)
    return (
        f"matricize({stage.name}, {padding}, {turned}, {converted})",
        lambda: drawer.s.matricize(stage.op.output(0), rows, columns, padding, turned, converted),
    )


@primitive(
    SchedulePrimitives,
    "stages",
    tries=_tries,
    draw=_draw,
    weight=2,
    rare=True,
    foreign={
        "tensor": TENSORS,
        "rows": AXES,
        "columns": AXES,
        "padding": SIZES,
        "turned": FLAGS,
        "converted": either(FLAG, require_one(WIDER)),
    },
)
def matricize(
    schedule: Schedule,
    tensor: Tensor,
    rows: Sequence[IterVar],
    columns: Sequence[IterVar],
    padding: Sequence[int] = (1, 1, 1),
    turned: Sequence[bool] = (),
    converted: bool | str = False,
) -> list[Tensor]:
    """A sum of products of two factors as a product of matrices, padded with zeros to whole tiles.

        for a, b, j:                            A.matrix[i, k] = A[i // 7, k // 3, i % 7, k % 3] if i < 35 else 0
          for e, f:                             B.matrix[k, j] = B[k % 3, k // 3, j]
            C[a, b, j] +=                →      for i in 48, j, k:                # matricize(C, [a, b], [j], (16, 1, 1))
              A[a, e, b, f] * B[f, e, j]          C.matrix[i, j] += A.matrix[i, k] * B.matrix[k, j]
                                                C[a, b, j] = C.matrix[a * 7 + b, j]

    A factor that is an element, converted, rounded to TF32 or neither, has a matrix of such elements; any other one that reads a
    tensor, `A[i, k] * d[k]`, is computed once for each element of its matrix, before it is converted. Terms are added in the declared
    order of the reduce axes.

    Parameters
    ----------
    tensor : Tensor
        A sum over products, with axes of known extents and loops that are not scheduled yet; what is inlined into it stands in its
        factors.
    rows : sequence of IterVar
        Axes that the first factor alone depends on. Axes in neither list stay outer dimensions of all that depends on them.
    columns : sequence of IterVar
        Axes that the second factor alone depends on.
    padding : sequence of int, default (1, 1, 1)
        Rows, columns and terms become multiples of these.
    turned : sequence of bool, default ()
        Whether the matrix of rows is [k, i], and that of columns [j, k].
    converted : bool or str, default False
        Whether elements of a matrix are converted, once each, and not as they are stored; "int16": bytes are widened to that, and
        converted where they are multiplied.

    Returns
    -------
    list of Tensor
        The matrices: of rows, of columns, of the result.

    Raises
    ------
    BadMatrix (TW0231)
        It is no such sum, not with these rows and columns, or its loops are scheduled already.
    UnknownStage (TW0201)
        The schedule does not compute the tensor.
    """
    stage, _ = check_outputs(schedule, tensor, BadMatrix, "cannot matricize")
    if converted not in (False, True, WIDER):
        raise _bad(
            stage, f"its elements are to be converted to {converted}"[:200], 'converted=True, or "int16" for bytes'
        )
    product = _check_product(stage, rows, columns, converted is True)
    if converted == WIDER:
        if not _are_narrow(stage.op):
            raise _bad(stage, "what it multiplies is not bytes that are converted", "converted=True")
        product = replace(product, widened=True)
    turned = turned or (False, False)
    if len(padding) != 3 or any(isinstance(each, bool) or each < 1 for each in padding) or len(turned) != 2:
        raise _bad(
            stage,
            f"it is padded to {list(padding)} and turned {list(turned)}"[:200],
            "padding=(16, 8, 16), turned=(False, True)",
        )
    with schedule.compound(
        "matricize",
        tensor=tensor,
        rows=tuple(rows),
        columns=tuple(columns),
        padding=tuple(padding),
        turned=tuple(turned),
        converted=converted,
    ):
        sides = [
            _matrix(factor, product, side, (size, padding[2]), is_turned)
            for factor, side, size, is_turned in zip(
                product.sides, (product.rows, product.columns), padding[:2], (turned[0], not turned[1]), strict=True
            )
        ]
        result = _result(product, sides, padding)
        for made in (*sides, result):
            schedule.insert_stage(schedule.find_place(stage), made, stage)
        at = {axis: axis for axis in product.op.axis}
        index = [*product.outer, *(_flat(axes, at) for axes in (product.rows, product.columns))]
        copied = ComputeOp(
            name=product.op.name,
            tag=product.op.tag,
            attrs=product.op.attrs,
            source=product.op.source,
            axis=product.op.axis,
            body=(ProducerLoad(result.output(0), tuple(index)),),
        )
        retire(
            schedule, product.summed, f"was an axis of {stage.name} until matricize gave the sum to {result.name}{{at}}"
        )
        schedule.rewrite({}, anew={stage: copied})
    return [*(side.output(0) for side in sides), result.output(0)]


def _bad(stage: Stage, reason: str, fix: str, *axes: IterVar) -> BadMatrix:
    return BadMatrix(
        f"cannot matricize {stage.name}",
        reason=reason,
        declared=stage.op.source,
        called=user_source(),
        loops=outline(stage, axes),
        fix=fix,
    )


def _sides(op: ComputeOp, as_converted: bool = False) -> tuple[Expr, Expr] | None:
    """Return the elements of the two factors of a sum, where they are rounded to TF32, or converted and not wanted `as_converted`;
    any other factor itself, where it reads a tensor."""
    sides: list[Expr] = []
    for factor in factors(op) or ():
        value = unwrap_tf32(factor if as_converted else strip_casts(factor))
        if isinstance(value, ProducerLoad) and isinstance(value.producer, Tensor):
            sides.append(value)
        elif any(isinstance(node, ProducerLoad) for node in post_order(factor)):
            sides.append(factor if as_converted else strip_casts(factor))
    return (sides[0], sides[1]) if len(sides) == 2 else None


def _are_narrow(op: Operation) -> bool:
    """Return whether both factors are converted from elements whose values WIDER holds."""
    both = factors(op)
    return both is not None and all(
        isinstance(factor, Cast)
        and isinstance(strip_casts(factor), ProducerLoad)
        and str(strip_casts(factor).dtype) in ("int8", "uint8", WIDER)
        for factor in both
    )


def _collect_axes(side: Expr) -> set[IterVar]:
    return {node for node in post_order(side) if isinstance(node, IterVar)}


def _find_sides(stage: Stage) -> tuple[list[IterVar], list[IterVar]] | None:
    """The axes that each factor alone is read along; None where the operation is not a product."""
    op = stage.op.as_compute
    sides = None if op is None else _sides(op)
    if op is None or sides is None or any(not constant_extent(axis) for axis in (*op.axis, *op.reduce_axis)):
        return None
    left, right = map(_collect_axes, sides)
    if not (left | right).issuperset((*op.axis, *op.reduce_axis)):
        return None
    return [axis for axis in op.axis if axis in left - right], [axis for axis in op.axis if axis in right - left]


def _check_product(stage: Stage, rows: Sequence[IterVar], columns: Sequence[IterVar], converted: bool) -> _Product:
    if not is_sequence(rows) or not is_sequence(columns):
        raise _bad(stage, "its rows and its columns are lists of axes", "s[C].matricize([i], [j])")
    op = stage.op.as_compute
    if op is not None and op.num_outputs == 1 and find_inlined(stage):
        op = replace(op, body=(expand_inlined(stage),))
    sides = None if op is None else _sides(op, converted)
    if op is None or sides is None:
        raise _bad(
            stage, f"{stage.name} is not a sum of products of what two tensors say", "te.sum(A[i, k] * B[k, j], axis=k)"
        )
    if (
        stage.relations
        or stage.iter_var_attrs
        or stage.schedule.find_placed(stage)
        or stage.attach_type in ("inline", "inlined")
    ):
        raise _bad(stage, "its loops are scheduled already, or it is inlined", "call matricize first")
    refuse_dangling_predicate(stage, op.axis, BadMatrix, "cannot matricize")
    axes = (*op.axis, *op.reduce_axis)
    unknown = next((axis for axis in axes if not constant_extent(axis)), None)
    if unknown is not None:
        raise _bad(stage, f"the extent of {unknown.name} is not a number above 0", "give it a constant extent")
    if any(axis in _collect_axes(sides[1]) for axis in rows) or any(
        axis in _collect_axes(sides[0]) for axis in columns
    ):
        sides = sides[1], sides[0]
    left, right = map(_collect_axes, sides)
    for what, given, own, other in (("rows", rows, left, right), ("columns", columns, right, left)):
        wrong = next((axis for axis in given if axis not in op.axis or axis not in own or axis in other), None)
        if wrong is not None or len(set(given)) < len(given):
            about = given[0] if wrong is None else wrong
            raise _bad(
                stage,
                f"{about.name} is given for {what}, and is not an axis that one factor alone is read along, or is given "
                "twice",
                "rows that one of the factors is read along, and columns of the other",
                about,
            )
    outside = next((axis for axis in op.reduce_axis if axis not in left | right), None)
    if outside is not None:
        raise _bad(
            stage, f"neither factor is read along {outside.name}", "a sum over axes that what is read depends on"
        )
    outer = tuple(axis for axis in op.axis if axis not in rows and axis not in columns)
    return _Product(op, sides, outer, tuple(rows), tuple(columns))


def _size(axes: Sequence[IterVar]) -> int:
    return prod(constant_extent(axis) or 1 for axis in axes)


def _pad(axes: Sequence[IterVar], to: int) -> int:
    return -(-_size(axes) // to) * to


def _fresh(name: str, extent: int, like: Sequence[IterVar], kind: IterKind = "data") -> IterVar:
    dtype = like[0].dtype if like else const(0).dtype
    return IterVar(name, dtype, Range(const(0, dtype), const(extent, dtype)), kind)


def _split_number(axes: Sequence[IterVar], number: Expr) -> dict[IterVar, Expr]:
    """The values of axes that are one number together, the last moving fastest."""
    values: dict[IterVar, Expr] = {}
    step = 1
    for place, axis in reversed(list(enumerate(axes))):
        extent = constant_extent(axis) or 1
        digit = floordiv(number, const(step, number.dtype)) if step > 1 else number
        values[axis] = cast(floormod(digit, const(extent, number.dtype)) if place else digit, axis.dtype)
        step *= extent
    return values


def _flat(axes: Sequence[IterVar], values: Mapping[IterVar, Expr]) -> Expr:
    total: Expr | None = None
    for axis in axes:
        total = values[axis] if total is None else total * (constant_extent(axis) or 1) + values[axis]
    return const(0) if total is None else total


def _matrix(
    factor: Expr,
    product: _Product,
    side: Sequence[IterVar],
    sizes: tuple[int, int],
    terms_first: bool,
) -> ComputeOp:
    """Return one factor as a matrix, over the outer axes that it depends on, its own side and the terms."""
    read = _collect_axes(factor)
    outer = {
        axis: add_root_axis(axis, axis.dom, axis.name, "data")
        for axis in product.outer
        if axis in read and axis.dom is not None
    }
    number = _fresh("i" if side is product.rows else "j", _pad(side, sizes[0]), side)
    term = _fresh("k", _pad(product.summed, sizes[1]), product.summed)
    values: dict[IterVar, Expr] = {**outer, **_split_number(side, number), **_split_number(product.summed, term)}
    value: Expr = substitute(factor, {axis: each for axis, each in values.items() if axis in read})
    if product.widened:
        value = cast(value, WIDER)
    inside = [
        axis < const(_size(axes), axis.dtype)
        for axis, axes in ((number, side), (term, product.summed))
        if constant_extent(axis) != _size(axes)
    ]
    if inside:
        value = if_then_else(conjunction(*inside), value, const(0, value.dtype))
    element = strip_casts(factor)
    which = ".a" if side is product.rows else ".b"
    name = element.producer.name if isinstance(element, ProducerLoad) else product.op.name + which
    last = (term, number) if terms_first else (number, term)
    return ComputeOp(name=f"{name}.matrix", source=user_source(), axis=(*outer.values(), *last), body=(value,))


def _result(product: _Product, sides: Sequence[ComputeOp], padding: Sequence[int]) -> ComputeOp:
    """The product of the two matrices."""
    op, reduction = product.op, product.op.reduction
    assert reduction is not None
    outer = {axis: add_root_axis(axis, axis.dom, axis.name, "data") for axis in product.outer if axis.dom is not None}
    i = _fresh("i", _pad(product.rows, padding[0]), product.rows)
    j = _fresh("j", _pad(product.columns, padding[1]), product.columns)
    k = _fresh("k", _pad(product.summed, padding[2]), product.summed, "reduce")
    reads: dict[int, ProducerLoad] = {}
    for factor, side, number in zip(product.sides, sides, (i, j), strict=True):
        own = [outer[axis] for axis in product.outer if axis in _collect_axes(factor)]
        last = (number, k) if side.axis[-1].name == "k" else (k, number)
        reads[id(factor)] = ProducerLoad(side.output(0), (*own, *last))

    def read(node: Node) -> Node | None:
        return reads.get(id(node))

    value = rewrite(reduction.sources[0], read)
    assert isinstance(value, Mul)
    first = next(node for node in post_order(value.a) if isinstance(node, ProducerLoad))
    ordered = (
        value if first is reads[id(product.sides[0])] else Mul(value.b, value.a)
    )  # rows first, as instructions have them
    body = replace(reduction, sources=(ordered,), axes=(k,))
    return ComputeOp(name=f"{op.name}.matrix", source=user_source(), axis=(*outer.values(), i, j), body=(body,))

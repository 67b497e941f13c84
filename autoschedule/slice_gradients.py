"""Finding what te.gradient makes of a bilateral slice (topi/image/bilateral.py) within a graph of operations.

Gradients have no tags of their own: who an operation is follows from the parts of the slice that it reads, which have.
With the roles that it is scheduled by (autoschedule/cpu/bilateral_gradients.py):

    ones -> grad_affine, near -> grad_rows -> grad_around_0, _1 -> grad_around -> grad_grid
            grad_affine, rows -> grad_near -> grad_guide
                       affine -> grad_ones -> grad_image
                 affine, ones -> slice

The slice itself, where it is computed too, is one of them: it reads what its gradients read, and anybody may read it. Only
what has exactly this form is found: all of a gradient's operations, none of which anybody else reads. Each of a gradient's
own may have further axes before the others, as many as the head has dimensions before those of the result. Extents of 1
make other forms, which are operations like any others.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from ..te.operation import ComputeOp, Operation

__all__ = ["GRADIENTS", "gradients_of_slices", "roles_of"]

GRADIENTS = "bilateral_slice.gradients"
"""The tag that has the rule."""
_ANCHOR = "bilateral_slice"
_PREFIX = "bilateral_slice."
_SLICE = "slice"

_ROLES: tuple[tuple[str, frozenset[str], int, int], ...] = (
    ("grad_affine", frozenset({"ones"}), 4, 0),
    ("grad_rows", frozenset({"grad_affine", "near"}), 5, 2),
    ("grad_near", frozenset({"grad_affine", "rows"}), 3, 3),
    ("grad_guide", frozenset({"grad_near"}), 2, 1),
    ("grad_ones", frozenset({"affine"}), 3, 1),
    ("grad_image", frozenset({"grad_ones"}), 3, 0),
    ("grad_around_0", frozenset({"grad_rows"}), 5, 1),
    ("grad_around", frozenset({"grad_around_0", "grad_around_1"}), 5, 0),
    ("grad_grid", frozenset({"grad_around"}), 5, 0),
)
"""A role, the roles that it reads, and how many axes and reduced axes it has, beside the head's further ones."""

_RANKS = {name: rank for name, _, rank, _ in _ROLES} | {"grad_around_1": 5}

_PATHS = (
    frozenset({"grad_rows", "grad_around_0", "grad_around_1", "grad_around", "grad_grid", "grad_affine", "near", "ones"}),
    frozenset({"around", "rows", "grad_near", "grad_guide", "grad_affine", "ones"}),
    frozenset({"around", "rows", "near", "affine", "grad_ones", "grad_image"}),
    frozenset({"around", "rows", "near", "affine", "ones", _SLICE}),
)
"""What the gradients of the grid, the guide and the image consist of, and the slice."""
_LAST = frozenset({"grad_grid", "grad_guide", "grad_image"})
"""What others may read, as they may the slice."""


def gradients_of_slices(order: Sequence[Operation], outputs: Collection[Operation]) -> Iterator[tuple[ComputeOp, ...]]:
    """The operations of each slice's gradients, in their order. order: all operations, producers first."""
    roles = _all_roles(order)
    readers: dict[Operation, set[Operation]] = {op: set() for op in order}
    for op in order:
        for tensor in op.input_tensors:
            readers[tensor.op].add(op)
    for group in _connected(roles):
        have = frozenset(roles[op] for op in group)
        whole = frozenset[str]().union(*(path for path in _PATHS if path <= have))
        heads = {len(op.axis) - _RANKS[roles[op]] for op in group if roles[op] in _RANKS}
        alone = all(roles[op] in _LAST | {_SLICE} or op not in outputs and readers[op] <= set(group) for op in group)
        if have & _LAST and have == whole and len(have) == len(group) and len(heads) == 1 and alone:
            yield tuple(group)


def roles_of(found: Iterable[Operation]) -> Mapping[str, ComputeOp]:
    """The operations of one slice's gradients by their roles."""
    return {role: op for op, role in _all_roles(found).items()}


def _all_roles(order: Iterable[Operation]) -> dict[ComputeOp, str]:
    """The role of each operation that has one. Where several have the same, no gradient is found."""
    roles: dict[ComputeOp, str] = {}
    for op in order:
        if not isinstance(op, ComputeOp):
            continue
        role = _SLICE if op.tag == _ANCHOR else op.tag.removeprefix(_PREFIX) if op.tag.startswith(_PREFIX) else _role(op, roles)
        if role == "grad_around_0" and any(roles.get(other) == role and _reads_alike(op, other) for other in roles):
            role = "grad_around_1"
        if role:
            roles[op] = role
    return roles


def _role(op: ComputeOp, roles: Mapping[ComputeOp, str]) -> str:
    known = (roles.get(tensor.op) for tensor in op.input_tensors if isinstance(tensor.op, ComputeOp))
    given = frozenset(role for role in known if role is not None and role != _SLICE)  # a head may be made of the slice
    if op.tag:
        return ""
    return next((name for name, reads, axes, reduced in _ROLES
                 if given == reads and len(op.axis) >= axes and len(op.reduce_axis) == reduced), "")


def _reads_alike(op: ComputeOp, other: ComputeOp) -> bool:
    return [tensor.op for tensor in op.input_tensors] == [tensor.op for tensor in other.input_tensors]


def _connected(roles: Mapping[ComputeOp, str]) -> list[list[ComputeOp]]:
    """The operations that have roles, in their order, apart where none of a part reads any of another."""
    group: dict[ComputeOp, list[ComputeOp]] = {}
    for op in roles:
        merged = [op]
        for tensor in op.input_tensors:
            other = group.get(tensor.op) if isinstance(tensor.op, ComputeOp) else None
            if other is not None and other is not merged:
                merged = other + merged
                for each in merged:
                    group[each] = merged
        group.setdefault(op, merged)
    place = {op: at for at, op in enumerate(roles)}
    return [sorted(item, key=place.__getitem__) for item in {id(value): value for value in group.values()}.values()]

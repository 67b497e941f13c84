"""What scheduling and lowering ask of an operation, by its kind: a row each in `KINDS`, made in a file of its own.

Beside its row, a kind is a class of te (see te/operation.py) that says what its loops (`axis`, `reduce_axis`), the
dimensions of its outputs (`dimensions`), its inputs and its parts are.
"""

from __future__ import annotations

from ...te.operation import Operation
from .kind import OperationKind, tensor_of
from .kind_compute import COMPUTE
from .kind_extern import EXTERN
from .kind_hybrid import HYBRID
from .kind_scan import SCAN

__all__ = ["KINDS", "OperationKind", "kind_of", "tensor_of"]

KINDS: dict[str, OperationKind] = {
    "placeholder": OperationKind("a placeholder: the caller passes it"),
    "constant": OperationKind("a constant: its elements are known"),
    "compute": COMPUTE,
    "extern": EXTERN,
    "scan": SCAN,
    "hybrid": HYBRID,
}
"""By Operation.kind."""


def kind_of(op: Operation) -> OperationKind:
    """The row of an operation."""
    return KINDS[op.kind]

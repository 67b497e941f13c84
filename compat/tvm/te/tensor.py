"""tvm.te.tensor."""

from ....te import ComputeOp, ExternOp, Operation, PlaceholderOp, ScanOp, Tensor, TensorComputeOp, TensorSlice
from ....te.hybrid import HybridOp

__all__ = [
    "ComputeOp",
    "ExternOp",
    "HybridOp",
    "Operation",
    "PlaceholderOp",
    "ScanOp",
    "Tensor",
    "TensorComputeOp",
    "TensorSlice",
]

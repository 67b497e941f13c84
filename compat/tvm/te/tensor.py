"""tvm.te.tensor."""

from ....te import ComputeOp, Operation, PlaceholderOp, Tensor, TensorSlice

__all__ = ["ComputeOp", "Operation", "PlaceholderOp", "Tensor", "TensorSlice"]

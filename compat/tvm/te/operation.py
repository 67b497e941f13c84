"""tvm.te.operation."""

from ....te import compute, extern, placeholder, reduce_axis, scan, size_var, thread_axis, var

__all__ = ["compute", "extern", "placeholder", "reduce_axis", "scan", "size_var", "thread_axis", "var"]

"""Operators: functions from tensors to te.compute declarations, and the schedules that make them fast.

    from tilewright import te, topi

    A, B = te.placeholder((512, 256), name="A"), te.placeholder((256, 128), name="B")
    C = topi.nn.relu(topi.matmul(A, B))
    s = topi.schedule(C)                # or tw.build([A, B, C]), which asks for it
    print(s.as_python())                # the schedule as code, to take further

An operator declares what is computed and tags it; topi.schedule cuts any composition of operators into groups and
schedules each by the rule of its tag. Names are TVM's where TVM has them.
"""

from __future__ import annotations

from .lazy import check_on_use, lazily

_HOMES = {
    "batch_matmul": "matmul",
    "matmul": "matmul",
    "schedule": "..driver.schedule",
    "einsum": "contraction",
    "tensordot": "contraction",
    **dict.fromkeys(
        (
            "adv_index collapse_sum expand_like matrix_set_diag meshgrid ndarray_size reverse_sequence sequence_mask shape "
            "sliding_window strided_set trilu unravel_index"
        ).split(),
        "arrangement",
    ),
    **dict.fromkeys("argsort invert_permutation scatter_elements scatter_nd sort topk".split(), "order"),
    "cumprod": "cumulative",
    "cumsum": "cumulative",
    "det": "linear_algebra",
    "dft": "fourier",
    "stft": "fourier",
    "fixed_point_multiply": "fixed_point",
    **dict.fromkeys("argwhere sparse_reshape sparse_to_dense".split(), "coordinates"),
    "searchsorted": "sets",
    "unique": "sets",
    **dict.fromkeys(
        (
            "abs acos acosh add arange asin asinh atan atan2 atanh bitwise_and bitwise_not bitwise_or bitwise_xor broadcast_to cast "
            "ceil ceil_log2 clip cos cosh divide elemwise_sum equal erf exp exp10 exp2 expm1 floor floor_divide floor_mod full "
            "full_like greater greater_equal hypot identity isfinite isinf isnan left_shift less less_equal log log10 log1p log2 "
            "log_add_exp logical_and logical_not logical_or logical_xor maximum minimum mod multiply nearbyint negative not_equal "
            "ones ones_like power reinterpret right_shift round rsqrt sigmoid sign sin sinh sqrt square subtract tan tanh trunc "
            "trunc_divide trunc_mod where zeros zeros_like"
        ).split(),
        "elementwise",
    ),
    **dict.fromkeys(("all any argmax argmin max mean min prod sum").split(), "reduction"),
    **dict.fromkeys(
        (
            "concatenate expand_dims flip gather gather_nd layout_transform one_hot pad repeat reshape split squeeze stack "
            "strided_slice take tile transpose"
        ).split(),
        "transform",
    ),
}
"""Where each name lives: the module below this package, or beside it."""

__getattr__, __dir__ = lazily(__name__, _HOMES, ("nn", "image", "random", "vision"), check_on_use("topi"))

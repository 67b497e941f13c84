"""torch's layers: convolutions, pooling, normalisations, attention, resizing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..conversion import Refused, few, product, scaled_extent
from ..types import Extent
from .call import Call, aten
from .movement import repeat_slices

__all__ = ["add_batch", "many", "remove_batch"]


def many(values: Sequence[int], count: int) -> tuple[int, ...]:
    """A number for each dimension: one stands for all of them."""
    return tuple(values) * count if len(values) == 1 else tuple(values)


def add_batch(c: Call, value: str, rank: int) -> tuple[str, bool]:
    """A value with a batch, and whether it had none."""
    single = c.rank(value) == rank + 1
    return (c.reshape(value, (1, *c.type(value).shape)) if single else value), single


def remove_batch(c: Call, value: str, single: bool) -> str:
    """A value without the batch that it was given."""
    return c.reshape(value, c.type(value).shape[1:]) if single else value


@aten(
    "conv1d.default",
    "conv2d.default",
    "conv3d.default",
    "conv1d.padding",
    "conv2d.padding",
    "conv3d.padding",
    "convolution.default",
    "conv_transpose1d.default",
    "conv_transpose2d.input",
    "conv_transpose3d.input",
)
def _convert_conv(c: Call) -> str:
    weight, bias = c.tensor("weight"), c.optional("bias")
    rank = c.rank(weight) - 2
    value, single = add_batch(c, c.tensor("input"), rank)
    stride, dilation = (many(c.integers(name, (1,)), rank) for name in ("stride", "dilation"))
    groups, transposed = c.integer("groups", 1), bool(c.known("transposed", False)) or "transpose" in c.target
    more = many(c.integers("output_padding", (0,)), rank)
    if c.target.endswith("padding"):
        padding = _named_padding(c, c.argument("padding", "valid"), weight, dilation)
    else:
        each = many(c.integers("padding", (0,)), rank)
        padding = (*each, *each)
    value = c.fix_extent(value, 1, c.extent(weight, 0) if transposed else c.extent(weight, 1) * groups)
    operands = [value, weight, *([bias] if bias else [])]
    if transposed:
        result = c.emit(
            "conv_transpose",
            *operands,
            stride=stride,
            padding=padding,
            dilation=dilation,
            groups=groups,
            output_padding=more,
        )
    else:
        result = c.emit("conv", *operands, stride=stride, padding=padding, dilation=dilation, groups=groups)
    return remove_batch(c, result, single)


def _named_padding(c: Call, name: object, weight: str, dilation: Sequence[int]) -> tuple[int, ...]:
    if name == "valid":
        return (0,) * 2 * len(dilation)
    totals = [(taps - 1) * far for taps, far in zip(c.static(weight, slice(2, None)), dilation, strict=True)]
    low = [total // 2 for total in totals]
    return (*low, *(total - before for total, before in zip(totals, low, strict=True)))


def _pool_rank(c: Call) -> int:
    return int(c.target.partition("_pool")[2][0])


@aten(
    "max_pool1d.default",
    "max_pool2d.default",
    "max_pool3d.default",
    "avg_pool1d.default",
    "avg_pool2d.default",
    "avg_pool3d.default",
)
def _convert_pool(c: Call) -> str:
    rank = _pool_rank(c)
    value, single = add_batch(c, c.tensor(), rank)
    kernel = many(c.integers("kernel_size"), rank)
    stride = many(c.integers("stride"), rank) or kernel
    each = many(c.integers("padding", (0,)), rank)
    ceil = bool(c.known("ceil_mode", False))
    if ceil and not all(isinstance(size, int) for size in c.type(value).shape[-rank:]):
        if c.argument("divisor_override", None) is not None:
            raise Refused("its divisor_override is given")
        how: dict[str, Any] = {"kernel": kernel, "stride": stride, "padding": (*each, *each)}
        if c.target.startswith("max"):
            how["dilation"] = many(c.integers("dilation", (1,)), rank)
        else:
            how["count_padding"] = bool(c.known("count_include_pad", True))
        return remove_batch(c, c.open_pool(c.target[:3] + "_pool", value, how), single)
    if c.target.startswith("max"):
        return remove_batch(
            c,
            c.emit(
                "max_pool",
                value,
                kernel=kernel,
                stride=stride,
                padding=(*each, *each),
                ceil_mode=ceil,
                dilation=many(c.integers("dilation", (1,)), rank),
            ),
            single,
        )
    if c.argument("divisor_override", None) is not None:
        raise Refused("its divisor_override is given")
    return remove_batch(
        c,
        c.emit(
            "avg_pool",
            value,
            kernel=kernel,
            stride=stride,
            padding=(*each, *each),
            ceil_mode=ceil,
            count_padding=bool(c.known("count_include_pad", True)),
        ),
        single,
    )


@aten(
    "adaptive_avg_pool1d.default",
    "adaptive_avg_pool2d.default",
    "adaptive_avg_pool3d.default",
    "_adaptive_avg_pool2d.default",
    "_adaptive_avg_pool3d.default",
)
def _convert_adaptive_pool(c: Call) -> str:
    """The whole of each dimension, or windows."""
    rank = _pool_rank(c)
    value, wanted = c.tensor(), many(c.integers("output_size"), rank)
    first = c.rank(value) - rank
    if all(each == 1 for each in wanted):
        return c.emit("mean", value, axes=tuple(range(first, first + rank)), keepdims=True)
    return cover_windows(c, value, wanted, "avg")


def cover_windows(c: Call, value: str, wanted: Sequence[int], kind: str) -> str:
    """So many windows along each of the last dimensions, from i * size // count to the ceiling of (i + 1) * size / count: those of a
    pooling where they are alike."""
    rank = len(wanted)
    whole, single = add_batch(c, value, rank)
    kernel = tuple(
        size // each
        for size, each in zip(c.type(value).shape[-rank:], wanted, strict=True)
        if isinstance(size, int) and size % each == 0
    )
    if len(kernel) == rank:
        return remove_batch(c, c.emit(f"{kind}_pool", whole, kernel=kernel, stride=kernel), single)
    return remove_batch(c, c.emit("adaptive_pool", whole, size=tuple(wanted), kind=kind), single)


def _channels(c: Call, name: str, count: int, like: str, value: float) -> str:
    """A weight of each channel, or a constant in its place."""
    return c.optional(name) or c.constant(np.full(few(count), value), like)


@aten(
    "batch_norm.default",
    "_native_batch_norm_legit_no_training.default",
    "native_batch_norm.default",
    "instance_norm.default",
)
def _batch_norm(c: Call) -> str | Sequence[str]:
    value = c.tensor("input")
    count = c.type(value).shape[1]
    if not isinstance(count, int):
        known = next((c.tensor(name) for name in ("weight", "running_mean") if c.gives(name)), None)
        if known is None:
            raise Refused("its number of channels is not known")
        count = c.extent(known, 0)
        value = c.fix_extent(value, 1, count)
    weight, bias = _channels(c, "weight", count, value, 1), _channels(c, "bias", count, value, 0)
    epsilon = float(c.known("eps", 1e-5))
    if c.target.startswith("instance"):
        if not c.known("use_input_stats", True):
            raise Refused("it uses running means")
        c.argument("running_mean", None)
        c.argument("running_var", None)
        return c.emit("instance_norm", value, weight, bias, epsilon=epsilon)
    if c.known("training", False) or not c.gives("running_mean") or not c.gives("running_var"):
        if c.gives("running_mean") or "native" in c.target:
            raise Refused("it is in training: export the module after module.eval()")
        return _normalize_batch(c, value, count)[0]
    result = c.emit(
        "batch_norm", value, weight, bias, c.tensor("running_mean"), c.tensor("running_var"), epsilon=epsilon
    )
    return [result, "", ""] if "native" in c.target else result


def _normalize_batch(c: Call, value: str, count: int) -> tuple[str, str, str, str]:
    """Normalize by the mean and the variance of the batch; return also the mean, the variance and the inverse of its root."""
    rank, kind = c.rank(value), c.type(value).dtype
    axes, column = (0, *range(2, rank)), [count if at == 1 else 1 for at in range(rank)]
    mean = c.emit("mean", value, axes=axes, keepdims=True)
    centered = c.emit("subtract", value, mean)
    spread = c.emit("mean", c.emit("square", centered), axes=axes, keepdims=True)
    inverse = c.emit("rsqrt", c.emit("add", spread, c.scalar(float(c.known("eps", 1e-5)), kind)))
    result = c.emit("multiply", centered, inverse)
    for name, operator in (("weight", "multiply"), ("bias", "add")):
        if c.gives(name):
            result = c.emit(operator, result, c.reshape(c.tensor(name), column))
        c.argument(name, None)
    return result, mean, spread, inverse


@aten("_native_batch_norm_legit_functional.default")
def _convert_trained_batch_norm(c: Call) -> Sequence[str]:
    """Normalized by the mean and the variance of the batch; these, and the running ones that follow."""
    value = c.tensor("input")
    count, rank = c.extent(value, 1), c.rank(value)
    if not c.known("training", True):
        raise Refused("it is not in training")
    result, mean, spread, inverse = _normalize_batch(c, value, count)
    size = product([c.type(value).shape[axis] for axis in (0, *range(2, rank))])
    share, kind = float(c.known("momentum", 0.1)), c.type(value).dtype
    number, one = c.cast(c.size_value(size), kind), c.scalar(1, kind)
    unbiased = c.emit("divide", c.emit("multiply", spread, number), c.emit("subtract", number, one))
    following = [
        c.emit(
            "add",
            c.emit("multiply", c.tensor(name), c.scalar(1 - share, c.type(c.tensor(name)).dtype)),
            c.emit("multiply", c.reshape(now, (count,)), c.scalar(share, kind)),
        )
        for name, now in (("running_mean", mean), ("running_var", unbiased))
    ]
    return [result, c.reshape(mean, (count,)), c.reshape(inverse, (count,)), *following]


@aten("layer_norm.default", "native_layer_norm.default")
def _convert_layer_norm(c: Call) -> str | Sequence[str]:
    value, axis = c.tensor("input"), c.rank(c.tensor("input")) - len(c.extents("normalized_shape"))
    weight, bias = c.optional("weight"), c.optional("bias")
    result = c.emit("layer_norm", value, weight, bias, axis=axis, epsilon=float(c.known("eps", 1e-5)))
    c.argument("cudnn_enable", None)
    if "native" not in c.target:
        return result
    axes = tuple(range(axis, c.rank(value)))
    mean = c.emit("mean", value, axes=axes, keepdims=True)
    spread = c.emit("mean", c.emit("square", c.emit("subtract", value, mean)), axes=axes, keepdims=True)
    epsilon = c.scalar(float(c.known("eps", 1e-5)), c.dtype)
    return [result, mean, c.emit("rsqrt", c.emit("add", spread, epsilon))]


@aten("rms_norm.default")
def _convert_rms_norm(c: Call) -> str:
    value, axis = c.tensor("input"), c.rank(c.tensor("input")) - len(c.extents("normalized_shape"))
    epsilon = c.known("eps", None)
    if epsilon is None:  # that of the floats in which torch computes
        epsilon = np.finfo("float64" if c.dtype == "float64" else "float32").eps
    return c.emit("rms_norm", value, c.optional("weight"), axis=axis, epsilon=float(epsilon))


@aten("group_norm.default")
def _group_norm(c: Call) -> str:
    value, groups = c.tensor("input"), c.integer("num_groups")
    count = c.type(value).shape[1]
    weights = (
        [_channels(c, "weight", count, value, 1), _channels(c, "bias", count, value, 0)]
        if isinstance(count, int)
        else [c.optional("weight"), c.optional("bias")]
    )
    return c.emit("group_norm", value, *weights, groups=groups, epsilon=float(c.known("eps", 1e-5)))


@aten("dropout.default", "feature_dropout.default", "alpha_dropout.default", "native_dropout.default")
def _convert_dropout(c: Call) -> str:
    if c.known("train", False) and c.known("p", 0.5):
        raise Refused("it is in training: export the module after module.eval()")
    c.argument("p", None)
    return c.tensor("input" if c.gives("input") else "self")


@aten("scaled_dot_product_attention.default")
def _convert_attention(c: Call) -> str:
    q, k, v = (c.tensor(name) for name in ("query", "key", "value"))
    if c.known("dropout_p", 0.0):
        raise Refused("it is in training: export the module after module.eval()")
    grouped = bool(c.known("enable_gqa", False)) and c.rank(q) > 2
    several = _sharing(c, q, k) if grouped else 1
    scale, causal = c.known("scale", None), bool(c.known("is_causal", False))
    mask = c.optional("attn_mask")
    if c.rank(q) == c.rank(k) == c.rank(v) == 2 and (not mask or c.rank(mask) <= 2):
        q, k, v = (c.reshape(each, (1, *c.type(each).shape)) for each in (q, k, v))
        y = c.emit(
            "attention", q, k, v, *_convert_masks(c, mask), scale=None if scale is None else float(scale), causal=causal
        )
        return c.reshape(y, c.type(y).shape[1:])
    lead = c.type(q).shape[: -3 if grouped else -2]
    alike = all(c.type(each).shape[: len(lead)] == lead and c.rank(each) == c.rank(q) for each in (k, v)) and c.rank(
        q
    ) in (3, 4)
    if alike and (not mask or c.rank(mask) <= c.rank(q)):
        return c.emit(
            "attention", q, k, v, *_convert_masks(c, mask), scale=None if scale is None else float(scale), causal=causal
        )
    if causal:
        raise Refused("it is causal, over batches that broadcast or with a mask")
    if several > 1:
        k, v = (repeat_slices(c, each, c.rank(each) - 3, several) for each in (k, v))
    return _masked_attention(c, (q, k, v), mask, scale)


def _sharing(c: Call, q: str, k: str) -> int:
    """Return the number of heads of queries that share one of keys."""
    heads, groups = (c.type(each).shape[-3] for each in (q, k))
    if not isinstance(heads, int) or not isinstance(groups, int):
        raise Refused("its number of heads is not known")
    return heads // max(groups, 1)


def _convert_masks(c: Call, mask: str) -> list[str]:
    """The mask as attention takes it, if there is one."""
    return [mask if c.type(mask).dtype in ("bool", c.dtype) else c.cast(mask, c.dtype)] if mask else []


def _masked_attention(c: Call, parts: tuple[str, str, str], mask: str, scale: float | None) -> str:
    """Attention of batches that broadcast, as products; a query that sees no key gives 0."""
    q, k, v = parts
    depth = c.type(q).shape[-1]
    if not isinstance(depth, int):
        raise Refused("the depth of its heads is not known")
    factor = 1 / depth**0.5 if scale is None else float(scale)
    scores = c.emit("multiply", c.emit("matmul", q, k, transpose_b=True), c.scalar(factor, c.dtype))
    if not mask:
        return c.emit("matmul", c.emit("softmax", scores, axis=-1), v)
    least = c.scalar(-np.inf, c.dtype)
    scores = c.emit("where", mask, scores, least) if c.type(mask).dtype == "bool" else c.emit("add", scores, mask)
    seen = c.emit("greater", c.emit("max", scores, axes=(c.rank(scores) - 1,), keepdims=True), least)
    return c.emit("matmul", c.emit("where", seen, c.emit("softmax", scores, axis=-1), c.scalar(0, c.dtype)), v)


@aten("_weight_norm.default")
def _convert_weight_norm(c: Call) -> str:
    """A direction times a length for each index of one dimension."""
    v, axis = c.tensor("v"), c.axis("dim", 0, of="v")
    rest = tuple(at for at in range(c.rank(v)) if at != axis)
    length = c.emit("sqrt", c.emit("sum", c.emit("square", v), axes=rest, keepdims=True))
    return c.emit("multiply", v, c.emit("divide", c.tensor("g"), length))


_MODES = {"nearest": "nearest", "linear": "linear", "bilinear": "linear", "bicubic": "cubic", "trilinear": "linear"}


@aten(
    *(
        f"upsample_{kind}.{overload}"
        for kind in ("nearest1d", "nearest2d", "nearest3d", "linear1d", "bilinear2d", "bicubic2d", "trilinear3d")
        for overload in ("vec", "default")
    ),
    *(
        f"_upsample_{kind}.{overload}"
        for kind in ("nearest_exact1d", "nearest_exact2d", "nearest_exact3d", "bilinear2d_aa", "bicubic2d_aa")
        for overload in ("vec", "default")
    ),
)
def _resize(c: Call) -> str:
    value = c.tensor("input" if c.gives("input") else "self")
    shape = c.type(value).shape
    kind = c.target.partition(".")[0].removeprefix("_").removeprefix("upsample_")
    rank = len(shape) - 2
    factors = [float(each) for each in c.argument("scale_factors", None) or ()]
    names = {1: ("scales",), 2: ("scales_h", "scales_w"), 3: ("scales_d", "scales_h", "scales_w")}[rank]
    own = [c.known(name, None) for name in names]
    wanted = c.extents("output_size") or [
        scaled_extent(size, factor) for size, factor in zip(shape[2:], factors, strict=True)
    ]
    given = factors or [0.0 if each is None else float(each) for each in own]
    quotients = [
        size / before if isinstance(size, int) and isinstance(before, int) else 1.0 if size == before else 0.0
        for size, before in zip(wanted, shape[2:], strict=True)
    ]
    scales = [factor or quotient for factor, quotient in zip(given, quotients, strict=True)]
    aligned, exact = bool(c.known("align_corners", False)), "exact" in kind
    mode = _MODES[kind.removesuffix("_aa").partition("_exact")[0].rstrip("123d")]
    smooth = kind.endswith(
        "_aa"
    )  # corners are aligned by the scale alone, and elements outside of the tensor are left out
    where = "asymmetric" if mode == "nearest" and not exact else "half_pixel"
    if aligned and smooth:
        scales = [_corner_scale(*pair) for pair in zip(shape[2:], wanted, strict=True)]
    elif aligned:
        where, scales = "align_corners", quotients

    def resized(x: str, axes: range) -> str:
        return c.emit(
            "resize",
            x,
            sizes=(
                *c.type(x).shape[:2],
                *(wanted[at] if at in axes else c.type(x).shape[2 + at] for at in range(rank)),
            ),
            scales=(1.0, 1.0, *(scales[at] if at in axes else 1.0 for at in range(rank))),
            mode=mode,
            coordinates=where,
            rounding="round_prefer_ceil" if exact else "floor",
            antialias=smooth,
            exclude_outside=smooth,
            cubic=-0.5 if smooth else -0.75,
        )

    is_byte = mode != "nearest" and c.dtype == "uint8"
    if not is_byte:
        return resized(value, range(rank))
    for at in reversed(range(rank)):  # torch rounds to bytes after each dimension, the last one first
        value = _round_to_bytes(c, resized(c.cast(value, "float32"), range(at, at + 1)))
    return value


def _round_to_bytes(c: Call, value: str) -> str:
    zero, half, most = (c.scalar(each, "float32") for each in (0, 0.5, 255))
    whole = c.emit("floor", c.emit("add", value, half))
    return c.cast(c.emit("minimum", c.emit("maximum", whole, zero), most), "uint8")


def _corner_scale(before: Extent, after: Extent) -> float:
    """Return the number of places for each, the first and the last on each other; very many where there is one place."""
    if not isinstance(before, int) or not isinstance(after, int):
        raise Refused("the distance between its positions depends on sizes")
    return (after - 1) / (before - 1) if after > 1 and before > 1 else 1e30

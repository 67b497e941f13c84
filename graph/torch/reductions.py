"""torch's reductions and products."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..conversion import Refused, product
from ..types import Extent
from .call import VIEWS, Call, Row, aten
from .movement import cut
from .numbers import extent

__all__: list[str] = []


def _drop_reduced(c: Call, value: str, axes: Sequence[int], keep: bool) -> str:
    """A value whose reduced axes were kept, as the call asks for it."""
    return value if keep else c.reshape(value, [one for at, one in enumerate(c.type(value).shape) if at not in axes])


def _keep(c: Call) -> bool:
    return bool(c.known("keepdim", False))


def _reduction_row(ours: str) -> Row:
    def row(c: Call) -> str:
        axes, keep = c.axes(), _keep(c)
        kind = {"all": "bool", "any": "bool"}.get(ours, c.dtype)
        value = c.cast(c.tensor(), kind)
        if kind == "bool" and ours in ("max", "min"):
            return c.emit("any" if ours == "max" else "all", value, axes=axes, keepdims=keep)
        return c.emit(ours, value, axes=axes, keepdims=keep) if axes else value

    return row


for _name, _ours in {
    "sum": "sum",
    "mean": "mean",
    "prod": "prod",
    "amax": "max",
    "amin": "min",
    "all": "all",
    "any": "any",
    "max": "max",
    "min": "min",
}.items():
    _overloads = ("default", "dim_IntList", "dim", "dims", "dim_int") if _name not in ("max", "min") else ("default",)
    aten(*(f"{_name}.{overload}" for overload in _overloads))(_reduction_row(_ours))


@aten("max.dim", "min.dim")
def _convert_extreme(c: Call) -> Sequence[str]:
    axis, keep = c.axis(), _keep(c)
    kind = c.target.partition(".")[0]
    return [
        c.emit(kind, c.tensor(), axes=(axis,), keepdims=keep),
        c.emit(f"arg{kind}", c.tensor(), axis=axis, keepdims=keep),
    ]


@aten("argmax.default", "argmin.default")
def _place(c: Call) -> str:
    kind, keep = c.target.partition(".")[0], _keep(c)
    if c.argument("dim", None) is not None:
        return c.emit(kind, c.tensor(), axis=c.axis(), keepdims=keep)
    if keep:
        raise Refused("it keeps the dimensions of all axes")
    return c.emit(kind, c.reshape(c.tensor(), (product(c.type(c.tensor()).shape),)), axis=0)


@aten("cumsum.default", "cumprod.default")
def _convert_running(c: Call) -> str:
    return c.emit(c.target.partition(".")[0], c.cast(c.tensor(), c.dtype), axis=c.axis())


@aten("logsumexp.default")
def _convert_logsumexp(c: Call) -> str:
    axes, keep, value = c.axes(), _keep(c), c.cast(c.tensor(), c.dtype)
    top = c.emit("max", value, axes=axes, keepdims=True)
    top = c.emit("where", c.emit("isfinite", top), top, c.scalar(0, c.dtype))
    total = c.emit("sum", c.emit("exp", c.emit("subtract", value, top)), axes=axes, keepdims=True)
    return _drop_reduced(c, c.emit("add", c.emit("log", total), top), axes, keep)


def _variance(c: Call) -> tuple[str, str, tuple[int, ...]]:
    """The variance and the mean, dimensions kept, and the axes."""
    axes, value = c.axes(), c.tensor()
    if c.gives("unbiased"):
        correction: Any = int(c.known("unbiased"))
    else:
        correction = c.known("correction", 1)
    shape = c.type(value).shape
    count = product([shape[axis] for axis in axes])
    mean = c.emit("mean", value, axes=axes, keepdims=True)
    total = c.emit("sum", c.emit("square", c.emit("subtract", value, mean)), axes=axes, keepdims=True)
    rest = c.emit(
        "subtract", c.cast(c.size_value(count), c.dtype), c.scalar(1 if correction is None else correction, c.dtype)
    )
    return c.emit("divide", total, c.emit("maximum", rest, c.scalar(0, c.dtype))), mean, axes


@aten(
    "var.default",
    "var.dim",
    "var.correction",
    "std.default",
    "std.dim",
    "std.correction",
    "var_mean.correction",
    "var_mean.dim",
    "var_mean.default",
    "std_mean.correction",
)
def _convert_var(c: Call) -> str | Sequence[str]:
    variance, mean, axes = _variance(c)
    spread = c.root(variance) if c.target.startswith("std") else variance
    results = [_drop_reduced(c, one, axes, _keep(c)) for one in (spread, mean)]
    return results if "_mean" in c.target else results[0]


@aten("linalg_vector_norm.default", "norm.ScalarOpt_dim", "norm.Scalar", "frobenius_norm.dim")
def _convert_norm(c: Call) -> str:
    power = c.known("ord" if c.gives("ord") else "p", 2)
    axes, keep, value = c.axes(), _keep(c), c.cast(c.tensor(), c.dtype)
    return c.norm(value, 2 if power is None else float(power), axes, keep)


@aten("softmax.int", "log_softmax.int", "_softmax.default", "_log_softmax.default")
def _convert_softmax(c: Call) -> str:
    c.argument("half_to_float", None)
    return c.emit("log_softmax" if "log" in c.target else "softmax", c.cast(c.tensor(), c.dtype), axis=c.axis())


@aten("bilinear.default")
def _convert_bilinear(c: Call) -> str:
    """x w y for each matrix of w."""
    x, y, weight = c.tensor("input1"), c.tensor("input2"), c.tensor("weight")
    outs, left, right = c.static(weight)
    columns = c.reshape(c.emit("transpose", weight, axes=(1, 0, 2)), (left, outs * right))
    shape = c.type(x).shape[:-1]
    half = c.reshape(c.emit("matmul", x, columns), (*shape, outs, right))
    result = c.reshape(c.emit("matmul", half, c.reshape(y, (*shape, right, 1))), (*shape, outs))
    return c.emit("add", result, c.tensor("bias")) if c.gives("bias") else result


@aten("matmul.default")
def _convert_matmul(c: Call) -> str:
    return c.emit("matmul", c.tensor(), c.tensor("other"))


@aten("mm.default", "bmm.default")
def _convert_mm(c: Call) -> str:
    return c.emit("matmul", c.tensor(), c.tensor("mat2"))


@aten("dot.default", "mv.default")
def _convert_mv(c: Call) -> str:
    return c.emit("matmul", c.tensor(), c.tensor("vec" if c.gives("vec") else "tensor"))


@aten("outer.default")
def _convert_outer(c: Call) -> str:
    rows: Extent = c.type(c.tensor()).shape[0]
    return c.emit("multiply", c.reshape(c.tensor(), (rows, 1)), c.tensor("vec2"))


@aten("addmm.default", "baddbmm.default", "addmv.default")
def _convert_addmm(c: Call) -> str:
    names = {"addmm": ("mat1", "mat2"), "baddbmm": ("batch1", "batch2"), "addmv": ("mat", "vec")}[
        c.target.partition(".")[0]
    ]
    first = c.emit("matmul", c.tensor(names[0]), c.tensor(names[1]))
    alpha, beta = c.known("alpha", 1), c.known("beta", 1)
    first = first if alpha == 1 else c.emit("multiply", first, c.scalar(alpha, c.dtype))
    if beta == 0:
        return first
    return c.emit("add", first, c.tensor() if beta == 1 else c.emit("multiply", c.tensor(), c.scalar(beta, c.dtype)))


@aten("linear.default")
def _convert_linear(c: Call) -> str:
    value, weight, bias = c.tensor("input"), c.tensor("weight"), c.optional("bias")
    shape = c.type(value).shape
    if len(shape) == 1:
        value = c.reshape(value, (1, shape[0]))
    result = c.emit("matmul", value, weight, transpose_b=True)
    result = c.emit("add", result, bias) if bias else result
    return c.reshape(result, c.type(result).shape[1:]) if len(shape) == 1 else result


@aten("einsum.default")
def _convert_einsum(c: Call) -> str:
    return c.emit("einsum", *c.tensors(), equation=str(c.known("equation")).replace(" ", ""))


@aten("cosine_similarity.default")
def _convert_cosine(c: Call) -> str:
    one, other = c.tensor("x1"), c.tensor("x2")
    products, least = c.emit("multiply", one, other), c.scalar(float(c.known("eps", 1e-8)) ** 2, c.dtype)
    shape = c.type(products).shape
    axis = c.axis("dim", 1, rank=len(shape))
    total = c.emit("sum", products, axes=(axis,))
    squares = [c.emit("square", c.emit("broadcast_to", x, shape=shape)) for x in (one, other)]
    sizes = [c.emit("maximum", c.emit("sum", x, axes=(axis,)), least) for x in squares]
    return c.emit("divide", total, c.emit("sqrt", c.emit("multiply", *sizes)))


@aten("topk.default")
def _convert_topk(c: Call) -> Sequence[str]:
    axis, count, largest = c.axis("dim", -1), c.argument("k"), bool(c.known("largest", True))
    if isinstance(count, str):  # the first ones of all
        whole = c.emit_all("topk", c.tensor(), k=-1, axis=axis, largest=largest)
        return [cut(c, one, axis, 0, count) for one in whole]
    return c.emit_all("topk", c.tensor(), k=c.integer("k"), axis=axis, largest=largest)


@aten("sort.default", "sort.stable", "argsort.default", "argsort.stable")
def _sort(c: Call) -> str | Sequence[str]:
    axis = c.axis("dim", -1)
    extent, descending = c.type(c.tensor()).shape[axis], bool(c.known("descending", False))
    results = c.emit_all("topk", c.tensor(), k=extent if isinstance(extent, int) else -1, axis=axis, largest=descending)
    return results[1] if c.target.startswith("arg") else results


@aten("tril.default", "triu.default")
def _convert_trilu(c: Call) -> str:
    upper, k = c.target.startswith("triu"), c.argument("diagonal", 0)
    if not isinstance(k, str):
        return c.emit("trilu", c.tensor(), k=c.integer("diagonal", 0), upper=upper)
    rows, columns = c.type(c.tensor()).shape[-2:]
    numbers = [c.emit("arange", shape=(count,)) for count in (columns, rows)]
    far = c.emit("subtract", c.cast(numbers[0], "int64"), c.reshape(c.cast(numbers[1], "int64"), (rows, 1)))
    kept = c.emit("greater_equal" if upper else "less_equal", far, c.size_value(k))
    return c.emit("where", kept, c.tensor(), c.scalar(0, c.dtype))


VIEWS["unfold.default"] = None


@aten("unfold.default")
def _unfold(c: Call) -> str:
    """Windows along an axis, as a last axis."""
    axis, size, step = c.axis("dimension"), c.integer("size"), c.integer("step")
    length = c.type(c.tensor()).shape[axis]
    if size < 1 or step < 1 or isinstance(length, int) and size > length:
        raise Refused("it has no window")
    steps = (length - size) // step * step if isinstance(length, int) else f"(({length}) - {size}) // {step} * {step}"
    ends = [steps + at + 1 if isinstance(steps, int) else extent(f"{steps} + {at + 1}") for at in range(size)]
    taps = [cut(c, c.tensor(), axis, at, end, step) for at, end in enumerate(ends)]
    return c.emit("stack", *taps, axis=c.rank(c.tensor()))

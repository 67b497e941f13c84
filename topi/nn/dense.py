"""Dense layers: a product with weights, which may be packed once for all calls.

y = topi.nn.dense(x, w, bias)               # y[i, j] = sum over k of x[i, k] * w[j, k], + bias[j]

y = topi.nn.dense(x, te.constant(weights))  # packed while building; the kernel has them with it

packed = topi.nn.prepack_dense(weights)     # a numpy array in, one out: once, when a model is loaded
p = te.placeholder(packed.shape)            # from then on an argument of the kernel, or of its exported library
y = topi.nn.packed_dense(x, p, out_features, bias)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, overload

import numpy

from ... import te
from ...base.errors import user_source
from ...codegen.machine import find_machine, register_tiles
from ...codegen.target import Target
from ...ir import DType, Expr, IntImm
from ...ir.arith.analyzer import Analyzer
from ...ir.ops import index_ceildiv
from ...te.shape import integer_expr
from ...te.tensor import Tensor, tensor_text
from ..checks import BadOperand, weights
from ..matmul import check_depth, check_matrices, convert_elements, product, result_dtype, separate, sum_dtype

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["dense", "packed_dense", "prepack_dense"]


def dense(
    x: Tensor,
    w: Tensor,
    bias: Tensor | None = None,
    out_dtype: str | None = None,
    allow_tf32: bool = False,
) -> Tensor:
    """x times the transpose of w, plus bias. Error bounds are those of topi.matmul.

    Parameters
    ----------
    x : Tensor
        (n, k).
    w : Tensor
        (out, k).
    bias : Tensor or None, default None
        (out,), or None.
    out_dtype : str or None, default None
        In which products are taken and added up, as for topi.matmul.
    allow_tf32 : bool, default False
        Whether factors of float32 are rounded to TF32, as for topi.matmul.

    Returns
    -------
    Tensor
        (n, out).

    Raises
    ------
    BadOperand (TW0181)
        An operand that is not a tensor, or of another shape or dtype.
    """
    usage = "topi.nn.dense(x, w, bias): (n, k), (out, k) and (out,)"
    check_matrices("topi.nn.dense", x, w, 2, usage)
    check_depth("topi.nn.dense", x, w, x.shape[1], w.shape[1], usage)
    kind, sums = result_dtype(x, w, out_dtype), sum_dtype(result_dtype(x, w), out_dtype)
    w = separate(x, w)  # a product of a matrix with itself reads it twice
    k = te.reduce_axis((0, x.shape[1]), name="k")
    y: Tensor = te.compute(
        (x.shape[0], w.shape[0]),
        lambda i, j: te.sum(product(x[i, k], w[j, k], sums, allow_tf32), axis=k),
        name="dense",
        tag="dense",
    )
    return _add_bias(y, bias, kind, usage)


@overload
def prepack_dense(w: Tensor, target: str | Target = "llvm") -> Tensor: ...
@overload
def prepack_dense(w: NDArray[Any], target: str | Target = "llvm") -> NDArray[Any]: ...


def prepack_dense(w: Tensor | NDArray[Any], target: str | Target = "llvm") -> Tensor | NDArray[Any]:
    """Weights (out, k) as packed_dense takes them: (panels, k, width), the last panel filled up with zeros.

    w: a numpy array, which is packed at once, or a tensor, for a kernel that packs. width: that of the register tile of
    `target`. Raises BadOperand (TW0181) for anything but two dimensions.
    """
    weights(w, "topi.nn.prepack_dense", 2)
    machine = find_machine(Target.parse(target))  # packed for the tile that the target's kernels use
    if isinstance(w, Tensor):
        width = register_tiles(machine, w.dtype.bits)[0].columns  # the width depends on the element's size
        outs, depth = w.shape
        packed: Tensor = te.compute(
            (index_ceildiv(outs, width), depth, width),
            lambda panel, k, lane: te.if_then_else(
                # the last panel may be short
                panel * width + lane < outs,
                w[panel * width + lane, k],
                te.const(0, w.dtype),
            ),
            name=f"{w.name}.packed",
            tag="injective",
        )
        return packed
    width = register_tiles(machine, 8 * w.dtype.itemsize)[0].columns
    outs, depth = w.shape
    panels = -(-outs // width)
    filled: NDArray[Any] = numpy.zeros((panels * width, depth), w.dtype)
    filled[:outs] = w
    # k before the lanes of a panel, as a kernel reads them
    return numpy.ascontiguousarray(filled.reshape(panels, width, depth).transpose(0, 2, 1))


def packed_dense(
    x: Tensor,
    packed: Tensor,
    out_features: int | Expr,
    bias: Tensor | None = None,
    out_dtype: str | None = None,
) -> Tensor:
    """dense(x, w, bias) from the weights that prepack_dense made of w.

    Parameters
    ----------
    x : Tensor
        (n, k).
    packed : Tensor
        (panels, k, width), width being a number and panels enough for out_features.
    out_features : int or expression
        How many rows w has.
    bias : Tensor or None, default None
        (out_features,), or None.
    out_dtype : str or None, default None
        In which products are taken and added up, as for topi.matmul.

    Returns
    -------
    Tensor
        (n, out_features).

    Raises
    ------
    BadOperand (TW0181)
        An operand that is not a tensor, or of another shape or dtype.
    """
    usage = (
        "topi.nn.packed_dense(x, packed, out_features, bias): (n, k), (panels, k, width), a number and (out_features,)"
    )
    outs = integer_expr(out_features, "out_features")
    check_matrices("topi.nn.packed_dense", x, x, 2, usage)
    if packed.ndim != 3 or not isinstance(packed.shape[2], IntImm):
        raise BadOperand(
            f"topi.nn.packed_dense cannot take {tensor_text(packed)} as packed weights",
            reason="they have three dimensions, the last of them a number",
            declared=packed.source,
            called=user_source(),
            fix=usage,
        )
    check_depth("topi.nn.packed_dense", x, packed, x.shape[1], packed.shape[1], usage)
    width = packed.shape[2]
    panels = packed.shape[0]
    if not Analyzer().can_prove(outs <= panels * width):  # proved, as both may hold symbols
        raise BadOperand(
            f"topi.nn.packed_dense finds no {outs} features in {tensor_text(packed)}",
            reason=f"{panels} panels hold {width} each",
            declared=packed.source,
            called=user_source(),
            fix=usage,
        )
    kind, sums = result_dtype(x, packed, out_dtype), sum_dtype(result_dtype(x, packed), out_dtype)
    k = te.reduce_axis((0, x.shape[1]), name="k")
    y: Tensor = te.compute(
        (x.shape[0], outs),
        lambda i, j: te.sum(product(x[i, k], packed[j // width, k, j % width], sums), axis=k),
        name="packed_dense",
        tag="packed_dense",
    )
    return _add_bias(y, bias, kind, usage)


def _add_bias(y: Tensor, bias: Tensor | None, kind: DType, usage: str) -> Tensor:
    """The sums plus a bias, in `kind`."""
    if bias is None:
        return convert_elements(y, kind)
    if bias.ndim != 1:
        raise BadOperand(
            f"{y.name} cannot add {tensor_text(bias)}",
            reason="a bias has one dimension",
            declared=bias.source,
            called=user_source(),
            fix=usage,
        )
    check_depth(y.name, y, bias, y.shape[1], bias.shape[0], usage)
    out: Tensor = te.compute(
        y.shape,
        lambda i, j: (y[i, j] + bias[j].astype(y.dtype)).astype(kind),  # the bias is added in the type of the sums
        name=f"{y.name}.biased",
        tag="broadcast",
    )
    return out

"""What the drawn declarations compute: the bits where the order of sums is kept, and how far the default choice is from them."""

from __future__ import annotations

import hashlib
import zlib
from typing import Any

import numpy as np
import tilewright as tw
from numpy.typing import NDArray
from tilewright.ir.expr import Var

from .choices import declarations

__all__ = ["computed", "declarations", "draw_argument", "result_facts"]

TARGET = "llvm -mcpu=haswell -uncalibrated"
_SIZE = 7

computed = [name for name in declarations if name.startswith("drawn/")]


def result_facts(name: str) -> dict[str, str]:
    """Of a declaration: the SHA-256 of its results' bits under exact=True, and the largest relative error of the default
    choice against them, to one digit; the code of a refusal in their place."""
    try:
        exact = _results(name, exact=True)
    except tw.TilewrightError as error:
        return {"exact": f"refused: {error.code}"}
    bits = hashlib.sha256(b"".join(np.ascontiguousarray(_one_nan(array)).tobytes() for array in exact)).hexdigest()
    try:
        chosen = _results(name, exact=False)
    except tw.TilewrightError as error:
        return {"exact": bits, "error": f"refused: {error.code}"}
    return {"exact": bits, "error": f"{max(map(_error, exact, chosen), default=0.0):.0e}"}


def _results(name: str, exact: bool) -> list[NDArray[Any]]:
    ops, args = declarations[name]()
    random = np.random.default_rng(zlib.crc32(name.encode()))
    outputs = {tensor for op in ops for tensor in op.outputs}
    least = min((extent for each in args for extent in _shape(each)), default=1)
    given = [draw_argument(random, each, least) for each in args]
    tw.build(args, target=TARGET, exact=exact)(*given)
    return [array for each, array in zip(args, given, strict=True) if each in outputs]


def _shape(tensor: Any) -> tuple[int, ...]:
    """Extents with a value for every symbol."""
    return () if isinstance(tensor, Var) else tuple(eval(str(extent), {}, _Sizes()) for extent in tensor.shape)


def draw_argument(random: np.random.Generator, tensor: Any, least: int) -> NDArray[Any] | int:
    """Draw whole numbers below the least extent, since they may be indices; fractions where the dtype has them, so that orders of sums
    differ."""
    if isinstance(tensor, Var):
        return _SIZE
    shape = _shape(tensor)
    dtype = tw.empty((), str(tensor.dtype)).numpy().dtype
    return (
        random.uniform(0, 4, shape) if dtype.kind in "fV" else random.integers(0, max(min(least, 5), 1), shape)
    ).astype(dtype)


class _Sizes(dict[str, int]):
    """The value of every symbol."""

    def __missing__(self, name: str) -> int:
        return _SIZE


def _one_nan(array: NDArray[Any]) -> NDArray[Any]:
    """The array with every NaN replaced by one: their bits are nobody's promise."""
    wide = array.astype("float64") if array.dtype.kind in "fV" else array
    return np.where(np.isnan(wide), np.nan, wide) if wide.dtype.kind == "f" else wide


def _error(exact: NDArray[Any], chosen: NDArray[Any]) -> float:
    """The largest difference of elements, in parts of the largest finite magnitude; infinity where one alone is finite."""
    a, b = exact.astype("float64"), chosen.astype("float64")
    same = (a == b) | (np.isnan(a) & np.isnan(b))
    if same.all():
        return 0.0
    if not (np.isfinite(a) & np.isfinite(b))[~same].all():
        return float("inf")
    largest = np.abs(a[np.isfinite(a)]).max()
    return float(np.abs(a - b)[~same].max() / max(float(largest), 1e-30))

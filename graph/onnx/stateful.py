"""ONNX's layers that keep a state from one call to the next: linear attention, and causal convolutions."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..conversion import Conversion, Refused
from ..subgraphs import InnerScope, emit_loop
from ..types import Extent
from .context import Context, converts

__all__: list[str] = []


@converts("CausalConvWithState")
def _convert_causal_conv(c: Context) -> Sequence[str]:
    """Each channel by taps of its own, which see what is before alone. The state: as many elements as they look back."""
    batch, channels, length = c.type(0).shape
    taps = c.extent(1, 2)
    past = c[3] if c.has(3) else c.emit("broadcast_to", c.constant(0, 0), shape=(batch, channels, taps - 1))
    if c.type(past).shape[2] != taps - 1:
        raise Refused(f"its state {c.type(past)} is not what {taps} taps look back at")
    whole = c.emit("concat", past, c[0], axis=2) if taps > 1 else c[0]
    y = c.emit("conv", whole, c[1], *([c[2]] if c.has(2) else []), groups=c.extent(0, 1))
    kind = c.attribute("activation", "none")
    if kind in ("silu", "swish"):
        y = (
            c.cast(c.emit("silu", c.cast(y, "float32")), c.type(0).dtype)
            if c.type(0).dtype != "float64"
            else c.emit("silu", y)
        )
    elif kind != "none":
        raise Refused(f"its activation {kind!r} is not known")
    end = taps - 1 + length if isinstance(length, int) else f"({length}) + {taps - 1}"
    return [y, c.emit("slice", whole, begin=(length,), end=(end,), step=(1,), axes=(2,))][: c.outputs]


@converts("LinearAttention")
def _convert_linear_attention(c: Context) -> Sequence[str]:
    """A state, keys times values, that each position adds to, after it was damped where that is asked for, and that queries read.
    Groups of heads of the queries share a state."""
    c.attribute("chunk_size")  # says how to compute it, and nothing of what it is
    heads, shared = int(c.attribute("q_num_heads")), int(c.attribute("kv_num_heads"))
    rule = c.attribute("update_rule", "gated_delta")
    if rule not in ("linear", "gated", "delta", "gated_delta") or not 0 < shared <= heads or heads % shared:
        raise Refused(f"its rule is {rule!r}, with {heads} heads and {shared} states")
    if c.has(4) != ("gated" in rule) or c.has(5) != ("delta" in rule):
        raise Refused(f"its inputs are not those of the rule {rule!r}")
    batch, length = c.type(0).shape[:2]
    deep, wide = c.extent(0, 2) // heads, c.extent(2, 2) // shared
    group = heads // shared
    steps = {
        "q": _steps(c, 0, (shared, group, deep)),
        "k": _steps(c, 1, (shared, 1, deep)),
        "v": _steps(c, 2, (shared, 1, wide)),
    }
    for at, name in ((4, "decay"), (5, "beta")):
        if c.has(at):
            many = c.extent(at, 2)
            own = shared if many != 1 or at == 4 else 1
            steps[name] = _steps(c, at, (own, many // own, 1))
    first = (
        c.cast(c[3], "float32")
        if c.has(3)
        else c.emit("broadcast_to", c.constant(np.float32(0)), shape=(batch, shared, deep, wide))
    )
    scale = float(c.attribute("scale", 0.0)) or 1 / np.sqrt(max(deep, 1))
    state, rows = _positions(c, steps, first, scale, length)
    y = c.reshape(c.emit("transpose", rows, axes=(1, 0, 2, 3, 4)), (batch, length, heads * wide))
    return [c.cast(y, c.type(0).dtype), c.cast(state, c.type(3 if c.has(3) else 0).dtype)][: c.outputs]


def _steps(c: Context, at: int, parts: tuple[int, int, int]) -> str:
    """An input as (position, batch, *parts) in float32."""
    batch, length = c.type(at).shape[:2]
    turned = c.emit("transpose", c.cast(c[at], "float32"), axes=(1, 0, 2))
    return c.reshape(turned, (length, batch, *parts))


def _positions(c: Context, steps: dict[str, str], first: str, scale: float, length: Extent) -> Sequence[str]:
    """The state behind all positions, and what each of them reads."""
    inner = InnerScope(c.scope, "positions")
    b = Conversion(inner, [], c.source)
    position = inner.graph.input("position", (), "int64")
    kind = c.type(first)
    state = inner.graph.input("state", kind.shape, kind.dtype)
    here = {name: b.emit("take", inner.taken(value), position, axis=0) for name, value in steps.items()}
    if "decay" in here:
        state = b.emit("multiply", state, b.emit("exp", here["decay"]))
    added = here["v"]
    if "beta" in here:
        added = b.emit("multiply", here["beta"], b.emit("subtract", added, b.emit("matmul", here["k"], state)))
    state = b.emit("add", state, b.emit("multiply", b.emit("transpose", here["k"], axes=(0, 1, 3, 2)), added))
    read = b.emit("multiply", b.emit("matmul", here["q"], state), b.constant(np.float32(scale)))
    return emit_loop(c.scope, inner, "", "", [first], [state, read], length, c.source)

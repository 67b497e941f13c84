"""Attention, and the layers of small numbers that stand around it in a language model.

Weights of 4 and 8 bits come from memory in a model of many layers: each side has several copies of a layer and takes them
in turn, so that no cache holds what is read.
"""

from __future__ import annotations

from itertools import cycle
from typing import Any

import numpy as np
import tilewright as tw
from tilewright import te, topi

from .cases import Arrays, Builder, Case, Inputs, Runner, align, draw_integers, empty, floats, kernel, scheduled
from .peers import ort_peer, torch_peer
from .peers.onnx_model import Node

LAST_CACHE = 160 << 20
"""Bytes of weights that no cache keeps until it is their turn again."""
GROUP = 32


# Attention


def attention(heads: int, queries: int, keys: int, depth: int, causal: bool = False) -> Case:
    shapes = (heads, queries, depth), (heads, keys, depth), (heads, keys, depth)

    def in_torch(torch: Any, *qkv: Any) -> Any:
        return torch.nn.functional.scaled_dot_product_attention(*(x[None] for x in qkv), is_causal=causal)[0]

    seen = 0.5 if causal else 1.0
    return Case(
        group="attention",
        name=f"{heads}x{queries}x{depth}{f' of {keys}' if keys != queries else ''}{' causal' if causal else ''}",
        inputs=floats(*shapes),
        outputs=[(shapes[0], "float32")],
        ours=scheduled(lambda q, k, v: topi.nn.attention(q, k, v, causal=causal), *shapes),
        peers={"torch": torch_peer.call(in_torch), "onnxruntime": _many_heads(heads, causal)},
        flops=4 * heads * queries * keys * depth * seen,
        bytes=4.0 * sum(map(np.prod, shapes)) + 4.0 * np.prod(shapes[0]),
        ceiling="fma",
        tolerance=(1e-4, 1e-3),
    )


def _many_heads(heads: int, causal: bool) -> Builder:
    """onnxruntime's fused operator, on arrays in the layout that it prefers: (1, length, heads * depth)."""

    def builder(inputs: Arrays, _: Arrays) -> Runner:
        joined = [align(x.transpose(1, 0, 2).reshape(1, x.shape[1], -1)) for x in inputs]
        out = empty(joined[0].shape, "float32")
        node = Node(
            "MultiHeadAttention",
            ["x0", "x1", "x2"],
            domain="com.microsoft",
            attributes={"num_heads": heads, "unidirectional": int(causal)},
        )
        run = ort_peer.call([node])(joined, [out])
        result = out.reshape(out.shape[1], heads, -1).transpose(1, 0, 2)

        def once(_kept: Any = joined) -> np.ndarray:  # the session has their addresses alone
            run()
            return result

        return once

    return builder


# Weights of 4 and 8 bits


def weight_only(batch: int, n: int, k: int, bits: int) -> Case:
    def inputs(rng: np.random.Generator) -> Arrays:
        weights = rng.standard_normal((n, k), np.float32)
        return [*floats((batch, k))(rng), *map(align, topi.nn.quantize_groups(weights, bits))]

    size = n * k * bits / 8 + n * k / GROUP * 2
    return Case(
        group="weight only",
        name=f"int{bits} {batch}x{n}x{k}",
        inputs=inputs,
        outputs=[((batch, n), "float32")],
        ours=_rotate_copies(_weight_only(n, bits), size),
        peers={"onnxruntime": _rotate_copies(_n_bits(n, k, bits), size)},
        flops=2 * batch * n * k,
        bytes=size + 4 * batch * (n + k),
        ceiling="read",
        tolerance=(0.06 * k**0.5, 0.02),
    )


def _weight_only(n: int, bits: int) -> Builder:
    def builder(inputs: Arrays, outputs: Arrays) -> Runner:
        x, p, s = (
            te.placeholder(array.shape, str(array.dtype), name) for name, array in zip("xps", inputs, strict=True)
        )
        y = topi.nn.weight_only_dense(x, p, s, n, bits)
        return kernel(lambda: tw.build(topi.schedule(y), [x, p, s, y], name="weight_only"))(inputs, outputs)

    return builder


def _n_bits(n: int, k: int, bits: int) -> Builder:
    """onnxruntime's operator for such weights, which rounds x to 8 bits as ours does. Its scales are float32."""

    def builder(inputs: Arrays, outputs: Arrays) -> Runner:
        x, packed, scales = inputs
        quads = packed if bits == 8 else np.concatenate([packed & 15, packed >> 4], axis=2)
        levels = quads.transpose(0, 3, 1, 2, 4).reshape(-1, k // GROUP, GROUP)[:n]
        blob = levels if bits == 8 else levels[..., ::2] | levels[..., 1::2] << 4
        by = scales.astype(np.float32).transpose(0, 2, 1).reshape(-1, k // GROUP)[:n]
        node = Node(
            "MatMulNBits",
            ["x0", "w", "by"],
            domain="com.microsoft",
            attributes={"K": k, "N": n, "bits": bits, "block_size": GROUP, "accuracy_level": 4},
        )
        extra = {"w": np.ascontiguousarray(blob), "by": np.ascontiguousarray(by).reshape(-1)}
        return ort_peer.call([node], extra=extra)([x], outputs)

    return builder


def _rotate_copies(one: Builder, size: float) -> Builder:
    """Copies of a builder's work, as many as no cache holds, a different one each time."""

    def builder(inputs: Arrays, outputs: Arrays) -> Runner:
        first = one(inputs, outputs)
        copies = [
            first,
            *(one([inputs[0], *map(align, inputs[1:])], outputs) for _ in range(int(LAST_CACHE // size))),
        ]
        turns = cycle(copies)
        return lambda: next(turns)()

    return builder


# Bytes and bfloat16


def dense_int8(m: int, n: int, k: int) -> Case:
    def build(inputs: Arrays, outputs: Arrays) -> Runner:
        packed, sums = topi.nn.prepack_int8(inputs[1])
        x, p = te.placeholder((m, k), "uint8", "x"), te.placeholder(packed.shape, "int8", "p")
        s = te.placeholder(sums.shape, "int32", "s")
        y = topi.nn.packed_dense_int8(x, p, s)
        built = tw.build(topi.schedule(y), [x, p, s, y], name="dense_int8")
        return lambda: built(inputs[0], packed, sums, *outputs)

    def inputs(rng: np.random.Generator) -> Arrays:
        return [*draw_integers(0, 256, np.uint8, (m, k))(rng), *draw_integers(-128, 128, np.int8, (n, k))(rng)]

    turned = Node("Transpose", ["x1"], ["w"], {"perm": [1, 0]})  # of a constant: done when the model is loaded
    peer = ort_peer.call([turned, Node("MatMulInteger", ["x0", "w"])], constants=[1])
    return _small("dense int8", m, n, k, inputs, "int32", build, {"onnxruntime": peer}, 1)


def dense_bf16(m: int, n: int, k: int) -> Case:
    import ml_dtypes

    def build(inputs: Arrays, outputs: Arrays) -> Runner:
        packed = topi.nn.prepack_bf16(inputs[1])
        x, p = te.placeholder((m, k), "bfloat16", "x"), te.placeholder(packed.shape, "bfloat16", "p")
        y = topi.nn.packed_dense_bf16(x, p, n)
        built = tw.build(topi.schedule(y), [x, p, y], name="dense_bf16")
        return lambda: built(inputs[0], packed, *outputs)

    return _small(
        "dense bf16",
        m,
        n,
        k,
        floats((m, k), (n, k), dtype=ml_dtypes.bfloat16),
        "float32",
        build,
        {"torch": torch_peer.call(lambda torch, x, w: torch.nn.functional.linear(x, w).float())},
        2,
    )


def _small(
    group: str,
    m: int,
    n: int,
    k: int,
    inputs: Inputs,
    result: str,
    ours: Builder,
    peers: dict[str, Builder],
    width: int,
) -> Case:
    return Case(
        group=group,
        name=f"{m}x{n}x{k}",
        inputs=inputs,
        outputs=[((m, n), result)],
        ours=ours,
        peers=peers,
        flops=2 * m * n * k,
        bytes=width * (m * k + n * k) + 4 * m * n,
        ceiling="fma",
        tolerance=(0, 0) if width == 1 else (0.02 * k**0.5, 0.01),
    )


CASES = [
    attention(12, 512, 512, 64),
    attention(16, 2048, 2048, 64, causal=True),
    attention(8, 128, 1000, 80),
    attention(16, 1, 2048, 128),
    weight_only(1, 11008, 4096, 4),
    weight_only(4, 11008, 4096, 4),
    weight_only(1, 11008, 4096, 8),
    dense_int8(512, 512, 512),
    dense_int8(1024, 1024, 1024),
    dense_int8(37, 512, 4096),
    dense_bf16(512, 512, 512),
    dense_bf16(1024, 1024, 1024),
]

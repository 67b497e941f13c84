"""Texts mean what CUDA C means: another emulator, which was written from that alone, computes the same."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import drawn
import gpu_programs
import numpy as np
import tilewright as tw
from plain_cuda import compiled
from tilewright import te, topi
from tilewright.runtime.array import numpy_dtype

TARGET = "cuda -arch=sm_80"


def tensor(*shape: int, dtype: str = "float32", name: str = "A") -> Any:
    return te.placeholder(shape, dtype, name=name)


def attention(causal: bool) -> list[Any]:
    inputs = [tensor(2, 33, 8, name="Q"), tensor(2, 40, 8, name="K"), tensor(2, 40, 12, name="V")]
    return [*inputs, topi.nn.attention(*inputs, causal=causal)]


def product(rows: int, columns: int, terms: int, dtype: str) -> list[Any]:
    A, B = tensor(rows, terms, dtype=dtype), tensor(terms, columns, dtype=dtype, name="B")
    return [A, B, topi.matmul(A, B, out_dtype="int32" if dtype == "int8" else "float32")]


def one(operator: Callable[..., Any], *inputs: Any, **said: Any) -> list[Any]:
    return [*inputs, operator(*inputs, **said)]


BY_RULES: dict[str, Callable[[], list[Any]]] = {
    "attention": lambda: attention(False),
    "causal attention": lambda: attention(True),
    "product": lambda: product(65, 72, 33, "float32"),
    "product of float16": lambda: product(64, 72, 40, "float16"),
    "product of bytes": lambda: product(33, 48, 65, "int8"),
    "long sums of few products": lambda: product(4, 8, 2048, "float32"),
    "softmax": lambda: one(topi.nn.softmax, tensor(5, 300)),
    "softmax of columns": lambda: one(topi.nn.softmax, tensor(40, 7), axis=0),
    "layer norm": lambda: one(topi.nn.layer_norm, tensor(6, 129)),
    "sum": lambda: one(topi.sum, tensor(3, 5000), axis=1),
    "sums of columns": lambda: one(topi.sum, tensor(700, 6), axis=0),
    "argmax": lambda: one(topi.argmax, tensor(4, 333), axis=1),
    "convolution": lambda: one(
        topi.nn.conv2d, tensor(1, 8, 13, 13), tensor(16, 8, 3, 3, name="W"), stride=1, padding=1
    ),
    "depthwise": lambda: one(
        topi.nn.depthwise_conv2d, tensor(1, 5, 17, 17), tensor(5, 1, 3, 3, name="W"), stride=1, padding=1
    ),
    "pool": lambda: one(topi.nn.max_pool2d, tensor(1, 4, 17, 15), kernel=3, stride=2, padding=1),
    "transpose": lambda: one(topi.transpose, tensor(45, 70)),
    "sort": lambda: one(topi.sort, tensor(3, 65)),
    "sums so far": lambda: one(topi.cumsum, tensor(7, 200, dtype="int32"), axis=1),
    "gelu of float16": lambda: one(topi.nn.gelu, tensor(515, dtype="float16")),
    "taken": lambda: one(topi.take, tensor(20, 9), tensor(13, dtype="int32", name="I"), axis=0),
}
TOLERANCE = 2e-3


def test_another_emulator_computes_the_same_from_the_text_and_the_launches(tmp_path: Path) -> None:
    chosen = drawn.part(BY_RULES, 9)
    kernels = []
    for name in chosen:
        args = BY_RULES[name]()
        kernels.append(
            (
                args,
                tw.build(tw.autoschedule.schedule([args[-1]], TARGET), args, target=TARGET),
                tw.build(te.create_schedule(args[-1].op), args, target="llvm"),
            )
        )
    by_hand = {
        name: make() for name, make in gpu_programs.PROGRAMS.items() if name in drawn.part(gpu_programs.PROGRAMS, 9)
    }
    built = [tw.build(program.schedule, program.args, target=TARGET) for program in by_hand.values()]
    library = compiled([*(kernel for _, kernel, _ in kernels), *built], tmp_path)
    rng = np.random.default_rng(0)
    for number, (name, (args, _, plain)) in enumerate(zip(chosen, kernels, strict=True)):
        arrays = [values(each, rng) for each in args[:-1]]
        found, expected = (
            np.full([int(extent) for extent in args[-1].shape], 77, numpy_dtype(args[-1].dtype)) for _ in range(2)
        )
        library.run(number, [*arrays, found])
        plain(*arrays, expected)
        np.testing.assert_allclose(found, expected, rtol=TOLERANCE, atol=TOLERANCE, err_msg=name)
    for number, (name, program) in enumerate(by_hand.items(), len(chosen)):
        arrays, found = program.inputs(), program.output()
        library.run(number, [*arrays, found])
        np.testing.assert_allclose(found, program.reference(*arrays), rtol=TOLERANCE, atol=TOLERANCE, err_msg=name)


def values(of: Any, rng: np.random.Generator) -> np.ndarray:
    shape = [int(extent) for extent in of.shape]
    if "float" in of.dtype:
        return rng.standard_normal(shape).astype(numpy_dtype(of.dtype))
    return rng.integers(0, 20, shape).astype(str(of.dtype))

"""Softmax and norms by their rules: errors against float64 within what the operators promise, at every kind of row."""

from __future__ import annotations

import re
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import tilewright as tw
from tilewright import te, topi
from tilewright.compat.tvm.topi.testing import l2_normalize_python
from tilewright.tools.fuzz.references import layer_norm as layer_norm_of
from tilewright.tools.fuzz.references import local_response
from tilewright.topi.nn.softmax import BLOCK, LONG
from tilewright.topi.row import find_reference

EPS = 2.0**-24
ZNVER4 = "llvm -mtriple=x86_64-unknown-linux-gnu -mcpu=znver4"


def run(output: te.Tensor, *pairs: tuple[te.Tensor, np.ndarray], shape: tuple[int, ...] | None = None) -> np.ndarray:
    """What the scheduled operator gives for these inputs, in an array that begins as NaN."""
    kernel = tw.build(topi.schedule(output), [*(tensor for tensor, _ in pairs), output])
    kind = ml_dtypes.bfloat16 if output.dtype == "bfloat16" else str(output.dtype)
    got = np.full(shape or [int(str(extent)) for extent in output.shape], np.nan, kind)
    kernel(*(array for _, array in pairs), got)
    return got


def normal(shape: tuple[int, ...], dtype: Any = "float32", scale: float = 3.0, offset: float = 0.0) -> np.ndarray:
    return (np.random.default_rng(sum(shape)).standard_normal(shape) * scale + offset).astype(dtype)


SHAPES = [
    ((1, 1), 1),
    ((5, 17), 1),
    ((3, 5, 7), 1),
    ((33, 129), 0),
    ((64, 1000), 1),
    ((7,), 0),
    ((0, 4), 1),
    ((2, 3, 4, 40), 2),
    ((3, 2, 1), 0),
]


@pytest.mark.parametrize(("shape", "axis"), SHAPES)
def test_softmax_and_its_logarithm_are_within_their_bounds(shape: tuple[int, ...], axis: int) -> None:
    values = normal(shape)
    x = te.placeholder(shape, name="x")
    got, logarithm = (
        run(topi.nn.softmax(x, axis), (x, values)),
        run(topi.nn.log_softmax(x, axis - len(shape)), (x, values)),
    )
    if 0 in shape:
        return
    check_softmax(values, axis, got, logarithm)


def check_softmax(values: np.ndarray, axis: int, got: np.ndarray, logarithm: np.ndarray) -> None:
    exact, n = find_reference("softmax")(values, axis=axis), values.shape[axis]
    distance = values.max(axis, keepdims=True) - values
    allowed = (n / 64 + distance + 16) * EPS
    assert np.all(np.abs(got - exact) <= allowed * exact + np.finfo("float32").tiny)
    assert np.all(np.abs(logarithm - np.log(exact)) <= allowed + np.log(n) * EPS)


def test_rows_too_long_for_the_cache_are_taken_in_blocks() -> None:
    shape = (2, LONG + BLOCK // 2 + 3)
    values = normal(shape)
    values[0, : 2 * BLOCK] = -np.inf
    values[1, 5] = 90
    x = te.placeholder(shape, name="x")
    got, logarithm = run(topi.nn.softmax(x), (x, values)), run(topi.nn.log_softmax(x), (x, values))
    assert not got[0, : 2 * BLOCK].any() and np.isneginf(logarithm[0, : 2 * BLOCK]).all()
    check_softmax(values[:1, 2 * BLOCK :], 1, got[:1, 2 * BLOCK :], logarithm[:1, 2 * BLOCK :])
    check_softmax(values[1:], 1, got[1:], logarithm[1:])


def test_what_is_no_number_spoils_its_row_alone() -> None:
    values = normal((6, 40))
    values[0, 3], values[1, 7], values[2, :], values[3, 39] = np.nan, np.inf, -np.inf, -np.inf
    x = te.placeholder((6, 40), name="x")
    got = run(topi.nn.softmax(x), (x, values))
    assert np.isnan(got[:3]).all()
    assert got[3, 39] == 0 and np.allclose(got[3:].sum(1), 1)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64", "int32"])
def test_other_types(dtype: str) -> None:
    kind = ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype
    values = normal((9, 70), kind)
    x = te.placeholder((9, 70), dtype, "x")
    soft, layer = topi.nn.softmax(x), topi.nn.layer_norm(x)
    assert soft.dtype == layer.dtype == ("float32" if dtype == "int32" else dtype)
    wide = values.astype("float64")
    exact, standard = find_reference("softmax")(wide, axis=1), find_reference("layer_norm")(wide)
    eps = {"float16": 2.0**-11, "bfloat16": 2.0**-8, "float64": 1e-13, "int32": 2.0**-18}[dtype]
    tiny = 2.0**-25 if dtype == "float16" else 0  # float16 has subnormals down to 2^-24
    assert np.all(np.abs(run(soft, (x, values)).astype("float64") - exact) <= 1.01 * eps * exact + tiny)
    assert np.all(
        np.abs(run(layer, (x, values)).astype("float64") - standard) <= 1.01 * eps * np.maximum(np.abs(standard), 1)
    )


def test_rows_and_lengths_that_only_the_call_knows() -> None:
    n, m = te.size_var("n"), te.size_var("m")
    x = te.placeholder((n, m), name="x")
    outputs = [topi.nn.softmax(x), topi.nn.softmax(x, 0), topi.nn.layer_norm(x)]
    kernels = [tw.build(topi.schedule(output), [x, output]) for output in outputs]
    for shape in ((0, 3), (1, 1), (3, 63), (5, 130), (70, 65)):
        values = normal(shape)
        got = [np.full(shape, np.nan, "float32") for _ in kernels]
        for kernel, into in zip(kernels, got, strict=True):
            kernel(values, into)
        if values.size:
            assert np.allclose(got[0], find_reference("softmax")(values, axis=1), rtol=1e-5, atol=0)
            assert np.allclose(got[1], find_reference("softmax")(values, axis=0), rtol=1e-5, atol=0)
            assert np.allclose(got[2], layer_norm_of(values, 1)[0], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("shape", "axis", "offset"),
    [
        ((5, 17), -1, 0.0),
        ((3, 768), -1, 1000.0),
        ((4, 6, 10), (1, 2), -5.0),
        ((33, 5), 0, 3.0),
        ((1, 1), 1, 2.0),
        ((3, 4, 5), (0, 2), 100.0),
        ((2, 4099), 1, 1e4),
    ],
)
def test_layer_norm_with_weights_is_within_its_bound(shape: tuple[int, ...], axis: Any, offset: float) -> None:
    values = normal(shape, offset=offset)
    within = tuple(shape[at] for at in np.atleast_1d(axis))
    g, b = normal(within) + 1, normal(within, offset=1.0)
    x, gamma, beta = (
        te.placeholder(shape, name="x"),
        te.placeholder(within, name="gamma"),
        te.placeholder(within, name="beta"),
    )
    got = run(topi.nn.layer_norm(x, gamma, beta, axis), (x, values), (gamma, g), (beta, b))
    exact, allowed = layer_norm_of(values, axis)
    places = [extent if at in [a % len(shape) for a in np.atleast_1d(axis)] else 1 for at, extent in enumerate(shape)]
    g, b = g.reshape(places).astype("float64"), b.reshape(places).astype("float64")
    assert np.all(np.abs(got - (exact * g + b)) <= np.abs(g) * allowed + 4 * EPS * (np.abs(exact * g) + np.abs(b)))


def test_instance_norm() -> None:
    shape = (2, 3, 9, 11)
    values, g, b = normal(shape, offset=7.0), normal((3,)), normal((3,), offset=1.0)
    x, gamma, beta = (
        te.placeholder(shape, name="x"),
        te.placeholder((3,), name="gamma"),
        te.placeholder((3,), name="beta"),
    )
    got = run(topi.nn.instance_norm(x, gamma, beta), (x, values), (gamma, g), (beta, b))
    exact, allowed = layer_norm_of(values, (2, 3))
    g, b = g[:, None, None].astype("float64"), b[:, None, None]
    assert np.all(np.abs(got - (exact * g + b)) <= np.abs(g) * allowed + 4 * EPS * (np.abs(exact * g) + np.abs(b)))


@pytest.mark.parametrize(("shape", "axis"), [((5, 17), -1), ((3, 4096), -1), ((6, 33, 4), 1)])
def test_rms_norm_and_l2_normalize_are_within_their_bounds(shape: tuple[int, ...], axis: int) -> None:
    values, w = normal(shape), normal((shape[axis],), offset=1.0)
    x, weight = te.placeholder(shape, name="x"), te.placeholder((shape[axis],), name="weight")
    allowed = (shape[axis] / 32 + 8) * EPS
    got = run(topi.nn.rms_norm(x, weight, axis), (x, values), (weight, w))
    exact = np.moveaxis(find_reference("rms_norm")(np.moveaxis(values, axis, -1), w), -1, axis)
    assert np.all(np.abs(got - exact) <= allowed * np.abs(exact))
    exact = l2_normalize_python(values.astype("float64"), 1e-12, axis)
    assert np.all(np.abs(run(topi.nn.l2_normalize(x, 1e-12, axis), (x, values)) - exact) <= allowed * np.abs(exact))


def test_everything_as_one_row() -> None:
    values = normal((13, 21))
    x = te.placeholder((13, 21), name="x")
    assert np.allclose(run(topi.nn.l2_normalize(x, 1e-12), (x, values)), values / np.linalg.norm(values), rtol=1e-5)
    assert not run(topi.nn.l2_normalize(x, 1e-12), (x, 0 * values)).any()


@pytest.mark.parametrize(("axis", "size"), [(1, 5), (3, 3), (1, 1)])
def test_lrn(axis: int, size: int) -> None:
    shape = (2, 7, 5, 9)
    values = normal(shape)
    x = te.placeholder(shape, name="x")
    got = run(topi.nn.lrn(x, size, axis, alpha=0.1), (x, values))
    exact, allowed = local_response(values, size, axis, 0.1, 0.75, 2.0)
    assert np.all(np.abs(got - exact) <= allowed)


def test_what_comes_before_and_after_is_computed_on_the_way() -> None:
    values, mask = normal((6, 50)), normal((6, 50))
    x, m = te.placeholder((6, 50), name="x"), te.placeholder((6, 50), name="m")
    scores = te.compute((6, 50), lambda i, j: x[i, j] * 0.125 + m[i, j], "scores")
    soft = topi.nn.softmax(scores)
    output = te.compute((6, 50), lambda i, j: soft[i, j] * 2.0 + x[i, j], "output")
    s = topi.schedule(output)
    assert s[scores].attach_type == s[soft].attach_type == "inline"
    got = run(output, (x, values), (m, mask))
    assert np.allclose(
        got, 2 * find_reference("softmax")(values * np.float32(0.125) + mask, axis=1) + values, rtol=1e-5, atol=1e-6
    )


def loops_of(text: str) -> list[str]:
    """The instructions of the innermost loops of an assembly text."""
    return [
        found.group(2)
        for found in re.finditer(r"^(\.LBB\w+):\n((?:(?!\.LBB\w+:)[\s\S])*?)\tj\w+\t\1\n", text, re.MULTILINE)
    ]


def test_a_rows_maxima_and_sums_stay_in_vector_registers() -> None:
    x = te.placeholder((64, 4096), name="x")
    output = topi.nn.softmax(x)
    text = tw.build(topi.schedule(output, ZNVER4), [x, output], target=ZNVER4).source("asm")
    loops = [loop for loop in loops_of(text) if "%zmm" in loop]  # the others check arguments
    assert len(loops) == 4, "largest, exponentials, sum, result"
    largest, powers, total, result = loops
    for loop, operation in ((largest, "vmaxps"), (total, "vaddps")):
        registers = re.findall(rf"{operation}\t.*, (%zmm\d+)\n", loop)
        assert len(set(registers)) == len(registers) >= 4, "several accumulators, each once"
        assert "%xmm" not in loop and not re.search(r"mov[au]ps\t%zmm", loop), "nothing scalar, nothing stored"
    assert "%xmm" not in powers and "vdiv" not in result


def test_large_results_go_past_the_caches_and_small_ones_do_not() -> None:
    for rows, streamed in ((64, False), (16384, True)):
        x = te.placeholder((rows, 4096), name="x")
        output = topi.nn.softmax(x)
        text = tw.build(topi.schedule(output, ZNVER4), [x, output], target=ZNVER4).source("asm")
        assert ("vmovntps" in text) == streamed


def test_schedules_are_primitives_that_print_and_replay() -> None:
    x = te.placeholder((8, 200), name="x")
    output = topi.nn.layer_norm(x)
    s = topi.schedule(output)
    text = s.as_python()
    assert "rfactor" in text and "vectorize" in text and "compute_at" in text
    again = te.Schedule.replay(s.trace, [output.op])
    assert str(again) == str(s)


def test_wrong_axes_and_weights_are_refused() -> None:
    x, w = te.placeholder((4, 6), name="x"), te.placeholder((5,), name="w")
    with pytest.raises(tw.TensorExpressionError, match=r"TW0180: topi.nn.softmax: .*has no axis 2"):
        topi.nn.softmax(x, 2)
    with pytest.raises(tw.TensorExpressionError, match=r"(?s)TW0181.*cannot take w.* as gamma.*there are 6 elements"):
        topi.nn.layer_norm(x, w)
    with pytest.raises(tw.TensorExpressionError, match=r"TW0180.*cannot normalise along axis 1"):
        topi.nn.instance_norm(x, None, None, 1, (1,))
    with pytest.raises(tw.TensorExpressionError, match=r"TW0182: topi.nn.lrn takes an odd size"):
        topi.nn.lrn(x, 4)
    with pytest.raises(tw.TensorExpressionError, match=r"TW0180.*no axis to run over"):
        topi.nn.rms_norm(x, axis=())
    with pytest.raises(tw.TensorExpressionError, match=r"TW0181.*takes a tensor"):
        topi.nn.softmax(np.zeros((3, 3)))  # pyright: ignore[reportArgumentType]


def test_large_elementwise_results_go_past_the_caches_whatever_else_they_read() -> None:
    x, a = te.placeholder((3, 1 << 22), name="x"), te.placeholder((2,), name="a")
    output = te.compute(x.shape, lambda i, j: te.max(x[i, j] * a[0], 0.0) + a[1], "output")
    text = tw.build(topi.schedule(output, ZNVER4), [x, a, output], target=ZNVER4).source("asm")
    assert text.count("vmovntps") >= 4

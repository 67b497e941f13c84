"""Tensors whose elements are known when a kernel is built, and what is computed from them alone."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import drawn
import ml_dtypes
import numpy as np
import pytest
import tilewright as tw
from exported import compile_program, needs_compiler, run
from numpy.typing import NDArray
from tilewright import autotune, te, topi
from tilewright.codegen.folding import fold
from tilewright.driver.cache import key as key_module
from tilewright.ir import verify
from tilewright.ir.text.parser import parse
from tilewright.schedule.errors import BadStorePredicate, CannotAttach, UnknownScope
from tilewright.schedule.lowering.errors import NotAnArgument
from tilewright.te.errors import BadConstant
from tilewright.views.report import page

DTYPES = [
    "bool",
    "int8",
    "int16",
    "int32",
    "int64",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "float16",
    "bfloat16",
    "float32",
    "float64",
]


def random_values(shape: tuple[int, ...], dtype: Any = "float32", seed: int = 0) -> NDArray[Any]:
    kind = ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype
    values = np.random.default_rng(seed).standard_normal(shape) * 5
    return values.astype("int8" if "int" in str(dtype) else "float32").astype(kind)


def constants_in(kernel: tw.Kernel) -> list[str]:
    return [line.split()[1] for line in kernel.source("ir").splitlines() if " is a constant: " in line]


def packs(kernel: tw.Kernel) -> bool:
    """Whether anything but results, sums in registers and padded images is stored."""
    stored = re.findall(r"^ *([\w.]+)\[.*\] = ", kernel.source("ir"), re.MULTILINE)
    return any(name.startswith(("w.", "w_packed", "D", "rows", "v_")) for name in stored)


def nests(kernel: tw.Kernel) -> int:
    """Loop nests at the root of a kernel."""
    return sum(line.startswith("    for ") for line in kernel.source("ir").splitlines())


# What it is


@pytest.mark.parametrize("target", ["llvm", "interpret"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_kernels_have_constants_of_every_type_with_them(dtype: str, target: str) -> None:
    weights = random_values((3, 5), dtype)
    w = te.constant(weights, "w")
    C = te.compute((5, 3), lambda i, j: w[j, i], "C")
    found = np.zeros((5, 3), weights.dtype)
    tw.build(te.create_schedule(C.op), [C], target=target)(found)
    assert w.dtype == dtype
    np.testing.assert_array_equal(found, weights.T)


@pytest.mark.parametrize("shape", drawn.part([(), (0,), (3, 0), (1,), (1, 1, 1), (67,)], 3))
@pytest.mark.parametrize("target", ["llvm", "interpret", "cuda -emulate"])
def test_any_shape_will_do(shape: tuple[int, ...], target: str, tmp_path: Path) -> None:
    weights = np.asarray(random_values(shape))
    w, x = te.constant(weights), te.placeholder(shape, name="x")
    C = te.compute(shape, lambda *i: w(*i) * x(*i), "C")
    kernel = tw.build(topi.schedule(C, target), [x, C], target=target)
    found, given = np.zeros(shape, "float32"), np.asarray(random_values(shape, seed=1))
    kernel(given, found)
    np.testing.assert_array_equal(found, weights * given)
    if target == "llvm":
        again = np.zeros(shape, "float32")
        kernel.export(tmp_path / "libany.so")
        tw.load(tmp_path / "libany.so")(given, again)
        np.testing.assert_array_equal(again, found)


def test_the_elements_are_those_of_the_moment() -> None:
    weights = np.arange(12, dtype="float32").reshape(3, 4)
    swapped = weights.astype(">f4")[:, ::-2]
    w, v = te.constant(weights), te.constant(swapped)
    weights[...] = -1
    C, D = te.compute((3, 4), lambda i, j: w[i, j] + 1), te.compute((3, 2), lambda i, j: v[i, j] + 1)
    kernel = tw.build(te.create_schedule([C.op, D.op]), [C, D])
    c, d = np.zeros((3, 4), "float32"), np.zeros((3, 2), "float32")
    kernel(c, d)
    np.testing.assert_array_equal(c, np.arange(12).reshape(3, 4) + 1)
    np.testing.assert_array_equal(d, np.arange(12).reshape(3, 4)[:, ::-2] + 1)


def test_numbers_of_python_have_the_types_that_they_have_elsewhere() -> None:
    found = [te.constant(value).dtype for value in (2.5, [1, 2], [[True], [False]], np.float64(1))]
    assert found == ["float32", "int32", "bool", "float64"]


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (np.ones(3, "complex64"), "complex64"),
        (["a"], "no kernel computes"),
        ([[1], [2, 3]], "numpy makes no array|object"),
        ([1 << 40], "does not fit"),
        (object(), "object"),
    ],
)
def test_what_is_no_array_of_numbers_is_refused(value: Any, reason: str) -> None:
    with pytest.raises(BadConstant, match=reason):
        te.constant(value)


def test_a_tensor_is_no_constant() -> None:
    with pytest.raises(BadConstant, match="computed by the program"):
        te.constant(te.placeholder((3,)))


def test_a_constant_is_no_argument() -> None:
    w = te.constant(random_values((4,)), "w")
    C = te.compute((4,), lambda i: w[i] + 1, "C")
    with pytest.raises(NotAnArgument, match="argument 0, w, is a constant"):
        tw.build(te.create_schedule(C.op), [w, C])


# Schedules


def test_its_stage_is_nowhere() -> None:
    w = te.constant(random_values((4,)), "w")
    C = te.compute((4,), lambda i: w[i] + 1, "C")
    s = te.create_schedule(C.op)
    with pytest.raises(CannotAttach, match="w is a constant: its elements are known"):
        s[w].compute_at(s[C], C.op.axis[0])
    with pytest.raises(tw.TilewrightError, match="w is a constant"):
        s[w].compute_inline()
    with pytest.raises(UnknownScope, match="w is a constant"):
        s[w].set_scope("local")
    with pytest.raises(BadStorePredicate, match="w is a constant"):
        s[w].set_store_predicate(te.const(True))
    with pytest.raises(tw.TilewrightError, match="transform a copy of it, by cache_read"):
        s[w].transform_layout(lambda i: [i // 2, i % 2])
    assert s[w].op.kind == "constant" and not s.records


def test_schedules_print_replay_and_verify() -> None:
    A, w = te.placeholder((3, 4), name="A"), te.constant(np.arange(12, dtype="float32").reshape(3, 4), "w")
    C = te.compute((3, 4), lambda i, j: A[i, j] + w[i, j], "C")
    s = te.create_schedule(C.op)
    copy = s.cache_read(w, "global", [C])
    assert "# w is a constant: 0, 1, 2, 3, ... 12 elements" in str(s)
    assert "s.cache_read(w" in s.as_python()
    again = te.Schedule.replay(s.records, [C.op])
    assert str(again) == str(s)
    assert "holds" in str(s.verify())
    assert "w is a constant" in page(s)
    assert "known when the kernel is built" in str(s.explain(w)) and copy.shape == C.shape
    function = tw.lower(s, [A, C])
    verify(function)
    assert len(parse(str(function)).params) == 3  # the text is that of a function that is passed the contents


def test_reductions_externs_and_gradients_read_constants() -> None:
    weights = random_values((6, 5))
    w, x = te.constant(weights, "w"), te.placeholder((5,), name="x")
    k = te.reduce_axis((0, 5), "k")
    y = te.compute((6,), lambda i: te.sum(w[i, k] * x[k], axis=k), "y")
    (dx,) = te.gradient(y, [x], head=te.constant(np.ones((6,), "float32")))
    given, found, slope = random_values((5,), seed=1), np.zeros(6, "float32"), np.zeros(5, "float32")
    tw.build(te.create_schedule([y.op, dx.op]), [x, y, dx])(given, found, slope)
    np.testing.assert_allclose(found, weights @ given, rtol=1e-5)
    np.testing.assert_allclose(slope, weights.sum(0), rtol=1e-5)

    def body(ins: list[Any], outs: list[Any]) -> Any:
        ib = tw.ir_builder()
        with ib.for_range(0, 6) as i:
            ib.emit(outs[0].vstore([i], ins[0].vload([i, 0]) * 2))
        return ib.get()

    z = te.extern((6,), [w], body, name="z")
    tw.build(te.create_schedule(z.op), [z])(found)
    np.testing.assert_array_equal(found, weights[:, 0] * 2)


# Computed while building


def dequantised(n: int, k: int) -> tuple[te.Tensor, te.Tensor, te.Schedule, te.Schedule]:
    """A product by weights of int8 with a scale for each row, laid out in panels; the same with weights that are passed."""
    weights, scales = random_values((n, k), "int8"), np.abs(random_values((n,), seed=2)) + 1
    made: list[Any] = []
    x = te.placeholder((3, k), name="x")
    for w, scale in (
        (te.constant(weights, "w"), te.constant(scales, "scale")),
        (te.placeholder((n, k), "int8", "w"), te.placeholder((n,), name="scale")),
    ):
        D = te.compute(
            (n, k), lambda i, j, w=w, scale=scale: te.exp(w[i, j].astype("float32") * 0.1) * scale[i] + 0.3, "D"
        )
        r = te.reduce_axis((0, k), "r")
        total = te.compute((n,), lambda i, D=D, r=r: te.sum(D[i, r], axis=r), "total")
        q = te.reduce_axis((0, k), "q")
        y = te.compute((3, n), lambda i, j, D=D, q=q, t=total: te.sum(x[i, q] * D[j, q] / t[j], axis=q), "y")
        s = te.create_schedule(y.op)
        panel = s.cache_read(D, "global", [y])
        outer, _, _ = s[panel].transform_layout(lambda o, c: [o // 8, c, o % 8], 0)
        s[panel].parallel(outer)
        made += [x, w, scale, y, s]
    return made[0], made[3], made[4], made


def test_what_is_computed_from_constants_alone_is_computed_while_building() -> None:
    x, y, s, both = dequantised(37, 21)
    known = tw.build(s, [x, y])
    assert set(constants_in(known)) == {"D.global", "total"}
    assert nests(known) == 1
    passed = tw.build(both[9], [both[5], both[6], both[7], both[8]])
    assert nests(passed) > 1
    given = random_values((3, 21), seed=3)
    found, expected, slow = (np.zeros((3, 37), "float32") for _ in range(3))
    known(given, found)
    weights, scales = random_values((37, 21), "int8"), np.abs(random_values((37,), seed=2)) + 1
    passed(given, weights, scales, expected)
    np.testing.assert_array_equal(found.view(np.int32), expected.view(np.int32))
    tw.build(s, [x, y], target="interpret")(given, slow)
    np.testing.assert_allclose(slow, found, rtol=1e-5)


def test_what_the_caller_wants_or_what_is_made_of_nothing_is_computed_in_the_call() -> None:
    w = te.constant(random_values((16,)), "w")
    D = te.compute((16,), lambda i: w[i] * 2, "D")
    ramp = te.compute((16,), lambda i: i.astype("float32"), "ramp")
    C = te.compute((16,), lambda i: D[15 - i] + ramp[15 - i], "C")
    found, doubled = np.zeros(16, "float32"), np.zeros(16, "float32")
    kernel = tw.build(te.create_schedule([C.op, D.op]), [C, D])
    kernel(found, doubled)
    assert constants_in(kernel) == ["w"] and nests(kernel) == 3
    np.testing.assert_array_equal(doubled, random_values((16,)) * 2)
    np.testing.assert_array_equal(found, (doubled + np.arange(16, dtype="float32"))[::-1])


def test_the_rest_of_a_folded_function_and_what_was_taken_out_are_well_formed() -> None:
    x, y, s, _ = dequantised(9, 5)
    folded = fold(tw.lower(s, [x, y]))
    assert folded.made is not None
    verify(folded.function)
    verify(folded.made)
    assert {held.name for held in folded.results} == {"D.global", "total"}
    assert [held.name for held in folded.made.constants] == ["w", "scale"] and len(folded.function.arguments) == 2


def test_stages_computed_at_loops_asserting_and_calling_ones_stay() -> None:
    w, x = te.constant(random_values((8, 8)), "w"), te.placeholder((8, 8), name="x")
    D = te.compute((8, 8), lambda i, j: w[i, j] * 2, "D")
    C = te.compute((8, 8), lambda i, j: D[i, j] + x[i, j], "C")
    s = te.create_schedule(C.op)
    s[D].compute_at(s[C], C.op.axis[0])
    assert constants_in(tw.build(s, [x, C])) == ["w"]


# Operators


@pytest.mark.parametrize(
    ("rows", "depth", "features"), drawn.part([(37, 67, 101), (64, 256, 128), (1, 300, 100), (5, 1, 1), (2, 0, 3)], 3)
)
def test_products_by_known_weights_pack_nothing(rows: int, depth: int, features: int) -> None:
    weights, data = random_values((features, depth)), random_values((rows, depth), seed=1)
    x, w = te.placeholder((rows, depth), name="x"), te.constant(weights, "w")
    found = np.full((rows, features), np.nan, "float32")
    for y in (topi.nn.dense(x, w), topi.matmul(x, te.constant(weights.T, "w"))):
        kernel = tw.build([x, topi.nn.relu(y)])
        kernel(data, found)
        np.testing.assert_allclose(found, np.maximum(data.astype("float64") @ weights.T, 0), rtol=1e-4, atol=1e-4)
        assert not packs(kernel)
        if depth > 1:
            # one row reads each weight once, so that it may read them as they lie: the processor decides
            assert constants_in(kernel) == ["w.global"] or (rows == 1 and constants_in(kernel) == ["w"])


def test_few_vectors_read_weights_of_few_bits_as_they_lie() -> None:
    weights, data = random_values((64, 512), "int8"), random_values((2, 512), seed=1)
    x, w = te.placeholder((2, 512), name="x"), te.constant(weights, "w")
    y = topi.nn.dense(x, te.compute((64, 512), lambda i, j: w[i, j].astype("float32") * 0.5, "D", tag="injective"))
    found = np.zeros((2, 64), "float32")
    kernel = tw.build([x, y])
    kernel(data, found)
    assert constants_in(kernel) == ["w"] and not packs(kernel)  # a quarter of the bytes that it would have as float32
    np.testing.assert_allclose(found, data @ (weights * 0.5).T, rtol=1e-4, atol=1e-2)


@pytest.mark.parametrize(
    ("shape", "kernel_shape", "stride", "groups"),
    [
        ((1, 5, 9, 13), (13, 5, 3, 3), 1, 1),
        ((2, 32, 6, 6), (64, 32, 1, 1), 1, 1),
        ((1, 16, 11, 11), (32, 8, 3, 3), 2, 2),
    ],
)
def test_convolutions_by_known_weights_pack_nothing(shape: Any, kernel_shape: Any, stride: int, groups: int) -> None:
    weights, data = random_values(kernel_shape), random_values(shape, seed=1)
    x, passed = te.placeholder(shape, name="x"), te.placeholder(kernel_shape, name="w")
    y = topi.nn.conv2d(x, te.constant(weights, "w"), stride, 1, 1, groups)
    z = topi.nn.conv2d(x, passed, stride, 1, 1, groups)
    found, expected = (np.zeros([int(extent) for extent in y.shape], "float32") for _ in range(2))
    kernel = tw.build([x, y])
    kernel(data, found)
    slow = tw.build([x, passed, z])
    slow(data, weights, expected)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)
    # what a kernel packs of weights that are passed, it has packed of those that are known
    assert constants_in(kernel) == (["w.global"] if packs(slow) else ["w"]) and not packs(kernel)


def test_prepacking_is_done_while_building() -> None:
    filters, image = random_values((13, 5, 3, 3)), random_values((1, 5, 9, 11), seed=1)
    rows, bytes_ = random_values((101, 67), seed=4), random_values((50, 67), "int8")
    data, x = te.placeholder(image.shape, name="data"), te.placeholder((40, 67), name="x")
    bits = te.placeholder((6, 67), "uint8", name="bits")
    w = te.constant(filters, "w")
    windows = np.lib.stride_tricks.sliding_window_view(np.pad(image[0], ((0, 0), (1, 1), (1, 1))), (3, 3), axis=(1, 2))
    convolved = np.einsum("ocpq,cyxpq->oyx", filters, windows)[None]
    many, few = random_values((40, 67), seed=5), np.arange(6 * 67, dtype="uint8").reshape(6, 67)
    for given, value, result, expected in (
        (data, image, topi.nn.conv2d_prepacked(data, topi.nn.conv2d_prepack(w), 13, 1, 1), convolved),
        (data, image, topi.nn.conv2d_winograd(data, w), convolved),
        (x, many, topi.nn.packed_dense(x, topi.nn.prepack_dense(te.constant(rows, "rows")), 101), many @ rows.T),
        (bits, few, topi.nn.dense_int8(bits, te.constant(bytes_, "v")), few.astype("int32") @ bytes_.astype("int32").T),
    ):
        kernel = tw.build([given, result])
        found = np.zeros(expected.shape, str(result.dtype))
        kernel(value, found)
        np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-3)
        assert constants_in(kernel) and not {"w", "rows", "v"} & set(constants_in(kernel))
        assert not packs(kernel)


# Kept and exported kernels


def test_kernels_with_constants_are_found_again_and_told_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEWRIGHT_CACHE", "1")
    monkeypatch.setenv("TILEWRIGHT_CACHE_DIR", str(tmp_path / "cache"))
    key_module._sources.cache_clear()  # a source may be edited while tests run
    kept = tmp_path / "cache" / "kernels"

    def built(weights: NDArray[Any]) -> NDArray[Any]:
        x = te.placeholder((40, 33), name="x")
        y = topi.nn.dense(x, te.constant(weights, "w"), te.constant(weights[:, 0], "b"))
        found = np.zeros((40, 65), "float32")
        tw.build([x, y])(random_values((40, 33), seed=1), found)
        return found

    first = built(random_values((65, 33)))
    assert len(list(kept.iterdir())) == 1
    np.testing.assert_array_equal(built(random_values((65, 33))), first)
    assert len(list(kept.iterdir())) == 1
    other = built(random_values((65, 33), seed=2))
    assert len(list(kept.iterdir())) == 2 and (other != first).any()


@needs_compiler
@pytest.mark.parametrize("suffix", ["so", "a", "o"])
def test_c_programs_link_kernels_with_their_weights(tmp_path: Path, suffix: str) -> None:
    weights, data = random_values((65, 33)), random_values((4, 33), seed=1)
    x = te.placeholder((4, 33), name="x")
    y = topi.nn.packed_dense(x, topi.nn.prepack_dense(te.constant(weights, "w")), 65, te.constant(weights[:, 0], "b"))
    library = tmp_path / f"{'' if suffix == 'o' else 'lib'}layer.{suffix}"
    tw.build([x, y], name="layer").export(library)
    header = (tmp_path / "layer.h").read_text()
    assert re.search(r"int32_t layer\(\s*const float \*x,\s*float \*\w+\);", header)
    values = ", ".join(f"{value:.9g}f" for value in data.reshape(-1))
    program = compile_program(
        tmp_path,
        f"""
#include "layer.h"
#include <stdio.h>
static const float x[] = {{{values}}};
static float y[4 * 65];
int main(void) {{
  if (layer(x, y) != 0) return 1;
  for (int i = 0; i < 4 * 65; i++) printf("%.9g\\n", y[i]);
  return 0;
}}
""",
        [library.name if suffix == "o" else "-L.", *([] if suffix == "o" else ["-llayer"])],
    )
    found = np.array(run([program]).stdout.split(), "float32").reshape(4, 65)
    np.testing.assert_allclose(found, data @ weights.T + weights[:, 0], rtol=1e-4, atol=1e-4)


def test_other_machines_get_the_contents_that_this_one_computed(tmp_path: Path) -> None:
    weights = random_values((65, 33))
    x = te.placeholder((40, 33), name="x")
    target = "llvm -mtriple=aarch64-linux-gnu -mcpu=neoverse-n1"
    kernel = tw.build([x, topi.nn.dense(x, te.constant(weights, "w"))], target=target)
    assert constants_in(kernel) == ["w.global"]
    kernel.export(tmp_path / "layer.o")
    column = np.ascontiguousarray(weights[:8, 7]).tobytes()  # panels have columns of the weights side by side
    assert column in (tmp_path / "layer.o").read_bytes()


# GPUs


def test_gpu_kernels_read_constants() -> None:
    weights, data = random_values((20, 33)), random_values((5, 33), seed=1)
    x, w = te.placeholder((5, 33), name="x"), te.constant(weights, "w")
    D = te.compute((20, 33), lambda i, j: w[i, j] * 2 + 1, "D")
    y = topi.nn.dense(x, D)
    z = te.compute((5, 20), lambda i, j: y[i, j] + w[j, 0], "z")
    kernel = tw.build(topi.schedule(z, "cuda"), [x, z], target="cuda -emulate")
    found = np.zeros((5, 20), "float32")
    for _ in range(2):
        kernel(data, found)
        np.testing.assert_allclose(found, data @ (weights * 2 + 1).T + weights[:, 0], rtol=1e-4, atol=1e-4)


# Tuning


def test_programs_with_constants_are_tuned(tmp_path: Path) -> None:
    x = te.placeholder((16, 24), name="x")
    y = topi.nn.dense(x, te.constant(random_values((32, 24)), "w"))
    result = autotune.tune([x, y], trials=3, database=tmp_path / "tune.sqlite", seed=0)
    assert result.best is not None
    found, data = np.zeros((16, 32), "float32"), random_values((16, 24), seed=1)
    tw.build([x, y], tuned=tmp_path / "tune.sqlite")(data, found)
    np.testing.assert_allclose(found, data @ random_values((32, 24)).T, rtol=1e-4, atol=1e-4)
    other = topi.nn.dense(x, te.constant(random_values((32, 24), seed=2), "v"))  # whatever the weights hold
    assert autotune.best([x, other], database=tmp_path / "tune.sqlite")

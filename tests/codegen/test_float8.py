"""Floats of 8 bits: every pair of numbers on every target, as ml_dtypes computes with them, and through calls and libraries."""

from __future__ import annotations

import operator
import re
from pathlib import Path
from typing import Any

import drawn
import ml_dtypes
import numpy as np
import pytest
import tilewright as tw
from tilewright import te, topi
from tilewright.ir.dtype import DType
from tilewright.ir.rounding import round_float

KINDS = ("float8_e4m3fn", "float8_e5m2")
TARGETS = ("llvm", "c", "interpret", "cuda -emulate")


def numbers(kind: str) -> np.ndarray:
    """All of a kind."""
    return np.arange(256, dtype=np.uint8).view(getattr(ml_dtypes, kind))


def assert_same(found: np.ndarray, expected: np.ndarray, said: Any) -> None:
    """To the sign of a zero; any NaN is one."""
    a, b = found.astype(np.float64), expected.astype(np.float64)
    differ = ~(((a == b) & (np.signbit(a) == np.signbit(b))) | (np.isnan(a) & np.isnan(b)))
    assert not differ.any(), (said, np.argwhere(differ)[:4].tolist(), a[differ][:4], b[differ][:4])


def choose(x: Any, y: Any) -> Any:
    return te.if_then_else(x < y, x, y) if isinstance(x, te.Expr) else np.where(x < y, x, y)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("kind", KINDS)
def test_every_pair_is_as_ml_dtypes_has_it(kind: str, target: str) -> None:
    x = numbers(kind)
    x, y = (x, x) if target != "interpret" else (drawn.rng(kind).choice(x, 24), drawn.rng(kind + "y").choice(x, 24))
    A, B = te.placeholder(x.shape, kind, name="A"), te.placeholder(y.shape, kind, name="B")
    functions = (
        operator.add,
        operator.sub,
        operator.mul,
        operator.truediv,
        choose,
        lambda a, b: (a + b) * a - b,
        lambda a, b: a.astype("float32") * b.astype("float32"),
    )
    outs = [te.compute((*x.shape, *y.shape), lambda i, j, f=f: f(A[i], B[j]), name="C") for f in functions]
    s = te.create_schedule([out.op for out in outs])
    for out in outs if target.startswith("cuda") else ():
        s[out].bind(out.op.axis[0], te.thread_axis("blockIdx.x"))
        s[out].bind(out.op.axis[1], te.thread_axis("threadIdx.x"))
    found = [np.zeros((len(x), len(y)), out.dtype) for out in outs]
    tw.build(s, [A, B, *outs], target=target)(x, y, *found)
    with np.errstate(all="ignore"):
        for place, (f, got) in enumerate(zip(functions, found, strict=True)):
            assert_same(got, f(x[:, None], y[None, :]), (target, place))


@pytest.mark.parametrize("source", ["float32", "float64", "float16", "int32"])
def test_numbers_become_the_nearest_in_one_rounding(source: str) -> None:
    """What lies halfway between neighbours, what lies just beside that, and drawn numbers; in lanes and alone."""
    rng = drawn.rng("to 8 bits from " + source)
    drawn_numbers = rng.standard_normal(2000) * 2.0 ** rng.integers(-20, 18, 2000)
    halves = [
        (part[:-1] + part[1:]) / 2
        for kind in KINDS
        for part in (np.unique(numbers(kind).astype(np.float64)[np.isfinite(numbers(kind).astype(np.float64))]),)
    ]
    near = [half * scale for half in halves for scale in (1, 1 + 2.0**-40, 1 - 2.0**-40, 1 + 2.0**-20)]
    ends = [464.0, 464.1, 479.9, 61440.0, 61439.0, 1e9, -1e9, np.nan, np.inf, -np.inf, 0.0, -0.0]
    whole = np.concatenate([drawn_numbers, *near, ends])
    with np.errstate(over="ignore"):
        x = whole.astype(source) if "float" in source else np.nan_to_num(whole, posinf=7, neginf=7).astype(source)
    A = te.placeholder(x.shape, source, name="A")
    outs = [te.compute(x.shape, lambda i, kind=kind: A[i].astype(kind), name="C") for kind in KINDS]
    s = te.create_schedule([out.op for out in outs])
    s[outs[0]].vectorize(s[outs[0]].split(outs[0].op.axis[0], 16)[1])
    found = [np.zeros(x.shape, kind) for kind in KINDS]
    tw.build(s, [A, *outs])(x, *found)
    for kind, got in zip(KINDS, found, strict=True):
        assert_same(got, np.array([round_float(float(v), DType(kind)) for v in x]), (source, kind))


def test_a_fused_sum_is_rounded_once() -> None:
    for kind in KINDS:
        x = numbers(kind)
        A, B = te.placeholder((256,), kind, name="A"), te.placeholder((256,), kind, name="B")
        C = te.compute((256, 256), lambda i, j: te.fma(A[i], B[j], A[255 - i]), name="C")
        found = np.zeros((256, 256), x.dtype)
        tw.build(te.create_schedule(C.op), [A, B, C])(x, x, found)
        wide = x.astype(np.float64)
        with np.errstate(all="ignore"):
            exact = wide[:, None] * wide[None, :] + wide[::-1][:, None]  # float64 holds them
        expected = np.vectorize(lambda v, kind=kind: round_float(v, DType(kind)))(exact)
        assert_same(found, expected, kind)


def test_one_kind_has_no_infinity() -> None:
    for kind, least in zip(KINDS, (-448.0, -np.inf), strict=True):
        A, k = te.placeholder((0, 3), kind, name="A"), te.reduce_axis((0, 0))
        C = te.compute((3,), lambda j: te.max(A[k, j], axis=k), name="C")
        found = np.zeros(3, kind)
        tw.build(te.create_schedule(C.op), [A, C])(np.zeros((0, 3), kind), found)
        assert found.astype(np.float64).tolist() == [least] * 3
    with pytest.raises(tw.TensorExpressionError, match=r"(?s)TW0105: float8_e4m3fn has no infinity.*te.max_value"):
        te.infinity("float8_e4m3fn")
    assert te.infinity("float8_e5m2").value == np.inf
    x = drawn.rng("extrema").standard_normal((33, 17)).astype(ml_dtypes.float8_e4m3fn)
    X = te.placeholder(x.shape, "float8_e4m3fn", name="X")
    outs = [topi.max(X, axis=0), topi.argmin(X, axis=1)]
    found = [np.zeros(17, x.dtype), np.zeros(33, "int32")]
    tw.build([X, *outs])(x, *found)
    assert_same(found[0], x.astype(np.float32).max(0), "max")
    assert found[1].tolist() == x.astype(np.float32).argmin(1).tolist()


@pytest.mark.parametrize("kind", KINDS)
def test_tensors_of_torch_and_libraries_take_them(kind: str, tmp_path: Path) -> None:
    n, x = te.var("n"), te.var("x", kind)
    A = te.placeholder((n,), kind, name="A")
    B = te.compute((n,), lambda i: A[i] * x, name="B")
    f = tw.build(te.create_schedule(B.op), [A, x, B], name="scale")
    a = drawn.rng(kind).standard_normal(37).astype(getattr(ml_dtypes, kind))
    expected = a * a.dtype.type(1.5)
    f.export(tmp_path / "libscale.so")
    assert re.search(r"const uint8_t \*A, uint8_t x, uint8_t \*B", (tmp_path / "scale.h").read_text())
    for function in (f, tw.load(tmp_path / "libscale.so")):
        found = tw.empty(37, kind)
        function(a, 1.5, found)
        assert_same(found, expected, "numpy")
    with pytest.raises(tw.CallError, match=f"dtype uint8; {kind} is expected"):
        f(a.view(np.uint8), 1.5, found)
    torch = pytest.importorskip("torch")
    theirs = torch.from_numpy(a.view(np.uint8)).view(getattr(torch, kind))
    out = torch.zeros(37, dtype=theirs.dtype)
    f(theirs, 1.5, out)
    assert_same(out.float().numpy(), expected, "torch")
    assert torch.from_dlpack(tw.array(theirs)).dtype == theirs.dtype


def test_lanes_of_a_warp_exchange_them() -> None:
    for kind in KINDS:
        x = drawn.rng(kind).standard_normal((3, 96)).astype(getattr(ml_dtypes, kind))
        X, k = te.placeholder(x.shape, kind, name="X"), te.reduce_axis((0, 96), "k")
        Y = te.compute((3,), lambda i, X=X, k=k: te.max(X[i, k], axis=k), name="Y")
        s = te.create_schedule(Y.op)
        parts = s.rfactor(Y, s[Y].split(k, 32)[1])
        s[Y].bind(s[Y].op.reduce_axis[0], te.thread_axis("threadIdx.x"))
        s[parts].compute_at(s[Y], s[Y].op.reduce_axis[0])
        found = np.zeros(3, x.dtype)
        tw.build(s, [X, Y], target="cuda -emulate")(x, found)
        assert_same(found, x.astype(np.float32).max(1), kind)
        assert "shfl" in tw.build(s, [X, Y], target="cuda").source("ptx")


@pytest.mark.parametrize(
    ("arch", "shape", "instruction"),
    [
        ("sm_80", (130, 72, 96), ""),
        ("sm_89", (130, 72, 96), r"mma.sync.aligned.m16n8k32.row.col.f32.{0}.{0}.f32"),
        ("sm_90a", (130, 72, 96), r"wgmma.mma_async.sync.aligned.m64n16k32.f32.{0}.{0}"),
    ],
)
def test_tensor_cores_multiply_them_where_there_are_such(
    arch: str, shape: tuple[int, int, int], instruction: str
) -> None:
    kind = drawn.rng("kind of " + arch).choice(KINDS)
    m, n, k = shape
    a, b = (drawn.rng(f"{arch} {rows}").standard_normal((rows, k)).astype(getattr(ml_dtypes, kind)) for rows in (m, n))
    A, B = te.placeholder(a.shape, str(kind), name="A"), te.placeholder(b.shape, str(kind), name="B")
    C = topi.matmul(A, B, transpose_b=True, out_dtype="float32")
    f = tw.build([A, B, C], target=f"cuda -arch={arch} -emulate")
    found = np.zeros((m, n), np.float32)
    f(a, b, found)
    np.testing.assert_allclose(found, a.astype(np.float64) @ b.astype(np.float64).T, rtol=1e-5, atol=1e-4)
    name = re.escape(instruction.format({"float8_e4m3fn": "e4m3", "float8_e5m2": "e5m2"}[str(kind)]))
    text = f.source("cuda")
    assert re.search(name, text) if instruction else "mma.sync" not in text

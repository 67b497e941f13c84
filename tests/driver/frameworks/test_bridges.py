"""Kernels as operators of torch, functions of jax, and pickles."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
import tilewright as tw
from tilewright import te


def scaling() -> tw.Kernel:
    """exp(A) * B * s, and the sums of A's rows weighed by B; of any number of rows."""
    n, s = te.var("n"), te.var("s", "float32")
    a, b = te.placeholder((n, 5), name="A"), te.placeholder((5,), name="B")
    k = te.reduce_axis((0, 5), "k")
    c = te.compute((n, 5), lambda i, j: te.exp(a[i, j]) * b[j] * s, name="C")
    d = te.compute((n,), lambda i: te.sum(a[i, k] * b[k], axis=k), name="D")
    schedule = te.create_schedule([c.op, d.op])
    schedule[c].parallel(c.op.axis[0])
    return tw.build(schedule, [a, b, s, c, d])


def test_a_kernel_is_pickled_as_its_program() -> None:
    f = scaling()
    again = pickle.loads(pickle.dumps(f))
    assert again.source("ir") == f.source("ir") and str(again.signature) == str(f.signature)
    a, b = np.linspace(-1, 1, 15, dtype="float32").reshape(3, 5), np.arange(5, dtype="float32")
    c, d = np.empty((3, 5), "float32"), np.empty(3, "float32")
    again(a, b, 2.0, c, d)
    np.testing.assert_allclose(c, np.exp(a) * b * 2, rtol=1e-6)
    np.testing.assert_allclose(d, a @ b, rtol=1e-6)
    assert pickle.loads(pickle.dumps(again)).source("ir") == f.source("ir")


def test_what_was_loaded_from_a_library_is_no_program(tmp_path: Any) -> None:
    f = scaling()
    f.export(tmp_path / "libscale.so")
    loaded = tw.load(tmp_path / "libscale.so")
    kernel = next(iter(loaded.values())) if hasattr(loaded, "values") else loaded
    with pytest.raises(tw.ExportError, match=r"TW0746: .* cannot become a pickle"):
        pickle.dumps(kernel)
    with pytest.raises(tw.ExportError, match=r"TW0746: .* cannot become an operator of torch"):
        kernel.as_torch_op("mine::loaded")


def test_names_of_operators_have_a_namespace() -> None:
    for name in ("scale", "mine::", "a::b::c", "mine::sc ale"):
        with pytest.raises(tw.ExportError, match="TW0746: no operator of torch can be called"):
            scaling().as_torch_op(name)


def test_an_operator_of_torch_passes_its_check_and_has_its_gradient() -> None:
    torch = pytest.importorskip("torch")
    op = scaling().as_torch_op("tilewright_test::scale")
    x, y = torch.randn(3, 5, requires_grad=True), torch.randn(5, requires_grad=True)
    checked = torch.library.opcheck(op, (x, y, 2.0))
    assert set(checked.values()) == {"SUCCESS"}
    c, d = op(x, y, 2.0)
    (c.sum() + d.square().sum()).backward()
    own = [one.detach().clone().requires_grad_() for one in (x, y)]
    ((own[0].exp() * own[1] * 2).sum() + (own[0] @ own[1]).square().sum()).backward()
    for mine, theirs in zip((x, y), own, strict=True):
        torch.testing.assert_close(mine.grad, theirs.grad)
    turned = torch.randn(5, 4).t()
    torch.testing.assert_close(op(turned, y, 1.0)[1], turned @ y)


def test_an_operator_of_torch_is_exported_with_symbols_and_compiled() -> None:
    torch = pytest.importorskip("torch")
    op = scaling().as_torch_op("tilewright_test::kept")

    class Model(torch.nn.Module):  # type: ignore[misc]
        def forward(self, x: Any, y: Any) -> Any:
            return op(x, y, 3.0)[1] + 1

    given = torch.randn(3, 5), torch.randn(5)
    rows = torch.export.Dim("rows")
    program = torch.export.export(Model(), given, dynamic_shapes=({0: rows}, None))
    assert "tilewright_test.kept" in str(program.graph)
    more = torch.randn(7, 5)
    torch.testing.assert_close(program.module()(more, given[1]), more @ given[1] + 1)
    x = more.clone().requires_grad_()
    torch.compile(Model(), backend="aot_eager", fullgraph=True)(x, given[1]).sum().backward()
    torch.testing.assert_close(x.grad, given[1].expand(7, 5))


def test_lowered_loops_have_no_gradient() -> None:
    torch = pytest.importorskip("torch")
    a = te.placeholder((3,), name="A")
    b = te.compute((3,), lambda i: a[i] * 2, name="B")
    f = tw.build(tw.lower(te.create_schedule(b.op), [a, b]))
    with pytest.raises(tw.ExportError, match="TW0746: the kernel has no gradient"):
        f.as_torch_op("tilewright_test::lowered")
    op = f.as_torch_op("tilewright_test::plain", gradient=False)
    torch.testing.assert_close(op(torch.ones(3)), torch.full((3,), 2.0))


def test_tensors_that_require_grad_are_refused_with_advice_that_works() -> None:
    torch = pytest.importorskip("torch")
    f = tw.jit(lambda a: te.compute(a.shape, lambda i: a[i] + 1))
    x = torch.ones(3, requires_grad=True)
    with pytest.raises(tw.CallError, match=r"(?s)TW0530.*fix: pass x.detach\(\)"):
        f(x)
    torch.testing.assert_close(f(x.detach()), torch.full((3,), 2.0))
    with pytest.raises(tw.CallError, match=r"(?s)TW0519.*fix: pass x.detach\(\)"):
        scaling()(torch.ones(2, 5, requires_grad=True), torch.ones(5), 1.0, torch.empty(2, 5), torch.empty(2))


def test_a_function_of_jax_runs_under_jit_on_any_number_of_rows() -> None:
    jax = pytest.importorskip("jax")
    f = scaling().as_jax()
    for rows in (3, 1, 8):
        a = np.linspace(-1, 1, 5 * rows, dtype="float32").reshape(rows, 5)
        b = np.arange(5, dtype="float32")
        c, d = jax.jit(lambda x, y: f(x, y * 2, 0.5))(a, b)
        np.testing.assert_allclose(c, np.exp(a) * b, rtol=1e-5)
        np.testing.assert_allclose(d, a @ b * 2, rtol=1e-5, atol=1e-6)
    with pytest.raises(tw.CallError, match=r"TW0506: 'A' .* has 4 .* in dimension 1; 5 is expected"):
        f(np.ones((3, 4), "float32"), np.ones(5, "float32"), 1.0)


def test_a_call_under_jit_that_fails_says_why() -> None:
    jax = pytest.importorskip("jax")
    a, b = te.placeholder((4,), "int32", name="A"), te.placeholder((3,), name="B")
    c = te.compute((4,), lambda i: b[a[i]], name="C")
    f = tw.build([a, b, c], bounds_check=True).as_jax()
    at, values = np.array([0, 2, 1, 0], "int32"), np.arange(3, dtype="float32")
    call = jax.jit(f)
    np.testing.assert_array_equal(call(at, values), values[at])
    with pytest.raises(Exception, match="TW0518: main stopped"):
        np.asarray(call(at + 1, values))
    np.testing.assert_array_equal(call(at, values), values[at])


def test_an_operator_may_be_registered_again() -> None:
    torch = pytest.importorskip("torch")
    n = te.var("n")
    for factor in (2, 3):
        a = te.placeholder((n,), name="A")
        b = te.compute((n,), lambda i, factor=factor: a[i] * factor, name="B")
        op = tw.build([a, b]).as_torch_op("tilewright_test::again")
        assert op(torch.ones(2)).tolist() == [factor, factor]
        assert torch.ops.tilewright_test.again(torch.ones(1)).tolist() == [factor]


def test_a_function_of_jax_has_its_gradient() -> None:
    jax = pytest.importorskip("jax")
    A, B = te.placeholder((4,), name="A"), te.placeholder((4,), name="B")
    places = te.placeholder((4,), "int32", name="places")
    factor = te.var("factor", "float32")
    C = te.compute((4,), lambda i: A[places[i]] * te.exp(B[i]) * factor, name="C")
    f = tw.build([A, places, B, factor, C])
    g, x, y = f.as_jax(), jax.numpy.arange(4.0), jax.numpy.ones(4) / 2
    order = jax.numpy.asarray([3, 1, 1, 0], "int32")

    def ours(x: Any, y: Any) -> Any:
        return (g(x, order, y, 3.0) ** 2).sum()

    def theirs(x: Any, y: Any) -> Any:
        return ((x[order] * jax.numpy.exp(y) * 3.0) ** 2).sum()

    for wanted in (lambda h: jax.grad(h, (0, 1)), lambda h: jax.jit(jax.grad(h, (0, 1)))):
        for one, other in zip(wanted(ours)(x, y), wanted(theirs)(x, y), strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-5)
    with pytest.raises(tw.CallError, match=r"(?s)TW0503.*jax\.jit or jax\.grad call f\.as_jax\(\)"):
        jax.jit(lambda x: f(x, order, y, 3.0, x))(x)


def test_a_jitted_function_gives_jax_what_is_jaxs() -> None:
    jax = pytest.importorskip("jax")
    f = tw.jit(lambda a: te.compute(a.shape, lambda i: a[i] + 1))
    got = f(jax.numpy.ones(3))
    assert isinstance(got, jax.Array)
    np.testing.assert_array_equal(got, [2, 2, 2])


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int8", "bool", "float64"])
def test_results_of_any_size_become_jaxs(dtype) -> None:
    jax = pytest.importorskip("jax")
    f = tw.jit(dynamic={"a": (0,)})(
        lambda a: te.compute(a.shape, lambda i, j: te.select(a[i, j] > 0.5, 1, 0).astype(dtype))
    )
    for rows in (0, 3, 3000):
        values = np.random.default_rng(0).random((rows, 100), "float32")
        got = f(jax.numpy.asarray(values))
        assert got.dtype == (dtype if dtype != "float64" or jax.config.jax_enable_x64 else "float32")
        assert np.array_equal(np.asarray(got).astype("float32"), values > 0.5)


def test_errors_of_an_operator_point_at_the_users_line() -> None:
    torch = pytest.importorskip("torch")
    op = scaling().as_torch_op("tilewright_test::refusing", gradient=False)
    with pytest.raises(tw.CallError, match=r"(?s)TW0506.*called at test_bridges\.py"):
        op(torch.ones(2, 5), torch.ones(6), 1.0)

"""Graphs that are built: one native call, compared with the reference."""

from __future__ import annotations

import pickle
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tilewright as tw
from tilewright.graph import Builder
from tilewright.graph.arena import Lifetime, places
from tilewright.graph.comparison import difference
from tilewright.graph.partition import cut_graph


def blocks(count: int) -> tw.graph.Graph:
    """Equal residual blocks: relu(x + conv(x))."""
    random = np.random.default_rng(1)
    b = Builder("blocks")
    x = b.input("x", (1, 5, 7, 6))
    for at in range(count):
        w = b.param(f"w{at}", (random.standard_normal((5, 5, 3, 3)) / 7).astype("float32"))
        x = b.node("relu", b.node("add", b.node("conv", x, w, padding=(1, 1, 1, 1)), x), source=f"block {at}")
    b.output("y", x)
    return b.graph()


def test_equal_layers_share_one_kernel() -> None:
    g = blocks(6)
    m = tw.build(g)
    assert list(m.kernels.values()) == [6]
    x = np.random.default_rng(0).standard_normal((1, 5, 7, 6)).astype("float32")
    np.testing.assert_allclose(m(x), g.run(x)[0], rtol=1e-4, atol=1e-5)


def test_tails_are_fused_into_the_heavy_node_before_them() -> None:
    steps = cut_graph(blocks(2))
    assert [[node.operator for node in step.nodes] for step in steps] == [["conv", "add", "relu"]] * 2


def test_a_value_that_two_nodes_read_is_a_kernel_of_its_own() -> None:
    b = Builder()
    y = b.node("exp", b.input("x", (7,)))
    b.output("z", b.node("add", b.node("relu", y), b.node("negative", y)))
    assert [[node.operator for node in step.nodes] for step in cut_graph(b.graph())] == [
        ["exp"],
        ["relu", "negative", "add"],
    ]


def test_the_arena_reuses_what_nobody_reads_any_more() -> None:
    m = tw.build(blocks(6))
    assert m.arena_bytes == 2 * 896  # two values of 840 bytes live at a time, each at a cache line


def test_values_that_live_at_one_time_lie_apart() -> None:
    random = np.random.default_rng(3)
    lives = {}
    for at in range(60):
        first = int(random.integers(0, 40))
        lives[f"v{at}"] = Lifetime(int(random.integers(0, 1000)), first, first + int(random.integers(0, 9)))
    offsets, size = places(lives)
    for a, one in lives.items():
        assert offsets[a] % 64 == 0 and offsets[a] + one.size <= size
        for b, other in lives.items():
            apart = offsets[a] + one.size <= offsets[b] or offsets[b] + other.size <= offsets[a]
            assert a == b or apart or one.last < other.first or other.last < one.first or not one.size or not other.size


def test_the_arena_is_hardly_larger_than_what_lives_at_one_time() -> None:
    for seed in range(40):
        random = np.random.default_rng(seed)
        far = [int(random.integers(1, 9)) if random.random() < 0.3 else 1 for _ in range(50)]
        lives = {at: Lifetime(int(random.integers(1, 99)) * 64, at, at + reach) for at, reach in enumerate(far)}
        peak = max(sum(life.size for life in lives.values() if life.first <= at <= life.last) for at in range(60))
        offsets, size = places(lives)
        assert max(offsets[at] + life.size for at, life in lives.items()) <= size <= 1.1 * peak


def symbolic() -> tw.graph.Graph:
    b = Builder()
    x = b.input("x", ("n", 3))
    b.output("y", b.node("softmax", b.node("reshape", x, shape=("n * 3",))))
    b.output("same", x)
    b.output("again", x)
    b.output("held", b.param("p", np.arange(3)))
    return b.graph()


def test_sizes_are_read_from_the_arrays() -> None:
    m = tw.build(symbolic())
    for n in (1, 4, 0, 7, 4):
        x = np.random.default_rng(n).standard_normal((n, 3)).astype("float32")
        y, same, again, held = m(x)
        assert y.shape == (3 * n,) and np.allclose(y, m._graph.run(x)[0], atol=1e-6)
        assert np.array_equal(same, x) and np.array_equal(again, x) and np.array_equal(held, [0, 1, 2])
        assert m.outputs["y"] == (("n * 3",), "float32")


def test_calls_take_names_views_and_outputs() -> None:
    b = Builder()
    b.output("y", b.node("subtract", b.input("x", (2, 3)), b.input("z", (3,))))
    m = tw.build(b.graph())
    x, z = np.arange(6, dtype="float32").reshape(3, 2).T, np.ones(3, "float32")
    y = np.empty((2, 3), "float32")
    assert m(x, z=z, out=y) is y and np.array_equal(y, x - z) and np.array_equal(m(z=z, x=x), y)
    assert m.inputs == {"x": ((2, 3), "float32"), "z": ((3,), "float32")} and m.time(x, z).median > 0
    for out in (np.empty((3, 2), "float32"), [y, y], np.empty((2, 3)), 1):
        with pytest.raises(tw.GraphError, match="TW0906: graph main cannot write to out"):
            m(x, z, out=out)
    with pytest.raises(tw.GraphError, match="TW0906"):
        m(x)


def test_calls_of_known_shapes_are_checked_like_the_first() -> None:
    b = Builder("sums")
    x, y = b.input("x", ("n", "k")), b.input("y", ("k",))
    b.output("z", b.node("add", x, y))
    b.output("total", b.node("sum", x, axes=(0, 1), keepdims=False))
    m = tw.build(b.graph())
    random = np.random.default_rng(5)

    def right(x: Any, y: Any) -> None:
        z, total = m(x, y)
        np.testing.assert_array_equal(z, x + y)
        np.testing.assert_allclose(total, x.sum(dtype="float64"), rtol=1e-4, atol=1e-4)

    def draw(*shape: int) -> Any:
        return random.standard_normal(shape).astype("float32")

    for n, k in [(3, 4), (1, 1), (7, 2), (3, 4), (0, 5), (2, 7), *((n, 3) for n in range(1, 20)), (3, 4)]:
        for _ in range(3):  # the second and third are of known shapes
            right(draw(n, k), draw(k))
        right(draw(k, n).T, draw(2 * k)[::2])
        right(np.asfortranarray(draw(n, k)), draw(k))
        with pytest.raises(tw.TilewrightError, match=r"(?s)TW0906.*float64"):
            m(draw(n, k).astype("float64"), draw(k))
        with pytest.raises(tw.TilewrightError, match=r"(?s)TW0906.*got the shape"):
            m(draw(n, k), draw(k + 1))
        with pytest.raises(tw.TilewrightError, match=r"(?s)TW0906.*not given y"):
            m(draw(n, k))
        left, right_, given = draw(n, k), draw(k), [np.empty((n, k), "float32"), np.empty((), "float32")]
        written = m(left, out=given, y=right_)
        assert all(one is other for one, other in zip(written, given, strict=True))
        np.testing.assert_array_equal(given[0], left + right_)
        for out in (
            [given[0].T if n != k else given[0][:0], given[1]],
            given[:1],
            [given[0].astype("float64"), given[1]],
        ):
            with pytest.raises(tw.TilewrightError, match=r"(?s)TW0906.*it is not an array for each output"):
                m(left, right_, out=out)
        with pytest.raises(tw.TilewrightError, match=r"(?s)TW0906.*none of its inputs"):
            m(left, b=right_)
        with pytest.raises(tw.TilewrightError, match=r"(?s)TW0906.*given twice"):
            m(left, x=right_)
    first, _ = m(draw(3, 4), draw(4))
    kept = first.copy()
    m(draw(3, 4), draw(4))
    np.testing.assert_array_equal(first, kept)


def test_calls_of_known_shapes_ask_python_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    b = Builder("sums")
    b.output("z", b.node("add", b.input("x", ("n", 4)), b.input("y", (4,))))
    m = tw.build(b.graph())
    x, y, z = np.ones((3, 4), "float32"), np.ones(4, "float32"), np.empty((3, 4), "float32")
    m(x, y)
    monkeypatch.setattr(tw.Model, "_bound", pytest.fail)
    for result in (m(x, y), m(x, y=y), m(y=y, x=x), m(x, y, out=z), m(y=y, x=x, out=[z])):
        np.testing.assert_array_equal(result, x + y)


def test_tensors_of_known_shapes_are_read_where_they_lie_or_refused() -> None:
    torch = pytest.importorskip("torch")
    b = Builder("sums")
    b.output("z", b.node("add", b.input("x", (3, 4)), b.input("y", (4,))))
    m = tw.build(b.graph())
    x, y = torch.arange(12.0).reshape(3, 4), torch.arange(4.0)
    for _ in range(3):
        np.testing.assert_array_equal(m(x, y), (x + y).numpy())
        np.testing.assert_array_equal(m(x, y=y.numpy()), (x + y).numpy())
        np.testing.assert_array_equal(m(x.T.contiguous().T, y), (x + y).numpy())
        conjugate = torch.complex(y, -y).conj().imag
        for refused in (conjugate, y.clone().requires_grad_(), y.to_sparse(), y.to("meta")):
            with pytest.raises(tw.TilewrightError, match=r"TW0\d\d\d"):
                m(x, refused)


def test_threads_call_one_model_at_once() -> None:
    g = blocks(3)
    m = tw.build(g)
    inputs = [np.random.default_rng(at).standard_normal((1, 5, 7, 6)).astype("float32") for at in range(4)]
    expected = [m(x) for x in inputs]
    wrong: list[int] = []

    def work(at: int) -> None:
        for _ in range(50):
            if not np.array_equal(m(inputs[at]), expected[at]):
                wrong.append(at)

    threads = [threading.Thread(target=work, args=(at,)) for at in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def resident() -> int:
    """Bytes of this process that are in memory."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="no /proc")
def test_ten_thousand_calls_leave_nothing_behind() -> None:
    b = Builder()
    b.output("y", b.node("softmax", b.input("x", (3, 65))))
    m = tw.build(b.graph())
    x, y = np.ones((3, 65), "float32"), np.empty((3, 65), "float32")
    for _ in range(500):
        m(x, out=y)
    before = resident()
    for _ in range(10_000):
        m(x, out=y)
    assert resident() - before < 10_000 * 64, "not a line of memory a call"


def test_verify_finds_the_node_that_differs(monkeypatch: pytest.MonkeyPatch) -> None:
    from tilewright.graph.operators import OPERATORS

    b = Builder("scores")
    x = b.input("x", (5, 7, 3))
    rows = b.node("reshape", b.node("matmul", x, x, transpose_b=True), shape=(1, 7, 35))
    # with the rows as a result, the relu leaves the kernel of the softmax and is stored too
    weights = b.node("softmax", b.node("relu", rows, source="line 1"), axis=2)
    b.output("y", b.node("matmul", weights, rows, transpose_b=True))
    m = tw.build(b.graph())
    ones = np.ones((5, 7, 3), "float32")
    assert m.verify(ones) and "every value agrees" in str(m.verify(ones))
    row = OPERATORS["relu"]
    wrong: Any = replace(row, reference=lambda x: np.maximum(x, 0) + 1)
    monkeypatch.setitem(OPERATORS, "relu", wrong)
    found = m.verify(ones)
    assert (
        not found and found.node is not None and found.node.source == "line 1" and "relu (line 1) gives" in str(found)
    )


@pytest.mark.parametrize(
    "ours, theirs, expected",
    [
        ([1.0, np.nan], [1.0, np.nan], 0),
        ([1.0, np.nan], [1.0, 2.0], np.inf),
        ([1.0, 4.0], [2.0, 4.0], 0.25),
        ([np.inf], [np.inf], 0),
    ],
)
def test_differences_are_relative_to_the_greatest_magnitude(
    ours: list[float], theirs: list[float], expected: float
) -> None:
    assert difference(np.asarray(ours), np.asarray(theirs)) == expected


def test_other_targets_are_refused() -> None:
    with pytest.raises(tw.GraphError, match="TW0908: graph blocks cannot be built for 'c'"):
        tw.build(blocks(1), target="c")


def test_extents_that_are_multiples_tell_their_symbols() -> None:
    b = Builder("halved")
    b.output("z", b.node("reshape", b.input("x", ("n", "h * 8")), shape=("n", "h", 8)))
    b.output("u", b.node("relu", b.input("y", ("n + k * 2",))))
    g = b.graph()
    assert tw.build(g)(np.ones((2, 24), "float32"), np.ones(12, "float32"))[0].shape == (2, 3, 8)
    assert g.run(np.ones((2, 8), "float32"), np.ones(8, "float32"))[0].shape == (2, 1, 8)
    for wrong in ((2, 25), (2, 12)):
        with pytest.raises(tw.GraphError, match=r"TW0906: .*\n  x is float32\[n, h \* 8\], and got the shape"):
            g.run(np.ones(wrong, "float32"), np.ones(12, "float32"))


def test_a_model_is_pickled_as_its_graph_and_built_again() -> None:
    b = Builder("net")
    b.output("y", b.node("matmul", b.input("x", ("n", 4)), b.param("w", np.arange(12, dtype="float32").reshape(4, 3))))
    m = tw.build(b.graph())
    again = pickle.loads(pickle.dumps(m))
    x = np.random.default_rng(1).random((5, 4), np.float32)
    assert np.array_equal(again(x), m(x)) and list(again.inputs) == ["x"]

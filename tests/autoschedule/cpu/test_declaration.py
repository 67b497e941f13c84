"""Loops as declared are candidates where our vectors would gather."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import drawn
import numpy as np
import pytest
import tilewright as tw
from tilewright import te, topi
from tilewright.autoschedule import scheduler
from tilewright.autoschedule.plan import Candidate

TARGETS = ("llvm -mcpu=haswell", "llvm -mcpu=znver4")


def cross(n: Any) -> list[te.Tensor]:
    a, b = te.placeholder((n, 3), name="a"), te.placeholder((n, 3), name="b")

    def element(i: Any, j: Any) -> Any:
        return a[i, (j + 1) % 3] * b[i, (j + 2) % 3] - a[i, (j + 2) % 3] * b[i, (j + 1) % 3]

    return [a, b, te.compute((n, 3), element, name="c")]


def rotated(n: Any) -> list[te.Tensor]:
    """Points turned and then moved: sums of three that an elementwise stage reads."""
    r, p = te.placeholder((n, 3, 3), name="r"), te.placeholder((n, 3), name="p")
    k = te.reduce_axis((0, 3), "k")
    turned = te.compute((n, 3), lambda i, j: te.sum(r[i, j, k] * p[i, k], axis=k), name="turned")
    return [r, p, te.compute((n, 3), lambda i, j: turned[i, j] + p[i, j], name="out")]


def lookups(n: Any) -> list[te.Tensor]:
    table, codes = te.placeholder((8, 256), name="table"), te.placeholder((n, 8), "uint8", name="codes")
    k = te.reduce_axis((0, 8), "k")
    out = te.compute((n,), lambda i: te.sum(table[k, codes[i, k].astype("int32")], axis=k), name="out")
    return [table, codes, out]


def determinants(n: Any) -> list[te.Tensor]:
    m = te.placeholder((n, 3, 3), name="m")

    def element(i: Any) -> Any:
        minors = [
            m[i, 1, (j + 1) % 3] * m[i, 2, (j + 2) % 3] - m[i, 1, (j + 2) % 3] * m[i, 2, (j + 1) % 3] for j in range(3)
        ]
        return m[i, 0, 0] * minors[0] + m[i, 0, 1] * minors[1] + m[i, 0, 2] * minors[2]

    return [m, te.compute((n,), element, name="det")]


def swapped(n: Any) -> list[te.Tensor]:
    """Rows forwards whose elements lie backwards."""
    a = te.placeholder((n, 3), "uint8", name="a")
    return [a, te.compute((n, 3), lambda i, j: a[i, 2 - j], name="out")]


PROGRAMS = {each.__name__: each for each in (cross, rotated, lookups, determinants, swapped)}


def arrays(tensors: list[te.Tensor], n: int, rng: np.random.Generator) -> list[np.ndarray]:
    return [
        rng.integers(0, 256, shape).astype("uint8") if str(tensor.dtype) == "uint8" else drawn.normal(rng, *shape)
        for tensor in tensors
        for shape in [tuple(n if isinstance(extent, te.Var) else int(str(extent)) for extent in tensor.shape)]
    ]


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("target", TARGETS)
def test_loops_as_declared_are_taken_where_vectors_would_gather(name: str, target: str) -> None:
    tensors = PROGRAMS[name](20_000)
    (row, *_) = [
        each for each in scheduler.schedule(tensors[-1], target).decisions if each.rule in ("sums", "injective")
    ]
    names, times = zip(*row.candidates, strict=True)
    declared = next(at for at, name in enumerate(names) if name == "as declared")
    assert None not in times
    assert row.seconds is not None and row.seconds <= 1.1 * min(time.seconds for time in times)
    assert times[declared].seconds <= 1.1 * min(time.seconds for time in times), "as declared"


@pytest.mark.parametrize("name", PROGRAMS)
def test_rows_of_any_number_have_the_bits_of_the_program_without_a_schedule(name: str) -> None:
    n = te.var("n")
    tensors = PROGRAMS[name](n)
    plain = tw.build(te.create_schedule(tensors[-1]), tensors)
    chosen = tw.build(scheduler.schedule(tensors[-1], "llvm", exact=True), tensors)
    for size in drawn.part((0, 1, 2, 3, 7, 8, 9, 31, 33, 127), 5):
        values = arrays(tensors, size, drawn.rng(name, size))
        expected = [*values[:-1], np.empty_like(values[-1])]
        plain(*expected)
        chosen(*values)
        np.testing.assert_array_equal(values[-1], expected[-1])


def warped() -> te.Tensor:
    """Each row reads a few elements of an image at places that floats give, never all of it."""
    a = te.placeholder((400, 500), name="a")

    def element(i: Any, j: Any) -> Any:
        y, x = i.astype("float32") * 0.9 + j.astype("float32") * 0.1, j.astype("float32") * 0.9
        down, across = te.floor(y).astype("int32") % 399, te.floor(x).astype("int32") % 499
        return a[down, across] * (1 - x) + a[down + 1, across + 1] * x + a[down, across + 1] * y * (1 - y)

    return te.compute((400, 500), element, name="out")


def test_gathers_wait_for_lines_as_other_loads_do() -> None:
    table, first, places = (
        te.placeholder((30_011,)),
        te.placeholder((30_011,), "int32"),
        te.placeholder((70_001,), "int32"),
    )
    chain = te.compute((70_001,), lambda i: table[first[places[i]]], name="chain")
    for target in TARGETS:
        (row,) = scheduler.schedule(warped(), f"{target} -cores=1").decisions
        assert row.description == "1 vector at a time"
        assert (row.seconds or 0) < 2e-3, "a row takes no more lines than it has elements"
    (row,) = scheduler.schedule(chain, f"{TARGETS[0]} -cores=1").decisions
    assert row.description == "as declared", "Haswell gathers more slowly than it loads"


def test_functions_stay_in_vectors() -> None:
    a = te.placeholder((1000, 3), name="a")
    out = te.compute((1000, 3), lambda i, j: te.exp(a[i, (j + 1) % 3]), name="out")
    (row,) = scheduler.schedule(out, TARGETS[0]).decisions
    declared = dict(row.candidates)["as declared"]
    assert row.description != "as declared" and (declared is None or declared.seconds > 2 * (row.seconds or 0))


@pytest.mark.parametrize("length", [1, 2, 3, 4])
@pytest.mark.parametrize("target", TARGETS)
def test_sums_of_few_terms_copy_nothing(length: int, target: str) -> None:
    a, b = te.placeholder((999, length), name="a"), te.placeholder((999, length), name="b")
    k = te.reduce_axis((0, length), "k")
    out = te.compute((999,), lambda i: te.sum(a[i, k] * b[i, k], axis=k), name="out")
    s = scheduler.schedule(out, target)
    assert [stage.op.name for stage in s.stages if stage.op.name not in ("a", "b", "out", "out.local")] == []
    x, y = (drawn.normal(drawn.rng("few", length + at), 999, length) for at in (0, 10))
    got = np.empty(999, "float32")
    tw.build(scheduler.schedule(out, "llvm"), [a, b, out])(x, y, got)
    np.testing.assert_allclose(got, (x * y).sum(1), rtol=1e-4, atol=1e-5)


def product() -> list[te.Tensor]:
    a, b = te.placeholder((37, 19), name="a"), te.placeholder((19, 23), name="b")
    return [a, b, topi.nn.relu(topi.matmul(a, b))]


def softmax() -> list[te.Tensor]:
    a = te.placeholder((17, 33), name="a")
    return [a, topi.nn.softmax(a)]


def stencils() -> list[te.Tensor]:
    a = te.placeholder((35, 41), name="a")
    across = te.compute((35, 39), lambda i, j: a[i, j] + a[i, j + 1] + a[i, j + 2], name="across")
    return [a, te.compute((33, 39), lambda i, j: across[i, j] * across[i + 2, j], name="down")]


def convolved() -> list[te.Tensor]:
    x, w = te.placeholder((1, 5, 13, 11), name="x"), te.placeholder((7, 5, 3, 3), name="w")
    return [x, w, topi.nn.conv2d(x, w, 1, 1)]


def pooled() -> list[te.Tensor]:
    x = te.placeholder((2, 3, 15, 17), name="x")
    return [x, topi.nn.pool2d(x, (3, 3), (2, 2), (1, 1), (1, 1, 1, 1), "max")]


def scaled() -> list[te.Tensor]:
    a = te.placeholder((1, 3), name="a")
    return [a, te.compute((1, 3), lambda i, j: a[i, j] * 2.0, name="out")]


DECLARED = {each.__name__: each for each in (product, softmax, stencils, convolved, pooled, scaled)}


@pytest.mark.parametrize("name", DECLARED)
def test_the_program_as_declared_is_among_the_candidates(name: str) -> None:
    for target in TARGETS:
        for row in scheduler.schedule(DECLARED[name]()[-1], target).decisions[:1]:
            times = [time for text, time in row.candidates if text.startswith("as declared")]
            assert times, [text for text, _ in row.candidates]
            assert all(time is None or (row.seconds or 0) <= 1.03 * time.seconds for time in times), "none is quicker"


@pytest.mark.parametrize("name", DECLARED)
def test_loops_as_declared_have_the_bits_of_the_program_without_a_schedule(name: str) -> None:
    def declared(_: str, candidates: Sequence[Candidate]) -> int:
        texts = [each.description for each in candidates]
        return texts.index("as declared") if "as declared" in texts else 0

    tensors = DECLARED[name]()
    s = scheduler.schedule(tensors[-1], "llvm", chooser=declared)
    assert any(row.description == "as declared" for row in s.decisions)
    values = arrays(tensors, 0, drawn.rng(name))
    expected = [*values[:-1], np.empty_like(values[-1])]
    tw.build(s, tensors)(*values)
    tw.build(te.create_schedule(tensors[-1]), tensors)(*expected)
    if name == "softmax":  # its exponentials may be vectors' or not, its sum is in lanes
        np.testing.assert_allclose(values[-1], expected[-1], rtol=1e-5)
    else:
        np.testing.assert_array_equal(values[-1], expected[-1])

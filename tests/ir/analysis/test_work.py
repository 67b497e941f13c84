"""How much work programs are: counted by hand, and against what the interpreter does."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import drawn
import numpy as np
import pytest
import tilewright as tw
from tilewright import te
from tilewright.ir.analysis.footprint import LINE, access_box, line_bytes, lines_in_cache
from tilewright.ir.analysis.operations import Kind, count_operations
from tilewright.ir.analysis.work import Statement, Work, elementary, executions, measure_work
from tilewright.ir.buffer import Buffer
from tilewright.ir.dtype import INT64
from tilewright.ir.expr import BufferLoad, Expr, IntImm, Node
from tilewright.ir.interpret import interpreter
from tilewright.ir.ops import conjunction, const
from tilewright.ir.stmt import BufferStore, For, Function, If, Seq, Stmt
from tilewright.ir.text.parser import parse
from tilewright.ir.visit import children, rebuild
from tilewright.te.loops import compute_loops

# By hand


def matmul(n: int, m: int, k: int) -> te.Tensor:
    A, B = te.placeholder((n, k), name="A"), te.placeholder((k, m), name="B")
    r = te.reduce_axis((0, k), "r")
    return te.compute((n, m), lambda i, j: te.sum(A[i, r] * B[r, j], axis=r), name="C")


def declared(C: te.Tensor) -> Work:
    assert isinstance(C.op, te.ComputeOp)
    return measure_work(compute_loops(C.op.axis, C.op.body, C.op.outputs))


def test_a_declared_compute_is_as_much_work_as_its_loops_without_a_schedule() -> None:
    C = matmul(6, 7, 8)
    lowered = measure_work(tw.lower(te.create_schedule(C), [*C.op.input_tensors, C]))
    for work in (declared(C), lowered):
        assert [loop.iterations.value for loop in work.all_loops()] == [1, 6, 42, 336]
        assert work.operations.value == 2 * 336
        assert work.bytes.value == 4 * (6 * 8 + 8 * 7 + 6 * 7)
        assert work.all_loops()[3].bytes.value == 4 * (8 + 8 + 1)


def test_operations_are_told_apart_by_kind_function_and_type() -> None:
    A, H = te.placeholder((8,), name="A"), te.placeholder((8,), "float16", name="H")

    def value(i: te.Var) -> Expr:
        x = te.exp(A[i]) / 3.0
        return te.if_then_else(i < 4, x * x + H[i].astype("float32"), te.max(A[i], 0.0))

    B = te.compute((8,), value, name="B")
    (statement,) = declared(B).all_statements()
    counts = {
        (operator.kind, operator.name, str(operator.dtype)): count
        for operator, count in statement.operations.values.items()
        if operator.kind is not Kind.OPERAND
    }
    assert counts == {
        (Kind.CHOICE, "IfThenElse", "float32"): 1,
        (Kind.ARITHMETIC, "Mul", "float32"): 1,
        (Kind.ARITHMETIC, "Add", "float32"): 1,
        (Kind.ARITHMETIC, "Max", "float32"): 1,
        (Kind.DIVISION, "Div", "float32"): 1,
        (Kind.CALL, "exp", "float32"): 1,
        (Kind.CONVERSION, "Cast", "float32"): 1,
        (Kind.LOAD, "ProducerLoad", "float32"): 2,
        (Kind.LOAD, "ProducerLoad", "float16"): 1,
    }
    assert {operator.name for operator in statement.operations.conditions} == {"LT", "IterVar", "IntImm"}
    assert not statement.operations.is_exact and elementary(statement.operations) == 5


def test_a_value_that_occurs_often_is_computed_once_and_counted_in_linear_time() -> None:
    x: Any = te.var("x", "float32")
    for _ in range(200):  # written out: 2 ** 200 sums
        x = x + x
    assert count_operations([x]).values.number(Kind.ARITHMETIC) == 200


def test_symbols_stay_symbols_or_take_values() -> None:
    n, m = te.var("n"), te.var("m")
    A = te.placeholder((n, m), name="A")
    k = te.reduce_axis((0, m), "k")
    B = te.compute((n,), lambda i: te.sum(A[i, k], axis=k), name="B")
    assert str(declared(B).operations) == "m·n" and str(declared(B).bytes) == "4·m·n + 4·n"
    assert isinstance(B.op, te.ComputeOp)
    work = measure_work(compute_loops(B.op.axis, B.op.body, B.op.outputs), {n: 5, m: 7})
    assert [times for _, times in executions(work, 1000)] == [1, 5, 35]
    assert [times for _, times in executions(declared(B), 10)] == [1, 10, 100]


def footprint(shape: tuple[int, ...], index: Callable[..., Any], extents: tuple[int, ...]) -> tuple[int | None, bool]:
    """The elements of a tensor that a loop nest touches, and whether that is exact."""
    A = te.placeholder(shape, name="A")
    work = declared(
        te.compute(extents, lambda *axes: A(*index(*axes)) if isinstance(index(*axes), tuple) else A[index(*axes)])
    )
    (size,) = (size for array, size in work.touched.items() if array is A)
    assert size.value is not None and size.value % 4 == 0
    return size.value // 4, size.is_exact


@pytest.mark.parametrize(
    ("shape", "index", "extents", "elements"),
    [
        ((100,), lambda i, j: i * 8 + j, (4, 8), (32, True)),
        ((100,), lambda i, j: i + j, (10, 3), (12, True)),
        ((100,), lambda i: i * 3, (10,), (28, True)),  # a box: 9 steps of 3, and itself
        ((10, 10), lambda i: (i, 9 - i), (10,), (100, True)),
        ((100,), lambda i: i // 4, (32,), (8, True)),
        ((100,), lambda i: i % 4, (32,), (4, True)),
        ((100,), lambda i: (i + 1) // 4, (32,), (9, True)),
        ((100,), lambda i: te.max(te.min(i - 1, 20), 0), (40,), (40, False)),
        ((20,), lambda i: te.max(te.min(i - 1, 19), 0), (40,), (20, True)),  # never more than there are
    ],
)
def test_footprints_of_single_accesses(
    shape: tuple[int, ...],
    index: Callable[..., Any],
    extents: tuple[int, ...],
    elements: tuple[int, bool],
) -> None:
    assert footprint(shape, index, extents) == elements


def touched(shape: tuple[int, ...], body: Callable[..., Any], extents: tuple[int, ...]) -> list[str]:
    """What each loop touches of A, outermost first, in elements."""
    A = te.placeholder(shape, name="A")
    work = declared(te.compute(extents, lambda *axes: body(A, *axes)))
    return [
        str(loop.touched[A])[:-1].rstrip("0123456789") + str((loop.touched[A].value or 0) // 4)
        for loop in work.all_loops()[1:]
    ]


def test_accesses_that_differ_in_constants_share_a_box_and_others_are_added() -> None:
    assert touched((100,), lambda A, i: A[i] + A[i + 1] + A[i + 2], (98,)) == ["100"]
    assert touched((1000,), lambda A, i: A[i] + A[i + 900], (50,)) == ["≤ 100"]
    clamped = lambda A, i: A[te.max(te.min(i, 19), 0)] + A[te.max(te.min(i + 1, 19), 0)]
    assert touched((20,), clamped, (10,)) == ["≤ 11"]
    assert touched((50, 40), lambda A, i, j: A[i, j] + A[j, i], (8, 8)) == ["≤ 128", "≤ 16"]


def test_what_is_read_from_memory_takes_as_many_values_as_there_are_places() -> None:
    A, I = te.placeholder((20, 30), name="A"), te.placeholder((20,), "int32", name="I")
    B = te.compute((5, 30), lambda i, j: A[I[i], j], name="B")
    root, _, inner = declared(B).all_loops()
    assert str(root.touched[A]) == "≤ 600" and str(inner.touched[A]) == "120" and root.touched[I].value == 20
    counting = parse(
        "def f(A: float32[100], n: int32[1], B: out float32[10]):\n    for i in 10:\n        n[0] = n[0] + 7\n"
        "        B[i] = A[n[0]]"
    )
    sizes = {array.name: str(size) for array, size in measure_work(counting).touched.items()}
    assert sizes == {"A": "≤ 400", "n": "4", "B": "40"}  # n changes: any element of A


def test_a_loop_that_begins_elsewhere_each_time_covers_more_than_its_trips() -> None:
    text = (
        "def f(A: float32[40], B: out float32[10]):\n    for i in 10:\n        for j in range(i * 2, extent=5):\n"
        "            B[i] = A[j]"
    )
    work = measure_work(parse(text))
    assert [str(loop.bytes) for loop in work.all_loops()] == ["132", "132", "24"]


def test_triangles_and_guards_are_upper_bounds() -> None:
    text = (
        "def f(A: float32[10, 10], B: out float32[10, 10]):\n    for i in 10:\n        for j in i + 1:\n"
        "            if A[i, j] > 0.0:\n                B[i, j] = A[i, j] + 1.0"
    )
    work = measure_work(parse(text))
    inner = work.all_loops()[-1]
    assert (str(inner.trips), str(inner.operations), str(inner.bytes)) == ("≤ 10", "≤ 100", "≤ 80")
    assert [statement.guards for statement in inner.statements] == [0, 1]
    begin, A = te.placeholder((9,), "int32", name="begin"), te.placeholder((60,), name="A")

    def row(i: Any) -> Any:  # as long as data say: its elements are A's
        k = te.reduce_axis((0, begin[i + 1] - begin[i]), "k")
        return te.sum(A[begin[i] + k], axis=k)

    assert declared(te.compute((8,), row)).all_loops()[-1].number(1024) == 60


def test_lines_are_counted_by_rows() -> None:
    A = te.placeholder((64, 64), name="A")
    (statement,) = declared(te.compute((64, 64), lambda i, j: A[j, i])).all_statements()
    read, i, j = statement.accesses[1], *(loop.var for loop in statement.loops)
    assert read.step(i) == 1 and read.step(j) == 64
    assert line_bytes(access_box(read, {j: 64}), read.bytes) == 64 * LINE
    assert line_bytes(access_box(read, {i: 16, j: 64}), read.bytes) == 64 * LINE
    assert line_bytes(access_box(read, {i: 32, j: 64}), read.bytes) == 64 * 2 * LINE


@pytest.mark.parametrize(("columns", "room"), [(1024, 4096), (512, 2048), (1040, 64), (528, 64), (1000, 64)])
def test_rows_that_begin_at_few_places_of_a_page_take_more_room(columns: int, room: int) -> None:
    """A cache keeps few lines of those whose addresses end alike, so that a column of a matrix fills it sooner."""
    assert lines_in_cache((100, 16), 4, 1, (100, columns), LINE, 4096) == (100 * LINE, 100 * room)
    together = lines_in_cache((100, columns), 4, 1, (100, columns), LINE, 4096)
    assert together == (100 * columns * 4, 100 * columns * 4), "rows behind each other"
    assert lines_in_cache((1, 16), 4, 1, (100, columns), LINE, 4096) == (LINE, LINE)


# Against the interpreter


class Counting:
    """A function that also counts: the iterations of each loop, the executions of each store, and the elements that each run
    of one loop touches."""

    def __init__(self, function: Function, work: Work, watched: Work) -> None:
        self.loops = [loop.loop for loop in work.all_loops()]
        self.statements = [one for one in work.all_statements() if isinstance(one.node, BufferStore)]
        self.watched = watched.loop
        self.runs = max(watched.runs.value or 0, 1) if watched.loop is not None else 1
        self.counts = Buffer("counts", (const(len(self.loops) + len(self.statements) + 1, INT64),), INT64)
        arrays = function.buffers
        self.seen = {
            buffer: Buffer(f"seen_{buffer.name}", (const(self.runs, INT64), *buffer.shape), INT64) for buffer in arrays
        }
        added = (self.counts, *self.seen.values())
        self.function = replace(
            function,
            params=(*function.params, *added),
            outputs=(*function.outputs, *added),
            body=self.visit(function.body),
        )

    def add_one(self, at: int) -> Stmt:
        place = (const(at, INT64),)
        return BufferStore(self.counts, BufferLoad(self.counts, place) + const(1, INT64), place)

    def visit(self, node: Any) -> Any:
        if isinstance(node, For):
            inner = For(
                node.var,
                node.begin,
                node.extent,
                node.kind,
                Seq((self.add_one(self.loops.index(node)), self.visit(node.body))),
            )
            return Seq((inner, self.add_one(len(self.loops) + len(self.statements)))) if node is self.watched else inner
        if isinstance(node, BufferStore):
            at = next(at for at, one in enumerate(self.statements) if one.node is node)
            return Seq((*self.marks(self.statements[at]), node, self.add_one(len(self.loops) + at)))
        if isinstance(node, Stmt):
            below: list[Node] = [self.visit(child) for child in children(node)]
            return rebuild(node, below)
        return node

    def marks(self, statement: Statement) -> list[Stmt]:
        """Notes what a statement touches in the run of the watched loop that it is in."""
        if self.watched is not None and self.watched not in statement.loops:
            return []
        run = BufferLoad(self.counts, (const(len(self.loops) + len(self.statements), INT64),))
        marks: list[Stmt] = []
        for access in statement.accesses:
            if access.indices and isinstance(access.array, Buffer) and access.array in self.seen:
                above = [index >= 0 for index in access.indices]
                below = [index < extent for index, extent in zip(access.indices, access.array.shape, strict=True)]
                mark = BufferStore(self.seen[access.array], const(1, INT64), (run, *access.indices))
                marks.append(If(conjunction(*above, *below), mark))
        return marks

    def run(self) -> tuple[list[int], list[int], dict[str, int]]:
        """Iterations of each loop, executions of each store, elements of each buffer that a run touched at most."""
        given = [
            np.zeros([extent.value for extent in buffer.shape if isinstance(extent, IntImm)], str(buffer.dtype))
            for buffer in self.function.buffers
        ]
        interpreter.run(self.function, given, check=False)
        counts = [int(count) for count in given[self.function.buffers.index(self.counts)]]
        elements = {
            buffer.name: int(given[self.function.buffers.index(seen)].reshape(self.runs, -1).sum(1).max(initial=0))
            for buffer, seen in self.seen.items()
        }
        return counts[: len(self.loops)], counts[len(self.loops) : -1], elements


def draw(rng: np.random.Generator) -> tuple[te.Schedule, list[te.Tensor]]:
    """A program of one or two computes and some primitives."""
    n, m = (int(size) for size in rng.integers(3, 14, 2))
    size = 2 * max(n, m) + 6
    A, I = te.placeholder((size, size), name="A"), te.placeholder((n,), "int32", name="I")
    d = int(rng.integers(0, 3))
    k = te.reduce_axis((0, int(rng.integers(1, 6))), "k")
    X: te.Tensor = [
        lambda: te.compute((n, m), lambda i, j: A[i, j] * 2.0 + A[i + d, j + 1], name="X"),
        lambda: te.compute((n, m), lambda i, j: A[2 * i + d, j] + A[2 * i, j + d], name="X"),
        lambda: te.compute(
            (n, m), lambda i, j: A[te.max(te.min(i + d - 1, n - 1), 0), j] - A[i, (j + d) % m], name="X"
        ),
        lambda: te.compute((n, m), lambda i, j: te.sum(A[i + k, j] * A[k, i], axis=k), name="X"),
        lambda: te.compute((n, m), lambda i, j: A[I[i], j // (d + 1)] + A[i // 2, j], name="X"),
        lambda: te.compute((n, m), lambda i, j: te.if_then_else(i < d, A[i, j] + 1.0, A[j, i]), name="X"),
    ][int(rng.integers(6))]()
    Y = te.compute((n, m - 1), lambda i, j: X[i, j] + X[i, j + 1] * 3.0, name="Y") if rng.random() < 0.6 else X
    s = te.create_schedule(Y)
    stage = s[Y]
    loops = list(stage.op.axis)
    for _ in range(int(rng.integers(0, 3))):
        at = int(rng.integers(len(loops)))
        loops[at : at + 1] = stage.split(loops[at], int(rng.integers(2, 6)))
    if len(loops) == 2 and rng.random() < 0.5:
        loops = list(stage.split(stage.fuse(*loops), int(rng.integers(2, 6))))
    stage.reorder(*(loops[at] for at in rng.permutation(len(loops))))
    if Y is not X and rng.random() < 0.6:
        s[X].compute_at(stage, loops[int(rng.integers(len(loops)))])
    args = [tensor for tensor in (A, I) if any(tensor in stage.op.input_tensors for stage in s.stages)]
    return s, [*args, Y]


@pytest.mark.parametrize("case", range(drawn.count(60, 3000)))
def test_counts_are_those_of_the_interpreter(case: int) -> None:
    rng = drawn.rng("work", case)
    s, args = draw(rng)
    function = tw.lower(s, args)
    work = measure_work(function)
    loops = work.all_loops()
    watched = loops[int(rng.integers(len(loops)))]
    counting = Counting(function, work, watched)
    iterations, executed, elements = counting.run()
    for loop, times in zip(loops[1:], iterations[1:], strict=True):
        most = loop.iterations.value
        assert most is not None and (times == most if loop.iterations.is_exact else times <= most), (
            f"{loop.loop}\n{function}"
        )
    done = sum(times * elementary(one.operations) for one, times in zip(counting.statements, executed, strict=True))
    assert work.operations.value is not None
    assert (
        done == work.operations.value
        if work.operations.is_exact and not any(one.guards for one in counting.statements)
        else done <= work.operations.value
    ), str(function)
    sizes = {array.name: size.value for array, size in watched.touched.items()}
    for name, count in elements.items():
        assert 4 * count <= (sizes.get(name) or 0), f"{name} in {watched.loop and watched.loop.var}\n{function}"

"""Parts of a search space, templates, and the schedules that the derived space consists of."""

from __future__ import annotations

import json

import drawn
import numpy as np
import pytest
import tilewright as tw
from tilewright import autotune, te, topi
from tilewright.autoschedule.errors import BadDefinition, UnknownPart
from tilewright.autoschedule.search.space import Config, Configurator, TemplateSpace, split_sizes
from tilewright.autotune import Task
from tilewright.autotune.errors import BadTemplate, NothingToTune, SymbolicShape, TargetCannotBeTuned
from tilewright.autotune.search import CandidateFactory, RandomSearch
from tilewright.ir.interpret import interpreter
from tilewright.ir.text.parser import parse
from tilewright.te import Tensor


@pytest.mark.parametrize(
    ("policy", "wanted"),
    [
        ("factors", {(-1, 1), (-1, 2), (-1, 3), (-1, 4), (-1, 6), (-1, 12)}),
        ("power2", {(-1, 1), (-1, 2), (-1, 4), (-1, 8)}),
        ("verbose", {(-1, 1), (-1, 2), (-1, 3), (-1, 4), (-1, 6), (-1, 8), (-1, 12)}),
    ],
)
def test_policies_of_splits(policy: str, wanted: set[tuple[int, ...]]) -> None:
    assert set(split_sizes(12, 2, policy, 12)) == wanted


def test_a_split_into_three_by_factors_is_every_factorisation() -> None:
    sizes = list(split_sizes(8, 3, "factors", 8))
    assert sorted(sizes) == sorted({(-1, a, b) for a in (1, 2, 4, 8) for b in (1, 2, 4, 8) if 8 % (a * b) == 0})


@pytest.mark.parametrize(("policy", "wanted"), [("factors", 63), ("power2", 36), ("verbose", 84)])
def test_inner_extents_together_are_at_most_the_extent(policy: str, wanted: int) -> None:
    sizes = list(split_sizes(224, 3, policy, 224))
    assert len(sizes) == len(set(sizes)) == wanted
    assert all(a * b <= 224 and (policy != "factors" or 224 % (a * b) == 0) for _, a, b in sizes)


def test_many_factors_are_found_soon() -> None:
    # As many as there are sums of four numbers that are 25.
    assert sum(1 for _ in split_sizes(1 << 25, 4, "factors", 1 << 25)) == 28 * 27 * 26 // 6


def test_filters_and_max_factor_narrow_a_split() -> None:
    cfg = Configurator()
    cfg.define_split("x", 64, policy="power2", num_outputs=2, max_factor=16, filter=lambda split: split.size[-1] > 2)
    assert [choice.size for choice in cfg.parts["x"].choices] == [(-1, 4), (-1, 8), (-1, 16)]  # pyright: ignore


def test_annotations_and_orders() -> None:
    i, j = te.compute((4, 4), lambda i, j: i + j).op.axis
    cfg = Configurator()
    cfg.define_annotate("a", [i, j], policy="try_unroll_vec")
    assert {choice.anns for choice in cfg.parts["a"].choices} == {  # pyright: ignore
        ("none", "none"),
        ("none", "unroll"),
        ("unroll", "unroll"),
        ("none", "vec"),
        ("unroll", "vec"),
    }
    cfg.define_reorder("o", [i, j])
    assert [choice.perm for choice in cfg.parts["o"].choices] == [(0, 1), (1, 0)]  # pyright: ignore


@pytest.mark.parametrize(
    ("define", "message"),
    [
        (
            lambda cfg: cfg.define_split("x", 8, policy="primes"),
            "TW0605: cannot define the part 'x'\n.*policy is 'primes'",
        ),
        (lambda cfg: cfg.define_knob("x", []), "TW0605.*'x'\n.*no choice is left"),
        (lambda cfg: [cfg.define_knob("x", [1]), cfg.define_knob("x", [2])], "TW0605.*'x'\n.*defined already"),
        (lambda cfg: cfg.define_annotate("x", [], policy="all"), "TW0605.*policy is 'all'"),
    ],
)
def test_definitions_that_say_nothing(define: object, message: str) -> None:
    with pytest.raises(BadDefinition, match=message):
        define(Configurator())  # pyright: ignore[reportCallIssue]


def test_an_unknown_part_is_an_error_that_lists_the_others() -> None:
    cfg = Configurator()
    cfg.define_knob("unroll", [1, 2])
    with pytest.raises(UnknownPart, match=r"TW0606: the space has no part 'enroll'(.|\n)*allowed: unroll"):
        cfg["enroll"]


def test_a_configuration_survives_json() -> None:
    config = Config("s", (("a", 3), ("b of c", "2 vectors of j")), (1.0, 2.5))
    again = Config.of(json.loads(json.dumps(config.plain())))
    assert again == config and again is not None and again.features == config.features
    for wrong in (
        None,
        {"sketch": "s", "choices": {"a": 3}},
        {"space": "s", "choices": {"a": 3.5}, "features": []},
        {"space": "s", "choices": {"a": True}, "features": []},
        {"space": "s", "choices": {}, "features": ["1"]},
        {"space": "s", "choices": {}, "features": [0.0] * 2000},
    ):
        assert Config.of(wrong) is None


@autotune.template("product")
def product(cfg: Configurator, n: int) -> tuple[te.Schedule, list[Tensor]]:
    a, b = (te.placeholder((n, n), name=name) for name in "AB")
    k = te.reduce_axis((0, n), name="k")
    c = te.compute((n, n), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="C")
    s = te.create_schedule(c)
    y, x = s[c].op.axis
    cfg.define_split("tile_x", x, num_outputs=2)
    cfg.define_knob("vectorize", [True, False])
    x_outer, x_inner = cfg["tile_x"].apply(s, c, x)
    cfg.define_reorder("order", [y, x_outer, k], policy="candidate", candidate=[(0, 1, 2), (1, 0, 2), (1, 2, 0)])
    cfg["order"].apply(s, c, [y, x_outer, s[c].op.reduce_axis[0]])
    if cfg["vectorize"].val:
        s[c].vectorize(x_inner)
    return s, [a, b, c]


def test_a_template_gives_a_task_whose_space_is_what_it_defines() -> None:
    task = product.task(12)
    space = task.space
    assert isinstance(space, TemplateSpace)
    assert [part.name for part in space.parts] == ["tile_x", "vectorize", "order"]
    assert space.size == 6 * 2 * 3
    schedule, args = product(12)
    assert [tensor.name for tensor in args] == ["A", "B", "C"]
    assert "for j.outer in 12" in str(schedule), "called, it takes the first choice of every part"
    chosen = space.make(Config(space.name, (("tile_x", 2), ("vectorize", 0), ("order", 1))))[0]
    assert "for j.inner in vectorized(3)" in str(chosen) or "for j.inner in vectorized(4)" in str(chosen)


def test_get_config_speaks_of_the_template_that_runs() -> None:
    @autotune.template("with get_config")
    def doubled(n: int):
        cfg = autotune.get_config()
        cfg.define_knob("unroll", [False, True])
        a = te.placeholder((n,), name="A")
        b = te.compute((n,), lambda i: a[i] * 2, name="B")
        s = te.create_schedule(b)
        if cfg["unroll"].val:
            s[b].unroll(s[b].op.axis[0])
        return s, [a, b]

    assert [part.name for part in doubled.task(8).space.parts] == ["unroll"]  # pyright: ignore[reportAttributeAccessIssue]
    with pytest.raises(BadTemplate, match="TW0607: there is no configuration here"):
        autotune.get_config()


def test_a_template_that_returns_no_schedule_is_an_error() -> None:
    with pytest.raises(BadTemplate, match=r"TW0607: the template half returned Tensor(.|\n)*return s, \[A, B, C\]"):
        autotune.template("half")(lambda: te.placeholder((4,))).task()


def test_what_cannot_be_tuned_says_why() -> None:
    n = te.var("n")
    a = te.placeholder((n,), name="A")
    b = te.compute((n,), lambda i: a[i] + 1, name="B")
    with pytest.raises(SymbolicShape, match=r"TW0602.*shape of A that is not known\n.*extent n"):
        Task.of([a, b])
    with pytest.raises(NothingToTune, match=r"TW0601(.|\n)*every tensor given is a placeholder"):
        Task.of([te.placeholder((4,))])
    with pytest.raises(NothingToTune, match="TW0601"):
        Task.of("matmul")
    c = te.placeholder((4,), name="C")
    with pytest.raises(TargetCannotBeTuned, match=r"TW0603.*'interpret'"):
        Task.of([c, te.compute((4,), lambda i: c[i] + 1)], target="interpret")


# Spaces of decisions: tests/autoschedule/search/test_decisions.py says more


def matmul() -> list[Tensor]:
    a, b = te.placeholder((9, 20), name="A"), te.placeholder((20, 18), name="B")
    k = te.reduce_axis((0, 20), name="k")
    c = te.compute((9, 18), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="C")
    return [a, b, c]


def dense_with_tail() -> list[Tensor]:
    x, w, bias = (
        te.placeholder((10, 16), name="x"),
        te.placeholder((24, 16), name="w"),
        te.placeholder((24,), name="bias"),
    )
    k = te.reduce_axis((0, 16), name="k")
    y = te.compute((10, 24), lambda i, j: te.sum(x[i, k] * w[j, k], axis=k), name="y")
    z = te.compute((10, 24), lambda i, j: y[i, j] + bias[j], name="z")
    return [x, w, bias, te.compute((10, 24), lambda i, j: te.max(z[i, j], 0.0), name="relu")]


def convolution() -> list[Tensor]:
    data, kernel = te.placeholder((1, 4, 9, 9), name="data"), te.placeholder((8, 4, 3, 3), name="kernel")
    padded = te.compute(
        (1, 4, 11, 11),
        lambda n, c, y, x: te.if_then_else(te.all(y >= 1, y < 10, x >= 1, x < 10), data[n, c, y - 1, x - 1], 0.0),
        name="padded",
    )
    c, dy, dx = te.reduce_axis((0, 4), "c"), te.reduce_axis((0, 3), "dy"), te.reduce_axis((0, 3), "dx")
    return [
        data,
        kernel,
        te.compute(
            (1, 8, 9, 9),
            lambda n, o, y, x: te.sum(padded[n, c, y + dy, x + dx] * kernel[o, c, dy, dx], axis=[c, dy, dx]),
            name="conv",
        ),
    ]


def softmax() -> list[Tensor]:
    a = te.placeholder((12, 40), name="A")
    k1, k2 = te.reduce_axis((0, 40), "k1"), te.reduce_axis((0, 40), "k2")
    m = te.compute((12,), lambda i: te.max(a[i, k1], axis=k1), name="m")
    e = te.compute((12, 40), lambda i, j: te.exp(a[i, j] - m[i]), name="e")
    z = te.compute((12,), lambda i: te.sum(e[i, k2], axis=k2), name="z")
    return [a, te.compute((12, 40), lambda i, j: e[i, j] / z[i], name="softmax")]


def column_sums() -> list[Tensor]:
    a = te.placeholder((33, 24), name="A")
    k = te.reduce_axis((0, 33), "k")
    return [a, te.compute((24,), lambda j: te.sum(a[k, j], axis=k), name="sums")]


def whole_sum() -> list[Tensor]:
    a = te.placeholder((300,), name="A")
    k = te.reduce_axis((0, 300), "k")
    return [a, te.compute((1,), lambda i: te.sum(a[k], axis=k), name="total")]


def stencil() -> list[Tensor]:
    a = te.placeholder((20, 21, 3), name="A")
    b = te.compute((20, 19, 3), lambda y, x, c: a[y, x, c] + a[y, x + 1, c] + a[y, x + 2, c], name="b")
    return [a, te.compute((18, 19, 3), lambda y, x, c: b[y, x, c] + b[y + 1, x, c] + b[y + 2, x, c], name="blur")]


def argmax() -> list[Tensor]:
    a = te.placeholder((6, 40), name="A")
    reducer = te.comm_reducer(
        lambda x, y: (
            te.if_then_else(te.any(x[1] > y[1], te.all(x[1].equal(y[1]), x[0] < y[0])), x[0], y[0]),
            te.max(x[1], y[1]),
        ),
        lambda t0, t1: (te.const(-1, t0), te.min_value(t1)),
        name="argmax",
    )
    k = te.reduce_axis((0, 40), "k")
    index, value = te.compute((6,), lambda i: reducer((k.astype("int32"), a[i, k]), axis=k), name="argmax")
    return [a, index, value]


def microkernel() -> list[Tensor]:
    """A matmul by a tensor intrinsic, whose own loops stay."""
    k = te.reduce_axis((0, 6), "k")
    a, b = te.placeholder((20, 12), name="A"), te.placeholder((3, 12, 4), name="B")
    packed = te.compute((5, 12, 4), lambda io, r, ii: a[io * 4 + ii, r], name="packed")
    kernel = te.intrinsics.get("vector.outer_product_4x4", 2)
    tiles = te.compute(
        (5, 3, 4, 4),
        lambda i, j: kernel(packed[i, k * 2 : k * 2 + 2], b[j, k * 2 : k * 2 + 2], reduce_axis=k),
        name="tiles",
    )
    return [a, b, te.compute((20, 12), lambda i, j: tiles[i // 4, j // 4, i % 4, j % 4] + 1, name="c")]


def operators() -> list[Tensor]:
    """What has a rule by its name, which is one of several ways then."""
    x, w = te.placeholder((1, 3, 7, 9), name="x"), te.placeholder((9, 3, 3, 3), name="w")
    return [x, w, topi.nn.relu(topi.nn.conv2d(x, w, 1, 1))]


def chain() -> list[Tensor]:
    """Stencils of stencils, which are computed tile by tile."""
    a = te.placeholder((40, 67), name="A")
    b = te.compute((40, 63), lambda y, x: te.exp(a[y, x] / 64) + te.exp(a[y, x + 4] / 64), name="b")
    c = te.compute((36, 63), lambda y, x: b[y, x] * b[y + 2, x] + b[y + 4, x] * b[y + 1, x] + b[y + 3, x], name="c")
    return [a, te.compute((36, 61), lambda y, x: c[y, x] + c[y, x + 1] * c[y, x + 2], name="d")]


PROGRAMS = [
    operators,
    chain,
    matmul,
    dense_with_tail,
    convolution,
    softmax,
    column_sums,
    whole_sum,
    stencil,
    argmax,
    microkernel,
]


def evaluate(function: tw.Function, tensors: list[Tensor], seed: int) -> list[np.ndarray]:
    """Every array after the interpreter has run the function on drawn inputs."""
    rng = np.random.default_rng(seed)
    shapes = [tuple(int(extent) for extent in tensor.shape) for tensor in tensors]  # pyright: ignore[reportArgumentType]
    arrays = [
        rng.integers(-8, 8, shape).astype(str(tensor.dtype)) for shape, tensor in zip(shapes, tensors, strict=True)
    ]
    interpreter.run(function, arrays)
    return arrays


@pytest.mark.parametrize("program", drawn.part(PROGRAMS, 5), ids=lambda program: program.__name__)
def test_drawn_candidates_compute_what_the_unscheduled_program_does(program: object) -> None:
    tensors: list[Tensor] = program()  # pyright: ignore[reportCallIssue]
    task = Task.of(tensors)
    factory = CandidateFactory(task)
    rng = drawn.rng(f"autotune {task.name}")
    wanted = evaluate(task.unscheduled, tensors, 0)
    found = RandomSearch(task, factory, rng).propose(drawn.count(4, 60), [], set())
    assert len(found) >= min(4, sum(1 for _ in task.space.begin())), "neighbours of the rules' choice at least"
    for candidate in found:
        got = evaluate(parse(candidate.text), tensors, 0)
        for one, other in zip(got, wanted, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-5, err_msg=str(candidate.config))
    assert not factory.dropped, factory.first_message


def test_candidates_replay_on_other_tensors_of_the_same_make() -> None:
    task, twin = Task.of(matmul()), Task.of(matmul())
    (candidate,) = RandomSearch(task, CandidateFactory(task), np.random.default_rng(3)).propose(1, [], set())
    schedule = twin.replay(te_records(candidate.records))
    lowered = tw.lower(schedule, twin.args)
    assert str(lowered) == candidate.text


def te_records(text: str):
    from tilewright.schedule import from_json

    return from_json(text)


def test_keys_do_not_know_names_but_know_everything_else() -> None:
    def doubled(name: str, extent: int, dtype: str) -> Task:
        a = te.placeholder((extent,), dtype, name=name)
        return Task.of([a, te.compute((extent,), lambda i: a[i] + a[i], name=name + "2")])

    one = doubled("A", 32, "float32").key
    assert doubled("other", 32, "float32").key == one
    assert doubled("A", 33, "float32").key != one
    assert doubled("A", 32, "float64").key != one
    assert "tilewright" in one.versions and "thread" in one.machine and "llvm" in one.target

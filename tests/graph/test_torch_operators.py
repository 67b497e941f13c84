"""torch's operators that look up, transform or compare: what the reference gives against torch, at odd sizes."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tilewright as tw

torch: Any = pytest.importorskip("torch", reason="torch, which exports the programs, is not installed")
F: Any = torch.nn.functional


class Module(torch.nn.Module):  # type: ignore[misc]
    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *tensors: Any) -> Any:
        return self.function(*tensors)


class Recurrent(torch.nn.Module):  # type: ignore[misc]
    def __init__(self, kind: str, **how: Any) -> None:
        super().__init__()
        self.layers = getattr(torch.nn, kind)(5, 4, **how)

    def forward(self, x: Any) -> Any:
        whole, last = self.layers(x)
        return (whole, *last) if isinstance(last, tuple) else (whole, last)


def check(module: Any, *tensors: Any) -> None:
    """The reference, which machine code is compared with elsewhere, agrees with torch."""
    with torch.no_grad():
        expected = module(*(one.clone() for one in tensors))
    results = tw.graph.from_torch(module.eval(), tensors).run(*(one.numpy() for one in tensors))
    for ours, theirs in zip(results, expected if isinstance(expected, (tuple, list)) else [expected], strict=True):
        assert (ours.shape, str(ours.dtype)) == (tuple(theirs.shape), str(theirs.numpy().dtype))
        np.testing.assert_allclose(ours, theirs.numpy(), rtol=1e-4, atol=1e-5)


def normal(*shape: int) -> Any:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(sum(shape)))


def pairs(x: Any) -> Any:
    """Pairs as complex numbers."""
    return torch.view_as_complex(x)


FUNCTIONS: list[tuple[Callable[..., Any], list[Any]]] = [
    (
        lambda x, g: F.grid_sample(x, g, "bicubic", "border", align_corners=False),
        [normal(2, 3, 5, 7), normal(2, 4, 3, 2)],
    ),
    (lambda t: F.affine_grid(t, (2, 1, 4, 5), align_corners=False), [normal(2, 2, 3)]),
    (lambda x: (x.narrow(0, 1, 2), x.narrow(-1, -2, 1), x.expand(2, 4, 3).narrow(0, 0, 1)), [normal(4, 3)]),
    (lambda x: F.unfold(x, (3, 2), (1, 2), (1, 0), (2, 1)), [normal(2, 3, 7, 9)]),
    (lambda x: F.fold(x, (7, 9), (3, 2), 1, 0, (2, 1)), [normal(2, 18, 24)]),
    (lambda x: F.max_unpool2d(*F.max_pool2d(x, 2, 2, return_indices=True), 2, 2), [normal(2, 3, 6, 8)]),
    (lambda x: F.adaptive_max_pool2d(x, (3, 2)), [normal(1, 2, 7, 9)]),
    (
        lambda a, b: (
            torch.multiply(a, b),
            torch.divide(a, b, rounding_mode="floor"),
            torch.subtract(a, b, alpha=2),
            a.greater(b),
            torch.less_equal(a, 0.5),
            torch.arctan2(a, b),
            a.clone().multiply_(b),
            torch.special.expit(a),
            torch.fix(3 * a),
            torch.clip(a, -0.5, 0.25),
            a.negative().true_divide(b),
        ),
        [normal(3, 5), normal(5)],
    ),
    (
        lambda a, b: (torch.min(a, b), torch.max(a, b), torch.hypot(a, b), torch.logaddexp(a, b), torch.copysign(a, b)),
        [normal(3, 5), normal(5)],
    ),
    (
        lambda a: (
            torch.frac(a),
            torch.rad2deg(a),
            torch.erfc(a),
            torch.logit(torch.sigmoid(a), 1e-3),
            torch.signbit(a),
        ),
        [normal(3, 5)],
    ),
    (
        lambda a, b: (
            F.smooth_l1_loss(a, b, beta=0.5),
            F.huber_loss(a, b, delta=0.7),
            F.kl_div(F.log_softmax(a, 1), F.softmax(b, 1)),
            F.binary_cross_entropy(torch.sigmoid(a), torch.sigmoid(b)),
        ),
        [normal(3, 5), normal(3, 5)],
    ),
    (
        lambda a, b: (torch.searchsorted(a, b, right=True), torch.bucketize(b, a), torch.isin(b, a)),
        [torch.arange(7.0), normal(3, 4).round()],
    ),
    (
        lambda a: (torch.diagonal(a, 1, 0, 2), torch.trace(a[0]), torch.diag(a[0, 0], 1), torch.diag_embed(a, -1)),
        [normal(4, 5, 6)],
    ),
    (
        lambda a, b: (
            torch.select_scatter(a, b, 1, 2),
            torch.slice_scatter(a, b[:, None], 1, 1, 2),
            *torch.meshgrid(a[0], b),
        ),
        [normal(3, 5), normal(3)],
    ),
    (
        lambda a: (
            *torch.aminmax(a, dim=1),
            torch.count_nonzero(a > 0, 1),
            *torch.median(a, 1),
            torch.linalg.det(a[:, :4]),
        ),
        [normal(4, 4, 5).transpose(1, 2)[..., :4].contiguous()],
    ),
    (
        lambda x: [
            F.interpolate(x, size, mode=mode, align_corners=align, antialias=True)
            for size in ((2, 7), (9, 3), (1, 3))
            for mode in ("bilinear", "bicubic")
            for align in (False, True)
        ],
        [normal(1, 2, 5, 4)],
    ),
    (
        lambda x: (
            *x.sort(0, descending=True),
            x.argsort(dim=1, descending=True, stable=True),
            *x.topk(2, 0),
            *torch.median(x, 1),
            torch.sign(x),
            torch.sgn(x),
            F.softshrink(x),
            F.hardshrink(x),
            F.threshold(x, 0.5, 2.0),
        ),
        [torch.tensor([[1.0, math.nan, -2.0], [0.25, 3.0, 4.0], [math.nan, 0.5, -0.5]])],
    ),
    (
        lambda x: (
            torch.lerp(x, x.flip(0), 0.75),
            torch.round(x, decimals=1),
            torch.round(x * 100, decimals=-2),
            torch.take_along_dim(x, torch.tensor([4, 0])),
            torch.remainder(5, x.abs() + 1),
            *torch.ops.aten.native_layer_norm(x, [3], None, None, 1e-5),
        ),
        [normal(2, 3)],
    ),
    (lambda v, g: torch._weight_norm(v, g, 2), [normal(4, 3, 5), normal(1, 1, 5)]),
    (
        lambda a, b: (torch.cdist(a, b), F.pairwise_distance(a[:, :3], b), torch.linalg.cross(a[:, :3], b)),
        [normal(2, 4, 3), normal(2, 3, 3)],
    ),
    (
        lambda x: (
            torch.fft.fftn(x, dim=(-2, -1)).real,
            torch.fft.rfft(x, n=13).imag,
            torch.fft.ifft2(torch.fft.fft2(x)).real,
            torch.fft.irfftn(torch.fft.rfftn(x, norm="ortho"), norm="ortho"),
            torch.fft.fftshift(torch.fft.fft(x).abs()),
            torch.fft.irfft(torch.fft.rfft(x, norm="forward"), n=10, norm="forward"),
        ),
        [normal(3, 7, 12)],
    ),
    (
        lambda x: (
            torch.stft(x, 16, 5, 12, torch.hann_window(12), return_complex=True).abs(),
            torch.view_as_real(
                torch.stft(
                    x,
                    9,
                    center=False,
                    normalized=True,
                    window=torch.hamming_window(9, periodic=False),
                    return_complex=True,
                )
            ),
        ),
        [normal(2, 61)],
    ),
    (
        lambda a, b: torch.view_as_real(
            torch.stack(
                [
                    pairs(a) * pairs(b),
                    pairs(a) / pairs(b),
                    pairs(a) + pairs(b),
                    pairs(a) - 2 * pairs(b),
                    pairs(a).conj() * 3 + 1,
                    torch.exp(pairs(a)),
                    pairs(a) * pairs(a),
                    pairs(a) / 3,
                    torch.polar(a[..., 0].abs(), b[..., 1]),
                    b[..., 0] + pairs(a),
                    torch.complex(a[..., 0], b[..., 1]) * a[..., 0],
                ]
            )
        ),
        [normal(3, 5, 2), normal(5, 3, 2).reshape(3, 5, 2)],
    ),
    (
        lambda a, b: (
            torch.view_as_real(
                torch.cat([pairs(a) @ pairs(b).mT, torch.einsum("ij,kj->ik", pairs(a), pairs(b).conj())]).t()
            ),
            pairs(a).angle(),
            pairs(a).abs(),
            torch.view_as_real(pairs(a).reshape(-1)[1:4].flip(0).sum()),
        ),
        [normal(3, 5, 2), normal(4, 5, 2)],
    ),
    (lambda x: (x.clone().unsqueeze_(1).squeeze_(1).t_(), x.clone().transpose_(0, 1) + 1), [normal(3, 4)]),
    (
        lambda x, w: (
            F.embedding_bag(x, w, mode="sum"),
            F.embedding_bag(x, w, mode="mean", padding_idx=2),
            F.embedding_bag(
                x.reshape(-1),
                w,
                torch.tensor([0, 0, 5]),
                per_sample_weights=w[:1].expand(8, 5)[:, 0].contiguous(),
                mode="sum",
            ),
        ),
        [torch.tensor([[1, 2, 0, 2], [2, 2, 2, 2]]), normal(3, 5)],
    ),
    (lambda x: (*torch.tensor_split(x, 3), *torch.tensor_split(x, (2, -1), 1), *x.hsplit([4])), [normal(7, 5)]),
]


@pytest.mark.parametrize("at", range(len(FUNCTIONS)))
def test_operators(at: int) -> None:
    function, tensors = FUNCTIONS[at]
    check(Module(function), *tensors)


@pytest.mark.parametrize("kind", ["LSTM", "GRU", "RNN"])
def test_recurrent_layers(kind: str) -> None:
    check(Recurrent(kind, num_layers=2, bidirectional=True, batch_first=True), normal(2, 3, 5))
    check(Recurrent(kind, bias=False), normal(3, 1, 5))


def test_a_step_of_a_recurrent_layer() -> None:
    for kind, states in (("LSTMCell", 2), ("GRUCell", 1), ("RNNCell", 1)):
        given = [normal(3, 4) + at for at in range(states)]
        cell = getattr(torch.nn, kind)(5, 4)
        check(Module(lambda x, *s, cell=cell, many=states > 1: cell(x, s if many else s[0])), normal(3, 5), *given)


class Filter(torch.nn.Module):  # type: ignore[misc]
    """A global filter of an image, with a complex parameter and a complex buffer."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(pairs(normal(7, 5, 2)))
        self.register_buffer("turns", torch.polar(torch.ones(7, 1), normal(7, 1)))

    def forward(self, x: Any) -> Any:
        return torch.fft.irfft2(torch.fft.rfft2(x, norm="ortho") * self.weight * self.turns, s=(7, 8), norm="ortho")


def test_complex_weights_are_pairs_and_what_is_built_agrees() -> None:
    x = normal(2, 7, 8)
    check(Filter(), x)
    assert tw.build(tw.graph.from_torch(Filter().eval(), (x,))).verify(x.numpy())


def test_a_transform_of_an_open_length() -> None:
    function = Module(lambda x: torch.fft.rfft(x).abs())
    size = torch.export.Dim("n", min=2)
    g = tw.graph.from_torch(torch.export.export(function, (normal(3, 8),), dynamic_shapes=(({1: size},),)))
    m = tw.build(g)
    for n in (2, 9, 64, 101):
        np.testing.assert_allclose(
            m(normal(3, n).numpy()), torch.fft.rfft(normal(3, n)).abs().numpy(), rtol=1e-4, atol=1e-4
        )


def test_numbers_that_are_only_asserted_are_not_computed_and_others_are_measured() -> None:
    def parts(x: Any, sizes: Any) -> Any:
        torch._check(sizes.sum().item() <= 7)
        first, last = torch.split(x, sizes.tolist())
        return first.sum(0) * last.mean(0)

    x, sizes = normal(7, 3), torch.tensor([2, 5])
    g = tw.graph.from_torch(Module(parts).eval(), (x, sizes))
    for each in (sizes, torch.tensor([4, 3])):
        np.testing.assert_allclose(g.run(x.numpy(), each.numpy())[0], parts(x, each).numpy(), rtol=1e-5, atol=1e-5)


def test_a_recurrent_layer_is_machine_code() -> None:
    x = normal(6, 2, 5)
    g = tw.graph.from_torch(Recurrent("LSTM").eval(), (x,))
    assert [node.operator for node in g.nodes].count("loop") == 1
    assert tw.build(g).verify(x.numpy())


def grown(x: Any, steps: Any) -> Any:
    """x doubled, so often, by torch's loop."""
    from torch._higher_order_ops.while_loop import while_loop

    return while_loop(lambda i, y: i < steps, lambda i, y: (i + 1, y * 2 + i), (torch.zeros((), dtype=torch.int64), x))[
        1
    ]


def summed(x: Any, w: Any) -> Any:
    """Running sums of rows, each times w, by torch's scan."""
    from torch._higher_order_ops.scan import scan

    return scan(lambda total, row: (total + row @ w, total * row), torch.zeros(4), x)


def projected(x: Any, w: Any) -> Any:
    """Each matrix by torch's map."""
    from torch._higher_order_ops.map import map as mapped

    return mapped(lambda part, w: (part @ w).relu(), x, w)


def chosen(x: Any, w: Any) -> Any:
    """A branch in a branch, of which one reads what the other does not."""

    def inner(x: Any, w: Any) -> Any:
        return torch.cond(w.sum() > 0, lambda x: x.relu(), lambda x: -x, (x,))

    return torch.cond(x.sum() > 0, inner, lambda x, w: x * w, (x, w))


@pytest.mark.parametrize(
    ("function", "operator", "calls"),
    [
        (
            chosen,
            "if",
            [(normal(3, 4), normal(4)), (-normal(3, 4).abs(), normal(4)), (normal(3, 4).abs(), -normal(4).abs())],
        ),
        (grown, "loop", [(normal(5), torch.tensor(3)), (normal(5), torch.tensor(0))]),
        (summed, "loop", [(normal(7, 4), normal(4, 4))]),
        (projected, "loop", [(normal(5, 3, 4), normal(4, 2))]),
    ],
)
def test_control_flow_of_torch_is_nodes_with_graphs_inside(function: Any, operator: str, calls: list[Any]) -> None:
    module = Module(function).eval()
    g = tw.graph.from_torch(module, calls[0])
    assert operator in [node.operator for node in g.nodes] and tw.graph.parse(str(g)) == g
    m = tw.build(g)
    for tensors in calls:
        arrays = [one.numpy() for one in tensors]
        expected = module(*tensors)
        made, results = m(*arrays), g.run(*arrays)
        for ours, again, theirs in zip(
            made if isinstance(made, list) else [made],
            results,
            expected if isinstance(expected, tuple) else [expected],
            strict=True,
        ):
            np.testing.assert_allclose(ours, theirs.numpy(), rtol=1e-4, atol=1e-5)
            np.testing.assert_allclose(again, theirs.numpy(), rtol=1e-4, atol=1e-5)


def test_what_a_branch_has_that_is_not_supported_is_listed() -> None:
    module = Module(lambda x: torch.cond(x.sum() > 0, lambda x: torch.special.bessel_j0(x), lambda x: x + 1, (x,)))
    with pytest.raises(tw.GraphError, match=r"TW0912.*\n.*special_bessel_j0"):
        tw.graph.from_torch(module, (normal(3),))


def test_orders_along_an_open_dimension() -> None:
    def function(x: Any) -> Any:
        values, places = x.sort(dim=0, descending=True)
        return values, places, x.argsort(dim=-1, stable=True), x.flatten().sort().values

    dims = torch.export.Dim.DYNAMIC
    g = tw.graph.from_torch(Module(function), (normal(3, 4),), dynamic_shapes=(({0: dims, 1: dims},),))
    assert isinstance(g, tw.graph.Graph)
    m = tw.build(g)
    for shape in ((5, 7), (2, 3), (4, 80)):
        x = normal(*shape).round(decimals=1)
        for got, computed, expected in zip(m(x.numpy()), g.run(x.numpy()), function(x), strict=True):
            if expected.dtype == torch.float32:
                np.testing.assert_array_equal(got, expected.numpy())
            np.testing.assert_array_equal(got, computed)


def test_spreads_and_turns_over_open_dimensions() -> None:
    def function(x: Any) -> Any:
        return x.std(0), x.var(1, correction=0), torch.fft.fftshift(x), x[:, None].squeeze()

    dims = torch.export.Dim.DYNAMIC
    g = tw.graph.from_torch(Module(function), (normal(3, 4),), dynamic_shapes=(({0: dims, 1: dims},),))
    for shape in ((5, 7), (2, 3)):
        x = normal(*shape)
        for got, expected in zip(g.run(x.numpy()), function(x), strict=True):
            np.testing.assert_allclose(got, expected.numpy(), rtol=1e-4, atol=1e-5)
    with pytest.raises(tw.GraphError, match="TW0906"):  # which would lose a dimension that has a name
        g.run(normal(1, 3).numpy())


def test_slices_from_an_end_that_is_open_are_not_from_zero() -> None:
    """x[:, -0:] would be all of x, and x[:, :-0] nothing."""
    dims = torch.export.Dim.DYNAMIC
    for function in (lambda x, y: x[:, -y.shape[0] :], lambda x, y: x[:, : -y.shape[0]]):
        shapes = (({}, {0: dims}),)
        g = tw.graph.from_torch(Module(function), (normal(2, 6), normal(3)), dynamic_shapes=shapes)
        x = normal(2, 6)
        np.testing.assert_array_equal(g.run(x.numpy(), normal(2).numpy())[0], function(x, normal(2)).numpy())
        with pytest.raises(tw.GraphError, match="TW0906"):
            g.run(x.numpy(), np.zeros(0, "float32"))


@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
@pytest.mark.parametrize("antialias", [False, True])
def test_bytes_are_resized_with_bytes_between_dimensions(mode: str, antialias: bool) -> None:
    """Torch's weights are whole numbers over a power of two: a byte in some dozens is the next one."""
    module = Module(lambda x: torch.nn.functional.interpolate(x, (9, 31), mode=mode, antialias=antialias))
    x = torch.randint(0, 256, (1, 3, 17, 20), dtype=torch.uint8)
    found = tw.graph.from_torch(module, (x,)).run(x.numpy())[0]
    far = np.abs(found.astype(int) - module(x).numpy().astype(int))
    assert far.max() <= 1 and (far > 0).mean() < 0.1

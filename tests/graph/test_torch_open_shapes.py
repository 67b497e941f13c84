"""from_torch: programs whose sizes are not known, at sizes beside those that they were exported at; and operators made of others."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tilewright as tw

torch: Any = pytest.importorskip("torch", reason="torch is not installed")
F: Any = torch.nn.functional


class Module(torch.nn.Module):
    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *given: Any) -> Any:
        return self.function(*given)


def agrees(function: Callable[..., Any], *sizes: Any, dynamic: Any = None, tolerance: float = 1e-5) -> Any:
    """The built graph gives what torch gives, for each list of arguments; exported with the first one."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        program = torch.export.export(
            Module(function), sizes[0], dynamic_shapes=None if dynamic is None else (tuple(dynamic),), strict=False
        )
        g = tw.graph.from_torch(program)
    m = tw.build(g)
    for given in sizes:
        wanted = function(*given)
        wanted = list(wanted) if isinstance(wanted, (tuple, list)) else [wanted]
        found = m(*given)
        for one, other in zip(found if isinstance(found, list) else [found], wanted, strict=True):
            assert one.shape == tuple(other.shape)
            np.testing.assert_allclose(one, other.detach().numpy(), rtol=tolerance, atol=tolerance)
    return g


def assigned(where: Any, value: Any) -> Callable[[Any], Any]:
    def program(x: Any) -> Any:
        y = x.clone()
        y[where] = value
        return y

    return program


def backwards(x: Any) -> Any:
    half = (x.shape[1] - 3) // 2 + 1
    places = torch.arange(half - 1, -half, -1.0)[:, None] * torch.arange(8)
    return places.view(2 * half - 1, 4, -1).permute(1, 0, 2) + x.sum()


def in_chunks(x: Any) -> Any:
    parts = F.pad(x, (0, (4 - x.shape[1] % 4) % 4))
    parts = parts.reshape(x.shape[0], parts.shape[1] // 4, 4)
    return parts[..., None].expand(*parts.shape, parts.shape[-1]) + torch.ones(parts.shape[-1], parts.shape[-1]).tril()


def written_in_parts(x: Any) -> Any:
    y = x.clone()
    part = y[:, 1:]
    part *= 2
    y.t()[0].add_(1)
    y[y > 1] = 0
    y[torch.arange(6), torch.arange(6) % 3] = 7.0
    return y, part


OPEN = torch.export.Dim.DYNAMIC
AUTO = torch.export.Dim.AUTO
COLUMNS: dict[str, Callable[[Any], Any]] = {
    "last": lambda x: x[:, x.shape[1] - 1],
    "middle": lambda x: x[:, x.shape[1] // 2],
    "root": lambda x: x / x.shape[1] ** 0.5 + x.shape[1] ** 2,
    "symbolic root": lambda x: x * (1.0 / torch.sym_sqrt(x.shape[1])),
    "topk": lambda x: torch.topk(x, x.shape[1] // 2, 1),
    "roll": lambda x: torch.roll(x, x.shape[1] // 2, 1) + torch.roll(x, 3, 1),
    "eye": lambda x: x @ torch.eye(x.shape[1]) + x @ torch.eye(x.shape[1], x.shape[1]),
    "median": lambda x: x.median(1)[0],
    "irfft": lambda x: torch.fft.irfft(torch.fft.rfft(x, n=2 * x.shape[1]), n=2 * x.shape[1])[:, : x.shape[1]],
    "irfft of as many": lambda x: torch.fft.irfft(torch.fft.rfft(x, norm="ortho"), n=x.shape[1], norm="ortho"),
    "irfft of fewer": lambda x: torch.fft.irfft(torch.fft.rfft(x), n=x.shape[1] // 2 + 1, norm="forward"),
    "cut by a pad": lambda x: F.pad(x, (1, -2)),
    "halves": lambda x: torch.cat(x.chunk(2, 1)[::-1], 1),
    "running extremes": lambda x: x.cummax(1)[0] + x.cummin(1)[1],
    "running logarithms of sums": lambda x: x.logcumsumexp(1),
    "mode": lambda x: x.round().mode(1),
    "an affine grid for each": lambda x: F.affine_grid(x.T[:, :3, None].expand(-1, 3, 3)[:, 1:], (x.shape[1], 1, 4, 5)),
    "stft": lambda x: torch.stft(x, 8, 2, window=torch.hann_window(8), return_complex=True).abs(),
    "shifted": lambda x: torch.slice_scatter(x, x[:, :-1] * 2, 1, 1, None),
    "first half": lambda x: torch.slice_scatter(x, x[:, x.shape[1] // 2 :], 1, -(x.shape[1] - x.shape[1] // 2), None),
    "a column put": lambda x: x.select_scatter(x[:, 0], 1, -1),
    "assigned from the end": assigned((slice(None), -1), 0.0),
    "assigned with gaps": assigned((slice(None), slice(1, None, 2)), 0.5),
    "written in parts": written_in_parts,
    "as many as there are": lambda x: (torch.argwhere(x > 0), x[x > 0], torch.unique((2 * x).long())),
    "counted": lambda x: torch.bincount(x[0].abs().long(), weights=x[1], minlength=2),
}
BOTH: dict[str, Callable[[Any], Any]] = {
    "pad": lambda x: F.pad(x, (0, x.shape[0], 1, 0), value=2.0),
    "tril": lambda x: torch.tril(x, x.shape[1] - x.shape[0]) + torch.triu(x, x.shape[0] - 2),
    "diagonal": lambda x: (x.diagonal(1), torch.diag_embed(x, -1), torch.diag_embed(x, 2, 2, 0)),
    "diagonal below": lambda x: x.diagonal(-2, 1, 0),
}


@pytest.mark.parametrize("name", COLUMNS)
def test_columns_that_are_not_known(name: str) -> None:
    agrees(COLUMNS[name], *((torch.randn(6, size),) for size in (8, 5, 13)), dynamic=[{1: OPEN}])


@pytest.mark.parametrize("name", BOTH)
def test_matrices_of_no_known_size(name: str) -> None:
    agrees(BOTH[name], *((torch.randn(size),) for size in ((6, 8), (7, 7), (9, 3))), dynamic=[{0: OPEN, 1: OPEN}])


@pytest.mark.parametrize("function", [backwards, in_chunks])
def test_sizes_as_long_formulas(function: Callable[[Any], Any]) -> None:
    agrees(function, *((torch.randn(3, size),) for size in (9, 6, 17)), dynamic=[{1: AUTO}])


def test_halves_of_an_even_size() -> None:
    size = 2 * torch.export.Dim("half", min=2)
    agrees(
        lambda x: torch.chunk(x, 2, 1)[1] + F.glu(x, 1),
        *((torch.randn(3, each),) for each in (8, 10)),
        dynamic=[{1: size}],
    )


@pytest.mark.parametrize(
    "function",
    [
        lambda x: F.adaptive_avg_pool2d(x, (2, 3)),
        lambda x: F.adaptive_max_pool2d(x, 2),
        lambda x: F.max_pool2d(x, 3, 2, 1, ceil_mode=True),
        lambda x: F.max_pool2d(x, 2, 3, 1, ceil_mode=True),
        lambda x: F.avg_pool2d(x, 3, 2, 1, ceil_mode=True),
        lambda x: F.avg_pool2d(x, (3, 2), 2, 1, ceil_mode=True, count_include_pad=False),
        lambda x: F.fold(F.unfold(F.batch_norm(x, None, None, training=True), 3), x.shape[2:], 3),
    ],
)
def test_pools_of_images_of_no_known_size(function: Callable[[Any], Any]) -> None:
    images = [(torch.randn(2, 3, *size),) for size in ((9, 10), (8, 8), (11, 7), (12, 13))]
    agrees(function, *images, dynamic=[{2: OPEN, 3: OPEN}])


def test_pools_of_images_of_one_known_side() -> None:
    images = [(torch.randn(2, 3, size, 8),) for size in (9, 8, 11)]
    agrees(lambda x: F.max_pool2d(x, 3, 2, 1, ceil_mode=True), *images, dynamic=[{2: OPEN}])


X, INDEX, SOURCE = torch.randn(6, 8), torch.randint(0, 6, (6, 8)), torch.randn(6, 8)
NUMBERS = torch.tensor([0.0, -1.0, -2.5, 0.5, 1.0, 2.0, 3.25, 100.0, 1e8, -1e-3])
LABELS, WEIGHTS = torch.tensor([1, 7, 0, 2, 2, 5]), torch.rand(8)
MADE: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "assigned with gaps": (assigned((slice(None), slice(None, None, 2)), 0.0), (X,)),
    "index_add": (lambda x, i, s: x.index_add(0, i, s, alpha=2.0), (X, torch.tensor([0, 2, 2, 1]), SOURCE[:4])),
    "masked_scatter": (lambda x, s: x.masked_scatter(x > 0, s), (X, SOURCE)),
    "cummax": (lambda x: (*torch.cummax(x, 1), *torch.cummin(x, 0)), (torch.where(X > 1.2, torch.nan, X),)),
    "cummax of integers": (lambda x: torch.cummax(x, 0), (torch.randint(0, 3, (9, 5)),)),
    "mode": (lambda x: torch.mode(x, 1), (torch.randint(0, 3, (6, 8)),)),
    "nansum": (lambda x: torch.nansum(x, 1), (torch.where(X > 1, torch.nan, X),)),
    "shifts": (lambda a, b: (a << b) + (a >> b), (torch.randint(-20, 20, (6, 8)), torch.randint(0, 5, (6, 8)))),
    "divisors": (
        lambda a, b: (torch.gcd(a, b), torch.lcm(a, b), torch.gcd(a, b[:1]), torch.lcm(a * 0, b * 0)),
        (torch.randint(-50, 50, (6, 8)), torch.randint(-20, 20, (6, 8))),
    ),
    "lgamma": (torch.lgamma, (NUMBERS,)),
    "digamma": (torch.digamma, (NUMBERS,)),
    "erfinv": (torch.erfinv, (torch.tensor([0.0, -1, 1, 2, 0.5, 0.999999, -0.99999994]),)),
    "logcumsumexp": (lambda x: torch.logcumsumexp(x, 1), (X,)),
    "weighted": (lambda x, t, w: F.cross_entropy(x, t, weight=w, ignore_index=2), (X, LABELS, WEIGHTS)),
    "smoothed": (lambda x, t, w: F.cross_entropy(x, t, weight=w, label_smoothing=0.1), (X, LABELS, WEIGHTS)),
    "of probabilities": (
        lambda x, y, w: F.cross_entropy(x, y, weight=w, label_smoothing=0.2),
        (X, SOURCE.softmax(1), WEIGHTS),
    ),
    "of logits": (
        lambda x, y, p: F.binary_cross_entropy_with_logits(x, y, pos_weight=p, weight=p + 1),
        (X, torch.rand(6, 8), WEIGHTS),
    ),
    **{
        f"scatter_reduce {how} {kept}": (
            lambda x, i, s, how=how, kept=kept: x.scatter_reduce(0, i, s, how, include_self=kept),
            (X, INDEX, SOURCE),
        )
        for how, kept in (("mean", True), ("mean", False), ("sum", False), ("prod", False), ("amax", False))
    },
}


@pytest.mark.parametrize("name", MADE)
def test_operators_made_of_others(name: str) -> None:
    function, given = MADE[name]
    agrees(function, given, tolerance=1e-4)


def test_a_batch_norm_in_training_gives_its_running_means() -> None:
    model = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.BatchNorm2d(4)).train()
    x = torch.randn(2, 3, 6, 6)
    g = tw.graph.from_torch(torch.export.export(model, (x,), strict=False))
    assert list(g.outputs)[1:] == ["1.running_mean", "1.running_var", "1.num_batches_tracked"]
    found = tw.build(g)(x)
    wanted = [model(x), model[1].running_mean, model[1].running_var, model[1].num_batches_tracked]
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_allclose(one, other.detach().numpy(), rtol=1e-4, atol=1e-5)


def test_numbers_that_are_drawn_are_inputs() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        g = tw.graph.from_torch(
            Module(lambda x: x + torch.randn(6, 8) * torch.rand_like(x) + torch.ones_like(x).bernoulli(0.25)), (X,)
        )
    assert list(g.inputs.items())[1:] == [(name, ((6, 8), "float32")) for name in ("randn", "rand_like", "rand")]
    noise, chance = np.ones((6, 8), "float32"), np.linspace(0, 0.9, 48, dtype="float32").reshape(6, 8)
    np.testing.assert_allclose(tw.build(g)(X, noise * 2, noise * 3, chance), X.numpy() + 6 + (chance < 0.25), rtol=1e-6)


def test_rmsprop_with_momentum() -> None:
    layer = torch.nn.Linear(5, 3)
    x = torch.randn(4, 5)
    g = tw.graph.from_torch(_Loss(layer), (x,))
    step = g.training_step(next(iter(g.outputs)), list(g.params), optimizer="rmsprop", lr=0.01, momentum=0.9)
    weights = {name: value.copy() for name, value in g.params.items()}
    state = {name: np.zeros(shape, kind) for name, (shape, kind) in step.inputs.items() if name not in ("x", *weights)}
    m = tw.build(step)
    arrays = {**state, **weights}
    names = list(step.inputs)
    optimizer = torch.optim.RMSprop(layer.parameters(), lr=0.01, momentum=0.9)
    for _ in range(3):
        m(*(arrays[name] if name in arrays else x.numpy() for name in names))
        optimizer.zero_grad()
        layer(x).square().mean().backward()
        optimizer.step()
    for name, value in layer.named_parameters():
        found = next(arrays[each] for each in weights if each.endswith(name))
        np.testing.assert_allclose(found, value.detach().numpy(), rtol=1e-4, atol=1e-6)


class _Loss(torch.nn.Module):
    def __init__(self, layer: Any) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, x: Any) -> Any:
        return self.layer(x).square().mean()


class _Cache(torch.nn.Module):
    """is_buffer: its cache is a buffer, else a tensor that torch takes for a constant, as it does those of a library's own classes."""

    def __init__(self, is_buffer: bool) -> None:
        super().__init__()
        if is_buffer:
            self.register_buffer("cache", torch.zeros(8, 4))
        else:
            self.cache = torch.zeros(8, 4)

    def forward(self, x: Any, place: Any) -> Any:
        self.cache[place] = x
        return self.cache.sum(0)


@pytest.mark.parametrize("is_buffer", [True, False])
def test_a_cache_that_every_call_would_begin_anew_is_warned_of(is_buffer: bool) -> None:
    given = torch.ones(1, 4), torch.tensor([2])
    with pytest.warns(
        tw.TilewrightWarning, match=r"writes to 1 of its buffers.*state=\{'cache': 'cache'\}\), or state=True, makes"
    ):
        tw.graph.from_torch(_Cache(is_buffer), given)
    with warnings.catch_warnings():
        warnings.simplefilter("error", tw.TilewrightWarning)
        for state in ({"cache": "cache"}, True):
            g = tw.graph.from_torch(_Cache(is_buffer), given, state=state)
            assert g.state == {"cache": "cache"}


class _Returned(torch.nn.Module):
    """A decoder's caches, which it takes and gives back."""

    def forward(self, x: Any, place: Any, keys: Any, values: Any, window: Any, seen: Any) -> Any:
        keys.index_copy_(1, place, x[:, None])
        values = values.clone()
        values[:, place] = x[:, None]
        window = torch.cat([window[:, 1:], x[:, None]], 1)
        seen = torch.where((torch.arange(3) == place)[None, :, None], x[:, None], seen)
        return (keys * values).sum(1) + window.mean(1), values, window, seen, x.masked_fill(x > 0, 0.0)


def test_caches_that_a_decoder_gives_back_are_found() -> None:
    x, place, past = torch.randn(2, 4), torch.tensor([1]), torch.randn(2, 3, 4)
    given = x, place, *(past * factor for factor in range(1, 5))
    with pytest.warns(tw.TilewrightWarning, match="writes to 1 of its inputs, which stay as they are.*'keys': 'keys'"):
        tw.graph.from_torch(_Returned(), tuple(t.clone() for t in given))
    g = tw.graph.from_torch(_Returned(), tuple(t.clone() for t in given), state=True)
    assert set(g.state) == {"keys", "values", "window", "seen"} and g.state["keys"] == "keys"
    arrays = [t.numpy().copy() for t in given]
    got = tw.build(g)(*arrays)
    after = [t.clone() for t in given]
    wanted = _Returned()(*after)
    np.testing.assert_allclose(got[0], wanted[0].numpy(), rtol=1e-5, atol=1e-6)
    for array, tensor in zip(arrays[2:], [after[2], *wanted[1:4]], strict=True):
        np.testing.assert_array_equal(array, tensor.numpy())
    with pytest.raises(tw.GraphError, match=r"(?s)TW0901.*no input that an output updates.*name them"):
        tw.graph.from_torch(torch.nn.Linear(3, 3), (torch.ones(2, 3),), state=True)

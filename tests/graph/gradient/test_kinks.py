"""Gradients at kinks, zeros and ties: torch's, in float64, of every operator whose derivative there is a number."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
import tilewright as tw
from tilewright.graph import Builder

INF, NAN = np.inf, np.nan
Case = tuple[str, Any, list[np.ndarray[Any, Any]]]


def row(*numbers: float) -> np.ndarray[Any, Any]:
    return np.array(numbers, np.float64)


LINE = row(-3, -1, -0.5, -0.0, 0, 0.5, 1, 3, 6, 20)
ROWS = np.array([[1.0, 1, 2], [0, 0, 0], [3, 3, 3], [-1, 2, -1]])
ZEROS = np.array([[1.0, 2, 3], [0, 2, 3], [0, 0, 3], [0, 0, 0], [2, 0, 4]])
INFINITE = np.array([[-INF, 0, 1], [-INF, -INF, -INF], [1, 1, 1], [INF, 1, 2]])
PAIR = [row(0, 0, 0, 0, 1, 2, -1, 0, 3, 1, -2), row(0, 1, 2, -1, 0, 0, 0, 0.5, 2, 1, 2)]


def activations(torch: Any) -> list[Case]:
    functional = torch.nn.functional
    names = "relu elu selu celu gelu silu mish softsign softplus logsigmoid hardswish leaky_relu tanhshrink softshrink hardshrink"
    return [
        *((name, getattr(functional, name), [LINE]) for name in names.split()),
        ("prelu", functional.prelu, [LINE, row(0.25)]),
        ("threshold", lambda x: functional.threshold(x, 0.5, 0.0), [LINE]),
        ("clamp", lambda x: x.clamp(-1, 1), [LINE]),
        ("far softplus", functional.softplus, [row(-800, 0, 800)]),
        ("far logsigmoid", functional.logsigmoid, [row(-800, 0, 800)]),
    ]


def functions(torch: Any) -> list[Case]:
    names = "abs sign sqrt rsqrt log log1p reciprocal asin acos atanh acosh sinc erfc floor round frac tan tanh sigmoid square"
    return [
        *((name, getattr(torch, name), [LINE]) for name in names.split()),
        ("logit", torch.logit, [row(0, 0.25, 1)]),
        ("logit of bounds", lambda x: torch.logit(x, 0.125), [row(0, 0.125, 0.5, 0.875, 1)]),
        *((f"x ** {power}", lambda x, power=power: x**power, [row(0, 1, 4)]) for power in (-1, 0, 0.5, 1, 1.5, 2, 3)),
        ("0 ** x", lambda x: 0.0**x, [row(0, 1, 2)]),
        ("a logarithm that is left out", lambda x: torch.log(x).masked_fill(x <= 0, 0.0), [row(0.5, 1, 2)]),
        ("detached", lambda x: x * x.detach() + (x * 2).detach(), [LINE]),
    ]


def of_two(torch: Any) -> list[Case]:
    names = "add mul div atan2 logaddexp pow remainder fmod copysign"
    equal = [row(0, 1, 2, -1, 5, -3)] * 2
    return [
        *((name, getattr(torch, name), PAIR) for name in names.split()),
        *((f"{name} of equals", getattr(torch, name), equal) for name in ("logaddexp", "atan2", "sub", "div")),
        ("logaddexp of infinities", torch.logaddexp, [row(-INF, 0, INF), row(0, -INF, 0)]),
        ("xlogy by x", lambda x: torch.xlogy(x, torch.tensor(PAIR[1])), [PAIR[0]]),
        ("xlogy by y", lambda y: torch.xlogy(torch.tensor(row(0, 0, 2)), y), [row(1, 2, 0)]),
        ("xlog1py by x", lambda x: torch.special.xlog1py(x, torch.tensor(row(-1, 0, 1))), [row(0, 0, 0)]),
    ]


def norms(torch: Any) -> list[Case]:
    functional, other = torch.nn.functional, ROWS[[0, 0, 2, 2]]
    cases: list[Case] = []
    for order in (0.5, 1, 2, 3):
        cases += [
            (f"norm {order}", lambda x, p=order: torch.linalg.vector_norm(x, p, dim=1), [ROWS]),
            (f"norm {order} of zeros", lambda x, p=order: torch.linalg.vector_norm(x, p), [np.zeros((2, 2))]),
            (f"distance {order}", lambda x, y, p=order: functional.pairwise_distance(x, y, p, eps=0), [ROWS, other]),
            (f"cdist {order}", lambda x, y, p=order: torch.cdist(x, y, p=p), [ROWS, ROWS[:3]]),
        ]
    return [
        *cases,
        ("norm 0", lambda x: torch.linalg.vector_norm(x, 0, dim=1), [ROWS]),
        ("norm inf", lambda x: torch.linalg.vector_norm(x, INF, dim=1), [ROWS[[1, 3]]]),
        ("Frobenius norm", torch.linalg.matrix_norm, [np.zeros((2, 2))]),
        ("normalize", lambda x: functional.normalize(x, dim=1), [ROWS]),
        ("normalize 1", lambda x: functional.normalize(x, p=1, dim=1), [ROWS]),
        ("cosine", lambda x, y: functional.cosine_similarity(x, y, dim=1), [ROWS, other]),
    ]


def spreads(torch: Any) -> list[Case]:
    cases: list[Case] = []
    for name in ("std", "var"):
        for less in (0, 1):
            case = f"{name} {less}", partial(getattr(torch, name), dim=1, correction=less)
            cases += [(*case, [ROWS]), (f"{case[0]} of equals", case[1], [np.ones((2, 2))])]
        cases.append((f"{name} of one", partial(getattr(torch, name), dim=1, correction=0), [np.zeros((2, 1))]))
    return [
        *cases,
        ("layer_norm", lambda x: torch.nn.functional.layer_norm(x, (3,)), [ROWS]),
        ("rms_norm", lambda x: torch.nn.functional.rms_norm(x, (3,), eps=1e-6), [ROWS]),
    ]


def reductions(torch: Any) -> list[Case]:
    return [
        ("prod", lambda x: x.prod(1), [ZEROS]),
        ("prod of all", lambda x: x.prod(), [row(0, 2, 3)]),
        ("cumprod", lambda x: x.cumprod(1), [ZEROS]),
        ("logsumexp", lambda x: torch.logsumexp(x, 1), [INFINITE]),
        ("softmax", lambda x: torch.softmax(x, 1), [INFINITE]),
        ("log_softmax", lambda x: torch.log_softmax(x, 1), [INFINITE]),
        ("the greatest with its place", lambda x: torch.max(x, dim=1)[0], [ROWS]),
        ("sorted", lambda x: torch.sort(x, dim=1, stable=True)[0], [ROWS]),
        ("largest two", lambda x: torch.topk(x, 2, dim=1)[0], [ROWS]),
        ("max_pool", lambda x: torch.nn.functional.max_pool1d(x[None], 2, 1), [ROWS]),
    ]


def lookups(torch: Any) -> list[Case]:
    functional, places = torch.nn.functional, torch.tensor([[0, 1], [1, 3]])
    flat, offsets = places.reshape(-1), torch.tensor([0, 2])
    return [
        ("embedding", lambda w: functional.embedding(places, w), [ROWS]),
        ("embedding with padding", lambda w: functional.embedding(places, w, padding_idx=1), [ROWS]),
        ("embedding with the last as padding", lambda w: functional.embedding(places, w, padding_idx=-1), [ROWS]),
        (
            "bags with padding",
            lambda w: functional.embedding_bag(flat, w, offsets, padding_idx=1, mode="sum"),
            [ROWS],
        ),
    ]


def loss_of(cases: list[Case], torch: Any) -> Callable[..., Any]:
    """The sum of all results, each element with a weight of its own."""

    def loss(*inputs: Any) -> Any:
        left, total = list(inputs), torch.zeros((), dtype=torch.float64)
        for _, function, given in cases:
            result = function(*(left.pop(0) for _ in given))
            weights = torch.tensor(np.random.default_rng(7).uniform(0.5, 1.5, tuple(result.shape)))
            total = total + (weights * result).sum()
        return total

    return loss


@pytest.mark.parametrize("group", [activations, functions, of_two, norms, spreads, reductions, lookups])
def test_gradients_at_kinks_zeros_and_ties_are_torchs(group: Callable[[Any], list[Case]]) -> None:
    torch = pytest.importorskip("torch")
    cases = group(torch)
    arrays = [array for _, _, given in cases for array in given]
    tensors = [torch.tensor(array, requires_grad=True) for array in arrays]
    loss = loss_of(cases, torch)

    class Model(torch.nn.Module):
        def forward(self, *inputs: Any) -> Any:
            return loss(*inputs)

    g = tw.graph.from_torch(Model(), tuple(map(torch.tensor, arrays)))
    gradients = iter(g.gradient(next(iter(g.outputs)), list(g.inputs)).run(*arrays)[1:])
    expected = iter(torch.autograd.grad(loss(*tensors), tensors, allow_unused=True))
    wrong = []
    for name, _, given in cases:
        for at, array in enumerate(given):
            want, got = next(expected), next(gradients)
            want = np.zeros(array.shape) if want is None else want.numpy()
            if not np.allclose(got, want, rtol=1e-6, atol=1e-9, equal_nan=True):
                wrong.append(f"{name} by input {at}, at {array.tolist()}: {got.tolist()}, and torch {want.tolist()}")
    assert not wrong, "\n".join(wrong)


FORMULAS: dict[str, tuple[list[list[float]], list[list[float]]]] = {
    "abs": ([[-1, 0, 2]], [[-1, 0, 1]]),
    "relu": ([[-1, 0, 2]], [[0, 0, 1]]),
    "softplus": ([[0]], [[0.5]]),
    "maximum": ([[0, 1], [0, 2]], [[1, 0], [0, 1]]),
    "minimum": ([[0, 1], [0, 2]], [[1, 1], [0, 0]]),
    "log_add_exp": ([[0, 5, -INF, 0], [0, 5, 0, -INF]], [[0.5, 0.5, 0, 1], [0.5, 0.5, 1, 0]]),
    "atan2": ([[0, 0, 1], [0, 2, 0]], [[0, 0.5, 0], [0, 0, -1]]),
    "power": ([[0, 0, 0], [0, 1, 2]], [[0, 1, 0], [0, 0, 0]]),
    "stop_gradient": ([[1, 2]], [[0, 0]]),
}
"""What operators are given, and their derivatives there."""


@pytest.mark.parametrize("operator", FORMULAS)
def test_derivatives_of_operators_at_kinks(operator: str) -> None:
    given, expected = FORMULAS[operator]
    b = Builder()
    inputs = [b.input(f"x{at}", (len(numbers),), "float64") for at, numbers in enumerate(given)]
    whole = b.node("sum", b.node(operator, *inputs), axes=(0,))
    b.output("y", whole)
    gradients = (
        b.graph().gradient("y", [f"x{at}" for at in range(len(given))]).run(*map(np.array, map(np.float64, given)))
    )
    for got, want in zip(gradients[1:], expected, strict=True):
        np.testing.assert_allclose(got, want, atol=1e-12)

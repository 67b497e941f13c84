"""torch.compile(backend="tilewright"): what torch captures is built to one call, or left to torch, and counted."""

from __future__ import annotations

import copy
from collections import Counter
from typing import Any

import pytest
import tilewright as tw
from tilewright.graph.torch.backend import compiled

torch: Any = pytest.importorskip("torch", reason="torch is not installed")
nn: Any = torch.nn


@pytest.fixture(autouse=True)
def _forgotten() -> None:
    """torch takes sizes that differ between two captures of one function for sizes that change."""
    torch.compiler.reset()


def counted(before: dict[str, int]) -> dict[str, int]:
    """What was added to the report."""
    return dict(Counter(tw.graph.torch_report()) - Counter(before))


def test_inference_is_one_native_call() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 9), nn.GELU(), nn.LayerNorm(9), nn.Linear(9, 3)).eval()
    x, before = torch.randn(4, 6), tw.graph.torch_report()
    with torch.no_grad():
        fast = torch.compile(model, backend=compiled)
        torch.testing.assert_close(fast(x), model(x), rtol=1e-4, atol=1e-5)
        model[0].weight.mul_(2)  # weights are read where they lie
        torch.testing.assert_close(fast(x), model(x), rtol=1e-4, atol=1e-5)
    assert counted(before) == {"compiled": 1}


def test_what_is_not_supported_is_left_to_torch() -> None:
    before = tw.graph.torch_report()
    x = torch.eye(3) * 2
    torch.testing.assert_close(torch.compile(lambda x: torch.linalg.inv(x) + 1, backend=compiled)(x), x / 4 + 1)
    assert [reason for reason in counted(before) if "linalg_inv" in reason], counted(before)


def test_forward_and_backward_are_compiled() -> None:
    torch.manual_seed(1)
    model = nn.Sequential(
        nn.Linear(5, 7),
        nn.Tanh(),
        nn.Linear(7, 8),
        nn.Softmax(-1),
        nn.Linear(8, 8),
        nn.ReLU(),
        nn.Linear(8, 4),
        nn.Sigmoid(),
        nn.Linear(4, 3),
        nn.SiLU(),
        nn.LogSoftmax(-1),
    )
    x = torch.randn(3, 5)
    expected = torch.autograd.grad(model(x).square().sum(), list(model.parameters()))
    before = tw.graph.torch_report()
    made = torch.autograd.grad(torch.compile(model, backend=compiled)(x).square().sum(), list(model.parameters()))
    for one, other in zip(made, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)
    assert counted(before) == {"compiled": 2}


def test_training_with_norms_convolutions_and_batches_that_change_is_compiled_whole() -> None:
    torch.manual_seed(2)
    model = nn.Sequential(
        nn.Conv2d(2, 4, 3, stride=2, groups=2), nn.BatchNorm2d(4), nn.MaxPool2d(2), nn.Flatten(), nn.LayerNorm(16)
    )
    twin = copy.deepcopy(model)
    fast, before = torch.compile(model, backend=compiled), tw.graph.torch_report()
    for batch in (2, 3):
        x = torch.randn(batch, 2, 9, 9)
        for each in (fast, twin):
            each(x)[:, :5].square().sum().backward()
    for one, other in zip(model.parameters(), twin.parameters(), strict=True):
        torch.testing.assert_close(one.grad, other.grad, rtol=1e-4, atol=1e-5)
    for one, other in zip(model.buffers(), twin.buffers(), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)
    assert counted(before) == {"compiled": 4}, "forward and backward, for two sizes"


def test_attention_with_its_derivative_is_compiled() -> None:
    torch.manual_seed(3)
    q, before = torch.randn(1, 2, 4, 8, requires_grad=True), tw.graph.torch_report()
    (expected,) = torch.autograd.grad(nn.functional.scaled_dot_product_attention(q, q, q).square().sum(), q)
    fast = torch.compile(lambda q: nn.functional.scaled_dot_product_attention(q, q, q).square().sum(), backend=compiled)
    (made,) = torch.autograd.grad(fast(q), q)
    torch.testing.assert_close(made, expected, rtol=1e-4, atol=1e-5)
    assert counted(before) == {"compiled": 2}


def test_what_is_drawn_comes_from_torch() -> None:
    """Dropout: the numbers are those of torch's generator, and others in each call."""
    torch.manual_seed(3)
    model = nn.Sequential(nn.Linear(6, 32), nn.ReLU(), nn.Dropout(0.4), nn.Linear(32, 3))
    x, before = torch.randn(5, 6), tw.graph.torch_report()
    fast, theirs = torch.compile(model, backend=compiled), torch.compile(model, backend="aot_eager_decomp_partition")
    for seed in (1, 2):
        made: list[Any] = []
        for one in (fast, theirs):
            torch.manual_seed(seed)
            made.append(torch.autograd.grad(one(x).square().sum(), list(model.parameters())))
        for ours, other in zip(*made, strict=True):
            torch.testing.assert_close(ours, other, rtol=1e-4, atol=1e-5)
    assert counted(before) == {"compiled": 2}
    assert not torch.equal(fast(x), fast(x))


def test_bfloat16_is_trained() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 8), nn.GELU(), nn.Linear(8, 3)).to(torch.bfloat16)
    x, before = torch.randn(5, 6).to(torch.bfloat16), tw.graph.torch_report()
    fast = torch.compile(model, backend=compiled)
    with torch.no_grad():
        y = fast(x)
        assert y.dtype == torch.bfloat16
        torch.testing.assert_close(y, model(x), atol=0.02, rtol=0.02)
    made = torch.autograd.grad(fast(x).float().square().sum(), list(model.parameters()))
    expected = torch.autograd.grad(model(x).float().square().sum(), list(model.parameters()))
    for ours, theirs in zip(made, expected, strict=True):
        torch.testing.assert_close(ours, theirs, atol=0.1, rtol=0.1)
    assert counted(before) == {"compiled": 3}


def test_modes_and_options_of_torch_compile() -> None:
    x, before = torch.randn(3, 6), tw.graph.torch_report()
    model = nn.Linear(6, 4)
    with torch.no_grad():
        for given in ({"mode": "max-autotune"}, {"options": {"exact": True}}, {"options": {"fast_math": True}}):
            torch.compiler.reset()
            torch.testing.assert_close(torch.compile(model, backend=compiled, **given)(x), model(x))
        assert counted(before) == {"compiled": 3}
        torch.compiler.reset()
        with pytest.raises(
            Exception, match=r"(?s)TW0420.*there is no option 'quick'.*exact \(True or False\), fast_math"
        ):
            torch.compile(model, backend=compiled, options={"quick": True})(x)
        with pytest.raises(Exception, match="'exact' is 'no'"):
            compiled(model, [x], options={"exact": "no"})


@pytest.mark.parametrize("function", [lambda x: x.diagonal() * 2, lambda x: torch.einsum("ii->i", x) * 2])
def test_derivatives_that_write_into_parts_are_compiled_or_left(function: Any) -> None:
    """Such that torch makes no pair of programs of were an AssertionError at the first call."""
    x = torch.randn(4, 4)
    before = tw.graph.torch_report()
    ours, theirs = (x.clone().requires_grad_() for _ in range(2))
    torch.compile(function, backend=compiled)(ours).square().sum().backward()
    function(theirs).square().sum().backward()
    torch.testing.assert_close(ours.grad, theirs.grad)
    assert set(counted(before)) == {"compiled"}


def test_rotations_by_complex_numbers_have_their_derivative() -> None:
    turns = torch.polar(torch.ones(4), torch.arange(4.0))

    def rotated(x: Any) -> Any:
        return torch.view_as_real(torch.view_as_complex(x.reshape(5, 4, 2)) * turns).flatten(1)

    x = torch.randn(5, 8)
    ours, theirs = (x.clone().requires_grad_() for _ in range(2))
    torch.compile(rotated, backend=compiled)(ours).square().sum().backward()
    rotated(theirs).square().sum().backward()
    torch.testing.assert_close(ours.grad, theirs.grad)

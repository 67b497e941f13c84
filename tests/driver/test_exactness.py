"""What a kernel says of its bits: what its schedule says, and what the options of its build allow."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import tilewright as tw
from tilewright import te
from tilewright.base.errors import CallError


def dots() -> tuple[te.Tensor, te.Tensor, Any]:
    A, k = te.placeholder((5, 257), name="A"), te.reduce_axis((0, 257), "k")
    return A, te.compute((5,), lambda i: te.sum(A[i, k], axis=k), name="B"), k


@pytest.mark.parametrize("target", ["llvm", "c", "interpret"])
def test_a_kernel_is_as_exact_as_the_schedule_was_when_it_was_built(target: str) -> None:
    A, B, k = dots()
    s = te.create_schedule(B.op)
    plain = tw.build(s, [A, B], target=target)
    outer, inner = s[B].split(k, factor=8)
    s[B].reorder(inner, outer)
    turned = tw.build(s, [A, B], target=target)
    assert plain.is_exact and not turned.is_exact
    assert str(turned.is_exact) == str(s.is_exact)
    assert turned.is_exact.code == "s[B].reorder(k_inner, k_outer)"


@pytest.mark.parametrize("option", ["fast_math", "fp_contract"])
def test_options_that_allow_other_roundings_are_named(option: str) -> None:
    A, B, _ = dots()
    f = tw.build(te.create_schedule(B.op), [A, B], **{option: True})
    assert not f.is_exact
    assert str(f.is_exact) == (
        f"not exact since tw.build(..., {option}=True): {option} allows the compiler other roundings than are written"
    )


def test_what_is_scheduled_automatically_says_whether_sums_are_reordered() -> None:
    A, B, _ = dots()
    module = tw.build({"free": [A, B], "exact": (te.create_schedule(B.op), [A, B])})
    assert not module["free"].is_exact and "B" in module["free"].is_exact.reason
    assert module["exact"].is_exact
    assert tw.build([A, B], exact=True).is_exact


def test_where_nobody_knows_a_kernel_says_so(tmp_path: Path) -> None:
    A, B, _ = dots()
    s = te.create_schedule(B.op)
    assert not tw.build(tw.lower(s, [A, B])).is_exact
    path = tmp_path / "libdots.so"
    tw.build(s, [A, B]).export(path)
    with pytest.raises(CallError, match="TW0522: cannot tell whether dots is exact"):
        bool(tw.load(path).is_exact)

"""Products of a chunk that are added to the sums of those before, where these lie."""

from __future__ import annotations

import pytest
from tilewright.ir.passes.gpu.accumulated_parts import accumulate_parts
from tilewright.ir.text.parser import parse

TEXT = """@attrs(stage="loops")
def main(A: float32[16], C: out float32[4, 2]):
    largest: local float32[2]
    y: local float32[2, 4, 2]
    for c in 4 with accumulate_parts=1:
        peak: local float32[2]
        for i in 2:
            peak[i] = A[c * 2 + i]
        weight: local float32[2]
        for i in 2:
            weight[i] = exp2(A[c] * 0.5 - peak[i] * 0.5)
        for e in unrolled(2):
            part: local float32[4, 2]
            call_extern(int32, "tw_wgmma_fill", 8, access_ptr(handle, part[0, 0], 0, 2))
            call_extern(int32, "tw_wgmma_float16_8", access_ptr(handle, part[0, 0], 0, 3), access_ptr(handle, weight[0], 0, 1))
            for k in 4:
                for i in 2:
                    source: float32 = peak[i] * 0.5
                    y[e, k, i] = fma(y[e, k, i], MOVED, part[k, i] * OWN)
        for i in 2:
            source: float32 = peak[i] * 0.5
            next: float32 = max(largest[i], source)
            largest[i] = next
    C[0, 0] = y[0, 0, 0]
""".replace(
    "MOVED", "select(max(largest[i], source) <= largest[i], 1.0, exp2(largest[i] - max(largest[i], source)))"
).replace("OWN", "select(max(largest[i], source) <= source, 1.0, exp2(source - max(largest[i], source)))")


def test_sums_are_scaled_and_products_add_to_them() -> None:
    text = str(accumulate_parts(parse(TEXT)))
    assert "part" not in text.replace("accumulate_parts", "") and "fill" not in text, text
    assert "peak.reached[i] = max(largest[i], peak[i] * 0.5)" in text
    assert "weight[i] = exp2(A[c] * 0.5 - peak.reached[i])" in text
    assert (
        "y[e, k, i] = y[e, k, i] * select(peak.reached[i] <= largest[i], 1.0, exp2(largest[i] - peak.reached[i]))"
        in text
    )
    assert 'tw_wgmma_float16_8", access_ptr(handle, y[e, 0, 0], 0, 3)' in text


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("accumulate_parts=1", "accumulate_parts=0"),
        ("next: float32 = max(", "next: float32 = min("),
        ("fma(y[e, k, i]", "fma(y[e, i, i]"),
        ("part[k, i]", "part[i, i]"),
        ("weight[i] = exp2(A[c] * 0.5 - peak[i] * 0.5)", "weight[i] = exp2(A[c] * 0.5 - peak[i] * 0.25)"),
    ],
)
def test_what_is_merged_otherwise_is_left_alone(old: str, new: str) -> None:
    other = parse(TEXT.replace(old, new))
    assert old in TEXT and accumulate_parts(other).body is other.body

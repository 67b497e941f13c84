"""Offsets: strides, ranks, casts, and tensors of more than 2^31 elements."""

from __future__ import annotations

import pytest
from same_result import after
from tilewright.ir.buffer import Buffer
from tilewright.ir.dtype import INT64
from tilewright.ir.expr import BufferLoad, Expr, IntImm, Var
from tilewright.ir.ops import const
from tilewright.ir.passes.common.flatten import flatten
from tilewright.ir.passes.common.fresh_copy import substitute_expr
from tilewright.ir.stmt import BufferStore
from tilewright.ir.text.parser import parse
from tilewright.ir.visit import loads, stores, walk


def offsets(text: str) -> list[Expr]:
    return [node.indices[0] for node in walk(flatten(parse(text)).body) if isinstance(node, (BufferLoad, BufferStore))]


def value_at(offset: Expr, **values: int) -> int:
    """The offset, computed exactly, for given variables; fails where it is not int64."""
    assert offset.dtype == INT64
    variables = {node.name: node for node in walk(offset) if isinstance(node, Var)}
    found = substitute_expr(offset, {var: const(values[name], var.dtype) for name, var in variables.items()})
    assert isinstance(found, IntImm)
    return found.value


def test_rank_2_becomes_one_sum() -> None:
    result = after(
        """
def copy(A: float32[6, 7], C: out float32[6, 7]):
    for i in 3:
        for ii in 2:
            for j in 7:
                C[i * 2 + ii, j] = A[i * 2 + ii, j]
""",
        flatten,
    )
    assert str(next(stores(result.body)).indices[0]) == "int64(i) * 14 + int64(ii) * 7 + int64(j)"
    assert [str(buffer.shape[0]) for buffer in result.buffers] == ["int64(42)", "int64(42)"]


def test_outer_loops_come_first() -> None:
    result = after(
        """
def swap(A: float32[5, 6, 7], C: out float32[7, 6, 5]):
    for k in 7:
        for j in 6:
            for i in 5:
                C[k, j, i] = A[i, j, k]
""",
        flatten,
    )
    assert str(next(loads(result.body)).indices[0]) == "int64(k) + int64(j) * 7 + int64(i) * 42"


def test_rank_0() -> None:
    result = after(
        """
def total(A: float32[4], C: out float32[()]):
    C[()] = 0.0
    for i in 4:
        C[()] = C[()] + A[i]
""",
        flatten,
    )
    assert [len(buffer.shape) for buffer in result.buffers] == [1, 1]


def test_strides_and_offset() -> None:
    result = after(
        """
def padded(A: float32[4, 6], C: out float32[4, 6]):
    t: float32[4, 6, strides=[8, 1]]
    for i in 4:
        for j in 6:
            t[i, j] = A[i, j] * 3.0
    for i in 4:
        for j in 6:
            C[i, j] = t[i, j]
""",
        flatten,
    )
    assert "t: float32[int64(30)]" in str(result)


def test_fused_index_meets_in_one_offset() -> None:
    result = after(
        """
def fused(A: float32[4, 6, 5], C: out float32[4, 6, 5]):
    for f in 120:
        C[f // 30, f // 5 % 6, f % 5] = A[f // 30, f // 5 % 6, f % 5]
""",
        flatten,
    )
    assert str(next(stores(result.body)).indices[0]) == "int64(f)"


@pytest.mark.parametrize("n", [0, 1, 5])
def test_symbolic_shapes(n: int) -> None:
    result = after(
        """
def copy(n: int32, A: float32[n, 3, n], C: out float32[n, 3, n]):
    for i in n:
        for j in 3:
            for k in n:
                C[i, j, k] = A[i, j, k]
""",
        flatten,
        n=n,
    )
    assert str(result.buffers[0].shape[0]) == "int64(n) * 3 * int64(n)"


def test_a_symbol_beside_an_extent_of_0_stays() -> None:
    result = flatten(
        parse("""
def nothing[n: size](A: float32[0, n], C: out float32[n]):
    for i in n:
        C[i] = 1.0
""")
    )
    assert any(isinstance(node, Var) for node in walk(result.buffers[0].shape[0]))


def test_offsets_beyond_31_bits() -> None:
    stored, loaded = offsets("""
def huge[n: size](A: float32[100000, 100000], C: out float32[n, 60000]):
    for i in 50000:
        for ii in 2:
            for j in n:
                C[j, i + ii] = A[i * 2 + ii, j]
""")
    assert value_at(loaded, i=49999, ii=1, j=99999) == 99_999 * 100_000 + 99_999
    assert value_at(stored, i=49999, ii=1, j=(1 << 30) - 1) == ((1 << 30) - 1) * 60_000 + 50_000


def test_symbolic_strides_beyond_31_bits() -> None:
    stored, loaded = offsets("""
def huge[n: size, m: size](A: float32[n, m], C: out float32[n * m]):
    for i in n:
        for j in m:
            C[i] = A[i, j]
""")
    assert value_at(loaded, n=1 << 20, m=1 << 20, i=(1 << 20) - 1, j=5) == ((1 << 20) - 1) * (1 << 20) + 5
    assert value_at(stored, i=7) == 7


def test_loaded_indices_wrap_as_loaded_values_do() -> None:
    found = list(
        map(
            str,
            offsets("""
def gather(I: int32[8], A: float32[4, 10], B: float32[80], C: out float32[8]):
    for i in 8:
        C[i] = A[0, I[i] + i] + B[I[i] * 10 + i]
"""),
        )
    )
    assert "int64(I[int64(i)]) + int64(i)" in found  # out of range already if the sum wraps
    assert "int64(I[int64(i)] * 10 + i)" in found  # the product may wrap into range


def test_narrow_types_keep_wrapping() -> None:
    after(
        """
def wrapped(I: uint8[8], A: int32[256], C: out int32[8]):
    for i in 8:
        C[i] = A[int32(I[i] + 250)]
""",
        flatten,
    )


def test_outputs_are_the_flat_parameters() -> None:
    result = flatten(
        parse("""
def copy(A: float32[2, 2], C: out float32[2, 2]):
    C[0, 0] = A[1, 1]
""")
    )
    assert result.outputs == (result.params[1],)
    assert isinstance(result.params[1], Buffer)


def test_a_remainder_of_a_simpler_dividend_meets_its_quotient() -> None:
    """(16 * i + j) % 9 is simplified to (7 * i + j) % 9; as an offset, both indices are 16 * i + j again."""
    result = after(
        """
def fused(A: float32[11, 9], C: out float32[11, 3, 3]):
    for i in 6:
        for j in 16:
            C[(i * 16 + j) // 9, (i * 16 + j) // 3 % 3, (i + j) % 3] = A[(i * 16 + j) // 9, (7 * i + j) % 9]
""",
        flatten,
    )
    assert "%" not in str(result.body)
    assert "//" not in str(result.body)


def test_a_remainder_of_another_dividend_is_left() -> None:
    result = after(
        """
def apart(A: float32[32, 3], C: out float32[96]):
    for i in 6:
        for j in 16:
            C[i * 16 + j] = A[(i * 16 + j) // 3, (i + 2 * j) % 3] + A[(i * 16 + j) // 3, (i + j + 1) % 3]
""",
        flatten,
    )
    assert str(result.body).count("%") == 2

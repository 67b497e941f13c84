"""Passes on expressions and conditions: cse, unsafe select, hoisting, bound checks, narrow gathers."""

from __future__ import annotations

import numpy as np
import pytest
from same_result import after
from tilewright.ir.errors import AssertionFailed
from tilewright.ir.expr import IfThenElse, Select
from tilewright.ir.interpret.interpreter import run
from tilewright.ir.passes.common.bound_checks import bound_checks
from tilewright.ir.passes.common.cse import share_subexpressions
from tilewright.ir.passes.common.flatten import flatten
from tilewright.ir.passes.common.hoist import hoist_invariants
from tilewright.ir.passes.common.narrow import narrow_offsets
from tilewright.ir.passes.common.remove_likely import remove_likely
from tilewright.ir.passes.common.simplify import simplify
from tilewright.ir.passes.common.unsafe_select import unsafe_select
from tilewright.ir.passes.cpu.vectorize import vectorize
from tilewright.ir.passes.gpu.lower_threads import lower_threads
from tilewright.ir.text.parser import parse
from tilewright.ir.visit import walk

# Common subexpressions


def shared(value: str) -> str:
    return str(
        after(
            f"""
def f(A: float32[8], B: float32[8], C: out float32[8]):
    for i in 8:
        C[i] = {value}
""",
            share_subexpressions,
        )
    )


def test_repeated_calls_are_named() -> None:
    text = shared("exp(A[i]) / (1.0 + exp(A[i]))")
    assert text.count("exp(") == 1
    assert "cse: float32 = exp(A[i])" in text


def test_the_largest_repeated_value_is_named() -> None:
    text = shared("(A[i] * B[i] + exp(A[i])) * (A[i] * B[i] + exp(A[i])) + exp(A[i])")
    assert text.count("exp(") == 1
    assert text.count("* B[i]") == 1


def test_what_only_a_branch_evaluates_is_named_there() -> None:
    text = shared("if_then_else(i > 0, exp(A[i - 1]) * exp(A[i - 1]), 0.0)")
    assert "let(cse: float32 = exp(A[i - 1]), cse * cse)" in text


def test_a_branch_shares_with_what_is_sure() -> None:
    text = shared("exp(A[i]) + if_then_else(i > 3, exp(A[i]), A[i])")
    assert text.count("exp(") == 1


def test_values_that_differ_by_the_sign_of_a_nan_are_not_shared() -> None:
    text = shared("exp(A[i] * nan) + exp(A[i] * nan) + exp(A[i] * -nan)")
    assert (text.count("exp(A[i] * nan)"), text.count("exp(A[i] * -nan)")) == (1, 1)


def test_cheap_values_and_indices_are_left() -> None:
    text = shared("A[i] * A[i] + (A[i] + 1.0) * B[(i * 5 + 3) % 8] + B[(i * 5 + 3) % 8]")
    assert "cse" not in text


def test_let_bound_values_stay_inside() -> None:
    assert "let(x: float32 = " in shared("let(x: float32 = A[i] + B[i], exp(x) + exp(x))")


def test_shared_nodes_take_linear_time() -> None:
    function = parse("def f(A: float32[8], C: out float32[8]):\n    C[0] = A[0]\n")
    value = function.body.value  # pyright: ignore[reportAttributeAccessIssue]
    for _ in range(60):
        value = value * value + value  # 3 ** 60 as a tree
    from dataclasses import replace

    text = str(share_subexpressions(function.with_body(replace(function.body, value=value))))  # pyright: ignore[reportCallIssue]
    assert text.count("cse") > 50


# Eager choices


def chosen(value: str, **scalars: int) -> list[type]:
    result = after(
        f"""
def f(n: int32, A: float32[8], B: float32[10], C: out float32[8]):
    for i in 8:
        C[i] = {value}
""",
        unsafe_select,
        n=scalars.get("n", 4),
    )
    return [type(node) for node in walk(result.body) if isinstance(node, (Select, IfThenElse))]


@pytest.mark.parametrize(
    ("value", "kinds"),
    [
        ("if_then_else(A[i] > 0.0, A[i], 0.0)", [Select]),
        ("if_then_else(i < n, A[i] * 2.0, B[i + 1])", [Select]),
        ("if_then_else(i > 0, A[i - 1], 0.0)", [IfThenElse]),
        ("if_then_else(i < n, exp(A[i]), 0.0)", [IfThenElse]),
        ("if_then_else(i < n, A[i] + B[i] + B[i + 1] + B[i + 2] + A[7 - i] + B[9 - i] + B[8 - i], 0.0)", [Select]),
        ("if_then_else(i > 0, A[i - 1], if_then_else(i < n, A[i], 1.0))", [IfThenElse, Select]),
        ("if_then_else(n == 0, A[n], 0.0)", [IfThenElse]),
    ],
)
def test_select_where_safe(value: str, kinds: list[type]) -> None:
    assert chosen(value) == kinds


def test_conditions_around_the_statement_count() -> None:
    result = after(
        """
def f(n: int32, A: float32[8], C: out float32[8]):
    for i in 8:
        if i >= 1:
            C[i] = if_then_else(n > 3, A[i - 1], 0.0)
        else:
            C[i] = 1.0
""",
        unsafe_select,
        n=4,
    )
    assert "select(" in str(result)


# Hoisting


@pytest.mark.parametrize("n", [0, 3])
def test_conditions_leave_loops_they_ignore(n: int) -> None:
    result = after(
        """
def f(n: int32, A: float32[4, 8], C: out float32[4, 8]):
    for i in 4:
        for j in vectorized(8):
            if i < n:
                C[i, j] = A[i, j]
""",
        hoist_invariants,
        n=n,
    )
    assert "    for i in 4:\n        if i < n:\n            for j in vectorized(8):" in str(result)


@pytest.mark.parametrize("n", [0, 1])
def test_mixed_bodies_are_copied(n: int) -> None:
    result = after(
        """
def f(n: int32, A: float32[8], C: out float32[8]):
    for j in 8:
        C[j] = 1.0
        if n > 0:
            C[j] = C[j] + A[j]
        else:
            C[j] = C[j] * 2.0
""",
        hoist_invariants,
        n=n,
    )
    assert str(result).count("for j in 8") == 2


@pytest.mark.parametrize("condition", ["C[0] > 0.0", "j < n", "k < 1"])
def test_what_varies_or_reads_memory_stays(condition: str) -> None:
    result = after(
        f"""
def f(n: int32, A: float32[8], C: out float32[8]):
    for j in 8:
        for k in 2:
            if {condition}:
                C[j] = A[j]
""",
        hoist_invariants,
        n=3,
    )
    assert str(result).index("for j") < str(result).index("if")


def test_invariant_lets_leave() -> None:
    result = after(
        """
def f(n: int32, A: float32[8], C: out float32[8]):
    for i in 2:
        for j in 4:
            x: int32 = n * n + i
            C[i * 4 + j] = A[j] * float32(x)
""",
        hoist_invariants,
        n=3,
    )
    assert "for i in 2:\n        x: int32 = n * n + i\n        for j in 4" in str(result)


# Bound checks


GATHER = """
def f(I: int32[4], A: float32[8], C: out float32[4]):
    for i in 4:
        C[i] = {}
"""


def test_only_what_is_not_proved_is_checked() -> None:
    text = str(after(GATHER.format("A[i + 4] + A[abs(I[i]) % 8]"), bound_checks))
    assert "assert" not in text


@pytest.mark.parametrize("index", [8, -1])
def test_a_wrong_index_is_found(index: int) -> None:
    checked = bound_checks(parse(GATHER.format("A[I[i]]")))
    at = np.array([0, 7, index, 3], "int32")
    with pytest.raises(AssertionFailed, match=r"A is read out of range: its index I\[i\] in dimension 0"):
        run(checked, [at, np.zeros(8, "float32"), np.zeros(4, "float32")])
    at[2] = 1
    run(checked, [at, np.zeros(8, "float32"), np.zeros(4, "float32")])


def test_a_branch_that_is_not_taken_is_not_checked() -> None:
    checked = bound_checks(parse(GATHER.format("if_then_else(I[i] >= 0 and I[i] < 8, A[I[i]], 0.0)")))
    run(checked, [np.array([-5, 7, 100, 3], "int32"), np.zeros(8, "float32"), np.zeros(4, "float32")])


def test_stores_are_checked() -> None:
    checked = bound_checks(
        parse("""
def f(I: int32[4], C: out float32[4]):
    for i in 4:
        C[I[i]] = 1.0
""")
    )
    with pytest.raises(AssertionFailed, match="C is written out of range"):
        run(checked, [np.array([0, 1, 2, 4], "int32"), np.zeros(4, "float32")])


# Narrow gathers


def test_small_gathers_are_narrow() -> None:
    text = str(
        after(
            """
def f(I: uint8[16], A: float32[3, 256], C: out float32[3, 16]):
    for i in 3:
        for j in vectorized(16):
            C[i, j] = A[i, int32(I[j])] + A[i, j % 3]
""",
            flatten,
            vectorize,
            narrow_offsets,
        )
    )
    assert text.count("int64x16(") == 0


def test_large_ones_are_not() -> None:
    text = str(
        narrow_offsets(
            vectorize(
                flatten(
                    parse("""
def f(I: int32[16], A: float32[100000, 100000], C: out float32[16]):
    for j in vectorized(16):
        C[j] = A[j % 3 + I[j], j]
""")
                )
            )
        )
    )
    assert "int64x16(" in text


# The two smallest passes


def test_threads_become_serial_loops() -> None:
    result = after(
        """
def f(A: float32[8], C: out float32[8]):
    for b in thread("blockIdx.x", 2):
        for t in thread("threadIdx.x", 4):
            C[b * 4 + t] = A[b * 4 + t]
""",
        lower_threads,
    )
    assert "thread" not in str(result)


def test_likely_goes() -> None:
    result = after(
        """
def f(n: int32, C: out float32[8]):
    for i in 8:
        if likely(i < n):
            C[i] = if_then_else(likely(i > 2), 1.0, 2.0)
""",
        remove_likely,
        n=4,
    )
    assert "likely" not in str(result)


def test_simplify_before_select_keeps_ranges() -> None:
    after(
        """
def f(n: int32, A: float32[8], C: out float32[8]):
    for i in 8:
        C[i] = if_then_else(i * 1 + 0 < n, A[i], 0.0)
""",
        simplify,
        unsafe_select,
        n=4,
    )


def test_a_choice_under_likely_is_left_for_partition_to_decide() -> None:
    function = parse("""
@attrs(stage="loops")
def f(A: float32[64], B: out float32[64]):
    for i in 64:
        B[i] = A[if_then_else(likely(i >= 2), i - 2, 0)]
""")
    assert "if_then_else(likely(" in str(unsafe_select(function))
    assert "if_then_else" not in str(unsafe_select(parse(str(function).replace("likely(i >= 2)", "i >= 2"))))

"""Tables of 32 rows that mathematical functions look up: in registers where they can be permuted, else in memory."""

from __future__ import annotations

from collections.abc import Sequence

from ...ir.rounding import round_float
from .arithmetic import select
from .maths_lanes import Lanes, concatenate, take_lanes
from .types import float_constant, int_constant, llvm_type

__all__ = ["ROWS", "looked_up"]

ROWS = 32
_OF_TWO, _OF_FOUR = 16, 8
"""Lanes of the instructions that permute two registers of AVX-512, and one of AVX2."""


def looked_up(v: Lanes, name: str, columns: Sequence[Sequence[float]], row: str) -> list[str]:
    """The numbers of each column in rows whose low five bits are given. name: of the table."""
    columns = [[round_float(value, v.dtype.element) for value in column] for column in columns]
    if v.options.avx512 and v.dtype.lanes == _OF_TWO:
        # vpermi2 ignores the bits above the index
        return [_permute_two_registers(v, column, row) for column in columns]
    row = v.integer("and", row, ROWS - 1)
    if v.options.permutes and v.dtype.lanes > 1:
        return _permute_four_registers(v, columns, row)  # four registers of eight rows each, and two selects
    return [_load_entries(v, f"tw_{name}_{at}", column, row) for at, column in enumerate(columns)]


def _vector(v: Lanes, numbers: Sequence[float]) -> str:
    """A constant of these lanes."""
    return f"<{', '.join(f'float {float_constant(value, v.dtype.element)}' for value in numbers)}>"


def _permute_two_registers(v: Lanes, column: Sequence[float], row: str) -> str:
    low, high = (_vector(v, half) for half in (column[:_OF_TWO], column[_OF_TWO:]))
    return v.f.op(
        f"call {v.kind} @llvm.x86.avx512.vpermi2var.ps.512({v.kind} {low}, {llvm_type(v.word)} {row}, {v.kind} {high})"
    )


def _permute_four_registers(v: Lanes, columns: Sequence[Sequence[float]], row: str) -> list[str]:
    part = Lanes(v.f, v.dtype.with_lanes(_OF_FOUR), v.options)  # AVX2 permutes eight lanes at a time
    zero = int_constant(0, v.word)
    parts: list[list[str]] = []
    for first in range(0, v.dtype.lanes, _OF_FOUR):
        lanes = range(first, first + _OF_FOUR)
        rows = row if v.dtype.lanes == _OF_FOUR else take_lanes(v.f, row, v.word, lanes, zero)
        odd, upper = (part.is_set(rows, bit) for bit in (_OF_FOUR, 2 * _OF_FOUR))
        parts.append([_permute(part, column, rows, odd, upper) for column in columns])
    return [concatenate(v.f, list(each), part.dtype, v.dtype) for each in zip(*parts, strict=True)]


def _permute(v: Lanes, column: Sequence[float], row: str, odd: str, upper: str) -> str:
    """Look up rows of a table: by the low three bits of a row in each register, and by the others among registers."""
    kind = llvm_type(v.word)
    taken = [
        v.f.op(f"call {v.kind} @llvm.x86.avx2.permps({v.kind} {_vector(v, column[at : at + _OF_FOUR])}, {kind} {row})")
        for at in range(0, ROWS, _OF_FOUR)
    ]
    pairs = [select(v.f, odd, second, first, v.dtype) for first, second in (taken[:2], taken[2:])]
    return select(v.f, upper, pairs[1], pairs[0], v.dtype)


def _load_entries(v: Lanes, name: str, column: Sequence[float], row: str) -> str:
    f, one = v.f, Lanes(v.f, v.dtype.element, v.options)
    table = f"[{ROWS} x {one.kind}]"
    f.module.define_once(
        # the vector's text without < and >
        name,
        lambda: f.module.add(f"@{name} = private unnamed_addr constant {table} [{_vector(v, column)[1:-1]}]"),
    )

    def taken(index: str) -> str:
        place = f.op(f"getelementptr inbounds {table}, ptr @{name}, i32 0, i32 {index}")
        return f.op(f"load {one.kind}, ptr {place}")

    if v.dtype.lanes == 1:
        return taken(row)
    result = "poison"
    for lane in range(v.dtype.lanes):
        number = taken(f.op(f"extractelement {llvm_type(v.word)} {row}, i32 {lane}"))
        result = f.op(f"insertelement {v.kind} {result}, {one.kind} {number}, i32 {lane}")
    return result

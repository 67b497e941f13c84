"""merge and contract: loops of a script after each other as one, and memory between them of the rows that are needed at once."""

from __future__ import annotations

from typing import Any

import drawn
import numpy as np
import pytest
import tilewright as tw
from drawn_scripts import script_of
from tilewright import te
from tilewright.schedule.model.hybrid_errors import HybridLoopCarries, HybridLoopsApart
from tilewright.schedule.primitives.contract import can_contract
from tilewright.schedule.primitives.merge import find_shift
from tilewright.te.hybrid import allocate, output_tensor, script


def steps(rng: np.random.Generator) -> tuple[str, int]:
    """The text of a script of nests after each other, each of which reads neighbours of what some before it stored, and the rows that it
    reads more of its input than it stores."""
    count = int(rng.integers(2, 5))
    names = [*(f"b{at}" for at in range(1, count)), "c"]
    sizes = {"A": f"n + {2 * count}", **{name: f"n + {2 * (count - at - 1)}" for at, name in enumerate(names)}}
    lines = ["def script(A):", f"    n = A.shape[0] - {2 * count}", "    c = output_tensor((n, n), 'int32')"]
    lines += [f"    {name} = allocate(({sizes[name]}, {sizes[name]}), 'int32')" for name in names[:-1]]
    tab = "    "
    if rng.random() < 0.3:
        lines, tab = [*lines, "    for t in range(2):"], "        "
    for at, name in enumerate(names):
        before = ["A", *names[:at]]
        terms = list[str]()
        for source in rng.choice([*before, before[-1], before[-1]], int(rng.integers(1, 4))):
            far = [int(each) for each in rng.integers(0, 2 * (at + 1 - before.index(source)) + 1, 2)]
            terms.append(f"{source}[i + {far[0]}, j + {far[1]}]")
        stored = f"{name}[i, j] = {' - '.join(terms)}"
        columns = sizes[name] if rng.random() < 0.8 else "i + 1"
        lines += [f"{tab}for i in range({sizes[name]}):", f"{tab}    for j in range({columns}):"]
        if rng.random() < 0.2:
            lines += [f"{tab}        if A[i, j] > 0:", f"{tab}            {stored}", f"{tab}        else:"]
            lines += [f"{tab}            {name}[i, j] = j"]
        elif at and rng.random() < 0.2:  # and a store to what came before
            lines += [f"{tab}        {stored}", f"{tab}        {names[at - 1]}[i + 1, j] = {names[at - 1]}[i, j] + 1"]
        else:
            lines.append(f"{tab}        {stored}")
    return "\n".join([*lines, "    return c"]), 2 * count


def test_drawn_loops_after_each_other_have_the_values_of_the_script() -> None:
    merged = contracted = 0
    for case in range(drawn.count(16, 600)):
        rng = drawn.rng("merge", case)
        text, more = steps(rng)
        n = int(rng.choice((1, 2, 5, 7)))
        values = rng.integers(-9, 10, (n + more, n + more)).astype("int32")
        extent = te.size_var("n") if rng.random() < 0.4 else n + more
        A = te.placeholder((extent, extent), "int32", name="A")
        function = script_of(text, f"merge {case}")
        c = function(A)
        s = te.create_schedule(c.op)
        for _ in range(12):
            loops = [axis for axis in s[c].leaf_iter_vars if isinstance(find_shift(s[c], axis), int)]
            filled = [axis for axis in s[c].leaf_iter_vars if can_contract(s[c], axis)]
            if filled and (not loops or rng.random() < 0.3):
                s[c].contract(filled[int(rng.integers(len(filled)))])
                contracted += 1
            elif loops:
                s[c].merge(loops[int(rng.integers(len(loops)))])
                merged += 1
        result = np.empty((n, n), "int32")
        tw.build(s, [A, c], target="interpret" if case % 3 else "llvm")(values, result)
        np.testing.assert_array_equal(result, function(values), err_msg=f"{text}\n{s}")
        assert s.is_exact and str(te.Schedule.replay(s.trace, [c])) == str(s)
    assert merged and contracted


@script
def rows(A):  # pyright: ignore[reportMissingParameterType, reportUnknownParameterType]
    b = allocate((8, 8), "int32")
    c = output_tensor((8, 8), "int32")
    for i in range(8):
        for j in range(8):
            b[i, j] = A[i, j]
    for k in range(7):
        for j in range(8):
            c[k, j] = b[k + 1, j] - b[k, j]
    for r in range(8):
        for j in range(8):
            c[r, j] = c[r, j] + c[7 - r, j]
    return c


def test_a_loop_lags_and_memory_keeps_its_rows() -> None:
    A = te.placeholder((8, 8), "int32", name="A")
    c = rows(A)
    s = te.create_schedule(c.op)
    i, k = (next(axis for axis in s[c].leaf_iter_vars if axis.name == name) for name in "ik")
    with pytest.raises(HybridLoopsApart, match="cannot contract"):
        s[c].contract(i)
    with pytest.raises(HybridLoopCarries, match="elements of c"):
        s[c].merge(k)
    merged: Any = s[c].merge(i)
    s[c].contract(merged)
    text = str(s)
    assert "b: int32[2, 8]" in text and "c[i - 1, j_1] = b[i % 2, j_1] - b[(i + 1) % 2, j_1]" in text, text
    s[c].parallel(next(axis for axis in s[c].leaf_iter_vars if axis.name == "j"))
    with pytest.raises(HybridLoopsApart, match="a loop in them is annotated"):
        s[c].merge(merged)
    s[c].split(merged, 2)
    with pytest.raises(HybridLoopsApart, match="no unscheduled loop"):
        s[c].merge(next(axis for axis in s[c].leaf_iter_vars if axis.name == "r"))

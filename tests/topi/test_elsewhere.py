"""Every operator of topi on Arm's and RISC-V's processors, by the schedule that is chosen for them, against numpy's reference."""

from __future__ import annotations

import zlib
from pathlib import Path
from typing import Any

import cross
import drawn
import numpy as np
import pytest
import tilewright as tw
from tilewright import te
from tilewright.runtime.array import numpy_dtype
from tilewright.topi.row import load_rows

CASES = [
    (name, sample)
    for name, row in load_rows().items()
    for sample in row.samples
    if not any(0 in getattr(each, "shape", ()) for each in sample.inputs)  # graphs answer those without a kernel
]
MACHINES = ("v8.0", "i8mm", "sve128", "sve512", "rv64gc", "rvv128", "rvv256")
PAIRS = [(at, MACHINES[zlib.crc32(f"{at} {drawn.SEED}".encode()) % len(MACHINES)]) for at in range(len(CASES))]
"""A machine for each case, another one with every seed."""


@cross.needs(*MACHINES)
@pytest.mark.parametrize(
    ("at", "machine"), drawn.part(PAIRS, 12), ids=lambda one: CASES[one][0] if isinstance(one, int) else str(one)
)
def test_what_is_built_agrees_with_the_reference(at: int, machine: str, tmp_path: Path) -> None:
    name, sample = CASES[at]
    row = load_rows()[name]
    attributes = {**row.attributes, **sample.attributes}
    arrays: list[Any] = sample.arrays(np.random.default_rng(zlib.crc32(repr((name, sample.attributes)).encode())))
    tensors = [te.placeholder(array.shape, str(array.dtype), f"x{k}") for k, array in enumerate(arrays)]
    declared = row.declare(*tensors, **attributes)
    outputs = list(declared) if isinstance(declared, (list, tuple)) else [declared]
    expected = row.reference(*arrays, **attributes)
    expected = list(expected) if isinstance(expected, (list, tuple)) else [np.asarray(expected)]
    target = cross.MACHINES[machine][0]
    kernel = tw.build(tw.autoschedule.schedule(outputs, target), [*tensors, *outputs], target=target, name="kernel")
    empty = [np.zeros([int(extent) for extent in y.shape], numpy_dtype(str(y.dtype))) for y in outputs]
    try:
        got = cross.run(kernel, [*arrays, *empty], machine, tmp_path)[len(arrays) :]
    except cross.EmulatorFault:
        pytest.skip("qemu stops at an assertion of its own")
    for ours, theirs in zip(got, expected, strict=True):
        exact = ours.dtype.kind in "iub"
        np.testing.assert_allclose(
            ours.astype("float64"), theirs.astype("float64"), rtol=0 if exact else 2e-5, atol=0 if exact else 2e-5
        )

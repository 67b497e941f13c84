"""Code for AArch64 and RISC-V under qemu: drawn programs, and what their libraries ask the processor, against this machine."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import cross
import drawn
import numpy as np
import pytest
import tilewright as tw
from cross import ARM, MACHINES, RISCV
from drawn_elsewhere import compare_case, same_bits
from tilewright import te, topi
from tilewright.codegen.export.cpu import needed_features
from tilewright.codegen.target import Target


@cross.needs(*MACHINES)
def test_drawn_programs_give_the_bits_of_this_machine(tmp_path: Path) -> None:
    seed, names = drawn.SEED, list(MACHINES)
    left_out = [
        compare_case(seed, case, names[(case + seed) % len(names)], tmp_path) for case in range(drawn.count(4, 500))
    ]
    assert not drawn.count(0, 1) or "" in left_out


def _softmax() -> list[te.Tensor]:
    A = te.placeholder((5, 131), name="A")
    return [A, topi.nn.softmax(A)]


def _product() -> list[te.Tensor]:
    A, B = te.placeholder((37, 67), name="A"), te.placeholder((67, 101), name="B")
    return [A, B, topi.matmul(A, B)]


def _convolution() -> list[te.Tensor]:
    A, W = te.placeholder((1, 5, 19, 21), name="A"), te.placeholder((7, 5, 3, 3), name="W")
    return [A, W, topi.nn.conv2d(A, W, padding=1)]


def _depthwise() -> list[te.Tensor]:
    A, W = te.placeholder((1, 19, 17, 13), name="A"), te.placeholder((19, 1, 3, 3), name="W")
    return [A, W, topi.nn.depthwise_conv2d_nchw(A, W, 1, 1)]


def _halves() -> list[te.Tensor]:
    A, B = te.placeholder((33, 65), "float16", "A"), te.placeholder((65, 31), "float16", "B")
    return [A, B, topi.matmul(A, B)]


PROGRAMS: tuple[Callable[[], list[te.Tensor]], ...] = (_softmax, _product, _convolution, _depthwise, _halves)


@cross.needs(*MACHINES)
@pytest.mark.parametrize("machine", drawn.part(list(MACHINES), 2))
def test_schedules_chosen_there_compute_the_same(machine: str, tmp_path: Path) -> None:
    """Exactly: the declared order of sums, so that bits are those of this machine."""
    target = MACHINES[machine][0]
    for declare in PROGRAMS:
        args = declare()
        rng = np.random.default_rng(3)
        inputs = [rng.normal(size=[int(n) for n in tensor.shape]).astype(str(tensor.dtype)) for tensor in args[:-1]]
        out = np.zeros([int(n) for n in args[-1].shape], str(args[-1].dtype))
        want = out.copy()
        tw.build(tw.autoschedule.schedule(args[-1], "llvm", exact=True), args, target="llvm")(*inputs, want)
        kernel = tw.build(tw.autoschedule.schedule(args[-1], target, exact=True), args, target=target, name="kernel")
        got = cross.run(kernel, [*inputs, out], machine, tmp_path)[-1]
        assert same_bits(want, got), (machine, declare.__name__)


def _doubled(target: str) -> Any:
    A = te.placeholder((37,), name="A")
    return tw.build([A, te.compute((37,), lambda i: A[i] * 2, "B")], target=target, name="kernel")


@cross.needs("rv64gc")
@pytest.mark.parametrize(
    ("features", "cpu", "runs"),
    [
        ("", "rv64", True),
        (" -mattr=+v", "rv64", False),
        (" -mattr=+v", "rv64,v=true,vlen=128", True),
        (" -mattr=+v,+zvl256b", "rv64,v=true,vlen=128", False),
        (" -mattr=+v,+zvl256b", "rv64,v=true,vlen=512", True),
    ],
)
def test_a_library_asks_a_risc_v_processor_for_its_vectors(features: str, cpu: str, runs: bool, tmp_path: Path) -> None:
    kernel, x = _doubled(RISCV + features), np.arange(37, dtype=np.float32)
    if not runs:
        with pytest.raises(AssertionError, match="status -"):
            cross.run(kernel, [x, np.zeros_like(x)], "rv64gc", tmp_path, cpu)
        return
    np.testing.assert_array_equal(cross.run(kernel, [x, np.zeros_like(x)], "rv64gc", tmp_path, cpu)[1], x * 2)


def test_what_a_risc_v_target_needs_is_asked_for() -> None:
    assert needed_features(Target.parse(RISCV)) == ()
    assert needed_features(Target.parse(f"{RISCV} -mattr=+v,+zba")) == ("v", "zba")
    assert "rvv-vector-bits=256" in needed_features(Target.parse(f"{RISCV} -mcpu=spacemit-x60"))
    assert {"v", "zba", "zbb", "zbs", "zvfh"} <= set(needed_features(Target.parse(f"{RISCV} -mcpu=thead-c908")))
    text = _doubled(f"{RISCV} -mattr=+v,+zba").source("asm")
    assert "vsetivli" in text


@cross.needs("v8.0")
def test_one_library_has_variants_for_processors(tmp_path: Path) -> None:
    """Products of bytes by smmla, sdot, or neither, as the processor that loads it says; and SVE's where it has that."""
    A, B, k = te.placeholder((32, 64), "int8", "A"), te.placeholder((64, 32), "int8", "B"), te.reduce_axis((0, 64), "k")
    C = te.compute((32, 32), lambda i, j: te.sum(A[i, k].astype("int32") * B[k, j].astype("int32"), axis=k), "C")
    lib = tw.Library("kernel")
    features = ("", "-mattr=+dotprod", "-mattr=+dotprod,+i8mm", "-mattr=+dotprod,+sve")
    lib.add("kernel", [A, B, C], target=[f"{ARM} {each}".strip() for each in features])
    rng = np.random.default_rng(0)
    x, y = (rng.integers(-128, 128, size).astype(np.int8) for size in ((32, 64), (64, 32)))
    want = x.astype(np.int32) @ y.astype(np.int32)
    for cpu in ("cortex-a53", "neoverse-n1", "max,sve=off", "max"):
        got = cross.run(lib, [x, y, np.zeros_like(want)], "v8.0", tmp_path, cpu)[-1]
        np.testing.assert_array_equal(got, want, cpu)

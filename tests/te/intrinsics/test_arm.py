"""AArch64's dot products: loops on this machine, one instruction each where the processor has it, the same results there."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import cross
import ml_dtypes
import numpy as np
import pytest
import tilewright as tw
from cross import ARM, MACHINES, RISCV
from tilewright import te

BF16, F16, FLOAT = "bfloat16", "float16", "float32"
DOTS = {
    "arm.sdot": ("int8", "int8", "int32", 1, 4, 4, "sdot"),
    "arm.udot": ("uint8", "uint8", "int32", 1, 4, 4, "udot"),
    "arm.usdot": ("uint8", "int8", "int32", 1, 4, 4, "usdot"),
    "arm.smmla": ("int8", "int8", "int32", 2, 2, 8, "smmla"),
    "arm.ummla": ("uint8", "uint8", "int32", 2, 2, 8, "ummla"),
    "arm.usmmla": ("uint8", "int8", "int32", 2, 2, 8, "usmmla"),
    "arm.bfmlal": (BF16, BF16, FLOAT, 1, 4, 2, "bfmlalt"),
    "arm.fmlal": (F16, F16, FLOAT, 1, 8, 1, "fmlal2"),
    "arm.bfdot": (BF16, BF16, FLOAT, 1, 4, 2, "bfdot"),
    "arm.bfmmla": (BF16, BF16, FLOAT, 2, 2, 4, "bfmmla"),
    "x86.dot_u8i8_16x4": ("uint8", "int8", "int32", 1, 16, 4, "usdot"),
    "x86.dot_i8u8_16x4": ("int8", "uint8", "int32", 1, 16, 4, "usdot"),
    "x86.dot_i16i8_16x2": ("int16", "int8", "int32", 1, 16, 2, "smlal"),
    "x86.dot_bf16_16x2": (BF16, BF16, FLOAT, 1, 16, 2, "bfmlalt"),
}
"""Of a, b and the sums; rows and lanes of a call, and how many terms it takes; the instruction."""
INEXACT = ("arm.bfdot", "arm.bfmmla")
N, M, K = 4, 32, 24


def program(name: str) -> tuple[Any, list[Any]]:
    a, b, sums, rows, lanes, length, _ = DOTS[name]
    A = te.placeholder((N // rows, K // length, rows, length), a, "A")
    B = te.placeholder((M // lanes, K // length, lanes, length), b, "B")
    r = te.reduce_axis((0, K), "r")
    C = te.compute(
        (N, M),
        lambda i, j: te.sum(
            A[i // rows, r // length, i % rows, r % length].astype(sums)
            * B[j // lanes, r // length, j % lanes, r % length].astype(sums),
            axis=r,
        ),
        "C",
    )
    s = te.create_schedule(C)
    io, ii = s[C].split(C.op.axis[0], factor=rows)
    jo, ji = s[C].split(C.op.axis[1], factor=lanes)
    ro, ri = s[C].split(r, factor=length)
    s[C].reorder(*((io, jo, ro, ii, ji, ri) if rows > 1 else (io, ii, jo, ro, ji, ri)))
    s[C].tensorize(ii if rows > 1 else ji, te.intrinsics.get(name))
    return s, [A, B, C]


def drawn(tensor: te.Tensor, rng: np.random.Generator) -> np.ndarray:
    """Bytes of all values, their least among the first; floats that round."""
    shape, dtype = [int(extent) for extent in tensor.shape], str(tensor.dtype)  # pyright: ignore[reportArgumentType]
    if "int" not in dtype:
        return rng.normal(size=shape).astype(ml_dtypes.bfloat16 if dtype == BF16 else dtype)
    limits = np.iinfo(dtype)
    values = rng.integers(limits.min if limits.bits == 8 else -255, limits.max + 1 if limits.bits == 8 else 256, shape)
    values.flat[:40] = limits.min if limits.bits == 8 else -255
    return values.astype(dtype)


def expected(name: str) -> list[np.ndarray]:
    """What the declared program gives, without the intrinsic."""
    s, args = program(name)
    rng = np.random.default_rng(5)
    x, y = (drawn(tensor, rng) for tensor in args[:2])
    want = np.zeros((N, M), str(args[2].dtype))
    tw.build(te.create_schedule(args[2].op), args, target="llvm")(x, y, want)
    return [x, y, want]


@pytest.mark.parametrize("name", [name for name in DOTS if name.startswith("arm")])
def test_loops_do_the_same_on_this_machine(name: str) -> None:
    x, y, want = expected(name)
    s, args = program(name)
    for target in ("llvm", "interpret"):
        got = np.zeros_like(want)
        tw.build(s, args, target=target)(x, y, got)
        np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("name", DOTS)
def test_the_processor_has_an_instruction(name: str) -> None:
    s, args = program(name)
    asm = tw.build(s, args, target=MACHINES["i8mm"][0]).source("asm")
    assert re.search(rf"\t{DOTS[name][-1]}\tv", asm)
    assert not re.search(
        r"\t(bf|[us]+dot|[us]+mmla|fmlal)", tw.build(s, args, target=f"{ARM} -mcpu=cortex-a53").source("asm")
    )


@cross.needs("i8mm")
@pytest.mark.parametrize("machine", ["i8mm", "dotprod"])
def test_results_there_are_those_here(machine: str, tmp_path: Path) -> None:
    for name in DOTS:
        x, y, want = expected(name)
        s, args = program(name)
        kernel = tw.build(s, args, target=MACHINES[machine][0], name="kernel")
        got = cross.run(kernel, [x, y, np.zeros_like(want)], machine, tmp_path)[-1]
        if name in INEXACT and machine == "i8mm":
            np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5, err_msg=name)
        else:
            np.testing.assert_array_equal(got, want, name)


def product(a: str, b: str, m: int, n: int, k: int) -> list[te.Tensor]:
    A, B, r = te.placeholder((m, k), a, "A"), te.placeholder((k, n), b, "B"), te.reduce_axis((0, k), "r")
    C = te.compute((m, n), lambda i, j: te.sum(A[i, r].astype("int32") * B[r, j].astype("int32"), axis=r), name="C")
    return [A, B, C]


KINDS = [(a, b) for a in ("int8", "uint8") for b in ("int8", "uint8")]


@pytest.mark.parametrize(
    "cpu, instruction",
    [
        ("neoverse-n1", "[su]dot"),
        ("apple-m1", "[su]dot"),
        ("cortex-a55", "[su]dot"),
        ("neoverse-v1", "us?mmla|smmla"),
        ("neoverse-n2", "us?mmla|smmla"),
        ("apple-m2", "us?mmla|smmla"),
    ],
)
def test_products_of_bytes_are_in_tiles(cpu: str, instruction: str) -> None:
    """By the rule, whatever the signs, without a register that is put by in the loop."""
    target = f"{ARM} -mcpu={cpu}"
    for a, b in KINDS:
        args = product(a, b, 128, 256, 256)
        s = tw.autoschedule.schedule(args[-1], target)
        assert [row.rule for row in s.plan] == ["byte_tiles"] and s.is_exact
        blocks = re.split(r"^\.LBB\w+:", tw.build(s, args, target=target).source("asm"), flags=re.MULTILINE)
        found = max(blocks, key=lambda block: len(re.findall(rf"\t({instruction})\t", block)))
        loop = found[: found.find("\tb.ne")]
        assert len(re.findall(rf"\t({instruction})\t", loop)) >= 16 and not re.search(r"\tst\w*\t|\tdup\t|\[sp", loop)
        # of which llvm-mca's Cortex-A55 does nothing beside
        assert ("\tldp\tq" in loop) == (cpu != "cortex-a55")


@cross.needs("i8mm")
@pytest.mark.parametrize("machine", ["dotprod", "i8mm"])
def test_products_of_bytes_are_exact_there(machine: str, tmp_path: Path) -> None:
    for at, (a, b) in enumerate(KINDS):
        m, n, k = ((37, 101, 67), (96, 128, 130), (65, 33, 64), (128, 40, 257))[at]
        args, rng = product(a, b, m, n, k), np.random.default_rng(at)
        x, y = drawn(args[0], rng), drawn(args[1], rng)
        s = tw.autoschedule.schedule(args[-1], MACHINES[machine][0])
        kernel = tw.build(s, args, target=MACHINES[machine][0], name="kernel")
        got = cross.run(kernel, [x, y, np.zeros((m, n), np.int32)], machine, tmp_path)[-1]
        np.testing.assert_array_equal(got, x.astype(np.int32) @ y.astype(np.int32), f"{a} {b}")


@pytest.mark.parametrize(
    ("target", "instruction"),
    [
        (f"{ARM} -mcpu=cortex-a55", r"fmla\tv\d+\.8h"),
        (f"{RISCV} -mcpu=spacemit-x60", r"vfmacc\.v"),
        ("llvm -mtriple=x86_64-unknown-linux-gnu -mcpu=sapphirerapids", "vfmadd[0-9]*ph"),
    ],
)
def test_multiply_adds_of_float16_are_an_instruction(target: str, instruction: str) -> None:
    """By te.fma, and in sums of products where a build may contract them: as declared, both are rounded."""
    a, b, c = (te.placeholder((64, 64), F16, name) for name in "abc")
    r = te.reduce_axis((0, 64), "r")
    once = te.compute(a.shape, lambda i, j: te.fma(a[i, j], b[i, j], c[i, j]), "once")
    product = te.compute(a.shape, lambda i, j: te.sum(a[i, r] * b[r, j], r), "product")
    for output, contracts, is_one in ((once, False, True), (product, True, True), (product, False, False)):
        args = [*dict.fromkeys(output.op.input_tensors), output]
        s = tw.autoschedule.schedule(output, f"{target} -cores=1")
        asm = tw.build(s, args, target=f"{target} -cores=1", fp_contract=contracts).source("asm")
        assert bool(re.search(rf"\t{instruction}", asm)) == is_one


@cross.needs("sve128")
def test_multiply_adds_of_float16_round_once_there(tmp_path: Path) -> None:
    """Bits of any kind."""
    a, b, c = (te.placeholder((1000,), F16, name) for name in "abc")
    once = te.compute(a.shape, lambda i: te.fma(a[i], b[i], c[i]), "once")
    s, args = te.create_schedule(once.op), [a, b, c, once]
    arrays = [np.random.default_rng(at).integers(0, 1 << 16, 1000).astype(np.uint16).view(F16) for at in range(3)]
    want = np.zeros(1000, F16)
    tw.build(s, args, target="interpret")(*arrays, want)
    kernel = tw.build(s, args, target=MACHINES["sve128"][0], name="kernel")
    assert "fmla" in kernel.source("asm")
    got = cross.run(kernel, [*arrays, np.zeros_like(want)], "sve128", tmp_path)[-1]
    np.testing.assert_array_equal(got, want)

"""Code for AArch64, with NEON and with SVE: exported, linked into static programs, and run by qemu, or by Unicorn, where one of
them is installed."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import drawn
import llvmlite.binding as llvm
import maths_reference
import numpy as np
import pytest
import static_elf
import tilewright as tw
from emulated_avx512 import Processor
from emulated_processor import run_program
from tilewright import te, topi
from tilewright.codegen.export.cpu import needed_features
from tilewright.codegen.llvm.features import maths_options
from tilewright.codegen.llvm.maths import FUNCTIONS
from tilewright.codegen.machine import find_machine, register_tiles
from tilewright.codegen.target import Target

QEMU = shutil.which("qemu-aarch64")
NEON = "llvm -mtriple=aarch64-unknown-linux-gnu"
MACHINES = {
    "neon": NEON,
    "sve": NEON + " -mattr=+sve",
    "sve256": NEON + " -mattr=+sve -msve-vector-bits=256",
    "sve512": NEON + " -mcpu=a64fx",
}
PROCESSORS = {"sve256": "max,sve-default-vector-length=32", "sve512": "max,sve-default-vector-length=64"}
"""What qemu is told to be for a machine; otherwise all that it can be."""

needs_emulator = pytest.mark.skipif(
    QEMU is None and find_spec("unicorn") is None, reason="neither qemu-aarch64 nor unicorn is installed"
)

# read(0, ...) and write(1, ...) by system call, as there is no C library
_DRIVER = """
target triple = "aarch64-unknown-linux-gnu"
{buffers}
declare i32 @kernel({pointers})

; mov x8, x0; mov x0, x1; mov x1, x2; mov x2, x3; svc #0; ret
@system = internal constant [6 x i32] [i32 u0xAA0003E8, i32 u0xAA0103E0, i32 u0xAA0203E1, i32 u0xAA0303E2, i32 u0xD4000001,
                                       i32 u0xD65F03C0], align 4

define internal void @transfer(i64 %number, i64 %file, ptr %p, i64 %size) noinline {{
entry:
  %begin = ptrtoint ptr %p to i64
  %end = add i64 %begin, %size
  br label %more
more:
  %at = phi i64 [ %begin, %entry ], [ %next, %more ]
  %left = sub i64 %end, %at
  %moved = call i64 @system(i64 %number, i64 %file, i64 %at, i64 %left)
  %next = add i64 %at, %moved
  %ended = icmp sle i64 %moved, 0
  %full = icmp uge i64 %next, %end
  %stop = or i1 %ended, %full
  br i1 %stop, label %done, label %more
done:
  ret void
}}

; what the check of the processor asks the system for: pairs behind the program's arguments and environment
@stack = internal global ptr null

define i64 @getauxval(i64 %wanted) {{
entry:
  %begin = load ptr, ptr @stack
  %count = load i64, ptr %begin
  %skipped = add i64 %count, 2
  %environment = getelementptr i64, ptr %begin, i64 %skipped
  br label %skip
skip:
  %e = phi ptr [ %environment, %entry ], [ %e1, %skip ]
  %value = load i64, ptr %e
  %e1 = getelementptr i64, ptr %e, i64 1
  %last = icmp eq i64 %value, 0
  br i1 %last, label %look, label %skip
look:
  %p = phi ptr [ %e1, %skip ], [ %p1, %other ]
  %kind = load i64, ptr %p
  %content_at = getelementptr i64, ptr %p, i64 1
  %content = load i64, ptr %content_at
  %found = icmp eq i64 %kind, %wanted
  br i1 %found, label %done, label %other
other:
  %p1 = getelementptr i64, ptr %p, i64 2
  %ended = icmp eq i64 %kind, 0
  br i1 %ended, label %done, label %look
done:
  %result = phi i64 [ %content, %look ], [ 0, %other ]
  ret i64 %result
}}

define void @main(ptr %stack) noreturn {{
  store ptr %stack, ptr @stack
{reads}
  %status = call i32 @kernel({arguments})
{writes}
  %failed = icmp ne i32 %status, 0
  %code = zext i1 %failed to i64
  %never = call i64 @system(i64 93, i64 %code, i64 0, i64 0)
  unreachable
}}
"""


def _driver(sizes: Sequence[int], inputs: int) -> bytes:
    """The object of a program that reads the inputs, calls the kernel, and writes the outputs."""

    def moves(number: int, file: int, which: range) -> str:
        return "\n".join(f"  call void @transfer(i64 {number}, i64 {file}, ptr @b{i}, i64 {sizes[i]})" for i in which)

    text = _DRIVER.format(
        buffers="\n".join(
            f"@b{i} = internal global [{size} x i8] zeroinitializer, align 64" for i, size in enumerate(sizes)
        ),
        pointers=", ".join(["ptr"] * len(sizes)),
        arguments=", ".join(f"ptr @b{i}" for i in range(len(sizes))),
        reads=moves(63, 0, range(inputs)),
        writes=moves(64, 1, range(inputs, len(sizes))),
    )
    machine = Target.parse(NEON).machine()
    with llvm.create_context() as context, llvm.parse_assembly(text, context) as module:
        return machine.emit_object(module)


def run(kernel: Any, inputs: Sequence[np.ndarray], out: np.ndarray, folder: Path, machine: str) -> np.ndarray:
    """What the kernel, named "kernel", computes there."""
    done = start(kernel, inputs, [out.nbytes], folder, PROCESSORS.get(machine, "max"))
    assert done.returncode == 0, done.stderr.decode(errors="replace")
    return np.frombuffer(done.stdout, out.dtype).reshape(out.shape)


def start(
    kernel: Any, inputs: Sequence[np.ndarray], outputs: Sequence[int], folder: Path, cpu: str = "max"
) -> subprocess.CompletedProcess[bytes]:
    """The program, run. outputs: their sizes in bytes."""
    library, _, _ = kernel.export(folder / "kernel.o", threads="none")
    program = folder / "program"
    sizes = [*(x.nbytes for x in inputs), *outputs]
    program.write_bytes(static_elf.link([_driver(sizes, len(inputs)), library.read_bytes()]))
    program.chmod(0o755)
    data = b"".join(x.tobytes() for x in inputs)
    if QEMU is None:
        return run_program(program.read_bytes(), data, cpu)
    return subprocess.run([QEMU, "-cpu", cpu, program], input=data, capture_output=True, timeout=60, check=False)


def build(tensors: Sequence[te.Tensor], target: str, lanes: int = 0) -> Any:
    """The last tensor's kernel; in vectors of so many lanes along its last axis."""
    result = tensors[-1]
    s = te.create_schedule(result)
    if lanes:
        s[result].vectorize(s[result].split(result.op.axis[-1], lanes)[1])
    return tw.build(s, list(tensors), target=target, name="kernel")


@needs_emulator
@pytest.mark.parametrize("machine", MACHINES)
def test_vectors_are_added(machine: str, tmp_path: Path) -> None:
    a, b = (te.placeholder((1003,), name=name) for name in "ab")
    c = te.compute((1003,), lambda i: a[i] + b[i] * 2, "c")
    x, y = (np.random.default_rng(seed).normal(size=1003).astype(np.float32) for seed in (1, 2))
    for lanes in (0, 4, 16):
        kernel = build([a, b, c], MACHINES[machine], lanes)
        got = run(kernel, [x, y], np.empty(1003, np.float32), tmp_path, machine)
        np.testing.assert_allclose(got, x + y * 2, rtol=1e-6, atol=1e-6)
    vectors = r"\bz\d+\.s" if machine in PROCESSORS else r"\bv\d+\.4s|\bz\d+\.s"
    assert len(re.findall(vectors, kernel.source("asm"))) > 2


@needs_emulator
@pytest.mark.parametrize("machine", MACHINES)
def test_a_product_of_matrices_in_register_tiles(machine: str, tmp_path: Path) -> None:
    """By topi's schedule for that machine: sizes that no tile divides."""
    m, n, k = 45, 53, 37
    a, b = te.placeholder((m, k), name="a"), te.placeholder((k, n), name="b")
    c = topi.matmul(a, b)
    kernel = tw.build(topi.schedule(c, MACHINES[machine]), [a, b, c], target=MACHINES[machine], name="kernel")
    x, y = (np.random.default_rng(i).normal(size=shape).astype(np.float32) for i, shape in enumerate([(m, k), (k, n)]))
    got = run(kernel, [x, y], np.empty((m, n), np.float32), tmp_path, machine)
    np.testing.assert_allclose(got, x.astype(np.float64) @ y, rtol=1e-4, atol=1e-5)
    assert "fmla" in kernel.source("asm")


@needs_emulator
@pytest.mark.parametrize(
    ("machine", "dtype"), drawn.part([(machine, dtype) for machine in MACHINES for dtype in ("float32", "float64")], 3)
)
def test_functions_have_the_bits_of_this_machine(machine: str, dtype: str, tmp_path: Path) -> None:
    """All of them in one program: a row each. This machine's by its family, as docs/numerics.md says."""
    pairs = [x[-4000:] for x in maths_reference.sample("pow", dtype)]
    a, b = (te.placeholder(x.shape, dtype, name) for x, name in zip(pairs, "ab", strict=True))

    def built(target: str) -> Any:
        rows = [
            te.compute(a.shape, lambda i, name=name: getattr(te, name)(*(x[i] for x in tensors)), name)
            for name in FUNCTIONS
            for tensors in ([a, b] if name in maths_reference.PAIRS else [a],)
        ]
        s = te.create_schedule(rows)
        for row in rows:
            s[row].vectorize(s[row].split(row.op.axis[0], Target.parse(target).lanes(a.dtype.bits))[1])
        return tw.build(s, [a, b, *rows], target=target, name="kernel")

    done = start(
        built(MACHINES[machine]), pairs, [pairs[0].nbytes] * len(FUNCTIONS), tmp_path, PROCESSORS.get(machine, "max")
    )
    there = np.frombuffer(done.stdout, dtype).reshape(len(FUNCTIONS), -1)
    here = Processor(maths_options(Target.parse(MACHINES[machine]), fast=False))
    for name, got in zip(FUNCTIONS, there, strict=True):
        inputs = pairs if name in maths_reference.PAIRS else pairs[:1]
        want = here.run(name, *inputs, lanes=4)
        np.testing.assert_array_equal(got[: len(want)], want, name)


@needs_emulator
@pytest.mark.parametrize("machine", MACHINES)
def test_the_bits_are_those_of_this_machine(machine: str, tmp_path: Path) -> None:
    """Bytes that are added up, divisions also by zero, halves, and what is read from memory that the kernel allocates."""
    a, b = te.placeholder((7, 37), "int8", "a"), te.placeholder((37, 19), "int8", "b")
    k = te.reduce_axis((0, 37), "k")
    sums = te.compute((7, 19), lambda i, j: te.sum(a[i, k].astype("int32") * b[k, j].astype("int32"), axis=k), "sums")
    c = te.compute(
        (7, 19), lambda i, j: sums[6 - i, j] // b[i, j].astype("int32") + sums[i, j] % a[i, j].astype("int32"), "c"
    )
    h = te.compute(
        (7, 19), lambda i, j: a[i, j].astype("float16") * b[i, j].astype("float16") + c[i, j].astype("float16"), "h"
    )
    x, y = (
        np.random.default_rng(seed).integers(-9, 10, shape).astype(np.int8)
        for seed, shape in ((1, (7, 37)), (2, (37, 19)))
    )
    here = np.empty((7, 19), np.float16)
    build([a, b, h], "llvm", 8)(x, y, here)
    there = run(build([a, b, h], MACHINES[machine], 8), [x, y], np.empty_like(here), tmp_path, machine)
    np.testing.assert_array_equal(there, here)


@needs_emulator
@pytest.mark.parametrize("machine", drawn.part(MACHINES, 2))
@pytest.mark.parametrize("name", ["minimum", "maximum", "relu"])
def test_the_smaller_and_the_greater_of_two_are_an_instruction(machine: str, name: str, tmp_path: Path) -> None:
    a, b = (te.placeholder((64,), name=name) for name in "ab")
    args = [a, topi.nn.relu(a)] if name == "relu" else [a, b, getattr(topi, name)(a, b)]
    kernel = build(args, MACHINES[machine], 16)
    values = np.array([0.0, -0.0, 1.0, -2.0, np.inf, -np.inf, np.nan, 3.0], np.float32)
    x, y = np.repeat(values, 8), np.tile(values, 8)
    got = run(kernel, [x, y][: len(args) - 1], np.empty(64, np.float32), tmp_path, machine)
    y = np.zeros_like(y) if name == "relu" else y
    want = np.minimum(x, y) if name == "minimum" else np.maximum(x, y)
    zeros = (x == 0) & (y == 0)
    want[zeros] = np.where(np.signbit(x) == (name == "minimum"), x, y)[zeros]
    np.testing.assert_array_equal(got, want)
    np.testing.assert_array_equal(np.signbit(got[zeros]), np.signbit(want[zeros]))
    asm = kernel.source("asm")
    assert re.search(rf"f{name.replace('relu', 'max')[:3]}\t[vz]\d", asm) and "fcm" not in asm


def test_no_library_is_needed() -> None:
    """Conversions and functions of vectors are instructions there."""
    a, h = te.placeholder((64,), name="a"), te.placeholder((64,), "float16", name="h")
    c = te.compute((64,), lambda i: te.exp(a[i]) + te.erf(a[i]) + h[i].astype("float32"), "c")
    for target in MACHINES.values():
        assert not [
            line
            for line in build([a, h, c], target, 4).source("asm").splitlines()
            if line.split()[:1] in (["bl"], ["b"]) and line.split()[1].startswith(("exp", "erf", "__"))
        ]


@needs_emulator
def test_a_processor_without_the_instructions_is_told_of(tmp_path: Path) -> None:
    a = te.placeholder((16,), name="a")
    kernel = build([a, te.compute((16,), lambda i: a[i] * 2, "c")], MACHINES["sve"], 4)
    done = start(kernel, [np.ones(16, np.float32)], [64], tmp_path, "cortex-a57")
    assert done.returncode != 0
    assert not np.frombuffer(done.stdout, np.float32).any(), "nothing was computed"


@needs_emulator
@pytest.mark.parametrize(
    "cpu, told",
    [
        ("max,sve-default-vector-length=64", True),
        ("max,sve-default-vector-length=16", True),
        ("max,sve=off", True),
        ("max,sve-default-vector-length=32", False),
    ],
)
def test_a_processor_with_vectors_of_another_length_is_told_of(cpu: str, told: bool, tmp_path: Path) -> None:
    a = te.placeholder((19,), name="a")
    kernel = build([a, te.compute((19,), lambda i: a[i] * 2, "c")], MACHINES["sve256"], 8)
    done = start(kernel, [np.ones(19, np.float32)], [76], tmp_path, cpu)
    assert (done.returncode != 0) == told, done
    np.testing.assert_array_equal(np.frombuffer(done.stdout, np.float32), 0 if told else 2)


@pytest.mark.parametrize(
    "options, bits, name",
    [
        ("-mcpu=cortex-a57 -mattr=+sve", 128, "sve"),  # without a name it is this machine, where that is an Arm
        ("-mcpu=cortex-a57 -mattr=+sve -msve-vector-bits=scalable", 128, "sve"),
        ("-mcpu=neoverse-n2", 128, "sve"),
        ("-mattr=+sve -msve-vector-bits=128", 128, "sve"),
        ("-mattr=+sve2 -msve-vector-bits=512", 512, "sve"),
        ("-mcpu=neoverse-v1", 128, "sve"),
        ("-mcpu=neoverse-v1 -msve-vector-bits=256", 256, "sve"),
        ("-mcpu=neoverse-v1 -msve-vector-bits=scalable", 128, "sve"),
        ("-mcpu=neoverse-v1 -mattr=-sve", 128, "neon"),
        ("-mcpu=a64fx", 512, "sve"),
        ("-mcpu=cortex-a57", 128, "neon"),
    ],
)
def test_the_length_of_vectors_is_the_processors_or_the_one_that_is_given(options: str, bits: int, name: str) -> None:
    target = Target.parse(f"{NEON} {options}")
    machine = find_machine(target)
    assert (target.vector_bits, machine.vector_bytes * 8, machine.name) == (bits, bits, name)
    assert target.masks_vectors == (bits > 128) and target == Target.parse(str(target))
    assert not target.runs_here or Target().architecture == "aarch64"


@pytest.mark.parametrize("machine, lanes", [("sve256", 8), ("sve512", 16)])
def test_register_tiles_fill_whole_registers(machine: str, lanes: int) -> None:
    """The inner loop of a product keeps its tile in registers: multiply-adds of whole vectors, nothing put by."""
    a, b = te.placeholder((96, 64), name="a"), te.placeholder((64, 128), name="b")
    c, target = topi.matmul(a, b), MACHINES[machine] + " -cores=1"
    (tile, *_) = register_tiles(find_machine(Target.parse(MACHINES[machine])), 32)
    assert tile.columns == tile.vectors * lanes
    asm = tw.build(topi.schedule(c, target), [a, b, c], target=target).source("asm")
    blocks = re.split(r"^\.LBB\w+:", asm, flags=re.MULTILINE)
    inner = max(
        (block[: block.find("b.ne")] for block in blocks), key=lambda block: len(re.findall(r"fmla\tz\d+\.s", block))
    )
    assert len(re.findall(r"fmla\tz\d+\.s, p\d/m, z", inner)) >= tile.rows * tile.vectors
    assert not re.search(r"\bst\w+\t|\[sp", inner), inner


def test_what_comes_with_a_processor_is_asked_for() -> None:
    found = {cpu: needed_features(Target.parse(f"{NEON} -mcpu={cpu}")) for cpu in ("cortex-a57", "cortex-a76", "a64fx")}
    assert "sve" not in found["cortex-a76"] and {"dotprod", "lse", "fullfp16"} <= set(found["cortex-a76"])
    assert {"sve", "sve-vector-bits=512"} <= set(found["a64fx"]) and "dotprod" not in found["a64fx"]
    assert "aes" in found["cortex-a57"] and "lse" not in found["cortex-a57"]


def test_a_length_without_the_instructions_is_refused() -> None:
    for options, fix in (
        ("-mcpu=cortex-a57 -msve-vector-bits=256", r"-mattr=\+sve"),
        ("-mattr=+sve -msve-vector-bits=250", "-bits=256"),
    ):
        with pytest.raises(tw.CodegenError, match=rf"(?s)TW0402.*{fix}"):
            Target.parse(f"{NEON} {options}")

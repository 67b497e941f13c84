"""Kernels as C, compiled for RISC-V and run by Unicorn: they give what this machine's kernels give."""

from __future__ import annotations

import importlib.util
import struct
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tilewright as tw
from exported import run
from tilewright import te, topi

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("unicorn") is None or importlib.util.find_spec("ziglang") is None,
    reason="unicorn or the ziglang package is not here",
)

_PAGE, _STACK, _DATA, _END = 0x1000, 0x7F000000, 0x40000000, 0x70000000
_FLOATS_ON = 3 << 13
_MINUTE = 60_000_000


def _loaded(machine: Any, image: bytes) -> int:
    """Where the program begins. Its segments are put where they say."""
    entry, headers = struct.unpack_from("<QQ", image, 24)
    (count,) = struct.unpack_from("<H", image, 56)
    pages: set[int] = set()
    for at in range(count):
        kind, _, offset, address, _, length, size, _ = struct.unpack_from("<IIQQQQQQ", image, headers + at * 56)
        if kind != 1:
            continue
        needed = set(range(address // _PAGE, -(-(address + size) // _PAGE))) - pages
        for page in needed:
            machine.mem_map(page * _PAGE, _PAGE)
        pages |= needed
        machine.mem_write(address, image[offset : offset + length])
    return entry


def _called(image: bytes, arrays: list[Any]) -> int:
    """The status of the function that the program begins with, called with the arrays, which it may change."""
    import unicorn
    from unicorn import riscv_const as riscv

    machine = unicorn.Uc(unicorn.UC_ARCH_RISCV, unicorn.UC_MODE_RISCV64)
    entry = _loaded(machine, image)
    machine.mem_map(_STACK - (1 << 20), 1 << 20)
    machine.mem_map(_END, _PAGE)
    machine.mem_map(_DATA, 1 << 20)
    places = [_DATA + (at << 16) for at in range(len(arrays))]
    for at, (place, array) in enumerate(zip(places, arrays, strict=True)):
        machine.mem_write(place, array.tobytes())
        machine.reg_write(riscv.UC_RISCV_REG_A0 + at, place)
    machine.reg_write(riscv.UC_RISCV_REG_MSTATUS, machine.reg_read(riscv.UC_RISCV_REG_MSTATUS) | _FLOATS_ON)
    machine.reg_write(riscv.UC_RISCV_REG_TP, _STACK - (1 << 19))
    machine.reg_write(riscv.UC_RISCV_REG_SP, _STACK - 4096)
    machine.reg_write(riscv.UC_RISCV_REG_RA, _END)
    machine.emu_start(entry, _END, timeout=_MINUTE)
    assert machine.reg_read(riscv.UC_RISCV_REG_PC) == _END, "it did not return"
    for place, array in zip(places, arrays, strict=True):
        array[...] = np.frombuffer(machine.mem_read(place, array.nbytes), array.dtype).reshape(array.shape)
    return int(machine.reg_read(riscv.UC_RISCV_REG_A0))


def _product() -> list[te.Tensor]:
    A, B, k = te.placeholder((17, 33)), te.placeholder((33, 9)), te.reduce_axis((0, 33))
    return [A, B, te.compute((17, 9), lambda i, j: te.sum(A[i, k] * B[k, j], axis=k))]


def _rows() -> list[te.Tensor]:
    A = te.placeholder((5, 31))
    return [A, topi.nn.softmax(A)]


def _quotients() -> list[te.Tensor]:
    A, B = te.placeholder((63,), "int32"), te.placeholder((63,), "int32")
    return [A, B, te.compute((63,), lambda i: A[i] // B[i] + A[i] % B[i])]


@pytest.mark.parametrize("declared", [_product, _rows, _quotients])
def test_a_kernel_gives_on_riscv_what_it_gives_here(declared: Any, tmp_path: Path) -> None:
    tensors = declared()
    kernel = tw.build(tensors, target="c", name="kernel")
    kernel.export(tmp_path / "kernel.c", threads="none")
    flags = ["-static", "-nostartfiles", "-O2", "-std=gnu11", "-fwrapv", "-fno-strict-aliasing", "-ffp-contract=off"]
    done = run(
        [
            sys.executable,
            "-m",
            "ziglang",
            "cc",
            "-target",
            "riscv64-linux-musl",
            *flags,
            "kernel.c",
            "-o",
            "kernel.elf",
            "-Wl,-e,kernel",
            "-lm",
        ],
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr
    draw = np.random.default_rng(5)
    shapes = [(tuple(int(str(extent)) for extent in tensor.shape), str(tensor.dtype)) for tensor in tensors]
    arrays = [draw.integers(-9, 9, shape).astype(dtype) for shape, dtype in shapes]
    there, here = [array.copy() for array in arrays], [array.copy() for array in arrays]
    kernel(*here)
    assert _called((tmp_path / "kernel.elf").read_bytes(), there) == 0
    np.testing.assert_allclose(there[-1], here[-1], rtol=1e-6)

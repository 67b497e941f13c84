"""A static program for AArch64 Linux, run by Unicorn: QEMU's processors in a Python process, without QEMU's Linux.

The three calls of the system that such a program of the tests makes are answered here: read, write and exit.
"""

from __future__ import annotations

import re
import struct
import subprocess
from typing import Any

__all__ = ["run_program"]

_PAGE, _STACK, _END = 0x1000, 0x7F000000, 0x70000000
_READ, _WRITE, _EXIT = 63, 64, 93
_HWCAP, _HWCAP2, _SVE = 16, 26, 1 << 22
_MINUTE = 60_000_000


def run_program(image: bytes, data: bytes, cpu: str) -> subprocess.CompletedProcess[bytes]:
    """The program with `data` to read. cpu: as QEMU names it, of which the length of vectors counts, and whether there is SVE."""
    import unicorn
    from unicorn import arm64_const as arm

    machine = unicorn.Uc(unicorn.UC_ARCH_ARM64, unicorn.UC_MODE_ARM)
    machine.ctl_set_cpu_model(arm.UC_CPU_ARM64_MAX)
    entry, table = struct.unpack_from("<QQ", image, 24)
    _, _, offset, address, _, length, size, _ = struct.unpack_from(
        "<IIQQQQQQ", image, table
    )  # static_elf makes one segment
    machine.mem_map(address, -(-size // _PAGE) * _PAGE)
    machine.mem_write(address, image[offset : offset + length])
    machine.mem_map(_STACK - (1 << 20), (1 << 20) + _PAGE)
    has_sve = cpu.startswith("max") and "sve=off" not in cpu
    known = ~0 & (1 << 64) - 1 if has_sve else ~_SVE & (1 << 64) - 1
    machine.mem_write(
        _STACK, struct.pack("<9Q", 0, 0, 0, _HWCAP, known, _HWCAP2, known, 0, 0)
    )  # no arguments, no environment
    machine.reg_write(arm.UC_ARM64_REG_SP, _STACK)
    machine.reg_write(arm.UC_ARM64_REG_CPACR_EL1, 3 << 20 | 3 << 16)  # vectors may be used, those of SVE too
    told = re.search(r"sve-default-vector-length=(\d+)", cpu)
    quarters = int(told[1]) // 16 - 1 if told else 15
    # CPTR_EL3.EZ, and how long vectors may be at most by ZCR_EL3, ZCR_EL2 and ZCR_EL1
    for level, register, operation, value in (
        (6, 1, 2, 1 << 8),
        (6, 2, 0, quarters),
        (4, 2, 0, quarters),
        (0, 2, 0, quarters),
    ):
        machine.reg_write(arm.UC_ARM64_REG_CP_REG, (1, register, 3, level, operation, value))
    left, written, status = bytearray(data), bytearray(), list[int]()

    def answer(machine: Any, *_: Any) -> None:
        number, _, at, count = (
            machine.reg_read(register)
            for register in (arm.UC_ARM64_REG_X8, arm.UC_ARM64_REG_X0, arm.UC_ARM64_REG_X1, arm.UC_ARM64_REG_X2)
        )
        if number == _READ:
            machine.mem_write(at, bytes(left[:count]))
            count = len(left[:count])
            del left[:count]
        elif number == _WRITE:
            written.extend(machine.mem_read(at, count))
        else:
            assert number == _EXIT, f"the system's call {number}"
            status.append(machine.reg_read(arm.UC_ARM64_REG_X0))
            machine.emu_stop()
        machine.reg_write(arm.UC_ARM64_REG_X0, count)

    machine.hook_add(unicorn.UC_HOOK_INTR, answer)
    try:
        machine.emu_start(entry, _END, timeout=_MINUTE)
    except unicorn.UcError as error:
        return subprocess.CompletedProcess(["unicorn"], -4, bytes(written), str(error).encode())
    return subprocess.CompletedProcess(["unicorn"], status[0] if status else -14, bytes(written), b"")

"""Resources of the accelerator and cycles of its units: the one table that the compiler and the simulator read.

    inp 32 KiB int8 ─┐
                     ├─ array of 16 by 16 multipliers ─ acc 128 KiB int32 ─ ALU of 16 lanes
    wgt 32 KiB int8 ─┘

Three units work side by side, each through a queue of its own, in order: load (DRAM to scratchpads), compute (the array and the
ALU) and store (scratchpads to DRAM). The sizes are those that the published design had on its small FPGA.
"""

from __future__ import annotations

from collections.abc import Mapping

from ...base import dataclass, field
from ...ir.buffer import add_scope

__all__ = ["COUNTERS", "MACHINE", "Machine", "Scratchpad", "acc_buffer", "inp_buffer", "wgt_buffer"]

inp_buffer, wgt_buffer, acc_buffer = "vdla.inp_buffer", "vdla.wgt_buffer", "vdla.acc_buffer"
"""The scopes: what cache_read, cache_write and set_scope take."""

for scope in (inp_buffer, wgt_buffer, acc_buffer):
    add_scope(scope)


@dataclass(frozen=True, slots=True)
class Scratchpad:
    """A memory on the chip, whose elements are all of one dtype. bytes: how many it holds."""

    dtype: str
    bytes: int


COUNTERS = {"dma_copy2d": 2, "gemm": 9}
"""How many loops one instruction runs through by itself, those within a tile counted; ALU_COUNTERS for all others. What has more
loops is as many instructions."""

ALU_COUNTERS = 4


@dataclass(frozen=True, slots=True)
class Machine:
    """Model of the accelerator.

    rows_wide, lanes_wide: the array multiplies one row of `rows_wide` inputs by `lanes_wide` columns in a cycle. dma_bytes:
    moved in a cycle, by loads and stores together; dma_setup: cycles before the first byte. starting: cycles that any instruction
    of the array or the ALU takes to begin. alu_lanes: elements that the ALU takes in a cycle.
    """

    scratchpads: Mapping[str, Scratchpad] = field(
        default_factory=lambda: {
            inp_buffer: Scratchpad("int8", 32 * 1024),
            wgt_buffer: Scratchpad("int8", 32 * 1024),
            acc_buffer: Scratchpad("int32", 128 * 1024),
        }
    )
    rows_wide: int = 16
    lanes_wide: int = 16
    dma_bytes: int = 8
    dma_setup: int = 32
    starting: int = 8
    alu_lanes: int = 16

    @property
    def peak(self) -> int:
        """Products that it can do in a cycle."""
        return self.rows_wide * self.lanes_wide

    def dma_cycles(self, rows: int, row_bytes: int) -> int:
        """Cycles of a copy: each row begins with a transfer of its own."""
        return self.dma_setup + rows * -(-row_bytes // self.dma_bytes)

    def gemm_cycles(self, rows: int, one_port: bool) -> int:
        """Cycles for so many rows. one_port: both operands lie in one scratchpad, and take turns."""
        return self.starting + rows * (2 if one_port else 1)

    def alu_cycles(self, elements: int) -> int:
        """Cycles for so many elements."""
        return self.starting + -(-elements // self.alu_lanes)


MACHINE = Machine()
"""The accelerator that target="vdla" is."""

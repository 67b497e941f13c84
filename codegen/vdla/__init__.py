"""An accelerator as a target: what a schedule for it names."""

from .intrinsics import gemm, gemm8x8, gemm16x16
from .machine import MACHINE, Machine, acc_buffer, inp_buffer, wgt_buffer

__all__ = ["MACHINE", "Machine", "acc_buffer", "gemm", "gemm8x8", "gemm16x16", "inp_buffer", "wgt_buffer"]

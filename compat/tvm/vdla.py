"""The accelerator of TVM's papers: `from tilewright.compat.tvm import vdla`, its scopes and its products."""

from __future__ import annotations

from ...codegen.vdla import acc_buffer, gemm, gemm8x8, gemm16x16, inp_buffer, wgt_buffer

__all__ = ["acc_buffer", "gemm", "gemm8x8", "gemm16x16", "inp_buffer", "wgt_buffer"]

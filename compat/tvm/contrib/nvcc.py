"""tvm.contrib.nvcc: CUDA C compiled by NVRTC, and what a compute capability has."""

from __future__ import annotations

from typing import Any

from ....codegen.cuda.nvrtc import compile_cuda as _compile
from ....codegen.cuda.nvrtc import find_toolkit
from ..target import Target

__all__ = [
    "compile_cuda",
    "find_cuda_path",
    "get_target_compute_version",
    "have_bf16",
    "have_fp16",
    "have_int8",
    "have_tensorcore",
    "parse_compute_version",
]

DEFAULT = "8.0"
"""The capability that our CUDA target has where it names none."""


def compile_cuda(code: str, target_format: str = "ptx", arch: str | None = None, **_: Any) -> bytes:
    """Machine code ("cubin") or assembly ("ptx") of CUDA C. arch: "sm_80" and the like. Raises CompilerMissing without NVRTC."""
    if target_format not in ("ptx", "cubin"):
        raise ValueError(f"unknown format {target_format!r}; there are ptx and cubin")
    compiled = _compile(code, arch or f"sm_{DEFAULT.replace('.', '')}", ())
    return compiled.cubin if target_format == "cubin" else compiled.ptx.encode()


def find_cuda_path() -> str:
    """Find CUDA: the folder that CUDA_HOME or CUDA_PATH names, NVIDIA's wheels, or /usr/local/cuda. Raises RuntimeError."""
    folder = find_toolkit()
    if folder is None:
        raise RuntimeError("no CUDA was found: set CUDA_PATH, or install the package nvidia-cuda-nvrtc")
    return str(folder)


def get_target_compute_version(target: Any = None) -> str:
    """The capability of a target, "8.0" of -arch=sm_80."""
    chosen = target if isinstance(target, Target) else Target(target) if target else Target.current() or Target("cuda")
    arch = chosen.attrs.get("arch", "").removeprefix("sm_").rstrip("af")
    return f"{arch[:-1]}.{arch[-1]}" if arch else DEFAULT


def parse_compute_version(compute_version: str) -> tuple[int, int]:
    """(8, 0) of "8.0"."""
    major, minor = compute_version.split(".")
    return int(major), int(minor)


def have_fp16(compute_version: str) -> bool:
    """Return whether there is arithmetic of float16."""
    return parse_compute_version(compute_version) == (5, 3) or parse_compute_version(compute_version) >= (6, 0)


def have_int8(compute_version: str) -> bool:
    """Return whether there are dot products of int8."""
    return parse_compute_version(compute_version) >= (6, 1)


def have_tensorcore(compute_version: str | None = None, target: Any = None) -> bool:
    """Return whether there are tensor cores."""
    return parse_compute_version(compute_version or get_target_compute_version(target)) >= (7, 0)


def have_bf16(compute_version: str) -> bool:
    """Return whether there is arithmetic of bfloat16."""
    return parse_compute_version(compute_version) >= (8, 0)

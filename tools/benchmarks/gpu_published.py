"""What others have published of libraries on A100 and H100, beside the scheduler's estimates of the same programs there."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import tilewright as tw
from tilewright import te, topi

__all__ = ["PUBLISHED", "Published", "published_table", "seconds_of"]


@dataclass(frozen=True)
class Published:
    """program, on a machine: what is measured; declare(): the same in topi; operations: floating-point operations of it. by:
    whose code; rate: teraflops a second, as the source has it. source: where it was published."""

    machine: str
    arch: str
    program: str
    declare: Callable[[], Any]
    operations: float
    by: str
    rate: float
    source: str


def _product(m: int, n: int, k: int, dtype: str) -> Callable[[], Any]:
    def declare() -> Any:
        a, b = te.placeholder((m, k), dtype, name="A"), te.placeholder((k, n), dtype, name="B")
        sums = topi.matmul(a, b, out_dtype="float32")
        return sums if dtype == "float32" else te.compute((m, n), lambda i, j: sums[i, j].astype(dtype), name="C")

    return declare


def _attention(heads: int, length: int, depth: int) -> Callable[[], Any]:
    def declare() -> Any:
        q, k, v = (te.placeholder((heads, length, depth), "float16", name=name) for name in "qkv")
        return topi.nn.attention(q, k, v)

    return declare


def _gemm(
    machine: str, arch: str, shape: tuple[int, int, int], dtype: str, by: str, rate: float, source: str
) -> Published:
    m, n, k = shape
    program = f"product {m} x {n} x {k}, {dtype}"
    return Published(machine, arch, program, _product(m, n, k, dtype), 2.0 * m * n * k, by, rate, source)


_ISSUES = "https://github.com/triton-lang/triton/issues/"
_SGEMM = "https://github.com/Yinghan-Li/YHs_Sample/issues/4"
_FLASH = "https://github.com/pytorch/benchmark/pull/2391"
_EVEN = (3200, 3200, 3200)

PUBLISHED = (
    _gemm("A100", "sm_80", (5120, 4096, 4096), "float32", "cuBLAS", 18.88, _SGEMM),
    _gemm("A100", "sm_80", (5120, 4096, 4096), "float32", "Triton", 17.95, _SGEMM),
    _gemm("A100", "sm_80", _EVEN, "float16", "cuBLAS", 244.3, _ISSUES + "3551"),
    _gemm("A100", "sm_80", _EVEN, "float16", "Triton", 244.3, _ISSUES + "3551"),
    _gemm("H100", "sm_90a", (2048, 2048, 2048), "float16", "cuBLAS", 511.3, _ISSUES + "3672"),
    _gemm("H100", "sm_90a", (3072, 3072, 3072), "float16", "cuBLAS", 584.7, _ISSUES + "3672"),
    _gemm("H100", "sm_90a", (3072, 3072, 3072), "float16", "Triton", 524.7, _ISSUES + "3672"),
    _gemm(
        "H100",
        "sm_90a",
        (4224, 2048, 8192),
        "bfloat16",
        "CUTLASS and cuBLAS, the best by torch.compile",
        780.2,
        "https://gist.github.com/Chillee/2ec89696db8b7ed1c24461159e325405",
    ),
    *(
        Published(
            "H100",
            "sm_90a",
            "attention, 8 x 16 heads of 2048 x 128, float16",
            _attention(128, 2048, 128),
            4.0 * 128 * 2048 * 2048 * 128,
            by,
            rate,
            _FLASH,
        )
        for by, rate in (("Triton", 433.7), ("FlashAttention-3", 565.5))
    ),
)
"""Facts of others, on machines of theirs."""


def seconds_of(s: Any) -> float | None:
    """The estimate of all that the rules chose for a schedule; None where one of them made none."""
    estimates: list[Any] = [decision.candidates[decision.chosen][1] for decision in s.plan]
    return sum(each.seconds for each in estimates) if estimates and None not in estimates else None


def published_table() -> str:
    """Each figure beside our estimate, and how much of it that is, as a table in Markdown. An estimate is none of the measurements
    that it stands beside."""
    lines = [
        "| machine | program | by | published TFLOP/s | estimate of ours TFLOP/s | ours / theirs | source |",
        "|" + "---|" * 7,
    ]
    known: dict[tuple[str, str], float | None] = {}
    for row in PUBLISHED:
        key = row.arch, row.program
        if key not in known:
            known[key] = seconds_of(tw.autoschedule.schedule([row.declare()], target=f"cuda -arch={row.arch}"))
        seconds = known[key]
        ours = f"{row.operations / seconds / 1e12:.1f}" if seconds else "none"
        share = f"{row.operations / seconds / 1e12 / row.rate:.2f}" if seconds else ""
        lines.append(f"| {row.machine} | {row.program} | {row.by} | {row.rate:.1f} | {ours} | {share} | {row.source} |")
    return "\n".join(lines) + "\n"

"""Diagnosis of a failed call as an error that says which argument, what was expected, what came, what to do."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any

from ..base.arguments import is_array
from ..base.errors import CallError, SourceLine, user_source
from .abi import ITEM_BITS, ITEM_BYTES, OUT_OF_MEMORY, Check, unpack_status
from .errors import (
    ExtentTooLarge,
    KernelAssertion,
    KernelOutOfMemory,
    Misaligned,
    NotATensor,
    OverlappingOutput,
    ReadOnlyOutput,
    ScalarOutOfRange,
    SymbolDisagrees,
    UnreadableTensor,
    WrongArgumentCount,
    WrongByteOrder,
    WrongDevice,
    WrongDType,
    WrongKeyword,
    WrongRank,
    WrongScalar,
    WrongShape,
    WrongStride,
)
from .signature import BufferParam, ScalarParam, Signature, evaluate_extent, extent_names, extent_text
from .tensors import Found, is_negative_view

__all__ = ["argument", "decode_status", "kernel_failure"]

Values = Sequence[Found | int | float | None]


def argument(signature: Signature, i: int) -> str:
    """Argument i as every error names it: its name, its position from 1, and the function."""
    return f"'{signature.params[i].name}' (argument {i + 1} of {signature.name})"


def _raise_error(signature: Signature) -> dict[str, Any]:
    return {"called": user_source(), "allowed": str(signature)}


# Faults that only Python sees


def wrong_count(signature: Signature, given: int) -> CallError:
    missing = ", ".join(f"'{p.name}'" for p in signature.params[given:])
    reason = f"no value for {missing}" if missing else f"{given - len(signature.params)} too many"
    return WrongArgumentCount(
        f"{signature.name} takes {len(signature.params)} arguments, {given} were given",
        reason=reason,
        fix="pass every tensor, outputs included, in the order shown",
        **_raise_error(signature),
    )


def wrong_keyword(signature: Signature, name: str) -> CallError:
    known = any(p.name == name for p in signature.params)
    what = f"gets a second value for '{name}'" if known else f"has no parameter '{name}'"
    return WrongKeyword(
        f"{signature.name} {what}",
        fix="name each parameter once, or pass arguments by position",
        **_raise_error(signature),
    )


def missing_argument(signature: Signature, i: int) -> CallError:
    return WrongArgumentCount(
        f"no value for {argument(signature, i)}", fix="pass it by position or by name", **_raise_error(signature)
    )


def not_a_tensor(signature: Signature, i: int, value: object, hint: str) -> CallError:
    param = signature.params[i]
    return NotATensor(
        f"{argument(signature, i)} is {_describe_kind(value)}, not a tensor",
        reason=f"expected {param}",
        fix=JAX_ADVICE
        if is_traced_by_jax(value)
        else hint or "pass a numpy array, a tw.Array, or anything with DLPack",
        **_raise_error(signature),
    )


def unreadable(signature: Signature, i: int, value: object, reason: str) -> CallError:
    return UnreadableTensor(
        f"{argument(signature, i)}, {_describe_kind(value)}, does not hand out its memory",
        reason=reason,
        fix=handout_advice(value),
        **_raise_error(signature),
    )


JAX_ADVICE = "under jax.jit or jax.grad call f.as_jax() of a kernel f that tw.build gave: it takes the inputs and gives the outputs"


def is_traced_by_jax(value: object) -> bool:
    """Return whether it stands for an array while jax traces a function: it has no elements."""
    kind = type(value)
    # a tracer is a subclass of jax's own, known by its name
    return kind.__module__.partition(".")[0] in ("jax", "jaxlib") and kind.__name__.endswith("Tracer")


def handout_advice(value: object) -> str:
    """Return what to pass in the place of a tensor that does not hand out its memory."""
    if getattr(value, "requires_grad", False) is True:  # torch refuses to export what records a gradient
        return 'pass x.detach(); for a gradient make an operator of the kernel: f.as_torch_op("mine::name")'
    if is_negative_view(value):
        return "pass x.resolve_neg()"
    if is_traced_by_jax(value):
        return JAX_ADVICE
    return "pass a plain copy, e.g. np.array(x)"


def swapped_bytes(signature: Signature, i: int, found: Found) -> CallError:
    return WrongByteOrder(
        f"{argument(signature, i)} holds {found.dtype} in {'big' if sys.byteorder == 'little' else 'little'}-endian "
        "byte order",
        reason=f"expected {signature.params[i]} in this machine's order",
        fix="pass x.astype(x.dtype.newbyteorder('='))",
        **_raise_error(signature),
    )


def wrong_scalar(signature: Signature, i: int, value: object) -> CallError:
    param = signature.params[i]
    return WrongScalar(
        f"{argument(signature, i)} is {_describe_kind(value)}, not a number that {param.dtype} takes",
        reason=f"expected a scalar, {param}",
        fix=f"pass a Python {_python_kind(param.dtype)}",
        **_raise_error(signature),
    )


def scalar_out_of_range(signature: Signature, i: int, value: object, least: int, greatest: int) -> CallError:
    return ScalarOutOfRange(
        f"{argument(signature, i)} is {value}; it must lie in {least} to {greatest}",
        reason=f"expected a scalar, {signature.params[i]}",
        fix="pass a number within the range",
        **_raise_error(signature),
    )


def _python_kind(dtype: str) -> str:
    return "bool" if dtype == "bool" else "float" if "float" in dtype else "int"


def _describe_kind(value: object) -> str:
    if value is None:
        return "None"
    name = type(value).__name__
    return f"{'an' if name[0] in 'aeiouAEIOU' else 'a'} {name}"


# Faults that the check finds


def decode_status(signature: Signature, status: int, values: Values = ()) -> CallError:
    """The error for a negative status of a kernel's check.

    values: what was passed, for the "got" half of the message; without them only the expectation is told (an exported
    library reports a status alone).
    """
    check, i, detail = unpack_status(status)
    report = _Report(signature, i, detail, values)
    return _REPORTS[check](report)


class _Report:
    """One failed check, with what is needed to tell of it."""

    def __init__(self, signature: Signature, i: int, detail: int, values: Values) -> None:
        self.signature, self.i, self.detail, self.values = signature, i, detail, values
        self.param = signature.params[i]
        value = values[i] if values else None
        self.found = value if isinstance(value, Found) else None
        self.scalar = value if isinstance(value, (int, float)) else None

    @property
    def buffer(self) -> BufferParam:
        assert isinstance(self.param, BufferParam)
        return self.param

    def error(self, kind: type[CallError], what: str, fix: str, reason: str = "") -> CallError:
        called: SourceLine | None = user_source()
        return kind(
            f"{argument(self.signature, self.i)} {what}",
            reason=reason or f"expected {self.param}",
            called=called,
            allowed=str(self.signature) if self.values else "",
            fix=fix,
        )

    def advise(self, numpy: str, torch: str) -> str:
        """Advice on what to pass, in numpy's words, and for what was handed out by another library in torch's too."""
        owner = self.found.owner if self.found is not None else None
        base = getattr(owner, "base", None) if is_array(owner) else owner
        is_exported = isinstance(owner, tuple) or f"{type(base).__module__}.{type(base).__name__}".endswith(
            ("torch.Tensor", "PyCapsule")
        )
        return f"pass {torch} of a torch tensor, {numpy} of others" if is_exported else f"pass {numpy}"

    def got(self, text: str) -> str:
        return text if self.found is not None else "another"

    def known_values(self) -> Mapping[str, int]:
        """Return what the symbols and scalars stand for in this call, as far as its arguments tell."""
        known: dict[str, int] = {}
        for name, i in self.signature.scalars.items():
            value = self.values[i] if self.values else None
            if isinstance(value, int):
                known[name] = value
        for name, binding in self.signature.bindings.items():
            values = self.values[binding.param] if self.values else None
            if isinstance(values, Found) and binding.dim < len(values.shape):
                known[name] = binding.solve(values.shape[binding.dim])  # a symbol may be a multiple of the dimension
        return known


def _wrong_dtype(r: _Report) -> CallError:
    got = f"dtype {r.found.dtype}" if r.found else "another dtype"
    converted = r.advise(f'x.astype("{r.param.dtype}")', f"x.to(torch.{r.param.dtype})")
    fix = (
        f'make the output with dtype="{r.param.dtype}"'
        if r.buffer.is_output
        else f"{converted}, or declare the placeholder with that dtype"
    )
    # complex numbers arrive as their own dtype
    if r.found is not None and str(r.found.dtype) == {"float32": "complex64", "float64": "complex128"}.get(
        str(r.param.dtype)
    ):
        fix = f'complex numbers are pairs here: pass x[..., None].view("{r.param.dtype}"), whose last dimension is 2'
    return r.error(WrongDType, f"has {got}; {r.param.dtype} is expected", fix)


def _wrong_rank(r: _Report) -> CallError:
    rank = len(r.buffer.shape)
    got = f"{len(r.found.shape)} (shape {r.found.shape})" if r.found else "another number of"
    return r.error(WrongRank, f"has {got} dimensions; {rank} are expected", f"reshape it to {rank} dimensions")


def _wrong_device(r: _Report) -> CallError:
    got = f"device {r.found.device}" if r.found else "another device"
    if r.signature.on_stream:
        return r.error(
            WrongDevice, f"is on {got}; this function runs on a GPU", "copy it to the memory of the stream's GPU first"
        )
    return r.error(
        WrongDevice,
        f"is on {got}; this kernel runs on the CPU",
        "copy it to the host first (for torch and cupy: x.cpu(), x.get())",
    )


def _read_only(r: _Report) -> CallError:
    return r.error(
        ReadOnlyOutput,
        "is read-only; the kernel writes to it",
        "pass a writable array, e.g. x.copy() or tw.empty(shape, dtype)",
    )


def _wrong_shape(r: _Report) -> CallError:
    expected = extent_text(r.buffer.shape[r.detail])
    got = f"{r.found.shape[r.detail]} (shape {r.found.shape})" if r.found else "another extent"
    return r.error(
        WrongShape,
        f"has {got} in dimension {r.detail}; {expected} is expected",
        f"pass a tensor whose dimension {r.detail} is {expected}",
    )


def _memory_bound_error(r: _Report) -> CallError:
    return r.error(
        WrongShape,
        f"has an extent in dimension {r.detail} that no tensor has: below 0, or beyond all memory",
        "pass a tensor whose elements lie in memory",
    )


def _symbol_disagrees(r: _Report) -> CallError:
    extent = r.buffer.shape[r.detail]
    got = f"{r.found.shape[r.detail]} (shape {r.found.shape})" if r.found else "another extent"
    known = r.known_values()
    names = sorted(extent_names(extent))
    value = f" = {evaluate_extent(extent, known)}" if all(name in known for name in names) else ""
    where = [f"'{n}' is {known[n]}, from {_origin(r.signature, n)}" for n in names if n in known]
    return r.error(
        SymbolDisagrees,
        f"has {got} in dimension {r.detail}; {extent_text(extent)}{value} is expected",
        "make the extents that share a symbol agree",
        "; ".join(where),
    )


def _origin(signature: Signature, name: str) -> str:
    if name in signature.scalars:
        return f"argument {signature.scalars[name] + 1}"
    binding = signature.bindings[name]
    return f"dimension {binding.dim} of {argument(signature, binding.param)}"


def _wrong_stride(r: _Report) -> CallError:
    got, compact = "other strides", "compact and row-major"
    if r.found:
        got, strides, step = f"strides {r.found.strides}", list[int](), ITEM_BYTES.get(r.found.dtype, 1)
        for extent in reversed(r.found.shape):
            strides.append(step)
            step *= extent
        compact = str(tuple(reversed(strides)))
    return r.error(
        WrongStride,
        f"has {got} in bytes; {compact} is expected: dimension {r.detail} has another "
        "stride than a compact row-major tensor",
        "give a contiguous output, then copy"
        if r.buffer.is_output
        else r.advise("np.ascontiguousarray(x)", "x.contiguous()"),
    )


def _alignment_error(r: _Report) -> CallError:
    got = f"lies at address {r.found.data:#x}" if r.found else "lies at an address"
    # more than the element's alignment was promised to an instruction
    if isinstance(r.param, BufferParam) and r.param.alignment > ITEM_BYTES[r.param.dtype]:
        if r.signature.on_stream:
            return r.error(
                Misaligned,
                f"{got}, which is not a multiple of the {r.param.alignment} bytes that a thread takes at once",
                "pass memory as the driver allocates it",
            )
        return r.error(
            Misaligned,
            f"{got}, which is not a multiple of the {r.param.alignment} bytes that the kernel was built for "
            "(data_alignment of a tensor intrinsic)",
            "pass tw.array(x), which is aligned to 64 bytes",
        )
    return r.error(
        Misaligned,
        f"{got}, which is not a multiple of the element's {ITEM_BYTES[r.param.dtype]} bytes",
        "pass x.copy(), whose alignment is right",
    )


def _too_large(r: _Report) -> CallError:
    names = [n for n, b in r.signature.bindings.items() if (b.param, b.dim) == (r.i, r.detail)]
    got = r.found.shape[r.detail] if r.found else "an extent"
    return r.error(
        ExtentTooLarge,
        f"has {got} in dimension {r.detail}: too large for the int32 symbol {names}",
        'declare the symbol with te.size_var(name, "int64")',
    )


def _overlaps(r: _Report) -> CallError:
    other = argument(r.signature, r.detail)
    return r.error(
        OverlappingOutput,
        f"is written to and shares memory with {other}",
        "pass an output of its own; only inputs may share memory",
    )


def _scalar_range(r: _Report) -> CallError:
    got = f"is {r.scalar}" if r.scalar is not None else "is out of range"
    least, greatest = scalar_range(r.param)
    return r.error(ScalarOutOfRange, f"{got}; it must lie in {least} to {greatest}", "pass a number within the range")


def scalar_range(param: BufferParam | ScalarParam) -> tuple[int, int]:
    """The least and greatest integer that an integer scalar parameter takes."""
    assert isinstance(param, ScalarParam)
    bits = ITEM_BITS[param.dtype]
    # a size symbol may be bounded further than its type
    low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if param.dtype.startswith("int") else (0, (1 << bits) - 1)
    return (
        low if param.least is None else max(low, param.least),
        high if param.greatest is None else min(high, param.greatest),
    )


_REPORTS = {
    Check.DTYPE: _wrong_dtype,
    Check.RANK: _wrong_rank,
    Check.DEVICE: _wrong_device,
    Check.READ_ONLY: _read_only,
    Check.SHAPE: _wrong_shape,
    Check.EXTENT: _memory_bound_error,
    Check.SYMBOL: _symbol_disagrees,
    Check.STRIDE: _wrong_stride,
    Check.ALIGNMENT: _alignment_error,
    Check.TOO_LARGE: _too_large,
    Check.OVERLAP: _overlaps,
    Check.SCALAR_RANGE: _scalar_range,
}


# Faults of the kernel itself


def kernel_failure(signature: Signature, status: int, messages: Sequence[str]) -> CallError:
    """The error for a kernel that ran and returned `status`: KernelOutOfMemory (TW0517), KernelAssertion (TW0518)."""
    if status == OUT_OF_MEMORY:
        return KernelOutOfMemory(
            f"{signature.name} could not get memory for its intermediates",
            called=user_source(),
            fix="free memory, or schedule with smaller tiles (compute_at)",
        )
    message = messages[status - 1] if 0 < status <= len(messages) else f"the kernel returned status {status}"
    return KernelAssertion(
        f"{signature.name} stopped: {message}",
        called=user_source(),
        fix="check the arguments' contents, such as indices, against what the kernel declares",
    )

"""Kernels: compiled functions that Python calls.

A call enters generated code at once (see codegen.stub). Whatever that code does not know how to handle comes back to
`_Entry.__call__` here, which finds the memory behind any kind of tensor, runs the same generated check on it, and then
either runs the kernel or raises an error that names the argument.
"""

from __future__ import annotations

import ctypes
import operator
from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ..base import BEYOND_MEMORY, user_source
from ..base.arguments import is_a, is_array
from ..base.nibbles import pack_nibbles, unpack_nibbles
from . import diagnose
from .abi import PACKED_TYPES, REGISTERED_TYPES, ArgumentRecord, CallTable, Check, numpy_layout_holds, pack_status
from .array import Array, dtype_name, numpy_dtype
from .errors import NoFramework, NoSuchSource, NothingToExport
from .packed_array import PackedArray
from .records import make_records
from .signature import ScalarParam, Signature, extent_text
from .tables import html_table
from .tensors import (
    Found,
    NoMemory,
    RefusedMemory,
    describing_function,
    find_tensor,
    is_ordinary,
    make_array,
    quick_view,
)
from .timing import TimingResult, time_calls

if TYPE_CHECKING:
    from .cuda_launch import Workspace

__all__ = [
    "Entry",
    "Exporting",
    "Kernel",
    "Prepared",
    "arguments_in_order",
    "foreign_kernel",
    "make_kernel",
    "number_argument",
]

Exporting = Callable[[Any, str, bool], tuple[Path, Path, Path]]
"""Writes a library for (path, threads)."""

_METH_FASTCALL_KEYWORDS = 0x0080 | 0x0002
_Raw = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p)


class Entry(Protocol):
    """Machine code that a kernel calls."""

    @property
    def signature(self) -> Signature: ...

    def __call__(self, *args: Any, **named: Any) -> None: ...


class Origin(Protocol):
    """Program that a kernel was built from."""

    def torch_operator(self, kernel: Kernel, name: str, gradient: bool) -> Any: ...

    def jax_function(self, kernel: Kernel) -> Callable[..., Any]: ...

    def pickled_parts(self) -> tuple[Any, ...]: ...


class _MethodDef(ctypes.Structure):
    """CPython's PyMethodDef."""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    )


_new_builtin = ctypes.pythonapi.PyCFunction_NewEx
_new_builtin.restype, _new_builtin.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p]


class _Entry:
    """The compiled code of one kernel, kept alive for as long as anyone can call it, and the careful way into it.

    It is the `self` of the builtin that enters the code, hence must not refer to the Kernel, which owns that builtin.
    """

    def __init__(
        self,
        signature: Signature,
        addresses: Mapping[str, int],
        code: object,
        failure: Callable[[int], BaseException],
    ) -> None:
        self.signature, self.code, self.failure = signature, code, failure
        self.check, self.run = _Raw(addresses["check"]), _Raw(addresses["run"])
        self.table = CallTable.from_address(addresses["python"])
        self.exchanging: type | None = None
        _fill_table(self.table, signature)
        self.method = _MethodDef(signature.name.encode(), addresses["call"], _METH_FASTCALL_KEYWORDS, None)

    def __call__(self, *args: Any, **named: Any) -> None:
        values = arguments_in_order(self.signature, args, named)
        if self._meets_exchanging(values):  # from now on generated code reads this type of tensors itself
            _new_builtin(ctypes.addressof(self.method), self, None)(*values)
            return
        plain = [_plain(self.signature, i, value) for i, value in enumerate(values)]
        # keywords, and tensors that are numpy arrays by now, go the fast way again
        changed = named or any(new is not old for new, old in zip(plain, values, strict=True))
        packed = any(param.dtype in PACKED_TYPES for _, param in self.signature.buffers)
        if changed and not packed and not any(isinstance(value, Found) for value in plain):
            _new_builtin(ctypes.addressof(self.method), self, None)(*plain)
        else:
            self._run_checked(plain)

    def _meets_exchanging(self, values: Sequence[object]) -> bool:
        """Return whether a type of tensors that describe themselves is met for the first time: from now on the code reads them."""
        if self.table.exchange_type or not self.table.array_type:  # one type at a time is known to the table
            return False
        for kind in {type(value) for value in values}:
            describe = describing_function(kind)
            if describe:
                self.table.exchange, self.table.exchange_type = describe, id(kind)
                self.exchanging = kind  # which stays, as its address does in the table
                return True
        return False

    def _run_checked(self, plain: list[Any]) -> None:
        """Check and run with records made here: what the code found wrong, it finds again and can be told about."""
        signature = self.signature
        values = [_find(signature, i, value) for i, value in enumerate(plain)]
        arrays = _pack_arrays(signature, values)
        records, keep = make_records(signature, values)
        symbols = (ctypes.c_int64 * (len(signature.symbols) + 1))()
        status = self.check(ctypes.addressof(records), ctypes.addressof(symbols))
        if status:
            raise diagnose.decode_status(signature, status, values)
        status = self.run(ctypes.addressof(records), ctypes.addressof(symbols))
        del keep  # the records refer to memory that must live until here
        if status:
            self.failed(status)
        for array, memory in arrays:
            array[...] = unpack_nibbles(memory, array.shape, array.dtype)

    def failed(self, status: int) -> None:  # machine code, of exported libraries too, calls it by this name
        """Raise for a kernel that returned `status`."""
        raise self.failure(status)


@cache
def _address(function: str) -> int:
    return ctypes.cast(getattr(ctypes.pythonapi, function), ctypes.c_void_p).value or 0


_REQUIRES_GRAD, _IS_NEG = "requires_grad", "is_neg"


def _fill_table(table: CallTable, signature: Signature) -> None:
    known = numpy_layout_holds()
    # an unknown layout of numpy sends every call to Python
    table.array_type, table.own_array_type = (id(np.ndarray), id(Array)) if known else (None, None)
    for name in {p.dtype for p in signature.params}.intersection(REGISTERED_TYPES):
        setattr(table, f"{name}_number", numpy_dtype(name).num)
    table.none, table.true, table.false = id(None), id(True), id(False)
    table.int_type, table.float_type = (id(int), id(float)) if known else (None, None)
    table.incref, table.decref, table.int_value = map(
        _address, ("Py_IncRef", "Py_DecRef", "PyLong_AsLongLongAndOverflow")
    )
    table.get_attribute, table.clear_error = _address("PyObject_GetAttr"), _address("PyErr_Clear")
    table.exchange_type, table.requires_grad, table.is_neg = None, id(_REQUIRES_GRAD), id(_IS_NEG)
    table.call_without_arguments = _address("PyObject_VectorcallMethod")
    table.save_thread, table.restore_thread = _address("PyEval_SaveThread"), _address("PyEval_RestoreThread")
    table.vectorcall, table.call_method = _address("PyObject_Vectorcall"), _address("PyObject_CallMethod")


def arguments_in_order(signature: Signature, args: tuple[Any, ...], named: dict[str, Any]) -> list[Any]:
    """The arguments by position, keywords put in their places."""
    params = signature.params
    # by position alone a missing argument is a wrong count
    if len(args) > len(params) or (not named and len(args) < len(params)):
        raise diagnose.wrong_count(signature, len(args))
    values = list(args)
    places = {p.name for p in params[len(args) :]}
    for name in named:
        if name not in places:
            raise diagnose.wrong_keyword(signature, name)
    for i in range(len(args), len(params)):
        if params[i].name not in named:
            raise diagnose.missing_argument(signature, i)
        values.append(named[params[i].name])
    return values


def _plain(signature: Signature, i: int, value: object) -> Any:
    """Argument i as what generated code reads: a numpy array, a Python number; or Found, for what cannot be run."""
    param = signature.params[i]
    if isinstance(param, ScalarParam):
        return number_argument(signature, i, param, value)
    if isinstance(value, PackedArray):
        return value.found()
    if type(value) is np.ndarray or type(value) is Array:  # exactly these types: a subclass may be anything
        return value
    if is_array(value):
        # masks would be lost in a view
        return _find(signature, i, value) if is_a(value, np.ma.MaskedArray) else value.view(np.ndarray)
    if hasattr(type(value), "__dlpack__"):
        view = quick_view(value, param.is_output)
        if view is not None:
            return view
    tensor = _find(signature, i, value)
    return make_array(tensor) if isinstance(tensor, Found) and is_ordinary(tensor) else tensor


def _pack_arrays(signature: Signature, values: list[Any]) -> list[tuple[NDArray[Any], NDArray[np.uint8]]]:
    """Put copies of two elements a byte in place of numpy's arrays of 4 bits. Returns the outputs among these and their copies."""
    params = dict(signature.buffers)
    given: dict[int, NDArray[Any]] = {
        i: values[i].owner
        for i, param in params.items()
        if param.dtype in PACKED_TYPES
        and is_array(values[i].owner)
        and dtype_name(values[i].owner.dtype) == param.dtype
    }
    results: list[tuple[NDArray[Any], NDArray[np.uint8]]] = []
    for i, array in given.items():
        memory = pack_nibbles(array)
        values[i] = Found(memory.ctypes.data, array.dtype.name, array.shape, None, not array.flags.writeable, memory)
        if params[i].is_output:
            shared = next((j for j, other in given.items() if j != i and np.may_share_memory(array, other)), None)
            if shared is not None:  # the copies would not
                raise diagnose.decode_status(signature, pack_status(Check.OVERLAP, i, shared), values)
            results.append((array, memory))
    return results


def _find(signature: Signature, i: int, value: Any) -> Found | int | float:
    """Argument i as memory, or as a number."""
    param = signature.params[i]
    if isinstance(param, ScalarParam) or isinstance(value, Found):
        return value
    if isinstance(value, PackedArray):
        return value.found()
    try:
        tensor = find_tensor(value)
    except NoMemory as error:
        raise diagnose.not_a_tensor(signature, i, value, str(error)) from None
    except RefusedMemory as error:
        raise diagnose.unreadable(signature, i, value, str(error)) from error
    if tensor.swapped and tensor.dtype == param.dtype:  # the bytes are right, their order is not
        raise diagnose.swapped_bytes(signature, i, tensor)
    return tensor


def number_argument(signature: Signature, i: int, param: ScalarParam, value: Any) -> int | float:
    """A Python or numpy number, or an array of rank 0, as the parameter's kind of number."""
    if is_array(value) and value.ndim == 0:  # an array of rank 0 is a number
        value = value[()]
    if param.dtype == "bool":
        if not is_a(value, (bool, np.bool_)):  # 1 is no bool: it was most likely another argument
            raise diagnose.wrong_scalar(signature, i, value)
        return bool(value)
    if "float" in param.dtype:
        return _float(signature, i, value)
    try:
        if getattr(getattr(value, "dtype", None), "name", "") in PACKED_TYPES:
            value = int(value)  # ml_dtypes' scalars are no indices
        number = value if type(value) is int else int(operator.index(value))
    except TypeError:
        raise diagnose.wrong_scalar(signature, i, value) from None
    least, greatest = diagnose.scalar_range(param)
    if not least <= number <= greatest:
        raise diagnose.scalar_out_of_range(signature, i, number, least, greatest)
    return number


def _float(signature: Signature, i: int, value: Any) -> float:
    if type(value) is float:
        return value
    if is_a(value, (str, bytes, bytearray, np.ndarray)):  # numpy converts a text to a number, and a kernel must not
        raise diagnose.wrong_scalar(signature, i, value)
    try:
        return float(value)
    except (TypeError, ValueError):
        raise diagnose.wrong_scalar(signature, i, value) from None
    except OverflowError:
        raise diagnose.scalar_out_of_range(signature, i, value, -(1 << 1023), 1 << 1023) from None


class Prepared:
    """A call whose tensors only lack their addresses: call it with these, in order.

    records: of all arguments, as generated code reads them. places: where among the parameters the tensors are. check, run: the
    addresses of the entries that take the records.
    """

    def __init__(self, entry: Entry, values: Sequence[Any]) -> None:
        signature = entry.signature
        if not isinstance(entry, _Entry) or len(values) != len(signature.params):
            raise diagnose.wrong_count(signature, len(values))
        self._found = [
            number_argument(signature, i, param, value)
            if isinstance(param, ScalarParam)
            else Found(0, value[1], value[0], None, False, None)
            for i, (param, value) in enumerate(zip(signature.params, values, strict=True))
        ]
        records, self._kept = make_records(signature, self._found)
        self.records = ctypes.string_at(ctypes.addressof(records), ctypes.sizeof(records))
        self.places = tuple(i for i, _ in signature.buffers)
        self.check, self.run = (ctypes.cast(code, ctypes.c_void_p).value or 0 for code in (entry.check, entry.run))
        self._entry = entry
        # checked once with addresses that cannot overlap
        self([BEYOND_MEMORY * at for at, _ in enumerate(self.places, 1)], run=False)

    def __call__(self, addresses: Sequence[int], run: bool = True) -> None:
        """Raise what a call raises. run: not only check."""
        entry, signature = self._entry, self._entry.signature
        records = (ArgumentRecord * max(len(self._found), 1)).from_buffer_copy(self.records)
        symbols = (ctypes.c_int64 * (len(signature.symbols) + 1))()
        # a copy of the records, so that calls may run at once
        for i, address in zip(self.places, addresses, strict=True):
            records[i].data = address
        status = entry.check(ctypes.addressof(records), ctypes.addressof(symbols))
        if status:
            raise diagnose.decode_status(signature, status, self._found)
        status = entry.run(ctypes.addressof(records), ctypes.addressof(symbols)) if run else 0
        if status:
            entry.failed(status)


class _NoEntry:
    """Stand-in for an _Entry where there is no code that could be called."""

    def __init__(self, signature: Signature, refusal: Callable[[], Exception]) -> None:
        self.signature, self.refusal = signature, refusal

    def __call__(self, *args: Any, **named: Any) -> None:
        raise self.refusal()


class Kernel:
    """A compiled function. Call it with its tensors and scalars in the order of `signature`, or by their names; outputs are written
    in place and nothing is returned.

    A tensor is a numpy array, an Array, or anything with DLPack, of the declared dtype and rank; each of its extents is the
    declared one, or what the other arguments give its symbol. A scalar is a Python or numpy number. Anything else is a CallError
    that names the argument (and the dimension or symbol): WrongArgumentCount (TW0501), WrongKeyword (TW0502), NotATensor (TW0503),
    WrongDType (TW0504), WrongRank (TW0505), WrongShape (TW0506), SymbolDisagrees (TW0507), WrongStride (TW0508), Misaligned
    (TW0509), ReadOnlyOutput (TW0510), OverlappingOutput (TW0511), WrongDevice (TW0512), WrongByteOrder (TW0513), WrongScalar
    (TW0514), ScalarOutOfRange (TW0515), ExtentTooLarge (TW0516), UnreadableTensor (TW0519); and a kernel that runs raises
    KernelOutOfMemory (TW0517), KernelAssertion (TW0518), or CallbackFailed (TW0527) from what a Python function that it calls
    raised.

    Safe to call from several threads at once; the interpreter's lock is released while large calls run.
    """

    _entry: Entry
    _sources: Callable[[str], str] | None
    _exporting: Exporting | None
    kernels: tuple[Any, ...] = ()
    """Of a CUDA build: what it launches, in order. Of a build for an accelerator, its programs."""
    workspaces: tuple[Workspace, ...] = ()
    """Of a CUDA build: the memory that its launches pass on to each other, which `args` counts behind the arguments."""
    constants: tuple[NDArray[Any], ...] = ()
    """Of a CUDA build: what it reads that it was built with, which `args` counts behind the workspaces."""
    origin: Origin | None = None
    """What it was built from; None where nobody knows."""
    exactness: Callable[[], Any] | None = None
    """What `is_exact` answers; None where nobody knows."""

    def __init__(
        self,
        entry: Entry,
        sources: Callable[[str], str] | None,
        exporting: Exporting | None = None,
    ) -> None:
        self._entry, self._sources, self._exporting = entry, sources, exporting

    def __call__(self, *args: Any, **named: Any) -> None:
        self._entry(*args, **named)

    @property
    def signature(self) -> Signature:
        """Return what the kernel takes: each parameter's name, dtype and shape, and the symbols of the shapes."""
        return self._entry.signature

    @property
    def name(self) -> str:
        """The function's name, "main" where it was given none."""
        return self._entry.signature.name

    @property
    def entry_name(self) -> str:
        """The kernel's name, as TVM's modules call it."""
        return self.name

    def as_torch_op(self, name: str, gradient: bool = True) -> Any:
        """Registers an operator of torch, `torch.ops.namespace.name`: the kernel's inputs to its outputs, on the CPU.

        name: "namespace::name". gradient: it is differentiated by te.gradient; False for a kernel that has none. It works under
        torch.compile and torch.export, and passes torch.library.opcheck. Returns torch.ops.namespace.name.default. Raises
        NoFramework (TW0746) where torch is not there, or nothing is known of what was built; and what te.gradient raises.
        """
        return self._program("an operator of torch").torch_operator(self, name, gradient)

    def as_jax(self) -> Callable[..., Any]:
        """A function of jax that takes the kernel's inputs and gives its outputs, on the CPU, also under jax.jit: a custom call on
        XLA's buffers, without a copy. Its gradient under jax.grad is te.gradient's of what the kernel was built from. Raises
        NoFramework (TW0746) where jax is not there, or nothing is known of what was built."""
        return self._program("a function of jax").jax_function(self)

    def prepare(self, values: Sequence[Any]) -> Prepared:
        """A call whose tensors only lack their addresses. values: for each parameter its shape and dtype, or its number, which are
        checked here. Raises what a call raises."""
        return Prepared(self._entry, values)

    def _program(self, wanted: str) -> Origin:
        if self.origin is None:
            raise NoFramework(
                f"{self.name} cannot become {wanted}",
                called=user_source(),
                reason="its declaration is not known",
                fix="build it from its schedule here",
            )
        return self.origin

    def __reduce__(self) -> tuple[Any, ...]:
        """A kernel is pickled as its program, and built where it is loaded."""
        return self._program("a pickle").pickled_parts()

    def time(self, *args: Any, number: int = 1, repeat: int = 9, min_repeat_ms: float = 10.0) -> TimingResult:
        """Time a call: `repeat` measurements of `number` calls each.

        Parameters
        ----------
        *args
            As for a call, which checks them once, untimed.
        number : int, default 1
            Calls a measurement, at least.
        repeat : int, default 9
            Measurements.
        min_repeat_ms : float, default 10.0
            Time of a measurement at least, in milliseconds: `number` grows until it takes that.

        Returns
        -------
        TimingResult
            Seconds a call.

        Raises
        ------
        WrongTiming (TW0524)
            Timing cannot work with one of the numbers.
        CallError
            What a call raises.
        """
        return time_calls(self, args, number=number, repeat=repeat, min_repeat_ms=min_repeat_ms)

    def source(self, kind: str = "ir") -> str:
        """The kernel's text at one level. kind: "ir", the loop IR, for all; "llvm" and "asm" of a CPU build, "c" and "asm" of one
        for C, "cuda", "ptx" and "sass" of one for a GPU. Raises NoSuchSource (TW0522) where there is none."""
        if self._sources is None:
            raise NoSuchSource(
                f"{self.name} has no source texts",
                reason="it was loaded as machine code alone",
                fix="build it from its schedule to see its source",
            )
        return self._sources(kind)

    @property
    def is_exact(self) -> Any:
        """Return whether the results have the bits of the program without a schedule: as `is_exact` of the schedule that was built, true
        or false and printed with the reason; and false of a build with fast_math or fp_contract. Raises NoSuchSource (TW0522) for a
        kernel that was loaded."""
        if self.exactness is None:
            raise NoSuchSource(
                f"cannot tell whether {self.name} is exact",
                reason="it was loaded as machine code alone",
                fix="build it from its schedule, and ask that kernel",
            )
        return self.exactness()

    def export(
        self,
        path: str | PathLike[str],
        threads: str = "openmp",
        loadable: bool = False,
    ) -> tuple[Path, Path, Path]:
        """Write a library that C and C++ programs link with and `tw.load` loads, with name.h and the manifest name.json beside it.

        What was built for "cuda" has machine code for the architectures of its target and portable code behind it; C calls it with a
        stream, `tw.load` with tensors on a GPU.

        Parameters
        ----------
        path : str or PathLike
            "libname.so", "libname.a" or "name.o". A kernel that was given no name is called like the library.
        threads : str, default "openmp"
            Threading of parallel loops there: "openmp", "none" (serially), or "hook" (as the application says).
        loadable : bool, default False
            Whether an object or archive can be loaded by `tw.load` too, once it is linked to a shared library; a .so always can.

        Returns
        -------
        tuple of Path
            Library, header and manifest.

        Raises
        ------
        NothingToExport (TW0740)
            It was not built here for a processor.
        CompilerMissing (TW0813)
            NVRTC is not there to make a GPU's code.
        ExportError
            The name, the options or the linker do not allow it.
        """
        if self._exporting is None:
            raise NothingToExport(
                f"cannot export {self.name}",
                called=user_source(),
                reason="only kernels that this process built for a processor can be exported, not loaded or emulated ones",
                fix='build it from its schedule with target="llvm", and export that',
            )
        return self._exporting(path, threads, loadable)

    def __repr__(self) -> str:
        return f"<Kernel {self.signature}>"

    def _repr_html_(self) -> str:
        rows = [
            (p.name, p.dtype, "number", "in")
            if isinstance(p, ScalarParam)
            else (p.name, p.dtype, f"({', '.join(map(extent_text, p.shape))})", "out" if p.is_output else "in")
            for p in self.signature.params
        ]
        return html_table(f"kernel {self.name}", ("argument", "dtype", "shape", ""), rows)


def _let_go(kernel: Any) -> None:
    # The class made for this kernel is part of a cycle, as every class is. The machine code that its builtin holds
    # should go now, not when the collector comes by; a call that is still running holds the builtin itself.
    del type(kernel).__call__


def make_kernel(
    signature: Signature,
    addresses: Mapping[str, int],
    *,
    messages: Sequence[str] = (),
    code: object = None,
    sources: Callable[[str], str] | None = None,
    exporting: Exporting | None = None,
    failure: Callable[[int], BaseException] | None = None,
) -> Kernel:
    """The callable for compiled code.

    addresses: of the entries by role: "call", "check", "run" and "python" (see codegen.stub.stub_symbols). messages:
    of the kernel's assertions, by status - 1. code: whatever keeps the machine code in memory. sources: gives the
    kernel's text of a kind, and raises NoSuchSource for a kind that it does not have. exporting: writes the kernel's
    library. failure: the error that a status stands for, where it is not one of `messages` or want of memory.
    """
    entry = _Entry(
        signature, addresses, code, failure or partial(diagnose.kernel_failure, signature, messages=tuple(messages))
    )
    builtin = _new_builtin(ctypes.addressof(entry.method), entry, None)
    # A builtin in a class's dictionary does not bind: the interpreter calls it with the user's arguments alone.
    own = {"__call__": builtin, "__del__": _let_go, "__module__": Kernel.__module__, "__doc__": Kernel.__doc__}
    # a class of its own, since the interpreter looks __call__ up in the class
    return type("Kernel", (Kernel,), own)(entry, sources, exporting)


def foreign_kernel(
    signature: Signature,
    refusal: Callable[[], Exception],
    sources: Callable[[str], str],
    exporting: Exporting,
) -> Kernel:
    """A kernel for another machine: its text can be read, it can be exported, and a call raises `refusal()`."""
    return Kernel(_NoEntry(signature, refusal), sources, exporting)

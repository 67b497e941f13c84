"""Functions for GPUs of a loaded library: tensors of any library in, the library's own launches out. pycuda is not needed."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

from ..base.errors import user_source
from . import diagnose
from .abi import Check, Trouble, unpack_status
from .cuda_driver import context, find_driver
from .cuda_errors import RESULTS, TROUBLES
from .cuda_kernel import DeviceArguments
from .cuda_streams import Event
from .kernel import Kernel
from .signature import Signature
from .timing import TimingResult, time_calls

__all__ = ["loaded_device_kernel"]

_Check = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p)
_Run = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)


class _LoadedEntry:
    """Entry of a loaded GPU library.

    check, run: the addresses of the library's entries. messages: of its assertions. code: keeps the library in memory.
    """

    def __init__(self, signature: Signature, check: int, run: int, messages: Sequence[str], code: object) -> None:
        self.signature, self.messages, self.code = signature, messages, code
        self._check, self._run = _Check(check), _Run(run)

    def __call__(self, *args: Any, **named: Any) -> None:
        self.launch(args, named)

    def launch(self, args: tuple[Any, ...], named: dict[str, Any], synchronized: bool = False) -> None:
        """Queue it on the caller's stream. synchronized: and waits until it is done."""
        find_driver()  # what is missing on this machine is said before what is wrong with the arguments
        given = DeviceArguments(self.signature, self._check, args, named)
        with context(given.index) as driver:
            with given.order_streams(driver):
                status = self._run(ctypes.addressof(given.records), ctypes.addressof(given.symbols), given.stream)
                if status:
                    raise self._failure(status, given)
            if synchronized:
                Event(driver, given.stream).wait()

    def _failure(self, status: int, given: DeviceArguments) -> BaseException:
        check, kind, result = unpack_status(status) if status < -1 else (None, 0, 0)
        if check is None:  # not a check: the kernel itself reports
            return diagnose.kernel_failure(self.signature, status, self.messages)
        if check is not Check.CUDA:
            return diagnose.decode_status(self.signature, status, given.values)
        error, reason = TROUBLES[Trouble(kind)]
        return error(
            f"{self.signature.name} did not run",
            reason=f"{reason} ({RESULTS[result]})" if result in RESULTS else reason,
            called=user_source(),
        )


class _LoadedDeviceKernel(Kernel):
    """A kernel of a library that runs on a GPU. Call it with device tensors; it returns when the work is queued on the
    caller's stream, as a kernel that was built does."""

    def time(self, *args: Any, number: int = 1, repeat: int = 9, min_repeat_ms: float = 10.0) -> TimingResult:
        """Seconds from a call until the GPU is done with it, by the host's clock: `repeat` measurements of `number` calls each,
        `number` growing until a measurement takes `min_repeat_ms`."""
        entry = self._entry
        assert isinstance(entry, _LoadedEntry)
        return time_calls(
            lambda *given: entry.launch(given, {}, synchronized=True),
            args,
            number=number,
            repeat=repeat,
            min_repeat_ms=min_repeat_ms,
        )


def loaded_device_kernel(signature: Signature, check: int, run: int, messages: Sequence[str], code: object) -> Kernel:
    """The callable for a function for GPUs. check, run: the addresses of the library's entries."""
    return _LoadedDeviceKernel(_LoadedEntry(signature, check, run, messages, code), None)

"""One function for several shapes and dtypes: each call goes to the kernel that takes its arguments."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..base.errors import user_source
from .errors import ExtentTooLarge, NoCase, SymbolDisagrees, WrongDType, WrongRank, WrongShape
from .kernel import Kernel
from .signature import Signature

__all__ = ["Cases"]

_OF_ANOTHER_CASE = (WrongDType, WrongRank, WrongShape, SymbolDisagrees, ExtentTooLarge)
_MOST = 4096
"""Combinations of shapes and dtypes that are remembered."""


class Cases(Kernel):
    """A function of a library that was added for several shapes or dtypes. Call it as any of its kernels, `cases`, the first of
    which that takes the arguments runs. Raises NoCase (TW0533) where none does, and what a kernel raises."""

    def __init__(self, name: str, cases: Sequence[Kernel]) -> None:
        super().__init__(_Choice(name, tuple(cases)), None)
        self.cases = tuple(cases)

    @property
    def signature(self) -> Signature:
        """Signature of the first case; `cases` have those of the others."""
        return self.cases[0].signature

    @property
    def name(self) -> str:
        """The name that all cases were added under."""
        return self._entry.signature.name

    def __repr__(self) -> str:
        return f"<Cases {self.name}: {'; '.join(str(case.signature) for case in self.cases)}>"


class _Choice:
    """The kernel for each combination of shapes and dtypes, once it has been found."""

    def __init__(self, name: str, cases: Sequence[Kernel]) -> None:
        self.cases = cases
        self.signature = Signature(name, cases[0].signature.params, cases[0].signature.symbols)
        self.known: dict[Any, Kernel] = {}

    def __call__(self, *args: Any, **named: Any) -> None:
        key: Any = tuple(
            [(getattr(each, "dtype", None), getattr(each, "shape", None)) for each in (*args, *named.values())]
        )
        try:
            kernel = self.known.get(key)
        except TypeError:  # what cannot be hashed is looked for each time
            kernel, key = None, None
        # the case of an earlier call of this form is tried first
        if kernel is not None and self._accepts(kernel, args, named):
            return
        for case in self.cases:
            if case is not kernel and self._accepts(case, args, named):  # no need to try the known one again
                if len(self.known) < _MOST and key is not None:  # a caller with ever new shapes must not fill memory
                    self.known[key] = case
                return
        shapes = "; ".join(str(case.signature) for case in self.cases)
        given = ", ".join(f"{kind} {shape}" for kind, shape in key or () if shape is not None)
        raise NoCase(
            f"no case of {self.signature.name} takes these arguments",
            reason=f"given: {given}" if given else "",
            called=user_source(),
            allowed=shapes,
            fix="pass tensors of one of these shapes and dtypes",
        )

    def _accepts(self, case: Kernel, args: tuple[Any, ...], named: dict[str, Any]) -> bool:
        try:
            case(*args, **named)
        except _OF_ANOTHER_CASE:  # a refusal of the arguments, and no failure of the kernel
            return False
        return True

"""Models of libraries that `model.export` wrote: called with inputs alone, as the models that they were built from."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from ..base import dataclass, user_source
from ..base.arguments import is_array
from .array import Array, empty
from .errors import NotLinkable, WrongArgumentCount
from .kernel import Kernel, arguments_in_order
from .known_calls import KnownCall, KnownCalls
from .signature import BufferParam, Signature, evaluate_extent
from .timing import TimingResult

__all__ = ["LoadedModel", "ModelRoles"]


@dataclass(frozen=True, slots=True)
class ModelRoles:
    """Roles of the parameters of a model's function. inputs: those that a user passes, in the order of the model, by its names;
    some of them are state. outputs: likewise. arena: memory to work in. weights: what its file holds; "" where they are in the
    library."""

    inputs: Mapping[str, str]
    outputs: Mapping[str, str]
    arena: str
    weights: str = ""

    @staticmethod
    def of(plain: Any, signature: Signature) -> ModelRoles:
        """Raise ValueError, TypeError, KeyError or AttributeError for what is none."""
        inputs, outputs = ({str(name): str(spelled) for name, spelled in plain[side]} for side in ("inputs", "outputs"))
        roles = ModelRoles(inputs, outputs, str(plain["arena"]), str(plain["weights"]))
        named = [*inputs.values(), *outputs.values(), roles.arena, *([roles.weights] if roles.weights else [])]
        if sorted(named) != sorted(param.name for _, param in signature.buffers) or len(named) != len(signature.params):
            raise ValueError("a model of other parameters than its function's")
        return roles

    def plain_json(self) -> dict[str, Any]:
        """Plain data, in which order is kept; `of` reads it back."""
        sides = {"inputs": list(self.inputs.items()), "outputs": list(self.outputs.items())}
        return {**sides, "arena": self.arena, "weights": self.weights}


class LoadedModel(Kernel):
    """A model. Call it with its inputs, in the order of `inputs` or by their names: it gives fresh outputs, an array for a single
    one, else a list, or writes what `out=` names. With all arguments of `signature`, the memory that it works in among them, it is
    called as any kernel, and gives nothing.

    Weights in a file are mapped from NAME.weights beside the library, when they are first needed, and read once then, to see that
    they are whole, unless it was loaded with verify=False. State is updated in place, which it
    has to be compact for; other inputs are copied where they are not. Raises what a kernel raises, and NotLinkable (TW0745) where
    the weights' file is not there, is another, or has changed.
    """

    def __init__(self, kernel: Kernel, roles: ModelRoles, library: ctypes.CDLL, place: Path, verify: bool) -> None:
        super().__init__(kernel._entry, None)
        self._kernel, self._roles, self._library, self._place = kernel, roles, library, place
        self._verify = verify
        self._params = {param.name: param for _, param in kernel.signature.buffers}
        self._inputs = {name: self._params[spelled] for name, spelled in roles.inputs.items()}
        self._outputs = {name: self._params[spelled] for name, spelled in roles.outputs.items()}
        self._sides = _sides(kernel.signature, self._inputs)
        self._known: KnownCalls[int] = KnownCalls(tuple(self._inputs))
        places = {spelled: at for at, spelled in enumerate([*roles.inputs.values(), *roles.outputs.values()])}
        places |= {roles.arena: len(places), roles.weights: len(places) + 1}
        self._order = [places[param.name] for param in kernel.signature.params]
        self._arenas: list[Array] = []
        self._mapped: NDArray[np.uint8] | None = None

    @property
    def inputs(self) -> dict[str, BufferParam]:
        """Dtype and shape of each input by its name, in the order of a call."""
        return dict(self._inputs)

    @property
    def outputs(self) -> dict[str, BufferParam]:
        """Dtype and shape of each output by its name, in the order in which a call gives them."""
        return dict(self._outputs)

    def __call__(self, *args: Any, out: Any = None, **named: Any) -> Any:
        if out is None and len(args) + len(named) == len(self.signature.params):
            return self._kernel(*args, **named)
        ordered = self._known.order(args, named) if named else args
        known = self._known.find(ordered)
        results = known.outputs(out) if known is not None else None
        if known is not None and results is not None:
            arena = self._arena(known.how)
            values = [*ordered, *results, arena, self._weights() if self._roles.weights else None]
            self._kernel(*[values[at] for at in self._order])
        else:
            given, results, arena = self._bound(args, named, out)
            self._kernel(**given, **{self._roles.arena: arena})
            if all(type(result) is np.ndarray for result in results):
                updated = tuple(at for at, param in enumerate(self._inputs.values()) if param.is_output)
                types = tuple((result.shape, result.dtype) for result in results)
                self._known.add(ordered, KnownCall(arena.size, updated, types))
        self._arenas.append(arena)
        return results[0] if len(results) == 1 else results

    def time(
        self, *args: Any, number: int = 1, repeat: int = 9, min_repeat_ms: float = 10.0, **named: Any
    ) -> TimingResult:
        """Seconds a call, of inputs alone or of all arguments, as Kernel.time measures. State that is given is updated."""
        if len(args) != len(self.signature.params):
            given, _, arena = self._bound(args, named, None)
            given[self._roles.arena] = arena
            args = tuple(given[param.name] for param in self.signature.params)
        return self._kernel.time(*args, number=number, repeat=repeat, min_repeat_ms=min_repeat_ms)

    def __repr__(self) -> str:
        takes, gives = (", ".join(map(str, params.values())) for params in (self._inputs, self._outputs))
        return f"<LoadedModel {self.name}({takes}) -> {gives}>"

    def _bound(self, args: tuple[Any, ...], named: dict[str, Any], out: Any) -> tuple[dict[str, Any], list[Any], Array]:
        """All arguments but the arena, by their parameters' names, the outputs among them, and the arena."""
        values = arguments_in_order(self._sides, args, named)
        given: dict[str, Any] = {
            param.name: value if param.is_output else _compact(value)
            for param, value in zip(self._inputs.values(), values, strict=True)
        }
        sizes = self._sizes(values)
        if out is None:
            results = [
                empty([max(evaluate_extent(extent, sizes), 0) for extent in param.shape], param.dtype).view(np.ndarray)
                for param in self._outputs.values()
            ]
        else:
            results = list(cast("Sequence[Any]", out)) if isinstance(out, (list, tuple)) else [out]
            if len(results) != len(self._outputs):
                raise WrongArgumentCount(
                    f"{self.name} gives {len(self._outputs)} outputs, and out= names {len(results)}",
                    called=user_source(),
                    allowed=", ".join(map(str, self._outputs.values())),
                    fix="leave out= out, and take what the call returns",
                )
        given.update(zip((param.name for param in self._outputs.values()), results, strict=True))
        if self._roles.weights:
            given[self._roles.weights] = self._weights()
        return given, results, self._arena(max(evaluate_extent(self._params[self._roles.arena].shape[0], sizes), 0))

    def _sizes(self, values: Sequence[Any]) -> dict[str, int]:
        """Return what the inputs say of the symbols; 0 of what they do not, which the call finds wrong."""
        sizes: dict[str, int] = {}
        for name, binding in self._sides.bindings.items():
            shape = tuple(getattr(values[binding.param], "shape", ()))
            sizes[name] = binding.solve(int(shape[binding.dim]) if binding.dim < len(shape) else 0)
        return sizes

    def _arena(self, size: int) -> Array:
        """Memory of so many bytes for a call that no other call works in."""
        try:
            arena = self._arenas.pop()
        except IndexError:
            return empty((size,), "uint8")
        return arena if arena.size == size else empty((size,), "uint8")

    def _weights(self) -> NDArray[np.uint8]:
        """The file of weights, mapped by the library's own function."""
        if self._mapped is None:
            param = self._params[self._roles.weights]
            path, handle = self._place.with_name(f"{self._place.stem.removeprefix('lib')}.weights"), ctypes.c_void_p()
            opened = self._library[f"{self.name}_open{'' if self._verify else '_unverified'}"]
            opened.argtypes, opened.restype = [ctypes.c_char_p, ctypes.c_void_p], ctypes.c_int32
            status = opened(os.fsencode(path), ctypes.addressof(handle))
            if status or not handle.value:
                told = self._library[f"{self.name}_error"]
                told.argtypes, told.restype = [ctypes.c_int32], ctypes.c_char_p
                raise NotLinkable(
                    f"cannot open the weights of {self.name}",
                    reason=f"{path.name}: {told(status).decode()}",
                    called=user_source(),
                    fix=f"keep {path.name} beside the library, as both were written",
                )
            memory = (ctypes.c_uint8 * evaluate_extent(param.shape[0], {})).from_address(handle.value)
            self._mapped = np.frombuffer(memoryview(memory).toreadonly(), np.uint8)
        return self._mapped


def _sides(signature: Signature, inputs: Mapping[str, BufferParam]) -> Signature:
    """A signature of the inputs alone, by the model's names for them."""
    return Signature(
        signature.name,
        tuple(
            BufferParam(name, param.dtype, param.shape, param.is_output, param.alignment)
            for name, param in inputs.items()
        ),
        signature.symbols,
    )


def _compact(value: Any) -> Any:
    """An array whose elements stand side by side."""
    return (
        np.ascontiguousarray(value).reshape(value.shape) if is_array(value) and not value.flags.c_contiguous else value
    )

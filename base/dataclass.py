"""Dataclasses whose methods are written when they are first asked for.

Python's own compile the text of up to six methods for each class, 0.8 ms of it: a third of what a process paid before its first kernel,
which makes objects of a quarter of the classes and shows none. Classes have the fields, methods, errors and pickles that they have by
dataclasses, whose `fields`, `replace` and `asdict` take them, and which makes dataclasses on top of them. The docstring of a class
without one is its name.
"""

from __future__ import annotations

import dataclasses
from _thread import get_ident
from collections.abc import Callable, Iterable
from dataclasses import MISSING, Field, FrozenInstanceError
from functools import partial
from reprlib import recursive_repr
from types import MemberDescriptorType, SimpleNamespace
from typing import TYPE_CHECKING, Any

__all__ = ["dataclass"]

_Method = Callable[..., Any]


_MAKING: set[int] = set()
"""Threads that make a class here."""


class _Params(SimpleNamespace):
    """Options of a class, for which dataclasses asks those below another: classes made here refuse changes without it."""

    @property
    def frozen(self) -> bool:
        return self.refuses_changes and get_ident() not in _MAKING


class _Omitted:
    """Default of a parameter whose field has a factory."""

    def __repr__(self) -> str:
        return "<factory>"


class _Unwritten:
    """Stands for a method of a class until someone asks for it, which puts the method in its place."""

    def __init__(self, owner: type, name: str, write: Callable[[type], _Method]) -> None:
        self.owner, self.name, self.write = owner, name, write

    def __get__(self, instance: object, owner: type) -> Any:
        method = self.write(self.owner)
        method.__name__, method.__qualname__ = self.name, f"{self.owner.__qualname__}.{self.name}"
        method.__module__ = self.owner.__module__
        setattr(self.owner, self.name, method)
        return method.__get__(instance, owner)


def _function(cls: type, head: str, body: list[str], names: dict[str, Any]) -> _Method:
    names["__name__"] = cls.__module__  # by which an error tells frames of ours from the user's
    exec("\n ".join((head, *(body or ["pass"]))), names)
    return names["function"]


def _parameters(fields: Iterable[Field[Any]]) -> str:
    """Return the parameters of an __init__: fields that take no keyword first."""
    texts = {False: ["self"], True: ["*"]}
    for field in fields:
        default = "" if field.default is MISSING else f"=_default_{field.name}"
        texts[bool(field.kw_only)].append(field.name + (default if field.default_factory is MISSING else "=_omitted"))
    return ", ".join(texts[False] + (texts[True] if len(texts[True]) > 1 else []))


def _value(field: Field[Any], is_slot: bool) -> str | None:
    """Return the text of what an __init__ sets a field to; None where it sets none."""
    if field.default_factory is not MISSING:
        made = f"_default_{field.name}()"
        return f"{made} if {field.name} is _omitted else {field.name}" if field.init else made
    if field.init:
        return field.name
    return f"_default_{field.name}" if is_slot and field.default is not MISSING else None


def _write_init(cls: type, frozen: bool) -> _Method:
    fields = dataclasses.fields(cls)
    names: dict[str, Any] = {"_set": object.__setattr__, "_omitted": _Omitted()}
    body: list[str] = []
    for field in fields:
        name, slot = field.name, getattr(cls, field.name, None)
        is_slot = isinstance(slot, MemberDescriptorType)
        names[f"_default_{name}"] = field.default if field.default_factory is MISSING else field.default_factory
        value = _value(field, is_slot)
        if value is None:
            continue
        if not frozen:
            body.append(f"self.{name} = {value}")
        elif is_slot:  # takes three quarters of the time of object.__setattr__
            names[f"_set_{name}"] = slot.__set__
            body.append(f"_set_{name}(self, {value})")
        else:
            body.append(f"_set(self, {name!r}, {value})")
    if hasattr(cls, "__post_init__"):
        body.append("self.__post_init__()")
    parameters = [field for field in fields if field.init]
    init = _function(cls, f"def function({_parameters(parameters)}):", body, names)
    init.__annotations__ = {field.name: field.type for field in parameters} | {"return": None}
    return init


def _write_repr(cls: type) -> _Method:
    shown = [field.name for field in dataclasses.fields(cls) if field.repr]

    @recursive_repr()
    def representation(self: Any) -> str:
        return f"{type(self).__qualname__}({', '.join(f'{name}={getattr(self, name)!r}' for name in shown)})"

    return representation


def _tuple(of: str, fields: list[Field[Any]]) -> str:
    return f"({''.join(f'{of}.{field.name},' for field in fields)})"


def _write_eq(cls: type) -> _Method:
    compared = [field for field in dataclasses.fields(cls) if field.compare]
    equal = f"{_tuple('self', compared)} == {_tuple('other', compared)}"
    return _function(
        cls,
        "def function(self, other):",
        [f"return {equal} if other.__class__ is self.__class__ else NotImplemented"],
        {},
    )


def _write_hash(cls: type) -> _Method:
    hashed = [field for field in dataclasses.fields(cls) if (field.compare if field.hash is None else field.hash)]
    return _function(cls, "def function(self):", [f"return hash({_tuple('self', hashed)})"], {})


def _refuse_changes(cls: type) -> None:
    """Let a class refuse to have its fields set or deleted, as dataclasses does it."""
    names = frozenset(field.name for field in dataclasses.fields(cls))

    def set_attribute(self: Any, name: str, value: Any) -> None:
        if type(self) is cls or name in names:
            raise FrozenInstanceError(f"cannot assign to field {name!r}")
        super(cls, self).__setattr__(name, value)

    def delete_attribute(self: Any, name: str) -> None:
        if type(self) is cls or name in names:
            raise FrozenInstanceError(f"cannot delete field {name!r}")
        super(cls, self).__delattr__(name)

    for method, name in ((set_attribute, "__setattr__"), (delete_attribute, "__delattr__")):
        method.__name__, method.__qualname__ = name, f"{cls.__qualname__}.{name}"
        setattr(cls, name, method)


def _get_state(self: Any) -> list[Any]:
    return [getattr(self, field.name) for field in dataclasses.fields(self)]


def _set_state(self: Any, state: list[Any]) -> None:
    for field, value in zip(dataclasses.fields(self), state, strict=True):
        object.__setattr__(self, field.name, value)


def _process(
    cls: type[Any], frozen: bool = False, slots: bool = False, eq: bool = True, repr: bool = True, kw_only: bool = False
) -> type[Any]:
    if cls.__doc__ is None:  # else dataclasses asks for a signature
        cls.__doc__ = cls.__name__
    _MAKING.add(get_ident())
    try:
        made: type[Any] = dataclasses.dataclass(init=False, repr=False, eq=False, slots=slots, kw_only=kw_only)(cls)
    finally:
        _MAKING.discard(get_ident())
    made.__dataclass_params__ = _Params(
        init=True, repr=repr, eq=eq, order=False, unsafe_hash=False, refuses_changes=frozen
    )
    own = made.__dict__
    has_hash = "__hash__" in own and not (own["__hash__"] is None and "__eq__" in own)
    writers: dict[str, Callable[[type], _Method]] = {"__init__": partial(_write_init, frozen=frozen)}
    if repr:
        writers["__repr__"] = _write_repr
    if eq:
        writers["__eq__"] = _write_eq
    if frozen:
        _refuse_changes(made)
    methods: dict[str, Any] = {name: _Unwritten(made, name, write) for name, write in writers.items()}
    if frozen and slots:
        methods |= {"__getstate__": _get_state, "__setstate__": _set_state}
    for name, method in methods.items():
        if name not in own:
            setattr(made, name, method)
    if eq and not has_hash:
        setattr(made, "__hash__", _Unwritten(made, "__hash__", _write_hash) if frozen else None)  # noqa: B010
    return made


if TYPE_CHECKING:
    from dataclasses import dataclass
else:

    def dataclass(cls: type | None = None, /, **options: bool) -> Any:
        """Make a dataclass of a class, as dataclasses.dataclass does. options: frozen, slots, eq, repr and kw_only, which mean the same."""
        if cls is None:
            return lambda cls: _process(cls, **options)
        return _process(cls)

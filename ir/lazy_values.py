"""Properties, and values of mappings, that are computed once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Generic, TypeVar, overload

__all__ = ["LazyMapping", "cached_property"]

T = TypeVar("T")


class cached_property(Generic[T]):
    """Cached property like functools' of Python 3.12: without the lock for all objects of the class that earlier ones hold while they
    compute, which a child that is forked meanwhile would wait for in vain. Of two threads that compute at once the first to end is
    heard."""

    def __init__(self, compute: Callable[[Any], T]) -> None:
        self._compute, self.__doc__ = compute, compute.__doc__

    def __set_name__(self, owner: type[Any], name: str) -> None:
        self._name = name

    @overload
    def __get__(self, instance: None, owner: type[Any] | None = None) -> cached_property[T]: ...
    @overload
    def __get__(self, instance: object, owner: type[Any] | None = None) -> T: ...
    def __get__(self, instance: object | None, owner: type[Any] | None = None) -> cached_property[T] | T:
        if instance is None:
            return self
        return instance.__dict__.setdefault(self._name, self._compute(instance))


class LazyMapping(Mapping[str, T]):
    """Values by name, each computed when it is first asked for."""

    def __init__(self, makers: Mapping[str, Callable[[], T]]) -> None:
        self._makers, self._values = makers, dict[str, T]()

    def __getitem__(self, name: str) -> T:
        if name not in self._values:
            self._values[name] = self._makers[name]()
        return self._values[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._makers)

    def __len__(self) -> int:
        return len(self._makers)

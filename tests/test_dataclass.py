"""Our dataclasses are those of Python, but for the time at which their methods are written."""

import copy
import dataclasses
import inspect
import itertools
import pickle
import sys
from importlib import import_module
from threading import Barrier, Thread
from types import ModuleType

import pytest

own = import_module("tilewright.base.dataclass")

CLASSES = """
from __future__ import annotations
from dataclasses import field
from typing import ClassVar

@dataclass({options})
class Base:
    "A class."
    a: int
    b: str = "b"
    kind: ClassVar[str] = "base"

@dataclass({options})
class Top(Base):
    "One on top of it."
    c: list = field(default_factory=list, compare=False)
    d: int = field(default=3, repr=False, kw_only=True)
    e: int = field(init=False)
    f: list = field(init=False, default_factory=list, hash=False)
    g: int = field(init=False, default=7)

    def __post_init__(self):
        object.__setattr__(self, "e", self.a + self.d)

@dataclass({options})
class Hashed(Base):
    "One that has its own."
    def __hash__(self):
        return 5

@dataclass({options})
class Equal(Base):
    "One that is equal to all."
    def __eq__(self, other):
        return True

class Plain(Top):
    "A class that may have other attributes."
"""


def _module(decorator, options):
    module = ModuleType("classes_of_a_test")
    module.dataclass = decorator
    sys.modules[module.__name__] = module
    exec(CLASSES.format(options=options), module.__dict__)
    return module


def _outcome(call):
    try:
        return call()
    except (TypeError, AttributeError) as error:
        return type(error), str(error)


def _behaviour(module):
    """Everything that classes do, as values that can be compared."""
    told = []
    for cls in (module.Base, module.Top, module.Hashed, module.Equal):
        told += [cls.__init__.__globals__["__name__"]]
        told += [str(inspect.signature(cls)), cls.__match_args__, [f.name for f in dataclasses.fields(cls)]]
        told += [_outcome(call) for call in (cls, lambda: cls(1, 2, 3, 4, 5), lambda: cls(1, z=2))]
        one, same, other = cls(1), cls(1, "b"), cls(2, b="c")
        told += [one == same, one == other, one != same, one == 1, [one, other].index(other)]
        told += [
            _outcome(lambda: hash(one) == hash(same)),
            _outcome(lambda: hash(one) == hash(other)),
            cls.__hash__ is None,
        ]
        told += [repr(one).split(" at 0x")[0], dataclasses.asdict(other), dataclasses.replace(one, b="d").b]
        told += [pickle.loads(pickle.dumps(other)).b, copy.copy(other).a, copy.deepcopy(other).a]
        told += [_outcome(lambda: setattr(one, "a", 9)), _outcome(lambda: delattr(one, "b"))]
        told += [dataclasses.asdict(one) if hasattr(one, "b") else None]
    plain = module.Plain(1)
    told += [plain.e, _outcome(lambda: setattr(plain, "a", 5)), _outcome(lambda: delattr(plain, "b"))]
    top = module.Top(1)
    top.c.append(top)
    return [*told, repr(top).split(" at 0x")[0], module.Top(1).f is module.Top(1).f]


@pytest.mark.parametrize("values", list(itertools.product((False, True), repeat=4)))
def test_they_behave_alike(values):
    options = ", ".join(
        f"{name}={value}" for name, value in zip(("frozen", "slots", "eq", "repr"), values, strict=True)
    )
    assert _behaviour(_module(own.dataclass, options)) == _behaviour(_module(dataclasses.dataclass, options))


def test_threads_may_ask_for_the_first_method_at_once():
    module, barrier, results = _module(own.dataclass, "frozen=True"), Barrier(8), []

    def make():
        barrier.wait()
        results.append(module.Top(1, "c") == module.Top(1, "c"))

    threads = [Thread(target=make) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [True] * 8


def test_without_arguments_and_without_a_docstring():
    @own.dataclass
    class Bare:
        a: int

    assert (Bare(3), Bare.__doc__) == (Bare(a=3), "Bare")


def test_a_class_on_top_may_have_attributes_of_its_own():
    module = _module(own.dataclass, "frozen=True, slots=True")
    plain = module.Plain(1)
    plain.other = 2
    assert plain.other == 2
    del plain.other
    assert not hasattr(plain, "other")
    with pytest.raises(dataclasses.FrozenInstanceError, match="'other'"):
        module.Top(1).other = 2


@pytest.mark.parametrize("slots", [False, True])
def test_classes_of_dataclasses_stand_on_top_of_them(slots):
    module = _module(own.dataclass, f"frozen=True, slots={slots}")

    @dataclasses.dataclass(frozen=True)
    class Above(module.Base):
        more: int = 4

    assert Above(1, more=5) == Above(1, "b", 5) != Above(1)
    with pytest.raises(dataclasses.FrozenInstanceError, match="'a'"):
        Above(1).a = 2
    with pytest.raises(TypeError, match="cannot inherit non-frozen dataclass from a frozen one"):
        dataclasses.dataclass(type("Thawed", (module.Base,), {"__annotations__": {"c": int}}))

"""Parameters as kernels read them: as they are, or packed, once, in the order in which a kernel reads them.

    matmul(x, w), w: float32[768, 3072]     →     its kernel takes panels of w, float32[96, 768, 32]

Which of it is so is the schedule's choice, and the same for equal layers; what two steps pack alike lies there once.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping, MutableMapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..base.dataclass import dataclass
from ..driver.linking import Part
from ..ir.constant import Constant, aligned_copy
from .kernels import is_heavy
from .large_pages import LargePages
from .mapped_arrays import is_paged
from .node import Computed, Param, Parts

if TYPE_CHECKING:
    from .kernels import Step

__all__ = ["Weights", "collect_weights"]


@dataclass(frozen=True)
class Weights:
    """Parameters of a model as its kernels read them.

    held: all that kernels read, by digests. read: for each step, the digests of what its kernel takes, in its order. whole: of
    parameters that are passed as any value is, by name.
    """

    held: dict[str, Constant]
    read: tuple[tuple[str, ...], ...]
    whole: dict[str, str]


def collect_weights(
    g: Parts,
    steps: Sequence[Step],
    parts: Sequence[Part],
    packed: MutableMapping[str, Constant],
) -> Weights:
    """The weights of a graph's steps. parts: the kernel of each. packed: what is there already, by digests; gets what is new."""
    maker = _Maker(g, packed, {name for step in steps for node in step.nodes if is_heavy(node) for name in node.inputs})
    whole = {name: maker.add_parameter(name) for step in steps for name in step.passed if name in g.constants}
    held = {constant.digest: constant for constant in whole.values()}
    read: list[tuple[str, ...]] = []
    for step, part in zip(steps, parts, strict=True):
        given = {step.placeholder(name): name for name in step.params}
        made = maker.packed(part, given) if part.opening.is_packed else []
        taken = [
            made[each] if isinstance(each, int) else maker.add_parameter(given[each]) for each in part.opening.reads
        ]
        held.update((constant.digest, constant) for constant in taken)
        read.append(tuple(constant.digest for constant in taken))
    return Weights(held, tuple(read), {name: constant.digest for name, constant in whole.items()})


class _Maker:
    """Make what kernels read. known: what is there already, by digests. used: the parameters that heavy nodes read, every element
    in each call; of others, tables in which rows are looked up, little may be read at all."""

    def __init__(self, g: Parts, known: MutableMapping[str, Constant], used: Collection[str]) -> None:
        self.params, self.known, self.used = g.bound, known, used
        self.pages = LargePages()

    def add_parameter(self, name: str) -> Constant:
        """A parameter; of one that lies in a file and is used, a copy in memory."""
        param = self.params[name]
        found = self.known.get(param.digest)
        if found is not None:
            return found
        if name not in self.used or isinstance(param.numbers, np.ndarray) and not is_paged(param.numbers):
            assert param.data is not None, f"{name} is bound"
            return Constant(name, param.data, param.digest)
        numbers = _read(param)
        copy = self.pages.zeros(numbers.shape, numbers.dtype)
        copy[...] = numbers
        copy.flags.writeable = False
        param.release()
        made = self.known[param.digest] = Constant(name, copy, param.digest)
        return made

    def packed(self, part: Part, given: Mapping[str, str]) -> list[Constant]:
        """Return the packed form of parameters, which are told apart by what packs them and what it is made from."""
        names = [given[each] for each in part.opening.sources]
        whole = " ".join([part.opening.digest, *(self.params[name].digest for name in names)])
        digests = [
            hashlib.sha256(f"{whole} {number}".encode()).hexdigest() for number in range(len(part.opening.results))
        ]
        found = [self.known.get(digest) for digest in digests]
        made = [constant for constant in found if constant is not None]
        if len(made) < len(digests):
            params = [self.params[name] for name in names]
            sources = [
                aligned_copy(_read(param)) if isinstance(param.numbers, Computed) else _read(param) for param in params
            ]
            arrays = part.packed(sources, self.pages.zeros)
            for param in params:
                param.release()
            name = (
                names[0] if names else "constant"
            )  # what is packed of a kernel's own constants comes from no parameter
            made = [Constant(name, array, digest) for array, digest in zip(arrays, digests, strict=True)]
            self.known.update(zip(digests, made, strict=True))
        return made


def _read(param: Param) -> NDArray[Any]:
    """The numbers of a parameter; those that are computed are not kept for it."""
    numbers = param.numbers
    assert numbers is not None, "a parameter that is bound"
    return numbers.compute() if isinstance(numbers, Computed) else numbers

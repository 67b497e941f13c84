"""Random numbers by counting: Threefry-4x64 of 20 rounds (J. Salmon et al., Parallel random numbers: as easy as 1, 2, 3, 2011).

A generator is ten words of uint64: four of a key, two of a path, two of a counter, and two that hold the one bit of the path that
is next in turn (K. Claessen and M. Palka, Splittable pseudorandom number generators using cryptographic hashing, 2013). Where a
generator stands afterwards is what TVM says of it; its numbers are Threefry's own, which those of TVM's rounds are not.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from ..base.errors import user_source
from ..ir.ops import convert
from ..te import polymorphic as te
from ..te.shape import Shape, scalar_dtype
from ..te.tensor import Tensor
from .checks import BadOperand, BadParameter, integers, tensor
from .signatures import Scalar, checked
from .transform import flat_index, injective

__all__ = ["normal", "threefry_generate", "threefry_key", "threefry_split", "uniform"]

_ROTATIONS = ((14, 16), (52, 57), (23, 40), (5, 37), (25, 33), (46, 12), (58, 22), (32, 32))
_PARITY = 0x1BD11BDAA9FC1A22
_WHOLE = 2**64 - 1


@checked("topi.random")
def threefry_key(seed: int) -> list[int]:
    """The ten words of a generator whose key is `seed`: numpy.array(words, "uint64") is passed to what takes one."""
    return [0, 0, 0, seed % 2**64, 0, 0, 0, 0, 1 << 63, 0]


@checked("topi.random")
def threefry_generate(gen: Tensor, out_shape: Shape) -> tuple[Tensor, Tensor]:
    """The generator afterwards, and random words of uint64, of out_shape. Where the counter has no room for them, the path grows by
    a bit, or, where it is full, a new key is made of what there is. Raises BadOperand (TW0181), BadParameter (TW0182)."""
    source = _generator(gen)
    shape = integers(out_shape, "out_shape of threefry_generate")
    count = math.prod(shape)
    state = _reserve_words(source, count)
    full, rest = divmod(count, 4)

    blocks = _threefry(
        full + (rest > 0),
        state,
        lambda block: [state[4], state[5], state[6], state[7] + block.astype("uint64")],
        "threefry",
    )

    def element(*index: Any) -> Any:
        flat = flat_index(index, tuple(map(convert, shape)))
        return _choose(te.indexmod(flat, 4), [part[te.indexdiv(flat, 4)] for part in blocks])

    moved = full * 4 + 4 if rest else count
    after = te.compute(
        (10,),
        lambda i: te.select(i.equal(6), _word(0), te.select(i.equal(7), state[7] + _word(moved), state[i])),
        name="threefry_generator",
    )
    return after, injective(tuple(shape), element, "threefry_words")


@checked("topi.random")
def threefry_split(gen: Tensor) -> tuple[Tensor, Tensor]:
    """Two generators of one, which is not to be used any more. Raises BadOperand (TW0181)."""
    source = _generator(gen)
    fresh = _fresh(source, "threefry_split_key")
    full = te.all(source[8].equal(_word(0)), source[9].equal(_word(0)))

    def words(right: bool) -> Tensor:
        path = [source[j] | source[j + 4] if right else source[j] for j in (4, 5)]
        own = [*(source[j] for j in range(4)), *path, source[6], source[7], *_next_bit(source)]
        new = [*(part[0] for part in fresh), _word(1 << 63 if right else 0), *[_word(0)] * 3, _word(1 << 62), _word(0)]
        return te.compute(
            (10,),
            lambda i: te.if_then_else(full, _choose(i, new), _choose(i, own)),
            name=f"threefry_{'right' if right else 'left'}",
        )

    return words(False), words(True)


@checked("topi.random")
def uniform(
    gen: Tensor, low: Scalar | Tensor, high: Scalar | Tensor, out_shape: Shape, out_dtype: str = "float32"
) -> tuple[Tensor, Tensor]:
    """The generator afterwards, and numbers of [low, high), float32 or float64: low and high are tensors of rank 0, or numbers.
    Raises BadOperand (TW0181), BadParameter (TW0182)."""
    after, bits = threefry_generate(gen, out_shape)
    kind = str(scalar_dtype(out_dtype))
    if kind not in ("float32", "float64"):
        raise BadParameter(
            f"random numbers of {kind}",
            reason="they are made of 23 or 52 random bits",
            called=user_source(),
            fix='out_dtype="float32" or "float64"',
        )
    word, width, fraction = ("uint32", 32, 23) if kind == "float32" else ("uint64", 64, 52)
    one = ((1 << (width - fraction - 2)) - 1) << fraction
    begin, end = (_scalar(side, kind) for side in (low, high))

    def element(*i: Any) -> Any:
        mantissa = (bits[i].astype(word) >> te.const(width - fraction, word)) | te.const(one, word)
        return (te.reinterpret(kind, mantissa) - te.const(1, kind)) * (end() - begin()) + begin()

    return after, injective(bits.shape, element, "uniform")


@checked("topi.random")
def normal(
    gen: Tensor, mean: Scalar | Tensor, scale: Scalar | Tensor, out_shape: Shape, out_dtype: str = "float32"
) -> tuple[Tensor, Tensor]:
    """The generator afterwards, and numbers of the normal distribution with that mean and deviation, by Box and Muller's method.
    Raises BadOperand (TW0181), BadParameter (TW0182)."""
    after, pairs = uniform(gen, 0.0, 1.0, [2, *integers(out_shape, "out_shape of normal")], out_dtype)
    kind = pairs.dtype
    middle, by = (_scalar(side, kind) for side in (mean, scale))

    def element(*i: Any) -> Any:
        length = te.sqrt(te.const(-2.0, kind) * te.log(te.const(1.0, kind) - pairs[(0, *i)]))
        return length * te.sin(te.const(2.0 * math.pi, kind) * pairs[(1, *i)]) * by() + middle()

    return after, injective(pairs.shape[1:], element, "normal")


def _generator(gen: Tensor) -> Tensor:
    source = tensor(gen, "a generator", 1)
    if str(source.dtype) != "uint64":
        raise BadOperand(
            f"a generator is ten words of uint64, and {source.name} is {source.dtype}",
            declared=source.source,
            called=user_source(),
            fix='te.placeholder((10,), "uint64")',
        )
    return source


def _scalar(value: Any, dtype: Any) -> Any:
    """Return an element from a number or a tensor of rank 0."""
    return value if isinstance(value, Tensor) else lambda: convert(value).astype(dtype)


def _word(value: int) -> Any:
    return te.const(value, "uint64")


def _choose(index: Any, values: Sequence[Any]) -> Any:
    """values[index]."""
    chosen = values[-1]
    for at in reversed(range(len(values) - 1)):
        chosen = te.select(index.equal(at), values[at], chosen)
    return chosen


def _next_bit(gen: Tensor) -> tuple[Any, Any]:
    """The two words with the one bit of the path, moved on."""
    high, low = gen[8], gen[9]
    moved = te.select(high.equal(_word(0)), low >> _word(1), _word(0))
    return high >> _word(1), te.select(high.equal(_word(1)), _word(1 << 63), moved)


def _reserve_words(gen: Tensor, count: int) -> Tensor:
    """The generator itself, or one that its path or its key was changed for, whose counter has room for `count` words."""
    fresh = _fresh(gen, "threefry_key", _WHOLE)
    room = gen[7] < _word(_WHOLE - count)
    full = te.all(gen[8].equal(_word(0)), gen[9].equal(_word(0)))
    longer = [*(gen[j] for j in range(4)), gen[4] | gen[8], gen[5] | gen[9], _word(0), _word(0), *_next_bit(gen)]
    new = [*(part[0] for part in fresh), *[_word(0)] * 4, _word(1 << 63), _word(0)]
    return te.compute(
        (10,),
        lambda i: te.if_then_else(room, gen[i], te.if_then_else(full, _choose(i, new), _choose(i, longer))),
        name="threefry_state",
    )


def _fresh(gen: Tensor, name: str, counter: int | None = None) -> list[Tensor]:
    """A key made of a generator: of its path and counter, or of one counter."""
    words = [_word(counter)] * 4 if counter is not None else [gen[4 + j] for j in range(4)]
    return _threefry(1, gen, lambda _: words, name)


def _threefry(blocks: int, key: Tensor, counter: Callable[[Any], list[Any]], name: str) -> list[Tensor]:
    """Four words for each block: four words of a counter, mixed in 20 rounds with the first four of key."""
    own: list[Any] = [key[j] for j in range(4)]
    keys = [*own, own[0] ^ own[1] ^ own[2] ^ own[3] ^ _word(_PARITY)]

    def mixed(block: Any, before: Any, turn: int) -> tuple[Any, ...]:
        words = counter(block) if before is None else [part[block] for part in before]
        a, b, c, d = (word + keys[(turn + j) % 5] for j, word in enumerate(words))
        d = d + _word(turn)
        for k in range(4 if turn < 5 else 0):
            left, right = _ROTATIONS[(turn * 4 + k) % 8]
            a, b = _mix(a, b, left)
            c, d = _mix(c, d, right)
            b, d = d, b
        return a, b, c, d

    state: list[Tensor] | None = None
    for turn in range(6):
        made: Any = te.compute((blocks,), partial(mixed, before=state, turn=turn), name=f"{name}_{turn}")
        state = list(made)
    assert state is not None
    return state


def _mix(a: Any, b: Any, by: int) -> tuple[Any, Any]:
    total = a + b
    return total, total ^ ((b << _word(by)) | (b >> _word(64 - by)))

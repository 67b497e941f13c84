"""Convolutions by Winograd's algorithm, where that costs less than the sums as they are declared.

A tile of 2 x 2 results comes from a square of 4 x 4 places: 16 products of matrices over channels, with transforms of the image and
of the results around them. The products are estimated as convolutions of single places, by the rule that schedules those, so that both
algorithms are told by the same model; the transforms are counted; what no cache holds passes by once.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from ... import topi
from ...codegen.machine import Machine
from ...schedule import Schedule, Stage
from ...schedule.primitives.redeclare import offered_declarations
from ...te.compute import placeholder
from ...te.operation import ComputeOp, Operation
from ...te.shape import constant_extent
from ...te.tensor import Tensor
from ...topi.nn.conv2d import PACK
from ..cost.estimate import Estimate, pad_estimate
from ..factoring import Scheduler, estimate_alone
from ..operations import is_known, is_plain, weight
from ..plan import Candidate, Chooser, Decision, decide

__all__ = ["fast_convolutions"]

TILE, SQUARE = 2, 4
IMAGE_ADDS, RESULT_ADDS = 32, 24
"""Additions of a square that is transformed, and of a tile of results."""
CHEAP = 32
"""Operators of an element of an image that is computed where it is read: padding."""
TURN = 4
"""Shuffles of a vector that is transposed with others."""
MEMORY = ("L2 bandwidth", "L3 bandwidth", "memory bandwidth", "pages")
"""The parts of an estimate that products of Winograd's do not have: their operands come from transforms, and go to others."""
UNFORESEEN = 0.2
"""The part of its time by which Winograd's algorithm, of several stages, may miss its estimate more than a sum does."""


@dataclass(frozen=True)
class _Layer:
    """The extents of a convolution. packed: output channels with those that fill up the last block of transformed weights.
    block: channels that lie side by side in the image, 0 where each is an image of its own. lanes: those of the result."""

    batch: int
    outputs: int
    packed: int
    inputs: int
    height: int
    width: int
    block: int
    lanes: int

    @property
    def places(self) -> tuple[int, int]:
        """The tiles down and across."""
        return -(-self.height // TILE), -(-self.width // TILE)

    @property
    def tiles(self) -> int:
        """All tiles of all images."""
        down, across = self.places
        return self.batch * down * across


def fast_convolutions(s: Schedule, machine: Machine, chooser: Chooser, scheduled: Scheduler) -> list[Decision]:
    """Let convolutions of a schedule that nobody has touched be Winograd's where that costs less, and tell what was decided.
    scheduled: applies the rules to a part of the program, without alternatives."""
    decisions: list[Decision] = []
    for stage in list(s.stages):
        layer = _layer(stage)
        if layer is None or not _saves(layer):
            continue
        op = stage.op.as_compute
        assert op is not None
        candidates = [
            Candidate("as declared", lambda: None, estimate_alone(scheduled, _isolate(stage.op))),
            Candidate(
                "Winograd's algorithm", partial(_redeclare, s, op.output(0)), _time(layer, op, machine, scheduled)
            ),
        ]
        decisions.append(decide("algorithm", op, candidates, chooser, machine))
        candidates[decisions[-1].chosen].apply()
    return decisions


def _redeclare(s: Schedule, tensor: Tensor) -> None:
    s.redeclare(tensor, "winograd")


def _layer(stage: Stage) -> _Layer | None:
    """The extents of a convolution that has the alternative; None of any other stage, and where they are not known. An unknown
    batch counts as one image."""
    if "winograd" not in offered_declarations(stage):
        return None
    op = stage.op
    batch, blocks, *rest = (constant_extent(axis) for axis in op.axis)
    height, width, lanes = (*rest, 1)[:3]
    inputs, _, _, block = (*(constant_extent(axis) for axis in op.reduce_axis), 0)[:4]
    if not (blocks and height and width and lanes and inputs) or batch == 0:
        return None
    outputs = blocks * lanes
    return _Layer(
        batch or 1, outputs, -(-outputs // PACK) * PACK, inputs * (block or 1), height, width, block or 0, lanes
    )


def _isolate(op: Operation) -> Operation:
    """A convolution by itself, with what its image alone goes through; what that and the weights are computed from is given."""
    given = {tensor: tensor if is_known(tensor) else _replacement(tensor) for tensor in op.input_tensors}
    image = op.input_tensors[0]
    if is_plain(image.op) and weight(image.op) <= CHEAP:
        inner = {tensor: _replacement(tensor) for tensor in image.op.input_tensors}
        given[image] = image.op.replace_inputs(inner).output(image.value_index)
    return op.replace_inputs(given)


def _replacement(tensor: Tensor) -> Tensor:
    return placeholder(tensor.shape, tensor.dtype, tensor.name)


def _saves(layer: _Layer) -> bool:
    """Return whether fewer operations are left once the transforms are counted, without which nothing is estimated."""
    direct = TILE * TILE * 9 * layer.inputs * layer.outputs
    fast = SQUARE * SQUARE * layer.inputs * layer.packed + IMAGE_ADDS * layer.inputs + RESULT_ADDS * layer.packed
    return fast < direct


def _time(layer: _Layer, op: ComputeOp, machine: Machine, scheduled: Scheduler) -> Estimate:
    """The time of Winograd's algorithm."""
    products = estimate_alone(scheduled, _products(layer))
    parts = [(what, seconds) for what, seconds in products.parts if what not in MEMORY]
    parts.append(("transforms", _transform_cycles(layer, machine) * 1e-9 / machine.clock))
    parts.append(("memory between stages", _memory_cycles(layer, machine) * 1e-9 / machine.clock))
    if not is_known(op.input_tensors[-1]):
        weights = placeholder((layer.outputs, layer.inputs, 3, 3), "float32", "w")
        packing = estimate_alone(scheduled, topi.nn.conv2d_winograd_prepack(weights).op)
        parts += [(f"weights: {what}", seconds) for what, seconds in packing.parts]
    return pad_estimate(Estimate(tuple(parts)), UNFORESEEN)


def _products(layer: _Layer) -> ComputeOp:
    """The 16 products as one convolution of single places, the places of a square being images."""
    images = SQUARE * SQUARE * layer.batch
    if layer.block:
        image = placeholder((images, layer.inputs // layer.block, *layer.places, layer.block), "float32", "x")
        shape = (layer.outputs // layer.lanes, layer.inputs // layer.block, 1, 1, layer.block, layer.lanes)
        result = topi.nn.conv2d_NCHWc(image, placeholder(shape, "float32", "w"), 1, 0)
    else:
        image = placeholder((images, layer.inputs, *layer.places), "float32", "x")
        result = topi.nn.conv2d(image, placeholder((layer.packed, layer.inputs, 1, 1), "float32", "w"))
    op = result.op.as_compute
    assert op is not None
    return op


def _transform_cycles(layer: _Layer, machine: Machine) -> float:
    """Cycles of the transforms: additions, and what is loaded and stored in vectors."""
    rates, places = machine.instructions, SQUARE * SQUARE
    image = IMAGE_ADDS / rates.add.rate + places / rates.load.rate + places / rates.store.rate
    result = RESULT_ADDS / rates.add.rate + places / rates.load.rate + 2 * TILE * TILE / rates.store.rate
    if not layer.block:  # every other element of a row, and results turned from channels into rows
        image += places / rates.load.rate + places / rates.shuffle.rate
        result += TURN * TILE * TILE / rates.shuffle.rate
    vectors = layer.tiles / machine.lanes(32) / machine.cores
    return vectors * (layer.inputs * image + layer.packed * result)


def _memory_cycles(layer: _Layer, machine: Machine) -> float:
    """Cycles for what lies between the stages: squares and products are stored and loaded once, in the second cache but for squares
    that it does not hold, and each core reads the transformed weights."""
    weights, squares, products = (
        4 * SQUARE * SQUARE * one * other
        for one, other in ((layer.inputs, layer.packed), (layer.inputs, layer.tiles), (layer.packed, layer.tiles))
    )
    beyond = sum(size for size in (weights, squares / machine.cores) if size > machine.l2)
    rate = machine.l3_rate if beyond <= machine.l3 / machine.cores else machine.memory_rate
    return beyond / rate + 2 * (squares + products) / machine.l2_rate / machine.cores

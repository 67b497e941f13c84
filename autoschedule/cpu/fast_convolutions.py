"""Convolutions by Winograd's algorithm, where that costs less than the sums as they are declared.

A tile of 2 x 2 results comes from a square of 4 x 4 places: 16 products of matrices over channels, with transforms of the image and
of the results around them. Both declarations are scheduled by their rules and estimated by the same model.
"""

from __future__ import annotations

from functools import partial

from ...codegen.machine import Machine
from ...schedule import Schedule, Stage
from ...schedule.primitives.redeclare import offered_declarations
from ...te.compute import placeholder
from ...te.operation import Operation
from ...te.shape import constant_extent
from ...te.tensor import Tensor
from ...topi.nn.conv2d import PACK
from ..factoring import Scheduler, estimate_alone
from ..operations import is_known, is_plain, weight
from ..plan import Candidate, Chooser, Decision, decide

__all__ = ["fast_convolutions"]

TILE, SQUARE = 2, 4
IMAGE_ADDS, RESULT_ADDS = 32, 24
"""Additions of a square that is transformed, and of a tile of results."""
CHEAP = 32
"""Operators of an element of an image that is computed where it is read: padding."""


def fast_convolutions(s: Schedule, machine: Machine, chooser: Chooser, scheduled: Scheduler) -> list[Decision]:
    """Let convolutions of a schedule that nobody has touched be Winograd's where that costs less, and tell what was decided.
    scheduled: applies the rules to a part of the program, without alternatives."""
    decisions: list[Decision] = []
    for stage in list(s.stages):
        if "winograd" not in offered_declarations(stage) or not _saves_operations(stage):
            continue
        op, alone = stage.op, _isolate(stage.op)
        candidates = [
            Candidate("as declared", lambda: None, estimate_alone(scheduled, alone)),
            Candidate(
                "Winograd's algorithm",
                partial(_redeclare, s, op.output(0)),
                estimate_alone(scheduled, alone, _redeclare),
            ),
        ]
        decisions.append(decide("algorithm", op, candidates, chooser, machine))
        candidates[decisions[-1].chosen].apply()
    return decisions


def _redeclare(s: Schedule, tensor: Tensor) -> None:
    s.redeclare(tensor, "winograd")


def _saves_operations(stage: Stage) -> bool:
    """Return whether fewer operations are left once the transforms are counted, with output channels that fill up the last block of
    transformed weights; without that nothing is estimated, nor where extents are not known. An unknown batch counts as one image."""
    _, blocks, *rest = (constant_extent(axis) for axis in stage.op.axis)
    height, width, lanes = (*rest, 1)[:3]
    inputs, _, _, block = (*(constant_extent(axis) for axis in stage.op.reduce_axis), 1)[:4]
    if not (blocks and height and width and lanes and inputs and block) or constant_extent(stage.op.axis[0]) == 0:
        return False
    channels, outputs = inputs * block, blocks * lanes
    packed = -(-outputs // PACK) * PACK
    direct = TILE * TILE * 9 * channels * outputs
    return SQUARE * SQUARE * channels * packed + IMAGE_ADDS * channels + RESULT_ADDS * packed < direct


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

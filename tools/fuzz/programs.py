"""Every kind of program that is drawn, and how often."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from .boundaries import draw_boundaries
from .chains import draw_chain, draw_siblings
from .choices import Choices, replay_choices
from .contractions import draw_factors, draw_itself
from .control import draw_hybrid, draw_product, draw_scan
from .derivatives import draw_gradient
from .epilogue import add_window_sums
from .extern_stages import draw_extern
from .histograms import draw_cells
from .images import draw_blur, draw_gather, draw_layout
from .large import draw_large
from .networks import draw_conv2d, draw_matmul, draw_pool
from .program import Program
from .rows import draw_argmax, draw_softmax, draw_triangle, draw_tuples
from .spectra import draw_spectrum

__all__ = ["PROGRAMS", "draw_program", "drawn_program"]

PROGRAMS: tuple[tuple[float, Callable[[Choices], Program]], ...] = (
    (8, draw_chain),
    (3, draw_matmul),
    (2, draw_conv2d),
    (1.3, draw_pool),
    (2, draw_softmax),
    (1.5, draw_argmax),
    (2, draw_blur),
    (1.5, draw_layout),
    (1.3, draw_gather),
    (1.3, draw_triangle),
    (1.5, draw_tuples),
    (1.5, draw_scan),
    (1.3, draw_hybrid),
    (1.3, draw_product),
    (1, draw_extern),
    (1.3, draw_gradient),
    (1.5, draw_boundaries),
    (1.5, draw_large),
    (2, draw_siblings),
    (1, draw_itself),
    (1, draw_factors),
    (1, draw_cells),
    (0.5, draw_spectrum),
)


def draw_program(choices: Choices) -> Program:
    """A program of a drawn kind. Raises nothing that a legal program does not."""
    draw = choices.pick_weighted(PROGRAMS)
    with np.errstate(all="ignore"):
        program = draw(choices)
        if choices.chance(0.2):
            add_window_sums(program, choices)
        return program


def drawn_program(numbers: Sequence[int]) -> Program:
    """The program that these choices make."""
    return draw_program(replay_choices(numbers))

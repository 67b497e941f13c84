"""May two iterations of a loop touch the same element? One question, one answer, for every pass and primitive that asks."""

from .accesses import Accesses, accesses_of
from .equations import Unknown, solve
from .iterations import Dependence, Indices, Iterations, Meets

__all__ = ["Accesses", "Dependence", "Indices", "Iterations", "Meets", "Unknown", "accesses_of", "solve"]

"""Laws of combiners: what may be split, reordered and begun again. One question, one answer, for every primitive and rule that asks."""

from .laws import Law, Laws, laws_of

__all__ = ["Law", "Laws", "laws_of"]

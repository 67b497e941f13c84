"""A fault of LLVM 22's, and the way around it.

Code that is made with little effort takes the choice of two floats by an instruction for four, and reads one of them from where it
lies: all sixteen bytes, which may end in memory that is nobody's. What is loaded volatile is loaded by itself:

    %x = load float, ptr %p;  %chosen = select i1 %c, float %x, float %y
    →  %x = load volatile float, ptr %p
"""

from __future__ import annotations

import re

__all__ = ["PROGRAM", "VERSIONS", "split_loads"]

VERSIONS = (22,)

PROGRAM = """
define void @f(ptr %p, ptr %q, float %y, float %z) {
  %c = fcmp une float %z, 0.0
  %x = load float, ptr %p
  %chosen = select i1 %c, float %x, float %y
  store float %chosen, ptr %q
  ret void
}
"""

_SCALAR = re.compile(r"= load (?=(?:float|double),)")


def split_loads(text: str) -> str:
    """The text of a module that is not optimised, in which no instruction takes a scalar float from memory but loads."""
    return _SCALAR.sub("= load volatile ", text)

"""What the C compiler is told."""

from __future__ import annotations

__all__ = ["compiler_options"]


def compiler_options(*, fast_math: bool, parallel: bool, native: bool) -> list[str]:
    """Options under which the text means what the loops mean. native: for this machine alone.

    Not -O3: there the loop vectorizer of gcc 12 makes wrong sums of bytes for AVX-512. What -O2 vectorizes is right.

    fast_math: floats may be reassociated, contracted and divided by reciprocals; NaN and infinity keep their meaning.
    """
    free = ("-fassociative-math", "-freciprocal-math", "-fno-signed-zeros", "-fno-trapping-math", "-ffp-contract=fast")
    return [
        "-O2", "-std=gnu11", "-w", "-fwrapv", "-fno-strict-aliasing", "-fno-math-errno",
        *(free if fast_math else ("-ffp-contract=off",)), *(["-march=native"] if native else []),
        *(["-fopenmp"] if parallel else []),
    ]

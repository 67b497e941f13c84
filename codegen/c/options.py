"""Options of the C compiler."""

from __future__ import annotations

__all__ = ["compiler_options"]


def compiler_options(*, fast_math: bool, parallel: bool, native: bool, fp_contract: bool = False) -> list[str]:
    """Options under which the text means what the loops mean. native: for this machine alone.

    Not -O3: there the loop vectorizer of gcc 12 makes wrong sums of bytes for AVX-512. What -O2 vectorizes is right.

    fast_math: floats may be reassociated, contracted and divided by reciprocals; NaN and infinity keep their meaning.
    fp_contract: products may be contracted into sums. Without either every operator is rounded as it is written, which is
    not what C compilers do by themselves.
    """
    contract = "fast" if fast_math or fp_contract else "off"
    # without -ffinite-math-only, which would lose NaN and infinity
    free = ("-fassociative-math", "-freciprocal-math", "-fno-signed-zeros", "-fno-trapping-math")
    return [
        "-O2",
        "-std=gnu11",
        "-w",  # generated code warns of nothing that a reader could change
        "-fwrapv",  # int sums wrap, as the IR's do
        "-DTW_WRAPV",  # tells the prelude so (tw_wrap32)
        "-fno-strict-aliasing",  # bytes of one buffer may be read in another type
        "-fno-math-errno",  # math functions become single instructions
        *(free if fast_math else ()),
        f"-ffp-contract={contract}",
        *(["-march=native"] if native else []),
        *(["-fopenmp"] if parallel else []),
    ]

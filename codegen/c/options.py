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
    free = ("-fassociative-math", "-freciprocal-math", "-fno-signed-zeros", "-fno-trapping-math")
    return [
        "-O2",
        "-std=gnu11",
        "-w",
        "-fwrapv",
        "-DTW_WRAPV",
        "-fno-strict-aliasing",
        "-fno-math-errno",
        *(free if fast_math else ()),
        f"-ffp-contract={contract}",
        *(["-march=native"] if native else []),
        *(["-fopenmp"] if parallel else []),
    ]

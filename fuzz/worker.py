"""A worker of the fuzzer: `python -m tilewright.fuzz.worker SEED TARGET` answers case numbers with reports; with a case
behind, of which another worker has died, it prints the program that repeats it."""

from __future__ import annotations

import sys

from .case import draw_case, run_case
from .reproduction import explain_death
from .workers import serve

if __name__ == "__main__":
    seed, target = int(sys.argv[1]), sys.argv[2]
    if len(sys.argv) > 3:
        case = int(sys.argv[3])
        headline = f"case {case} of seed {seed} ends the process"
        sys.stdout.write(explain_death(*draw_case(seed, case, target), headline, seconds=20.0))
    else:
        serve(lambda case: run_case(seed, case, target))

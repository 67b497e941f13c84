"""A worker of the fuzzer: `python -m tilewright.tools.fuzz.worker SEED TARGET` answers case numbers with reports; with a case
behind, of which another worker has died, it prints the program that repeats it. TARGET: as tools/fuzz/modes.py has it."""

from __future__ import annotations

import sys

from .modes import explain_death, runner
from .workers import serve

if __name__ == "__main__":
    seed, target = int(sys.argv[1]), sys.argv[2]
    if len(sys.argv) > 3:
        sys.stdout.write(explain_death(seed, int(sys.argv[3]), target))
    else:
        run = runner(target)
        serve(lambda case: run(seed, case, target.rpartition(":")[2]))

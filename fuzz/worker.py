"""A worker of the fuzzer: `python -m tilewright.fuzz.worker SEED TARGET` answers case numbers with reports."""

from __future__ import annotations

import sys

from .case import run_case
from .workers import serve

if __name__ == "__main__":
    serve(lambda case: run_case(int(sys.argv[1]), case, sys.argv[2]))

"""Prints the seed of the drawn checks, so that any run can be repeated."""

import os

import drawn

os.environ.setdefault("TILEWRIGHT_CACHE", "0")  # tests see what is built now, and leave nothing in the user's folder


def pytest_report_header() -> str:
    return f"drawn checks: TILEWRIGHT_SEED={drawn.SEED}" + (" TILEWRIGHT_SOAK=1 (full counts)" if drawn.SOAK else "")

"""Prints the seed of the drawn checks, so that any run can be repeated."""

import drawn


def pytest_report_header() -> str:
    return f"drawn checks: TILEWRIGHT_SEED={drawn.SEED}" + (" TILEWRIGHT_SOAK=1 (full counts)" if drawn.SOAK else "")

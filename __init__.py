"""tilewright: fast kernels by schedule."""

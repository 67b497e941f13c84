"""The emulator: CUDA C text compiled by the system's C++ compiler, one fiber a thread, with a race checker."""

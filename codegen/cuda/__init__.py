"""GPU kernels: CUDA C text, compiled by NVRTC, or by the system's C++ compiler for the emulator."""

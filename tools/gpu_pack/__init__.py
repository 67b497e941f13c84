"""A pack for a machine with a GPU: kernels as libraries that need its driver alone, and a program of one file that tries them there."""

"""Code that C and CUDA C are written by alike: expressions lane by lane, statements in braces, names, types, and functions."""

"""Schedule primitives: a file each."""

"""target="c": kernels as portable C11 text, compiled by the machine's C compiler."""

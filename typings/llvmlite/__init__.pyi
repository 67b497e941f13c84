# What we use of llvmlite, which has no types of its own. For the type checker alone.

__version__: str

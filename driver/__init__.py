"""Driver from a schedule to a kernel: lower and build, functions specialised when they are called, and the cache of both."""

"""How kernels are called: signatures, stubs, packed calls, callbacks, threads."""

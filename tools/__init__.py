"""Development tools: the fuzzer and the benchmarks. Not in the wheel."""

"""Other compilers' names over ours. A façade: it holds names and adapters, and nothing that computes."""

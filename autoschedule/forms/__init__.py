"""Forms: the structures of operations, matched by their accesses, whoever declared them."""

"""Text of programs."""
def to_text(node: object) -> str:
    return object.__repr__(node)

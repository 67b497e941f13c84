"""The text of the loop IR: printed and parsed."""

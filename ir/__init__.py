"""The program: expressions, statements, functions, and what is done with them."""

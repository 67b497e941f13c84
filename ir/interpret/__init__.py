"""How the interpreter runs a function: `generate` writes Python source for it over the values of `scalars`, and
`memory` moves arrays in and out."""

"""The interpreter's parts: `generate` writes Python source for it over the values of `scalars`, and
`memory` moves arrays in and out."""

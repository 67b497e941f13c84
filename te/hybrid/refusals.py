"""Refusals of Python syntax in scripts, with what to write instead."""

from __future__ import annotations

__all__ = ["CONSTRUCTS", "CONSTRUCT_FIXES", "STATEMENTS"]

CONSTRUCTS: dict[str, str] = {
    "Lambda": "a lambda",
    "ListComp": "a comprehension",
    "SetComp": "a comprehension",
    "DictComp": "a comprehension",
    "GeneratorExp": "a generator",
    "Await": "await",
    "Yield": "yield",
    "JoinedStr": "an f-string",
    "Dict": "a dict",
    "Set": "a set",
    "NamedExpr": "`:=`",
    "Starred": "a starred expression",
    "Slice": "a slice",
}
CONSTRUCT_FIXES: dict[str, str] = {
    "ListComp": "allocate(shape, dtype) a buffer and store each element in a loop",
    "GeneratorExp": "write a loop",
    "NamedExpr": "assign in a statement of its own",
    "Lambda": "write out what it computes",
    "Slice": "write a loop over the elements",
}

STATEMENTS: dict[str, tuple[str, str]] = {
    "AnnAssign": ("an annotated assignment", "write x = ..., and convert by float32(...) where the type matters"),
    "Try": ("`try`", "use assert"),
    "With": ("`with`", "leave it out"),
    "Raise": ("`raise`", "use assert condition, message"),
    "FunctionDef": ("a function", "write it outside, as a hybrid script of its own, and call it"),
    "ClassDef": ("a class", "leave it out"),
    "Import": ("`import`", "import outside of the script"),
    "ImportFrom": ("`import`", "import outside of the script"),
    "Global": ("`global`", "pass it as an argument, and return what changes"),
    "Nonlocal": ("`nonlocal`", "pass it as an argument, and return what changes"),
    "Delete": ("`del`", "leave it out"),
    "Match": ("`match`", "write if, elif and else"),
}

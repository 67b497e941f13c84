"""Tokens of the text of programs, and the error that names a line of it."""

from __future__ import annotations

import re
from typing import NoReturn

from ...base import dataclass, user_source
from ..errors import TextDoesNotParse

__all__ = ["Token", "fail", "tokenize"]

_TOKEN = re.compile(
    r"""
    (?P<space>[ \t]+|\#[^\n]*) | (?P<newline>\n)
  | (?P<number>(?:\d+\.\d*|\.\d+|\d+)(?:[eE][+-]?\d+)?)
  | (?P<name>[A-Za-z_]\w*(?:\.[A-Za-z_0-9]\w*)*)
  | (?P<string>"(?:[^"\\\n]|\\.)*")
  | (?P<op>//|<<|>>|<=|>=|==|!=|[-+*/%<>=()\[\]{},:&|^~@])
""",
    re.VERBOSE,
)


@dataclass(frozen=True, slots=True)
class Token:
    kind: str
    text: str
    line: int
    column: int

    def __str__(self) -> str:
        return {
            "newline": "the end of the line",
            "indent": "a deeper indentation",
            "dedent": "the end of the block",
            "end": "the end of the text",
        }.get(self.kind, f"`{self.text}`")


def tokenize(text: str) -> list[Token]:
    """Tokens with Python's rules for lines: indentation opens blocks, brackets join lines, comments are dropped."""
    tokens: list[Token] = []
    indents, depth, at, line, line_start = [0], 0, 0, 1, 0
    fresh = True
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            fail(text, Token("op", text[at], line, at - line_start), "a name, a number or an operator")
        kind, word, column = match.lastgroup or "", match.group(), at - line_start
        at = match.end()
        if kind == "newline":
            if not fresh and not depth:
                tokens.append(Token("newline", word, line, column))
                fresh = True
            line, line_start = line + 1, at
            continue
        if kind == "space":
            continue
        token = Token(kind, word, line, column)
        if fresh:
            _indentation(text, tokens, indents, token)
            fresh = False
        depth += (word in "([{") - (word in ")]}") if kind == "op" else 0
        tokens.append(token)
    if not fresh:
        tokens.append(Token("newline", "", line, at - line_start))
    tokens += [Token("dedent", "", line, 0) for _ in indents[1:]]
    return [*tokens, Token("end", "", line, at - line_start)]


def _indentation(text: str, tokens: list[Token], indents: list[int], token: Token) -> None:
    if not tokens:
        indents[0] = token.column  # a text that is indented as a whole
    if token.column > indents[-1]:
        indents.append(token.column)
        tokens.append(Token("indent", "", token.line, token.column))
    while token.column < indents[-1] and len(indents) > 1:
        indents.pop()
        tokens.append(Token("dedent", "", token.line, token.column))
    if token.column != indents[-1]:
        fail(text, token, "the indentation of an enclosing block")


def fail(text: str, token: Token, expected: str, fix: str = "") -> NoReturn:
    lines = text.splitlines()
    shown = lines[token.line - 1] if token.line <= len(lines) else ""
    raise TextDoesNotParse(
        f"line {token.line} of the program's text cannot be read: expected {expected}, found {token}",
        called=user_source(),
        loops=f"{shown}\n{' ' * token.column}^",
        fix=fix or f"write {expected} there; str(function) shows how functions are written",
    )

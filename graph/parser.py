"""Graphs from texts and files. Everything that is read is checked: a node's types are found anew, and have to be what the text
says."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from os import PathLike
from typing import Any, NoReturn, cast

import numpy as np
from numpy.typing import NDArray

from ..base.errors import GraphError, TilewrightError, user_source
from .builder import Builder
from .control import MOST_DEPTH
from .errors import BadGraphFile, BadGraphText
from .file import read_file
from .graph import Graph
from .node import Param, inner_name
from .operators.row import Attribute
from .types import TensorType, array_dtype, tensor_type

__all__ = ["load", "parse"]

_TOKENS = re.compile(
    r"""
      (?P<space>[ \t\r]+)
    | (?P<end>\n)
    | (?P<source>\#[^\n]*)
    | (?P<type>[a-z]+[0-9]*\[[^]\n]*\])
    | (?P<digest>sha256:[0-9a-f]{32})
    | (?P<number>-?(?:nan|inf|[0-9]+(?:\.[0-9]*)?(?:[eE][-+]?[0-9]+)?)(?![A-Za-z0-9_]))
    | (?P<word>[A-Za-z_](?:[A-Za-z0-9_./]|:(?=[A-Za-z0-9_./:]))*)
    | (?P<text>"(?:[^"\\\n]|\\[^\n])*")
    | (?P<mark>[](){}[=,:])
""",
    re.VERBOSE,
)
_MOST_CHARACTERS = 1 << 26
_MOST_DEPTH = 8


def parse(text: str, params: Mapping[str, NDArray[Any]] | None = None) -> Graph:
    """The graph that `str(g)` describes.

    params: the parameters that the text has by their digest only, by name (g.params has them); without them the graph can be looked
    at, compared and transformed, but not run. Raises BadGraphText (TW0904), naming the line, and what a Builder raises.
    """
    if not (is_text := isinstance(cast("object", text), str)) or len(text) > _MOST_CHARACTERS:
        raise BadGraphText(
            "this is not a text of a graph",
            called=user_source(),
            reason=f"got {type(text).__name__}" if not is_text else f"it has more than {_MOST_CHARACTERS} characters",
            fix="str(g)",
        )
    return _Parser(text, params or {}).graph()


def load(path: str | PathLike[str]) -> Graph:
    """The graph that g.save wrote, with its parameters. Raises BadGraphFile (TW0905)."""
    text, arrays = read_file(path)
    try:
        return parse(text, arrays)
    except GraphError as problem:
        raise BadGraphFile(
            f"{str(path)!r} holds no whole graph",
            reason=problem.headline,
            called=user_source(),
            fix="write it again by g.save",
        ) from problem


class _Parser:
    def __init__(self, text: str, params: Mapping[str, NDArray[Any]]) -> None:
        self.params = params
        self.prefix: str = ""
        self.depth = 0
        self.tokens: list[tuple[str, str, int]] = []
        self.at = 0
        place, line = 0, 1
        while place < len(text):
            match = _TOKENS.match(text, place)
            if match is None:
                self.fail(line, f"nothing begins with {text[place : place + 10]!r}")
            if match.lastgroup != "space":
                self.tokens.append((cast(str, match.lastgroup), match[0], line))
            line += match.lastgroup == "end"
            place = match.end()
        self.tokens.append(("end", "", line))

    def fail(self, line: int, reason: str) -> NoReturn:
        raise BadGraphText(
            f"line {line} of the graph's text cannot be read",
            reason=reason,
            called=user_source(),
            fix="the form that str(g) prints",
        )

    @property
    def kind(self) -> str:
        return self.tokens[self.at][0]

    def take(self, *expected: str) -> str:
        """The next token, of one of these kinds or of this text."""
        kind, text, line = self.tokens[self.at]
        if kind not in expected and text not in expected:
            self.fail(line, f"expected {' or '.join(expected)}, found {text[:40]!r}")
        self.at = min(self.at + 1, len(self.tokens) - 1)
        return text

    def accept(self, text: str) -> bool:
        """Return whether the next token is this one, which is taken then."""
        if self.tokens[self.at][1] != text or self.kind in ("end", "text"):
            return False
        self.at += 1
        return True

    def skip(self) -> None:
        while self.kind in ("end", "source") and self.at < len(self.tokens) - 1:
            self.at += 1

    def name(self) -> str:
        kind, token = self.kind, self.take("word", "text")
        return token if kind == "word" else self.unquote(token)

    def unquote(self, token: str) -> str:
        try:
            return str(json.loads(token))
        except ValueError:
            self.fail(self.tokens[self.at][2], f"{token[:40]} is not a text")

    def graph(self) -> Graph:
        """The whole text."""
        self.skip()
        made = self.parse_graph()
        self.skip()
        if self.at < len(self.tokens) - 1:
            self.fail(self.tokens[self.at][2], "something follows the graph")
        return made

    def parse_graph(self) -> Graph:
        """A graph, which may stand inside of a node."""
        self.take("graph")
        self.builder = Builder(self.name())
        self.take("{")
        self.take("end")
        while self.skip() or not self.accept("}"):
            line = self.tokens[self.at][2]
            try:
                self.statement()
            except BadGraphText:
                raise
            except TilewrightError as problem:
                raise BadGraphText(
                    f"line {line} of the graph's text means nothing",
                    reason=f"{problem.code}: {problem.headline}. {problem.reason}".strip(),
                    called=user_source(),
                    fix=problem.fix,
                ) from problem
            if self.kind not in ("end", "source"):
                self.fail(line, f"{self.tokens[self.at][1][:40]!r} stands where the line ends")
        return self.builder.graph()

    def parse_bodies(self, value: str) -> list[Graph]:
        """The graphs inside of the node that gives a value, to their closing brace."""
        outside = self.builder, self.prefix
        if self.depth == MOST_DEPTH:
            self.fail(self.tokens[self.at][2], "graphs are nested too deep")
        self.depth += 1
        made: list[Graph] = []
        while self.skip() or not self.accept("}"):
            self.prefix = outside[1] + inner_name(value, len(made), "")
            made.append(self.parse_graph())
        self.depth -= 1
        self.builder, self.prefix = outside
        return made

    def statement(self) -> None:
        if self.accept("input"):
            name, kind = self.name(), self.type()
            self.builder.input(name, kind.shape, kind.dtype)
        elif (fixed := self.accept("const")) or self.accept("param"):
            name, kind = self.name(), self.type()
            self.take("=")
            self.builder.param(name, self.parse_param(name, kind, fixed))
        elif self.accept("output"):
            name = self.name()
            self.builder.output(name, self.name() if self.accept("=") else name)
        elif self.accept("state"):
            past = self.name()
            self.take("=")
            self.builder.state(past, self.name())
        else:
            self.node()

    def type(self) -> TensorType:
        self.take(":")
        line = self.tokens[self.at][2]
        dtype, _, inside = self.take("type").removesuffix("]").partition("[")
        parts: list[str] = []
        depth = 0
        for part in inside.split(",") if inside.strip() else []:
            if depth:
                parts[-1] += f",{part}"
            else:
                parts.append(part)
            depth += part.count("(") - part.count(")")
        try:
            extents = [part.strip() for part in parts]
            return tensor_type([int(part) if part.isdecimal() and len(part) < 20 else part for part in extents], dtype)
        except GraphError as problem:
            self.fail(line, f"{problem.headline}. {problem.reason}")

    def parse_param(self, name: str, kind: TensorType, fixed: bool) -> Param:
        line = self.tokens[self.at][2]
        if self.kind != "digest":
            values = self.value()
            count = math.prod(cast("tuple[int, ...]", kind.shape)) if kind.is_static else -1
            if not isinstance(values, tuple) or len(values) != count:
                self.fail(line, f"{name} is {kind}, and has not so many values")
            try:
                return Param.of(
                    np.array(values, array_dtype(kind.dtype)).reshape(cast("tuple[int, ...]", kind.shape)), fixed
                )
            except (TypeError, ValueError, OverflowError) as problem:
                self.fail(line, f"{name} cannot be {kind}: {problem}")
        digest = self.take("digest").removeprefix("sha256:")
        given = self.params.get(self.prefix + name)
        if given is None:
            return Param(kind, digest, fixed=fixed)
        held = Param.of(np.asarray(given), fixed)
        if held != Param(kind, digest, fixed=fixed):
            self.fail(line, f"what was passed for {name} is {held.type} with another digest")
        return held

    def node(self) -> None:
        names, types = [self.name()], [self.type()]
        while self.accept(","):
            names.append(self.name())
            types.append(self.type())
        self.take("=")
        operator = self.take("word")
        self.take("(")
        inputs, attributes = self.parse_operands()
        with_bodies = self.accept("{")
        source = self.unquote(f'"{self.take("source")[1:].strip()}"') if self.kind == "source" else ""
        line = self.tokens[self.at][2]
        bodies = self.parse_bodies(names[0]) if with_bodies else []
        self.builder.nodes(operator, *inputs, outputs=names, source=source, bodies=bodies, **attributes)
        for name, kind in zip(names, types, strict=True):
            if self.builder.types[name] != kind:
                self.fail(line, f"{name} is {self.builder.types[name]}, not {kind}")

    def parse_operands(self) -> tuple[list[str], dict[str, Any]]:
        inputs: list[str] = []
        attributes: dict[str, Any] = {}
        while not self.accept(")"):
            if inputs or attributes:
                self.take(",")
            if self.accept("none"):
                inputs.append("")
                continue
            quoted, name = self.kind == "text", self.name()
            if not quoted and self.accept("="):
                if name in ("inputs", "outputs", "source", "bodies", "operator", "self") or name in attributes:
                    self.fail(
                        self.tokens[self.at][2], f"there is no such attribute, or it stands there twice: {name[:40]}"
                    )
                attributes[name] = self.value()
            else:
                inputs.append(name)
        return inputs, attributes

    def value(self, depth: int = 0) -> Attribute:
        line, kind = self.tokens[self.at][2], self.kind
        if self.accept("("):
            parts: list[Attribute] = []
            while depth < _MOST_DEPTH and not self.accept(")"):
                parts.append(self.value(depth + 1))
                if not self.accept(","):
                    self.take(")")
                    break
            if depth == _MOST_DEPTH:
                self.fail(line, "tuples are nested too deep")
            return tuple(parts)
        token = self.take("number", "text", "none", "true", "false", "nan", "inf")
        if kind == "text":
            return self.unquote(token)
        if token in ("none", "true", "false"):
            return {"none": None, "true": True, "false": False}[token]
        if len(token) > 40:
            self.fail(line, f"{token[:40]} is too long for a number")
        return float(token) if set(token) & set(".enai") or "E" in token else int(token)

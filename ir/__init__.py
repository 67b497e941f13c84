"""The program: expressions, statements, functions, and what is done with them."""

from __future__ import annotations

from .buffer import SCOPES, Buffer
from .dtype import DType
from .expr import (
    EQ,
    GE,
    GT,
    LE,
    LT,
    NE,
    Add,
    And,
    BinaryOp,
    Broadcast,
    BufferLoad,
    Call,
    Cast,
    CommReducer,
    CompareOp,
    Div,
    Expr,
    FloatImm,
    FloorDiv,
    FloorMod,
    IfThenElse,
    IntImm,
    IterVar,
    Let,
    Max,
    Min,
    Mul,
    Node,
    Not,
    Or,
    Producer,
    ProducerLoad,
    Ramp,
    Range,
    Reduce,
    Select,
    Shuffle,
    SizeVar,
    StringImm,
    Sub,
    TruncDiv,
    TruncMod,
    Var,
)
from .stmt import Allocate, Assert, Attr, BufferStore, Evaluate, For, Function, If, LetStmt, LoopKind, Seq, Stmt, While
from .structural import equal, structural_hash
from .text.parser import parse, parse_expression
from .text.printer import to_text
from .verify import verify
from .visit import children, deep_recursion, free_vars, post_order, rewrite, substitute, walk

__all__ = [
    "EQ", "GE", "GT", "LE", "LT", "NE", "SCOPES", "Add", "Allocate", "And", "Assert", "Attr", "BinaryOp",
    "Broadcast", "Buffer", "BufferLoad", "BufferStore", "Call", "Cast", "CommReducer", "CompareOp", "DType", "Div",
    "Evaluate", "Expr", "FloatImm", "FloorDiv", "FloorMod", "For", "Function", "If", "IfThenElse", "IntImm",
    "IterVar", "Let", "LetStmt", "LoopKind", "Max", "Min", "Mul", "Node", "Not", "Or", "Producer", "ProducerLoad",
    "Ramp", "Range", "Reduce", "Select", "Seq", "Shuffle", "SizeVar", "Stmt", "StringImm", "Sub", "TruncDiv",
    "TruncMod", "Var", "While", "children", "deep_recursion", "equal", "free_vars", "parse", "parse_expression",
    "post_order", "rewrite", "structural_hash", "substitute", "to_text", "verify", "walk",
]

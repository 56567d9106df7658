"""The texts of primitives in terms of other primitives: how they are parsed."""

from __future__ import annotations

import ast
from functools import cache

from dlang.ops.primitives import OPERATORS


@cache
def parsed(text: str) -> ast.expr:
    return ast.parse(text, mode="eval").body


def operator(e: ast.BinOp | ast.Compare) -> str:
    """The primitive of an operator: a sign of the language is one of Python's."""
    return _signs()[type(e.op if isinstance(e, ast.BinOp) else e.ops[0])]


@cache
def _signs() -> dict[type[ast.AST], str]:
    """For each kind of operator in Python's trees the primitive."""
    signs: dict[type[ast.AST], str] = {}
    for sign, name in OPERATORS.items():
        match parsed(f"x {sign} y"):
            case ast.BinOp(op=op) | ast.Compare(ops=[op]):
                signs[type(op)] = name
    return signs

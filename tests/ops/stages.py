"""Finds the names that a function of a stage tells apart."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Callable
from typing import Any


def cases(function: Callable[..., Any]) -> frozenset[str]:
    """The names in the patterns of a `match` of a function."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    patterns = [case.pattern for node in ast.walk(tree) if isinstance(node, ast.Match) for case in node.cases]
    values = [n.value for p in patterns for n in ast.walk(p) if isinstance(n, ast.MatchValue)]
    return frozenset(v.value for v in values if isinstance(v, ast.Constant) and isinstance(v.value, str))

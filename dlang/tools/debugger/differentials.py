"""`tangent(x)` and `cotangent(x)` in expressions: further variables, in the structure of the value of `x`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, replace
from typing import Any

import numpy as np

from dlang.diagnostics import error
from dlang.grammar import syntax as s
from dlang.grammar.trees import walk
from dlang.ir.anf import FLOATS
from dlang.ir.marks import COTANGENT, TANGENT
from dlang.ir.values import array_of
from dlang.specialize.values import contains_function, leaves
from dlang.tools.debugger.seen import Seen

NO_DERIVATIVE = "E0984"
WORDS = (TANGENT, COTANGENT)
WITHOUT = "it does not depend on what is varied, or the derivative does not depend on it"  # of what has no tangent


def variable(word: str, name: str) -> str:
    """Returns the name of the variable that replaces `tangent(x)`: one that nobody can write."""
    return f"{word} of {name}"


def with_variables(tree: s.Expr, taken: Sequence[str]) -> s.Expr:
    """An expression with variables in the place of `tangent(x)`. taken: functions of the program."""
    words = [w for w in WORDS if w not in taken]
    if not any(asked(node, words) for node in walk(tree)):
        return tree
    mapped: s.Expr = _mapped(tree, words)
    return mapped


def asked(node: object, words: Sequence[str]) -> tuple[str, str] | None:
    match node:
        case s.Call(function=s.Name(name=word), arguments=(s.Argument(value=s.Name(name=name), name=None),)):
            return (word, name) if word in words else None
    return None


def _mapped(x: Any, words: Sequence[str]) -> Any:
    """A part of the tree: a node, a tuple, or anything else."""
    found = asked(x, words)
    if found is not None:
        return s.Name(x.span, variable(*found))
    if isinstance(x, s.Node):
        return replace(x, **{f.name: _mapped(getattr(x, f.name), words) for f in fields(x) if f.name != "span"})
    return tuple([_mapped(y, words) for y in x]) if type(x) is tuple else x


def derivatives(mentioned: Iterable[str]) -> Iterator[tuple[str, str]]:
    """The words and the variables of names that stand for tangents and cotangents."""
    for name in mentioned:
        word, of, own = name.partition(" of ")
        if of:
            yield word, own


def tangent(name: str, seen: Mapping[str, Seen]) -> Seen:
    """The tangent of a variable as a value like that of the variable. Raises `DlangError`."""
    if name not in seen:
        raise error(NO_DERIVATIVE, f"there is no variable `{name}` here", None, help=("`locals` shows those",))
    value = seen[name]
    found = next((t for t in value.tangents if t.kinds == (TANGENT,)), None)
    if found is None:
        raise error(NO_DERIVATIVE, f"no tangent of `{name}` is known here", None, help=(WITHOUT,))
    return like(value, found)


def cotangent(name: str, seen: Mapping[str, Seen], known: Sequence[Seen]) -> Seen:
    """The cotangent of a variable as a value like that of the variable. Raises `DlangError`."""
    found = next((x for x in known if x.name.text == name and x.kinds == (COTANGENT,)), None)
    if found is None:
        help = ("`grads` shows what is known in a backward pass",)
        raise error(NO_DERIVATIVE, f"no cotangent of `{name}` is known here", None, help=help)
    value = seen.get(name)
    if value is None or value.name.local is not found.name.local:
        value = replace(found, values=(), kinds=(), guarded=())
    return like(value, found)


def like(value: Seen, found: Seen) -> Seen:
    """A value of the same structure with a cotangent or a tangent in place of the floats; 0 where there is none."""
    name = value.name
    atoms = list(leaves(name.value)) if not contains_function(name.value) else []
    own: dict[int, Any] = dict(zip((*name.passed, *name.others), value.values, strict=False))
    given = dict(zip(found.guarded, found.values, strict=True))
    out = []
    for k in (*name.passed, *name.others):
        dtype = getattr(atoms[k].type, "dtype", "") if atoms else ""
        if k not in name.passed:
            derived = own.get(k)
        elif dtype not in FLOATS:
            derived = None
        else:
            at = name.passed.index(k)
            derived = given[at] if at in given else None if k not in own else np.zeros_like(array_of(own[k]))[()]
        if derived is None:
            help = ("`locals` and `grads` show it",)
            raise error(NO_DERIVATIVE, f"that of `{name.text}` is no value that an expression can use", None, help=help)
        out.append(derived)
    return replace(value, values=tuple(out), tangents=())

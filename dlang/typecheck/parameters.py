"""The names of parameters: each once, and none that a size of the function has."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from dlang.diagnostics import Note, error
from dlang.grammar import syntax as s
from dlang.grammar.trees import walk
from dlang.typecheck.types import SizeVar, Var


def is_size_type(t: s.TypeExpr | None) -> bool:
    return isinstance(t, s.TypeName) and t.name == "size" and not t.arguments


def named_once(parameters: Sequence[s.Parameter]) -> None:
    """Raises E0202 where two parameters have one name."""
    seen: set[str] = set()
    for name in walk(*(p.pattern for p in parameters)):
        if isinstance(name, s.PatternName):
            if name.name in seen:
                raise error("E0202", f"two parameters are named `{name.name}`", name.span)
            seen.add(name.name)


def apart_from_sizes(parameters: Sequence[s.Parameter], sizes: Iterable[Var], is_lambda: bool = False) -> None:
    """Raises E0202 where a parameter has the name of a size in the types of all, and may be another number.

    A parameter `n: size` of a `fn` is the size n; that of a lambda isn't.
    """
    by_name = {v.name: v for v in sizes if isinstance(v, SizeVar)}
    for p in parameters:
        if not isinstance(p.pattern, s.PatternName) or (is_size_type(p.type) and not is_lambda):
            continue
        name, size = p.pattern.name, by_name.get(p.pattern.name)
        if size is not None:
            message = f"`{name}` is a size of this function, and a parameter that need not be that size"
            notes = () if size.origin is None else (Note(f"`{name}` is a size here", size.origin.span),)
            first = (
                f"make it a local `fn` with the parameter `{name}: size`"
                if is_lambda
                else f"declare the parameter `{name}: size`"
            )
            raise error("E0202", message, p.span, notes=notes, help=(f"{first}, or give it another name",))

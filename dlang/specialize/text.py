"""Text from values: the literal parts and the leaves of a `Format`."""

from __future__ import annotations

from collections.abc import Sequence

from dlang.diagnostics import error
from dlang.ir.anf import Atom
from dlang.specialize.values import ArrayV, DataV, EnumV, Many, ScalarV, TupleV, Value


def rendered(v: Value, spec: str) -> tuple[tuple[str, ...], tuple[Atom, ...]]:
    """The parts and arguments of a `Format` for one value."""
    return joined(hole(v, spec))


def hole(v: Value, spec: str) -> list[str | tuple[Atom, str]]:
    """A structure is written as it is constructed: `(1, 2)`, `Point(x = 1, y = 2)`."""
    match v:
        case ScalarV(atom):
            return [(atom, spec)]
        case ArrayV(var):
            return [(var, spec)]
        case TupleV(items):
            out: list[str | tuple[Atom, str]] = ["("]
            for k, item in enumerate(items):
                out += [", "] if k else []
                out += hole(item, spec)
            return [*out, ",)" if len(items) == 1 else ")"]
        case DataV(decl, fields):
            out = [f"{decl.name}("]
            for k, ((name, _), item) in enumerate(zip(decl.variants[0].fields, fields, strict=True)):
                out += [", " if k else "", f"{name} = "]
                out += hole(item, spec)
            return [*out, ")"]
        case EnumV(decl):
            raise error(
                "E0690",
                f"text from the enum `{decl.name}` is not supported yet",
                None,
                help=("write a function that gives the text, with `match`",),
            )
        case Many(_, element):
            return ["[", *hole(element, spec), "]"]
        case _:
            return ["<function>"]


def joined(pieces: Sequence[str | tuple[Atom, str]]) -> tuple[tuple[str, ...], tuple[Atom, ...]]:
    """text, spec, text, spec, …, text; and the arguments."""
    parts: list[str] = [""]
    args: list[Atom] = []
    for piece in pieces:
        if isinstance(piece, str):
            parts[-1] += piece
        else:
            atom, spec = piece
            args.append(atom)
            parts += [spec, ""]
    return tuple(parts), tuple(args)

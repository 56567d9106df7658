"""Text from values: the literal parts and the leaves of a `Format`.

A structure is written as it is constructed: `(1, 2)`, `Point(x = 1, y = 2)`, `Some(3)`, `[Point(x = 1, y = 2)]`. Which
variant an enum is of, and how long an array of structures is, is known only when it runs: code makes their text.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from dlang.ir import anf
from dlang.ir.anf import Atom, Block, For, Lit, Scalar, fresh, poly
from dlang.specialize.frame import Frame, scalar
from dlang.specialize.generated import fields_of, generated, tag_of
from dlang.specialize.indexing import Element, select
from dlang.specialize.operators import by_variant
from dlang.specialize.values import ArrayV, DataV, EnumV, Many, NodeV, ScalarV, TupleV, Value
from dlang.typecheck.formats import check_dtype
from dlang.typecheck.types import DataDecl

Piece = str | tuple[Atom, str]
STR = Scalar("str")


def hole(f: Frame, v: Value, spec: str) -> list[Piece]:
    """The text of a value; `spec`: how its numbers are written."""
    match v:
        case ScalarV(atom):
            check_dtype(v.dtype, spec, f.emitter.span)
            return [(atom, spec)]
        case ArrayV(var):
            check_dtype(v.dtype, spec, f.emitter.span)
            return [(var, spec)]
        case TupleV(items):
            return ["(", *listed(f, items, spec), ",)" if len(items) == 1 else ")"]
        case DataV(decl, fields):
            return constructed(f, decl, 0, fields, spec)
        case EnumV(decl, tag, variants):
            (text,) = by_variant(
                f, scalar(tag), len(variants), lambda k: [whole(f, constructed(f, decl, k, variants[k], spec))]
            )
            return [(scalar(text), "")]
        case NodeV():
            result = ScalarV(fresh("text", STR))
            text = generated(f, "text", spec, (v,), lambda _: result, lambda g, args: text_of_node(g, args[0], spec))
            return [(scalar(text), "")]
        case Many():
            return [(text_of_array(f, v, 0, [], spec), "")]
        case _:
            return ["<function>"]


def listed(f: Frame, items: Sequence[Value], spec: str) -> Iterator[Piece]:
    for k, item in enumerate(items):
        yield from [", "] if k else []
        yield from hole(f, item, spec)


def constructed(f: Frame, decl: DataDecl, tag: int, fields: Sequence[Value], spec: str) -> list[Piece]:
    """A struct with the names of its fields, a variant as its constructor is called."""
    variant = decl.variants[tag]
    if not fields and not decl.is_struct:
        return [variant.name]
    out: list[Piece] = [f"{variant.name}("]
    for k, ((name, _), item) in enumerate(zip(variant.fields, fields, strict=True)):
        out += [", " if k else "", f"{name} = " if decl.is_struct else ""]
        out += hole(f, item, spec)
    return [*out, ")"]


def text_of_node(f: Frame, v: Value, spec: str) -> Value:
    assert isinstance(v, NodeV)
    decl = v.type.decl

    def arm(k: int) -> list[Value]:
        return [whole(f, constructed(f, decl, k, fields_of(f, v, k) if decl.variants[k].fields else (), spec))]

    return by_variant(f, tag_of(f, v), len(decl.variants), arm)[0]


def text_of_array(f: Frame, v: Many, depth: int, index: list[Element], spec: str) -> Atom:
    """The elements of an axis, one after another."""
    e = f.emitter
    at = e.axis(v.shape[depth], "k").var
    before = fresh("text", STR)
    with f.block() as lets:
        element_index = [*index, Element(poly(at))]
        first = e.prim("eq", at, Lit(0, "i64"))
        comma = e.prim("select", first, Lit("", "str"), Lit(", ", "str"))
        last = depth == len(v.shape) - 1
        pieces = (
            hole(f, select(f, v, element_index), spec)
            if last
            else [(text_of_array(f, v, depth + 1, element_index, spec), "")]
        )
        after = scalar(whole(f, [(before, ""), (comma, ""), *pieces]))
    loop = For(at, poly(0), v.shape[depth], (before,), (Lit("", "str"),), Block(tuple(lets), (after,)))
    (elements,) = e.emit(loop, STR)
    return scalar(whole(f, ["[", (elements, ""), "]"]))


def whole(f: Frame, pieces: Sequence[Piece]) -> Value:
    """One text."""
    parts, args = joined(pieces)
    return ScalarV(f.emitter.emit(anf.Format(parts, args), STR)[0] if args else Lit(parts[0], "str"))


def joined(pieces: Sequence[Piece]) -> tuple[tuple[str, ...], tuple[Atom, ...]]:
    """text, spec, text, spec, …, text; and the arguments."""
    parts: list[str] = [""]
    args: list[Atom] = []
    for piece in pieces:
        if isinstance(piece, str):
            parts[-1] += piece
        elif isinstance(piece[0], Lit) and piece[0].dtype == "str" and not piece[1]:
            parts[-1] += str(piece[0].value)
        else:
            atom, spec = piece
            args.append(atom)
            parts += [spec, ""]
    return tuple(parts), tuple(args)

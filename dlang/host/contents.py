"""Describes a value in a file: its leaves by their names, without types of the language."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from dlang.host.classes import fields_of, written_fields
from dlang.ir.crossing import Branch, Choice, Fields, Items, Leaf, Part, Rows, Tree, Trees

Names = Callable[[type | None], Sequence[str]]
"""A function that lists the names of a class's fields."""


@dataclass(frozen=True, slots=True)
class Member:
    """A leaf. axes: their number or, in a node, which of its sizes each is. variants: of an enum whose tag this is.

    under: the tags that have to be such numbers for it to count, by the names of their members, the outermost first.
    """

    name: str
    dtype: str
    axes: tuple[int, ...] = ()
    variants: tuple[str, ...] = ()
    under: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True, slots=True)
class Case:
    """A variant of a type that contains itself: `own` sizes, then the members, whose axes are among these and the
    `literals` behind them."""

    name: str
    own: int
    literals: tuple[int, ...]
    members: tuple[Member, ...]


@dataclass(frozen=True, slots=True)
class Form:
    """The leaves of a value in order, and the types of the nodes among them by their dtypes.

    former: the same under the names that fields have in Python, where these are others: so earlier versions wrote it.
    """

    members: tuple[Member, ...]
    types: dict[str, tuple[Case, ...]]
    former: Form | None = None


def form_of(part: Part, trees: Trees) -> Form:
    """Returns the form of a value, as it is known when the program is compiled."""
    form = _form(part, trees, written_fields, lambda branch: written_fields(branch.type))
    former = _form(part, trees, _former_fields, lambda branch: branch.names)
    return form if form == former else replace(form, former=former)


def _form(part: Part, trees: Trees, names: Names, of_node: Callable[[Branch], Sequence[str]]) -> Form:
    types = {dtype: tuple([_case(b, of_node(b), names) for b in branches]) for dtype, branches in trees.items()}
    return Form(tuple(_members(part, "", names)), types)


def _former_fields(kind: type | None) -> tuple[str, ...]:
    return tuple([name[1:] if name == f"_{k}" else name for k, name in enumerate(fields_of(kind))])


def encoded(form: Form) -> str:
    return json.dumps(asdict(form), separators=(",", ":"))


def decoded(text: str) -> Form:
    """The inverse of `encoded`."""
    return _decoded_form(json.loads(text))


def _decoded_form(given: Mapping[str, Any]) -> Form:
    types = {
        dtype: tuple([Case(c["name"], c["own"], tuple(c["literals"]), _decoded(c["members"])) for c in cases])
        for dtype, cases in given["types"].items()
    }
    former = given.get("former")
    return Form(_decoded(given["members"]), types, None if former is None else _decoded_form(former))


def _decoded(members: Sequence[Mapping[str, Any]]) -> tuple[Member, ...]:
    return tuple([_member(**m) for m in members])


def _member(name: str, dtype: str, axes: list[int], variants: list[str], under: list[tuple[str, int]]) -> Member:
    return Member(name, dtype, tuple(axes), tuple(variants), tuple([(tag, number) for tag, number in under]))


def _members(
    part: Part, prefix: str, names: Names, front: tuple[int, ...] = (), under: tuple[tuple[str, int], ...] = ()
) -> Iterator[Member]:
    match part:
        case Leaf(dtype, shape):
            yield Member(prefix or "value", dtype, front + shape, under=under)
        case Tree(dtype):
            yield Member(prefix or "value", dtype, front, under=under)
        case Rows(shape, element):
            yield from _members(element, prefix, names, front + shape, under)
        case Items(items):
            for k, item in enumerate(items):
                yield from _members(item, _dotted(prefix, str(k)), names, front, under)
        case Fields(type, items):
            for name, item in zip(names(type), items, strict=True):
                yield from _members(item, _dotted(prefix, name), names, front, under)
        case Choice(types, variants):
            tag, all_names = _dotted(prefix, "tag"), tuple([_name(t) for t in types])
            yield Member(tag, "i64", front, all_names, under)
            for k, (variant, name, items) in enumerate(zip(types, all_names, variants, strict=True)):
                for field, item in zip(names(variant), items, strict=True):
                    yield from _members(item, _dotted(_dotted(prefix, name), field), names, front, (*under, (tag, k)))
        case _:
            raise AssertionError("a function has no form in a file")


def _case(branch: Branch, fields: Sequence[str], names: Names) -> Case:
    members = [m for name, item in zip(fields, branch.items, strict=True) for m in _members(item, name, names)]
    return Case(_name(branch.type) if branch.type else "None", branch.own, branch.literals, tuple(members))


def _name(type: type | None) -> str:
    return "None" if type is None else type.__name__


def _dotted(prefix: str, name: str) -> str:
    return f"{prefix}.{name}" if prefix else name


def titles(form: Form) -> dict[str, str]:
    """Returns the names of node types in a file, by their dtypes; equal names are numbered."""
    out: dict[str, str] = {}
    for dtype in form.types:
        name = dtype.rpartition(".")[0] or dtype
        same = sum(t.partition("#")[0] == name for t in out.values())
        out[dtype] = f"{name}#{same + 1}" if same else name
    return out


def page(form: Form) -> dict[str, Any]:
    """Returns an archive's description of its value beside the arrays: the variants of enums, the members of nodes."""
    named = titles(form)
    types = {
        named[d]: {c.name: {m.name: named.get(m.dtype, m.dtype) for m in c.members} for c in cases}
        for d, cases in form.types.items()
    }
    return {"variants": _variants(form.members), "types": types}


def _variants(members: Sequence[Member]) -> dict[str, list[str]]:
    return {m.name: list(m.variants) for m in members if m.variants}

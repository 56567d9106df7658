"""Random arguments for a function: names for the leaves of its parameters, and values that fit their types."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from dlang.diagnostics import error
from dlang.ir.anf import FLOATS, Array, Atom, Size, Token, is_handle
from dlang.ir.values import exact, numpy_dtype, size_of
from dlang.specialize.specialize import Entry
from dlang.specialize.values import ArrayV, DataV, EnumV, Many, ScalarV, TupleV, Value
from dlang.typecheck import core, types as ty
from dlang.typecheck.refinements import field_type, of_field, of_part

Kind = Literal["normal", "positive", "fractions"]


@dataclass(frozen=True, slots=True)
class Leaf:
    """A leaf of a parameter. name: as a person writes it; variants: those of the enum whose variant it says.

    size: which of the sizes of the entry it is, if it is one. index: what `Idx` says an integer is below. default: the
    number that it is if nobody gives one. axes: the shapes that its type declares, the outermost first.
    """

    name: str
    atom: Atom
    variants: tuple[str, ...] = ()
    size: int | None = None
    index: ty.Size | None = None
    default: int | float | bool | None = None
    axes: tuple[ty.Shape, ...] = ()

    def declared(self) -> Iterator[tuple[Size, ty.Size]]:
        """The sizes of the leaf with what its type declares them to be, but for those of a row."""
        if not isinstance(self.atom.type, Array):
            return
        shapes = [ty.resolve_shape(s) for s in self.axes]
        row = next((k for k, s in enumerate(shapes) if s.row is not None), len(shapes))
        front = [size for s in shapes[: row + 1] for size in s.pre]
        back = [size for s in shapes[row:] for size in (s.post if s is shapes[row] else s.pre)]
        yield from zip(self.atom.type.shape, front, strict=False)
        yield from zip(reversed(self.atom.type.shape), reversed(back), strict=False)


def leaves_of(decl: core.FnDecl, entry: Entry, variables: Sequence[object]) -> list[Leaf]:
    """The leaves of all parameters.

    variables: for each size of the entry the variable of the scheme that it stands for, or is a size of.
    """
    out: list[Leaf] = []
    for p, v in zip(decl.params, entry.params, strict=True):
        own = list(_leaves(p.local.name, v, p.local.type, p.local.refinement))
        if p.local.size in variables:
            own = [replace(own[0], size=variables.index(p.local.size))]
        default = _number(p.default)
        if default is not None and p.local.size not in variables:
            own = [replace(own[0], default=default)]
        out += own
    return out


def _number(e: core.Expr | None) -> int | float | bool | None:
    match e:
        case core.Literal(value=int() | float() as value):
            return value
        case core.Negate(operand=core.Literal(value=int() | float() as value)):
            return -value
        case _:
            return None


def _leaves(
    name: str, v: Value, t: ty.Type, known: ty.Refinement | None, outer: tuple[ty.Shape, ...] = ()
) -> Iterator[Leaf]:
    """outer: the shapes of the arrays of structures that the value is in."""
    t = ty.resolve(t)
    match v:
        case ScalarV(atom) if not (not isinstance(atom.type, Token) and is_handle(atom.type.dtype)):
            yield Leaf(name, atom, index=known.size if isinstance(known, ty.Below) else None)
        case ArrayV(var) if not is_handle(v.dtype):
            one = of_part(known, ty.TypeCon("i64"))
            axes = (*outer, *_shapes(t))
            yield Leaf(name, var, index=one.size if isinstance(one, ty.Below) else None, axes=axes)
        case TupleV(items):
            for k, item in enumerate(items):
                yield from _leaves(f"{name}.{k}", item, field_type(t, k), of_field(t, k, known), outer)
        case DataV(data, fields):
            for k, ((field, _), item) in enumerate(zip(data.variants[0].fields, fields, strict=True)):
                yield from _leaves(f"{name}.{field}", item, field_type(t, k), of_field(t, k), outer)
        case EnumV(data, tag, variants):
            assert isinstance(tag, ScalarV | ArrayV)
            atom = tag.atom if isinstance(tag, ScalarV) else tag.var
            yield Leaf(name, atom, tuple([variant.name for variant in data.variants]), axes=outer)
            for tag_, (variant, fields) in enumerate(zip(data.variants, variants, strict=True)):
                for k, item in enumerate(fields):
                    own = field_type(t, k, tag_), of_field(t, k, None, tag_)
                    yield from _leaves(f"{name}.{variant.name}.{variant.fields[k][0] or k}", item, *own, outer)
        case Many(_, element):
            inner, around = (t.element, (*outer, t.shape)) if isinstance(t, ty.TypeArray) else (t, outer)
            yield from _leaves(name, element, inner, of_part(known, inner), around)
        case _:
            raise AssertionError("has a stand-in")


def _shapes(t: ty.Type) -> Iterator[ty.Shape]:
    """The shapes of an array and of the arrays that are its elements."""
    while isinstance(t := ty.resolve(t), ty.TypeArray):
        yield t.shape
        t = t.element


def drawn(
    entry: Entry,
    leaves: Sequence[Leaf],
    sizes: Sequence[int],
    seed: int,
    variables: Sequence[object] = (),
    kind: Kind = "normal",
    variant: int = 0,
) -> list[Any]:
    """Values for the sizes, the seed and the leaves of an entry: floats of a kind, integers may be indices.

    variables: as in `leaves_of`. variant: which of its variants an enum is, or the last if it has fewer; those in an
    array are drawn. Raises E0957 where there is no index.
    """
    known = dict(zip(variables, sizes, strict=False))
    rng = np.random.default_rng(seed)
    env: dict[Any, Any] = dict(zip(entry.sizes, sizes, strict=False))
    for size, declared in [pair for leaf in leaves for pair in leaf.declared()]:
        if (own := size.atom) in entry.sizes:  # a size such as n // 2, which the entry takes beside n
            env.setdefault(own, _evaluated(declared, known))
    out: list[Any] = [*[env[v] for v in entry.sizes], *([seed] if entry.seed else [])]
    for leaf in leaves:
        t = leaf.atom.type
        assert not isinstance(t, Token)
        shape = _shape(t.shape, env) if isinstance(t, Array) else ()
        most = len(leaf.variants) or min(sizes, default=3)
        if leaf.index is not None:
            most = _evaluated(leaf.index, known)
            if most < 1:
                message = f"no argument can be drawn: there is no index below {most} for `{leaf.name}`"
                raise error("E0957", message, None, help=("give a larger size: `--size n=5`",))
        if leaf.size is not None:
            out.append(sizes[leaf.size])
        elif leaf.default is not None:
            out.append(np.asarray(leaf.default).astype(numpy_dtype(t.dtype))[()])
        elif leaf.variants and not shape:
            out.append(np.asarray(min(variant, most - 1)).astype(numpy_dtype(t.dtype))[()])
        else:
            out.append(_value(rng, t.dtype, shape, max(most, 1), kind))
    return out


def _evaluated(size: ty.Size, known: Mapping[Any, int]) -> int:
    """The number that a size is; 0 if a variable in it is not known."""

    def value(a: ty.SizeAtom) -> int:
        if isinstance(a, ty.Floor):
            return _evaluated(a.dividend, known) // max(_evaluated(a.divisor, known), 1)
        return known.get(a, 0)

    return ty.resolve_size(size).poly.evaluate(value)


def _shape(shape: Sequence[Size], env: Mapping[Any, Any]) -> tuple[int, ...]:
    return tuple([max(int(size_of(s, env)), 0) for s in shape])


def _value(rng: np.random.Generator, dtype: str, shape: tuple[int, ...], below: int, kind: Kind) -> Any:
    if dtype in FLOATS:
        value: Any = rng.uniform(0.0, 1.0, shape) if kind == "fractions" else rng.standard_normal(shape)
        if kind == "positive":
            value = np.abs(value)
    elif dtype == "str":
        value = np.full(shape, "text", object)
    elif dtype == "bool":
        value = rng.integers(0, 2, shape)
    else:
        value = rng.integers(0, below, shape)
    made = np.asarray(value).astype(numpy_dtype(dtype))
    return exact(made, dtype) if shape else exact(made[()], dtype)

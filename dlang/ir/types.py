"""Types: those that operations are made of, and what follows from types of operands (`rules.py` asks for that)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from dlang.ir import anf
from dlang.ir.errors import IRError
from dlang.ir.traverse import bound_vars
from dlang.ops import monoids

I64 = anf.Scalar("i64")
BOOL = anf.Scalar("bool")
STR = anf.Scalar("str")


def dtype_of(atom: anf.Atom) -> str:
    """The dtype of a scalar, or of the elements of an array."""
    type = atom.type
    if isinstance(type, anf.Token):
        raise IRError(f"{atom} is a token, not data")
    return type.dtype


def array_type(array: anf.Atom) -> anf.Array:
    """The type of an array; an error if it is none."""
    if not isinstance(array.type, anf.Array):
        raise IRError(f"{array} is not an array")
    return array.type


def type_of(dtype: str, shape: Sequence[anf.Size]) -> anf.Type:
    """An array type, or a scalar's if there are no axes."""
    return anf.Array(dtype, tuple(shape)) if shape else anf.scalar(dtype)


def product(sizes: Iterable[anf.Size]) -> anf.Size:
    """How many elements a shape has, or points a box with such sides."""
    total: anf.Size = anf.poly(1)
    for size in sizes:
        total = total * size
    return total


def is_fixed(shape: Iterable[anf.Size]) -> bool:
    """Tells whether all sizes are numbers: their product may be one, 0, where a size beside the 0 is not known."""
    return all(size.constant is not None for size in shape)


def function_named(functions: Mapping[str, anf.Function], name: str) -> anf.Function:
    """A function of the program; an error if there is none of that name."""
    if name not in functions:
        raise IRError(f"there is no function {name}")
    return functions[name]


def comp_types(op: anf.Comp) -> tuple[anf.Type, ...]:
    """The types of the results of a comprehension, one for each destination."""
    types = []
    for value, destination in zip(op.body.results, op.destinations, strict=True):
        monoid = destination.monoid if isinstance(destination, anf.Reduce) else "sum"
        types.append(type_of(monoids.result_dtype(monoid, dtype_of(value)), destination.shape))
    return tuple(types)


def named_sizes(op: anf.Contract) -> dict[int, anf.Size]:
    """The size of each axis of a product, by its name."""
    pairs = ((op.a, op.left), (op.b, op.right))
    return {name: size for array, names in pairs for name, size in zip(names, array_type(array).shape, strict=True)}


def contract_type(op: anf.Contract) -> anf.Type:
    """The type of a product: each axis has the size that the arrays give its name."""
    sizes = named_sizes(op)
    if any(name not in sizes for name in op.out):
        raise IRError("an axis of the product is in neither factor")
    return type_of("f32" if op.wide else array_type(op.a).dtype, [sizes[name] for name in op.out])


def joined_vars(
    then: anf.Block, otherwise: anf.Block, opened: Callable[[anf.Size], anf.Size] = lambda size: size
) -> tuple[anf.Var, ...]:
    """Fresh variables for what two arms return.

    A size stays as it is where both arms agree on it and see it; else it is the i64 result that gives it in each arm.
    opened: a size with variables replaced by the polynomials that they are defined as, as far as the caller knows.
    """
    inside = set(bound_vars(then)) | set(bound_vars(otherwise))
    out: list[anf.Var] = []
    given: list[tuple[anf.Size, anf.Size, anf.Var]] = []  # a result, and the size that it is in each arm

    def joined(s: anf.Size, t: anf.Size) -> anf.Size:
        if s == t and not s.mentions(inside):
            return s
        left, right = opened(s), opened(t)
        if left == right and not left.mentions(inside):
            return left
        for one, other, var in given:
            if one == left and other == right:
                return anf.poly(var)
        raise IRError(f"the arms give arrays of the sizes {s} and {t}, which are not those of an earlier result")

    for a, b in zip(then.results, otherwise.results, strict=True):
        type: anf.Type = a.type
        if isinstance(a.type, anf.Array) and isinstance(b.type, anf.Array):
            type = anf.Array(
                a.type.dtype, tuple([joined(s, t) for s, t in zip(a.type.shape, b.type.shape, strict=True)])
            )
        var = anf.fresh(name_of(a) if isinstance(a, anf.Var) else name_of(b), type)
        out.append(var)
        if type == I64:
            given.append((opened(anf.poly(a)), opened(anf.poly(b)), var))
    return tuple(out)


def is_float(type: anf.Type) -> bool:
    """Tells whether values of this type carry derivatives."""
    return not isinstance(type, anf.Token) and type.dtype in anf.FLOATS


def carries(type: anf.Type) -> bool:
    """Tells whether a value of this type may have a derivative: a float, or a node, which may hold one."""
    return not isinstance(type, anf.Token) and (type.dtype in anf.FLOATS or anf.is_handle(type.dtype))


def name_of(atom: anf.Atom) -> str:
    """A name for what stands for an atom."""
    return atom.name if isinstance(atom, anf.Var) else "t"

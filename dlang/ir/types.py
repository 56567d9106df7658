"""The types of what an operation binds: the one place that knows them, for the builder and the verifier."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from dlang.ir.anf import (
    FLOATS,
    Array,
    Atom,
    Block,
    Call,
    Cast,
    Check,
    Comp,
    Compact,
    Concat,
    Construct,
    Contract,
    Copy,
    Effect,
    Empty,
    Fields,
    For,
    Foreign,
    Format,
    Function,
    If,
    Jvp,
    Library,
    Op,
    Prim,
    Pull,
    Read,
    Record,
    Reshape,
    Scalar,
    Scan,
    Size,
    SizeOf,
    Stop,
    Tag,
    Token,
    Type,
    Update,
    Var,
    View,
    Vjp,
    While,
    fresh,
    is_handle,
    poly,
)
from dlang.ir.errors import IRError
from dlang.ir.libraries import library_types
from dlang.ir.substitution import Replacement, refresh_vars
from dlang.ir.traverse import bound_vars
from dlang.ops.primitives import result_dtype
from dlang.polynomials import Poly

I64 = Scalar("i64")
BOOL = Scalar("bool")
STR = Scalar("str")


def dtype_of(atom: Atom) -> str:
    """The dtype of a scalar, or of the elements of an array."""
    type = atom.type
    if isinstance(type, Token):
        raise IRError(f"{atom} is a token, not data")
    return type.dtype


def array_type(array: Atom) -> Array:
    """The type of an array; an error if it is none."""
    if not isinstance(array.type, Array):
        raise IRError(f"{array} is not an array")
    return array.type


def type_of(dtype: str, shape: Sequence[Size]) -> Type:
    """An array type, or a scalar's if there are no axes."""
    return Array(dtype, tuple(shape)) if shape else Scalar(dtype)


def product(sizes: Iterable[Size]) -> Size:
    """How many elements a shape has, or points a box with such sides."""
    total: Size = poly(1)
    for size in sizes:
        total = total * size
    return total


def function_named(functions: Mapping[str, Function], name: str) -> Function:
    """A function of the program; an error if there is none of that name."""
    if name not in functions:
        raise IRError(f"there is no function {name}")
    return functions[name]


def result_vars(op: Op, functions: Mapping[str, Function]) -> tuple[Var, ...]:
    """Fresh variables for the results of an operation, of the right types: a later type may mention an earlier one.

    What a `Foreign` or a `Pull` binds, an `Effect` beyond its token, and what a `Check` says more about its subjects,
    is for the caller to give.
    """
    match op:
        case Prim(name, args):
            return _one(Scalar(result_dtype(name, tuple(dtype_of(a) for a in args))))
        case Read():
            return _one(Scalar(array_type(op.array).dtype))
        case Cast():
            return _one(Scalar(op.dtype))
        case SizeOf():
            return _one(I64)
        case Format():
            return _one(STR)
        case Check():
            return tuple(fresh(_name(s), s.type) for s in op.subjects)
        case Stop():
            return _one(op.arg.type, _name(op.arg))
        case Comp():
            return tuple(fresh("t", type) for type in comp_types(op))
        case Scan(array=array) | Copy(array=array) | Update(array=array):
            return _one(array_type(array), array.name)
        case If():
            return joined_vars(op.then, op.otherwise)
        case For() | While():
            return refresh_vars(op.params, {})
        case Call():
            function = function_named(functions, op.function)
            return refresh_vars(function.results, _arguments(function, op.args))
        case Construct():
            return _one(Scalar(op.variant.datatype))
        case Tag():
            return _one(I64, "tag")
        case Fields():
            return refresh_vars(op.variant.fields, {})
        case View():
            return _one(Array(array_type(op.array).dtype, op.shape))
        case Reshape():
            return _one(Array(array_type(op.array).dtype, op.shape))
        case Empty(dtype, shape):
            return _one(Array(dtype, shape))
        case Concat():
            first = array_type(op.arrays[0])
            total: Size = Poly({})
            for array in op.arrays:
                total = total + array_type(array).shape[0]
            return _one(Array(first.dtype, (total, *first.shape[1:])))
        case Compact():
            k = fresh("k", I64)
            return k, fresh("positions", Array("i64", (poly(k),)))
        case Contract():
            return _one(contract_type(op))
        case Library():
            return tuple(fresh("t", type) for type in library_types(op))
        case Vjp():
            function = function_named(functions, op.function)
            results = refresh_vars(function.results, _arguments(function, op.args))
            return *results, *(fresh(f"{_name(op.args[w])}_bar", op.args[w].type) for w in op.wrt)
        case Jvp():
            function = function_named(functions, op.function)
            results = refresh_vars(function.results, _arguments(function, op.args))
            return *results, *(fresh(f"{r.name}_dot", r.type) for r in results if carries(r.type))
        case Record():
            function = function_named(functions, op.function)
            return *refresh_vars(function.results, _arguments(function, op.args)), fresh("tape", Scalar(op.tape))
        case Foreign() | Pull():
            return ()
        case Effect():
            return _one(Token(), "world")


def comp_types(op: Comp) -> tuple[Type, ...]:
    """The types of the results of a comprehension, one for each destination."""
    types = []
    for value, destination in zip(op.body.results, op.destinations, strict=True):
        dtype = dtype_of(value)
        if getattr(destination, "monoid", "sum") in ("argmax", "argmin"):
            dtype = "i64"
        types.append(type_of(dtype, destination.shape))
    return tuple(types)


def contract_type(op: Contract) -> Type:
    """The type of a product: each axis has the size that the arrays give its name."""
    sizes: dict[int, Size] = {}
    for array, names in ((op.a, op.left), (op.b, op.right)):
        sizes.update(zip(names, array_type(array).shape, strict=True))
    if any(name not in sizes for name in op.out):
        raise IRError("an axis of the product is in neither factor")
    return type_of(array_type(op.a).dtype, [sizes[name] for name in op.out])


def joined_vars(then: Block, otherwise: Block, opened: Callable[[Size], Size] = lambda size: size) -> tuple[Var, ...]:
    """Fresh variables for what two arms return.

    A size stays as it is where both arms agree on it and see it; else it is the i64 result that gives it in each arm.
    opened: a size with variables replaced by the polynomials that they are defined as, as far as the caller knows.
    """
    inside = set(bound_vars(then)) | set(bound_vars(otherwise))
    out: list[Var] = []
    given: list[tuple[Size, Size, Var]] = []  # a result, and the size that it is in each arm

    def joined(s: Size, t: Size) -> Size:
        if s == t and not s.mentions(inside):
            return s
        left, right = opened(s), opened(t)
        if left == right and not left.mentions(inside):
            return left
        for one, other, var in given:
            if one == left and other == right:
                return poly(var)
        raise IRError(f"the arms give arrays of the sizes {s} and {t}, which are not those of an earlier result")

    for a, b in zip(then.results, otherwise.results, strict=True):
        type: Type = a.type
        if isinstance(a.type, Array) and isinstance(b.type, Array):
            type = Array(a.type.dtype, tuple([joined(s, t) for s, t in zip(a.type.shape, b.type.shape, strict=True)]))
        var = fresh(_name(a) if isinstance(a, Var) else _name(b), type)
        out.append(var)
        if type == I64:
            given.append((opened(poly(a)), opened(poly(b)), var))
    return tuple(out)


def is_float(type: Type) -> bool:
    """Whether values of this type carry derivatives."""
    return not isinstance(type, Token) and type.dtype in FLOATS


def carries(type: Type) -> bool:
    """Whether a value of this type may have a derivative: a float, or a node, which may hold one."""
    return not isinstance(type, Token) and (type.dtype in FLOATS or is_handle(type.dtype))


def _arguments(function: Function, args: tuple[Atom, ...]) -> dict[Var, Replacement]:
    if len(args) != len(function.params):
        raise IRError(f"{function.name} takes {len(function.params)} arguments, not {len(args)}")
    return dict(zip(function.params, args, strict=True))


def _one(type: Type, name: str = "t") -> tuple[Var, ...]:
    return (fresh(name, type),)


def _name(atom: Atom) -> str:
    return atom.name if isinstance(atom, Var) else "t"

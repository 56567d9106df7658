"""The types of what an operation binds: the one place that knows them, for the builder and the verifier."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from dlang.ir import anf
from dlang.ir.errors import IRError
from dlang.ir.libraries import library_types
from dlang.ir.substitution import refresh_vars
from dlang.ir.traverse import application, bound_vars
from dlang.ops import monoids
from dlang.ops.primitives import result_dtype
from dlang.polynomials import Poly

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
    return anf.Array(dtype, tuple(shape)) if shape else anf.Scalar(dtype)


def product(sizes: Iterable[anf.Size]) -> anf.Size:
    """How many elements a shape has, or points a box with such sides."""
    total: anf.Size = anf.poly(1)
    for size in sizes:
        total = total * size
    return total


def function_named(functions: Mapping[str, anf.Function], name: str) -> anf.Function:
    """A function of the program; an error if there is none of that name."""
    if name not in functions:
        raise IRError(f"there is no function {name}")
    return functions[name]


def result_vars(op: anf.Op, functions: Mapping[str, anf.Function]) -> tuple[anf.Var, ...]:
    """Fresh variables for the results of an operation, of the right types: a later type may mention an earlier one.

    What a `Foreign` or a `VjpBackward` binds, an `Effect` beyond its token, and what an `Assert` says more about its
    guarded values, is for the caller to give.
    """
    match op:
        case anf.Prim(name, args):
            return _one(anf.Scalar(result_dtype(name, tuple(dtype_of(a) for a in args))))
        case anf.Read():
            return _one(anf.Scalar(array_type(op.array).dtype))
        case anf.Cast():
            return _one(anf.Scalar(op.dtype))
        case anf.IndexExpr():
            return _one(I64)
        case anf.Format():
            return _one(STR)
        case anf.Assert():
            return tuple(anf.fresh(_name(s), s.type) for s in op.guarded)
        case anf.StopGradient():
            return _one(op.arg.type, _name(op.arg))
        case anf.Comp():
            return tuple(anf.fresh("t", type) for type in comp_types(op))
        case anf.Scan(array=array) | anf.Copy(array=array) | anf.Update(array=array):
            return _one(array_type(array), array.name)
        case anf.If():
            return joined_vars(op.then, op.otherwise)
        case anf.For() | anf.While():
            return refresh_vars(op.params, {})
        case anf.Construct():
            return _one(anf.Scalar(op.variant.datatype))
        case anf.Tag():
            return _one(I64, "tag")
        case anf.Fields():
            return refresh_vars(op.variant.fields, {})
        case anf.View():
            return _one(anf.Array(array_type(op.array).dtype, op.shape))
        case anf.Reshape():
            return _one(anf.Array(array_type(op.array).dtype, op.shape))
        case anf.Empty(dtype, shape):
            return _one(anf.Array(dtype, shape))
        case anf.Concat():
            first = array_type(op.arrays[0])
            total: anf.Size = Poly({})
            for array in op.arrays:
                total = total + array_type(array).shape[0]
            return _one(anf.Array(first.dtype, (total, *first.shape[1:])))
        case anf.Compact():
            k = anf.fresh("k", I64)
            return k, anf.fresh("positions", anf.Array("i64", (anf.poly(k),)))
        case anf.Contract():
            return _one(contract_type(op))
        case anf.LinalgOp():
            return tuple(anf.fresh("t", type) for type in library_types(op))
        case anf.Foreign() | anf.VjpBackward():
            return ()
        case anf.Effect():
            return _one(anf.Token(), "world")
        case _:
            applied = application(op)
            assert applied is not None, f"{type(op).__name__} has no types of results"
            results = _results_of(function_named(functions, applied[0]), applied[1])
            return *results, *_derivatives(op, results)


def _results_of(function: anf.Function, args: tuple[anf.Atom, ...]) -> tuple[anf.Var, ...]:
    """Fresh variables for what a function gives for some arguments."""
    if len(args) != len(function.params):
        raise IRError(f"{function.name} takes {len(function.params)} arguments, not {len(args)}")
    return refresh_vars(function.results, dict(zip(function.params, args, strict=True)))


def _derivatives(op: anf.Op, results: Sequence[anf.Var]) -> tuple[anf.Var, ...]:
    """Fresh variables for what an operation binds beside the results of the function that it applies."""
    match op:
        case anf.Vjp():
            return tuple([anf.fresh(f"{_name(op.args[w])}_bar", op.args[w].type) for w in op.wrt])
        case anf.Jvp():
            return tuple([anf.fresh(f"{r.name}_dot", r.type) for r in results if carries(r.type)])
        case anf.VjpForward():
            return _one(anf.Scalar(op.tape), "tape")
        case _:
            return ()


def comp_types(op: anf.Comp) -> tuple[anf.Type, ...]:
    """The types of the results of a comprehension, one for each destination."""
    types = []
    for value, destination in zip(op.body.results, op.destinations, strict=True):
        monoid = destination.monoid if isinstance(destination, anf.Reduce) else "sum"
        types.append(type_of(monoids.result_dtype(monoid, dtype_of(value)), destination.shape))
    return tuple(types)


def contract_type(op: anf.Contract) -> anf.Type:
    """The type of a product: each axis has the size that the arrays give its name."""
    sizes: dict[int, anf.Size] = {}
    for array, names in ((op.a, op.left), (op.b, op.right)):
        sizes.update(zip(names, array_type(array).shape, strict=True))
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
        var = anf.fresh(_name(a) if isinstance(a, anf.Var) else _name(b), type)
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


def _one(type: anf.Type, name: str = "t") -> tuple[anf.Var, ...]:
    return (anf.fresh(name, type),)


def _name(atom: anf.Atom) -> str:
    return atom.name if isinstance(atom, anf.Var) else "t"

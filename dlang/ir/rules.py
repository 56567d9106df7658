"""The typing rules of operations: of which types their results are, and what must hold of their operands.

`RULES` has a rule for each operation, from which the builder takes fresh results (`result_vars`) and the verifier what
it asks. The verifier itself knows scopes: what is bound where, and what blocks give to whom. What the operations of
`ops/linear_algebra.py` give and count as is here, too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import repeat
from typing import TYPE_CHECKING, Any

from dlang.ir import anf
from dlang.ir.anf import Array, Atom, LinalgOp, Scalar, Size, Type, poly
from dlang.ir.errors import IRError
from dlang.ir.marks import is_mark
from dlang.ir.substitution import refresh_vars
from dlang.ir.traverse import application
from dlang.ir.types import (
    I64,
    STR,
    array_type,
    carries,
    comp_types,
    contract_type,
    dtype_of,
    function_named,
    joined_vars,
    name_of,
    product,
)
from dlang.ops.dtypes import PRECISE
from dlang.ops.linear_algebra import FACTORS, OPERATIONS, Operation, Value
from dlang.ops.monoids import RUNNING
from dlang.ops.primitives import ANY, CLASSES, NUM, PRIMITIVES, result_dtype
from dlang.polynomials import Poly

if TYPE_CHECKING:
    from dlang.ir.scope import Scope


# ---- the operations of libraries -------------------------------------------------------------------------------------
def library_types(op: LinalgOp) -> tuple[Type, ...]:
    """The types of the results; an error if the arguments do not fit."""
    dtype, sizes = _bound(op)

    def type_of(v: Value) -> Type:
        scalar = dtype if v.dtype == "t" else v.dtype
        return Array(scalar, tuple([sizes[s][0] for s in v.shape])) if v.shape else Scalar(scalar)

    return tuple([type_of(r) for r in OPERATIONS[op.name].results])


def equal_sizes(op: LinalgOp) -> list[tuple[Size, Size]]:
    """The pairs of sizes that have to be the same."""
    return [(first, other) for first, *others in _bound(op)[1].values() for other in others]


def functional(op: LinalgOp) -> tuple[Atom, ...]:
    """The arguments that the results are a function of, when derivatives are taken: all but factors of a matrix."""
    return tuple([a for v, a in _given(OPERATIONS[op.name], op.args) if v.name not in FACTORS])


def library_cost(name: str, args: Sequence[Any], sizes: Sequence[int]) -> int:
    """The number of operations that it counts as. args: their values; sizes: those of the first array."""
    operation = OPERATIONS[name]
    columns = [a.shape[1] for v, a in zip(operation.arguments, args, strict=False) if v.shape[1:] == ("r",)]
    return operation.cost(sizes[0], sizes[-1], columns[0] if columns else 0)


def _given(operation: Operation, args: Sequence[Atom]) -> list[tuple[Value, Atom]]:
    """Each argument with what it has to be."""
    wanted = operation.arguments
    if operation.several:
        wanted = (*wanted[:-1], *repeat(wanted[-1], len(args) - len(wanted) + 1))
    if len(wanted) != len(args):
        raise _unknown(operation.name, args)
    return list(zip(wanted, args, strict=True))


def _bound(op: LinalgOp) -> tuple[str, dict[str, list[Size]]]:
    """The dtype of the matrices, and for each size of the row all that has to be of that size."""
    operation = OPERATIONS.get(op.name)
    if operation is None:
        raise _unknown(op.name, op.args)
    dtypes: list[str] = []
    sizes: dict[str, list[Size]] = {}
    for value, atom in _given(operation, op.args):
        match atom.type:
            case Array(dtype, shape):
                pass
            case Scalar(dtype):
                shape = ()
            case _:
                raise _unknown(op.name, op.args)
        if len(shape) != len(value.shape) or (value.dtype == "t" and dtype not in PRECISE):
            if value.dtype == "t":
                raise IRError(f"{op.name} takes matrices of f64 or f32")
            raise _unknown(op.name, op.args)
        if value.dtype == "t":
            dtypes.append(dtype)
        elif value.dtype not in ("any", dtype):
            raise _unknown(op.name, op.args)
        for name, size in zip(value.shape, shape, strict=True):
            sizes.setdefault(name, []).append(size)
        if any(value.name in r.shape for r in operation.results):  # a number of rows or columns
            sizes[value.name] = [poly(atom)]
    if len(set(dtypes)) > 1:
        raise IRError(f"the matrices that {op.name} takes have different dtypes")
    return "".join(dtypes[:1]), sizes


def _unknown(name: str, args: Sequence[Atom]) -> IRError:
    return IRError(f"there is no library operation {name} of {len(args)} such arguments")


Functions = Mapping[str, anf.Function]
Vars = tuple[anf.Var, ...]
NUMBERS = CLASSES[NUM]


@dataclass(frozen=True, slots=True)
class Rule:
    """The rule of an operation.

    results: fresh variables for its results; a later type may mention an earlier one. check: refuses operands that it
    does not take. bound: refuses what it can't bind, where the caller says the types of that.
    """

    results: Callable[[Any, Functions], Vars]
    check: Callable[[Checker, Any], object] | None = None
    bound: Callable[[Any, Vars], None] | None = None


def result_vars(op: anf.Op, functions: Functions) -> Vars:
    """Fresh variables for the results of an operation, of the right types.

    What a `Foreign` or a `VjpBackward` binds, an `Effect` beyond its token, and what an `Assert` says more about its
    guarded values, is for the caller to give.
    """
    return RULES[type(op)].results(op, functions)


# ---- what rules ask --------------------------------------------------------------------------------------------------
class Checker:
    """Asks of operands what rules demand, at a point of a program."""

    scope: Scope
    functions: Functions

    def operands(self, op: anf.Op) -> None:
        """Checks the operands of an operation, but for their scopes."""
        if (applied := application(op)) is not None:
            self.scope.match(function_named(self.functions, applied[0]).params, applied[1], {}, "the arguments")
        check = RULES[type(op)].check
        if check is not None:
            check(self, op)

    def scalar(self, atom: anf.Atom, *dtypes: str) -> str:
        if not isinstance(atom.type, anf.Scalar):
            raise IRError(f"{atom!r} is not a scalar")
        if dtypes and atom.type.dtype not in dtypes:
            raise IRError(f"{atom!r} is {atom.type.dtype}, not {' or '.join(dtypes)}")
        return atom.type.dtype

    def rank(self, array: anf.Atom, rank: int, what: str) -> anf.Array:
        type = array_type(array)
        if len(type.shape) != rank:
            raise IRError(f"{what} has {rank} entries for the {len(type.shape)} axes of {array}")
        return type

    def equal_sizes(self, a: Sequence[anf.Size], b: Sequence[anf.Size], what: str) -> None:
        if len(a) != len(b) or not all(self.scope.same_size(s, t) for s, t in zip(a, b, strict=True)):
            raise IRError(f"{what}: {list(a)} and {list(b)}")

    def variant(self, variant: anf.Variant) -> None:
        datatype = self.scope.datatypes.get(variant.datatype)
        if datatype is None or variant not in datatype.variants:
            raise IRError(f"{variant.name} is no variant of a datatype of the program")

    def message(self, texts: Sequence[str], values: Sequence[anf.Atom]) -> None:
        if len(texts) != 2 * len(values) + 1:
            raise IRError(f"{len(texts)} parts of text for {len(values)} values")
        if any(isinstance(v.type, anf.Token) or anf.is_handle(v.type.dtype) for v in values):
            raise IRError("a token, or a node of a datatype, has no text")

    def seeds(self, function: anf.Function, cotangents: Sequence[anf.Atom | None]) -> None:
        if len(cotangents) != len(function.results):
            raise IRError("one cotangent, or None, for each result")
        for cotangent, result in zip(cotangents, function.results, strict=True):
            if cotangent is None:
                continue
            if not carries(result.type) or type_rank(cotangent.type) != type_rank(result.type):
                raise IRError(f"{cotangent!r} is no cotangent of {result}")

    def halves(self, op: anf.VjpForward | anf.VjpBackward, wrt: Sequence[anf.Type]) -> None:
        if not all(map(carries, wrt)):
            raise IRError("a derivative in an argument that carries none")
        if len(op.seeded) != len(function_named(self.functions, op.function).results):
            raise IRError("one mark for each result")


def type_rank(type: anf.Type) -> int:
    """The number of axes."""
    return len(type.shape) if isinstance(type, anf.Array) else 0


def _one(type: anf.Type, name: str = "t") -> Vars:
    return (anf.fresh(name, type),)


# ---- scalars ---------------------------------------------------------------------------------------------------------
@cache
def primitive_dtype(name: str, dtypes: tuple[str, ...]) -> str:
    """The dtype that a primitive gives for arguments of these dtypes; an error if it takes others."""
    primitive = PRIMITIVES.get(name)
    if primitive is None:
        raise IRError(f"there is no primitive {name}")
    if len(dtypes) != primitive.arity:
        raise IRError(f"{name} takes {primitive.arity} arguments")
    alike = dtypes
    if name == "select":
        if dtypes[0] != "bool":
            raise IRError(f"select by {dtypes[0]}, not bool")
        alike = dtypes[1:]
    elif name == "powi":
        if dtypes[1] != "i64":
            raise IRError(f"the exponent of powi is {dtypes[1]}, not i64")
        alike = dtypes[:1]
    first = alike[0]
    if any(dtype != first for dtype in alike):
        raise IRError(f"{name} of {' and '.join(alike)}")
    if first not in CLASSES[primitive.domain]:
        raise IRError(f"{name} of {first}")
    return result_dtype(name, dtypes)


def _primitive(op: anf.Prim, functions: Functions) -> Vars:
    return _one(anf.Scalar(result_dtype(op.name, tuple([dtype_of(a) for a in op.args]))))


def _cast(c: Checker, op: anf.Cast) -> None:
    if "str" in (op.dtype, c.scalar(op.arg)) or not {op.dtype, dtype_of(op.arg)} <= CLASSES[ANY]:
        raise IRError("a conversion is between numbers and truth values")


def _assert(c: Checker, op: anf.Assert) -> None:
    c.scalar(op.condition, "bool")
    if not is_mark(op):  # which has no message
        c.message(op.parts, op.values)


# ---- arrays ----------------------------------------------------------------------------------------------------------
def _like(array: anf.Var) -> Vars:
    return _one(array_type(array), array.name)


def _scan(c: Checker, op: anf.Scan) -> None:
    if op.monoid not in RUNNING or c.rank(op.array, 1, "a scan").dtype not in NUMBERS:
        raise IRError("a scan is a running sum or product of numbers")


def _view(c: Checker, op: anf.View) -> None:
    c.rank(op.array, len(op.index), "the index of a view")
    if len(op.axes) != len(op.shape) or not op.axes:
        raise IRError("a view has one variable for each of its axes")
    if any(a.type != I64 for a in op.axes):
        raise IRError("the axes of a view are i64")


def _reshape(c: Checker, op: anf.Reshape) -> None:
    a, b = product(array_type(op.array).shape), product(op.shape)
    if not c.scope.same_size(a, b):
        raise IRError(f"{a} elements are reshaped to {b}")


def _empty(c: Checker, op: anf.Empty) -> None:
    if op.dtype == "str" or anf.is_handle(op.dtype):
        raise IRError("an array without contents is one of numbers")


def _concatenated(op: anf.Concat, functions: Functions) -> Vars:
    first = array_type(op.arrays[0])
    total: anf.Size = Poly({})
    for array in op.arrays:
        total = total + array_type(array).shape[0]
    return _one(anf.Array(first.dtype, (total, *first.shape[1:])))


def _concat(c: Checker, op: anf.Concat) -> None:
    if not op.arrays:
        raise IRError("nothing to concatenate")
    first = array_type(op.arrays[0])
    for array in op.arrays:
        if array_type(array).dtype != first.dtype:
            raise IRError("the arrays have several dtypes")
        c.equal_sizes(array_type(array).shape[1:], first.shape[1:], "sizes beside the first axis differ")


def _positions(op: anf.Compact, functions: Functions) -> Vars:
    k = anf.fresh("k", I64)
    return k, anf.fresh("positions", anf.Array("i64", (anf.poly(k),)))


def _compact(c: Checker, op: anf.Compact) -> None:
    if c.rank(op.mask, 1, "a mask").dtype != "bool":
        raise IRError("a mask is an array of bool")


def _contract(c: Checker, op: anf.Contract) -> None:
    a = c.rank(op.a, len(op.left), "the left factor")
    b = c.rank(op.b, len(op.right), "the right factor")
    if a.dtype != b.dtype or a.dtype not in NUMBERS:
        raise IRError(f"a product of {a.dtype} and {b.dtype}")
    if op.wide and a.dtype not in anf.HALF:
        raise IRError(f"a product of {a.dtype} in f32")
    sizes: dict[int, anf.Size] = {}
    for name, size in zip((*op.left, *op.right), (*a.shape, *b.shape), strict=True):
        if not c.scope.same_size(sizes.setdefault(name, size), size):
            raise IRError(f"the axis {name} has the sizes {sizes[name]} and {size}")
    for names in (op.left, op.right, op.out):
        if len(set(names)) != len(names):
            raise IRError("an axis is named twice")


def _library(c: Checker, op: anf.LinalgOp) -> None:
    library_types(op)
    for one, other in equal_sizes(op):
        c.equal_sizes((one,), (other,), f"the sizes of the arguments of {op.name} do not fit")


# ---- datatypes -------------------------------------------------------------------------------------------------------
def _construct(c: Checker, op: anf.Construct) -> None:
    c.variant(op.variant)
    c.scope.match(op.variant.fields, op.args, {}, "the fields")


def _tag(c: Checker, op: anf.Tag) -> None:
    c.scalar(op.node, *c.scope.datatypes)


def _fields(c: Checker, op: anf.Fields) -> None:
    c.variant(op.variant)
    c.scalar(op.node, op.variant.datatype)


# ---- functions and their derivatives ---------------------------------------------------------------------------------
def _called(op: anf.Op, functions: Functions) -> Vars:
    """Fresh variables for the results of the function that an operation applies."""
    applied = application(op)
    assert applied is not None
    name, args = applied
    function = function_named(functions, name)
    if len(args) != len(function.params):
        raise IRError(f"{name} takes {len(function.params)} arguments, not {len(args)}")
    return refresh_vars(function.results, dict(zip(function.params, args, strict=True)))


def _with_cotangents(op: anf.Vjp, functions: Functions) -> Vars:
    results = _called(op, functions)
    return *results, *[anf.fresh(f"{name_of(op.args[w])}_bar", op.args[w].type) for w in op.wrt]


def _reverse(c: Checker, op: anf.Vjp) -> None:
    function = function_named(c.functions, op.function)
    if any(not carries(op.args[w].type) for w in op.wrt):
        raise IRError("a derivative in an argument that carries none")
    c.seeds(function, op.cotangents)


def _with_tangents(op: anf.Jvp, functions: Functions) -> Vars:
    results = _called(op, functions)
    return *results, *[anf.fresh(f"{r.name}_dot", r.type) for r in results if carries(r.type)]


def _forward(c: Checker, op: anf.Jvp) -> None:
    if len(op.tangents) != len(op.args):
        raise IRError("one tangent, or None, for each argument")
    for tangent, arg in zip(op.tangents, op.args, strict=True):
        if tangent is not None and (not carries(arg.type) or not c.scope.same(tangent.type, arg.type)):
            raise IRError(f"{tangent!r} is no tangent of {arg!r}")


def _with_tape(op: anf.VjpForward, functions: Functions) -> Vars:
    return *_called(op, functions), anf.fresh("tape", anf.Scalar(op.tape))


def _forward_half(c: Checker, op: anf.VjpForward) -> None:
    c.halves(op, [op.args[w].type for w in op.wrt])


def _backward_half(c: Checker, op: anf.VjpBackward) -> None:
    function = function_named(c.functions, op.function)
    c.halves(op, [function.params[w].type for w in op.wrt])
    c.seeds(function, op.cotangents)
    if len(op.sizes) != sum(p.type == I64 for p in function.params):
        raise IRError("one size for each i64 parameter")


def _cotangents(op: anf.VjpBackward, vars: Vars) -> None:
    if len(vars) != len(op.wrt):
        raise IRError("one cotangent for each position in wrt")


# ---- the world -------------------------------------------------------------------------------------------------------
def _nothing(op: anf.Op, functions: Functions) -> Vars:
    return ()


def _foreign(op: anf.Foreign, vars: Vars) -> None:
    if any(isinstance(v.type, anf.Token) for v in vars):
        raise IRError("a foreign function without effects binds no token")


def _effect(c: Checker, op: anf.Effect) -> None:
    if not isinstance(op.token.type, anf.Token):
        raise IRError("an effect takes a token first")
    if op.name == "print":
        if len(op.args) != 1:
            raise IRError("print takes one str")
        c.scalar(op.args[0], "str")


def _token_first(op: anf.Effect, vars: Vars) -> None:
    if not vars or not isinstance(vars[0].type, anf.Token):
        raise IRError("an effect binds a token first")


# ---- the table -------------------------------------------------------------------------------------------------------
RULES: dict[type, Rule] = {
    anf.Prim: Rule(_primitive),
    anf.Cast: Rule(lambda op, _: _one(anf.Scalar(op.dtype)), _cast),
    anf.IndexExpr: Rule(lambda op, _: _one(I64)),
    anf.Format: Rule(lambda op, _: _one(STR), lambda c, op: c.message(op.parts, op.args)),
    anf.Assert: Rule(lambda op, _: tuple([anf.fresh(name_of(s), s.type) for s in op.guarded]), _assert),
    anf.StopGradient: Rule(lambda op, _: _one(op.arg.type, name_of(op.arg))),
    anf.Read: Rule(lambda op, _: _one(anf.Scalar(array_type(op.array).dtype))),
    anf.Comp: Rule(lambda op, _: tuple([anf.fresh("t", type) for type in comp_types(op)])),
    anf.Scan: Rule(lambda op, _: _like(op.array), _scan),
    anf.For: Rule(lambda op, _: refresh_vars(op.params, {})),
    anf.While: Rule(lambda op, _: refresh_vars(op.params, {})),
    anf.If: Rule(lambda op, _: joined_vars(op.then, op.otherwise), lambda c, op: c.scalar(op.condition, "bool")),
    anf.Construct: Rule(lambda op, _: _one(anf.Scalar(op.variant.datatype)), _construct),
    anf.Tag: Rule(lambda op, _: _one(I64, "tag"), _tag),
    anf.Fields: Rule(lambda op, _: refresh_vars(op.variant.fields, {}), _fields),
    anf.View: Rule(lambda op, _: _one(anf.Array(array_type(op.array).dtype, op.shape)), _view),
    anf.Reshape: Rule(lambda op, _: _one(anf.Array(array_type(op.array).dtype, op.shape)), _reshape),
    anf.Concat: Rule(_concatenated, _concat),
    anf.Compact: Rule(_positions, _compact),
    anf.Update: Rule(
        lambda op, _: _like(op.array),
        lambda c, op: c.scalar(op.value, c.rank(op.array, len(op.index), "the index").dtype),
    ),
    anf.Copy: Rule(lambda op, _: _like(op.array)),
    anf.Empty: Rule(lambda op, _: _one(anf.Array(op.dtype, op.shape)), _empty),
    anf.Contract: Rule(lambda op, _: _one(contract_type(op)), _contract),
    anf.LinalgOp: Rule(lambda op, _: tuple([anf.fresh("t", type) for type in library_types(op)]), _library),
    anf.Call: Rule(_called),
    anf.Vjp: Rule(_with_cotangents, _reverse),
    anf.Jvp: Rule(_with_tangents, _forward),
    anf.VjpForward: Rule(_with_tape, _forward_half),
    anf.VjpBackward: Rule(_nothing, _backward_half, _cotangents),
    anf.Foreign: Rule(_nothing, bound=_foreign),
    anf.Effect: Rule(lambda op, _: _one(anf.Token(), "world"), _effect, _token_first),
}
"""The rule of each operation."""

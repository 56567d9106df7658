"""The operations of `ops/linear_algebra.py` in the IR: the types of their results, and what they count as."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import repeat
from typing import Any

from dlang.ir.anf import Array, Atom, LinalgOp, Scalar, Size, Type, poly
from dlang.ir.errors import IRError
from dlang.ops.dtypes import PRECISE
from dlang.ops.linear_algebra import FACTORS, OPERATIONS, Operation, Value


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

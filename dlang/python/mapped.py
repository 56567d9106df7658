"""A function over a further axis of its arguments, as one function of the language: what libraries call `vmap`.

    fn vmap(x0: f64[batch', _], x1: f64[_]) = {
      let made = [f(P(w = x0[k'], b = x1)) for k' < batch']
      ([made[k'].w for k' < batch'], [made[k'].b for k' < batch'])
    }

It is differentiated, fused and compiled like any other, and its loop is one of those that run on several threads.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache

import numpy as np

from dlang.diagnostics import DlangError, Source, Span
from dlang.host.classes import written_fields
from dlang.host.values import outside_dtype
from dlang.ir.terms import poly
from dlang.python.bound import Bound
from dlang.python.callables import of_language
from dlang.python.function import Function
from dlang.python.operators import ARRAY, DEFAULT, NEXT, Plan, Plans, Target, draws, given, paths
from dlang.specialize.structs import declaration_of
from dlang.typecheck import core, types as ty
from dlang.typecheck.program import check_function
from dlang.typecheck.trees import unwritten
from dlang.typecheck.types import DataDecl

COUNT, AT, CALLED = "batch'", "k'", "called'"


@cache
def mapped(
    f: Target,
    letters: str,
    floats: tuple[float, ...],
    integers: tuple[int, ...],
    types: tuple[tuple[str, int], ...],
    batched: tuple[bool, ...],
) -> Function | None:
    """The function of the leaves of the arguments that gives those of the result, all with a further axis in front but
    for arguments that are not batched; None where it has to be called once for each element.

    letters, floats, integers: as of a call; types: the dtypes and ranks of the arrays, of one element; batched: which
    of them have the further axis.
    """
    if isinstance(f, Bound) or draws(f) or f.asks_for_indices:
        return None
    plans = Plans.of(f)
    try:
        if f.settle:
            stand_ins = [np.zeros((1,) * rank, outside_dtype(d)) for d, rank in types]
            f = f.at(list(given(plans, letters, stand_ins, floats, integers).values()))
        structs: dict[str, DataDecl] = {}
        params: list[str] = []
        passed: list[str] = []
        arrays = iter(zip(types, batched, strict=True))
        for p, plan, own in zip(f.decl.params, plans.params, letters.split(NEXT), strict=True):
            if own == DEFAULT:
                continue
            names: list[str] = []
            for letter in own:
                name = f"x{len(params)}"
                if letter == ARRAY:
                    (dtype, rank), over = next(arrays)
                    axes = ", ".join([*([COUNT] if over else []), *["_"] * rank])
                    params.append(f"{name}: {dtype}" + (f"[{axes}]" if axes else ""))
                    names.append(f"{name}[{AT}]" if over else name)
                else:
                    number = ty.resolve(p.local.type)
                    if plan is not None or not isinstance(number, ty.TypeCon):
                        return None
                    is_size = p.local.size is not None and not p.local.size.opened
                    params.append(f"{name}: {'size' if is_size else number.name}")
                    names.append(name)
            argument = _written(plan, iter(names), structs)
            passed.append(f"{p.local.name} = {argument}" if DEFAULT in letters else argument)
        text = f"fn vmap({', '.join(params)}) = {_body(', '.join(passed), list(paths(plans.result)))}"
        entry = of_language(f.program.checked, f.expression, f.decl, f.settle).entry
    except DlangError:
        return None
    made, found = check_function(f.program.checked, Source("<vmap>", text), structs, {CALLED: entry}, trusted=True)
    if made is None or found or made.constraints:
        return None
    assert made.body is not None
    made.kind, made.body = "call", _unwritten(made.body, f.decl.span)
    try:  # where sizes of results are computed on the way, elements may differ in size
        f.program.prepare(made, {v: poly(0) for v in made.variables})
    except DlangError:
        return None
    return Function(f.program, made, f"vmap of {f.expression}: {text}", False)


def _unwritten(e: core.Expr, span: Span) -> core.Expr:
    """The body, whose place in messages is that of the function that it calls: nobody wrote it."""
    match e:
        case core.Comprehension(element=element):
            return replace(e, span=span, element=unwritten(element, span))
        case core.BlockExpr(statements=(core.Let() as made, *rest)):
            return replace(e, statements=(replace(made, value=_unwritten(made.value, span)), *rest))
    return e


def each_leaf(letters: str) -> str:
    """The letters of a call where each leaf is a parameter."""
    return NEXT.join(letters.replace(NEXT, "").replace(DEFAULT, ""))


def _body(passed: str, paths: Sequence[str]) -> str:
    made = f"[{CALLED}({passed}) for {AT} < {COUNT}]"
    if paths == [""]:
        return made
    leaves = ", ".join(f"[made[{AT}]{path} for {AT} < {COUNT}]" for path in paths)
    return f"{{\n  let made = {made}\n  ({leaves})\n}}"


def _written(plan: Plan, leaves: Iterator[str], structs: dict[str, DataDecl]) -> str:
    """An argument of its leaves. structs: gets those that it mentions."""
    if plan is None:
        return next(leaves)
    if isinstance(plan, tuple):
        items = "".join([f"{_written(p, leaves, structs)}, " for p in plan])
        return f"({items})"
    decl = declaration_of(plan.type)
    assert decl is not None
    structs[decl.name] = decl
    pairs = zip(written_fields(plan.type), plan.items, strict=True)
    return f"{decl.name}({', '.join(f'{name} = {_written(p, leaves, structs)}' for name, p in pairs)})"

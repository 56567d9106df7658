"""Sums the bytes that derivatives save between their forward and backward passes, as polynomials of the sizes.

For `dlc ir --costs`. A loop saves the same in each of its iterations, or a node whose arrays may differ; what is saved
outside of loops is one sum.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from dlang.ad.loop import ITERATION
from dlang.ad.rematerialise import Rematerialiser, bytes_of, sum_of
from dlang.ad.scope import ArmWithAdjoint
from dlang.diagnostics import Span
from dlang.ir import anf
from dlang.ir.printer import written_sizes
from dlang.ir.sizes import defined_sizes
from dlang.ir.traverse import free_vars, pruned_block, walk
from dlang.ir.writes import How, links
from dlang.polynomials import Poly


@dataclass(frozen=True, slots=True)
class Saved:
    """bytes: in each of the iterations of a loop (None: of a number that is known only when it has run), or once.

    span: of the loop; None outside of loops.
    """

    bytes: anf.Size
    span: Span | None = None
    iterations: anf.Size | None = None


@dataclass(frozen=True, slots=True)
class Residuals:
    """The residuals of a function's derivative: in loops, and once. params: of the function, for the names of sizes.

    again: what its backward pass makes anew where a loop was taken apart, at one time. recomputed: what is not saved
    because it is cheaper to compute it again.
    """

    label: str
    params: tuple[anf.Var, ...]
    loops: tuple[Saved, ...]
    once: anf.Size
    again: anf.Size
    recomputed: tuple[Rematerialiser, ...]


def residuals(
    label: str,
    params: Sequence[anf.Var],
    forward: Sequence[anf.Let],
    backward: anf.Block,
    arms: Sequence[ArmWithAdjoint],
    datatypes: Mapping[str, anf.Datatype],
    recomputed: Iterable[Rematerialiser],
) -> Residuals:
    """The values that a forward pass leaves for the backward pass, and arms for their adjoints."""
    forward = [*forward, *(let for a in arms for let in a.forward)]
    adjoints = [backward, *(pruned_block(a.adjoint) for a in arms)]
    cotangents = {v for a in arms for v in a.cotangents}
    makers = {v: let for let in forward for v in let.vars if v not in cotangents}
    sizes = _closed(defined_sizes(forward) | _iterations(forward))
    loops: dict[anf.Var, list[anf.Size]] = {}
    nodes: list[Saved] = []
    once: anf.Size = Poly({})
    for v in dict.fromkeys(v for block in adjoints for v in free_vars(block)):
        let = makers.get(v)
        if let is None or isinstance(v.type, anf.Token):
            continue
        if isinstance(let.op, anf.For | anf.While) and _is_list(v.type, datatypes):
            assert isinstance(v.type, anf.Scalar)
            fields = datatypes[v.type.dtype].variants[ITERATION].fields
            nodes.append(Saved(sum_of(bytes_of(f.type) for f in fields), let.span))
        elif isinstance(let.op, anf.For) and _is_tape(let, v, makers):
            loops.setdefault(let.vars[0], []).append(bytes_of(v.type).substitute(sizes.get))
        else:
            once = once + bytes_of(v.type).substitute(sizes.get)
    by_loop = []
    for first, parts in loops.items():
        let = makers[first]
        assert isinstance(let.op, anf.For)
        iterations = (let.op.high - let.op.low).substitute(sizes.get)
        each, at_start = _by_iteration(sum_of(parts), iterations, let.span)
        by_loop.append(each)
        once = once + at_start
    lets = [let for block in adjoints for let in walk(block)]
    again = sum_of(bytes_of(let.vars[0].type) for let in lets if isinstance(let.op, anf.Empty))
    less = [
        Rematerialiser(a.bytes.substitute(sizes.get), a.operations.substitute(sizes.get), a.span) for a in recomputed
    ]
    return Residuals(label, tuple(params), (*by_loop, *nodes), once, again, tuple(less))


def written(s: Residuals) -> str:
    """A line for each loop, one for the rest."""
    params, size = written_sizes(s.params)
    lines = [f"# the derivative of {s.label}({params}) saves"]
    for each in s.loops:
        at = f"  # {each.span!r}" if each.span is not None else ""
        amount = f"{size(each.bytes)} bytes"
        if each.iterations is None:
            lines.append(f"#   {amount} in a node for each iteration of a loop{at}")
        else:
            lines.append(f"#   {amount} in each of {size(each.iterations)} iterations of a loop{at}")
    if s.once.terms:
        lines.append(f"#   {size(s.once)} bytes outside of loops")
    for less in s.recomputed:
        at = f"  # {less.span!r}" if less.span is not None else ""
        operations = f"{size(less.operations)} operations compute them again"
        lines.append(f"#   not {size(less.bytes)} bytes more: {operations}{at}")
    if s.again.terms:
        lines.append(f"#   {size(s.again)} bytes at one time where a loop runs again")
    counted = [e.bytes * e.iterations for e in s.loops if e.iterations is not None]
    more = " and these nodes" if len(counted) < len(s.loops) else ""
    lines.append(f"#   {size(sum_of([s.once, *counted]))} bytes in all{more}")
    return "\n".join(lines)


def _by_iteration(total: anf.Size, iterations: anf.Size, span: Span | None) -> tuple[Saved, anf.Size]:
    """The bytes of an iteration, and what there is beside as many times that as there are iterations, the state at the
    start.

    If they are not in proportion to the iterations: those of the loop, once.
    """
    names = list(dict.fromkeys(iterations.atoms()))
    if not names:
        return Saved(total, span, anf.poly(1)), Poly({})
    v = names[0]
    if any(m.count(v) > 1 for m in total.terms):
        return Saved(total, span, anf.poly(1)), Poly({})
    share = total.coefficient(v)
    remainder = total - share * iterations
    if iterations.coefficient(v) == anf.poly(1) and not remainder.mentions((v,)):
        return Saved(share, span, iterations), remainder
    return Saved(total, span, anf.poly(1)), Poly({})


def _is_tape(let: anf.Let, var: anf.Var, makers: Mapping[anf.Var, anf.Let]) -> bool:
    """Tells whether a variable is an array that a loop fills, of which the first row may have been filled before."""
    assert isinstance(let.op, anf.For)
    start: anf.Atom | None = let.op.init[let.vars.index(var)]
    if isinstance(start, anf.Var) and start in makers:
        changed = {var: source for var, source, how in links(makers[start]) if how is How.CHANGED}
        start = changed.get(start, start)
    return isinstance(start, anf.Var) and start in makers and isinstance(makers[start].op, anf.Empty)


def _is_list(type: anf.Type, datatypes: Mapping[str, anf.Datatype]) -> bool:
    return isinstance(type, anf.Scalar) and type.dtype.startswith("iterations.") and type.dtype in datatypes


def _iterations(lets: Sequence[anf.Let]) -> dict[anf.Var, anf.Size]:
    """Maps each maximum of a number and 0 to that number."""
    return {
        let.vars[0]: anf.poly(let.op.args[0])
        for let in lets
        if isinstance(let.op, anf.Prim) and let.op.name == "maximum" and let.op.args[1] == anf.Lit(0, "i64")
    }


def _closed(sizes: Mapping[anf.Var, anf.Size]) -> dict[anf.Var, anf.Size]:
    """The polynomials in terms of what is no polynomial of others."""
    out = dict(sizes)
    for _ in range(4):
        out = {v: size.substitute(out.get) for v, size in out.items()}
    return out

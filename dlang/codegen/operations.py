"""Operations on whole arrays that are not comprehensions, and effects.

The host writes numbers and arrays as texts; texts are joined without it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeVar

from dlang.codegen import lapack, loops
from dlang.codegen.blocks import Scheduler
from dlang.codegen.loops import Convert, Runtime, TextOp
from dlang.codegen.memory import Place, whole
from dlang.codegen.nests import identity
from dlang.diagnostics import Span
from dlang.ir import anf
from dlang.ir.anf import Array, Atom, Let, Lit, Scalar, Var, fresh, poly
from dlang.ir.kernels import is_kernel, no_device
from dlang.ir.substitution import substitute
from dlang.ir.terms import ZERO
from dlang.ir.traverse import free_vars, walk
from dlang.ir.types import I64, STR, dtype_of, product
from dlang.ops.monoids import COMBINE


def scan(s: Scheduler, monoid: str, source: Place, target: Place) -> None:
    """Emits running sums or products of a vector."""
    dtype = source.buffer.dtype
    index, total = fresh("i", I64), fresh("total", Scalar(dtype))
    x, value, last = (fresh(name, Scalar(dtype)) for name in ("x", "total", "total"))
    stmts: tuple[loops.Stmt, ...] = (
        loops.Load(x, source.buffer, source.at((poly(index),))),
        loops.Compute(value, COMBINE[monoid], (total, x)),
        loops.Store(target.buffer, target.at((poly(index),)), value),
    )
    init = (identity(monoid, dtype),)
    s.out.append(loops.For(index, ZERO, source.shape[0], (total,), init, loops.Body(stmts, (value,)), (last,)))


def concat(s: Scheduler, arrays: Sequence[Var], target: Place) -> None:
    """Emits copies of arrays, one behind the other along their first axis."""
    start = ZERO
    row = product(target.shape[1:])
    assert target.start is not None
    for array in arrays:
        place = s.place(array)
        s.copy(place, Place(target.buffer, place.shape, (), ZERO, target.start + start * row))
        start = start + place.shape[0]


def compact(s: Scheduler, mask: Place, vars: Sequence[Var]) -> None:
    """Emits the count and the positions of what is true in a vector."""
    count, positions = vars
    i, j, at, following, last = (fresh(name, I64) for name in ("i", "j", "at", "at", "at"))
    flag, other = fresh("flag", Scalar("bool")), fresh("flag", Scalar("bool"))
    one, step = fresh("one", I64), fresh("one", I64)
    size = mask.shape[0]
    s.loop(
        i,
        (ZERO,),
        (size,),
        [loops.Load(flag, mask.buffer, mask.at((poly(i),))), loops.Convert(one, flag)],
        [loops.Reduction("sum", count, one)],
    )
    # each position is written to the next free element, where the following one replaces it unless the flag is set
    buffer = s.allocate("positions", Array("i64", (poly(count),)), extra=1)
    stmts: tuple[loops.Stmt, ...] = (
        loops.Load(other, mask.buffer, mask.at((poly(j),))),
        loops.Store(buffer, poly(at), j),
        loops.Convert(step, other),
        loops.Compute(following, "add", (at, step)),
    )
    s.out.append(loops.For(j, ZERO, size, (at,), (Lit(0, "i64"),), loops.Body(stmts, (following,)), (last,)))
    s.memory.settle(positions, whole(buffer, (poly(count),)))


def library(s: Scheduler, let: Let, op: anf.LinalgOp) -> None:
    """Emits an operation of a library: calls from compiled code, or work of the host where that can't be."""
    args = s.operands(op.args)
    outs: list[loops.ArrayValue] = []
    for var in let.vars:
        if isinstance(var.type, Array):
            target = s.target(var)
            outs.append(loops.ArrayValue(s.address(target), target.shape))
    results = tuple(v for v in let.vars if isinstance(v.type, Scalar))

    def host(to: Sequence[Var]) -> loops.Runtime:
        return loops.Runtime("library", (op.name,), args, tuple(outs), tuple(to), let.span)

    if s.device or not lapack.has(op.name, dtype_of(op.args[0])):
        s.out.append(host(results))
        return
    with s.collect() as stmts:
        done = lapack.directly(s, op.name, args, outs)
    direct = loops.Body(tuple(stmts), done.scalars)
    if done.asked is not None:  # a routine that found no workspace
        direct = _or_host(direct, done.asked, host)
    fits = lapack.fits(s, op.name, (*args, *outs))
    if isinstance(fits, Lit) and fits.value:
        s.out += direct.stmts
        for var, value in zip(results, direct.results, strict=True):
            assert isinstance(value, Var | Lit)
            s.out.append(loops.Convert(var, value))
        return
    others = [fresh(v.name, v.type) for v in results]
    s.out.append(loops.Branch(fits, direct, loops.Body((host(others),), tuple(others)), results))


def _or_host(body: loops.Body, asked: Var, host: Callable[[Sequence[Var]], loops.Runtime]) -> loops.Body:
    failed = fresh("failed", Scalar("bool"))
    others, results = ([fresh("info", I64) for _ in body.results] for _ in range(2))
    branch = loops.Branch(
        failed, loops.Body((host(others),), tuple(others)), loops.Body((), body.results), tuple(results)
    )
    test = loops.Compute(failed, "lt", (asked, Lit(lapack.NO_WORKSPACE, "i64")))
    return loops.Body((*body.stmts, test, branch), tuple(results))


def effect(s: Scheduler, let: Let, op: anf.Effect) -> None:
    """Emits what the world sees."""
    if op.name == "foreign":
        foreign(s, op.static[0], op.args, let.vars[1:], let.span)
    else:
        host(s, op.name, op.static, op.args, let.vars[1:], let.span)


def foreign(s: Scheduler, target: str, args: Sequence[Atom], vars: Sequence[Var], span: Span | None) -> None:
    """A function of Python is called by the host, one of C directly."""
    kernel = is_kernel(target)
    if not kernel and not target.startswith("c:"):
        host(s, "foreign", (target,), args, vars, span)
        return
    if kernel and not s.device:
        raise no_device(target, span)
    values = [v for v in map(s.value, args) if v is not None]
    shapes = [a.type.shape for a in args if isinstance(a.type, Array)]
    result: Var | None = None
    for var in vars:
        if isinstance(var.type, Array):
            values.append(s.address(s.target(var)))
            shapes.append(var.type.shape)
        else:
            result = var
    arrays = [v.type for v in vars if isinstance(v.type, Array)]
    threads = product(arrays[0].shape) if kernel and arrays else None
    s.out.append(loops.CallC(target, tuple(values), result, threads, span, tuple(map(product, shapes))))


def host(
    s: Scheduler, name: str, static: tuple[str, ...], args: Sequence[Atom], vars: Sequence[Var], span: Span | None
) -> None:
    """Work of the host that gives its results back."""
    results: list[loops.Slot] = []
    for var in vars:
        if isinstance(var.type, Array):
            s.own_result(var, results)
        else:
            results.append(var)
            s.flats.add(var)
    s.out.append(loops.Runtime(name, static, s.operands(args), (), tuple(results), span))


# ---- texts -----------------------------------------------------------------------------------------------------------
Repeated = TypeVar("Repeated", bound=anf.Comp | anf.For | anf.While)


def flat_inside(s: Scheduler, op: Repeated) -> Repeated:
    """A loop, in order or not, that puts texts from outside into arrays and nodes: these become flat in front of it, so
    that all iterations share one."""
    if not s.nodes.joins:
        return op
    ops = [op, *(let.op for let in walk(op.body))]
    kept = [value for inner in ops for value in _kept(inner)]
    if not any(isinstance(v, Var) and v.type == STR for v in kept):
        return op
    outside = set(free_vars(op)) - s.flats
    values = [*kept, *(v for inner in ops for v in _chosen(inner))]
    texts = dict.fromkeys(v for v in values if isinstance(v, Var) and v.type == STR and v in outside)
    return replace(op, body=substitute(op.body, {v: s.flat(v) for v in texts})) if texts else op


def _kept(op: anf.Op) -> tuple[Atom, ...]:
    """Lists the values that an operation puts into an array or a node."""
    match op:
        case anf.Construct(args=args):
            return args
        case anf.Update(value=value):
            return (value,)
        case anf.Comp(body=body):
            return body.results
        case _:
            return ()


def _chosen(op: anf.Op) -> tuple[Atom, ...]:
    """Lists the values that the result of an operation may be."""
    match op:
        case anf.If(then=then, otherwise=otherwise):
            return (*then.results, *otherwise.results)
        case anf.Prim("select", args):
            return args[1:]
        case _:
            return ()


def formatted(s: Scheduler, parts: Sequence[str], args: Sequence[Atom], var: Var, span: Span | None) -> None:
    """Emits the text of values with literal text around them. Texts that are written as they are become its parts."""
    pieces: list[Atom] = []
    words, values = [parts[0]], list[Atom]()

    def finish() -> None:
        if values:
            joined = fresh("text", STR)
            s.out.append(Runtime("format", tuple(words), s.operands(values), (), (joined,), span))
            s.flats.add(joined)
            pieces.append(joined)
        elif words[0]:
            pieces.append(Lit(words[0], "str"))

    for arg, spec, text in zip(args, parts[1::2], parts[2::2], strict=True):
        if arg.type == STR and not spec:
            finish()
            pieces.append(arg)
            words, values = [text], []
        else:
            values.append(arg)
            words += [spec, text]
    finish()
    if len(pieces) > 1:
        s.out.append(TextOp(var, "join", tuple(pieces), span))
        return
    whole = pieces[0] if pieces else Lit("", "str")
    s.out.append(Convert(var, whole))
    if isinstance(whole, Lit) or whole in s.flats:
        s.flats.add(var)

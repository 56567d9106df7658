"""Derivatives at log(0), where sums of probabilities are computed by their logarithms.

log Σ exp(a + log p) is smooth in p at 0, but its derivative there is a product of exp(-∞) = 0 and 1 / 0, of which the
rule for such products makes 0 in reverse mode, and NaN comes out in forward mode. No rule for one operation knows
better: what the 0 was, e^a p or anything else, is lost in the logarithm. So where a function takes the logarithm of a
zero on the way to an exponential, its derivative is computed twice more, with tiny numbers in the place of the zeros:

    p = t: exp(a + log t) / t = e^a, in which rounding is all that is lost

If two numbers of different magnitude lead to one derivative, this is the limit; so is 0 if it becomes smaller with the
number. Else, because the limit is not finite, or a choice hid the zero, the derivative stays what it was.

This is for first derivatives; the function notes by itself whether it has met a zero, and costs no more where it has
not.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import replace

from dlang.ad.activity import active_vars
from dlang.ad.adjoints import local_tapes
from dlang.ad.inlining import functions_that_stay, inlined_where_active, unused
from dlang.ir import anf
from dlang.ir.builder import Builder
from dlang.ir.marks import is_mark
from dlang.ir.rewriting import Rewriter
from dlang.ir.substitution import Renaming
from dlang.ir.traverse import map_blocks, named_function, type_vars, walk, with_lets
from dlang.ir.types import BOOL, I64, array_type, dtype_of, is_float

# In the place of a zero, in two runs: so small that nothing else notices, with room for factors that are as small.
TINY = {"f64": (2.0**-600, 2.0**-300), "f32": (2.0**-60, 2.0**-30)}
SAME = {"f64": 1e-9, "f32": 1e-4}  # how far two derivatives are apart, relatively, that are one


def with_limits(program: anf.Program) -> anf.Program:
    """The program with first derivatives that look for limits at logarithms of zero; it has its derivatives still."""
    differentiated = _reached_from_derivatives(program)
    functions = dict(program.functions)
    limits = _Limits(program, functions)
    for name, f in program.functions.items():
        if name not in differentiated:
            body = limits.block(f.body)
            if body is not f.body:
                functions[name] = replace(f, body=body)
    same = len(functions) == len(program.functions)
    return program if same else replace(program, functions=functions)


def _reached_from_derivatives(program: anf.Program) -> set[str]:
    """The functions that are differentiated, and those that they call or differentiate."""
    reached: set[str] = set()
    work = [let.op.function for f in program.functions.values() for let in walk(f.body)
            if isinstance(let.op, anf.Derivative) and not isinstance(let.op, anf.VjpBackward)]  # fmt: skip
    while work:
        name = work.pop()
        if name not in reached:
            reached.add(name)
            work += [callee for let in walk(program.functions[name].body) if (callee := named_function(let.op))]
    return reached


class _Limits(Rewriter):
    """The walk of all functions that are not differentiated.

    made: of a function and the parameters in which it is differentiated, the function that notes zeros, and that
    with tiny numbers in their place; None where it meets none on the way to an exponential. local: the datatypes of
    tapes that only pulls of their function see. kept: the functions that are not inlined. records: by their tape the
    forward halves so far, and what they noted.
    """

    def __init__(self, program: anf.Program, functions: dict[str, anf.Function]) -> None:
        super().__init__()
        self.program, self.functions = program, functions
        self.made: dict[tuple[str, tuple[int, ...]], tuple[str, str] | None] = {}
        self.local = local_tapes(program)
        self.kept = functions_that_stay(program) | {f.name for f in program.functions.values() if f.rules is not None}
        self.records: dict[anf.Atom, tuple[anf.VjpForward, anf.Var]] = {}

    def rule(self, let: anf.Let) -> None:
        match let.op:
            case anf.Vjp() | anf.Jvp() as op if (names := self.functions_of(op)) is not None:
                self.derivative(let, op, *names)
            case anf.VjpForward() as op if op.tape in self.local and (names := self.functions_of(op)) is not None:
                *values, tape = let.vars
                zero = anf.fresh("zero", BOOL)
                noting = replace(op, function=names[0], seeded=(*op.seeded, False))
                self.write(anf.Let((*values, zero, tape), noting, let.span))
                self.records[tape] = op, zero
            case anf.VjpBackward() as op if op.tape in self.records:
                self.vjp_backward(let, op, *self.records[op.tape])
            case _:
                super().rule(let)

    def functions_of(self, op: anf.Vjp | anf.Jvp | anf.VjpForward) -> tuple[str, str] | None:
        wrt = tuple([k for k, t in enumerate(op.tangents) if t is not None]) if isinstance(op, anf.Jvp) else op.wrt
        key = op.function, wrt
        if key not in self.made:
            self.made[key] = self.make(self.program.functions[op.function], wrt)
        return self.made[key]

    def make(self, f: anf.Function, wrt: tuple[int, ...]) -> tuple[str, str] | None:
        if not _is_simple(f):
            return None
        seeded = [is_float(r.type) for r in f.results]
        inputs, held = [f.params[k] for k in wrt], set(self.program.datatypes)
        f = replace(f, body=inlined_where_active(self.program, f.body, inputs, seeded, self.kept, held))
        logarithms = _to_exponentials(f.body, inputs, seeded)
        if not logarithms:
            return None
        noting, shifted = unused(f"{f.name}_noting", self.functions), unused(f"{f.name}_shifted", self.functions)
        lets, zero = _noted(f.body.lets, logarithms)
        body = anf.Block(tuple(lets), (*f.body.results, zero))
        self.functions[noting] = _copy(f, noting, body, results=(*f.results, anf.fresh("zero", BOOL)))
        run = anf.fresh("run", I64)
        b = Builder(self.functions, f.span)
        with b.scope() as first:
            is_second = b.prim("eq", run, anf.Lit(1, "i64"))
            tiny = {
                dtype: b.select(is_second, anf.Lit(small, dtype), anf.Lit(smaller, dtype))
                for dtype, (smaller, small) in TINY.items()
            }
        body = anf.Block((*first, *_shifted(b, f.body, logarithms, tiny).lets), f.body.results)
        self.functions[shifted] = _copy(f, shifted, body, params=(*f.params, run))
        return noting, shifted

    def derivative(self, let: anf.Let, op: anf.Vjp | anf.Jvp, noting: str, shifted: str) -> None:
        """Writes the derivative of what notes zeros, and where it has met one the limit, if there is one."""
        count = len(self.program.functions[op.function].results)
        values, slopes = let.vars[:count], let.vars[count:]
        b, zero = Builder(self.functions, let.span), anf.fresh("zero", BOOL)
        at_zero = tuple([anf.fresh(v.name, v.type) for v in slopes])

        if isinstance(op, anf.Vjp):
            first: anf.Vjp | anf.Jvp = replace(op, function=noting, cotangents=(*op.cotangents, None))
        else:
            first = replace(op, function=noting)

        def again(run: anf.Var) -> tuple[anf.Var, ...]:
            if isinstance(op, anf.Vjp):
                return b.vjp(shifted, (*op.args, run), op.wrt, op.cotangents)[count:]
            return b.jvp(shifted, (*op.args, run), (*op.tangents, None))[count:]

        with b.scope() as lets:
            b.emit_as((*values, zero, *at_zero), first)
            _emit_limits(b, slopes, at_zero, zero, again)
        self.lets += lets

    def vjp_backward(self, let: anf.Let, op: anf.VjpBackward, record: anf.VjpForward, zero: anf.Var) -> None:
        """Writes the backward half of what noted zeros; where it has met one, the function runs forward again, too."""
        names = self.functions_of(record)
        assert names is not None
        noting, shifted = names
        count = len(self.program.functions[op.function].results)
        b = Builder(self.functions, let.span)
        first = replace(op, function=noting, cotangents=(*op.cotangents, None), seeded=(*op.seeded, False))
        if [v.type for v in let.vars] != [record.args[k].type for k in record.wrt]:
            self.keep(let, first)  # who pulls writes the sizes in another way
            return
        at_zero = tuple([anf.fresh(v.name, v.type) for v in let.vars])

        def again(run: anf.Var) -> tuple[anf.Var, ...]:
            return b.vjp(shifted, (*record.args, run), record.wrt, op.cotangents)[count:]

        with b.scope() as lets:
            b.emit_as(at_zero, first)
            _emit_limits(b, let.vars, at_zero, zero, again)
        self.lets += lets


def _emit_limits(
    b: Builder,
    slopes: Sequence[anf.Var],
    at_zero: Sequence[anf.Var],
    zero: anf.Var,
    again: Callable[[anf.Var], Sequence[anf.Atom]],
) -> None:
    """Binds a derivative: what was found, or where zeros were met the limits of two runs."""
    n = len(slopes)

    def limits() -> list[anf.Atom]:
        near = b.for_(0, 2, [*at_zero, *at_zero], lambda run, *state: [*state[n:], *again(run)])
        return [_limit(b, *each) for each in zip(at_zero, near[:n], near[n:], strict=True)]

    b.emit_as(slopes, anf.If(zero, b.block(limits), anf.Block((), tuple(at_zero)), cold=True))


def _to_exponentials(body: anf.Block, inputs: Sequence[anf.Var], seeded: Sequence[bool]) -> set[anf.Var]:
    """The logarithms that are differentiated and that some exponential depends on."""
    active = active_vars(body, inputs, seeded)
    lets = list(walk(body))
    logarithms = {let.vars[0] for let in lets if _is(let, "log") and let.vars[0] in active}
    logarithms = {v for v in logarithms if dtype_of(v) in TINY}
    if not any(_is(let, "exp") for let in lets):
        return set()
    varied = active_vars(body, logarithms, seeded)
    reached = any(_is(let, "exp") and isinstance(let.op, anf.Prim) and let.op.args[0] in varied for let in lets)
    return logarithms if reached else set()


def _is(let: anf.Let, name: str) -> bool:
    return isinstance(let.op, anf.Prim) and let.op.name == name


def _is_simple(f: anf.Function) -> bool:
    """Tells whether a function may run again: it has no effects, rules, data, or sizes that only its run determines."""
    if f.rules is not None or any(isinstance(let.op, anf.Derivative) for let in walk(f.body)):
        return False
    vars = (*f.params, *f.results)
    if any(isinstance(v.type, anf.Token) or anf.is_handle(dtype_of(v)) for v in vars):
        return False
    return set(f.results).isdisjoint(v for r in f.results for v in type_vars(r.type))


def _copy(
    f: anf.Function,
    name: str,
    body: anf.Block,
    params: tuple[anf.Var, ...] | None = None,
    results: tuple[anf.Var, ...] | None = None,
) -> anf.Function:
    """A function like another, in variables of its own."""
    renaming = Renaming({}, renew=True)
    fresh_params = tuple(map(renaming.bind, f.params if params is None else params))
    formals = Renaming(renaming.env, renew=True)
    fresh_results = tuple(map(formals.bind, f.results if results is None else results))
    sizes = renaming.size_params(f).intersection(fresh_params)
    return replace(f, name=name, params=fresh_params, results=fresh_results, body=renaming.block(body), sizes=sizes)


def _noted(lets: Sequence[anf.Let], logarithms: Set[anf.Var]) -> tuple[list[anf.Let], anf.Atom]:
    """Lets that also bind whether one of these logarithms is of zero, and this."""
    out: list[anf.Let] = []
    any_met: anf.Atom = anf.Lit(False, "bool")

    def either(x: anf.Atom, y: anf.Atom, to: list[anf.Let]) -> anf.Atom:
        if isinstance(x, anf.Lit) or isinstance(y, anf.Lit):
            return y if isinstance(x, anf.Lit) else x
        to.append(anf.Let((both := anf.fresh("zero", BOOL),), anf.Prim("or", (x, y))))
        return both

    for let in lets:
        match let.op:
            case anf.Prim("log", (x,)) if let.vars[0] in logarithms:
                is_zero = anf.fresh("zero", BOOL)
                out += [let, anf.Let((is_zero,), anf.Prim("eq", (x, anf.Lit(0.0, dtype_of(x)))))]
                any_met = either(any_met, is_zero, out)
            case anf.Comp(axes, body, destinations):
                inner, zero = _noted(body.lets, logarithms)
                if isinstance(zero, anf.Lit):
                    out.append(let)
                    continue
                any_zero = anf.fresh("zero", BOOL)
                noting = anf.Comp(
                    axes, anf.Block(tuple(inner), (*body.results, zero)), (*destinations, anf.Reduce((), (), "any"))
                )
                out.append(anf.Let((*let.vars, any_zero), noting, let.span))
                any_met = either(any_met, any_zero, out)
            case anf.If(condition, then, otherwise, cold=cold):
                arms = [_noted(arm.lets, logarithms) for arm in (then, otherwise)]
                if all(isinstance(zero, anf.Lit) for _, zero in arms):
                    out.append(let)
                    continue
                blocks = [
                    anf.Block(tuple(inner), (*arm.results, zero))
                    for (inner, zero), arm in zip(arms, (then, otherwise), strict=True)
                ]
                out.append(
                    anf.Let(
                        (*let.vars, is_zero := anf.fresh("zero", BOOL)), anf.If(condition, *blocks, cold=cold), let.span
                    )
                )
                any_met = either(any_met, is_zero, out)
            case anf.For() | anf.While() as loop:
                inner, zero = _noted(loop.body.lets, logarithms)
                if isinstance(zero, anf.Lit):
                    out.append(let)
                    continue
                before = anf.fresh("zero", BOOL)
                after = either(before, zero, inner)
                noted = replace(
                    loop,
                    params=(*loop.params, before),
                    init=(*loop.init, anf.Lit(False, "bool")),
                    body=anf.Block(tuple(inner), (*loop.body.results, after)),
                )
                out.append(anf.Let((*let.vars, last := anf.fresh("zero", BOOL)), noted, let.span))
                any_met = either(any_met, last, out)
            case _:
                out.append(let)
    return out, any_met


def _shifted(b: Builder, block: anf.Block, logarithms: Set[anf.Var], tiny: Mapping[str, anf.Atom]) -> anf.Block:
    """A block with tiny numbers added to the zeros of which it takes logarithms; nobody follows it step by step."""
    lets: list[anf.Let] = []
    for let in block.lets:
        match let.op:
            case anf.Prim("log", (x,)) if let.vars[0] in logarithms:
                zero = anf.Lit(0.0, dtype_of(x))
                with b.scope() as more:
                    there = b.add(x, b.select(b.prim("eq", x, zero), tiny[dtype_of(x)], zero))
                lets += [*more, anf.Let(let.vars, anf.Prim("log", (there,)), let.span)]
            case anf.Assert() as mark if is_mark(mark):
                lets.append(anf.Let(let.vars, replace(mark, code="E0706", parts=("",), values=()), let.span))
            case op:
                new = map_blocks(op, lambda inner: _shifted(b, inner, logarithms, tiny))
                lets.append(let if new is op else anf.Let(let.vars, new, let.span))
    return with_lets(block, lets, block.results)


def _limit(b: Builder, before: anf.Var, near: anf.Var, nearer: anf.Var) -> anf.Atom:
    """The derivative that two runs agree about, else what it was before."""

    def of(x: anf.Atom, y: anf.Atom, z: anf.Atom) -> anf.Atom:
        far = b.prim("abs", b.sub(y, z))
        size = b.prim("abs", y)
        same = b.prim("le", far, b.mul(size, anf.Lit(SAME[dtype_of(y)], dtype_of(y))))
        vanishes = b.prim("le", size, b.mul(b.prim("abs", z), anf.Lit(TINY[dtype_of(y)][1] ** 0.5, dtype_of(y))))
        vanishes = b.prim("and", vanishes, b.prim("lt", b.prim("abs", z), anf.Lit(1.0, dtype_of(y))))
        return b.select(same, y, b.select(vanishes, anf.Lit(0.0, dtype_of(y)), x))

    if isinstance(before.type, anf.Array):
        shape = array_type(before).shape
        return b.map(
            shape, lambda *i: of(*[b.one(anf.Read(v, tuple(map(anf.poly, i)))) for v in (before, near, nearer)])
        )
    return of(before, near, nearer)

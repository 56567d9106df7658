"""Replaces `Vjp(f, …)` by calls of functions that compute the values of f and cotangents of its arguments in one body.

The innermost derivatives go first: those of functions that have none inside themselves. What comes out are ordinary
operations, so the outer derivatives go the same way.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from dlang.ad.activity import active_node, active_vars
from dlang.ad.reverse import pull_block
from dlang.ad.scope import Scope
from dlang.diagnostics import error
from dlang.ir.affine import Knowledge
from dlang.ir.anf import (
    Array,
    Atom,
    Block,
    Call,
    Function,
    Jvp,
    Let,
    Program,
    Size,
    SizeOf,
    Token,
    Type,
    Var,
    Vjp,
    fresh,
)
from dlang.ir.builder import Builder
from dlang.ir.errors import IRError
from dlang.ir.traverse import Renaming, inlined, map_blocks, rebuild, refresh, walk
from dlang.ir.types import I64, is_float
from dlang.optimize.distribute import distribute_function

MOST = 1000  # rounds of `expand`: each removes a level of nesting


def expand(program: Program, normalise: Callable[[Program], Program] = lambda program: program) -> Program:
    """The program without derivatives; `normalise` is applied after every round."""
    for _ in range(MOST):
        expanded = expand_innermost(program)
        if expanded is None:
            return program
        program = normalise(expanded)
    raise IRError("derivatives are nested too deeply")


def expand_innermost(program: Program) -> Program | None:
    """The program with each innermost `Vjp` replaced by a call; None if it has no derivative."""
    plain = _without_derivatives(program)
    functions = dict(program.functions)
    made: dict[tuple[object, ...], _Derivative] = {}
    found = False

    def block(b: Block) -> Block:
        nonlocal found
        lets: list[Let] = []
        for let in b.lets:
            op = let.op
            if isinstance(op, Vjp) and op.function in plain:
                found = True
                key = op.function, op.wrt, tuple(c is not None for c in op.cotangents)
                if key not in made:
                    made[key] = _derivative(program, functions, op)
                    functions[made[key].function.name] = made[key].function
                lets += _call(made[key], let, op)
            else:
                lets.append(Let(let.vars, map_blocks(op, block), let.span))
        return Block(tuple(lets), b.results)

    for name, f in program.functions.items():
        if any(isinstance(let.op, Vjp) and let.op.function in plain for let in walk(f.body)):
            functions[name] = replace(f, body=block(f.body))
    if found:
        return replace(program, functions=functions)
    if any(isinstance(let.op, Vjp) for f in program.functions.values() for let in walk(f.body)):
        raise IRError("a function is differentiated inside of itself, or contains a forward derivative")
    return None


def _without_derivatives(program: Program) -> set[str]:
    """The functions from which no derivative is reached."""
    callers: dict[str, set[str]] = {}
    work: list[str] = []
    for name, f in program.functions.items():
        for let in walk(f.body):
            if isinstance(let.op, Call):
                callers.setdefault(let.op.function, set()).add(name)
            elif isinstance(let.op, Vjp | Jvp):
                work.append(name)
    reached: set[str] = set()
    while work:
        name = work.pop()
        if name not in reached:
            reached.add(name)
            work += callers.get(name, ())
    return set(program.functions) - reached


@dataclass(frozen=True, slots=True)
class _Derivative:
    """A function of the arguments, of sizes, and of cotangents; gives the results and cotangents.

    sizes: where a cotangent has a size that the function itself computes, it is a parameter and checked: the position
    of the result and of the axis at which the caller finds it.
    """

    function: Function
    sizes: tuple[tuple[int, int], ...]


def _call(derivative: _Derivative, let: Let, op: Vjp) -> list[Let]:
    """The call that stands for a `Vjp`."""
    lets: list[Let] = []
    sizes: list[Atom] = []
    for k, axis in derivative.sizes:
        bar = op.cotangents[k]
        assert bar is not None and isinstance(bar.type, Array)
        size = fresh("n", I64)
        lets.append(Let((size,), SizeOf(bar.type.shape[axis]), let.span))
        sizes.append(size)
    args = (*op.args, *sizes, *(c for c in op.cotangents if c is not None))
    return [*lets, Let(let.vars, Call(derivative.function.name, args), let.span)]


def _without_nodes(program: Program, body: Block, active: set[Var]) -> None:
    """Refuses derivatives that flow through nodes of datatypes."""
    let = active_node(body, active)
    if let is None:
        return
    var = next(v for v in let.vars if v in active and not is_float(v.type))
    assert not isinstance(var.type, Token)
    datatype = program.datatypes.get(var.type.dtype)
    label = datatype.label if datatype is not None else var.type.dtype
    what = "a function chosen when the program runs, of type" if " -> " in label else "values of the type"
    raise error(
        "E0705",
        f"cannot differentiate through {what} `{label}`",
        let.span,
        label="a derivative passes through this value",
        help=("wrap the argument in `stop_gradient`, or keep the numbers in arrays, tuples or structs",),
    )


# ---- one derivative --------------------------------------------------------------------------------------------------
def _derivative(program: Program, taken: dict[str, Function], op: Vjp) -> _Derivative:
    source = program.functions[op.function]
    renaming = Renaming({}, fresh=True)
    params = tuple(renaming.bind(p) for p in source.params)
    wrt = [params[k] for k in op.wrt]
    seeded = [c is not None and is_float(r.type) for c, r in zip(op.cotangents, source.results, strict=True)]
    body = refresh(source.body, renaming.env)
    body = _inlined_where_active(program, body, wrt, seeded)
    body = distribute_function(Function(source.name, params, source.results, body)).body
    sizes, extra, bars = _cotangents(source, renaming, seeded)
    b = Builder(program.functions, source.span)
    known = Knowledge()
    known.saw(p.type for p in params)
    active = active_vars(body, wrt, seeded)
    _without_nodes(program, body, active)
    scope = Scope(b, active, known, pull_block)
    scope.active.update(wrt)
    with b.scope() as backward:
        for atom, bar, formal in zip(body.results, bars, source.results, strict=True):
            if bar is not None:
                scope.add(atom, _checked(b, bar, atom, formal))
        forward = scope.walk(body.lets, scope)
        results = [scope.take(w) for w in wrt]
    block = Block((*forward, *backward), (*body.results, *results))
    name = _unused(f"{source.name}_vjp", taken)
    formals = Renaming(renaming.env, fresh=True)
    outs = [formals.bind(r) for r in source.results] + [fresh(f"{w.name}_bar", w.type) for w in wrt]
    all_params = (*params, *extra, *(bar for bar in bars if bar is not None))
    function = Function(name, all_params, tuple(outs), block, source.label, source.span)
    return _Derivative(function, tuple(sizes))


def _unused(name: str, taken: dict[str, Function]) -> str:
    number, candidate = 1, name
    while candidate in taken:
        number += 1
        candidate = f"{name}{number}"
    return candidate


def _cotangents(
    source: Function, renaming: Renaming, seeded: list[bool]
) -> tuple[list[tuple[int, int]], list[Var], list[Var | None]]:
    """The parameters for cotangents, and for the sizes of these that only the function knows."""
    results = set(source.results)
    env = Renaming(renaming.env)
    sizes: list[tuple[int, int]] = []
    extra: list[Var] = []
    bars: list[Var | None] = []
    for k, (formal, seed) in enumerate(zip(source.results, seeded, strict=True)):
        if not seed:
            bars.append(None)
            continue
        if isinstance(formal.type, Array):
            for axis, size in enumerate(formal.type.shape):
                if size.atom in results and size.atom not in env.env:
                    param = fresh("n", I64)
                    sizes.append((k, axis))
                    extra.append(param)
                    env.env[size.atom] = param
        bars.append(fresh(f"{formal.name}_bar", env.type(formal.type)))
    return sizes, extra, bars


def _checked(b: Builder, bar: Var, atom: Atom, formal: Var) -> Var:
    """The cotangent of a result, of the type of the result: a size that the function computes is checked."""
    if bar.type == atom.type:
        return bar
    assert isinstance(bar.type, Array) and isinstance(atom.type, Array)
    for given, wanted in zip(bar.type.shape, atom.type.shape, strict=True):
        if given != wanted:
            same = b.prim("eq", b.size(given), b.size(wanted))
            values = (b.size(given), b.size(wanted))
            parts = ("a cotangent has the size ", "", " where the result has ", "", "")
            type: Type = _replaced(bar.type, given, wanted)
            (bar,) = b.check(same, "E0706", parts, values, (bar,), (type,))
            assert isinstance(bar.type, Array)
    return bar


def _replaced(type: Array, old: Size, new: Size) -> Array:
    return Array(type.dtype, tuple(new if s == old else s for s in type.shape))


# ---- calls -----------------------------------------------------------------------------------------------------------
def _inlined_where_active(program: Program, body: Block, wrt: list[Var], seeded: list[bool]) -> Block:
    """The body with every call that a derivative passes through inlined, save recursive ones."""
    recursive = _recursive(program)
    while True:
        active = active_vars(body, wrt, seeded)
        chosen = {
            let.vars[0]
            for let in walk(body)
            if isinstance(let.op, Call) and let.op.function not in recursive and any(v in active for v in let.vars)
        }
        if not chosen:
            return body
        body = _Inline(program, chosen).block(body)


class _Inline:
    """Replaces the calls that bind `chosen` by the bodies of the functions."""

    def __init__(self, program: Program, chosen: set[Var]) -> None:
        self.program, self.chosen, self.renaming = program, chosen, Renaming({})

    def block(self, block: Block) -> Block:
        r = self.renaming
        lets: list[Let] = []
        for let in block.lets:
            if isinstance(let.op, Call) and let.vars and let.vars[0] in self.chosen:
                body = inlined(self.program.functions[let.op.function], tuple(r.atom(a) for a in let.op.args), let.span)
                lets += body.lets
                r.env.update(zip(let.vars, body.results, strict=True))
            else:
                op = rebuild(let.op, atom=r.atom, size=r.size, block=self.block, bind=r.bind)
                lets.append(Let(tuple(r.bind(v) for v in let.vars), op, let.span))
        return Block(tuple(lets), tuple(r.atom(a) for a in block.results))


def _recursive(program: Program) -> set[str]:
    """The functions that can reach themselves."""
    called = {
        name: {let.op.function for let in walk(f.body) if isinstance(let.op, Call)}
        for name, f in program.functions.items()
    }
    found = set()
    for name in called:
        seen: set[str] = set()
        work = list(called[name])
        while work:
            callee = work.pop()
            if callee not in seen:
                seen.add(callee)
                work += called.get(callee, ())
        if name in seen:
            found.add(name)
    return found

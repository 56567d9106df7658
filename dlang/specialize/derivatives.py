"""Derivative forms: a call of `grad(f)` becomes a `Vjp` marker of an instance of f, for `ad/` to expand."""

from __future__ import annotations

from dlang.diagnostics import error
from dlang.ir import anf
from dlang.ir.anf import Atom, Lit, Scalar, fresh
from dlang.specialize.dynamic import dynamic_rule
from dlang.specialize.frame import Frame, unsupported
from dlang.specialize.instances import Use
from dlang.specialize.rules import with_rule
from dlang.specialize.values import ClosureV, DerivativeV, DynamicV, FnV, NodeV, TupleV, Value, mono_of, parts, rebuild
from dlang.typecheck import core
from dlang.typecheck.types import TypeVar


def derivative(f: Frame, d: DerivativeV, args: list[Value]) -> Value:
    """`grad` and `value_and_grad` at arguments."""
    if d.kind not in ("grad", "value_and_grad"):
        raise unsupported(f"`{d.kind}`", d.span)
    for k in d.wrt:
        refuse_nodes(args[k], d)
    closure = closure_for(f, d, args)
    custom = with_rule(closure) or dynamic_rule(f, TupleV((closure, *args)))
    if custom is not None:
        raise unsupported(f"a derivative that needs the custom rule of `{custom.name}`", d.span)
    use = f.instances.use(f, closure, args)
    results = f.instances.result_vars(f, use)
    instance = use.instance
    skipped = len(instance.extra) + instance.token
    seeds: list[Atom | None] = [None] * skipped
    for r in results[skipped:]:
        if not isinstance(r.type, Scalar) or r.type.dtype not in anf.FLOATS:
            raise error("E0701", "`grad` needs a function that returns one float", d.span)
        seeds.append(Lit(1.0, r.type.dtype))
    positions: list[int] = []
    for k in d.wrt:
        positions += [p for p in instance.arg_positions(k) if is_float(use.actuals[p])]
    cotangents = tuple([fresh("g", use.actuals[p].type) for p in positions])
    op = anf.Vjp(instance.name, use.actuals, tuple(positions), tuple(seeds))
    with f.emitter.at(d.span):
        f.emitter.bind(op, (*results, *cotangents))
    value = f.instances.returned(f, use, results)
    gradient = gradients(use, d, args, dict(zip(positions, cotangents, strict=True)))
    return TupleV((value, gradient)) if d.kind == "value_and_grad" else gradient


def refuse_nodes(v: Value, d: DerivativeV) -> None:
    """A gradient in a value that contains itself would be one, too."""
    if isinstance(v, NodeV):
        raise error(
            "E0705",
            f"cannot differentiate with respect to values of the type `{v.type.decl.name}`, which contains itself",
            d.span,
            help=("keep the numbers in arrays, tuples or structs, and differentiate with respect to these",),
        )
    for part in parts(v):
        refuse_nodes(part, d)


def gradients(use: Use, d: DerivativeV, args: list[Value], found: dict[int, anf.Var]) -> Value:
    """For each parameter a value of its type: floats are cotangents, other leaves those of the argument."""
    out: list[Value] = []
    for k in d.wrt:
        atoms = [found.get(p, use.actuals[p]) for p in use.instance.arg_positions(k)]
        out.append(rebuild(use.instance.args[k], iter(atoms), lambda s: s.substitute(lambda v: use.sizes.get(v))))
    return out[0] if d.single else TupleV(tuple(out))


def is_float(a: Atom) -> bool:
    return not isinstance(a.type, anf.Token) and a.type.dtype in anf.FLOATS


def closure_for(f: Frame, d: DerivativeV, args: list[Value]) -> ClosureV:
    """The differentiated function as code with captured values; a derivative of a derivative calls the inner one."""
    inner = d.function
    if isinstance(inner, ClosureV):
        return inner
    base = base_of(inner)
    if isinstance(base, ClosureV):
        types, bindings = tuple([p.type for p in base.params]), base.bindings
    else:
        # Of a function that is known only when it runs, the arguments say what sizes there are.
        variables = tuple([TypeVar(0, rigid=True) for _ in args])
        types, bindings = variables, {v: mono_of(a) for v, a in zip(variables, args, strict=True)}
    own = tuple([core.Local(f"x{k}", t) for k, t in enumerate(types)])
    held = core.Local("derivative", types[0])
    arguments = tuple([core.Ref(local.type, d.span, local) for local in own])
    body = core.Call(held.type, d.span, core.Ref(held.type, d.span, held), arguments)
    return ClosureV(own, body, d.span, ((held, inner),), bindings)


def base_of(v: FnV) -> ClosureV | DynamicV:
    """The function that a derivative of a derivative is of."""
    while isinstance(v, DerivativeV):
        v = v.function
    return v

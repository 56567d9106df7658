"""Custom rules: a `pullback` or a `pushforward` as a function of the IR, which an instance of its function names."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from dlang.ir import anf
from dlang.ir.anf import Atom, Block, Function, Rules, Size, Var, fresh, poly
from dlang.ir.substitution import substitute
from dlang.ir.types import I64
from dlang.specialize.arith import all_of, elementwise
from dlang.specialize.emitter import Emitter
from dlang.specialize.frame import Frame, Level, World
from dlang.specialize.layouts import into
from dlang.specialize.passing import Renewed
from dlang.specialize.types import Bindings, map_bindings
from dlang.specialize.values import ClosureV, EnumV, FnV, TupleV, Value, leaves, mono_of, parts, rebuild
from dlang.typecheck import core
from dlang.typecheck.types import TypeFn, resolve

if TYPE_CHECKING:
    from dlang.specialize.instances import Instance, Instances


def add_rules(
    instances: Instances, instance: Instance, closure: ClosureV, bindings: Bindings, checkpoint: bool
) -> None:
    """Gives the function of an instance the rules of its declaration. bindings: what its variables stand for."""
    decl = closure.decl
    checkpoint = checkpoint and not instance.token  # an effect happens once
    rules = Rules(checkpoint=checkpoint)
    function = instances.functions[instance.name]
    if decl is not None and decl.rules:
        active = [k for k, p in enumerate(decl.params) if not p.nodiff]
        derived = {k: _rule(instances, instance, decl, r, bindings, active) for k, r in decl.rules.items()}
        wrt = [p for k in active for p in instance.arg_positions(k) if carries(function.params[p])]
        rules = Rules(tuple(wrt), derived.get("pullback"), derived.get("pushforward"), checkpoint)
    if rules != Rules():
        instances.functions[instance.name] = replace(function, rules=rules)


@dataclass(frozen=True, slots=True)
class _Copy:
    """The parameters and results of an instance as the parameters of another function, in its frame."""

    frame: Frame
    params: tuple[Var, ...]
    args: tuple[Value, ...]
    result: Value


def _rule(
    instances: Instances,
    instance: Instance,
    decl: core.FnDecl,
    rule: core.FnDecl,
    bindings: Bindings,
    active: list[int],
) -> str:
    """The name of the function that a rule becomes."""
    assert rule.body is not None
    arrow = resolve(rule.result) if rule.result is not None else None
    assert isinstance(arrow, TypeFn)
    copy = _copied(instances, instance, rule, bindings)
    f = copy.frame
    if decl.result is not None:
        f.bind_sizes(decl.result, copy.result, decl.opened)
    args = [copy.args[k] for k in active]
    pulls = rule.kind == "pullback"
    sources, targets = ([copy.result], args) if pulls else (args, [copy.result])
    seeds = [[fresh("d", a.type) for a in leaves(v) if carries(a)] for v in sources]
    given: list[core.Expr] = []
    for t, v, leaves_of_seed in zip(arrow.params, sources, seeds, strict=True):
        local = core.Local("d", t)
        f.env[local] = overlaid(v, iter(leaves_of_seed))
        given.append(core.Ref(t, rule.span, local))
    value = f.eval(core.Call(arrow.result, rule.span, rule.body, tuple(given)))
    several = pulls and len(active) != 1
    values = value.items if several and isinstance(value, TupleV) else (value,)
    outs: list[Atom] = []
    for v, target in zip(values, targets, strict=True):
        same_variants(f, tags_in(target), v)
        outs += [a for a in leaves(f.fit(v, mono_of(target))) if carries(a)]
    formals = [fresh("d", a.type) for t in targets for a in leaves(t) if carries(a)]
    name = f"{instance.name}.{rule.kind}"
    body = Block(tuple(f.emitter.lets), tuple(outs))
    params = (*copy.params, *[v for leaves_of_seed in seeds for v in leaves_of_seed])
    label = f"the {rule.kind} of {rule.name}"
    instances.functions[name] = Function(name, params, tuple(formals), body, label, rule.span)
    return name


def _copied(instances: Instances, instance: Instance, rule: core.FnDecl, bindings: Bindings) -> _Copy:
    function = instances.functions[instance.name]
    e = Emitter(span=rule.span)
    sizes: dict[Var, Size] = {}
    params: list[Var] = []
    for v in (*function.params, *function.results):
        new = fresh(v.name, substitute(v.type, sizes))
        if v.type == I64:
            sizes[v] = poly(new)
        params.append(new)
    for v in params:
        for s in v.type.shape if isinstance(v.type, anf.Array) else ():
            if s.atom is not None:
                e.facts.size(s.atom)
    count = len(function.params)
    head = len(instance.sizes) + instance.token
    level = Level(params[head]) if instance.key else None
    f = Frame(e, World(None, level), instances, map_bindings(bindings, into(sizes)))
    args: list[Value] = []
    for k, a in enumerate(instance.args):
        args.append(rebuild(a, iter([params[p] for p in instance.arg_positions(k)]), into(sizes)))
    assert instance.result is not None
    skipped = len(instance.extra) + instance.token
    given = iter(params[count + skipped :])
    result = Renewed(lambda _: next(given), into(sizes)).of(instance.result)
    *arguments, last = rule.params
    for param, value in zip(arguments, args, strict=True):
        f.env[param.local] = value
        f.define(param.local, value)
    f.env[last.local] = result
    return _Copy(f, tuple(params), tuple(args), result)


# ---- tangents --------------------------------------------------------------------------------------------------------
# Tangents and cotangents of values: values of the same type, whose floats are derivatives.


def carries(a: Atom) -> bool:
    """Tells whether a derivative may pass through a leaf: a float, or a node, which may hold one."""
    t = a.type
    return not isinstance(t, anf.Token) and (t.dtype in anf.FLOATS or anf.is_handle(t.dtype))


def overlaid(v: Value, tangents: Iterator[Atom]) -> Value:
    """A value of the same structure: tangents where the leaves carry derivatives, other leaves are its own."""
    return rebuild(v, iter([next(tangents) if carries(a) else a for a in leaves(v)]))


def tags_in(v: Value) -> Iterator[Value]:
    """Lists the tags of the outermost enums in a value."""
    if isinstance(v, EnumV):
        yield v.tag
    elif not isinstance(v, FnV):
        for part in parts(v):
            yield from tags_in(part)


def same_variants(f: Frame, tags: Iterable[Value], given: Value) -> None:
    """A tangent or a cotangent is of the variants that the value is.

    The check guards no value, because no access relies on it: the fields of all variants are there, with zeros in those
    of the others, and their sizes are compared like any.
    """
    e = f.emitter
    for tag, other in zip(tags, tags_in(given), strict=True):
        if tuple(leaves(tag)) != tuple(leaves(other)):
            same = all_of(f, elementwise(f, lambda x, y: e.prim("eq", x, y), tag, other))
            e.check(same, "E0706", ("a cotangent is of another variant than the value",))

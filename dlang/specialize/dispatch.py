"""The functions that call dynamic functions: a branch on the tag of the node, an arm for each member of the type."""

from __future__ import annotations

from dlang.ir import anf
from dlang.ir.anf import Atom, Block, Function, Lit, Scalar, Var, fresh, poly
from dlang.ir.types import I64
from dlang.specialize.dynamic import Arrow, Member, dynamic
from dlang.specialize.effects import RANDOM, WORLD
from dlang.specialize.emitter import FALSE, Emitter
from dlang.specialize.frame import Frame, Level, World
from dlang.specialize.functions import apply
from dlang.specialize.instances import Instances
from dlang.specialize.layouts import packed, unpacked
from dlang.specialize.values import ClosureV, DerivativeV, FnV, PullV, Value, contains_function
from dlang.specialize.zeros import zero, zeros
from dlang.typecheck import types as ty


def complete(instances: Instances) -> None:
    """Makes what is still missing: variants of datatypes, and arms for functions that were made dynamic.

    An arm may make further functions dynamic, so this goes on until nothing new appears.
    """
    changed = True
    while changed:
        changed = False
        for node in list(instances.nodes.named.values()):
            if not node.variants:
                instances.nodes.of(Frame(Emitter(), World(None), instances), node.name)
                changed = True
        for arrow in [a for a in instances.arrows.named.values() if a.called]:
            for member in list(arrow.members.values())[len(arrow.arms) :]:
                arrow.arms.append(arm(instances, arrow, member))
                changed = True
    for arrow in instances.arrows.named.values():
        if arrow.called:
            instances.functions[arrow.function] = chosen(instances, arrow)


def arm(instances: Instances, arrow: Arrow, member: Member) -> Block:
    """Opens the node and calls the function."""
    e = Emitter()
    for s in arrow.params.sizes:
        e.facts.size(s)
    effects = arrow.type.effects
    world = World(arrow.token if effects & WORLD else None, Level(arrow.key) if effects & RANDOM else None)
    f = Frame(e, world, instances)
    vars, (function,) = unpacked(f, member.layout)
    assert isinstance(function, ClosureV | DerivativeV | PullV)
    e.span = function.span
    e.bind(anf.Fields(member.variant, arrow.handle), vars)
    value = dynamic(f, apply(f, function, fitting(f, function, arrow.params.values)), arrow.type.result)
    token = [f.world.token] if f.world.token is not None else []
    results = (*token, *packed(f, arrow.result, [value]))
    return Block(tuple(e.lets), results)


def fitting(f: Frame, function: FnV, args: tuple[Value, ...]) -> list[Value]:
    """The arguments under the sizes that the parameters of a function have."""
    base: Value = function
    while isinstance(base, DerivativeV):
        base = base.function
    if not isinstance(base, ClosureV):
        return list(args)
    inner = f.inner(dict(base.bindings), {})
    out: list[Value] = []
    for local, a in zip(base.params, args, strict=True):
        fits = not contains_function(a) and all(inner.knows(s) for s in sizes_in(local.type))
        out.append(f.fit(a, inner.mono(local.type)) if fits else a)
    return out


def sizes_in(t: ty.Type) -> list[ty.Size]:
    found: list[ty.Size] = []
    stack: list[ty.Type | ty.Shape | ty.Size] = [ty.resolve(t)]
    while stack:
        part = stack.pop()
        if isinstance(part, ty.Size):
            found.append(part)
        else:
            stack.extend(ty.children(part if isinstance(part, ty.Shape) else ty.resolve(part)))
    return found


def chosen(instances: Instances, arrow: Arrow) -> Function:
    """The function that calls whichever member the handle is one of."""
    effects = arrow.type.effects
    head = [*arrow.params.sizes]
    results = list(arrow.result.vars)
    if effects & WORLD:
        head.append(arrow.token)
        results.insert(0, fresh("world", anf.Token()))
    if effects & RANDOM:
        head.append(arrow.key)
    params = (*head, arrow.handle, *arrow.params.vars[len(arrow.params.sizes) :])
    tag = fresh("tag", I64)
    body = branches(arrow, tag, tuple(results), 0) if arrow.arms else nothing(instances, arrow, tuple(results))
    block = Block((anf.Let((tag,), anf.Tag(arrow.handle)), *body.lets), body.results)
    return Function(arrow.function, params, tuple(results), block, arrow.label)


def branches(arrow: Arrow, tag: Var, results: tuple[Var, ...], k: int) -> Block:
    """The arm that a tag chooses, of those from the k-th on."""
    if k == len(arrow.arms) - 1:
        return arrow.arms[k]
    here = fresh("here", Scalar("bool"))
    sizes: dict[Var, anf.Size] = {}
    outs: list[Atom] = []
    for r in results:
        t = r.type
        if isinstance(t, anf.Array):
            t = anf.Array(t.dtype, tuple([s.substitute(sizes.get) for s in t.shape]))
        v = fresh(r.name, t)
        if r in arrow.result.sizes:
            sizes[r] = poly(v)
        outs.append(v)
    lets = (
        anf.Let((here,), anf.Prim("eq", (tag, Lit(k, "i64")))),
        anf.Let(
            tuple([v for v in outs if isinstance(v, Var)]),
            anf.If(here, arrow.arms[k], branches(arrow, tag, results, k + 1)),
        ),
    )
    return Block(lets, tuple(outs))


def nothing(instances: Instances, arrow: Arrow, results: tuple[Var, ...]) -> Block:
    """No function was made dynamic, so there is none to call."""
    e = Emitter()
    f = Frame(e, World(None), instances)
    e.check(FALSE, "E0800", ("a call of a function that does not exist",))
    atoms: list[Atom] = []
    for r in results:
        if isinstance(r.type, anf.Token):
            atoms.append(arrow.token)
        elif isinstance(r.type, Scalar):
            atoms.append(zero(r.type.dtype))
        else:
            shape = tuple([s.substitute(lambda _: poly(0)) for s in r.type.shape])
            atoms.append(zeros(f, shape, r.type.dtype))
    return Block(tuple(e.lets), tuple(atoms))

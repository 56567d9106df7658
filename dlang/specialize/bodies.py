"""The functions of instances: a body is evaluated with parameters of which only the structure is known."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from dlang.diagnostics import Span
from dlang.ir import anf
from dlang.ir.anf import Atom, Block, Function, Size, Var, fresh, poly
from dlang.ir.types import I64
from dlang.polynomials import Poly
from dlang.specialize.analysis import WORLD, effects_of, escapes
from dlang.specialize.dynamic import dynamic, with_effects
from dlang.specialize.emitter import Copies, Emitter
from dlang.specialize.frame import Frame, Level, World, scalar, unsupported
from dlang.specialize.layouts import inner_sizes
from dlang.specialize.names import RESULT
from dlang.specialize.passing import formals, passed, results_passed
from dlang.specialize.randomness import draws_by
from dlang.specialize.types import Bindings, map_bound, map_mono, sizes_of_mono
from dlang.specialize.values import (
    ClosureV,
    ScalarV,
    TupleV,
    Value,
    contains_function,
    formal,
    leaf_var,
    leaf_vars,
    mono_of,
    named_leaf,
    template,
)
from dlang.typecheck import core, types as ty
from dlang.typecheck.terms import size_variables
from dlang.typecheck.types import Below, Elements, Items, Refinement, SizeVar

if TYPE_CHECKING:
    from dlang.specialize.instances import Instance, Instances

U64 = anf.Scalar("u64")


def build(
    instances: Instances,
    instance: Instance,
    closure: ClosureV,
    args: list[Value],
    sizes: list[Size],
    erased: frozenset[ty.Var],
    caller: Frame,
) -> Bindings:
    """Fills a new instance and adds its function to the program.

    closure, args: of a call in the frame `caller`. sizes: those of them that are parameters. erased: variables of the
    scheme that not even literal sizes are given for. Returns what variables stand for where the body begins.
    """
    decl = closure.decl
    name = decl.name if decl is not None else "lambda"
    own_code = decl is None or decl.local or decl.kind == "const" or any(map(contains_function, args))
    e = Emitter(span=closure.span, copies=caller.emitter.copies if own_code else Copies())
    own = {s: fresh("n", I64) for s in sizes}
    existing = [own[s] for s in existing_sizes(closure, args) if s in own]
    for size in existing:
        e.facts.size(size)

    def translate(s: Size) -> Size:
        return s if s.constant is not None else poly(own[s])

    def parameter(s: Size) -> Size:
        return poly(own[s])

    instance.sizes = tuple(own.values())
    instance.token = any(WORLD & effects_of(v) for v in (closure, *args))
    instance.key = draws_by(caller, closure, *args)
    if instance.token and caller.world.token is None:
        raise unsupported(f"an effect of `{name}` inside a comprehension or a derivative", caller.emitter.span)
    token = [fresh("world", anf.Token())] if instance.token else []
    random = [fresh("key", U64)] if instance.key else []
    bindings = {v: map_bound(b, parameter if v in erased else translate) for v, b in closure.bindings.items()}
    world = World(token[0] if token else None, Level(random[0], forwards=closure.forwards) if random else None)
    frame = Frame(e, world, instances, bindings)
    new = formals(translate)
    instance.captured = tuple([new.of(c, True) for _, c in closure.captured])
    for (local, _), taken in zip(closure.captured, instance.captured, strict=True):
        frame.env[local] = taken
    for local, taken in frame.env.items():
        if isinstance(local, core.Local) and isinstance(taken, ScalarV):
            frame.define(local, taken)
    frame.name_sizes(frame.env.items())
    around = dict(bindings)
    for k, (local, a) in enumerate(zip(closure.params, args, strict=True)):
        renewed = partial(formal, translate=translate) if k in instance.apart else new.of
        instance.args = (*instance.args, bind_parameter(instance, frame, local, a, renewed))
    instance.sizes += instance.own
    if decl is not None and decl.local:
        captured = tuple([(k, frame.env[k]) for k, _ in closure.captured])
        # where it calls itself, its parameters are others, and so are the sizes that these are
        frame.env[decl] = replace(closure, captured=captured, bindings=around)
    leading = [leaf_var(a) for group in passed(instance.captured, instance.args, instance.apart) for a in group]
    e.note_sizes(leading)
    params = (*instance.sizes, *token, *random, *leading)
    if decl is not None and decl.recursive:
        declare_result(instance, frame, decl)
    known = dict(frame.bindings)
    frame.name_all(closure)
    value = frame.eval(closure.body)
    if instances.names is not None:
        span = closure.body.span if "return" in escapes(closure.body) else result_span(closure.body)
        value = instances.names.mark(e, core.Local(RESULT, closure.body.type), value, span)
    results = results_of(instance, frame, decl, value, params)
    label = f"{decl.module}.{name}" if decl is not None and decl.module else name
    block = Block(tuple(e.lets), results)
    instances.functions[instance.name] = Function(
        instance.name, params, instance.results, block, label, closure.span, sizes=without_arrays(existing, leading)
    )
    return known


def without_arrays(sizes: Iterable[Var], params: Iterable[Var]) -> frozenset[Var]:
    """The sizes, among some, that no parameter is an array of: a product of them says nothing of its factors."""
    return frozenset(sizes).difference([s.atom for p in params if isinstance(p.type, anf.Array) for s in p.type.shape])


def existing_sizes(closure: ClosureV, args: Sequence[Value]) -> Iterator[Size]:
    """Lists the sizes at a call that are known to be at least 0: of arrays, and of the variables of schemes.

    The others are the values of i64 locals, which types may mention too.
    """
    yield from sizes_of_arrays(closure, args)
    for _, size in scheme_sizes(closure):
        yield size


def sizes_of_arrays(closure: ClosureV, args: Sequence[Value]) -> Iterator[Size]:
    """The sizes of arrays that a call hands on."""
    for group in passed([c for _, c in closure.captured], args):
        for a in group:
            if isinstance(a.type, anf.Array):
                yield from a.type.shape


def scheme_sizes(closure: ClosureV) -> Iterator[tuple[SizeVar, Size]]:
    """The size variables of schemes, with what they stand for at a call."""
    for v, size in closure.bindings.items():
        if isinstance(v, SizeVar) and not v.opened:
            assert isinstance(size, Poly)
            yield v, size


def check_sizes(e: Emitter, closure: ClosureV, args: Sequence[Value]) -> None:
    """Ends the run where a size variable of a function that is called stands for a negative number: it was given for a
    `size` parameter, or solved for, as n is -1 where an `f64[n + 1]` has no elements.
    """
    given = list(scheme_sizes(closure))
    arrays = set(sizes_of_arrays(closure, args)) if given else ()
    for v, size in given:
        if size not in arrays:
            name = closure.decl.name if closure.decl is not None else "lambda"
            e.checked_size(size, f"the size `{v.name}` of `{name}`" if v.name else f"a size of `{name}`")


def bind_parameter(
    instance: Instance, frame: Frame, local: core.Local, argument: Value, renewed: Callable[[Value], Value]
) -> Value:
    """The formal value of a parameter, which it gets in the frame. renewed: makes it of one with functions in it."""
    facts, floors = frame.emitter.facts, frame.emitter.floors

    def apart(s: Size) -> Size:
        """A size that is computed inside is one of its own outside, with which it is compared."""
        if not s.mentions(floors.values()):
            return s
        instance.own = (*instance.own, fresh("n", I64))
        facts.size(instance.own[-1])
        return poly(instance.own[-1])

    declared = None if contains_function(argument) else frame.mono(local.type)
    free = None if declared is None else map_mono(declared, apart)
    parameter = renewed(argument) if free is None else template(free, named_leaf(local.name))
    frame.env[local] = parameter if declared is None or free == declared else frame.fit(parameter, declared)
    if local.size is not None:
        if not frame.define(local, parameter):
            frame.bindings[local.size] = poly(scalar(parameter))
        elif not local.size.opened:  # a `size` parameter: its value is that of the size, of which more is known
            frame.env[local] = ScalarV(frame.emitter.atom(frame.size(ty.Size(Poly.of(local.size)))))
    learn_index(frame, parameter, local.refinement)  # who calls has proven or checked it
    return parameter


def learn_index(f: Frame, v: Value, refinement: Refinement | None) -> None:
    """A parameter of type `Idx<n>`: 0 <= v < n, where n is known; or an array of such, or a tuple with some."""
    match refinement, v:
        case Items(items), TupleV(parts):
            for part, item in zip(parts, items, strict=True):
                learn_index(f, part, item)
        case ((Below(size) | Elements(Below(size))), _):
            if not f.erased and all(s in f.bindings for s in size_variables(size)):
                (leaf,) = leaf_vars(v)
                if isinstance(leaf.type, anf.Array):
                    f.emitter.indices[leaf] = f.size(size)
                else:
                    f.emitter.facts.certify(leaf, f.size(size))
                    f.emitter.unnamed.add(leaf)
        case _:
            pass


def declare_result(instance: Instance, frame: Frame, decl: core.FnDecl) -> None:
    """A recursive function's result is known from its type, before its body is."""
    assert decl.result is not None
    instance.extra = tuple([fresh("k", I64) for _ in decl.opened])
    opened = {v: poly(k) for v, k in zip(decl.opened, instance.extra, strict=True)}
    floors, inside = frame.emitter.floors, dict[Size, Var]()

    def apart(s: Size) -> Size:
        """A size that is computed inside is a result of its own."""
        return poly(inside.setdefault(s, fresh("k", I64))) if s.mentions(floors.values()) else s

    mono = map_mono(frame.inner(frame.bindings | opened, {}).mono(decl.result), apart)
    instance.extra += tuple(inside.values())
    for k in instance.extra:
        frame.emitter.facts.size(k)
    effects = effects_of(TupleV((*instance.captured, *instance.args)))
    instance.result = template(with_effects(frame, mono, effects), named_leaf("r"))
    instance.results = formal_results(instance, instance.result)


def results_of(
    instance: Instance, frame: Frame, decl: core.FnDecl | None, value: Value, params: tuple[Var, ...]
) -> tuple[Atom, ...]:
    """The results of a body, in the form that the instance has declared, or that it declares from now on."""
    e = frame.emitter
    token = [frame.world.token] if instance.token and frame.world.token is not None else []
    if instance.result is not None:
        assert decl is not None and decl.result is not None
        value = dynamic(frame, value, mono_of(instance.result))
        frame.bind_sizes(decl.result, value, decl.opened)
        value = frame.fit(value, frame.mono(decl.result))
        sizes: list[Atom] = []
        for v in decl.opened:
            bound = frame.bindings[v]
            assert isinstance(bound, Poly)
            sizes.append(e.atom(bound))
        known = sizes_of_mono(mono_of(instance.result))
        inside = dict(zip(known, sizes_of_mono(mono_of(value)), strict=True))
        sizes += [e.atom(inside[poly(k)]) for k in instance.extra[len(sizes) :]]
    else:
        if decl is not None and decl.result is not None and not contains_function(value):
            frame.bind_sizes(decl.result, value, decl.opened)
            value = frame.fit(value, frame.mono(decl.result))
        sizes_inside = inner_sizes(value, {*instance.sizes, *[p for p in params if p.type == I64]})
        sizes = [e.atom(s) for s in sizes_inside]
        instance.extra = tuple(sizes_inside.values())
        instance.result = formals(lambda s: poly(sizes_inside[s]) if s in sizes_inside else s).of(value)
        instance.results = formal_results(instance, instance.result)
    return (*token, *sizes, *results_passed(value))


def formal_results(instance: Instance, result: Value) -> tuple[Var, ...]:
    token = [fresh("world", anf.Token())] if instance.token else []
    return (*token, *instance.extra, *map(leaf_var, results_passed(result)))


def result_span(body: core.Expr) -> Span:
    """Returns the span of a function's result: the last expression of a block, if it has one."""
    while isinstance(body, core.BlockExpr) and body.result.span.start < body.result.span.end:
        body = body.result
    return body.span

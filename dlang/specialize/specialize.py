"""Entries: the functions of a program that are called from outside, with flat signatures."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from dlang.diagnostics import error
from dlang.graphs import reached
from dlang.ir import anf
from dlang.ir.anf import Atom, Block, Function, Program, Size, Var, fresh, poly
from dlang.ir.crossing import Signature, ValueLayout
from dlang.ir.traverse import walk
from dlang.ir.types import I64
from dlang.specialize.analysis import RANDOM, WORLD, effects_of
from dlang.specialize.bodies import without_arrays
from dlang.specialize.emitter import Emitter
from dlang.specialize.expressions import Lowering
from dlang.specialize.foreign import value_layout
from dlang.specialize.frame import Frame, World
from dlang.specialize.functions import apply, complete
from dlang.specialize.instances import Instances
from dlang.specialize.layouts import inner_sizes
from dlang.specialize.names import Names
from dlang.specialize.randomness import seeded
from dlang.specialize.structs import StructClasses
from dlang.specialize.types import Bindings, map_bindings, map_mono
from dlang.specialize.values import (
    ClosureV,
    DerivativeV,
    Value,
    formal,
    leaf_vars,
    leaves,
    mono_of,
    named_leaf,
    template,
)
from dlang.typecheck import core


@dataclass(frozen=True, slots=True)
class Entry:
    """A function of the IR that the outside calls.

    Arguments: one i64 for each of `sizes` (the sizes of the bindings given: `types.entry_sizes`, and behind them those
    that only arguments say), then the leaves of `params`. Results: `extra` sizes, then the leaves of `result`. The
    sizes in `params` and `result` are over the formal variables of the function; `layout` says how leaves are made of
    Python's values. With `token` the function has one too, which back ends supply and drop. With `seed` it takes an i64
    before the leaves: the function draws random numbers.
    """

    name: str
    sizes: tuple[Var, ...]
    token: bool
    seed: bool
    params: tuple[Value, ...]
    extra: tuple[Var, ...]
    result: Value
    layout: ValueLayout

    @property
    def signature(self) -> Signature:
        """Returns the facts about it that a caller needs."""
        return Signature(self.name, self.sizes, self.seed, self.extra, self.layout)


@dataclass(slots=True)
class Specializer:
    """Collects the instances of one program.

    structs: the classes that Python's functions get and give. names: where to collect the names of the source, with
    marks in the program. runs: whether the program is to run, as `Instances` says.
    """

    structs: StructClasses = field(default_factory=StructClasses)
    names: Names | None = None
    runs: bool = True
    instances: Instances = field(init=False)

    def __post_init__(self) -> None:
        self.instances = Lowering(structs=self.structs, names=self.names, runs=self.runs)

    @property
    def program(self) -> Program:
        """Returns the program made so far."""
        program = self.instances.program
        refuse_endless(program.functions)
        return program

    def entry(
        self,
        decl: core.FnDecl,
        bindings: Bindings | None = None,
        derivative: tuple[str, tuple[int, ...], bool] | None = None,
    ) -> Entry:
        """The entry of a function at types; `bindings` has one for each variable of its scheme, where structs and enums
        may be by their names.

        The sizes in the bindings stand for any size: the entry takes them as arguments. derivative: (kind, wrt, single)
        for a derivative of the function instead.
        """
        assert decl.body is not None
        given = bindings or {}
        e = Emitter(span=decl.span)
        sizes: list[Var] = []

        def own_size(_: Size) -> Size:
            sizes.append(fresh("n", I64))
            e.facts.size(sizes[-1])
            return poly(sizes[-1])

        outer = Frame(e, World(None), self.instances)
        bindings_known = map_bindings({v: given[v] for v in decl.variables if v in given}, own_size)
        bindings_known = {v: outer.expanded(b) for v, b in bindings_known.items()}
        closure = ClosureV(tuple([p.local for p in decl.params]), decl.body, decl.span, (), bindings_known, decl)
        function = closure if derivative is None else DerivativeV(derivative[0], closure, *derivative[1:], decl.span)
        token = fresh("world", anf.Token())
        effects = effects_of(closure)
        with_token, with_seed = bool(effects & WORLD), bool(effects & RANDOM)
        world = World(token if with_token else None)
        frame = Frame(e, world, self.instances, dict(bindings_known))
        seed = fresh("seed", I64)
        if with_seed:
            world.level = seeded(frame, seed)
        declared = [frame.mono(p.local.type) for p in decl.params]

        def apart(s: Size) -> Size:
            """A size that is computed inside is one of its own outside, with which it is compared."""
            return own_size(s) if s.mentions(e.floors.values()) else s

        free = [map_mono(d, apart) for d in declared]
        params = tuple([template(t, named_leaf(p.local.name)) for t, p in zip(free, decl.params, strict=True)])
        for p, v in zip(decl.params, params, strict=True):
            frame.define(p.local, v)
            e.note_sizes(leaf_vars(v))
        args = [v if t == d else frame.fit(v, d) for v, t, d in zip(params, free, declared, strict=True)]
        value = apply(frame, function, args)
        inside = inner_sizes(value, sizes)
        extra = [e.atom(s) for s in inside]
        result = formal(value, lambda s: poly(inside[s]) if s in inside else s)
        flat: list[Atom] = [*extra, *leaves(value)]
        formals = [*inside.values(), *leaf_vars(result)]
        head: list[Var] = list(sizes)
        if with_token:
            assert frame.world.token is not None
            head.append(token)
            flat.insert(0, frame.world.token)
            formals.insert(0, fresh("world", anf.Token()))
        if with_seed:
            head.append(seed)
        name = f"{decl.name}.{next(self.instances.serial)}.entry"
        self.instances.functions[name] = Function(
            name,
            (*head, *[v for p in params for v in leaf_vars(p)]),
            tuple(formals),
            Block(tuple(e.lets), tuple(flat)),
            decl.name,
            decl.span,
            sizes=without_arrays(sizes, [v for p in params for v in leaf_vars(p)]),
        )
        layout = value_layout(frame, [mono_of(p) for p in params], mono_of(result))
        complete(self.instances)
        return Entry(name, tuple(sizes), with_token, with_seed, params, tuple(inside.values()), result, layout)


def refuse_endless(functions: Mapping[str, Function]) -> None:
    needed = {name: _needed(f) for name, f in functions.items()}
    for name, f in functions.items():
        for let in walk(f.body):
            if isinstance(let.op, anf.Derivative) and name in reached([let.op.function], needed.__getitem__):
                label = functions[let.op.function].label or let.op.function
                raise error(
                    "E0711",
                    f"`{f.label or name}` takes a derivative of a function that calls it again",
                    let.span,
                    label=f"the derivative of `{label}`",
                    help=("each call would need a derivative of a higher order: write the orders that it takes apart",),
                )


def _needed(f: Function) -> set[str]:
    """The functions that one calls, differentiates, or has as rules."""
    names = {let.op.function for let in walk(f.body) if isinstance(let.op, anf.Call | anf.Derivative)}
    if f.rules is not None:
        names |= {rule for rule in (f.rules.pullback, f.rules.pushforward) if rule is not None}
    return names

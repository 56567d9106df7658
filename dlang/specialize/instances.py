"""Instances: a function of the IR for each way in which a function of the language is used.

An instance is keyed by structure, dtypes, ranks, literal sizes, and by which functions its arguments are; never by
other sizes or by values. Equal sizes at a call are one parameter, so what the checker proved equal is equal in the IR.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count

from dlang.diagnostics import Span, error
from dlang.ir import anf
from dlang.ir.anf import Atom, Block, Function, Program, Size, Var, fresh, poly
from dlang.ir.traverse import parts, walk
from dlang.polynomials import Poly
from dlang.runtime.foreign import PythonFunction
from dlang.specialize.datatypes import Nodes
from dlang.specialize.dynamic import Arrows, dynamic, with_effects
from dlang.specialize.effects import WORLD, effects_of
from dlang.specialize.emitter import I64, Emitter
from dlang.specialize.frame import Frame, Level, World, unsupported
from dlang.specialize.keys import erasable, instance_key, is_large
from dlang.specialize.names import RESULT, Names
from dlang.specialize.randomness import draws_by, passed_key
from dlang.specialize.rules import add_rules
from dlang.specialize.structs import StructClasses
from dlang.specialize.types import Bound, Mono, MonoFn, MonoNode, map_bound, map_mono, sizes_of_binding
from dlang.specialize.values import (
    ClosureV,
    TupleV,
    Value,
    contains_function,
    formal,
    leaves,
    mono_of,
    rebuild,
    shape_key,
    sizes_of,
    template,
)
from dlang.typecheck import core, types as ty
from dlang.typecheck.terms import size_variables
from dlang.typecheck.types import Below, DataDecl, SizeVar

LIMIT = 400  # instances of one function, and
NESTING = 24  # those of one function being made at a time: an endless family is an error
LITERAL_LIMIT, LITERAL_NESTING = 100, 3  # from here on, they are not specialised to literal sizes
NOTHING: frozenset[ty.Var] = frozenset()
U64 = anf.Scalar("u64")


@dataclass(slots=True)
class Instance:
    """A function of the IR and how its leaves are arranged.

    sizes: formal size parameters, first; behind those that the call says, `own` ones of the arguments. token: whether a
    token follows them, and comes first in the results. key:
    whether a u64 comes next, from which random numbers are drawn. args: the formal arguments. extra: results that are
    sizes known only inside; they come before the leaves of `result`, whose structure is over formals and the formal
    results.
    """

    name: str
    sizes: tuple[Var, ...] = ()
    own: tuple[Var, ...] = ()
    token: bool = False
    key: bool = False
    captured: tuple[Value, ...] = ()
    args: tuple[Value, ...] = ()
    results: tuple[Var, ...] = ()
    extra: tuple[Var, ...] = ()
    result: Value | None = None

    def further(self, args: Sequence[Value]) -> list[Size]:
        """The sizes that only the arguments say."""
        pairs = [p for formal, a in zip(self.args, args, strict=True) for p in zip(array_sizes(formal), array_sizes(a))]
        found = {formal.atom: actual for formal, actual in reversed(pairs)}
        return [found[v] for v in self.own]

    def arg_positions(self, k: int) -> range:
        """Where the leaves of argument k stand among the parameters."""
        start = len(self.sizes) + self.token + self.key + sum(len(list(leaves(c))) for c in self.captured)
        start += sum(len(list(leaves(a))) for a in self.args[:k])
        return range(start, start + len(list(leaves(self.args[k]))))


@dataclass(frozen=True, slots=True)
class Use:
    """An instance with what its parameters stand for at a call."""

    instance: Instance
    actuals: tuple[Atom, ...]
    sizes: dict[Var, Size]


@dataclass(slots=True)
class Instances:
    """The functions made so far. `evaluate` lowers an expression in a frame.

    python: functions of Python that are called. structs: how Python sees structs. names: where they are collected, if
    the program is to be followed step by step.
    """

    evaluate: Callable[[Frame, core.Expr], Value]
    functions: dict[str, Function] = field(default_factory=dict)
    table: dict[object, Instance] = field(default_factory=dict)
    counts: dict[object, int] = field(default_factory=dict)
    nested: dict[object, int] = field(default_factory=dict)
    serial: count[int] = field(default_factory=count)
    python: dict[str, PythonFunction] = field(default_factory=dict)
    structs: StructClasses = field(default_factory=StructClasses)
    names: Names | None = None
    tapes: dict[object, anf.Datatype] = field(default_factory=dict)
    nodes: Nodes = field(init=False)
    arrows: Arrows = field(init=False)

    def __post_init__(self) -> None:
        self.nodes, self.arrows = Nodes(self.serial), Arrows(self.serial)

    @property
    def program(self) -> Program:
        datatypes = {n.name: anf.Datatype(n.name, n.variants, n.label) for n in self.nodes.named.values()}
        for a in self.arrows.named.values():
            variants = tuple([m.variant for m in a.members.values()])
            datatypes[a.type.dtype] = anf.Datatype(a.type.dtype, variants, a.label)
        datatypes |= {t.name: t for t in self.tapes.values()}
        used = used_datatypes(self.functions.values(), datatypes)
        return Program(dict(self.functions), {k: d for k, d in datatypes.items() if k in used}, dict(self.python))

    def node_type(self, decl: DataDecl, args: tuple[Bound, ...]) -> MonoNode | None:
        """A struct or an enum that contains itself; None for one that does not."""
        return self.nodes.type(decl, args)

    def arrow(self, params: tuple[Mono, ...], result: Mono, effects: frozenset[str]) -> MonoFn:
        """The type of functions from and to types; their sizes do not matter."""
        return self.arrows.type(params, result, effects)

    def tape(self, function: str, wrt: tuple[int, ...], seeded: tuple[bool, ...]) -> str:
        """The datatype of what a `Record` leaves for its `Pull`s; `ad/` gives it variants."""
        key = (function, wrt, seeded)
        if key not in self.tapes:
            self.tapes[key] = anf.Datatype(f"Tape.{next(self.serial)}", (), f"the tape of {function}")
        return self.tapes[key].name

    def use(self, f: Frame, closure: ClosureV, args: list[Value], checkpoint: bool = False) -> Use:
        """The instance for a call, made if it is new, and its actual parameters.

        checkpoint: whether its backward pass runs it again.
        """
        e = f.emitter
        other = (draws_by(f, closure, *args), checkpoint)
        key, polys = instance_key(closure, args, NOTHING, other)
        if key not in self.table:
            erased = NOTHING
            if self.crowded(closure):
                erased = erasable(closure, args)
                key, polys = instance_key(closure, args, erased, other)
            if key not in self.table:
                self.build(key, closure, args, polys, erased, f, checkpoint)
        instance = self.table[key]
        polys += instance.further(args)
        actual_sizes = tuple([e.atom(s) for s in polys])
        mapping = dict(zip(instance.sizes, polys, strict=True))
        flat: list[Atom] = [*actual_sizes]
        if instance.token:
            assert f.world.token is not None
            flat.append(f.world.token)
        if instance.key:
            flat.append(passed_key(f, closure))
        for _, c in closure.captured:
            flat.extend(leaves(c))
        for wanted, a in zip(instance.args, args, strict=True):
            flat.extend(leaves(self.fitted(f, wanted, a, mapping)))
        return Use(instance, tuple(flat), mapping)

    def fitted(self, f: Frame, wanted: Value, actual: Value, mapping: dict[Var, Size]) -> Value:
        """The argument under the sizes that the parameter's type says."""
        if contains_function(actual):
            return actual
        return f.fit(actual, mono_of(formal(wanted, into(mapping))))

    def crowded(self, closure: ClosureV) -> bool:
        """Whether there are so many instances of a function that literal sizes are forgotten."""
        owner = owner_of(closure)
        return self.nested.get(owner, 0) >= LITERAL_NESTING or self.counts.get(owner, 0) >= LITERAL_LIMIT

    def build(
        self,
        key: object,
        closure: ClosureV,
        args: list[Value],
        sizes: list[Size],
        erased: frozenset[ty.Var],
        f: Frame,
        checkpoint: bool,
    ) -> None:
        decl = closure.decl
        owner = owner_of(closure)
        self.counts[owner] = self.counts.get(owner, 0) + 1
        self.nested[owner] = self.nested.get(owner, 0) + 1
        name = decl.name if decl is not None else "lambda"
        grows = self.nested[owner] > 2 and is_large(key)
        if self.counts[owner] > LIMIT or self.nested[owner] > NESTING or grows:
            raise error(
                "E0602",
                f"`{name}` is needed at endlessly many types",
                closure.span,
                help=("pass what grows from call to call as a value, not in a type",),
            )
        label = f"{decl.module}.{name}" if decl is not None and decl.module else name
        instance = Instance(f"{name}.{next(self.serial)}")
        self.table[key] = instance
        e = Emitter(span=closure.span)
        formals = {s: fresh("n", I64) for s in sizes}
        for s in existing_sizes(closure, args):
            if s in formals:
                e.facts.size(formals[s])

        def translate(s: Size) -> Size:
            return s if s.constant is not None else poly(formals[s])

        def parameter(s: Size) -> Size:
            return poly(formals[s])

        instance.sizes = tuple(formals.values())
        token = fresh("world", anf.Token())
        instance.token = any(WORLD & effects_of(v) for v in (closure, *args))
        instance.key = draws_by(f, closure, *args)
        if instance.token and f.world.token is None:
            raise unsupported(f"an effect of `{name}` inside a comprehension or a derivative", f.emitter.span)
        bindings = {v: map_bound(b, parameter if v in erased else translate) for v, b in closure.bindings.items()}
        random = fresh("key", U64)
        world = World(token if instance.token else None, Level(random) if instance.key else None)
        frame = Frame(e, world, self, self.evaluate, bindings)
        captured = []
        for local, c in closure.captured:
            captured.append(formal(c, translate))
            frame.env[local] = captured[-1]
        instance.captured = tuple(captured)
        formals_args = []

        def apart(s: Size) -> Size:
            """A size that is computed inside is one of its own outside, with which it is compared."""
            if not s.mentions(e.floors.values()):
                return s
            instance.own = (*instance.own, fresh("n", I64))
            e.facts.size(instance.own[-1])
            return poly(instance.own[-1])

        for local, a in zip(closure.params, args, strict=True):
            declared = None if contains_function(a) else frame.mono(local.type)
            free = None if declared is None else map_mono(declared, apart)
            own = formal(a, translate) if free is None else template(free, named_leaf(local.name))
            formals_args.append(own)
            frame.env[local] = own if declared is None or free == declared else frame.fit(own, declared)
            if local.size is not None:
                (atom,) = leaves(own)
                bound = frame.bindings.get(local.size)
                if isinstance(bound, Poly):  # a `size`: uses of its value are uses of the size
                    e.definitions[_var(atom)] = bound
                else:
                    frame.bindings[local.size] = poly(atom)
            if isinstance(local.refinement, Below):  # who calls has proven or checked it
                learn_index(frame, own, local.refinement.size)
        instance.args = tuple(formals_args)
        instance.sizes += instance.own
        if decl is not None and decl.local:
            here = ClosureV(
                closure.params,
                closure.body,
                closure.span,
                tuple([(k, frame.env[k]) for k, _ in closure.captured]),
                dict(bindings),
                decl,
            )
            frame.env[decl] = here
        params = [*instance.sizes]
        if instance.token:
            params.append(token)
        if instance.key:
            params.append(random)
        for own in (*captured, *formals_args):
            params.extend(_var(a) for a in leaves(own))
        if decl is not None and decl.recursive:
            self.declare_result(instance, frame, decl)
        known = dict(frame.bindings)
        frame.name_all(closure)
        value = frame.evaluate(frame, closure.body)
        if self.names is not None:
            value = self.names.mark(e, core.Local(RESULT, closure.body.type), value, result_span(closure.body))
        self.nested[owner] -= 1
        self.finish(instance, frame, decl, value, tuple(params), label, closure)
        add_rules(self, instance, closure, known, checkpoint)

    def generated(
        self,
        f: Frame,
        name: str,
        what: object,
        args: Sequence[Value],
        result: Callable[[Sequence[Value]], Value],
        body: Callable[[Frame, Sequence[Value]], Value],
        acts: bool = False,
    ) -> Value:
        """A call of a function that the compiler writes, which may call itself: one for each structure of arguments.

        what: identifies it. result: a value of the type of the result, which has no sizes but those of the arguments.
        acts: whether it touches the world.
        """
        order: dict[Size, int] = {}

        def size_label(s: Size) -> object:
            c = s.constant
            return int(c) if c is not None else ("size", order.setdefault(s, len(order)))

        key = ("generated", name, what, acts, tuple([shape_key(a, size_label) for a in args]))
        sizes = list(order)
        if key not in self.table:
            instance = self.table[key] = Instance(f"{name}.{next(self.serial)}")
            e = Emitter()  # no place in the source: what fails there, fails where it is called
            formals = {s: fresh("n", I64) for s in sizes}
            for k in formals.values():
                e.facts.size(k)

            def translate(s: Size) -> Size:
                return s if s.constant is not None else poly(formals[s])

            instance.sizes = tuple(formals.values())
            instance.args = tuple([formal(a, translate) for a in args])
            instance.result = formal(result(instance.args), lambda s: s)
            instance.token = acts
            token, after = [[fresh("world", anf.Token())] if acts else [] for _ in range(2)]
            instance.results = (*after, *[_var(a) for a in leaves(instance.result)])
            frame = Frame(e, World(token[0] if acts else None), self, self.evaluate)
            value = body(frame, instance.args)
            params = (*instance.sizes, *token, *[_var(a) for own in instance.args for a in leaves(own)])
            last = [frame.world.token] if frame.world.token is not None else []
            block = Block(tuple(e.lets), (*last, *leaves(value)))
            self.functions[instance.name] = Function(instance.name, params, instance.results, block, name)
        instance = self.table[key]
        world = [f.world.token] if acts and f.world.token is not None else []
        actuals = [*[f.emitter.atom(s) for s in sizes], *world, *[a for v in args for a in leaves(v)]]
        use = Use(instance, tuple(actuals), dict(zip(instance.sizes, sizes, strict=True)))
        bound = self.result_vars(use)
        f.emitter.bind(anf.Call(instance.name, use.actuals), bound)
        return self.returned(f, use, bound)

    def declare_result(self, instance: Instance, frame: Frame, decl: core.FnDecl) -> None:
        """A recursive function's result is known from its type, before its body is."""
        assert decl.result is not None
        if decl.opened:
            extra = []
            for _ in decl.opened:
                k = fresh("k", I64)
                frame.emitter.facts.size(k)
                extra.append(k)
            instance.extra = tuple(extra)
            inner = frame.inner(frame.bindings | {v: poly(k) for v, k in zip(decl.opened, extra, strict=True)}, {})
            mono = inner.mono(decl.result)
        else:
            mono = frame.mono(decl.result)
        effects = effects_of(TupleV((*instance.captured, *instance.args)))
        instance.result = template(with_effects(frame, mono, effects), lambda t: fresh("r", t))
        token = (fresh("world", anf.Token()),) if instance.token else ()
        instance.results = (*token, *instance.extra, *[_var(a) for a in leaves(instance.result)])

    def finish(
        self,
        instance: Instance,
        frame: Frame,
        decl: core.FnDecl | None,
        value: Value,
        params: tuple[Var, ...],
        label: str,
        closure: ClosureV,
    ) -> None:
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
            results = [*token, *sizes, *leaves(value)]
        else:
            if decl is not None and decl.result is not None and not contains_function(value):
                frame.bind_sizes(decl.result, value, decl.opened)
                value = frame.fit(value, frame.mono(decl.result))
            known = set(instance.sizes) | {p for p in params if isinstance(p.type, anf.Scalar) and p.type == I64}
            inside: dict[Size, Var] = {}
            for s in sizes_of(value):
                if not set(s.atoms()) <= known and s not in inside:
                    inside[s] = fresh("k", I64)
            extra_atoms = [e.atom(s) for s in inside]
            instance.extra = tuple(inside.values())

            def out(s: Size) -> Size:
                return poly(inside[s]) if s in inside else s

            instance.result = formal(value, out)
            first = (fresh("world", anf.Token()),) if instance.token else ()
            instance.results = (*first, *instance.extra, *[_var(a) for a in leaves(instance.result)])
            results = [*token, *extra_atoms, *leaves(value)]
        self.functions[instance.name] = Function(
            instance.name, params, instance.results, Block(tuple(e.lets), tuple(results)), label, closure.span
        )

    def returned(self, f: Frame, use: Use, bound: tuple[Var, ...]) -> Value:
        """The value of a call from what it bound."""
        instance = use.instance
        assert instance.result is not None
        rest = bound
        if instance.token:
            f.world.token, rest = bound[0], bound[1:]
        sizes = dict(use.sizes)
        self.scalar_sizes(use, sizes)
        for k, b in zip(instance.extra, rest, strict=False):
            sizes[k] = poly(b)
            f.emitter.facts.size(b)
        return rebuild(instance.result, iter(rest[len(instance.extra) :]), into(sizes))

    def result_vars(self, use: Use) -> tuple[Var, ...]:
        """Fresh variables for what a call binds."""
        sizes = dict(use.sizes)
        self.scalar_sizes(use, sizes)
        out: list[Var] = []
        for r in use.instance.results:
            t = r.type
            v = fresh(r.name, anf.Array(t.dtype, tuple(map(into(sizes), t.shape))) if isinstance(t, anf.Array) else t)
            if r in use.instance.extra:
                sizes[r] = poly(v)
            out.append(v)
        return tuple(out)

    def scalar_sizes(self, use: Use, sizes: dict[Var, Size]) -> None:
        """Formal i64 parameters that a result's size may mention."""
        function = self.functions.get(use.instance.name)
        if function is not None:
            for formal, actual in zip(function.params, use.actuals, strict=True):
                if formal.type == I64:
                    sizes.setdefault(formal, poly(actual))


def used_datatypes(functions: Iterable[Function], datatypes: dict[str, anf.Datatype]) -> set[str]:
    """The datatypes that functions mention, and those that their nodes hold."""
    found: set[str] = set()

    def see(t: anf.Type) -> None:
        if not isinstance(t, anf.Token) and t.dtype in datatypes and t.dtype not in found:
            found.add(t.dtype)
            for variant in datatypes[t.dtype].variants:
                for field_ in variant.fields:
                    see(field_.type)

    for f in functions:
        for v in (*f.params, *f.results):
            see(v.type)
        for let in walk(f.body):
            for v in let.vars:
                see(v.type)
            for a in parts(let.op).atoms:
                see(a.type)
    return found


def result_span(body: core.Expr) -> Span:
    """Where a function gives its result: the last expression of a block, if it has one."""
    while isinstance(body, core.BlockExpr) and body.result.span.start < body.result.span.end:
        body = body.result
    return body.span


def owner_of(closure: ClosureV) -> object:
    """What instances are counted by."""
    return closure.decl if closure.decl is not None else closure.span


def existing_sizes(closure: ClosureV, args: Sequence[Value]) -> Iterator[Size]:
    """Those sizes at a call that are known to be at least 0: of arrays, and of the variables of schemes.

    The others are the values of i64 locals, which types may mention too.
    """
    for _, c in closure.captured:
        yield from array_sizes(c)
    for a in args:
        yield from array_sizes(a)
    for v, b in closure.bindings.items():
        if not (isinstance(v, SizeVar) and v.opened):
            yield from sizes_of_binding(b)


def array_sizes(v: Value) -> Iterator[Size]:
    for a in leaves(v):
        if isinstance(a.type, anf.Array):
            yield from a.type.shape


def learn_index(f: Frame, v: Value, below: ty.Size) -> None:
    """A parameter of type `Idx<n>`: 0 <= v < n, where n is known."""
    if not f.erased and all(s in f.bindings for s in size_variables(below)):
        (atom,) = leaves(v)
        f.emitter.facts.between(_var(atom), (poly(0),), (f.size(below),))


def named_leaf(name: str) -> Callable[[anf.Type], Atom]:
    return lambda t: fresh(name, t)


def into(sizes: dict[Var, Size]) -> Callable[[Size], Size]:
    return lambda s: s.substitute(lambda v: sizes.get(v))


def _var(a: Atom) -> Var:
    assert isinstance(a, Var)
    return a

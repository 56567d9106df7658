"""Instances: a function of the IR for each way in which a function of the language is used.

An instance is keyed by structure, dtypes, ranks, literal sizes, and by which functions its arguments are; never by
other sizes or by values. Equal sizes at a call are one parameter, so what the checker proved equal is equal in the IR.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import count

from dlang.diagnostics import error
from dlang.ir import anf
from dlang.ir.anf import Atom, Function, Program, Size, Var, fresh, poly
from dlang.ir.crossing import PythonFunction
from dlang.ir.substitution import substitute
from dlang.ir.traverse import parts, walk
from dlang.ir.types import I64
from dlang.specialize.bodies import build, check_sizes
from dlang.specialize.datatypes import Nodes
from dlang.specialize.dynamic import Arrows
from dlang.specialize.frame import Frame
from dlang.specialize.keys import erasable, instance_key, is_large
from dlang.specialize.layouts import into
from dlang.specialize.names import Names
from dlang.specialize.passing import Renewed, passed
from dlang.specialize.randomness import draws_by, passed_key
from dlang.specialize.rules import add_rules
from dlang.specialize.structs import StructClasses
from dlang.specialize.types import Bound, Mono, MonoFn, MonoNode, sizes_of_mono
from dlang.specialize.values import ClosureV, Value, contains_function, formal, mono_of
from dlang.typecheck import core, types as ty
from dlang.typecheck.types import DataDecl

LIMIT = 400  # instances of one function, and
NESTING = 24  # those of one function being made at a time: an endless family is an error
LITERAL_LIMIT, LITERAL_NESTING = 100, 3  # from here on, they are not specialised to literal sizes
NOTHING: frozenset[ty.Var] = frozenset()
NOWHERE: frozenset[int] = frozenset()


@dataclass(slots=True)
class Instance:
    """A function of the IR and how its leaves are arranged.

    sizes: formal size parameters, first; behind those that the call says, `own` ones of the arguments. token: whether a
    token follows them, and comes first in the results. key:
    whether a u64 comes next, from which random numbers are drawn. args: the formal arguments. apart: the positions of
    those whose leaves are all parameters, also what several functions captured. extra: results that are sizes known
    only inside; they come before the leaves of `result`, whose structure is over formals and the formal results.
    """

    name: str
    sizes: tuple[Var, ...] = ()
    own: tuple[Var, ...] = ()
    token: bool = False
    key: bool = False
    captured: tuple[Value, ...] = ()
    args: tuple[Value, ...] = ()
    apart: frozenset[int] = NOWHERE
    results: tuple[Var, ...] = ()
    extra: tuple[Var, ...] = ()
    result: Value | None = None

    def further(self, args: Sequence[Value]) -> list[Size]:
        """The sizes that only the arguments say."""
        by_variable: dict[Var | None, Size] = {}
        for formal_argument, actual in zip(self.args, args, strict=True):
            if self.own and not contains_function(actual):
                both = zip(sizes_of_mono(mono_of(formal_argument)), sizes_of_mono(mono_of(actual)), strict=True)
                by_variable = {inside.atom: outside for inside, outside in both} | by_variable
        return [by_variable[v] for v in self.own]

    def arg_positions(self, k: int) -> range:
        """Returns the positions of the leaves of argument k among the parameters."""
        counts = list(map(len, passed(self.captured, self.args, self.apart)))
        start = len(self.sizes) + self.token + self.key + sum(counts[: k + 1])
        return range(start, start + counts[k + 1])


@dataclass(frozen=True, slots=True)
class Use:
    """An instance with what its parameters stand for at a call."""

    instance: Instance
    actuals: tuple[Atom, ...]
    sizes: dict[Var, Size]


@dataclass(slots=True)
class Instances(ABC):
    """The functions made so far.

    python: functions of Python that are called. structs: how Python sees structs. names: where they are collected, if
    the program is to be followed step by step. runs: whether the program is to run; functions outside of one that is
    only looked at are not looked for, for that would load code.
    """

    functions: dict[str, Function] = field(default_factory=dict)
    table: dict[object, Instance] = field(default_factory=dict)
    counts: dict[object, int] = field(default_factory=dict)
    nested: dict[object, int] = field(default_factory=dict)
    serial: count[int] = field(default_factory=count)
    python: dict[str, PythonFunction] = field(default_factory=dict)
    structs: StructClasses = field(default_factory=StructClasses)
    names: Names | None = None
    runs: bool = True
    tapes: dict[object, anf.Datatype] = field(default_factory=dict)
    nodes: Nodes = field(init=False)
    arrows: Arrows = field(init=False)

    def __post_init__(self) -> None:
        self.nodes, self.arrows = Nodes(self.serial), Arrows(self.serial)

    @abstractmethod
    def evaluate(self, f: Frame, e: core.Expr) -> Value:
        """The value of an expression in a frame."""

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
        """The datatype of what a `VjpForward` leaves for its `VjpBackward`s; `ad/` gives it variants."""
        key = (function, wrt, seeded)
        if key not in self.tapes:
            self.tapes[key] = anf.Datatype(f"Tape.{next(self.serial)}", (), f"the tape of {function}")
        return self.tapes[key].name

    def use(
        self, f: Frame, closure: ClosureV, args: list[Value], checkpoint: bool = False, wrt: Iterable[int] = ()
    ) -> Use:
        """The instance for a call, made if it is new, and its actual parameters.

        checkpoint: whether its backward pass runs it again. wrt: the positions of arguments of which derivatives are
        taken.
        """
        e = f.emitter
        check_sizes(e, closure, args)
        other = (draws_by(f, closure, *args), checkpoint)
        ruled = closure.decl is not None and bool(closure.decl.rules)
        apart = frozenset(range(len(args)) if ruled else wrt)
        key, polys = instance_key(closure, args, NOTHING, apart, other)
        if key not in self.table:
            erased = NOTHING
            if self.crowded(closure):
                erased = erasable(closure, args)
                key, polys = instance_key(closure, args, erased, apart, other)
            if key not in self.table:
                self.make(key, closure, args, polys, erased, apart, f, checkpoint)
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
        fitted = [self.fitted(f, wanted, a, mapping) for wanted, a in zip(instance.args, args, strict=True)]
        for group in passed([c for _, c in closure.captured], fitted, apart):
            flat.extend(group)
        return Use(instance, tuple(flat), mapping)

    def fitted(self, f: Frame, wanted: Value, actual: Value, mapping: dict[Var, Size]) -> Value:
        """The argument under the sizes that the parameter's type says."""
        if contains_function(actual):
            return actual
        return f.fit(actual, mono_of(formal(wanted, into(mapping))))

    def crowded(self, closure: ClosureV) -> bool:
        """Tells whether there are so many instances of a function that literal sizes are forgotten."""
        owner = owner_of(closure)
        return self.nested.get(owner, 0) >= LITERAL_NESTING or self.counts.get(owner, 0) >= LITERAL_LIMIT

    def has_room(self, closure: ClosureV) -> bool:
        """Tells whether a function that need not have instances may have another: they are not many, and none is made
        now, whose result would not be known yet where it is called again."""
        owner = owner_of(closure)
        return self.counts.get(owner, 0) < LIMIT // 2 and not self.nested.get(owner, 0)

    def make(
        self,
        key: object,
        closure: ClosureV,
        args: list[Value],
        sizes: list[Size],
        erased: frozenset[ty.Var],
        apart: frozenset[int],
        f: Frame,
        checkpoint: bool,
    ) -> None:
        """Adds an instance to the table and its function to the program. Raises E0602 in an endless family."""
        decl, owner = closure.decl, owner_of(closure)
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
        instance = self.table[key] = Instance(f"{name}.{next(self.serial)}", apart=apart)
        known = build(self, instance, closure, args, sizes, erased, f)
        self.nested[owner] -= 1
        add_rules(self, instance, closure, known, checkpoint)

    def returned(self, f: Frame, use: Use, bound: tuple[Var, ...]) -> Value:
        """The value of a call from what it bound."""
        instance = use.instance
        assert instance.result is not None
        results = bound
        if instance.token:
            f.world.token, results = bound[0], bound[1:]
        sizes = dict(use.sizes)
        self.scalar_sizes(use, sizes)
        for k, b in zip(instance.extra, results, strict=False):
            sizes[k] = poly(b)
            f.emitter.facts.size(b)
        given = iter(results[len(instance.extra) :])
        return Renewed(lambda _: next(given), into(sizes)).of(instance.result)

    def result_vars(self, use: Use) -> tuple[Var, ...]:
        """Fresh variables for what a call binds."""
        sizes = dict(use.sizes)
        self.scalar_sizes(use, sizes)
        out: list[Var] = []
        for r in use.instance.results:
            v = fresh(r.name, substitute(r.type, sizes))
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
    names: set[str] = set()

    def see(t: anf.Type) -> None:
        if not isinstance(t, anf.Token) and t.dtype in datatypes and t.dtype not in names:
            names.add(t.dtype)
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
    return names


def owner_of(closure: ClosureV) -> object:
    """Returns the key by which instances are counted."""
    return closure.decl if closure.decl is not None else closure.span

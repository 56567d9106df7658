"""The functions that reverse mode makes of a function: fused, or its two halves with a tape between them.

The tape of a call is one node: its fields are what the backward half mentions of the forward half and nothing else.
Tapes of calls in a branch, a loop or a recursion are handles to such nodes, so they nest as the calls did.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

from dlang.ad.activity import active_vars
from dlang.ad.calls import ruled
from dlang.ad.conversions import Conversions, retyped
from dlang.ad.inlining import inlined_where_active, recursive, unused
from dlang.ad.reverse import pull_block
from dlang.ad.scope import Scope, pruned_block, with_cheap
from dlang.ad.signatures import Cotangents, Fused, Halves, Key
from dlang.ir.affine import Knowledge
from dlang.ir.anf import (
    Array,
    Atom,
    Block,
    Call,
    Check,
    Construct,
    Datatype,
    Fields,
    Function,
    Let,
    Prim,
    Program,
    Scalar,
    Size,
    SizeOf,
    Type,
    Var,
    Variant,
    fresh,
    poly,
)
from dlang.ir.builder import Builder
from dlang.ir.traverse import Renaming, free_vars, refresh, type_vars
from dlang.ir.types import I64
from dlang.optimize.distribute import distribute_function


@dataclass(slots=True)
class _Walked:
    """A function, differentiated: variables of its own, the forward lets, and the block of its adjoint."""

    params: tuple[Var, ...]
    results: tuple[Var, ...]  # formal
    forward: list[Let]
    values: tuple[Atom, ...]
    backward: Block
    more: tuple[Var, ...]  # parameters for sizes, cotangents, cotangents to add to
    bars: tuple[Var, ...]  # formal, of the parameters
    cotangents: Cotangents


@dataclass
class Adjoints:
    """The derivatives made so far of functions of a program; they join `functions` and `datatypes`."""

    program: Program
    functions: dict[str, Function]
    datatypes: dict[str, Datatype]
    _fused: dict[Key, Fused] = field(default_factory=dict)
    _halves: dict[Key, Halves] = field(default_factory=dict)

    @cached_property
    def nodes(self) -> Conversions:
        return Conversions.of(self.functions, self.datatypes)

    @cached_property
    def _kept(self) -> set[str]:
        """The functions whose calls are not inlined."""
        return recursive(self.program) | {f.name for f in self.program.functions.values() if ruled(f) is not None}

    def key(self, function: str, wrt: tuple[int, ...], seeded: Sequence[bool], tape: str | None = None) -> Key:
        """That of a derivative which a program asks for; only what carries derivatives is seeded."""
        results = self.program.functions[function].results
        marks = tuple([s and self.nodes.carries(r.type) for s, r in zip(seeded, results, strict=True)])
        return Key(function, wrt, marks, border=True, tape=tape)

    # ---- what is made
    def fused(self, key: Key) -> Fused:
        """The function of the results and the cotangents in one body."""
        if key not in self._fused:
            source = self.program.functions[key.function]
            name = unused(f"{source.name}_vjp", self.functions)
            signature = self._signature(key)
            params, results, more, bars, cotangents = signature
            self.functions[name] = Function(name, (*params, *more), (*results, *bars), Block((), ()))
            self._fused[key] = Fused(name, cotangents)
            w = self._walk(key)
            block = Block((*w.forward, *w.backward.lets), (*w.values, *w.backward.results))
            made = Function(name, (*w.params, *w.more), (*w.results, *w.bars), block, source.label, source.span)
            self.functions[name] = made
        return self._fused[key]

    def halves(self, key: Key) -> Halves:
        """The two functions with a tape between them."""
        if key not in self._halves:
            source = self.program.functions[key.function]
            forward = unused(f"{source.name}_fwd", self.functions)
            backward = unused(f"{source.name}_bwd", self.functions)
            tape = key.tape or unused(f"{source.name}_tape.0", self.datatypes)
            label = f"what the derivative of {source.label or source.name} saves"
            params, results, more, bars, cotangents = self._signature(key)
            mentioned = {v for p in (*more, *bars) for v in type_vars(p.type)}
            passed = tuple(k for k, p in enumerate(params) if p in mentioned)
            node = fresh("tape", Scalar(tape))
            sizes = [params[k] for k in passed]
            self.functions[forward] = Function(forward, params, (*results, node), Block((), ()))
            self.functions[backward] = Function(backward, (node, *sizes, *more), bars, Block((), ()))
            self.datatypes[tape] = Datatype(tape, (), label)
            self._halves[key] = Halves(forward, backward, tape, passed, cotangents)
            self._split(self._walk(key), self._halves[key], source, label)
        return self._halves[key]

    # ---- signatures
    def _signature(
        self, key: Key
    ) -> tuple[tuple[Var, ...], tuple[Var, ...], tuple[Var, ...], tuple[Var, ...], Cotangents]:
        """Fresh parameters, formal results, parameters for cotangents, formal cotangents."""
        source = self.program.functions[key.function]
        renaming = Renaming({}, fresh=True)
        params = tuple([renaming.bind(p) for p in source.params])
        formals = Renaming(renaming.env, fresh=True)
        results = tuple([formals.bind(r) for r in source.results])
        more, cotangents = self._cotangents(key, source, renaming, [params[k] for k in key.wrt])
        return params, results, tuple(more), self._bars(key, params), cotangents

    def _bars(self, key: Key, params: Sequence[Var]) -> tuple[Var, ...]:
        return tuple([fresh(f"{params[k].name}_bar", self._type(key, params[k].type)) for k in key.wrt])

    def _type(self, key: Key, type: Type) -> Type:
        return type if key.border else self.nodes.type(type)

    def _cotangents(
        self, key: Key, source: Function, renaming: Renaming, wrt: Sequence[Var]
    ) -> tuple[list[Var], Cotangents]:
        """The parameters for cotangents: sizes that only the function knows, those of results, those to add to."""
        env = Renaming(renaming.env)
        results = set(source.results)
        places: list[tuple[int, int]] = []
        sizes: list[Var] = []
        bars: list[Var] = []
        for k, (formal, seeded) in enumerate(zip(source.results, key.seeded, strict=True)):
            if not seeded:
                continue
            if isinstance(formal.type, Array):
                for axis, size in enumerate(formal.type.shape):
                    if size.atom in results and size.atom not in env.env:
                        sizes.append(fresh("n", I64))
                        places.append((k, axis))
                        env.env[size.atom] = sizes[-1]
            bars.append(fresh(f"{formal.name}_bar", self._type(key, env.type(formal.type))))
        into = [(k, w) for k, w in zip(key.wrt, wrt, strict=True) if isinstance(w.type, Array) and not key.border]
        incoming = [fresh(f"{w.name}_bar", self._type(key, w.type)) for _, w in into]
        return [*sizes, *bars, *incoming], Cotangents(tuple(places), tuple(k for k, _ in into))

    # ---- the walk
    def _walk(self, key: Key) -> _Walked:
        source = self.program.functions[key.function]
        nodes = self.nodes
        renaming = Renaming({}, fresh=True)
        params = tuple([renaming.bind(p) for p in source.params])
        wrt = [params[k] for k in key.wrt]
        seeded = key.seeded
        if ruled(source) is not None and key.border:
            results = tuple([renaming.bind(r) for r in source.results])
            body = Block((Let(results, Call(source.name, params), source.span),), results)
        else:
            body = refresh(source.body, renaming.env)
        body = inlined_where_active(self.program, body, wrt, seeded, self._kept, nodes.held)
        body = distribute_function(Function(source.name, params, source.results, body)).body
        more, cotangents = self._cotangents(key, source, renaming, wrt)
        bars = more[len(cotangents.sizes) : len(more) - len(cotangents.into)]
        b = Builder(self.functions, source.span)
        known = Knowledge()
        known.saw(p.type for p in params)
        scope = Scope(b, active_vars(body, wrt, seeded, nodes.held), known, pull_block, nodes, self)
        scope.active.update(w for w in wrt if nodes.carries(w.type))
        with b.scope() as backward:
            for k, bar in zip(cotangents.into, more[len(more) - len(cotangents.into) :], strict=True):
                scope.add(params[k], bar)
            given = iter(bars)
            for atom, seed in zip(body.results, seeded, strict=True):
                if seed:
                    bar = next(given)
                    scope.add(atom, nodes.to_tangent(b, atom, bar) if key.border else self._seed(b, atom, bar))
            forward = scope.walk(body.lets, scope)
            found = [self._found(b, scope, key, w) for w in wrt]
        formals = Renaming(dict(zip(source.params, params, strict=True)), fresh=True)
        outs = tuple([formals.bind(r) for r in source.results])
        block = Block(tuple(backward), tuple(found))
        return _Walked(params, outs, forward, body.results, block, tuple(more), self._bars(key, params), cotangents)

    def _seed(self, b: Builder, atom: Atom, bar: Var) -> Atom:
        return retyped(b, bar, self.nodes.type(atom.type))

    def _found(self, b: Builder, scope: Scope, key: Key, w: Var) -> Atom:
        """The cotangent of a parameter, as the caller wants it."""
        return self.nodes.from_tangent(b, w, scope.pop(w)) if key.border else scope.take(w)

    # ---- the tape
    def _split(self, w: _Walked, halves: Halves, source: Function, label: str) -> None:
        """Makes the two functions of one that was walked, and the datatype of the tape."""
        passed = {w.params[k] for k in halves.params}
        bound = {v for let in w.forward for v in let.vars}
        sizes = _polynomials(w.forward)
        block = with_cheap(pruned_block(w.backward), w.forward, bound)
        again = [Let((v,), SizeOf(sizes[v])) for v in free_vars(block) if v in sizes]
        block = Block((*again, *block.lets), block.results)
        outside = (bound | set(w.params)) - passed
        opened = Renaming(dict(sizes))
        saved: dict[Var, Var] = {}  # what is saved, and the field for it
        fields = Renaming({}, fresh=True)

        def save(v: Var) -> None:
            if v in saved:
                return
            type = opened.type(v.type)
            for size in type_vars(type):
                save(size)
            saved[v] = fields.env[v] = fresh(v.name, fields.type(type))

        for v in free_vars(block):
            if v in outside:
                save(v)
        variant = Variant(halves.tape, 0, "Tape", tuple(saved.values()))
        self.datatypes[halves.tape] = Datatype(halves.tape, (variant,), label)
        node = fresh("tape", Scalar(halves.tape))
        made = Let((node,), Construct(variant, tuple(saved)), source.span)
        body = Block((*w.forward, made), (*w.values, node))
        formal = fresh("tape", node.type)
        self.functions[halves.forward] = Function(
            halves.forward, w.params, (*w.results, formal), body, source.label, source.span
        )
        self._backward(w, halves, variant, saved, block, source)

    def _backward(
        self, w: _Walked, halves: Halves, variant: Variant, saved: dict[Var, Var], block: Block, source: Function
    ) -> None:
        b = Builder(self.functions, source.span)
        r = Renaming({}, fresh=True)
        node = fresh("tape", Scalar(halves.tape))
        params = [r.bind(w.params[k]) for k in halves.params]
        more = [r.bind(v) for v in w.more]
        bars = [r.bind(v) for v in w.bars]
        with b.scope() as lets:
            if saved:
                opened = dict(zip(saved, b.emit(Fields(variant, node)), strict=True))
                for k, size in zip(halves.params, params, strict=True):
                    if w.params[k] in opened:
                        _as_passed(b, opened, w.params[k], size)
                r.env.update(opened)
            for v, param in zip((*(w.params[k] for k in halves.params), *w.more), (*params, *more), strict=True):
                r.env[v] = param
            copy = r.block(block)
        body = Block((*lets, *copy.lets), copy.results)
        self.functions[halves.backward] = Function(
            halves.backward, (node, *params, *more), tuple(bars), body, source.label, source.span
        )


def _as_passed(b: Builder, opened: dict[Var, Var], size: Var, param: Var) -> None:
    """Writes the types of saved arrays with a size that the function is given, which is the one saved."""
    own = opened[size]
    subjects = [v for v in opened if own in type_vars(opened[v].type)]
    moved = Renaming({own: param})
    types = [moved.type(opened[v].type) for v in subjects]
    parts = ("a tape is of a call with the size ", "", ", not ", "", "")
    checked = b.check(
        b.prim("eq", own, param), "E0706", parts, (own, param), [opened[v] for v in subjects], types
    )
    opened.update(zip(subjects, checked, strict=True))
    opened[size] = param


def _polynomials(lets: Sequence[Let]) -> dict[Var, Size]:
    """The i64 variables that are polynomials of others: what the types of saved arrays are written in."""
    found: dict[Var, Size] = {}

    def of(atom: Atom) -> Size:
        return poly(atom).substitute(found.get)

    for let in lets:
        match let.op:
            case SizeOf(size):
                found[let.vars[0]] = size.substitute(found.get)
            case Prim("add", (x, y)) if let.vars[0].type == I64:
                found[let.vars[0]] = of(x) + of(y)
            case Prim("sub", (x, y)) if let.vars[0].type == I64:
                found[let.vars[0]] = of(x) - of(y)
            case Prim("mul", (x, y)) if let.vars[0].type == I64:
                found[let.vars[0]] = of(x) * of(y)
            case Prim("neg", (x,)) if let.vars[0].type == I64:
                found[let.vars[0]] = -of(x)
            case Check(subjects=subjects):
                found.update((v, of(s)) for v, s in zip(let.vars, subjects, strict=True) if v.type == I64)
            case _:
                pass
    return found

"""The functions that reverse mode makes of a function: fused, or its two halves with a tape between them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from dlang.ad.activity import active_vars
from dlang.ad.calls import ruled
from dlang.ad.conversions import Conversions
from dlang.ad.fleeting import fleeting
from dlang.ad.halves import Walked, split
from dlang.ad.inlining import inlined_where_active, recursive, unused
from dlang.ad.residuals import Residuals, residuals
from dlang.ad.reverse import BackwardScope
from dlang.ad.signatures import Cotangents, Fused, Halves, Key, Rerun
from dlang.graphs import components
from dlang.ir import anf
from dlang.ir.affine import Knowledge
from dlang.ir.builder import Builder
from dlang.ir.call_graph import called_by
from dlang.ir.marks import backward, has_marks
from dlang.ir.pruning import pruned, pruned_block
from dlang.ir.substitution import Renaming, refresh
from dlang.ir.traverse import free_vars, type_vars, walk
from dlang.ir.types import I64, is_float
from dlang.optimize.distribute import distribute_function
from dlang.optimize.effects import effectful_functions, is_effectful


@dataclass
class Adjoints:
    """The derivatives made so far of functions of a program; they join `functions` and `datatypes`.

    local: the datatypes of tapes that stay in the function that made them. residuals: gets those of each derivative.
    """

    program: anf.Program
    functions: dict[str, anf.Function]
    datatypes: dict[str, anf.Datatype]
    local: set[str] = field(default_factory=set)
    residuals: list[Residuals] | None = None
    _fused: dict[Key, Fused] = field(default_factory=dict)
    _halves: dict[Key, Halves] = field(default_factory=dict)
    _rerun: dict[Key, Rerun] = field(default_factory=dict)

    @cached_property
    def nodes(self) -> Conversions:
        """The cotangents of nodes of this program."""
        return Conversions.of(self.functions, self.datatypes)

    @cached_property
    def _kept(self) -> set[str]:
        """The functions whose calls are not inlined."""
        return recursive(self.program) | {f.name for f in self.program.functions.values() if ruled(f) is not None}

    @cached_property
    def _cycles(self) -> dict[str, frozenset[str]]:
        """For each function those that call it and that it calls."""
        calls = {name: sorted(set(called_by(f))) for name, f in self.program.functions.items()}
        return {name: frozenset(names) for names in components(calls) for name in names}

    def key(self, function: str, wrt: tuple[int, ...], seeded: Sequence[bool], tape: str | None = None) -> Key:
        """Returns the key of a derivative for which a program asks; only results that carry derivatives are seeded."""
        results = self.program.functions[function].results
        marks = tuple([s and self.nodes.carries(r.type) for s, r in zip(seeded, results, strict=True)])
        return Key(function, wrt, marks, border=True, tape=tape)

    # ---- what is made
    def fused(self, key: Key) -> Fused:
        """The function of the results and the cotangents in one body."""
        if key not in self._fused:
            source = self.program.functions[key.function]
            name = unused(f"{source.name}_vjp", self.functions)
            params, results, more, bars, cotangents = self._signature(key)
            self.functions[name] = anf.Function(name, (*params, *more), (*results, *bars), anf.Block((), ()))
            self._fused[key] = Fused(name, cotangents)
            w = self._walk(key)
            later = w.backward.lets
            if has_marks(source.body):
                later = backward(later, source.span)
            block = anf.Block((*w.forward, *later), (*w.values, *w.backward.results))
            # The derivative of a checkpointed function is one, too.
            again = anf.Rules(checkpoint=True) if source.rules is not None and source.rules.checkpoint else None
            rules = None if key.border else again
            made = anf.Function(
                name, (*w.params, *w.more), (*w.results, *w.bars), block, source.label, source.span, rules
            )
            self.functions[name] = made
        return self._fused[key]

    def rerun(self, key: Key) -> Rerun:
        """The cotangents of the function, which is run again as far as they need it, and what they do not need is not
        passed: of a linear function that may be all.

        Checks stay, and what leads to them; so does all of a function that a debugger follows.
        """
        if key not in self._rerun:
            fused = self.fused(key)
            made, source = self.functions[fused.function], self.program.functions[key.function]
            results, params = len(source.results), len(source.params)
            if len(made.body.results) < len(made.results) or has_marks(source.body):  # or is still being made
                return Rerun(fused.function, tuple(range(params)), fused.cotangents, results)
            effectful = effectful_functions(replace(self.program, functions=self.functions))
            bars = made.body.results[results:]
            stay = {k for k, let in enumerate(made.body.lets) if is_effectful(let.op, effectful)}
            lets = pruned(made.body.lets, bars, stay=stay)
            needed = {v for let in lets for v in free_vars(let.op)} | {v for v in bars if isinstance(v, anf.Var)}
            own = tuple([k for k, p in enumerate(made.params[:params]) if p in needed or p.type == I64])  # all sizes
            renaming = Renaming({}, renew=True)
            formals = [renaming.bind(made.params[k]) for k in (*own, *range(params, len(made.params)))]
            outs = [renaming.bind(r) for r in made.results[results:]]
            name = unused(f"{source.name}_back", self.functions)
            block = refresh(anf.Block(tuple(lets), bars), renaming.env)
            rerun = replace(made, name=name, params=tuple(formals), results=tuple(outs), body=block)
            self.functions[name] = rerun
            self._rerun[key] = Rerun(name, own, fused.cotangents, 0)
        return self._rerun[key]

    def halves(self, key: Key) -> Halves:
        """The two functions with a tape between them."""
        if key not in self._halves:
            source = self.program.functions[key.function]
            forward = unused(f"{source.name}_fwd", self.functions)
            backward = unused(f"{source.name}_bwd", self.functions)
            tape = key.tape or unused(f"{source.name}_tape.0", self.datatypes)
            label = f"what the derivative of {source.label or source.name} saves"
            params, results, more, bars, cotangents = self._signature(key)
            handed = [params[k] for k in self._handed_on(key) if k not in key.changing]
            mentioned = {*handed, *(v for p in (*more, *bars, *handed) for v in type_vars(p.type))}
            passed = tuple(k for k, p in enumerate(params) if p in mentioned)
            node = anf.fresh("tape", anf.Scalar(tape))
            sizes = [params[k] for k in passed]
            self.functions[forward] = anf.Function(forward, params, (*results, node), anf.Block((), ()))
            self.functions[backward] = anf.Function(backward, (node, *sizes, *more), bars, anf.Block((), ()))
            self.datatypes[tape] = anf.Datatype(tape, (), label)
            self._halves[key] = Halves(forward, backward, tape, passed, cotangents)
            made = split(
                self._walk(key, passed),
                self._halves[key],
                self.functions,
                self.datatypes,
                source,
                label,
                tape in self.local,
            )
            for f in made:
                self.functions[f.name] = f
        return self._halves[key]

    # ---- signatures
    def _signature(
        self, key: Key
    ) -> tuple[tuple[anf.Var, ...], tuple[anf.Var, ...], tuple[anf.Var, ...], tuple[anf.Var, ...], Cotangents]:
        """Fresh parameters, formal results, parameters for cotangents, formal cotangents."""
        source = self.program.functions[key.function]
        renaming = Renaming({}, renew=True)
        params = tuple([renaming.bind(p) for p in source.params])
        formals = Renaming(renaming.env, renew=True)
        results = tuple([formals.bind(r) for r in source.results])
        more, cotangents = self._cotangents(key, source, renaming, [params[k] for k in key.wrt])
        return params, results, tuple(more), self._bars(key, params), cotangents

    def _bars(self, key: Key, params: Sequence[anf.Var]) -> tuple[anf.Var, ...]:
        return tuple([anf.fresh(f"{params[k].name}_bar", self._type(key, params[k].type)) for k in key.wrt])

    def _type(self, key: Key, type: anf.Type) -> anf.Type:
        return type if key.border else self.nodes.type(type)

    def _handed_on(self, key: Key) -> list[int]:
        """The array parameters that the function hands on as they are: who calls it need not save them."""
        if key.border:
            return []
        source = self.program.functions[key.function]
        handed = {a for let in walk(source.body) if isinstance(let.op, anf.Call) for a in let.op.args}
        return [k for k, p in enumerate(source.params) if isinstance(p.type, anf.Array) and p in handed]

    def _into(self, key: Key) -> list[int]:
        """The parameters whose cotangents come in and are added to."""
        params = self.program.functions[key.function].params
        return [k for k in self._handed_on(key) if k in key.wrt and k not in key.zero and is_float(params[k].type)]

    def _cotangents(
        self, key: Key, source: anf.Function, renaming: Renaming, wrt: Sequence[anf.Var]
    ) -> tuple[list[anf.Var], Cotangents]:
        """The parameters for cotangents: sizes that only the function knows, those of results, those to add to."""
        env = Renaming(renaming.env)
        results = set(source.results)
        places: list[tuple[int, int]] = []
        given_sizes: dict[anf.Size, anf.Var] = {}
        bars: list[anf.Var] = []
        for k, (formal, seeded) in enumerate(zip(source.results, key.seeded, strict=True)):
            if not seeded:
                continue
            type = self._type(key, formal.type)
            if isinstance(type, anf.Array):
                shape: list[anf.Size] = []
                for axis, size in enumerate(type.shape):
                    if size.mentions(results) and size not in given_sizes:
                        given_sizes[size] = anf.fresh("n", I64)
                        places.append((k, axis))
                    shape.append(anf.poly(given_sizes[size]) if size in given_sizes else env.size(size))
                type = anf.Array(type.dtype, tuple(shape))
            bars.append(anf.fresh(f"{formal.name}_bar", type))
        sizes = [*given_sizes.values()]
        into = self._into(key)
        given = dict(zip(key.wrt, wrt, strict=True))
        incoming = [anf.fresh(f"{given[k].name}_bar", given[k].type) for k in into]
        return [*sizes, *bars, *incoming], Cotangents(tuple(places), tuple(into))

    # ---- the walk
    def _walk(self, key: Key, passed: tuple[int, ...] | None = None) -> Walked:
        """A function, differentiated. passed: the parameters that its backward half is given, if it has two."""
        source = self.program.functions[key.function]
        nodes = self.nodes
        renaming = Renaming({}, renew=True)
        params = tuple([renaming.bind(p) for p in source.params])
        wrt = [params[k] for k in key.wrt]
        seeded = key.seeded
        if ruled(source) is not None and key.border:
            results = tuple([renaming.bind(r) for r in source.results])
            body = anf.Block((anf.Let(results, anf.Call(source.name, params), source.span),), results)
        else:
            body = refresh(source.body, renaming.env)
        body = inlined_where_active(self.program, body, wrt, seeded, self._kept, nodes.held)
        body = distribute_function(anf.Function(source.name, params, source.results, body)).body
        more, cotangents = self._cotangents(key, source, renaming, wrt)
        bars = more[len(cotangents.sizes) : len(more) - len(cotangents.into)]
        b = Builder(self.functions, source.span)
        known = Knowledge()
        known.note_sizes(p.type for p in params)
        scope = BackwardScope(b, active_vars(body, wrt, seeded, nodes.held), known, nodes, self)
        scope.followed = has_marks(source.body)
        scope.cycle = self._cycles[source.name]
        if passed is not None and not key.border:
            scope.fleeting = fleeting(body, [p for k, p in enumerate(params) if k not in passed])
        scope.segments = source.rules is not None and source.rules.checkpoint and not key.border
        scope.active.update(w for w in wrt if nodes.carries(w.type))
        with b.scope() as adjoint:
            for k, bar in zip(cotangents.into, more[len(more) - len(cotangents.into) :], strict=True):
                scope.add(params[k], bar)
            given = iter(bars)
            for atom, seed in zip(body.results, seeded, strict=True):
                if seed and key.border:
                    scope.add(atom, nodes.to_tangent(b, atom, next(given)))
                elif seed:
                    scope.add(atom, next(given))
            forward = scope.walk(body.lets)
            found = [nodes.from_tangent(b, w, scope.pop(w)) if key.border else scope.take(w) for w in wrt]
        assert not any(scope.bars.values()), "a contribution was made to what had been walked already"
        formals = Renaming(dict(zip(source.params, params, strict=True)), renew=True)
        outs = tuple([formals.bind(r) for r in source.results])
        block = anf.Block(tuple(adjoint), tuple(found))
        if self.residuals is not None:
            label = source.label or source.name
            self.residuals.append(residuals(label, params, forward, pruned_block(block), self.datatypes, scope.again))
        return Walked(
            params, outs, forward, body.results, block, tuple(more), self._bars(key, params), cotangents, scope.again
        )

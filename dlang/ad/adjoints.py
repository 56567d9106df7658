"""The functions that reverse mode makes of a function: fused, or its two halves with a tape between them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from dlang.ad.activity import active_vars
from dlang.ad.calls import ruled
from dlang.ad.conversions import Conversions
from dlang.ad.inlining import Versions, functions_that_stay, inlined_where_active, unused
from dlang.ad.rematerialise import Rematerialiser, fleeting, rematerialised
from dlang.ad.residuals import Residuals, residuals
from dlang.ad.reverse import BackwardScope
from dlang.ad.signatures import Cotangents, Fused, Halves, Key, Rerun
from dlang.ad.tape import without_given
from dlang.graphs import components
from dlang.ir import anf
from dlang.ir.affine import Knowledge
from dlang.ir.builder import Builder
from dlang.ir.marks import backward, has_marks
from dlang.ir.sizes import defined_sizes, with_sizes
from dlang.ir.substitution import Renaming, refresh
from dlang.ir.traverse import (
    bound_vars,
    called_by,
    free_vars,
    parts,
    pruned,
    pruned_block,
    type_vars,
    used_by,
    walk,
)
from dlang.ir.types import I64, is_float
from dlang.ops import figures
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
        return Conversions.of(self.functions, self.datatypes, summed=True)

    @cached_property
    def _kept(self) -> set[str]:
        """The functions whose calls are not inlined."""
        return functions_that_stay(self.program) | {
            f.name for f in self.program.functions.values() if ruled(f) is not None
        }

    @cached_property
    def _versions(self) -> Versions:
        return Versions(self.program)

    @cached_property
    def _cycles(self) -> dict[str, frozenset[str]]:
        """For each function that calls itself, through others perhaps, itself and those; for another one none."""
        calls = {name: sorted(set(called_by(f))) for name, f in self.program.functions.items()}
        return {
            name: frozenset(names) if len(names) > 1 or name in calls[name] else frozenset()
            for names in components(calls)
            for name in names
        }

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
            function = anf.Function(
                name,
                (*w.params, *w.more),
                (*w.results, *w.bars),
                block,
                source.label,
                source.span,
                rules,
                sizes=w.sizes,
            )
            self.functions[name] = function
        return self._fused[key]

    def rerun(self, key: Key) -> Rerun:
        """The cotangents of the function, which is run again as far as they need it, and what they do not need is not
        passed: of a linear function that may be all.

        Checks stay, and what leads to them; so does all of a function that a debugger follows.
        """
        if key not in self._rerun:
            fused = self.fused(key)
            both, source = self.functions[fused.function], self.program.functions[key.function]
            results, params = len(source.results), len(source.params)
            if len(both.body.results) < len(both.results) or has_marks(source.body):  # or is still being made
                return Rerun(fused.function, tuple(range(params)), fused.cotangents, results)
            effectful = effectful_functions(replace(self.program, functions=self.functions))
            bars = both.body.results[results:]
            stay = {k for k, let in enumerate(both.body.lets) if is_effectful(let.op, effectful)}
            lets = pruned(both.body.lets, bars, stay=stay)
            needed = {v for let in lets for v in used_by(let)} | {v for v in bars if isinstance(v, anf.Var)}
            passed = tuple([k for k, p in enumerate(both.params[:params]) if p in needed or p.type == I64])  # all sizes
            renaming = Renaming({}, renew=True)
            formals = [renaming.bind(both.params[k]) for k in (*passed, *range(params, len(both.params)))]
            outs = [renaming.bind(r) for r in both.results[results:]]
            name = unused(f"{source.name}_back", self.functions)
            block = refresh(anf.Block(tuple(lets), bars), renaming.env)
            sizes = renaming.size_params(both).intersection(formals)
            rerun = replace(both, name=name, params=tuple(formals), results=tuple(outs), body=block, sizes=sizes)
            self.functions[name] = rerun
            self._rerun[key] = Rerun(name, passed, fused.cotangents, 0)
        return self._rerun[key]

    def shared(self, key: Key) -> Key:
        """The halves that stand for those of a key: its own, or where there are many those for all numbers."""
        if key in self._halves:
            return key
        return replace(key, wrt=self._versions.params(key.function, key.wrt))

    def halves(self, key: Key) -> Halves:
        """The two functions with a tape between them."""
        if key not in self._halves:
            source = self.program.functions[key.function]
            self._versions.made[source.name] += 1
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
            pair = split(
                self._walk(key, passed),
                self._halves[key],
                self.functions,
                self.datatypes,
                source,
                label,
                tape in self.local,
            )
            for f in pair:
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
        def type(k: int) -> anf.Type:
            return self.nodes.sum_type(params[k].type) if k in key.summed else self._type(key, params[k].type)

        return tuple([anf.fresh(f"{params[k].name}_bar", type(k)) for k in key.wrt])

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
        wrt = set(key.wrt) - {*key.zero, *key.summed}
        return [k for k in self._handed_on(key) if k in wrt and is_float(params[k].type)]

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
        sizes = renaming.size_params(source)
        walked = anf.Function(source.name, params, source.results, body, sizes=sizes)
        body = distribute_function(walked).body
        more, cotangents = self._cotangents(key, source, renaming, wrt)
        bars = more[len(cotangents.sizes) : len(more) - len(cotangents.into)]
        b = Builder(self.functions, source.span)
        scope = BackwardScope(b, active_vars(body, wrt, seeded, nodes.held), Knowledge.of(walked), nodes, self)
        scope.followed = has_marks(source.body)
        if passed is None and not scope.followed:
            scope.early = frozenset(bars)
        scope.cycle = self._cycles[source.name]
        if passed is not None and not key.border:
            scope.fleeting = fleeting(body, [p for k, p in enumerate(params) if k not in passed])
        scope.segments = source.rules is not None and source.rules.checkpoint and not key.border
        scope.active.update(w for w in wrt if nodes.carries(w.type))
        scope.summed.update([params[k] for k in key.summed])
        scope.note_summed(body.lets)
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
            wrt_bars = [nodes.from_tangent(b, w, scope.pop(w)) if key.border else scope.take(w) for w in wrt]
        assert not any(scope.bars.values()), "a contribution was made to what had been walked already"
        formals = Renaming(dict(zip(source.params, params, strict=True)), renew=True)
        outs = tuple([formals.bind(r) for r in source.results])
        block = anf.Block(tuple(adjoint), tuple(wrt_bars))
        if self.residuals is not None:
            label = source.label or source.name
            waits = residuals(label, params, forward, pruned_block(block), scope.arms, self.datatypes, scope.again)
            self.residuals.append(waits)
        return Walked(
            params,
            outs,
            forward,
            body.results,
            block,
            tuple(more),
            self._bars(key, params),
            cotangents,
            scope.again,
            sizes,
        )


# ---- the halves ------------------------------------------------------------------------------------------------------
# The two halves of a differentiated function, and the tape between them.
#
# The tape of a call is one node: its fields are what the backward half mentions of the forward half and nothing else.
# Where the function ends in a branch there is a variant for each arm. Tapes of calls in a branch, a loop or a recursion
# are handles to such nodes, so they nest as the calls did.


@dataclass(slots=True)
class Walked:
    """A function, differentiated: variables of its own, the forward lets, and the block of its adjoint."""

    params: tuple[anf.Var, ...]
    results: tuple[anf.Var, ...]  # formal
    forward: list[anf.Let]
    values: tuple[anf.Atom, ...]
    backward: anf.Block
    more: tuple[anf.Var, ...]  # parameters for sizes, cotangents, cotangents to add to
    bars: tuple[anf.Var, ...]  # formal, of the parameters
    cotangents: Cotangents
    again: list[Rematerialiser]
    sizes: frozenset[anf.Var]


def split(
    w: Walked,
    halves: Halves,
    functions: dict[str, anf.Function],
    datatypes: dict[str, anf.Datatype],
    source: anf.Function,
    label: str,
    local: bool,
) -> tuple[anf.Function, anf.Function]:
    """The two functions of one that was walked; the datatype of the tape joins `datatypes`.

    local: the tape stays where it is made. So there is no node at run time unless it has variants.
    """
    s = _Split(w, halves, source, local)
    body = s.forward(w.forward, w.values, pruned_block(w.backward), [])
    datatypes[halves.tape] = anf.Datatype(halves.tape, tuple([arm.variant for arm in s.arms]), label)
    formal = anf.fresh("tape", anf.Scalar(halves.tape))
    results = (*w.results, formal)
    forward = anf.Function(halves.forward, w.params, results, body, source.label, source.span, sizes=w.sizes)
    return forward, s.backward(functions)


@dataclass(slots=True)
class _Arm:
    """A variant of the tape: what is saved, each with its field, and the backward half where it was made."""

    variant: anf.Variant
    saved: tuple[anf.Var, ...]
    block: anf.Block


@dataclass(slots=True)
class _Split:
    w: Walked
    halves: Halves
    source: anf.Function
    local: bool
    arms: list[_Arm] = field(default_factory=list)

    # ---- the forward half
    def forward(
        self, lets: Sequence[anf.Let], values: tuple[anf.Atom, ...], block: anf.Block, before: Sequence[anf.Let]
    ) -> anf.Block:
        """Forward lets that also make the tape; block: the backward half after them, before: the lets around them."""
        node = anf.fresh("tape", anf.Scalar(self.halves.tape))
        last = lets[-1] if lets else None
        if last is not None and isinstance(last.op, anf.If) and self.splits(last.op, block):
            arms = []
            around = [*before, *lets[:-1]]
            for arm, taken in ((last.op.then, True), (last.op.otherwise, False)):
                assert isinstance(last.op.condition, anf.Var)
                env = {last.op.condition: anf.Lit(taken, "bool"), **dict(zip(last.vars, arm.results, strict=True))}
                arms.append(self.forward(arm.lets, arm.results, _known(block, env), around))
            branch = anf.Let((*last.vars, node), anf.If(last.op.condition, arms[0], arms[1]), last.span)
            return anf.Block((*lets[:-1], branch), (*values, node))
        arm_made = self.arm([*before, *lets], block)
        construct = anf.Let((node,), anf.Construct(arm_made.variant, arm_made.saved), self.source.span)
        return anf.Block((*lets, construct), (*values, node))

    def splits(self, op: anf.If, block: anf.Block) -> bool:
        """Tells whether a branch at the end of the forward half is worth variants of its own.

        Of a local tape it is not if the arms compute scalars only: those of the arm not taken cost less than a node.
        """
        if self.local and not any(
            isinstance(v.type, anf.Array) for arm in (op.then, op.otherwise) for v in bound_vars(arm)
        ):
            return False
        same = [let for let in block.lets if isinstance(let.op, anf.If) and let.op.condition is op.condition]
        room = len(self.arms) + 2 <= figures.SHARED_VARIANTS and len(block.lets) - len(same) <= figures.SHARED_BACKWARD
        return room and bool(same) and isinstance(op.condition, anf.Var)

    def arm(self, lets: Sequence[anf.Let], block: anf.Block) -> _Arm:
        """One more variant of the tape, for a backward half that follows some forward lets."""
        passed = {self.w.params[k] for k in self.halves.params}
        bound = {v for let in lets for v in let.vars}
        sizes = defined_sizes(lets)
        given = {p for p in self.w.params if p.type != I64}
        wanting = bound | (given - passed)
        span, followed = self.source.span, has_marks(self.source.body)
        block = rematerialised(block, lets, wanting, self.w.again, span, in_memory=not self.local, followed=followed)
        block = with_sizes(block, sizes)
        outside = (bound | set(self.w.params)) - passed
        opened = Renaming(dict(sizes))
        fields = Renaming({}, renew=True)
        saved: dict[anf.Var, anf.Var] = {}

        def save(v: anf.Var) -> None:
            if v not in saved:
                type = opened.type(v.type)
                for size in type_vars(type):
                    save(size)
                saved[v] = fields.env[v] = anf.fresh(v.name, fields.type(type))

        for v in free_vars(block):
            if v in outside:
                save(v)
        block = without_given(block, saved)
        tag = len(self.arms)
        variant = anf.Variant(self.halves.tape, tag, f"Tape{tag}", tuple(saved.values()))
        self.arms.append(_Arm(variant, tuple(saved), block))
        return self.arms[-1]

    # ---- the backward half
    def backward(self, functions: dict[str, anf.Function]) -> anf.Function:
        w, halves, source = self.w, self.halves, self.source
        b = Builder(functions, source.span)
        r = Renaming({}, renew=True)
        node = anf.fresh("tape", anf.Scalar(halves.tape))
        params = [r.bind(w.params[k]) for k in halves.params]
        more = [r.bind(v) for v in w.more]
        bars = tuple([r.bind(v) for v in w.bars])
        with b.scope() as lets:
            tag = b.one(anf.Tag(node)) if len(self.arms) > 1 else None
            results = self.choice(b, tag, self.arms, node, r, params)
        body = anf.Block(backward(lets, source.span) if has_marks(source.body) else tuple(lets), results)
        sizes = frozenset(
            [v for p, v in zip([w.params[k] for k in halves.params], params, strict=True) if p in w.sizes]
        )
        formals = (node, *params, *more)
        return anf.Function(halves.backward, formals, bars, body, source.label, source.span, sizes=sizes)

    def choice(
        self,
        b: Builder,
        tag: anf.Var | None,
        arms: Sequence[_Arm],
        node: anf.Var,
        r: Renaming,
        params: Sequence[anf.Var],
    ) -> tuple[anf.Atom, ...]:
        """The backward half of the variant that the tape is of."""
        if tag is None or len(arms) == 1:
            return self.opened(b, arms[0], node, Renaming(r.env, renew=True), params)
        is_first = b.prim("eq", tag, anf.Lit(arms[0].variant.tag, "i64"))
        outs = tuple([anf.fresh(v.name, r.type(v.type)) for v in self.w.bars])
        then = b.block(lambda: self.opened(b, arms[0], node, Renaming(r.env, renew=True), params))
        otherwise = b.block(lambda: self.choice(b, tag, arms[1:], node, r, params))
        b.emit_as(outs, anf.If(is_first, then, otherwise))
        return outs

    def opened(
        self, b: Builder, arm: _Arm, node: anf.Var, r: Renaming, params: Sequence[anf.Var]
    ) -> tuple[anf.Atom, ...]:
        """Emits the backward half of a variant with what is in the node."""
        if arm.saved:
            fields = dict(zip(arm.saved, b.emit(anf.Fields(arm.variant, node)), strict=True))
            for k, size in zip(self.halves.params, params, strict=True):
                if self.w.params[k] in fields:
                    _as_passed(b, fields, self.w.params[k], size)
            r.env.update(fields)
        return b.inline(r.block(arm.block))


def _known(block: anf.Block, env: dict[anf.Var, anf.Atom]) -> anf.Block:
    """A fresh copy of a pure block where some variables are known, without the branches that this decides."""
    r = Renaming(env, renew=True)
    lets: list[anf.Let] = []

    def go(inner: anf.Block) -> None:
        for let in inner.lets:
            if isinstance(let.op, anf.If) and isinstance(known := r.atom(let.op.condition), anf.Lit):
                arm = let.op.then if known.value else let.op.otherwise
                go(arm)
                r.env.update({v: r.atom(a) for v, a in zip(let.vars, arm.results, strict=True)})
            else:
                lets.append(r.let(let))

    go(block)
    return pruned_block(anf.Block(tuple(lets), tuple([r.atom(a) for a in block.results])))


def _as_passed(b: Builder, fields: dict[anf.Var, anf.Var], size: anf.Var, param: anf.Var) -> None:
    """Writes the types of saved arrays with a size that the function is given, which is the one saved."""
    saved_size = fields[size]
    guarded = [v for v in fields if saved_size in type_vars(fields[v].type)]
    moved = Renaming({saved_size: param})
    types = [moved.type(fields[v].type) for v in guarded]
    parts = ("a tape is of a call with the size ", "", ", not ", "", "")
    same = b.prim("eq", saved_size, param)
    checked = b.check(same, "E0706", parts, (saved_size, param), [fields[v] for v in guarded], types)
    fields.update(zip(guarded, checked, strict=True))
    fields[size] = param


def local_tapes(program: anf.Program) -> set[str]:
    """The datatypes of tapes that only `VjpBackward`s of the function that made them get to see."""
    tapes: set[str] = set()
    escaping: set[str] = set()

    def escapes(types: Iterable[anf.Type]) -> None:
        escaping.update(t.dtype for t in types if not isinstance(t, anf.Token))

    def block(b: anf.Block) -> None:
        escapes(r.type for r in b.results)
        for let in b.lets:
            op, inner = let.op, parts(let.op)
            if isinstance(op, anf.VjpForward):
                tapes.add(op.tape)
            given = [a for a in op.cotangents if a is not None] if isinstance(op, anf.VjpBackward) else inner.atoms
            escapes(a.type for a in given)
            for nested in inner.blocks:
                block(nested)

    for f in program.functions.values():
        escapes(p.type for p in f.params)
        block(f.body)
    for datatype in program.datatypes.values():
        escapes(field.type for variant in datatype.variants for field in variant.fields)
    return tapes - escaping

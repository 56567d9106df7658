"""The two halves of a differentiated function, and the tape between them.

The tape of a call is one node: its fields are what the backward half mentions of the forward half and nothing else.
Where the function ends in a branch there is a variant for each arm. Tapes of calls in a branch, a loop or a recursion
are handles to such nodes, so they nest as the calls did.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from dlang.ad.rematerialise import Rematerialiser, rematerialised
from dlang.ad.signatures import Cotangents, Halves
from dlang.ir import anf
from dlang.ir.builder import Builder
from dlang.ir.marks import backward, has_marks
from dlang.ir.pruning import pruned_block
from dlang.ir.sizes import defined_sizes
from dlang.ir.substitution import Renaming
from dlang.ir.traverse import bound_vars, free_vars, parts, type_vars
from dlang.ir.types import I64

MOST_VARIANTS = 8
MOST_SHARED = 30  # lets of a backward half that stand in the arm of every variant


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
    forward = anf.Function(halves.forward, w.params, (*w.results, formal), body, source.label, source.span)
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
        made = anf.Let((node,), anf.Construct(arm_made.variant, arm_made.saved), self.source.span)
        return anf.Block((*lets, made), (*values, node))

    def splits(self, op: anf.If, block: anf.Block) -> bool:
        """Tells whether a branch at the end of the forward half is worth variants of its own.

        Of a local tape it is not if the arms compute scalars only: those of the arm not taken cost less than a node.
        """
        if self.local and not any(
            isinstance(v.type, anf.Array) for arm in (op.then, op.otherwise) for v in bound_vars(arm)
        ):
            return False
        same = [let for let in block.lets if isinstance(let.op, anf.If) and let.op.condition is op.condition]
        room = len(self.arms) + 2 <= MOST_VARIANTS and len(block.lets) - len(same) <= MOST_SHARED
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
        again = [anf.Let((v,), anf.IndexExpr(sizes[v])) for v in free_vars(block) if v in sizes]
        block = anf.Block((*again, *block.lets), block.results)
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
        return anf.Function(halves.backward, (node, *params, *more), bars, body, source.label, source.span)

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
        here = b.prim("eq", tag, anf.Lit(arms[0].variant.tag, "i64"))
        outs = tuple([anf.fresh(v.name, r.type(v.type)) for v in self.w.bars])
        then = b.block(lambda: self.opened(b, arms[0], node, Renaming(r.env, renew=True), params))
        rest = b.block(lambda: self.choice(b, tag, arms[1:], node, r, params))
        b.emit_as(outs, anf.If(here, then, rest))
        return outs

    def opened(
        self, b: Builder, arm: _Arm, node: anf.Var, r: Renaming, params: Sequence[anf.Var]
    ) -> tuple[anf.Atom, ...]:
        """Emits the backward half of a variant with what is in the node."""
        if arm.saved:
            found = dict(zip(arm.saved, b.emit(anf.Fields(arm.variant, node)), strict=True))
            for k, size in zip(self.halves.params, params, strict=True):
                if self.w.params[k] in found:
                    _as_passed(b, found, self.w.params[k], size)
            r.env.update(found)
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


def _as_passed(b: Builder, found: dict[anf.Var, anf.Var], size: anf.Var, param: anf.Var) -> None:
    """Writes the types of saved arrays with a size that the function is given, which is the one saved."""
    own = found[size]
    guarded = [v for v in found if own in type_vars(found[v].type)]
    moved = Renaming({own: param})
    types = [moved.type(found[v].type) for v in guarded]
    parts = ("a tape is of a call with the size ", "", ", not ", "", "")
    same = b.prim("eq", own, param)
    checked = b.check(same, "E0706", parts, (own, param), [found[v] for v in guarded], types)
    found.update(zip(guarded, checked, strict=True))
    found[size] = param


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

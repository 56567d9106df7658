"""Questions about the core tree: which locals an expression mentions, which it assigns, how it may be left."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from dlang.specialize.values import ClosureV, DataV, DerivativeV, DynamicV, EnumV, Many, NodeV, TupleV, Value
from dlang.typecheck import core
from dlang.typecheck.trees import Tree, arm_children, children, pattern_locals
from dlang.typecheck.types import Type, TypeArray, TypeCon, TypeFn, resolve
from dlang.typecheck.unify import effects_root

Effects = frozenset[str]

NONE: Effects = frozenset()
RANDOM: Effects = frozenset({"random"})
WORLD: Effects = frozenset({"print", "io"})
"""The effects whose order is seen: a token goes through what has them."""

BUILTINS = {
    "print": "print",
    "progress": "io",
    **dict.fromkeys("read_value read_npz read_npy read_csv read_text read_exists read_clock".split(), "io"),
    **dict.fromkeys("write_value write_row write_npy write_csv write_text".split(), "io"),
    "random_bits": "random",
    "random_uniform": "random",
    "random_normal": "random",
}
_NONE = core.Facts()


def assigned(*trees: Tree) -> list[core.Local]:
    """The mutable locals that are assigned inside, in order of appearance, without those declared there."""
    facts = [facts_of(t) for t in trees]
    declared = frozenset[core.Local]().union(*[f.declared for f in facts])
    return [local for local in dict.fromkeys(local for f in facts for local in f.assigned) if local not in declared]


def escapes(t: Tree) -> frozenset[str]:
    """Returns which of `return`, `break` and `continue` may leave a tree; loops inside keep their own."""
    return facts_of(t).leaves


def facts_of(t: Tree) -> core.Facts:
    """Finds how code may be left, what it assigns and its effects; once where it contains code to any depth."""
    match t:
        case core.Literal():
            return _NONE
        case core.Ref(type=type, local=local):
            return core.Facts(holders=frozenset({local})) if _may_hold_function(type) else _NONE
        case core.FnRef(decl=decl):
            return core.Facts(effects=decl.effects, holders=frozenset({decl}) if decl.local else frozenset())
        case core.Builtin(name="random_run", args=(seed, function)):
            run = facts_of(function)
            drawn = replace(run, effects=run.effects - RANDOM, holders=frozenset(), run=run.holders | run.run)
            return _joined([facts_of(seed), drawn])
        case core.Builtin(name=name) if name in BUILTINS:
            return _with_own(t, effects=frozenset({BUILTINS[name]}))
        case core.Call(function=function):
            return _with_own(t, effects=stated(function.type))
        case core.Return():
            return _with_own(t, leaves=frozenset({"return"}))
        case core.Break():
            return core.Facts(frozenset({"break"}))
        case core.Continue():
            return core.Facts(frozenset({"continue"}))
        case core.Assign():
            return _with_own(t, assigned=(t.place.local,))
        case core.AssignTuple():
            return _with_own(t, assigned=tuple([p.local for p in t.places]))
        case core.Declare():
            return _with_own(t, declared=frozenset(pattern_locals(t.pattern)))
        case (
            core.If() | core.Match() | core.BlockExpr() | core.For() | core.While() | core.Logic()
            | core.LocalFn() | core.Lambda() | core.Comprehension()
        ):  # fmt: skip
            if t.facts is None:
                facts = _inside(t)
                if isinstance(t, core.For | core.While):
                    facts = replace(facts, leaves=facts.leaves & {"return"})
                elif isinstance(t, core.LocalFn | core.Lambda | core.Comprehension):
                    facts = replace(facts, leaves=frozenset())
                object.__setattr__(t, "facts", facts)
                return facts
            return t.facts
        case _:
            return _inside(t)


def _may_hold_function(t: Type) -> bool:
    """Tells whether a value of a type may be a function, or have one inside."""
    t = resolve(t)
    return _may_hold_function(t.element) if isinstance(t, TypeArray) else not isinstance(t, TypeCon)


def _with_own(
    t: Tree,
    leaves: frozenset[str] = frozenset(),
    assigned: tuple[core.Local, ...] = (),
    declared: frozenset[core.Local] = frozenset(),
    effects: Effects = NONE,
) -> core.Facts:
    """Adds what a node itself does to what is known of its parts."""
    inside = _inside(t)
    return replace(
        inside,
        leaves=leaves or inside.leaves,
        assigned=tuple(dict.fromkeys(assigned + inside.assigned)),
        declared=declared | inside.declared,
        effects=effects | inside.effects,
    )


def tails(e: core.Match) -> list[core.Match]:
    """A match, and what is left of it without its first arm, its first two arms and so on.

    Each knows its facts by the next one, so no arm is looked at for each that stands before it.
    """
    tails_reversed: list[core.Match] = []
    value, facts = facts_of(e.value), _NONE
    for k in range(len(e.arms) - 1, -1, -1):
        arm = map(facts_of, arm_children(e.arms[k]))
        facts = _joined([value, *arm, facts])
        tail = core.Match(e.type, e.span, e.value, e.arms[k:], e.opened)
        object.__setattr__(tail, "facts", facts)
        tails_reversed.append(tail)
    return tails_reversed[::-1]


def rests_of(e: core.BlockExpr) -> dict[int, core.BlockExpr]:
    """The rests of a block behind the statements by which it may be left, by the number of their statements.

    Each knows its facts by the next one, so no statement is looked at for each that stands before it.
    """
    rests: dict[int, core.BlockExpr] = {}
    facts, count = facts_of(e.result), len(e.statements)
    for k in range(count - 1, -1, -1):
        statement = facts_of(e.statements[k])
        if statement.leaves:
            rest = rests[count - 1 - k] = core.BlockExpr(e.type, e.span, e.statements[k + 1 :], e.result)
            object.__setattr__(rest, "facts", facts)
        facts = _joined([statement, facts])
    return rests


def _inside(t: Tree) -> core.Facts:
    return _joined(map(facts_of, children(t)))


def _joined(facts: Iterable[core.Facts]) -> core.Facts:
    effective = [f for f in facts if f is not _NONE]
    if len(effective) < 2:
        return effective[0] if effective else _NONE
    return core.Facts(
        frozenset[str]().union(*[f.leaves for f in effective]),
        tuple(dict.fromkeys([local for f in effective for local in f.assigned])),
        frozenset[core.Local]().union(*[f.declared for f in effective]),
        NONE.union(*[f.effects for f in effective]),
        frozenset[core.Local | core.FnDecl]().union(*[f.holders for f in effective]),
        frozenset[core.Local | core.FnDecl]().union(*[f.run for f in effective]),
    )


def mentioned(t: Tree) -> tuple[core.Local | core.FnDecl, ...]:
    """Locals and local functions mentioned inside, in order; the caller keeps those that it knows.

    A function inside is gone through once, and not for each function around it.
    """
    names: dict[core.Local | core.FnDecl, None] = {}
    stack = [t]
    while stack:
        node = stack.pop()
        match node:
            case core.Ref(_, _, local):
                names.setdefault(local)
                continue
            case core.FnRef():
                if node.decl.local:
                    names.setdefault(node.decl)
                continue
            case core.Lambda() | core.LocalFn():
                names.update(dict.fromkeys(_mentioned_in_function(node)))
                continue
            case core.Assign():
                names.setdefault(node.place.local)
            case core.AssignTuple():
                for p in node.places:
                    names.setdefault(p.local)
        stack += reversed(tuple(children(node)))
    return tuple(names)


def _mentioned_in_function(t: core.Lambda | core.LocalFn) -> tuple[core.Local | core.FnDecl, ...]:
    """Locals and local functions that a function mentions, but for its own parameters; found once."""
    if t.mentions is None:
        body, params = (t.body, t.params) if isinstance(t, core.Lambda) else (t.decl.body, t.decl.params)
        own = {p.local if isinstance(p, core.Param) else p for p in params}
        mentions = () if body is None else tuple([n for n in mentioned(body) if n not in own])
        object.__setattr__(t, "mentions", mentions)
        return mentions
    return t.mentions


# ---- effects ---------------------------------------------------------------------------------------------------------
# Finds the effects that running code may have, where it is known which functions its locals hold.

Env = Mapping[core.Local | core.FnDecl, Value]


def effects_of(v: Value) -> Effects:
    """Returns the effects of calling a function value, found once; for a structure, of calling a function in it."""
    match v:
        case ClosureV():
            effects = v.effects
            if effects is None:
                captured = dict(v.captured)
                if v.decl is None:
                    effects = effects_in(v.body, captured)
                else:
                    effects = v.decl.effects.union(*[effects_of(c) for c in captured.values()])
                object.__setattr__(v, "effects", effects)
            return effects
        case DerivativeV():
            return effects_of(v.function)
        case DynamicV(type, _) | NodeV(type, _):
            return type.effects
        case TupleV(items) | DataV(_, items):
            return NONE.union(*map(effects_of, items))
        case EnumV():
            return NONE.union(*map(effects_of, v.fields))
        case Many():
            return effects_of(v.element)
        case _:
            return NONE


def stated(t: Type) -> Effects:
    """Returns the effects of calling a value, as its type states them; none if that allows any effect."""
    t = resolve(t)
    return frozenset(effects_root(t.effects).names) if isinstance(t, TypeFn) else NONE


def acts_in(env: Env, *trees: Tree) -> bool:
    """Tells whether running code may touch the world."""
    return any(WORLD & effects_in(t, env) for t in trees)


def effects_in(t: Tree, env: Env) -> Effects:
    """Returns the effects of running code. A function that it only mentions counts as called."""
    facts = facts_of(t)
    held = NONE.union(*[effects_of(env[n]) for n in facts.holders if n in env])
    run = NONE.union(*[effects_of(env[n]) for n in facts.run if n in env])
    return facts.effects | held | (run - RANDOM)

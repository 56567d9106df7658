"""Questions about the core tree: which locals an expression mentions, which it assigns, how it may be left."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from dlang.specialize.values import ClosureV, DataV, DerivativeV, DynamicV, EnumV, Many, NodeV, TupleV, Value
from dlang.typecheck import core
from dlang.typecheck.trees import Tree, arm_children, children, pattern_locals, walk
from dlang.typecheck.types import Type, TypeFn, resolve
from dlang.typecheck.unify import effects_root

_NONE = core.Facts(frozenset(), (), frozenset())


def assigned(*trees: Tree) -> list[core.Local]:
    """The mutable locals that are assigned inside, in order of appearance, without those declared there."""
    facts = [facts_of(t) for t in trees]
    declared = frozenset[core.Local]().union(*[f.declared for f in facts])
    return [local for local in dict.fromkeys(local for f in facts for local in f.assigned) if local not in declared]


def escapes(t: Tree) -> frozenset[str]:
    """Returns which of `return`, `break` and `continue` may leave a tree; loops inside keep their own."""
    return facts_of(t).leaves


def facts_of(t: Tree) -> core.Facts:
    """Finds how code may be left and what it assigns; once where it contains code to any depth."""
    match t:
        case core.Return():
            return _with_own(t, leaves=frozenset({"return"}))
        case core.Break():
            return core.Facts(frozenset({"break"}), (), frozenset())
        case core.Continue():
            return core.Facts(frozenset({"continue"}), (), frozenset())
        case core.LocalFn() | core.Lambda() | core.Comprehension():
            inside = _inside(t)
            return core.Facts(frozenset(), inside.assigned, inside.declared)
        case core.Assign():
            return _with_own(t, assigned=(t.place.local,))
        case core.AssignTuple():
            return _with_own(t, assigned=tuple([p.local for p in t.places]))
        case core.Declare():
            return _with_own(t, declared=frozenset(pattern_locals(t.pattern)))
        case core.If() | core.Match() | core.BlockExpr() | core.For() | core.While():
            if t.facts is None:
                facts = _inside(t)
                if isinstance(t, core.For | core.While):
                    facts = core.Facts(facts.leaves & {"return"}, facts.assigned, facts.declared)
                object.__setattr__(t, "facts", facts)
                return facts
            return t.facts
        case _:
            return _inside(t)


def _with_own(
    t: Tree,
    leaves: frozenset[str] = frozenset(),
    assigned: tuple[core.Local, ...] = (),
    declared: frozenset[core.Local] = frozenset(),
) -> core.Facts:
    """Adds what a statement itself does to what is known of its parts."""
    inside = _inside(t)
    return core.Facts(
        leaves or inside.leaves, tuple(dict.fromkeys(assigned + inside.assigned)), declared | inside.declared
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
    if not effective:
        return _NONE
    assigned = dict.fromkeys([local for f in effective for local in f.assigned])
    leaves, declared = frozenset[str](), frozenset[core.Local]()
    return core.Facts(
        leaves.union(*[f.leaves for f in effective]), tuple(assigned), declared.union(*[f.declared for f in effective])
    )


def mentioned(t: Tree) -> list[core.Local | core.FnDecl]:
    """Locals and local functions mentioned inside, in order; the caller keeps those that it knows."""
    names: dict[core.Local | core.FnDecl, None] = {}
    for node in walk(t):
        match node:
            case core.Ref(_, _, local):
                names.setdefault(local)
            case core.FnRef() if node.decl.local:
                names.setdefault(node.decl)
            case core.Assign():
                names.setdefault(node.place.local)
            case core.AssignTuple():
                for p in node.places:
                    names.setdefault(p.local)
    return list(names)


# ---- effects ---------------------------------------------------------------------------------------------------------
# Finds the effects that running code may have, where it is known which functions its locals hold.

Env = Mapping[core.Local | core.FnDecl, Value]
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


def effects_of(v: Value) -> Effects:
    """Returns the effects of calling a function value; for a structure, of calling a function in it."""
    match v:
        case ClosureV():
            captured = dict(v.captured)
            if v.decl is None:
                return effects_in(v.body, captured)
            return v.decl.effects.union(*[effects_of(c) for c in captured.values()])
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
    match t:
        case core.Builtin(name="random_run", args=(seed, function)):
            return effects_in(seed, env) | (effects_in(function, env) - RANDOM)
        case core.Builtin(name=name) if name in BUILTINS:
            effects: Effects = frozenset({BUILTINS[name]})
        case core.FnRef(decl=decl):
            return decl.effects | (effects_of(env[decl]) if decl in env else NONE)
        case core.Ref(local=local):
            return effects_of(env[local]) if local in env else NONE
        case core.Call(function=function):
            effects = stated(function.type)
        case _:
            effects = NONE
    return effects.union(*[effects_in(c, env) for c in children(t)])

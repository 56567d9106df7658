"""Finds the effects that running code may have, where it is known which functions its locals hold."""

from __future__ import annotations

from collections.abc import Mapping

from dlang.specialize.values import ClosureV, DataV, DerivativeV, DynamicV, EnumV, Many, NodeV, TupleV, Value
from dlang.typecheck import core
from dlang.typecheck.trees import Tree, children
from dlang.typecheck.types import Type, TypeFn, resolve
from dlang.typecheck.unify import effects_root

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
            own: Effects = frozenset({BUILTINS[name]})
        case core.FnRef(decl=decl):
            return decl.effects | (effects_of(env[decl]) if decl in env else NONE)
        case core.Ref(local=local):
            return effects_of(env[local]) if local in env else NONE
        case core.Call(function=function):
            own = stated(function.type)
        case _:
            own = NONE
    return own.union(*[effects_in(c, env) for c in children(t)])

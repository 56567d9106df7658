"""Dual functions: of the arguments of a function and of tangents; they give its results, then tangents of these.

There is one for each choice of arguments that have tangents. A call in its body that cannot be inlined, because the
function calls itself, is a call of a dual function again; so each has its name before its body is done.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

from dlang.ad.activity import active_vars
from dlang.ad.conversions import Conversions
from dlang.ad.dual import Dual
from dlang.ad.forward import ForwardWalk
from dlang.ad.inlining import inlined_where_active, recursive, unused
from dlang.ir.anf import Atom, Block, Call, Function, Jvp, Let, Program, Type, Var, fresh
from dlang.ir.builder import Builder
from dlang.ir.marks import TANGENT, has_marks, tangent_kind
from dlang.ir.substitution import Renaming, refresh
from dlang.ir.types import carries
from dlang.optimize.distribute import distribute_function


@dataclass(frozen=True, slots=True)
class _Key:
    """A function, and which of its arguments have a tangent.

    border: tangents are of the types of the values, as in `Jvp`; else those of nodes are of their tangent types.
    """

    function: str
    marks: tuple[bool, ...]
    border: bool


@dataclass
class Duals:
    """The dual functions made so far of functions of a program; they join the functions that `nodes` has."""

    program: Program
    nodes: Conversions
    _names: dict[_Key, str] = field(default_factory=dict)

    def call(self, let: Let, op: Jvp) -> Let:
        """The call that stands for a `Jvp`."""
        name = self._named(_Key(op.function, tuple([t is not None for t in op.tangents]), border=True))
        args = (*op.args, *[t for t in op.tangents if t is not None])
        return Let(let.vars, Call(name, args), let.span)

    def named(self, function: str, marks: tuple[bool, ...]) -> str:
        """The name of the dual function for tangents of the marked arguments, inside of a derivative."""
        return self._named(_Key(function, marks, border=False))

    @cached_property
    def _kept(self) -> set[str]:
        """The functions whose calls are not inlined: recursive ones, and those with a rule."""
        return recursive(self.program) | {f.name for f in self.program.functions.values() if _has_rule(f)}

    def _named(self, key: _Key) -> str:
        if key not in self._names:
            functions = self.nodes.functions
            source = self.program.functions[key.function]
            self._names[key] = name = unused(f"{source.name}_jvp", functions)
            params, dots, outs = self._signature(key, source)
            functions[name] = Function(name, (*params, *dots), outs, Block((), ()))
            functions[name] = self._made(name, key, source)
        return self._names[key]

    def _type(self, key: _Key, type: Type) -> Type:
        return type if key.border else self.nodes.type(type)

    def _signature(self, key: _Key, source: Function) -> tuple[tuple[Var, ...], tuple[Var, ...], tuple[Var, ...]]:
        """Fresh parameters, those for tangents, and formal results."""
        renaming = Renaming({}, renew=True)
        params = tuple([renaming.bind(p) for p in source.params])
        marked = [p for p, mark in zip(params, key.marks, strict=True) if mark]
        dots = tuple([fresh(f"{p.name}_dot", self._type(key, p.type)) for p in marked])
        formals = Renaming(renaming.env, renew=True)
        outs = [formals.bind(r) for r in source.results]
        outs += [fresh(f"{r.name}_dot", self._type(key, r.type)) for r in outs if self._dotted(key, r.type)]
        return params, dots, tuple(outs)

    def _dotted(self, key: _Key, type: Type) -> bool:
        """Tells whether a result of this type comes with a tangent."""
        return carries(type) if key.border else self.nodes.carries(type)

    def _made(self, name: str, key: _Key, source: Function) -> Function:
        params, dots, outs = self._signature(key, source)
        renaming = Renaming(dict(zip(source.params, params, strict=True)), renew=True)
        if _has_rule(source):
            results = tuple([renaming.bind(r) for r in source.results])
            body = Block((Let(results, Call(source.name, params), source.span),), results)
        else:
            body = refresh(source.body, renaming.env)
        seeds = [p for p, mark in zip(params, key.marks, strict=True) if mark]
        seeded = [self.nodes.carries(r.type) for r in source.results]
        held = self.nodes.held
        body = inlined_where_active(self.program, body, seeds, seeded, self._kept, held)
        body = distribute_function(Function(source.name, params, source.results, body)).body
        b = Builder(self.nodes.functions, source.span)
        active = active_vars(body, seeds, seeded, held) | {p for p in seeds if self.nodes.carries(p.type)}
        kind = tangent_kind(body) if has_marks(source.body) else TANGENT
        s = ForwardWalk(b, active, self.nodes, self, kind)
        with b.scope() as lets:
            for p, dot in zip(seeds, dots, strict=True):
                if p in active:
                    s.set(p, self.nodes.to_tangent(b, p, dot) if key.border else dot)
            s.walk(body.lets)
            tangents = [self._result(s, key, r) for r in body.results if self._dotted(key, r.type)]
        block = Block(tuple(lets), (*body.results, *tangents))
        return Function(name, (*params, *dots), outs, block, source.label, source.span)

    def _result(self, s: Dual, key: _Key, value: Atom) -> Atom:
        return self.nodes.from_tangent(s.b, value, s.dot(value)) if key.border else s.built(value)


def _has_rule(f: Function) -> bool:
    return f.rules is not None and f.rules.pushforward is not None

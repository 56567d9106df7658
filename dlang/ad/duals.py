"""Dual functions: of the arguments of a function and of tangents; they give its results, then tangents of these.

There is one for each choice of arguments that have tangents. A call in its body that cannot be inlined, because the
function calls itself, is a call of a dual function again; so each has its name before its body is done.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from dlang.ad.activity import active_vars
from dlang.ad.dual import Dual
from dlang.ad.forward import push_block, result_dots
from dlang.ad.inlining import inlined_where_active, recursive, unused
from dlang.ir.anf import Block, Call, Function, Jvp, Let, Program, fresh
from dlang.ir.builder import Builder
from dlang.ir.traverse import Renaming, refresh
from dlang.ir.types import carries
from dlang.optimize.distribute import distribute_function

Key = tuple[str, tuple[bool, ...]]  # a function, and which of its arguments have a tangent


@dataclass(slots=True)
class Duals:
    """The dual functions made so far of functions of a program; they join `functions`."""

    program: Program
    functions: dict[str, Function]
    names: dict[Key, str] = field(default_factory=dict)
    kept: frozenset[str] | None = None

    def call(self, let: Let, op: Jvp) -> Let:
        """The call that stands for a `Jvp`."""
        name = self.named(op.function, tuple([t is not None for t in op.tangents]))
        args = (*op.args, *[t for t in op.tangents if t is not None])
        return Let(let.vars, Call(name, args), let.span)

    def named(self, function: str, marks: tuple[bool, ...]) -> str:
        """The name of the dual function for tangents of the marked arguments."""
        key = function, marks
        if key not in self.names:
            name = unused(f"{function}_jvp", self.functions)
            source = self.program.functions[function]
            self.names[key] = name
            self.functions[name] = source  # keeps the name until the body is done
            self.functions[name] = self._made(name, source, marks)
        return self.names[key]

    def _kept(self) -> frozenset[str]:
        """The functions whose calls are not inlined: recursive ones, and those with a rule."""
        if self.kept is None:
            ruled = [f.name for f in self.program.functions.values() if _has_rule(f)]
            self.kept = frozenset((*recursive(self.program), *ruled))
        return self.kept

    def _made(self, name: str, source: Function, marks: tuple[bool, ...]) -> Function:
        renaming = Renaming({}, fresh=True)
        params = tuple([renaming.bind(p) for p in source.params])
        if _has_rule(source):
            results = tuple([renaming.bind(r) for r in source.results])
            body = Block((Let(results, Call(source.name, params), source.span),), results)
        else:
            body = refresh(source.body, renaming.env)
        seeds = [p for p, mark in zip(params, marks, strict=True) if mark]
        seeded = [carries(r.type) for r in source.results]
        body = inlined_where_active(self.program, body, seeds, seeded, self._kept())
        body = distribute_function(Function(source.name, params, source.results, body)).body
        b = Builder(self.program.functions, source.span)
        active = active_vars(body, seeds, seeded) | set(seeds)
        s = Dual(b, active, self.program.functions, push_block, self.named)
        dots = tuple([s.bind(p) for p in seeds])
        with b.scope() as lets:
            push_block(body.lets, s)
            tangents = result_dots(body.results, s)
        formals = Renaming(dict(zip(source.params, params, strict=True)), fresh=True)
        outs = [formals.bind(r) for r in source.results]
        outs += [fresh(f"{r.name}_dot", r.type) for r in outs if carries(r.type)]
        block = Block(tuple(lets), (*body.results, *tangents))
        return Function(name, (*params, *dots), tuple(outs), block, source.label, source.span)


def _has_rule(f: Function) -> bool:
    return f.rules is not None and f.rules.pushforward is not None

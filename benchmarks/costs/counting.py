"""Counts what a function and its derivatives cost, by the interpreter, in the program that the back ends get.

An operation is one scalar primitive, or one element read or written. A pass is a loop over arrays: a comprehension, a
product, a running sum, a library call.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from dlang.driver import Request, check, lower, read_source
from dlang.ir.anf import FLOATS, Array, Atom, Program, Scalar, Var
from dlang.ir.builder import Builder
from dlang.ir.interpreter import Interpreter
from dlang.ir.substitution import refresh_vars
from dlang.listings import request
from dlang.python.arguments import Matcher
from dlang.specialize.specialize import Entry
from dlang.tools.drawing import Leaf, drawn, leaves_of
from dlang.typecheck import types as ty
from dlang.typecheck.core import FnDecl

HERE = Path(__file__).resolve().parent
REVERSE, FORWARD = "values and cotangents", "values and tangents"


@dataclass(frozen=True, slots=True)
class Counts:
    """What a run took. kinds: the operations by the name of their op; allocated: bytes of arrays made."""

    operations: int
    passes: int
    allocated: int
    kinds: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Costs:
    """A function at some sizes, its value and cotangents together, its value and a tangent together.

    returned: how many elements the cotangents have.
    """

    value: Counts
    reverse: Counts
    forward: Counts
    returned: int

    @property
    def reverse_ratio(self) -> float:
        """By the operations of the function itself and the elements of the cotangents."""
        return self.reverse.operations / (self.value.operations + self.returned)

    @property
    def forward_ratio(self) -> float:
        return self.forward.operations / self.value.operations


@dataclass(frozen=True, slots=True)
class Compiled:
    """A function with its derivatives in all of its floats, optimised. seeded: the results that have cotangents."""

    program: Program
    entry: Entry
    leaves: Sequence[Leaf]
    names: Sequence[str]
    wrt: Sequence[int]
    seeded: Sequence[int]

    def costs(self, sizes: Mapping[str, int], seed: int = 0) -> Costs:
        """The costs at sizes by name, of random arguments; an integer of the function that is named has that value."""
        args = drawn(self.entry, self.leaves, [sizes[name] for name in self.names], seed)
        head = len(args) - len(self.leaves)
        for k, leaf in enumerate(self.leaves):
            if leaf.name in sizes:
                args[head + k] = np.int64(sizes[leaf.name])
        value, results = self.run(self.entry.name, args)
        ones = [np.ones_like(results[k]) for k in self.seeded]
        reverse, _ = self.run(REVERSE, [*args, *ones])
        forward, _ = self.run(FORWARD, [*args, *(np.ones_like(args[k]) for k in self.wrt)])
        return Costs(value, reverse, forward, sum(int(np.size(args[k])) for k in self.wrt))

    def run(self, name: str, args: Sequence[Any]) -> tuple[Counts, list[Any]]:
        """What a run takes, and its results."""
        interpreter = Interpreter(self.program)
        results = interpreter.run(name, [a.copy() if isinstance(a, np.ndarray) else a for a in args])
        kinds = dict(interpreter.counts)
        return Counts(interpreter.operations, interpreter.passes, interpreter.allocated, kinds), results


@cache
def compiled(file: str, function: str) -> Compiled:
    """A function of a file beside this one, with its derivatives."""
    checked = check(read_source(str(HERE / file)))
    assert not checked.diagnostics, [d.message for d in checked.diagnostics]
    decl = checked.module.functions[function]
    return with_derivatives(decl, request(decl))


def with_derivatives(decl: FnDecl, wanted: Request) -> Compiled:
    """A function with its derivatives in all of its floats, along the cotangents and tangents that are given."""
    variables = [v for v in decl.variables if v in wanted.bindings and not isinstance(v, ty.TypeVar)]
    kept: list[tuple[list[int], list[int]]] = []

    def extend(program: Program, entries: Sequence[Entry]) -> tuple[Program, list[str]]:
        f = program.functions[entries[0].name]
        wrt = [k for k, p in enumerate(f.params) if _is_float(p)]
        seeded = [k for k, r in enumerate(f.results) if _is_float(r)]
        kept.append((wrt, seeded))
        made = dict(program.functions)

        b = Builder(made, f.span)
        params = b.params = list(refresh_vars(f.params, {}))
        env = dict(zip(f.params, params, strict=True))
        cotangents: list[Atom | None] = [
            b.param("seed", refresh_vars((r,), env)[0].type) if k in seeded else None for k, r in enumerate(f.results)
        ]
        made[REVERSE] = b.function(REVERSE, b.vjp(f.name, params[: len(f.params)], wrt, cotangents))

        b = Builder(made, f.span)
        params = b.params = list(refresh_vars(f.params, {}))
        tangents = [b.param("dot", p.type) if k in wrt else None for k, p in enumerate(list(params))]
        made[FORWARD] = b.function(FORWARD, b.jvp(f.name, params[: len(f.params)], tangents))
        return Program(made, program.datatypes, program.python), [REVERSE, FORWARD]

    program, (entry,) = lower([wanted], verify=True, extend=extend)
    wrt, seeded = kept[0]
    return Compiled(program, entry, leaves_of(decl, entry, variables), [v.name or "_" for v in variables], wrt, seeded)


def _is_float(v: Var) -> bool:
    return isinstance(v.type, Scalar | Array) and v.type.dtype in FLOATS


def operations(module: Any, name: str, args: Sequence[Any]) -> int:
    """What a function of a module takes that was loaded for the interpreter."""
    function = getattr(module, name)
    matcher = Matcher(function.decl)
    matcher.match(dict(zip(function.decl.params, args, strict=True)))
    prepared = function.program.prepare(function.decl, matcher.bindings())
    found = prepared.given(args)
    assert found is not None, "arguments that hold themselves"
    prepared, leaves = found
    before = prepared.instance.runner.operations
    prepared(leaves)
    return int(prepared.instance.runner.operations - before)

"""The rewriting walk: what no rule changes stays, and what rules replace, write first or splice means the same."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings

from dlang.interpret.interpreter import Interpreter
from dlang.ir import anf
from dlang.ir.builder import Builder, f64, i64
from dlang.ir.printer import print_program
from dlang.ir.rewriting import Rewriter
from dlang.ir.traverse import map_bodies, walk
from dlang.ir.types import I64
from dlang.ir.verify import verify
from tests.ir.programs import programs


def rewritten(p: anf.Program, rewriter: type[Rewriter]) -> anf.Program:
    """A program after a walk, verified."""
    new = map_bodies(p, lambda body: rewriter().block(body))
    verify(new)
    return new


def run(p: anf.Program) -> list[object]:
    rng = np.random.default_rng(0)
    return Interpreter(p).run("f", [3, rng.normal(size=3), rng.normal(size=(3, 3))])


@settings(max_examples=30, deadline=None)
@given(programs())
def test_without_rules_a_program_is_itself(p: anf.Program) -> None:
    assert all(rewritten(p, Rewriter).functions[name] is f for name, f in p.functions.items())


class Copies(Rewriter):
    """Replaces every variable by a fresh one."""

    def __init__(self) -> None:
        super().__init__(renew=True)


@settings(max_examples=30, deadline=None)
@given(programs())
def test_a_walk_that_renews_makes_a_copy(p: anf.Program) -> None:
    new = rewritten(p, Copies)
    assert print_program(new) == print_program(p)
    old = {v for let in walk(p.functions["f"].body) for v in let.vars}
    assert old.isdisjoint(v for let in walk(new.functions["f"].body) for v in let.vars)


class Twice(Rewriter):
    """Computes what has one result once more in front of it, and uses the first of both."""

    def rule(self, let: anf.Let) -> None:
        op = self.op(let.op)
        if isinstance(op, anf.Prim | anf.Read):
            first = self.emit(op, self.type(let.vars[0].type), span=let.span)
            assert self.definition(first) is op
            self.keep(let, op)
            self.env[let.vars[0]] = first
        else:
            self.keep(let, op)


@settings(max_examples=30, deadline=None)
@given(programs())
def test_what_replaces_a_variable_is_used_wherever_it_was(p: anf.Program) -> None:
    new = rewritten(p, Twice)
    np.testing.assert_equal(run(new), run(p))
    lets = list(walk(new.functions["f"].body))
    twice = [let for let in lets if isinstance(let.op, anf.Prim | anf.Read)]
    assert [a.op for a in twice[::2]] == [b.op for b in twice[1::2]]


class Defined(Rewriter):
    """Compares what is known of each operand with how it is bound in what has been written."""

    def block(self, block: anf.Block) -> anf.Block:
        new = super().block(block)
        for let in new.lets:
            assert all(self.defined[v] is let and self.definition(v) is let.op for v in let.vars)
        return new


@settings(max_examples=30, deadline=None)
@given(programs())
def test_the_definition_of_a_variable_is_the_operation_that_binds_it(p: anf.Program) -> None:
    rewritten(p, Defined)


class Taken(Rewriter):
    """Puts the first arm in the place of every branch."""

    def rule(self, let: anf.Let) -> None:
        if isinstance(let.op, anf.If):
            self.splice(let.op.then, let.vars)
        else:
            super().rule(let)


def test_a_spliced_block_takes_the_place_of_an_operation() -> None:
    b = Builder()
    n = b.param("n", I64)
    inner = anf.If(b.prim("gt", n, i64(0)), b.block(lambda: b.add(n, i64(1))), b.block(lambda: n))
    outer = b.if_(b.prim("gt", n, i64(2)), lambda: [b.one(inner), f64(0.5)], lambda: [i64(7), f64(2.0)])
    p = anf.Program({"f": b.function("f", list(outer))})
    new = rewritten(p, Taken)
    assert not any(isinstance(let.op, anf.If) for let in walk(new.functions["f"].body))
    assert Interpreter(new).run("f", [9]) == Interpreter(p).run("f", [9]) == [10, 0.5]
    assert Interpreter(new).run("f", [-5]) == [-4, 0.5]

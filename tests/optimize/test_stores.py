"""Values that a block makes are written into the tapes that belong to them, in whatever order these are given."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import permutations

import numpy as np
import pytest

from dlang.host.effects import Host
from dlang.interpret.interpreter import Interpreter
from dlang.ir.anf import Array, Atom, Block, Empty, Function, If, Let, Lit, Program, Scalar, Size, Var, fresh, poly
from dlang.ir.builder import Builder
from dlang.ir.verify import verify
from dlang.optimize.stores import stored

ROWS, ELEMENTS = 2, 3
ROW, TAPE = Array("f64", (poly(ELEMENTS),)), Array("f64", (poly(ROWS), poly(ELEMENTS)))


def first_row(shape: Sequence[Size], index: Sequence[Size]) -> tuple[Size, ...]:
    return (poly(0), *index)


def arm(values: Sequence[float]) -> Block:
    """An arm that makes a row of each value in turn."""
    b = Builder({}, None)
    with b.scope() as lets:
        rows: list[Atom] = []
        for value in values:
            empty = b.one(Empty("f64", (poly(ELEMENTS),)))
            row: Var = empty
            for k in range(ELEMENTS):
                row = b.update(row, (poly(k),), Lit(value + k, "f64"))
            rows.append(row)
    return Block(tuple(lets), tuple(rows))


@pytest.mark.parametrize("order", list(permutations(range(3))))
@pytest.mark.parametrize("condition", [True, False])
def test_arms_write_what_they_make_into_the_tapes_that_it_belongs_to(order: tuple[int, ...], condition: bool) -> None:
    here = fresh("c", Scalar("bool"))
    made = tuple(fresh("row", ROW) for _ in range(3))
    branch = Let(made, If(here, arm([10.0, 20.0, 30.0]), arm([40.0, 50.0, 60.0])))
    tapes = [fresh("tape", TAPE) for _ in made]
    lets, after = stored([branch], [(made[k], tapes[k], first_row) for k in order])
    results = tuple(fresh("end", TAPE) for _ in after)
    function = Function("f", (here, *tapes), results, Block(tuple(lets), tuple(after)))
    program = Program({"f": function})
    verify(program)
    out = Interpreter(program, Host()).run("f", [condition, *[np.zeros((ROWS, ELEMENTS)) for _ in tapes]])
    assert [float(tape[0, 0]) for tape in out] == [(10.0 if condition else 40.0) + 10.0 * k for k in order]

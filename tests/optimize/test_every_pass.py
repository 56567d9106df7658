"""Random programs keep their meaning through every pass, and cost no more."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, note, settings

from dlang.ir.anf import Program
from dlang.ir.printer import print_program
from dlang.optimize.contractions import contractions
from dlang.optimize.cse import cse
from dlang.optimize.dce import dce
from dlang.optimize.fuse import fuse
from dlang.optimize.hoist import hoist
from dlang.optimize.inline import inline
from dlang.optimize.ownership import ownership
from dlang.optimize.simplify import simplify
from tests.optimize.programs import Pass, arguments, assert_same, cost, programs, run, through

SIZES = [(3, 2), (1, 1), (0, 2), (2, 0)]


def inlined(p: Program) -> Program:
    return inline(p, ["f"])


@pytest.mark.parametrize("step", [inlined, simplify, cse, dce, hoist, ownership], ids=lambda f: f.__name__)
@settings(max_examples=50, deadline=None, suppress_health_check=list(HealthCheck))
@given(p=programs())
def test_a_pass_that_does_not_reassociate_keeps_every_bit(step: Pass, p: Program) -> None:
    note(print_program(p))
    after = through(p, step)
    for n, m in SIZES:
        args = arguments(n, m)
        with np.errstate(all="ignore"):
            assert_same(run(p, args), run(after, args))


@settings(max_examples=50, deadline=None, suppress_health_check=list(HealthCheck))
@given(p=programs())
def test_fusion_changes_nothing_but_the_order_of_sums(p: Program) -> None:
    note(print_program(p))
    after = through(p, fuse)
    for n, m in SIZES:
        args = arguments(n, m)
        with np.errstate(all="ignore"):
            assert_same(run(p, args), run(after, args), exact=False)


@settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck))
@given(p=programs())
def test_all_passes_together_keep_the_meaning_and_cost_no_more(p: Program) -> None:
    note(print_program(p))
    passes: list[Pass] = [simplify, cse, dce, contractions, hoist, fuse, simplify, cse, dce, hoist]
    after = through(p, *passes)
    last = through(after, ownership)
    for n, m in SIZES:
        args = arguments(n, m)
        with np.errstate(all="ignore"):
            assert_same(run(p, args), run(last, args), exact=False)
    args = arguments(4, 3)
    with np.errstate(all="ignore"):
        assert cost(after, args) <= cost(p, args)

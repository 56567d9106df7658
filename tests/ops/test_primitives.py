"""Every primitive has every fact that a stage asks for, and the facts agree with one another."""

from __future__ import annotations

import pytest

from dlang.codegen.llvm.mathematics import routine
from dlang.ir.values import FUNCTIONS
from dlang.ops.primitives import BITS, BOOL, FLOAT, NUM, PRIMITIVES, Approximation, Instruction, Primitive

KINDS = {FLOAT: ("f64",), NUM: ("f64", "i64", "u64"), BITS: ("i64", "u64", "bool"), BOOL: ("bool",)}


@pytest.mark.parametrize("p", PRIMITIVES.values(), ids=lambda p: p.name)
def test_a_primitive_has_a_text_for_each_kind_of_dtype_that_it_takes(p: Primitive) -> None:
    assert p.name in FUNCTIONS and len(p.derivative) == len(p.slope) == p.arity and p.cost > 0
    for dtype in KINDS.get(p.domain, ("u64",)):
        assert p.cuda.of(dtype)
        match p.llvm:
            case Instruction(texts):
                assert texts.of(dtype)
            case Approximation():
                assert routine(p.name, dtype, 1) is not None


@pytest.mark.parametrize("p", PRIMITIVES.values(), ids=lambda p: p.name)
def test_comparisons_come_in_pairs(p: Primitive) -> None:
    if p.opposite:
        assert PRIMITIVES[p.opposite].opposite == p.name and p.operator
    if p.swapped:
        assert PRIMITIVES[p.swapped].swapped == p.name and p.gap is not None

"""Products and sums in one operation: which are, and that the bits of results are the same at all levels of LLVM."""

from __future__ import annotations

import io
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from dlang.codegen.llvm.assembly import Arithmetic, Label, Line, fused
from dlang.codegen.llvm.modules import emit
from dlang.codegen.llvm.objects import LEVELS, USUAL
from dlang.codegen.schedule import schedule
from dlang.codegen.vectorize import Lanes
from dlang.host.effects import Host
from dlang.pipeline import optimise
from dlang.runtime.engine import Engine
from tests.codegen.cases import CASES, Case


def fma(result: str, x: str, y: str, rest: str) -> str:
    return f"  {result} = call double @llvm.fma.f64(double {x}, double {y}, double {rest})"


OPERATION = re.compile(r"(%\w+) = f(add|sub|mul|neg)( reassoc)? contract double (.*)")


def parsed(text: str) -> Line:
    """A line; what has the flag `contract` may be fused."""
    if text.endswith(":"):
        return Label(text.removesuffix(":"))
    found = OPERATION.fullmatch(text)
    if found is None:
        return f"  {text}"
    result, operation, any_order, operands = found.groups()
    return Arithmetic(result, operation, "double", "f64", tuple(operands.split(", ")), any_order is not None)


def after(text: Sequence[str], fuses: bool = True) -> list[str]:
    return [str(line) for line in fused([parsed(line) for line in text], fuses)[0]]


def assert_becomes(text: Sequence[str], wanted: Sequence[str]) -> None:
    assert after(text) == list(wanted)


PRODUCT = "%m1 = fmul contract double %a, %b"


def test_a_product_that_is_used_once_in_a_sum_becomes_part_of_it() -> None:
    assert_becomes([PRODUCT, "%m2 = fadd contract double %c, %m1"], [fma("%m2", "%a", "%b", "%c")])


def test_a_product_that_is_subtracted_is_negated() -> None:
    wanted = ["  %m2.x = fneg double %a", fma("%m2", "%m2.x", "%b", "%c")]
    assert_becomes([PRODUCT, "%m2 = fsub contract double %c, %m1"], wanted)


def test_what_is_subtracted_from_a_product_is_negated() -> None:
    wanted = ["  %m2.r = fneg double %c", fma("%m2", "%a", "%b", "%m2.r")]
    assert_becomes([PRODUCT, "%m2 = fsub contract double %m1, %c"], wanted)


def test_the_negative_of_a_product_becomes_part_of_a_sum() -> None:
    text = [PRODUCT, "%m2 = fneg contract double %m1", "%m3 = fsub contract double %c, %m2"]
    assert_becomes(text, [fma("%m3", "%a", "%b", "%c")])


@pytest.mark.parametrize(
    "uses",
    [["%m2 = fadd contract double %m1, %m1"], ["store double %m1, ptr %p", "%m2 = fadd contract double %m1, %c"]],
)
def test_a_product_that_is_used_twice_stays(uses: Sequence[str]) -> None:
    assert_becomes([PRODUCT, *uses], [f"  {line.replace(' contract', '')}" for line in (PRODUCT, *uses)])


def test_a_product_of_another_block_stays() -> None:
    text = [PRODUCT, "next:", "%m2 = fadd contract double %c, %m1"]
    assert after(text) == [f"  {PRODUCT}".replace(" contract", ""), "next:", "  %m2 = fadd double %c, %m1"]


def test_of_two_products_the_first_becomes_part_of_their_sum() -> None:
    text = [PRODUCT, "%m2 = fmul contract double %c, %d", "%m3 = fadd contract double %m1, %m2"]
    assert_becomes(text, ["  %m2 = fmul double %c, %d", fma("%m3", "%a", "%b", "%m2")])


def test_the_terms_of_a_reduction_that_are_sums_of_products_are_added_one_after_another() -> None:
    text = [
        PRODUCT,
        "%m2 = fmul contract double %c, %d",
        "%m3 = fsub contract double %m1, %m2",
        "%m4 = fadd reassoc contract double %total, %m3",
    ]
    inner = ["  %m4.1.x = fneg double %c", fma("%m4.1", "%m4.1.x", "%d", "%total")]
    assert_becomes(text, [*inner, fma("%m4", "%a", "%b", "%m4.1")])
    in_order = [*text[:3], "%m4 = fadd contract double %total, %m3"]
    assert after(in_order)[-1] == "  %m4 = fadd double %total, %m3"


def test_without_the_operation_nothing_is_fused() -> None:
    text = [PRODUCT, "%m2 = fadd reassoc contract double %c, %m1"]
    assert after(text, False) == [f"  {PRODUCT}".replace(" contract", ""), "  %m2 = fadd double %c, %m1"]


@pytest.mark.parametrize("fuses", [True, False])
def test_no_text_leaves_a_choice_of_bits_to_llvm(fuses: bool) -> None:
    for case in CASES:
        program = schedule(optimise(case.program, ["f"]), Lanes(256))
        text = emit(program, ["f"], replace(LEVELS[USUAL], fma=fuses)).llvm
        assert re.search(r" (?:contract|reassoc|fast|arcp|afn|nsz|nnan|ninf) ", text) is None


def bits(results: Sequence[Any]) -> list[Any]:
    """The bits of results; of every NaN the same."""
    return [
        r
        if isinstance(r, str)
        else np.where(np.isnan(r), np.nan, r).tobytes()
        if is_float(r)
        else np.asarray(r).tobytes()
        for r in results
    ]


def is_float(x: Any) -> bool:
    return bool(np.issubdtype(np.asarray(x).dtype, np.floating))


@pytest.mark.parametrize("case", CASES[::3], ids=lambda c: c.name)
def test_the_level_of_llvm_changes_no_bit(case: Case) -> None:
    program = optimise(case.program, ["f"])
    quick, good = (Engine(Host(io.StringIO()), level=level).compile(program, ["f"]) for level in (0, 2))
    rng = np.random.default_rng(11)
    for n in case.sizes:
        args = case.arguments(rng, n)
        assert bits(quick.run("f", args)) == bits(good.run("f", args))

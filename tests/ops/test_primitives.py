"""Every column of every primitive: that it is there, and that what it says is so."""

from __future__ import annotations

import itertools
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from dlang.codegen.cuda import scalars as cuda
from dlang.codegen.llvm.mathematics import FUNCTIONS as APPROXIMATED
from dlang.codegen.llvm.scalars import Module, Scalars
from dlang.interpret.traced import SLOPES
from dlang.ir.values import FUNCTIONS
from dlang.ops.dtypes import rounded
from dlang.ops.primitives import (
    ADDITION,
    CLASSES,
    DIVISION,
    OPERATORS,
    PRIMITIVES,
    REMAINDER,
    ROOT,
    ROUNDING,
    SERIES,
    Primitive,
    result_dtype,
)
from tests.patience import PATIENCE

EACH = pytest.mark.parametrize("p", PRIMITIVES.values(), ids=PRIMITIVES)
REALS = (0.0, -0.0, 0.3, -0.3, 1.0, -1.0, 2.5, -2.5, 3.0, 7.25, 90.0, -90.0, 6e4)
WHOLE = (0, 1, 2, 3, 7, 8, 63, 100, -1, -2, -7, -100)
OPEN = frozenset(("maximum", "minimum", "zero_safe_mul_both"))
"""Of a zero and one with a sign the result depends on the order."""


def dtypes_of(p: Primitive, dtype: str) -> tuple[str, ...]:
    """The dtypes of the arguments, if those that are alike are of one."""
    match p.name:
        case "select":
            return "bool", dtype, dtype
        case "powi":
            return dtype, "i64"
        case _:
            return (dtype,) * p.arity


def results(p: Primitive, numbers: tuple[Any, ...], kind: type) -> Iterator[tuple[list[Any], Any]]:
    """The arguments of one dtype, and what the primitive gives; a condition is true, and an exponent of 2 whole."""
    for chosen in itertools.product(numbers, repeat=min(p.arity, 2)):
        args = [kind(x) for x in chosen]
        match p.name:
            case "select":
                args = [np.bool_(True), *args]
            case "powi":
                args[1] = np.int64(2)
            case "pow" if issubclass(kind, np.integer):
                args[1] = kind(abs(int(args[1])))
        with np.errstate(all="ignore"):
            yield args, FUNCTIONS[p.name](*args)


def reals(p: Primitive) -> Iterator[tuple[list[Any], Any]]:
    return results(p, REALS, np.float64) if "f64" in CLASSES[p.domain] else iter(())


def whole(p: Primitive) -> Iterator[tuple[list[Any], Any]]:
    divides = p.name in ("floordiv", "mod")
    return (
        (args, r)
        for args, r in (results(p, WHOLE, np.int64) if "i64" in CLASSES[p.domain] and p.arity < 4 else ())
        if not divides or args[1]
    )


# ---- nothing is missing ----------------------------------------------------------------------------------------------
@EACH
def test_a_derivative_and_its_check_are_said_of_each_argument(p: Primitive) -> None:
    assert len(p.derivative) == len(p.slope) == p.arity
    if p.name != "select":
        assert [text is None for text in p.derivative] == [text is None for text in p.slope]
    assert (p.name in SLOPES) == any(p.slope)


@EACH
def test_both_back_ends_have_a_text_for_each_dtype(p: Primitive) -> None:
    for dtype in sorted(CLASSES[p.domain] - {"str"}):
        dtypes, args = dtypes_of(p, dtype), ["%a", "%b", "%c", "%d"][: p.arity]
        scalars = Scalars(Module(), [])
        assert scalars.primitive(p.name, dtypes, args) == "%a" or scalars.lines
        text = cuda.primitive(p.name, dtypes, args)
        assert all(a in text for a in args) and "{" not in text


@EACH
def test_costs_and_operations_are_said(p: Primitive) -> None:
    assert p.cost in (ADDITION, ROUNDING, ROOT, DIVISION, REMAINDER, SERIES)
    assert (p.flops is None) == (p.name in APPROXIMATED or p.bound == "power") or p.name == "rsqrt"
    if "f64" not in CLASSES[p.domain] or p.result == "bool":
        assert p.flops == 0
    if p.flops is None:
        assert p.cost == SERIES


@EACH
def test_whatever_the_language_calls_has_a_description_and_names_of_arguments(p: Primitive) -> None:
    if p.word is not None:
        assert len(p.word.params) == p.arity and p.word.about.endswith(".") and p.word.bound
        assert (p.word.result == "bool") == (result_dtype(p.name, ("f64",) * p.arity) == "bool")
    if p.ufunc is not None:
        assert getattr(np, p.ufunc.name).nin == p.arity
        assert p.word or p.operator or p.ufunc.text


def test_each_operator_is_one_primitive() -> None:
    assert len(OPERATORS) == sum(bool(p.operator) for p in PRIMITIVES.values())


# ---- what is said is so ----------------------------------------------------------------------------------------------
@EACH
def test_operands_change_places_just_where_that_changes_nothing(p: Primitive) -> None:
    if p.arity != 2 or p.name == "powi" or p.domain == "bool":
        return
    function = FUNCTIONS[p.name]
    pairs = [(args, r) for args, r in (*reals(p), *whole(p)) if p.domain != "Bits" or isinstance(r, np.integer)]
    with np.errstate(all="ignore"):
        same = all(repr(function(*reversed(args))) == repr(r) for args, r in pairs)
    assert same == p.commutative or p.name in OPEN


@EACH
def test_a_unit_leaves_the_other_operand_alone(p: Primitive) -> None:
    function, truths = FUNCTIONS[p.name], [np.bool_(False), np.bool_(True)]
    if p.unit is None:
        return
    for kind, numbers in ((np.float64, REALS), (np.int64, WHOLE), (np.bool_, truths)):
        if {np.float64: "f64", np.int64: "i64"}.get(kind, "bool") in CLASSES[p.domain] and (
            isinstance(p.unit, bool) == (kind is np.bool_)
        ):
            for x in map(kind, numbers):
                assert repr(kind(function(x, kind(p.unit)))) == repr(x)
                assert not p.commutative or repr(kind(function(kind(p.unit), x))) == repr(x)


@EACH
def test_equal_operands_give_what_the_table_says(p: Primitive) -> None:
    function = FUNCTIONS[p.name]
    for kind, dtype, numbers in ((np.float64, "f64", (*REALS, np.nan, np.inf)), (np.int64, "i64", WHOLE)):
        for x in map(kind, numbers if dtype in CLASSES[p.domain] and p.alike is not None else ()):
            if p.alike == "operand":
                assert repr(function(x, x)) == repr(x)
            elif dtype == "i64":
                assert function(x, x) == p.alike


@EACH
def test_comparisons_have_their_opposites(p: Primitive) -> None:
    compares = p.result == "bool" and p.arity == 2 and p.domain != "bool"
    assert compares == bool(p.opposite)
    assert bool(p.swapped) == bool(p.gap) == (compares and not p.commutative)
    if not compares:
        return
    for (x, y), r in whole(p):
        assert FUNCTIONS[p.opposite](x, y) == (not r)
        if p.gap is not None:
            sign, less = p.gap
            assert FUNCTIONS[p.swapped](y, x) == r == (sign * (y - x) + less >= 0)


@EACH
def test_a_result_of_half_precision_is_rounded_unless_it_is_exact(p: Primitive) -> None:
    if p.result == "bool" or "f16" not in CLASSES[p.domain] or (p.domain == "Any" and p.name != "select"):
        return
    found = [float(r) for args, r in results(p, tuple(rounded(x, "f16") for x in REALS), np.float32)]
    assert all(r != r or rounded(r, "f16") == r for r in found) == p.exact


@EACH
def test_results_are_as_large_as_the_table_says(p: Primitive) -> None:
    for args, r in reals(p):
        largest = max(1.0, *(abs(float(a)) for a in args))
        size = 0.0 if r != r else abs(float(r))
        match p.bound:
            case "unit":
                assert size <= 1
            case "finite" | "sum":
                assert np.isfinite(size)
            case "largest" | "choice":
                assert size <= np.ceil(largest)
            case "second":
                assert size <= abs(args[1])
            case "exp":
                assert size <= 1 or args[0] > 0
            case "product":
                assert size <= abs(args[0] * args[1])


@EACH
def test_integers_are_no_larger_than_the_table_says(p: Primitive) -> None:
    for (x, *rest), r in whole(p):
        match p.magnitude, rest:
            case "sum", [y]:
                assert abs(r) <= abs(x) + abs(y)
            case "first", _:
                assert abs(r) <= abs(x)
            case "second", [y]:
                assert abs(r) <= abs(y)


# ---- one place -------------------------------------------------------------------------------------------------------
ROW = """
    Primitive(
        "copysign", 2, FLOAT, "same", "np.copysign(x, y)", ("zero_safe_mul(g, sign(x) * sign(y))", None),
        ("sign(x) * sign(y)", None),
        cost=ADDITION, flops=0, llvm=Intrinsic("copysign"), cuda=Texts("copysign{f}({x}, {y})"),
        fold=Fold(math.copysign), bound="largest", exact=True,
        word=Word("`x` with the sign of `y`.", FLOAT, ("x", "y")), ufunc=Ufunc("copysign"),
    ),
"""
USE = """
import sys
from importlib.util import find_spec, module_from_spec
from pathlib import Path

spec = find_spec("dlang.ops.primitives")
table = module_from_spec(spec)
sys.modules[spec.name] = table
text = Path(spec.origin).read_text()
before = "    # rounding: no derivative\\n"
assert text.count(before) == 1
exec(compile(text.replace(before, ROW + before), spec.origin, "exec"), table.__dict__)

import numpy as np
import dlang
from dlang.tools.assistance import signature, words
from tests.cuda.both import Both

PROGRAM = '''
fn signed(x: f64[n], y: f64[n]) -> f64[n] = copysign(x, y)
fn total(x: f64[n], y: f64[n]) -> f64 = sum(copysign(x * x, y))
fn slopes(x: f64[n], y: f64[n]) -> f64[n] = grad(total, wrt = x)(x, y)
fn narrow(x: f32[n], y: f32[n]) -> f32[n] = 2.0 * copysign(x, y) + copysign(-1.0, 1.0)
'''
x, y = np.linspace(-2.0, 3.0, 6), np.array([1.0, -1.0, -0.0, 0.0, -2.0, 3.0])
wanted = {"signed": np.copysign(x, y), "slopes": 2 * x * np.sign(y), "narrow": 2 * np.copysign(x, y) + 1}
both = Both(PROGRAM, list(wanted))
module = dlang.compile(PROGRAM)
for name, result in wanted.items():
    args = [v.astype(np.float32 if name == "narrow" else np.float64) for v in (x, y)]
    both.agree(name, [len(x)], args, 0.0)  # the interpreter and emulated CUDA
    np.testing.assert_array_equal(getattr(module, name)(*args), result.astype(args[0].dtype))
np.testing.assert_array_equal(np.copysign(dlang.lazy(x), y).value(), wanted["signed"])
assert words("copysign") and signature("copysign") == "<a: Float>(x: a[..s], y: a[..s]) -> a[..s]"
"""


def test_a_primitive_is_added_in_one_place() -> None:
    code = f"ROW = {textwrap.dedent(ROW)!r}\n{USE}"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=PATIENCE)
    assert done.returncode == 0, done.stderr

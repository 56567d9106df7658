"""What `simplify` knows, and what it must not claim."""

from __future__ import annotations

import math
import struct

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from dlang.ir.anf import (
    Array,
    Assert,
    Atom,
    Comp,
    Copy,
    For,
    If,
    Lit,
    Prim,
    Program,
    Read,
    Reduce,
    Update,
    Var,
    View,
    While,
    poly,
)
from dlang.ir.builder import Builder, boolean, f64, i64
from dlang.ir.printer import print_program
from dlang.ops import special
from dlang.ops.dtypes import rounded
from dlang.ops.primitives import PRIMITIVES
from dlang.optimize.algebra import convert, fold
from dlang.optimize.cse import cse
from dlang.optimize.dce import dce
from dlang.optimize.index_checks import remove_index_checks
from dlang.optimize.simplify import simplify
from tests.optimize.programs import F64, I64, assert_same, cost, count, program, run, through

NUMPY = {"f64": np.float64, "f32": np.float32, "f16": np.float16, "i64": np.int64, "i8": np.int8, "u8": np.uint8}


def simplified(text: str) -> str:
    """The body of the only function of a text after `simplify` and `dce`."""
    lines = print_program(through(program(text), simplify, dce)).splitlines()
    return "\n".join(line.strip() for line in lines[1:] if line and line != "}")


def of_x(*lets: str, result: str) -> str:
    body = "\n".join(lets)
    return f"fn f(x.0: f64, k.1: i64, c.2: bool) -> (r.3: {result}) {{\n{body}\n}}"


# ---- literals --------------------------------------------------------------------------------------------------------
@settings(max_examples=300, deadline=None)
@given(st.data())
def test_a_folded_primitive_has_the_bits_that_numpy_computes(data: st.DataObject) -> None:
    dtype = data.draw(st.sampled_from(sorted(NUMPY)))
    kinds = dict.fromkeys(("f64", "f32", "f16"), ("Float", "Num", "Ord", "Any"))
    allowed = kinds.get(dtype, ("Int", "Num", "Ord", "Bits", "Any"))
    names = [p.name for p in PRIMITIVES.values() if p.domain in allowed and p.name not in ("select", "powi")]
    name = data.draw(st.sampled_from(names))
    if dtype[0] == "f":
        numbers = st.floats(width=int(dtype[1:])) | st.sampled_from([0.0, -0.0, 1.0, math.inf, -math.inf, math.nan])
    else:
        info = np.iinfo(NUMPY[dtype])
        numbers = st.integers(int(info.min), int(info.max)) | st.integers(0, 3)
    values = [data.draw(numbers) for _ in range(PRIMITIVES[name].arity)]
    folded = fold(name, tuple(Lit(v, dtype) for v in values))
    if folded is None:
        return
    names_of_arguments = dict(zip("xyz", [NUMPY[dtype](v) for v in values], strict=False))
    with np.errstate(all="ignore"):
        wanted = eval(PRIMITIVES[name].numpy, {"np": np, "special": special, **names_of_arguments})
    got = np.asarray(folded.value, dtype=np.asarray(wanted).dtype)
    np.testing.assert_array_equal(got, wanted)
    if got.dtype.kind == "f" and not np.isnan(got):
        assert np.signbit(got) == np.signbit(wanted)


@given(st.floats(allow_nan=False))
def test_rounding_to_f32_is_the_conversion_of_numpy(value: float) -> None:
    with np.errstate(all="ignore"):
        assert rounded(value, "f32") == float(np.float32(value))
        assert rounded(value, "f16") == float(np.float16(value))


@given(st.floats(width=32, allow_nan=False, allow_infinity=False))
def test_rounding_to_bf16_keeps_the_upper_half_of_an_f32(value: float) -> None:
    (word,) = struct.unpack("<I", struct.pack("<f", value))
    upper = (word + 0x7FFF + (word >> 16 & 1)) >> 16
    (wanted,) = struct.unpack("<f", struct.pack("<I", (upper & 0xFFFF) << 16))
    assert rounded(value, "bf16") == wanted


@pytest.mark.parametrize(
    ("value", "dtype", "wanted"),
    [
        (Lit(2.9, "f64"), "i64", 2),
        (Lit(-2.9, "f64"), "i32", -2),
        (Lit(1e30, "f64"), "i32", 2**31 - 1),
        (Lit(-1.0, "f64"), "u8", 0),
        (Lit(math.nan, "f64"), "i64", 0),
        (Lit(300, "i64"), "u8", 44),
        (Lit(200, "u8"), "i8", -56),
        (Lit(True, "bool"), "f32", 1.0),
        (Lit(0.1, "f64"), "f32", float(np.float32(0.1))),
    ],
)
def test_conversions_truncate_saturate_and_wrap(value: Lit, dtype: str, wanted: float) -> None:
    found = convert(value, dtype)
    assert found is not None
    assert found.value == wanted and found.dtype == dtype


def test_what_is_not_rounded_correctly_everywhere_is_not_folded() -> None:
    assert fold("exp", (f64(1.0),)) is None
    assert fold("exp", (f64(0.0),)) == f64(1.0)
    assert fold("sin", (f64(2.0),)) is None


# ---- algebra ---------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("op", "result"),
    [
        ("mul(x.0, 1.0)", "x.0"),
        ("div(x.0, 1.0)", "x.0"),
        ("sub(x.0, 0.0)", "x.0"),
        ("add(x.0, -0.0)", "x.0"),
        ("pow(x.0, 1.0)", "x.0"),
        ("pow(x.0, 0.0)", "1.0"),
        ("powi(x.0, 0)", "1.0"),
        ("maximum(x.0, x.0)", "x.0"),
        ("select(c.2, x.0, x.0)", "x.0"),
        ("select(true, x.0, 3.0)", "x.0"),
        ("zero_safe_mul(0.0, x.0)", "0.0"),
    ],
)
def test_a_law_of_floats_that_holds_for_every_bit_is_used(op: str, result: str) -> None:
    assert simplified(of_x(f"t.9: f64 = {op}", "yield t.9", result="f64")) == f"yield {result}"


@pytest.mark.parametrize("op", ["mul(x.0, 0.0)", "add(x.0, 0.0)", "sub(x.0, x.0)", "sub(0.0, x.0)", "div(x.0, x.0)"])
def test_a_law_that_fails_for_a_nan_an_infinity_or_a_negative_zero_is_not_used(op: str) -> None:
    assert op in simplified(of_x(f"t.9: f64 = {op}", "yield t.9", result="f64"))


@pytest.mark.parametrize(
    ("op", "result"),
    [
        ("add(k.1, 0)", "k.1"),
        ("mul(k.1, 0)", "0"),
        ("sub(k.1, k.1)", "0"),
        ("floordiv(k.1, 1)", "k.1"),
        ("mod(k.1, 1)", "0"),
        ("bit_and(k.1, k.1)", "k.1"),
        ("shift_left(k.1, 0)", "k.1"),
    ],
)
def test_laws_of_integers_are_used(op: str, result: str) -> None:
    assert simplified(of_x(f"t.9: i64 = {op}", "yield t.9", result="i64")) == f"yield {result}"


def test_small_powers_are_products() -> None:
    p = through(program(of_x("t.9: f64 = powi(x.0, 5)", "yield t.9", result="f64")), simplify, dce)
    assert [let.op.name for let in p.functions["f"].body.lets if isinstance(let.op, Prim)] == ["mul"] * 3
    assert run(p, [1.5, 0, False]) == [1.5**5]


@pytest.mark.parametrize("x", [4.0, 2.0, 0.0, -0.0, -1.0, math.inf, -math.inf, math.nan])
def test_a_power_of_one_half_is_a_square_root_with_the_same_special_values(x: float) -> None:
    before = program(of_x("t.9: f64 = pow(x.0, 0.5)", "yield t.9", result="f64"))
    after = through(before, simplify, dce)
    assert not any(isinstance(let.op, Prim) and let.op.name == "pow" for let in after.functions["f"].body.lets)
    with np.errstate(all="ignore"):
        (found,) = run(after, [x, 0, False])
    wanted = math.nan if x < 0 and math.isfinite(x) else math.pow(x, 0.5)
    np.testing.assert_array_equal(found, wanted)
    assert np.isnan(found) or np.signbit(found) == np.signbit(wanted)


def test_division_by_a_power_of_two_is_a_product_and_by_three_is_not() -> None:
    assert "mul(x.0, 0.25)" in simplified(of_x("t.9: f64 = div(x.0, 4.0)", "yield t.9", result="f64"))
    assert "div" in simplified(of_x("t.9: f64 = div(x.0, 3.0)", "yield t.9", result="f64"))


def test_a_guard_of_a_finite_number_is_a_product() -> None:
    assert "mul(" in simplified(of_x("t.9: f64 = zero_safe_mul(x.0, 2.0)", "yield t.9", result="f64"))
    assert "zero_safe_mul(" in simplified(of_x("t.9: f64 = zero_safe_mul(x.0, inf)", "yield t.9", result="f64"))


def test_a_comparison_of_a_float_with_itself_stays_as_it_may_be_a_nan() -> None:
    assert "eq(" in simplified(of_x("t.9: bool = eq(x.0, x.0)", "yield t.9", result="bool"))
    assert simplified(of_x("t.9: bool = le(k.1, k.1)", "yield t.9", result="bool")) == "yield true"


def test_negations_of_truth_values_vanish() -> None:
    lets = ["a.4: bool = not(c.2)", "b.5: bool = not(a.4)", "d.6: bool = and(b.5, true)", "yield d.6"]
    assert simplified(of_x(*lets, result="bool")) == "yield c.2"


# ---- control ---------------------------------------------------------------------------------------------------------
def test_a_branch_on_a_literal_is_its_arm() -> None:
    b = Builder()
    x = b.param("x", F64)
    (r,) = b.if_(b.prim("lt", i64(1), i64(2)), lambda: b.mul(x, x), lambda: b.prim("exp", x))
    p = through(Program({"f": b.function("f", [r])}), simplify, dce)
    assert count(p, If) == 0 and run(p, [3.0]) == [9.0]


def test_a_check_that_holds_becomes_its_subjects_and_one_that_fails_stays() -> None:
    def checked(condition: bool) -> Program:
        b = Builder()
        k = b.param("k", I64)
        (sure,) = b.check(boolean(condition), "E0901", ["no"], [], [k])
        return through(Program({"f": b.function("f", [b.prim("mul", sure, sure)])}), simplify, dce)

    assert count(checked(True), Assert) == 0
    assert count(checked(False), Assert) == 1


def test_a_loop_of_no_iterations_is_its_first_state_and_of_one_iteration_its_body() -> None:
    b = Builder()
    n, x = b.param("n", I64), b.param("x", F64)
    (none,) = b.for_(n, n, [x], lambda i, s: [b.prim("exp", s)])
    (once,) = b.for_(n, poly(n) + 1, [x], lambda i, s: [b.mul(s, b.cast("f64", i))])
    p = through(Program({"f": b.function("f", [none, once])}), simplify, dce)
    assert count(p, For) == 0
    assert run(p, [4, 1.5]) == [1.5, 6.0]


def test_state_that_a_loop_hands_on_unchanged_is_no_state() -> None:
    b = Builder()
    n, x, y = b.param("n", I64), b.param("x", F64), b.param("y", F64)
    s, t = b.for_(0, n, [x, y], lambda i, s, t: [b.mul(s, t), t])
    p = through(Program({"f": b.function("f", [s, t])}), simplify)
    (loop,) = [let.op for let in p.functions["f"].body.lets if isinstance(let.op, For)]
    assert len(loop.params) == 1
    assert run(p, [3, 1.0, 2.0]) == [8.0, 2.0]


def test_state_that_each_iteration_sets_to_one_value_is_no_state() -> None:
    """But where an iteration reads what was there before."""
    b = Builder()
    n, x, y = b.param("n", I64), b.param("x", F64), b.param("y", F64)
    s, t, first, r = b.for_(2, n, [x, x, x, x], lambda i, s, t, first, r: [b.mul(s, r), y, f64(7.0), y])
    p = through(Program({"f": b.function("f", [s, t, first, r])}), simplify)
    (loop,) = [let.op for let in p.functions["f"].body.lets if isinstance(let.op, For)]
    assert len(loop.params) == 2
    assert run(p, [2, 3.0, 2.0]) == [3.0, 3.0, 3.0, 3.0]
    assert run(p, [4, 3.0, 2.0]) == [18.0, 2.0, 7.0, 2.0]


def test_a_loop_that_never_ends_early_is_a_plain_one() -> None:
    b = Builder()
    n, x = b.param("n", I64), b.param("x", F64)
    (s,) = b.for_(0, n, [x], lambda i, s: [b.prim("not", boolean(False)), b.mul(s, x)], early=True)
    (t,) = b.while_(
        [s], lambda t: b.prim("lt", t, f64(100.0)), lambda t: [boolean(True), b.mul(t, f64(3.0))], early=True
    )
    (u,) = b.for_(0, n, [x], lambda i, u: [b.prim("lt", u, f64(10.0)), b.mul(u, x)], early=True)
    p = through(Program({"f": b.function("f", [s, t, u])}), simplify)
    loops = [let.op for let in p.functions["f"].body.lets if isinstance(let.op, For | While)]
    assert [op.early for op in loops] == [False, False, True]
    assert run(p, [3, 2.0]) == [16.0, 144.0, 16.0]


# ---- arrays ----------------------------------------------------------------------------------------------------------
def test_reads_of_views_of_views_are_reads_of_the_array() -> None:
    b = Builder()
    n, m = b.param("n", I64), b.param("m", I64)
    x = b.param("x", Array("f64", (poly(n), poly(m))))
    transposed = b.view(x, [m, n], lambda i, j: [j, i])
    reversed_ = b.view(transposed, [m, n], lambda i, j: [poly(m) - 1 - i, j])
    y = b.map([m, n], lambda i, j: b.prim("exp", b.read(reversed_, [i, j])))
    p = Program({"f": b.function("f", [y])})
    after = through(p, simplify, dce)
    assert count(after, View) == 0
    args = [2, 3, np.arange(6.0).reshape(2, 3)]
    assert_same(run(p, args), run(after, args))


def test_elements_of_an_array_of_one_value_and_of_an_iota_are_known() -> None:
    b = Builder()
    n = b.param("n", I64)
    ones, iota = b.full([n], f64(1.0)), b.map([n], lambda i: i)
    y = b.map([n], lambda i: b.add(b.read(ones, [i]), b.cast("f64", b.read(iota, [poly(n) - 1 - i]))))
    p = Program({"f": b.function("f", [y])})
    after = through(p, simplify, dce)
    assert count(after, Read) == 0 and count(after, Comp) == 1
    assert_same(run(p, [4]), run(after, [4]))


def test_an_axis_of_one_point_is_that_point() -> None:
    b = Builder()
    n = b.param("n", I64)
    x = b.param("x", Array("f64", (poly(1), poly(n))))
    y = b.map([1, n], lambda i, j: b.prim("exp", b.read(x, [i, j])))
    p = through(Program({"f": b.function("f", [y])}), simplify)
    (comp,) = [let.op for let in p.functions["f"].body.lets if isinstance(let.op, Comp)]
    assert len(comp.axes) == 1
    assert_same(run(p, [2, np.zeros((1, 2))]), [np.ones((1, 2))])


def test_a_sum_of_one_term_is_the_term() -> None:
    b = Builder()
    x = b.param("x", Array("f64", (poly(1),)))
    s = b.reduce([1], lambda i: b.prim("exp", b.read(x, [i])))
    p = through(Program({"f": b.function("f", [s])}), simplify)
    assert count(p, Comp) == 0 and run(p, [np.zeros(1)]) == [1.0]


def test_a_comprehension_that_copies_is_the_array() -> None:
    b = Builder()
    n = b.param("n", I64)
    x = b.param("x", Array("f64", (poly(n),)))
    y = b.copy(b.map([n], lambda i: b.read(x, [i])))
    p = through(Program({"f": b.function("f", [y])}), simplify, dce)
    assert count(p, Comp, Copy) == 0


@pytest.mark.parametrize("use", ["read", "changed", "far larger", "in nests"])
def test_elements_of_a_copy_in_another_order_are_read_where_they_come_from(use: str) -> None:
    """Not where that is changed, or far larger, or the axes that an element depends on no longer choose its place."""
    b = Builder()
    n, m = b.param("n", I64), b.param("m", I64)
    x = b.param("x", Array("f64", (poly(n), poly(m))))
    if use == "far larger":
        copied, size = b.map([m], lambda j: b.read(x, [0, poly(m) - 1 - j])), [m]
    else:
        copied, size = b.map([m, 3, n], lambda j, _, i: b.read(x, [i, poly(m) - 1 - j])), [m, n]
    results = [b.map(size, lambda *at: b.prim("exp", b.read(copied, at if len(at) == 1 else [at[0], 1, at[1]])))]
    if use == "changed":
        results.append(b.update(x, [0, 0], f64(2.0)))
    p = Program({"f": b.function("f", results)})
    after = through(p, lambda q: simplify(q, nests=use == "in nests"), dce)
    assert count(after, Comp) == (1 if use == "read" else 2)
    args = [2, 3, np.arange(6.0).reshape(2, 3)]
    assert_same(run(p, args), run(after, args))


def test_a_result_that_is_a_copy_is_the_array_beside_others_too() -> None:
    b = Builder()
    n = b.param("n", I64)
    x = b.param("x", Array("f64", (poly(n),)))
    kept, total = b.comp(
        [n],
        lambda i: (v := b.read(x, [i]), v),
        lambda i: [Reduce((poly(n),), (poly(i),), "set"), Reduce((), (), "sum")],
    )
    p = through(Program({"f": b.function("f", [kept, total])}), simplify, dce)
    assert p.functions["f"].body.results[0] is x and count(p, Comp) == 1
    assert_same(run(p, [3, np.arange(3.0)]), [np.arange(3.0), 3.0])


def test_elements_that_are_set_to_what_they_are_change_nothing() -> None:
    b = Builder()
    n = b.param("n", I64)
    x = b.param("x", Array("f64", (poly(n), poly(2))))
    own = Reduce((poly(n), poly(2)), (poly(0), poly(1)), "set", x)
    (y,) = b.comp([1], lambda i: (b.read(x, [0, 1]),), lambda i: [own])
    p = through(Program({"f": b.function("f", [y])}), simplify, dce)
    assert p.functions["f"].body.results[0] is x and count(p, Comp) == 0


def test_an_element_just_stored_is_the_value() -> None:
    b = Builder()
    n, i = b.param("n", I64), b.param("i", I64)
    x = b.param("x", Array("f64", (poly(n),)))
    y = b.update(x, [i], f64(3.0))
    p = through(Program({"f": b.function("f", [b.read(y, [i])])}), simplify, dce)
    assert p.functions["f"].body.lets == () and p.functions["f"].body.results == (f64(3.0),)


def test_a_small_array_made_at_each_point_is_its_elements() -> None:
    b = Builder()
    n = b.param("n", I64)
    x = b.param("x", Array("f64", (poly(n),)))

    def row(i: Var, j: Var) -> Atom:
        y = b.update(b.full([2], f64(0.0)), [0], f64(1.0))
        return b.read(b.update(y, [1], b.read(x, [i])), [j])

    p = Program({"f": b.function("f", [b.map([n, 2], row)])})
    after = through(p, simplify, dce)
    assert count(after, Update) == 0 and count(after, Comp) == 1
    args = [3, np.arange(3.0)]
    assert_same(run(p, args), run(after, args))


def test_an_element_stored_earlier_is_known_if_no_later_store_can_have_hit_it() -> None:
    b = Builder()
    n, i = b.param("n", I64), b.param("i", I64)
    x = b.param("x", Array("f64", (poly(n),)))
    y = b.update(b.update(x, [0], f64(3.0)), [1], f64(4.0))
    known, unknown = b.read(y, [0]), b.read(b.update(y, [i], f64(5.0)), [0])
    p = Program({"f": b.function("f", [known, unknown])})
    after = through(p, simplify, dce)
    assert after.functions["f"].body.results[0] == f64(3.0) and count(after, Read) == 1
    args = [2, 0, np.zeros(2)]
    assert_same(run(p, args), run(after, args))


def test_an_index_computed_by_steps_is_one_polynomial() -> None:
    b = Builder()
    n = b.param("n", I64)
    x = b.param("x", Array("f64", (poly(n),)))

    def body(i: object) -> object:
        last = b.prim("sub", n, i64(1))
        return b.one(Read(x, (poly(b.prim("sub", last, i)),)))

    y = b.map([n], body)
    p = through(
        Program({"f": b.function("f", [y])}), remove_index_checks, simplify, dce
    )  # which finds that they do not wrap
    (comp,) = [let.op for let in p.functions["f"].body.lets if isinstance(let.op, Comp)]
    (read,) = [let.op for let in comp.body.lets]
    assert isinstance(read, Read) and read.index == (poly(n) - 1 - poly(comp.axes[0].var),)


def test_everything_at_once_costs_less() -> None:
    b = Builder()
    n = b.param("n", I64)
    x = b.param("x", Array("f64", (poly(n),)))
    y = b.map(
        [n], lambda i: b.mul(b.prim("powi", b.read(x, [i]), i64(2)), b.prim("zero_safe_mul", b.read(x, [i]), f64(1.0)))
    )
    p = Program({"f": b.function("f", [y])})
    after = through(p, simplify, cse, dce)
    args = [8, np.arange(8.0)]
    assert cost(after, args) == 8 * 4  # one read, two products, one element written
    assert_same(run(p, args), run(after, args))

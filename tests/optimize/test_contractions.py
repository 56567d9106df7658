"""Which sums of products are recognised, and as what."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np
import pytest

import dlang
from dlang.ir.anf import (
    Array,
    Atom,
    Axis,
    Block,
    Comp,
    Contract,
    If,
    Let,
    Prim,
    Program,
    Reduce,
    Reshape,
    Size,
    Var,
    View,
    fresh,
    poly,
)
from dlang.ir.builder import Builder, f64
from dlang.ir.printer import print_program
from dlang.ir.traverse import op_blocks, walk
from dlang.optimize.contractions import contractions
from dlang.optimize.cse import cse
from dlang.optimize.dce import dce
from dlang.optimize.fuse import fuse
from dlang.pipeline import optimise
from tests.meaning import meaning
from tests.optimize.programs import I64, assert_same, cost, count, run, through
from tests.specialize.support import lowered

Element = Callable[[Builder, Var, Var, Var, Var, Var, Var], Atom]
SIZES = (5, 6, 7)


def product(element: Element, kept: str = "ij", into: bool = False) -> Program:
    """out[kept] = Σ element(b, a, c, v, i, j, k), i < n, j < m, k < p, with a: f64[n, p], c: f64[p, m], v: f64[p]."""
    b = Builder()
    n, m, p = (b.param(name, I64) for name in ("n", "m", "p"))
    a = b.param("a", Array("f64", (poly(n), poly(p))))
    c = b.param("c", Array("f64", (poly(p), poly(m))))
    v = b.param("v", Array("f64", (poly(p),)))
    sizes = {"i": n, "j": m, "k": p}
    shape = tuple(poly(sizes[name]) for name in kept)
    old = b.param("old", Array("f64", shape)) if into else None

    def destinations(i: Var, j: Var, k: Var) -> list[Reduce]:
        axes = {"i": i, "j": j, "k": k}
        return [Reduce(shape, tuple(poly(axes[name]) for name in kept), "sum", old)]

    (out,) = b.comp([n, m, p], lambda i, j, k: element(b, a, c, v, i, j, k), destinations)
    return Program({"f": b.function("f", [out])})


def arguments(into: tuple[int, ...] | None = None) -> list[object]:
    rng = np.random.default_rng(1)
    n, m, p = SIZES
    args: list[object] = [n, m, p, rng.normal(size=(n, p)), rng.normal(size=(p, m)), rng.normal(size=p)]
    return [*args, rng.normal(size=into)] if into else args


def check(p: Program, kinds: dict[type, int], into: tuple[int, ...] | None = None) -> Program:
    after = through(p, contractions, dce)
    assert {kind: count(after, kind) for kind in kinds} == kinds, print_program(after)
    args = arguments(into)
    assert_same(run(p, args), run(after, args), exact=False)
    return after


def test_a_matrix_product_is_one_contraction_and_nothing_else() -> None:
    p = product(lambda b, a, c, v, i, j, k: b.mul(b.read(a, [i, k]), b.read(c, [k, j])))
    after = check(p, {Contract: 1, Comp: 0})
    (op,) = [let.op for let in after.functions["f"].body.lets]
    assert isinstance(op, Contract) and (op.left, op.right, op.out) == ((0, 2), (2, 1), (0, 1))


def test_the_transposed_result_is_a_matter_of_names() -> None:
    p = product(lambda b, a, c, v, i, j, k: b.mul(b.read(a, [i, k]), b.read(c, [k, j])), kept="ji")
    after = check(p, {Contract: 1, Comp: 0})
    (op,) = [let.op for let in after.functions["f"].body.lets]
    assert isinstance(op, Contract) and op.out == (1, 0)


def test_a_literal_factor_and_a_sign_multiply_the_product_afterwards() -> None:
    p = product(lambda b, a, c, v, i, j, k: b.prim("neg", b.mul(b.mul(f64(3.0), b.read(a, [i, k])), b.read(c, [k, j]))))
    check(p, {Contract: 1, Comp: 1})


def test_a_factor_of_kept_axes_leaves_the_sum() -> None:
    def element(b: Builder, a: Var, c: Var, v: Var, i: Var, j: Var, k: Var) -> Atom:
        return b.mul(b.mul(b.read(a, [i, k]), b.read(c, [k, j])), b.cast("f64", i))

    after = check(product(element), {Contract: 1, Comp: 1})
    assert cost(after, arguments()) < cost(product(element), arguments())


def test_a_read_that_is_in_range_only_where_the_sum_has_terms_stays_in_it() -> None:
    def element(b: Builder, a: Var, c: Var, v: Var, i: Var, j: Var, k: Var) -> Atom:
        return b.mul(b.mul(b.read(a, [i, k]), b.read(c, [k, j])), b.read(a, [i, 0]))

    check(product(element), {Contract: 0})


def test_a_product_that_is_added_to_an_array_stays_an_addition() -> None:
    p = product(lambda b, a, c, v, i, j, k: b.mul(b.read(a, [i, k]), b.read(c, [k, j])), into=True)
    after = check(p, {Contract: 1, Comp: 1}, into=SIZES[:2])
    (comp,) = [let.op for let in after.functions["f"].body.lets if isinstance(let.op, Comp)]
    assert comp.destinations[0].into is not None


@pytest.mark.parametrize(("name", "into"), [("add", None), ("sub", None), ("sub", (5, 6))])
def test_a_sum_of_two_products_is_two_contractions_and_one_pass(name: str, into: tuple[int, ...] | None) -> None:
    def element(b: Builder, a: Var, c: Var, v: Var, i: Var, j: Var, k: Var) -> Atom:
        first = b.mul(b.read(a, [i, k]), b.read(c, [k, j]))
        return b.prim(name, first, b.mul(b.prim("sin", b.read(a, [i, k])), b.read(c, [k, j])))

    after = check(product(element, into=into is not None), {Contract: 2, Comp: 2}, into)
    comps = [let.op for let in after.functions["f"].body.lets if isinstance(let.op, Comp)]
    assert [len(op.axes) for op in comps] == [2, 2]


def test_a_sum_of_a_product_and_something_else_stays_a_loop() -> None:
    def element(b: Builder, a: Var, c: Var, v: Var, i: Var, j: Var, k: Var) -> Atom:
        product = b.mul(b.read(a, [i, k]), b.read(c, [k, j]))
        return b.add(product, b.prim("sin", b.mul(b.read(a, [i, k]), b.read(c, [k, j]))))

    check(product(element), {Contract: 0, Comp: 1})


def test_a_computed_factor_is_computed_once_for_all_that_use_it() -> None:
    p = product(lambda b, a, c, v, i, j, k: b.mul(b.prim("exp", b.read(a, [i, k])), b.read(c, [k, j])))
    after = check(p, {Contract: 1, Comp: 1})
    n, m, k = SIZES
    assert cost(p, arguments()) - cost(after, arguments()) > n * m * k // 3


def test_a_weight_of_the_reduced_axis_goes_to_one_side() -> None:
    def element(b: Builder, a: Var, c: Var, v: Var, i: Var, j: Var, k: Var) -> Atom:
        return b.mul(b.mul(b.read(a, [i, k]), b.read(v, [k])), b.read(c, [k, j]))

    check(product(element), {Contract: 1, Comp: 1})


def test_a_shifted_or_reversed_read_becomes_a_view() -> None:
    def element(b: Builder, a: Var, c: Var, v: Var, i: Var, j: Var, k: Var) -> Atom:
        last: Size = poly(b.params[2]) - 1 - poly(k)
        return b.mul(b.read(a, [i, last]), b.read(c, [k, j]))

    check(product(element), {Contract: 1, View: 1, Comp: 0})


def matrix_vector(computed: bool) -> Program:
    b = Builder()
    n, p = b.param("n", I64), b.param("p", I64)
    a, v = b.param("a", Array("f64", (poly(n), poly(p)))), b.param("v", Array("f64", (poly(p),)))

    def element(i: Var, k: Var) -> Atom:
        x = b.read(a, [i, k])
        return b.mul(b.prim("exp", x) if computed else x, b.read(v, [k]))

    (out,) = b.comp([n, p], element, lambda i, k: [Reduce((poly(n),), (poly(i),))])
    return Program({"f": b.function("f", [out])})


def test_a_matrix_times_a_vector_is_a_contraction_unless_the_matrix_would_have_to_be_stored_for_it() -> None:
    assert count(through(matrix_vector(False), contractions), Contract) == 1
    assert count(through(matrix_vector(True), contractions), Contract) == 0


def test_a_batch_of_products_is_one_contraction() -> None:
    b = Builder()
    q, n, m, p = (b.param(name, I64) for name in "qnmp")
    a = b.param("a", Array("f64", (poly(q), poly(n), poly(p))))
    c = b.param("c", Array("f64", (poly(q), poly(p), poly(m))))
    (out,) = b.comp(
        [q, n, m, p],
        lambda h, i, j, k: b.mul(b.read(a, [h, i, k]), b.read(c, [h, k, j])),
        lambda h, i, j, k: [Reduce((poly(q), poly(n), poly(m)), (poly(h), poly(i), poly(j)))],
    )
    before = Program({"f": b.function("f", [out])})
    after = through(before, contractions)
    assert count(after, Contract) == 1 and count(after, Comp) == 0
    rng = np.random.default_rng(2)
    args = [2, 3, 4, 5, rng.normal(size=(2, 3, 5)), rng.normal(size=(2, 5, 4))]
    assert_same(run(before, args), run(after, args), exact=False)


@pytest.mark.parametrize("kept", ["i", ""])
def test_a_sum_over_an_axis_of_one_factor_alone_stays_a_loop(kept: str) -> None:
    p = product(lambda b, a, c, v, i, j, k: b.mul(b.read(a, [i, k]), b.read(c, [k, j])), kept=kept)
    assert count(through(p, contractions), Contract) == 0


def test_a_dot_product_and_an_outer_product_stay_loops() -> None:
    b = Builder()
    n = b.param("n", I64)
    x, y = (b.param(name, Array("f64", (poly(n),))) for name in "xy")
    dot = b.reduce([n], lambda i: b.mul(b.read(x, [i]), b.read(y, [i])))
    outer = b.map([n, n], lambda i, j: b.mul(b.read(x, [i]), b.read(y, [j])))
    assert count(through(Program({"f": b.function("f", [dot, outer])}), contractions), Contract) == 0


def test_a_product_of_small_literal_sizes_stays_a_loop() -> None:
    b = Builder()
    a, c = (b.param(name, Array("f64", (poly(3), poly(3)))) for name in "ac")
    (out,) = b.comp(
        [3, 3, 3],
        lambda i, j, k: b.mul(b.read(a, [i, k]), b.read(c, [k, j])),
        lambda i, j, k: [Reduce((poly(3), poly(3)), (poly(i), poly(j)))],
    )
    assert count(through(Program({"f": b.function("f", [out])}), contractions), Contract) == 0


def test_a_maximum_of_products_and_an_integer_product_stay_loops() -> None:
    b = Builder()
    n = b.param("n", I64)
    a = b.param("a", Array("f64", (poly(n), poly(n))))
    k = b.param("k", Array("i64", (poly(n), poly(n))))
    results = []
    for array, monoid in ((a, "max"), (k, "sum")):
        results += b.comp(
            [n, n, n],
            lambda i, j, p, array=array: b.mul(b.read(array, [i, p]), b.read(array, [p, j])),
            lambda i, j, p, monoid=monoid: [Reduce((poly(n), poly(n)), (poly(i), poly(j)), monoid)],
        )
    assert count(through(Program({"f": b.function("f", results)}), contractions), Contract) == 0


def test_a_result_that_is_a_product_leaves_a_comprehension_whose_other_results_stay() -> None:
    b = Builder()
    n = b.param("n", I64)
    a = b.param("a", Array("f64", (poly(n), poly(n))))

    def element(i: Var, j: Var, k: Var) -> list[Atom]:
        x, y = b.read(a, [i, k]), b.read(a, [k, j])
        return [b.mul(x, y), b.prim("maximum", x, y)]

    shape = (poly(n), poly(n))
    results = b.comp([n, n, n], element, lambda i, j, k: [Reduce(shape, (poly(i), poly(j)), m) for m in ("sum", "max")])
    p = Program({"f": b.function("f", list(results))})
    after = through(p, contractions, dce)
    assert count(after, Contract) == 1 and count(after, Comp) == 1
    args = [4, np.random.default_rng(3).normal(size=(4, 4))]
    assert_same(run(p, args), run(after, args), exact=False)


def test_a_reduction_over_nothing_is_still_zero() -> None:
    p = product(lambda b, a, c, v, i, j, k: b.mul(b.read(a, [i, k]), b.read(c, [k, j])))
    after = through(p, contractions, cse, fuse)
    args = [2, 3, 0, np.zeros((2, 0)), np.zeros((0, 3)), np.zeros(0)]
    assert_same(run(after, args), [np.zeros((2, 3))])
    assert count(after, Prim) == 0


@pytest.mark.parametrize("into", [None, (5, 6)])
def test_a_product_that_is_guarded_is_zero_where_its_first_factor_is_and_the_other_is_infinite(
    into: tuple[int, ...] | None,
) -> None:
    p = product(
        lambda b, a, c, v, i, j, k: b.prim("zero_safe_mul", b.read(a, [i, k]), b.read(c, [k, j])), into=bool(into)
    )
    after = check(p, {Contract: 1}, into=into)
    args = arguments(into)
    a, c = args[3:5]
    assert isinstance(a, np.ndarray) and isinstance(c, np.ndarray)
    a[:, 2], a[1, 3] = 0.0, 0.0
    c[2, :], c[3, 4] = np.inf, np.nan
    (wanted,) = run(p, args)
    assert np.isfinite(wanted[1]).all() and np.isnan(wanted[0, 4])
    np.testing.assert_allclose(run(after, args)[0], wanted, rtol=1e-12)


def convolution(windows_end: bool) -> Program:
    """out[i, o] = Σ zero_safe_mul(x[i + p, c], w[p, c, o]); where `windows_end` with x[i - p, c] as far as it goes."""
    b = Builder()
    n = b.param("n", I64)
    x = b.param("x", Array("f64", (poly(n) + 2, poly(3))))
    w = b.param("w", Array("f64", (poly(5), poly(3), poly(6))))
    i, p, c, o = (fresh(name, I64) for name in "ipco")
    low = (poly(0), poly(i) - (poly(n) + 1)) if windows_end else (poly(0),)
    high = (poly(5), poly(i) + 1) if windows_end else (poly(5),)
    size = poly(n) + 6 if windows_end else poly(n) - 2
    axes = [
        Axis(i, (poly(0),), (size,)),
        Axis(p, low, high),
        Axis(c, (poly(0),), (poly(3),)),
        Axis(o, (poly(0),), (poly(6),)),
    ]
    at = poly(i) - poly(p) if windows_end else poly(i) + poly(p)
    (out,) = b.comp(
        axes,
        lambda *_: b.prim("zero_safe_mul", b.read(x, [at, c]), b.read(w, [p, c, o])),
        lambda *_: [Reduce((size, poly(1), poly(6)), (poly(i), poly(0), poly(o)), "sum")],
    )
    return Program({"f": b.function("f", [out])})


@pytest.mark.parametrize("infinite", [False, True])
@pytest.mark.parametrize(
    ("windows_end", "kinds"), [(False, {Contract: 1, View: 1, Reshape: 1}), (True, {Contract: 0, View: 0})]
)
def test_a_convolution_is_a_product_of_windows_and_loses_its_guards(
    windows_end: bool, kinds: dict[type, int], infinite: bool
) -> None:
    p = convolution(windows_end)
    after = through(p, contractions, dce)
    assert {kind: count(after, kind) for kind in kinds} == kinds, print_program(after)
    top = [let.op for let in after.functions["f"].body.lets]
    assert sum(isinstance(op, If) for op in top) == 1
    guards = [
        let for let in walk(after.functions["f"].body) if isinstance(let.op, Prim) and let.op.name == "zero_safe_mul"
    ]
    assert len(guards) == 1 and not any(isinstance(op, Comp) and guards[0] in op.body.lets for op in top)
    rng = np.random.default_rng(3)
    x, w = rng.normal(size=(11, 3)), rng.normal(size=(5, 3, 6))
    if infinite:
        w[1, 2, 3], x[4:, 2] = np.inf, 0.0
    with np.errstate(all="ignore"):
        (found,) = run(after, [9, x, w])
        assert_same(run(p, [9, x, w]), [found], exact=False)
    assert not np.isnan(found).any()


def test_a_sum_of_products_with_an_axis_of_one_element_is_products_too() -> None:
    """The tangent of a layer with one output."""
    b = Builder()
    n = b.param("n", I64)
    a, da = [b.param(name, Array("f64", (poly(n), poly(20)))) for name in ("a", "da")]
    w, dw = [b.param(name, Array("f64", (poly(1), poly(20)))) for name in ("w", "dw")]

    def element(i: Var, p: Var) -> Atom:
        left = b.mul(b.read(da, [i, p]), b.read(w, [0, p]))
        return b.prim("sub", left, b.mul(b.read(dw, [0, p]), b.read(a, [i, p])))

    def keep(i: Var, _: Var) -> list[Reduce]:
        return [Reduce((poly(n), poly(1)), (poly(i), poly(0)), "sum")]

    p = Program({"f": b.function("f", list(b.comp([n, 20], element, keep)))})
    after = through(p, contractions, cse)
    assert count(after, Contract) == 2
    rng = np.random.default_rng(4)
    args = [7, *[rng.normal(size=(k, 20)) for k in (7, 7, 1, 1)]]
    assert_same(run(p, args), run(after, args), exact=False)


@pytest.mark.parametrize("changed", [False, True])
def test_a_sum_of_an_array_of_products_is_a_product(changed: bool) -> None:
    """`sum(reshape(x, n, d, 1) * w * v, axis = 1)`; what is changed in between would have to be copied for that."""
    b = Builder()
    n, d, k = [b.param(name, I64) for name in "ndk"]
    x, w, v = [
        b.param(name, Array("f64", tuple(map(poly, s)))) for name, s in (("x", (n, d)), ("w", (d, k)), ("v", (k,)))
    ]
    first = b.map([n, d, k], lambda i, l, j: b.mul(b.read(x, [i, l]), b.read(w, [l, j])))
    terms = b.map([n, d, k], lambda i, l, j: b.mul(b.read(first, [i, l, j]), b.read(v, [j])))
    results = [b.update(x, [0, 0], f64(2.0))] if changed else []
    keep = Reduce((poly(n), poly(k)), (), "sum")
    results += b.comp(
        [n, k, d],
        lambda i, j, l: b.read(terms, [i, l, j]),
        lambda i, j, _: [replace(keep, index=(poly(i), poly(j)))],
    )
    p = Program({"f": b.function("f", results)})
    after = through(p, contractions, dce)
    assert count(after, Contract) == (0 if changed else 1), print_program(after)
    rng = np.random.default_rng(5)
    args = [7, 8, 9, rng.normal(size=(7, 8)), rng.normal(size=(8, 9)), rng.normal(size=9)]
    assert_same(run(p, args), run(after, args), exact=False)


@pytest.mark.parametrize("by", ["", "i", "j", "k", "ij"])
def test_a_quotient_is_a_product_with_a_factor_that_is_divided(by: str) -> None:
    """So a sum of no terms is 0 where the divisor is 0, too. by: the axes of the divisor."""

    def element(b: Builder, a: Var, c: Var, v: Var, i: Var, j: Var, k: Var) -> Atom:
        divisors = {"": lambda: b.read(v, [0]), "i": lambda: b.read(a, [i, 0]), "j": lambda: b.read(c, [0, j])}
        divisors |= {"k": lambda: b.read(v, [k]), "ij": lambda: b.add(b.read(a, [i, 0]), b.read(c, [0, j]))}
        return b.prim("div", b.mul(b.read(a, [i, k]), b.read(c, [k, j])), divisors[by]())

    check(product(element), {Contract: 0 if by == "ij" else 1})


PARTS = """
fn layers(x: f64[b, n], w: f64[k, n, n]) -> f64 {
  var h = x
  for l < k { h = tanh(h @ w[l]) }
  sum(h ** 2)
}
fn steps(x: f64[b, n], w: f64[k, n, n]) -> f64 {
  var h = x
  for t < 5 { h = tanh(h @ w[0] + x @ w[k - 1]) }
  sum(h ** 2)
}
fn reversed(x: f64[b, n], w: f64[k, n, n]) -> f64 = sum([sum(x[i, p] * w[l, q, p] for p) for l, i, q] ** 2)
fn written(x: f64[b, n], w: f64[k, n, n]) -> f64 {
  var y = zeros(k, b, n)
  y[0] = x @ w[0]
  y[k - 1] += x @ w[k - 1]
  sum(y ** 2)
}
fn slopes(x: f64[b, n], w: f64[k, n, n]) -> f64[k, n, n] = grad(|w| NAME(x, w))(w)
"""


@pytest.mark.parametrize("name", ["layers", "steps", "reversed", "written"])
def test_a_product_that_is_a_part_of_an_array_or_is_added_to_one_is_a_product(name: str) -> None:
    rng = np.random.default_rng(0)
    text = PARTS.replace("NAME", name)
    x, w = rng.normal(size=(3, 4)), rng.normal(size=(2, 4, 4))
    wanted = meaning(dlang.compile(text, backend="interp").slopes, x, w)
    np.testing.assert_allclose(dlang.compile(text).slopes(x, w), wanted, rtol=1e-12)
    made = lowered(text, "slopes")
    program = optimise(made.program, [made.entry.name])
    lets = [let for f in program.functions.values() for let in warm(f.body)]
    assert [let for let in lets if isinstance(let.op, Contract)]
    assert not [let for let in lets if isinstance(let.op, Comp) and len(let.op.axes) > 2 and sums(let.op)]


def warm(block: Block) -> Iterator[Let]:
    """The lets of a block and of those in it, but for the arms that hardly ever run."""
    for let in block.lets:
        yield let
        for inner in [let.op.otherwise] if isinstance(let.op, If) and let.op.cold else op_blocks(let.op):
            yield from warm(inner)


def sums(op: Comp) -> bool:
    """Tells whether a comprehension multiplies what it adds up."""
    return any(isinstance(let.op, Prim) and "mul" in let.op.name for let in op.body.lets)

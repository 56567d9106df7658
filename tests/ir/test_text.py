"""The printer and the reader."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from dlang.diagnostics import Source, Span
from dlang.interpret.interpreter import Interpreter
from dlang.ir.anf import (
    Array,
    Atom,
    Block,
    Call,
    Foreign,
    Function,
    Jvp,
    Let,
    LinalgOp,
    Lit,
    Program,
    Reduce,
    Scalar,
    ScatterAdd,
    StopGradient,
    Token,
    Var,
    Vjp,
    fresh,
    poly,
)
from dlang.ir.builder import Builder, axis, boolean, f64, i64, text
from dlang.ir.errors import IRError
from dlang.ir.printer import print_program
from dlang.ir.reader import read_program
from dlang.ir.verify import verify
from dlang.polynomials import Poly
from tests.ir.programs import programs

F, I64 = Scalar("f64"), Scalar("i64")

DOT = """\
fn dot(n.0: i64, x.1: f64[n.0], y.2: f64[n.0]) -> (s.3: f64) {
  s.4: f64 = comp i.5 in 0..n.0 {
    t.6: f64 = read x.1[i.5]
    t.7: f64 = read y.2[i.5]
    t.8: f64 = mul(t.6, t.7)
    yield t.8
  } to keep [] [] sum
  yield s.4
}
"""


def every_operation() -> Program:
    b = Builder()
    token = b.param("world", Token())
    n, m = b.param("n", I64), b.param("m", I64)
    x = b.param("x", Array("f64", (poly(n),)))
    a = b.param("a", Array("f32", (poly(n) * 2 - 1, poly(m))))
    s = b.param("s'", F)
    source = Source("model.dl", "let x = 1\nlet y = 2\n")
    b.span = Span(source, 14, 15)
    (c,) = b.check(b.prim("lt", s, f64(1e300)), "E0701", ['say "', ".2f", '" # no comment\n'], [s], [s])
    b.span = None
    k = b.size(Poly({(n, n): Fraction(1, 2), (n,): Fraction(-1, 2)}), name="half")
    u = b.update(b.copy(x), [poly(n) - 1], c)
    i, j = axis(n), axis(n, name="j")
    j = type(j)(j.var, (poly(0), poly(i.var) - 2), (poly(n), poly(i.var) + 2))
    holder: list[Atom] = []

    def body(i: Var, j: Var) -> list[Atom]:
        t = b.cast("i64", b.read(x, [i]))
        holder.append(t)
        return [b.read(u, [j]), c]

    r = b.comp(
        [i, j],
        body,
        lambda *_: [
            Reduce((poly(n),), (poly(i.var),), "max"),
            ScatterAdd((poly(n),), (poly(holder[0]),), x),
        ],
    )
    z = b.for_(0, n, [i64(0)], lambda i, v: (boolean(True), b.add(v, i)), early=True)
    w = b.while_([z[0]], lambda v: b.prim("lt", v, i64(9)), lambda v: b.add(v, i64(1)))
    v = b.if_(b.prim("isnan", s), lambda: text("nan"), lambda: b.format(["", "", ""], s))
    b.view(a, [m, m], lambda p, q: [2 * poly(q), p])
    b.reshape(x, [n, 1])
    b.concat(x, u)
    b.update(b.empty("f64", [n, 3]), [0, 2], s)
    mask = b.map([n], lambda i: b.prim("gt", b.read(x, [i]), s))
    count, positions = b.compact(mask)
    b.scan("prod", x)
    b.contract(x, r[0], [0], [0], [])
    b.library("argsort", x)
    b.emit(LinalgOp("svd", (a, n)), ("u", "s", "vt", "info"))
    square = b.map([n, n], lambda i, j: b.read(x, [i]))
    b.emit(LinalgOp("triangular_solve", (square, square, boolean(True), boolean(False), boolean(False))), ("y", "info"))
    b.stop(s)
    for lit in (Lit(-0.0, "f64"), Lit(math.inf, "f64"), Lit(-math.inf, "f32"), Lit(math.nan, "bf16"), Lit(0.1, "f16")):
        b.stop(lit)
    for lit in (Lit(-128, "i8"), Lit(2**64 - 1, "u64"), Lit(-3, "i64"), boolean(False)):
        b.stop(lit)
    b.emit(Foreign("python:numpy.unique", (x, s)), ("k", "u"), [I64, Array("f64", (poly(n),))])
    token, answer = b.effect("io.ask", token, [v[0]], [I64], ["a b"])
    (token,) = b.effect("print", token, [text("näïve\t")])
    return Program({"f": b.function("f", [token, w[0], answer, k, count, positions], label="the f")})


def test_a_program_reads_as_a_person_would_write_it() -> None:
    b = Builder()
    n = b.param("n", I64)
    x, y = (b.param(name, Array("f64", (poly(n),))) for name in "xy")
    s = b.reduce([n], lambda i: b.mul(b.read(x, [i]), b.read(y, [i])), name="s")
    assert print_program(Program({"dot": b.function("dot", [s])})) == DOT


def test_every_operation_prints_and_reads_back() -> None:
    program = every_operation()
    verify(program)
    printed = print_program(program)
    again = read_program(printed)
    verify(again)
    spanless = "\n".join(line.partition("  # model.dl")[0] for line in printed.splitlines()) + "\n"
    assert print_program(again) == spanless
    assert "# model.dl:2:5" in printed
    assert "1/2*n.1*n.1 - 1/2*n.1" in printed


def test_derivatives_calls_and_odd_names_print_and_read_back() -> None:
    x, y, dx = fresh("x", F), fresh("a.b", F), fresh("dx", F)
    g = Function("g<f64>", (x,), (fresh("r", F),), Block((), (x,)))
    p, r = fresh("p", F), fresh("r", F)
    body = Block(
        (
            Let((y,), Call("g<f64>", (p,))),
            Let((fresh("v", F), dx), Vjp("g<f64>", (p,), (0,), (None,))),
            Let((fresh("v", F), fresh("dv", F)), Jvp("g<f64>", (p,), (dx,))),
        ),
        (dx,),
    )
    program = Program({"g<f64>": g, "f": Function("f", (p,), (r,), body)})
    verify(program)
    printed = print_program(program)
    assert print_program(read_program(printed)) == printed
    assert 'vjp "g<f64>"(p.0) wrt (0) seeds (_)' in printed


def test_a_read_function_has_its_label_and_its_literals_exactly() -> None:
    again = read_program(print_program(every_operation()))
    assert again.functions["f"].label == "the f"
    stopped = [let.op.arg for let in again.functions["f"].body.lets if isinstance(let.op, StopGradient)]
    literals = [arg for arg in stopped if isinstance(arg, Lit)]
    values = [lit.value for lit in literals]
    assert [repr(v) for v in values[:5]] == ["-0.0", "inf", "-inf", "nan", "0.1"]
    assert [lit.dtype for lit in literals][:5] == ["f64", "f64", "f32", "bf16", "f16"]
    assert values[5:8] == [-128, 2**64 - 1, -3] and values[8] is False


@settings(max_examples=60, deadline=None)
@given(programs(), st.integers(0, 4))
def test_printing_reading_and_printing_is_the_identity_and_keeps_the_meaning(program: Program, n: int) -> None:
    verify(program)
    printed = print_program(program)
    again = read_program(printed)
    verify(again)
    assert print_program(again) == printed
    rng = np.random.default_rng(n)
    args = [n, rng.normal(size=n), rng.normal(size=(n, n))]
    one, other = Interpreter(program), Interpreter(again)
    for a, b in zip(one.run("f", args), other.run("f", args), strict=True):
        np.testing.assert_array_equal(a, b)
    assert one.operations == other.operations


@pytest.mark.parametrize(
    ("broken", "message"),
    [
        ("fn f() -> (r.0: f64) { yield x.1 }", "line 1: expected a variable in scope, found x.1"),
        ("fn f() -> (r.0: f46) { yield 1.0 }", "expected a type, found f46"),
        ("fn f() -> (r.0: f64) {\n t.1: f64 = frobnicate(1.0) yield t.1 }", "line 2: expected an operation"),
        ("fn f() -> () { yield", "expected an operand, found the end"),
        ("fn f() -> () { yield 1.0 ; }", "';' starts nothing"),
    ],
)
def test_a_text_that_is_no_program_is_refused_with_its_line(broken: str, message: str) -> None:
    with pytest.raises(IRError, match=message):
        read_program(broken)

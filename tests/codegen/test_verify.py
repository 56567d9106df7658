"""The verifier of loop nests accepts what scheduling makes, and refuses each defect with its reason."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

import pytest

from dlang.codegen.loops import (
    Allocate,
    ArrayValue,
    Assert,
    Body,
    Branch,
    Buffer,
    Compute,
    Convert,
    Evaluate,
    Fetch,
    For,
    Free,
    Function,
    Invoke,
    Launch,
    Load,
    Loop,
    Matrix,
    Move,
    OnDevice,
    Parallel,
    Partial,
    Product,
    Program,
    Reduction,
    Runtime,
    Slice,
    Slot,
    Stmt,
    Store,
    Value,
    While,
)
from dlang.codegen.schedule import schedule
from dlang.codegen.verify import verify_loops
from dlang.ir.anf import Lit, Scalar, fresh, poly
from dlang.ir.errors import IRError
from dlang.ir.reader import read_program
from dlang.ir.terms import ZERO

I64, F64, BOOL = Scalar("i64"), Scalar("f64"), Scalar("bool")
n, s, flag, i, j = fresh("n", I64), fresh("s", F64), fresh("flag", BOOL), fresh("i", I64), fresh("j", I64)
x, out, a, b, c, r = (Buffer(name, "f64") for name in ("x", "out", "a", "b", "c", "r"))
whole = Buffer("k", "i64")
t, u, v, w = (fresh(name, F64) for name in "tuvw")
k, m = fresh("k", I64), fresh("m", I64)
ONE = Lit(1.0, "f64")


def function(stmts: Sequence[Stmt], results: Sequence[Value] = (), name: str = "f") -> Function:
    """A function of a size, a float, a truth value and an array, with an array that it fills."""
    params: tuple[Slot, ...] = (n, s, flag, x)
    order = tuple([("result", position) for position in range(len(results))])
    return Function(name, params, (ArrayValue(out, (poly(n),)),), Body(tuple(stmts), tuple(results)), order)


def refused(stmts: Sequence[Stmt], results: Sequence[Value] = ()) -> str:
    """The reason for which statements are refused, without where they are."""
    with pytest.raises(IRError, match="scheduling made an ill-formed program: in f: ") as caught:
        verify_loops(Program({"f": function(stmts, results)}))
    return str(caught.value).split("in f: ")[1]


def room(buffer: Buffer) -> Allocate:
    return Allocate(buffer, (poly(n),))


def iterations(*stmts: Stmt, reductions: tuple[Reduction, ...] = ()) -> Loop:
    return Loop(i, (ZERO,), (poly(n),), stmts, reductions)


NOTHING = Body((), ())
HANDED = Body((room(b),), (b,))
MATRIX = Matrix(x, ZERO, poly(n), False)
BROKEN: list[tuple[str, list[Stmt], list[Value]]] = [
    # scopes
    ("is not in scope", [Compute(t, "neg", (u,))], []),
    ("is bound twice", [Convert(t, s), Convert(t, s)], []),
    ("is not in scope", [iterations(Convert(t, s)), Convert(u, t)], []),
    ("is not in scope", [Branch(flag, Body((Convert(t, s),), ()), NOTHING, ()), Convert(u, t)], []),
    ("is not in scope", [Evaluate(k, poly(m))], []),
    ("is no literal", [Convert(t, Lit(True, "i64"))], []),
    # types
    ("add of f64 and i64", [Compute(t, "add", (s, n))], []),
    ("t.* is f64, not bool", [Compute(t, "lt", (s, s))], []),
    ("there is no primitive", [Compute(t, "frobnicate", (s,))], []),
    ("is f64, not i64", [Load(t, x, poly(s))], []),
    ("is i64, not f64", [Load(k, x, ZERO)], []),
    ("is i64, not f64", [Store(out, ZERO, n)], []),
    ("is not how a value is combined", [Store(out, ZERO, s, "argmax")], []),
    ("has elements of i64, not f64", [Allocate(whole, (poly(n),)), Move(whole, x, poly(n)), Free(whole)], []),
    ("elements of another width", [Slice(Buffer("half", "f32"), x, ZERO)], []),
    ("is f64, not bool", [Assert(s, "E0800", ("",), (), None)], []),
    ("1 parts of text for 1 values", [Assert(flag, "E0800", ("",), (s,), None)], []),
    ("is no buffer", [Store(s, ZERO, s)], []),  # type: ignore[arg-type]
    ("factors are of different", [
        Allocate(whole, (poly(n),)),
        Product(Matrix(whole, ZERO, poly(n), False), MATRIX, MATRIX, poly(n), poly(n), poly(n), 0),
    ], []),
    ("not made transposed", [Product(MATRIX, MATRIX, MATRIX.turned, poly(n), poly(n), poly(n), 0)], []),
    # memory
    ("is not in scope", [Load(t, a, ZERO)], []),
    ("used after it was freed", [room(a), Free(a), Store(a, ZERO, s)], []),
    ("used after it was freed", [room(a), Slice(b, a, poly(1)), Free(a), Load(t, b, ZERO)], []),
    ("used after it was freed", [room(a), Free(a), Free(a)], []),
    ("neither freed nor handed on", [room(a)], []),
    ("neither freed nor handed on", [iterations(room(a))], []),
    ("neither freed nor handed on", [Branch(flag, Body((room(a),), ()), NOTHING, ())], []),
    ("freed by a block that does not own it", [Free(x)], []),
    ("freed by a block that does not own it", [room(a), Slice(b, a, poly(1)), Free(b)], []),
    ("freed by a block that does not own it", [room(a), iterations(Free(a)), Free(a)], []),
    ("freed by a block that does not own it", [room(a), Branch(flag, Body((Free(a),), ()), NOTHING, ()), Free(a)], []),
    ("handed on by a block that does not own it", [], [x]),
    ("used after it was freed or handed on", [room(a)], [a, a]),
    ("copied to itself", [Move(x, x, poly(n))], []),
    # control
    ("what an arm gives: 0 for 1", [Branch(flag, Body((), (s,)), NOTHING, (t,))], []),
    ("what an arm gives", [Branch(flag, Body((), (s,)), Body((), (n,)), (t,))], []),
    ("belongs to one arm alone", [Branch(flag, HANDED, Body((), (x,)), (c,)), Free(c)], []),
    ("neither freed nor handed on", [Branch(flag, HANDED, Body((room(a),), (a,)), (c,))], []),
    ("the first state", [For(i, ZERO, poly(n), (t,), (n,), Body((), (t,)), (u,))], []),
    ("the next state", [For(i, ZERO, poly(n), (t,), (s,), Body((), (i,)), (u,))], []),
    ("the last state", [For(i, ZERO, poly(n), (t,), (s,), Body((), (t,)), (k,))], []),
    ("gives a bool first", [For(i, ZERO, poly(n), (t,), (s,), Body((), (t, t)), (u,), True)], []),
    ("a condition", [While((t,), (s,), Body((), (t,)), Body((), (t,)), (u,))], []),
    ("freed by a block", [For(i, ZERO, poly(n), (a,), (x,), Body((), (a,)), (b,)), Free(b)], []),
    ("not of the buffers", [room(b), For(i, ZERO, poly(n), (a,), (x,), Body((), (b,)), (c,)), Free(b)], []),
    ("handed on by a block", [room(b), For(i, ZERO, poly(n), (a,), (b,), Body((Free(a),), (x,)), (c,)), Free(c)], []),
    ("neither freed", [room(a), For(i, ZERO, poly(n), (c,), (a,), Body((room(b),), (b,)), (r,)), Free(r)], []),
    ("is not of the dtype", [iterations(reductions=(Reduction("sum", k, s),))], []),
    ("there is no monoid", [iterations(reductions=(Reduction("mean", t, s),))], []),
    ("a position for", [iterations(reductions=(Reduction("argmax", t, s),))], []),
    ("no variable of a loop", [Loop(i, (), (poly(n),), ())], []),
    # pieces
    ("have pieces inside", [
        Loop(m, (ZERO,), (poly(n),), (Parallel(i, j, k, (ZERO,), (poly(n),), n, (), ()),), lanes=8),
    ], []),
    ("is not in scope", [Parallel(i, j, m, (ZERO,), (poly(n),), n, (out,), (Store(out, poly(j), s),))], []),
    ("of another dtype", [
        Parallel(i, j, m, (ZERO,), (poly(n),), n, (), (), (), (Partial(out, whole, poly(n)),)),
    ], []),
    # calls and devices
    ("there is no function g", [Invoke("g", (), (), (), None)], []),
    ("the arguments", [Invoke("f", (n, s, flag), (out,), (), None)], []),
    ("the arguments", [Invoke("f", (s, s, flag, x), (out,), (), None)], []),
    ("the destinations", [Invoke("f", (n, s, flag, x), (), (), None)], []),
    ("the results", [Invoke("f", (n, s, flag, x), (out,), (t,), None)], []),
    ("neither freed", [Runtime("io.npy", (), (s,), (), (k, a), None)], []),
    ("there is no kernel 3", [Launch(3, n, (x,), ())], []),
    ("is not in scope", [OnDevice(room(a)), OnDevice(Free(a)), Fetch(t, c, ZERO)], []),
    ("is bound twice", [Fetch(t, x, ZERO), Fetch(t, x, ZERO)], []),
]  # fmt: skip


@pytest.mark.parametrize(("reason", "stmts", "results"), BROKEN)
def test_a_defect_is_refused_with_its_reason(reason: str, stmts: list[Stmt], results: list[Value]) -> None:
    assert re.search(reason, refused(stmts, results))


def test_what_is_handed_on_and_freed_once_on_every_path_is_accepted() -> None:
    loop = For(i, ZERO, poly(n), (c,), (a,), Body((room(b), Free(c)), (b,)), (r,))
    verify_loops(Program({"f": function([room(a), loop], [r])}))
    turns = For(i, ZERO, poly(n), (a, b), (x, out), Body((), (b, a)), (c, r))
    verify_loops(Program({"f": function([turns, Load(t, c, ZERO)])}))
    points = Branch(flag, Body((), (x,)), Body((), (a,)), (c,))
    verify_loops(Program({"f": function([room(a), points, Load(t, c, ZERO), Free(a)])}))
    assert "used after" in refused([room(a), points, Free(a), Load(t, c, ZERO)])
    fetched = function([iterations(Fetch(t, x, ZERO)), Fetch(t, x, ZERO)])
    verify_loops(Program({"f": replace(fetched, device=True)}))  # each block that needs a number fetches it
    with pytest.raises(IRError, match="is bound twice"):
        verify_loops(Program({"f": fetched}))
    lone = replace(function([Convert(t, s)]), order=(("result", 0),))
    with pytest.raises(IRError, match="there is no result 0"):
        verify_loops(Program({"f": lone}))


def test_what_is_scheduled_is_verified_where_the_environment_asks_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    program = read_program("fn f(s.0: f64) -> (r.1: f64) { t.2: f64 = neg(s.0)  yield t.2 }")
    seen: list[Program] = []
    monkeypatch.setattr("dlang.codegen.schedule.verify_loops", lambda program, *more: seen.append(program))
    for value in ("1", "0"):
        monkeypatch.setenv("DLANG_VERIFY", value)
        schedule(program)
    assert len(seen) == 1

"""The verifier accepts what is well formed and refuses each defect with its reason."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dlang.ir.anf import Array, Block, Call, Comp, Function, Let, Lit, Prim, Program, Scalar, Var, fresh, poly
from dlang.ir.builder import Builder, f64, i64
from dlang.ir.errors import IRError
from dlang.ir.reader import read_program
from dlang.ir.verify import verify

F, I64 = Scalar("f64"), Scalar("i64")


def program(
    lets: str, result: str = "f64 = 0.0", params: str = "n.0: i64, x.1: f64[n.0], s.2: f64", consumes: str = ""
) -> Program:
    type, _, value = result.partition(" = ")
    return read_program(f"fn f({params}) -> (r.90: {type}) {consumes} {{\n{lets}\nyield {value} }}")


# each with the start of the reason for which it is refused
BROKEN = [
    ("a.9: f64 = read x.1[0]", "i64 = a.9", "has the type f64, not i64"),
    ("a.9: f32 = read x.1[0]", "f64 = 0.0", "has the type f32, not f64"),
    ("a.9: f64 = read x.1[0, 0]", "f64 = 0.0", "2 entries for the 1 axes"),
    ("a.9: f64 = read s.2[0]", "f64 = 0.0", "is not an array"),
    ("a.9: f64 = read x.1[s.2]", "f64 = 0.0", "is not an i64"),
    ("a.9: f64 = add(s.2, 1)", "f64 = 0.0", "add of f64 and i64"),
    ("a.9: f64 = add(s.2)", "f64 = 0.0", "add takes 2 arguments"),
    ("a.9: f64 = add(x.1, x.1)", "f64 = 0.0", "is not a scalar"),
    ("a.9: i64 = div(n.0, 2)", "f64 = 0.0", "div of i64"),
    ("a.9: f64 = bit_and(s.2, s.2)", "f64 = 0.0", "bit_and of f64"),
    ("a.9: f64 = select(1, s.2, s.2)", "f64 = 0.0", "select by i64, not bool"),
    ("a.9: f64 = powi(s.2, 2.0)", "f64 = 0.0", "is f64, not i64"),
    ("a.9: bool = lt(true, false)", "f64 = 0.0", "lt of bool"),
    ("a.9: f64[n.0 + 1] = copy x.1", "f64 = 0.0", "not f64"),
    ("a.9: f64[n.0] = concat(x.1, x.1)", "f64 = 0.0", "not f64"),
    ("a.9: f64[2, n.0] = reshape x.1 [2, n.0]", "f64 = 0.0", "elements are reshaped"),
    ("a.9: f64[n.0], b.8: i64 = library cholesky(x.1)", "f64 = 0.0", "cholesky takes matrices of f64 or f32"),
    (
        "a.9: f64[n.0, 1] = reshape x.1 [n.0, 1]\nb.8: f64[n.0, 1], c.7: i64 = library cholesky(a.9)",
        "f64 = 0.0",
        "the sizes of the arguments of cholesky do not fit",
    ),
    (
        "a.9: f64[1, n.0] = reshape x.1 [1, n.0]\nq.8: f64[1, n.0], r.7: f64[1, n.0] = library qr(a.9, 1)",
        "f64 = 0.0",
        "not f64[1, 1]",
    ),
    ("a.9: i64, b.8: i64[n.0] = compact x.1", "f64 = 0.0", "a mask is an array of bool"),
    ("a.9: f64 = comp i.8 in 0..n.0 { yield s.2 } to keep [n.0] [] sum", "f64 = 0.0", "an index of 0 entries"),
    ("a.9: f64[n.0] = comp i.8 in 0..n.0 { yield s.2 } to keep [] [] sum", "f64 = 0.0", "not f64"),
    ("a.9: f64 = comp i.8 in 0..n.0 { yield s.2 } to keep [] [] any", "f64 = 0.0", "any of f64"),
    ("a.9: f64 = comp i.8 in 0..n.0 { yield s.2 } to keep [] [] mean", "f64 = 0.0", "there is no monoid mean"),
    ("a.9: f64 = comp i.8 in 0..n.0 { yield s.2 } to keep [] [] set", "f64 = 0.0", "index that misses an axis"),
    ("a.9: f64 = comp i.8 in 0..n.0 { yield s.2, s.2 } to keep [] [] sum", "f64 = 0.0", "2 values for 1"),
    ("a.9: f64 = comp i.8 in 0..n.0 { yield x.1 } to keep [] [] sum", "f64 = 0.0", "rows of other sizes"),
    (
        "a.9: f64[n.0] = comp i.8 in 0..n.0, j.7 in 0..n.0 { yield s.2 } to keep [n.0] [i.8 + j.7] sum",
        "f64 = 0.0",
        "does not determine its axes",
    ),
    (
        (
            "a.9: f64[n.0], b.8: f64[n.0], c.7: f64[n.0] = comp i.6 in 0..n.0 { yield s.2, s.2, s.2 } "
            "to keep [n.0] [i.6] set, keep [n.0] [i.6] set after 0, keep [n.0] [i.6] set after 0"
        ),
        "f64 = 0.0",
        "two destinations go on with that of destination 0",
    ),
    (
        (
            "a.9: f64[n.0], b.8: i64[n.0] = comp i.6 in 0..n.0 { yield s.2, i.6 } "
            "to keep [n.0] [i.6] set, keep [n.0] [i.6] set after 0"
        ),
        "f64 = 0.0",
        "not of the type of the one that it goes on with",
    ),
    (
        (
            "a.9: f64[n.0], b.8: f64[2*n.0] = comp i.6 in 0..n.0 { yield s.2, s.2 } "
            "to keep [n.0] [i.6] set, keep [2*n.0] [i.6] set after 0"
        ),
        "f64 = 0.0",
        "segments are of arrays of other sizes",
    ),
    (
        "a.9: f64[2*n.0] = comp i.8 in 0..n.0 { yield s.2 } to keep [2*n.0] [i.8] sum into x.1",
        "f64 = 0.0",
        "not an array of the destination's type",
    ),
    ('check s.2 "E0701" ("no") () for ()', "f64 = 0.0", "is f64, not bool"),
    ('check true "E0701" ("no") (s.2) for ()', "f64 = 0.0", "1 parts of text for 1 values"),
    ('a.9: f32 = check true "E0701" ("no") () for (s.2)', "f64 = 0.0", "another dtype or rank"),
    ('check true "E0701" ("no") () for (s.2)', "f64 = 0.0", "one variable for each guarded value"),
    ("a.9: f64 = for i.8 in 0..n.0 (t.7: f64 = 1) { yield t.7 }", "f64 = 0.0", "the first state"),
    ("a.9: f64 = for i.8 in 0..n.0 (t.7: f64 = s.2) { yield i.8 }", "f64 = 0.0", "the next state"),
    ("a.9: f64 = for i.8 in 0..n.0 (t.7: f64 = s.2) early { yield t.7, t.7 }", "f64 = 0.0", "is f64, not bool"),
    ("a.9: f64 = while (t.7: f64 = s.2) { yield t.7 } do { yield t.7 }", "f64 = 0.0", "is f64, not bool"),
    ("a.9: f64 = if s.2 { yield s.2 } else { yield s.2 }", "f64 = 0.0", "is f64, not bool"),
    ("a.9: f64 = if true { yield s.2 } else { yield 1 }", "f64 = 0.0", "what an arm returns"),
    (
        "a.9: f64[n.0] = if true { yield x.1 } else { b.8: f64[2*n.0] = concat(x.1, x.1) yield b.8 }",
        "f64 = 0.0",
        "an arm",
    ),
    ("a.9: f64 = call g(s.2)", "f64 = 0.0", "there is no function g"),
    ("a.9: f64 = call f(n.0, x.1)", "f64 = 0.0", "the arguments: 2 for 3"),
    ("a.9: f64 = call f(2, x.1, s.2)", "f64 = 0.0", "the arguments"),
    ("a.9: f64[n.0] = view i.8 in 0..n.0 of x.1[i.8, 0]", "f64 = 0.0", "the index of a view"),
    ("a.9: f64 = contract x.1[0] x.1[1, 0] -> []", "f64 = 0.0", "the right factor"),
    ("a.9: f64[n.0] = contract x.1[0] x.1[0] -> [0, 0]", "f64 = 0.0", "named twice"),
    ("a.9: f64[n.0] = scan max x.1", "f64 = 0.0", "a running sum or product"),
    ("a.9: i64[n.0] = library sort(x.1)", "f64 = 0.0", "no library operation sort"),
    ("a.9: str = cast str s.2", "f64 = 0.0", "a conversion is between"),
    ("a.9: f64, b.8: f64 = vjp f(n.0, x.1, s.2) wrt (0) seeds (_)", "f64 = 0.0", "carries none"),
    ("a.9: f64, b.8: f64 = vjp f(n.0, x.1, s.2) wrt (2) seeds ()", "f64 = 0.0", "for each result"),
    ("a.9: f64 = jvp f(n.0, x.1, s.2) seeds (_, s.2, _)", "f64 = 0.0", "no tangent"),
]


@pytest.mark.parametrize(("lets", "result", "reason"), BROKEN)
def test_a_defect_is_refused_with_its_reason(lets: str, result: str, reason: str) -> None:
    with pytest.raises(IRError, match="in f: ") as caught:
        verify(program(lets, result))
    assert reason in str(caught.value)


def test_a_refusal_shows_the_let() -> None:
    with pytest.raises(IRError, match=r"a\.\d+: f32 = read x\.\d+\[0\]"):
        verify(program("a.9: f32 = read x.1[0]"))


def made(lets: list[Let], results: list[Var | Lit], params: list[Var]) -> Program:
    formals = tuple(fresh("r", r.type) for r in results)
    return Program({"f": Function("f", tuple(params), formals, Block(tuple(lets), tuple(results)))})


def test_a_variable_is_used_only_where_it_is_in_scope() -> None:
    x, y, z = fresh("x", F), fresh("y", F), fresh("z", F)
    with pytest.raises(IRError, match="is not in scope"):
        verify(made([Let((y,), Prim("neg", (z,)))], [y], [x]))
    with pytest.raises(IRError, match="is not in scope"):
        verify(made([Let((y,), Prim("neg", (z,))), Let((z,), Prim("neg", (x,)))], [y], [x]))
    b = Builder()
    n = b.param("n", I64)
    inner: list[Var] = []

    def body(i: Var) -> Var:
        inner.append(b.cast("f64", i))
        return inner[0]

    b.map([n], body)
    with pytest.raises(IRError, match="is not in scope"):
        verify(Program({"f": b.function("f", inner)}))


def test_a_variable_is_bound_once() -> None:
    x, y = fresh("x", F), fresh("y", F)
    let = Let((y,), Prim("neg", (x,)))
    with pytest.raises(IRError, match="bound twice"):
        verify(made([let, let], [y], [x]))


def test_an_axis_of_one_point_needs_no_entry_of_its_own() -> None:
    lets = "a.9: f64[n.0] = comp i.8 in 0..n.0, j.7 in 2..3 { yield s.2 } to keep [n.0] [i.8 + j.7 - 2] set"
    verify(program(lets))
    with pytest.raises(IRError, match="does not determine its axes"):
        verify(program(lets.replace("2..3", "2..4")))


def test_an_entry_may_be_a_place_in_rows_whose_size_is_a_sum() -> None:
    axes = "i.8 in 0..n.0 + 1, j.7 in 0..n.0 + 1"
    lets = f"a.9: f64[n.0*n.0 + 2*n.0 + 1] = comp {axes} {{ yield s.2 }} to keep [n.0*n.0 + 2*n.0 + 1] [ENTRY] set"
    verify(program(lets.replace("ENTRY", "i.8*n.0 + i.8 + j.7")))
    with pytest.raises(IRError, match="does not determine its axes"):
        verify(program(lets.replace("ENTRY", "i.8 + j.7")))


def test_a_literal_is_of_its_dtype() -> None:
    for lit in (Lit(1.5, "i64"), Lit(True, "i64"), Lit(1, "bool"), Lit("a", "f64")):
        with pytest.raises(IRError, match="no literal"):
            verify(made([], [lit], []))


def test_a_type_mentions_only_what_was_bound_before() -> None:
    n = fresh("n", I64)
    x = fresh("x", Array("f64", (poly(n),)))
    with pytest.raises(IRError, match="is not in scope"):
        verify(made([], [Lit(1.0, "f64")], [x, n]))


def test_sizes_are_equal_when_their_normal_forms_are_through_definitions() -> None:
    b = Builder()
    n = b.param("n", I64)
    twice = b.add(n, n)
    (checked,) = b.check(b.prim("ge", n, i64(0)), "E0701", ["negative"], (), [twice])
    x = b.map([checked], lambda i: f64(1))
    y = b.map([poly(n) * 2], lambda i: b.read(x, [i]))
    formal = fresh("r", Array("f64", (poly(n) + n,)))
    verify(Program({"f": b.function("f", [y], formals=[formal])}))
    verify(Program({"f": b.function("f", [x], formals=[formal])}))


COMPARES = "n.0: i64, m.1: i64, k.2: i64, x.3: f64[n.0, m.1]"
UNCERTIFIED = [
    'ok.8: f64[n.0, k.2] = check true "E0807" ("") () for (x.3)',
    'c.9: bool = eq(n.0, k.2)\nok.8: f64[n.0, k.2] = check c.9 "E0807" ("") () for (x.3)',
    'c.9: bool = lt(m.1, k.2)\nok.8: f64[n.0, k.2] = check c.9 "E0807" ("") () for (x.3)',
    'c.9: bool = eq(m.1, k.2)\nd.7: bool = or(c.9, c.9)\nok.8: f64[n.0, k.2] = check d.7 "E0807" ("") () for (x.3)',
    'c.9: bool = eq(m.1, k.2)\ncheck c.9 "E0807" ("") () for ()\ny.8: f64[n.0, k.2] = reshape x.3 [n.0, k.2]',
]


@pytest.mark.parametrize("lets", UNCERTIFIED)
def test_a_size_takes_the_place_of_another_only_behind_a_check_that_compares_them(lets: str) -> None:
    with pytest.raises(IRError, match=r"does not compare m\.\d+ with k\.\d+|elements are reshaped"):
        verify(program(lets, params=COMPARES))


def test_a_check_certifies_sizes_that_it_compares() -> None:
    lets = """c.9: bool = eq(m.1, k.2)
d.8: bool = eq(3, n.0)
e.7: bool = and(c.9, d.8)
x.6: f64[3, k.2] = check e.7 "E0807" ("") () for (x.3)
y.5: f64[3*k.2] = reshape x.6 [3*k.2]
z.4: f64[3*k.2] = reshape x.6 [3*k.2]"""
    verify(program(lets, params=COMPARES))
    never = 'x.6: f64[n.0, 9] = check false "E0807" ("") () for (x.3)'
    verify(program(never, params=COMPARES))


def test_what_did_not_change_is_not_looked_at_again_unless_it_relies_on_what_did() -> None:
    text = """fn g(s.0: f64) -> (r.1: f64) { yield s.0 }
fn f(s.0: f64) -> (r.1: f64) { a.2: f64 = call g(s.0)  yield a.2 }
fn h(s.0: f64) -> (r.1: f64) { a.2: f64 = add(s.0)  yield a.2 }"""
    before = read_program(text)
    unchanged = Program(dict(before.functions))
    verify(unchanged, since=before)
    with pytest.raises(IRError, match="in h: add takes 2 arguments"):
        verify(before)
    other = read_program("fn g(s.0: f64, t.1: f64) -> (r.2: f64) { yield s.0 }").functions["g"]
    with pytest.raises(IRError, match="in f: the arguments: 1 for 2"):
        verify(Program({**before.functions, "g": other}), since=before)
    with pytest.raises(IRError, match="in f: there is no function g"):
        verify(Program({name: f for name, f in before.functions.items() if name != "g"}), since=before)


def test_a_block_that_was_found_to_be_sound_is_refused_where_it_may_not_stand() -> None:
    b = Builder()
    n = b.param("n", I64)
    t = b.prim("neg", n)
    b.map([n], lambda i: b.cast("f64", b.prim("add", i, t)))
    f = b.function("f", [])
    verify(Program({"f": f}))
    comp = f.body.lets[-1]
    assert isinstance(comp.op, Comp) and comp.op.body.sound
    first = Block((comp, *f.body.lets[:-1]), ())
    with pytest.raises(IRError, match="is not in scope"):
        verify(Program({"f": Function("f", f.params, (), first)}))
    other = replace(comp, vars=tuple([fresh("a", v.type) for v in comp.vars]))
    with pytest.raises(IRError, match="is bound twice"):
        verify(Program({"f": Function("f", f.params, (), Block((*f.body.lets, other), ()))}))


def test_results_whose_sizes_are_results_match_through_calls_and_branches() -> None:
    b = Builder()
    n = b.param("n", I64)
    mask = b.param("mask", Array("bool", (poly(n),)))
    k, positions = b.compact(mask)
    positive = b.function("positive", [k, positions])
    c = Builder({"positive": positive})
    n = c.param("n", I64)
    mask = c.param("mask", Array("bool", (poly(n),)))

    def all_of_them() -> list[Var]:
        return [n, c.map([n], lambda i: i)]

    k, chosen = c.if_(c.prim("lt", n, i64(9)), lambda: c.call("positive", n, mask), all_of_them)
    assert chosen.type == Array("i64", (poly(k),))
    verify(Program({"f": c.function("f", [k, chosen]), "positive": positive}))
    wrong = fresh("m", I64)
    signature = Function(
        "f", (n, mask), (wrong, fresh("r", Array("i64", (poly(n),)))), c.function("f", [k, chosen]).body
    )
    with pytest.raises(IRError, match="the function's results"):
        verify(Program({"f": signature, "positive": positive}))


def test_a_token_is_used_once_on_every_path() -> None:
    params = "w.0: token, c.1: bool"
    once = """t.2: token = if c.1 { t.3: token = effect "print" w.0 ("a") yield t.3 } else { yield w.0 }"""
    verify(program(once, "token = t.2", params))
    twice = 't.2: token = effect "print" w.0 ("a")\nt.3: token = effect "print" w.0 ("b")'
    with pytest.raises(IRError, match="is used after it was used"):
        verify(program(twice, "token = t.3", params))
    in_a_loop = 'k.2: i64 = for i.3 in 0..2 (k.4: i64 = 0) { t.5: token = effect "print" w.0 ("a") yield k.4 }'
    with pytest.raises(IRError, match="may run more than once"):
        verify(program(in_a_loop, "token = w.0", params))


CONSUMING = [
    ("y.3: f64[n.0] = update x.1[0] = 1.0\na.4: f64 = read x.1[0]", "is used after an update consumed it"),
    (
        "v.3: f64[n.0] = view i.4 in 0..n.0 of x.1[i.4]\ny.5: f64[n.0] = update x.1[0] = 1.0\na.6: f64 = read v.3[0]",
        "used after",
    ),
    (
        "y.3: f64[n.0] = comp i.4 in 0..n.0 { yield s.2 } to keep [n.0] [i.4] sum into x.1\na.5: f64 = read x.1[0]",
        "is used after a comprehension consumed it",
    ),
    (
        "y.3: f64[n.0] = comp i.4 in 0..n.0 { a.5: f64 = read x.1[0] yield a.5 } to keep [n.0] [i.4] sum into x.1",
        "is read in the comprehension that consumes it",
    ),
    (
        (
            "y.3: f64[n.0] = for i.4 in 0..n.0 (z.5: f64[n.0] = x.1)"
            " { u.6: f64[n.0] = update z.5[i.4] = 1.0 yield u.6 }\na.7: f64 = read x.1[0]"
        ),
        "is used after a loop consumed it",
    ),
    (
        "k.3: f64 = for i.4 in 0..n.0 (k.5: f64 = 0.0) { u.6: f64[n.0] = update x.1[i.4] = 1.0 yield k.5 }",
        "in a body that may run more than once",
    ),
    (
        (
            "y.3: f64[n.0] = if true { yield x.1 } else { u.4: f64[n.0] = copy x.1 yield u.4 }\n"
            "u.5: f64[n.0] = update y.3[0] = 1.0\na.6: f64 = read x.1[0]"
        ),
        "is used after an update consumed it",
    ),
]


@pytest.mark.parametrize(("lets", "reason"), CONSUMING)
def test_with_ownership_nothing_is_used_after_it_was_consumed(lets: str, reason: str) -> None:
    broken = program(lets, consumes="consumes (1)")
    verify(broken)
    with pytest.raises(IRError) as caught:
        verify(broken, ownership=True)
    assert reason in str(caught.value)


def test_with_ownership_a_parameter_is_consumed_where_the_function_says_so() -> None:
    update = "y.3: f64[n.0] = update x.1[0] = 1.0\na.4: f64 = read y.3[0]"
    verify(program(update, consumes="consumes (1)"), ownership=True)
    with pytest.raises(IRError, match="belongs to the caller"):
        verify(program(update), ownership=True)


def test_with_ownership_a_copy_may_be_consumed() -> None:
    verify(
        program(
            "y.3: f64[n.0] = for i.4 in 0..n.0 (z.5: f64[n.0] = x.1)"
            " { c.7: f64[n.0] = copy z.5 u.6: f64[n.0] = update c.7[i.4] = 1.0 a.8: f64 = read z.5[0] yield u.6 }\n"
            "a.9: f64 = read x.1[0]"
        ),
        ownership=True,
    )


def test_a_function_is_filed_under_its_name() -> None:
    f = Function("f", (), (), Block((), ()))
    with pytest.raises(IRError, match="filed as g"):
        verify(Program({"g": f}))


def test_a_call_has_the_arguments_of_its_signature() -> None:
    n = fresh("n", I64)
    x = fresh("x", Array("f64", (poly(n),)))
    g = Function("g", (n, x), (fresh("r", Array("f64", (poly(n),))),), Block((), (x,)))
    m = fresh("m", I64)
    y = fresh("y", Array("f64", (poly(m) * 2,)))
    good = fresh("z", Array("f64", (poly(m) * 2,)))
    caller = [Let((good,), Call("g", (m, y)))]
    f = Function("f", (m, y), (fresh("r", good.type),), Block(tuple(caller), (good,)))
    with pytest.raises(IRError, match="the arguments"):
        verify(Program({"f": f, "g": g}))
    b = Builder({"g": g})
    m = b.param("m", I64)
    y = b.param("y", Array("f64", (poly(m) * 2,)))
    (z,) = b.call("g", b.size(poly(m) * 2), y)
    verify(Program({"f": b.function("f", [z], formals=[fresh("r", y.type)]), "g": g}))

"""Types that contain themselves between Python and the language: lists, trees, expressions, networks."""

from __future__ import annotations

import numpy as np
import pytest

import dlang

TEXT = """
enum Tree { Leaf(f64), Node(Tree, Tree) }
enum Expr { Num(f64), Var(str), Add(Expr, Expr), Let(name: str, value: Expr, body: Expr) }
enum Even { Zero, Next(Odd) }
enum Odd { Next1(Even) }
struct Rose<n> { value: f64[n], children: List<Rose<n>> }
enum Net<n> { In, Layer(weights: f64[n, n], shift: f32[n], rest: Net<n>) }
enum Mixed { End, More(flag: bool, small: i8, half: f16, names: str[2], forest: Tree[2], rest: Mixed) }
enum Task { Done, Later((f64) -> f64, Task) }

fn total(t: Tree) -> f64 = match t { Leaf(x) => x, Node(l, r) => total(l) + total(r) }
fn double(t: Tree) -> Tree = match t { Leaf(x) => Leaf(2.0 * x), Node(l, r) => Node(double(l), double(r)) }
fn same(t: Tree) -> Tree = t
fn any(x) = x
fn upto(n: i64) -> List<i64> {
  var l: List<i64> = Nil
  for i < n { l = Cons(i, l) }
  l
}
fn added<a: Num>(l: List<a>) -> a {
  var (rest, sum) = (l, zero())
  while true { match rest { Nil => break, Cons(x, others) => { sum += x; rest = others } } }
  sum
}
fn zero<a: Num>() -> a = 0
fn value(e: Expr, x: f64) -> f64 = match e {
  Num(v) => v
  Var(name) => if name == "x" { x } else { fail("`{name}` is not bound") }
  Add(a, b) => value(a, x) + value(b, x)
  Let(name, v, body) => value(body, value(v, x))
}
fn primed(e: Expr) -> Expr = match e { Let(name, v, b) => Let("{name}'", primed(v), primed(b)), other => other }
fn steps(e: Even) -> i64 = match e { Zero => 0, Next(Next1(inner)) => 2 + steps(inner) }
fn even(n: i64) -> Even = if n == 0 { Zero } else { Next(Next1(even(n - 2))) }
fn gathered(r: Rose<n>) -> f64[n] {
  var (sum, rest) = (r.value, r.children)
  while true { match rest { Nil => break, Cons(x, others) => { sum += gathered(x); rest = others } } }
  sum
}
fn planted(r: Rose<n>) -> Rose<n> = Rose(2.0 * r.value, Cons(r, Nil))
fn run(net: Net<n>, x: f64[n]) -> f64[n] = match net { In => x, Layer(w, b, rest) => run(rest, w @ x + f64(b)) }
fn sum_of(l: List<i64>) -> i64 = added(l)
fn loss(net: Net<n>, x: f64[n]) -> f64 = sum(run(net, x))
fn doubles(ts: Tree[n]) -> Tree[n] = [double(t) for t in ts]
fn swapped(p: (Tree, f64)) -> (f64, Tree) = (p.1, p.0)
fn turned(o: Option<Tree>) -> Option<Tree> = match o { None => Some(Leaf(1.0)), Some(t) => None }
fn mixed(m: Mixed) -> Mixed = match m { End => End, More(f, s, h, n, t, rest) => More(not f, s + 1, h, n, t, rest) }
fn empty(l: List<f64[n]>) -> f64[n] = match l { Nil => zeros(n), Cons(x, _) => x }
fn task() -> Task = Later(|x| x + 1.0, Done)
fn inside() -> (i64, (f64) -> f64) = (1, |x| x)
"""
DEEP = 100_000


@pytest.fixture(scope="module", params=["interp", "cpu"])
def m(request):
    return dlang.compile(TEXT, request.param)


@pytest.fixture(scope="module")
def compiled():
    return dlang.compile(TEXT)


def message(call):
    with pytest.raises(dlang.DlangError) as caught:
        call()
    return str(caught.value)


def floats(t, m):
    return [t._0] if isinstance(t, m.Leaf) else floats(t._0, m) + floats(t._1, m)


def test_trees_are_arguments_and_results(m):
    t = m.Node(m.Leaf(1.0), m.Node(m.Leaf(2.0), m.Leaf(3)))
    assert m.total(t) == 6.0
    assert floats(m.double(t), m) == [2.0, 4.0, 6.0]
    assert isinstance(m.same(t), m.Node) and floats(m.any(t), m) == [1.0, 2.0, 3.0]


def test_lists_take_the_dtype_of_their_elements(m):
    assert repr(m.upto(2)) == "Cons(head=1, tail=Cons(head=0, tail=Nil()))"
    assert m.added(m.upto(5)) == 10
    assert m.added(m.Cons(2, m.Cons(1.5, m.Nil()))) == 3.5
    single = m.added(m.Cons(1, m.Cons(np.float32(2.5), m.Nil())))
    assert type(single) is np.float32 and single == 3.5


def test_texts_and_types_that_contain_one_another_cross(m):
    e = m.Let("y", m.Num(2.0), m.Add(m.Var("x"), m.Num(5.0)))
    assert m.value(e, 0.0) == 7.0
    assert m.primed(e).name == "y'" and m.value(m.primed(e), 0.0) == 7.0
    assert "`z` is not bound" in message(lambda: m.value(m.Var("z"), 0.0))
    assert m.steps(m.even(6)) == 6 and m.steps(m.Next(m.Next1(m.Zero()))) == 2


def test_nodes_hold_arrays_whose_sizes_are_known_when_it_runs(m):
    r = m.Rose(np.array([1.0, 2.0]), m.Cons(m.Rose([3, 4], m.Nil()), m.Nil()))
    assert m.gathered(r).tolist() == [4.0, 6.0]
    grown = m.planted(r)
    assert grown.value.tolist() == [2.0, 4.0]
    assert grown.children.head.children.head.value.tolist() == [3.0, 4.0]
    assert m.gathered(m.Rose(np.ones(5), m.Nil())).shape == (5,)


def test_a_result_does_not_share_memory_with_an_argument(m):
    x = np.array([1.0, 2.0])
    held = m.planted(m.Rose(x, m.Nil())).children.head.value
    x[0] = 9.0
    assert held.tolist() == [1.0, 2.0]
    held[0] = 5.0  # and it can be written to


def test_fields_of_every_dtype_cross(m):
    forest = [m.Leaf(1.0), m.Node(m.Leaf(2.0), m.Leaf(3.0))]
    given = m.More(
        True, np.int8(3), np.float16(0.5), ["a", "b"], forest, m.More(False, 1, 2.0, ["c", "d"], forest, m.End())
    )
    got = m.mixed(given)
    assert (got.flag, got.small, got.half, list(got.names)) == (False, 4, 0.5, ["a", "b"])
    assert type(got.half) is np.float16 and type(got.small) is np.int8
    assert floats(got.forest[1], m) == [2.0, 3.0] and isinstance(got.rest.rest, m.End)


def test_trees_stand_in_lists_tuples_and_options(m):
    t = m.Node(m.Leaf(1.0), m.Leaf(2.0))
    assert [m.total(x) for x in m.doubles([t, m.Leaf(4.0)])] == [6.0, 8.0] and m.doubles([]) == []
    number, tree = m.swapped((t, 2.0))
    assert number == 2.0 and m.total(tree) == 3.0
    assert m.turned(m.Some(t)) is None and m.total(m.turned(None)._0) == 1.0
    both = m.any((t, m.Some(1)))
    assert m.total(both[0]) == 3.0 and both[1]._0 == 1


def test_the_gradient_of_a_tree_is_a_tree(m):
    t = m.Node(m.Leaf(1.0), m.Leaf(2.0))
    assert floats(dlang.grad(m.total)(t), m) == [1.0, 1.0]
    value, pull = dlang.vjp(m.total, t)
    assert value == 3.0 and floats(pull(2.0), m) == [2.0, 2.0]
    assert dlang.jvp(m.total, t, t) == (3.0, 3.0)


def test_a_network_that_is_a_tree_has_gradients(m):
    w = np.array([[2.0, 0.0], [1.0, 1.0]])
    net = m.Layer(w, np.ones(2, np.float32), m.Layer(np.ones((2, 2)), np.zeros(2, np.float32), m.In()))
    x = np.array([1.0, 2.0])
    value, (dnet, dx) = dlang.value_and_grad(m.loss, wrt=("net", "x"))(net, x)
    assert value == m.loss(net, x) == 2.0 * (np.sum(w @ x) + 2.0)
    assert dnet.weights.tolist() == [[2.0, 4.0], [2.0, 4.0]] and dx.tolist() == [6.0, 2.0]
    assert dnet.shift.dtype == np.float32 and dnet.shift.tolist() == [2.0, 2.0]
    assert dnet.rest.weights.tolist() == [[3.0, 4.0], [3.0, 4.0]] and isinstance(dnet.rest.rest, m.In)


def test_what_parts_share_is_crossed_once(m):
    t = m.Leaf(1.0)
    for _ in range(200):
        t = m.Node(t, t)
    back = m.same(t)
    assert back._0 is back._1


def test_a_deep_value_overflows_no_stack(compiled):
    m = compiled
    deep = m.upto(DEEP)
    assert m.sum_of(deep) == DEEP * (DEEP - 1) // 2
    t = m.Leaf(0.0)
    for k in range(DEEP // 10):
        t = m.Node(t, m.Leaf(float(k))) if k % 2 else m.Node(m.Leaf(float(k)), t)
    slopes = dlang.grad(m.total)(t)
    assert m.total(slopes) == DEEP // 10 + 1
    length, rest = 0, deep
    while isinstance(rest, m.Cons):
        length, rest = length + 1, rest.tail
    assert length == DEEP


def test_the_reference_takes_deep_values_too():
    m = dlang.compile(TEXT, "interp")
    assert m.sum_of(m.upto(5_000)) == 12_497_500


def test_a_size_that_no_value_tells_is_zero(m):
    assert m.empty(m.Nil()).shape == (0,) and m.empty(m.Cons(np.ones(3), m.Nil())).shape == (3,)


@pytest.mark.parametrize(
    "call, words",
    [
        ("m.total(m.Nil())", "expected Tree, got an object of class Nil"),
        ("m.total(m.Node(m.Leaf(1.0), 3))", "in it the int 3, expected Tree"),
        ("m.total(m.Leaf('x'))", "in it a str, expected f64"),
        ("m.added(m.Cons(1.0, m.Cons('a', m.Nil())))", "E0960"),
        ("m.loss(m.Layer(np.eye(2), np.ones(2, np.float32), m.In()), np.ones(3))", "n = 3 from `x`"),
        (
            "m.gathered(m.Rose(np.ones(2), m.Cons(m.Rose(np.ones(3), m.Nil()), m.Nil())))",
            "in it f64[3], expected f64[n]",
        ),
    ],
)
def test_what_does_not_fit_is_named(m, call, words):
    assert words in message(lambda: eval(call, {"m": m, "np": np}))


def test_a_value_that_holds_itself_is_refused(m):
    ring = m.Node(m.Leaf(1.0), m.Leaf(2.0))
    object.__setattr__(ring, "_1", ring)
    assert message(lambda: m.total(ring)).startswith("error[E0961]: `total` is given a value that holds itself")


@pytest.mark.parametrize("name", ["task", "inside"])
def test_a_function_in_a_result_is_refused_before_it_runs(m, name):
    assert message(getattr(m, name)).startswith(f"error[E0690]: the result of `{name}` holds a function")


@pytest.mark.parametrize("body", ["[() for i < 3]", "[]", "(1, Some([(), ()]))"])
def test_an_array_of_nothing_in_a_result_is_refused_before_it_runs(body):
    m = dlang.compile(f"fn blanks() = {body}\nfn given(x: ()[n]) -> i64 = n")
    assert message(m.blanks).startswith(
        "error[E0690]: the result of `blanks` holds an array of values that hold nothing"
    )
    assert m.given([None, None]) == 2

"""Types that contain themselves: which they are, what their nodes hold, and what looks into them."""

import pytest

from dlang.diagnostics import DlangError
from dlang.ir import anf
from dlang.ir.printer import print_program
from dlang.pipeline import optimise
from tests.specialize.support import lowered, ops

TREE = """
enum Tree<a> { Leaf(a), Node(left: Tree<a>, right: Tree<a>) }
fn total(t: Tree<f64>) -> f64 = match t { Leaf(x) => x, Node(l, r) => total(l) + total(r) }
"""


def labels(made):
    return sorted(d.label for d in made.program.datatypes.values())


def fields(made, label):
    (datatype,) = [d for d in made.program.datatypes.values() if d.label == label]
    return {v.name: [(f.name, f.type) for f in v.fields] for v in datatype.variants}


def run(made, *args):
    plain = made.run(*args)
    assert made.run(*args, optimised=True) == plain
    return plain


def test_only_what_contains_itself_has_nodes():
    made = lowered("""
struct Inner { x: f64, o: Option<f64> }
struct Person { age: i64, boss: Option<Person> }
fn f(x: f64) -> i64 {
  let a = Person(1, None)
  let b = Person(2, Some(a))
  let c = Some(Inner(x, Some(x)))
  match b.boss { Some(p) => p.age, None => 0 }
}
""")
    assert labels(made) == ["Option<Person>"]
    assert run(made, 1.0) == [1]


def test_enums_that_contain_each_other_are_both_nodes():
    made = lowered("""
enum A { End, Next(B) }
enum B { Stop, Back(A) }
fn a(x: A) -> i64 = match x { End => 0, Next(y) => 1 + b(y) }
fn b(y: B) -> i64 = match y { Stop => 0, Back(x) => 10 + a(x) }
fn f(n: i64) -> i64 = a(Next(Back(Next(Stop))))
""")
    assert labels(made) == ["A", "B"]
    assert run(made, 0) == [12]


def test_a_datatype_serves_all_sizes():
    made = lowered(
        TREE
        + """
fn size(t: Tree<f64[n]>) -> i64 = match t { Leaf(x) => sum([1 for i < n]), Node(l, _) => size(l) }
fn f(n: size) -> i64 = size(Leaf([1.0, 2.0, 3.0])) + size(Node(Leaf(zeros(n)), Leaf(ones(n))))
"""
    )
    assert labels(made) == ["Tree<f64[_]>"]
    leaf = fields(made, "Tree<f64[_]>")["Leaf"]
    assert [t.dtype for _, t in leaf] == ["i64", "f64"]
    assert run(made, 4, 4) == [7]


def test_a_literal_size_in_a_declaration_is_not_stored():
    made = lowered(
        "enum P { End, At(f64[3], P) }\n"
        "fn f(x: f64) -> f64 = match At([x, x, x], End) { At(p, _) => sum(p), End => 0.0 }"
    )
    assert [t.dtype for _, t in fields(made, "P")["At"]] == ["f64", made.program.datatypes.popitem()[0]]


def test_equal_sizes_of_a_variant_are_stored_once():
    made = lowered("""
enum Path<n> { End, Step(f64[n], f64[n], Path<n>) }
fn f(n: size) -> f64 = match Step(ones(n), zeros(n), End) { Step(a, b, _) => sum(a + b), End => 0.0 }
""")
    assert [t.dtype for _, t in fields(made, "Path<_>")["Step"]][:3] == ["i64", "f64", "f64"]
    assert run(made, 2, 2) == [2.0]


def test_nodes_are_opened_only_where_their_tag_is_known():
    """A test of what is inside stands in an arm of the test of the tag around it."""
    made = lowered("""
fn f(n: i64) -> i64 {
  fn second(xs: List<i64>) -> i64 = match xs { Cons(_, Cons(2, _)) => 1, Cons(_, Cons(x, Nil)) => x, _ => -1 }
  second(Nil) + 10 * second(Cons(1, Nil)) + 100 * second(Cons(1, Cons(n, Nil)))
}
""")
    assert run(made, 2) == [100 - 10 - 1] and run(made, 7) == [700 - 10 - 1]


def test_what_is_made_and_matched_at_once_costs_nothing():
    made = lowered("fn f(x: f64) -> f64 = match Cons(x, Nil) { Cons(y, _) => 2.0 * y, Nil => 0.0 }")
    text = print_program(optimise(made.program, [made.entry.name]))
    assert "construct" not in text and "tag" not in text


def test_a_structural_operation_is_one_function_for_each_type():
    made = lowered(
        TREE
        + """
fn f(x: f64) -> bool {
  let a = Node(Leaf(x), Leaf(1.0))
  a == Node(Leaf(1.0), a) or a == a or a == Leaf(x)
}
"""
    )
    assert len(made.functions_of("equal")) == 1
    assert run(made, 1.0) == [True]


def test_the_text_of_nodes_is_what_constructs_them():
    made = lowered(
        TREE
        + """
fn f(x: f64) -> str {
  let t = Node(Leaf((x, Some(0.5))), Leaf((2.0, None)))
  "{t:.1f}"
}
"""
    )
    assert run(made, 1.0) == ["Node(Leaf((1.0, Some(0.5))), Leaf((2.0, None)))"]


def test_an_operator_on_different_variants_stops_the_run():
    from dlang.host.errors import RunError

    made = lowered(TREE + "fn f(x: f64) -> f64 = total(Leaf(x) + Node(Leaf(x), Leaf(x)))")
    with pytest.raises(RunError, match="different variants"):
        made.run(1.0)


def test_sizes_out_of_a_node_are_compared_with_those_of_its_type():
    """What comes out of a node has a size of its own; where the type says another name for it, they are compared."""
    made = lowered(
        TREE
        + """
fn f(n: size) -> f64 {
  let t = Node(Leaf(ones(n)), Leaf(ones(n)))
  fn all_of(t: Tree<f64[m]>) -> f64[m] = match t { Leaf(x) => x, Node(l, r) => all_of(l) + all_of(r) }
  sum(all_of(t) + ones(n))
}
"""
    )
    assert any(isinstance(op, anf.Assert) and op.code == "E0807" for op in ops(made.program))
    assert run(made, 3, 3) == [9.0]


def test_types_inside_of_one_another_end_where_they_get_smaller() -> None:
    value, pattern = "x", "y"
    for _ in range(30):
        value, pattern = f"Some({value})", f"Some({pattern})"
    made = lowered(f"fn f(x: f64) -> f64 = match {value} {{ {pattern} => y, _ => 0.0 }}")
    assert run(made, 3.0) == [3.0]


def test_types_that_grow_without_end_are_an_error():
    with pytest.raises(DlangError, match="E0602"):
        lowered("""
enum Nest<a> { Flat(a), Deep(Nest<(a, a)>) }
fn f(x: f64) -> f64 = match Flat(x) { Flat(y) => y, Deep(_) => 0.0 }
""")


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        ("fn f(x: f64) -> f64 = grad(|y| total(Node(Leaf(y), Leaf(y * y))))(x)", 7.0),
        ("fn f(x: f64) -> f64 = total(grad(|t| total(t) ** 2.0)(Node(Leaf(x), Leaf(1.0))))", 16.0),
    ],
)
def test_a_derivative_passes_through_nodes(function, expected):
    assert lowered(TREE + function).run(3.0, optimised=True) == [expected]


def test_a_derivative_beside_nodes_is_taken():
    made = lowered(
        TREE
        + """
fn f(x: f64) -> f64 {
  let t = Leaf(3.0)
  grad(|y| y * y * total(t))(x)
}
"""
    )
    assert made.run(2.0, optimised=True) == [12.0]

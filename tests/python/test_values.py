"""Values of structs and enums are compared, shown, copied and pickled by what is in them, however deep they are."""

import copy
import pickle

import numpy as np
import pytest

import dlang

DEEP = 5_000
PROGRAM = """
struct Point<n> { x: f64, y: f64[n] }
enum Tree { Leaf(f64), Fork(Tree, Tree) }
enum Many { Few, Some3(Point<3>[2], (i64, Tree)) }
fn list(n: i64) -> List<f64> {
  var l: List<f64> = Nil
  for i < n { l = Cons(f64(i), l) }
  l
}
fn point(x: f64[n]) -> Point<n> = Point(x[0], x)
"""


@pytest.fixture(scope="module")
def m():
    return dlang.compile(PROGRAM)


def test_deep_values_need_no_stack(m):
    one, two = m.list(DEEP), m.list(DEEP)
    assert one == two and hash(one) == hash(two) and one != m.list(DEEP - 1)
    assert repr(one).startswith("Cons(head=4999.0, tail=Cons(") and str(one).endswith("Nil()" + ")" * DEEP)
    assert pickle.loads(pickle.dumps(one)) == one
    copied = copy.deepcopy(one)
    assert copied == one and copied is not one and copied.tail is not one.tail


def test_equality_is_that_of_types_shapes_and_elements(m):
    a, b = m.point(np.ones(2)), m.point(np.ones(2))
    assert a == b and a != m.point(np.ones(3)) and a != m.point(np.array([1.0, 2.0]))
    assert a != 1.0 and a != (1.0, np.ones(2)) and m.Leaf(1.0) != m.Fork(m.Leaf(1.0), m.Leaf(1.0))
    assert m.point(np.array([np.nan])) != m.point(np.array([np.nan]))  # as in the language
    assert {m.Leaf(1.0): "a"}[m.Leaf(1)] == "a"
    other = dlang.compile(PROGRAM)
    assert m.Leaf(2.0) == other.Leaf(2.0)


def test_values_in_lists_and_tuples_of_values_are_values_too(m):
    def made():
        points = [m.Point(float(k), np.full(3, k)) for k in range(2)]
        return m.Some3(points, (7, m.Fork(m.Leaf(1.0), m.Leaf(2.0))))

    value, copied = made(), copy.deepcopy(made())
    assert value == made() == copied == pickle.loads(pickle.dumps(value))
    assert copied._0[0].y is not value._0[0].y
    assert repr(value) == (
        "Some3(_0=[Point(x=0.0, y=array([0, 0, 0])), Point(x=1.0, y=array([1, 1, 1]))], "
        "_1=(7, Fork(_0=Leaf(_0=1.0), _1=Leaf(_0=2.0))))"
    )
    assert repr(m.Few()) == "Few()"


def test_what_is_shared_in_a_value_stays_shared(m):
    leaf = m.Leaf(1.0)
    for again in (copy.deepcopy, lambda v: pickle.loads(pickle.dumps(v)), copy.copy):
        made = again(m.Fork(leaf, leaf))
        assert made._0 is made._1


def test_completion_offers_what_people_call():
    assert set(dlang.__all__) < set(dir(dlang)) and "laps" not in dir(dlang) and "tools" not in dir(dlang)
    f = dlang.compile("fn loss(x: f64[n]) -> f64 = sum(x)").loss
    offered = [name for name in dir(dlang.grad(f)) if not name.startswith("_")]
    assert offered == ["bind", "ir", "profile", "to_jax", "to_torch"]
    assert all(hasattr(f, name) for name in dir(f) if not name.startswith("__"))

"""An instance is keyed by dtypes, ranks, literal sizes and functions, never by other sizes or by values."""

import numpy as np
import pytest

from dlang.diagnostics import DlangError
from tests.specialize.support import lowered


def test_one_instance_serves_two_sizes():
    made = lowered("fn g(x: f64[n]) -> f64 = sum(x)\nfn f(x: f64[n], y: f64[m]) -> f64 = g(x) + g(y)")
    assert len(made.functions_of("g")) == 1
    assert made.run(2, 3, np.ones(2), np.ones(3)) == [5.0]


def test_literal_sizes_and_dtypes_make_instances_of_their_own():
    made = lowered(
        """
        fn g(x: a[n]) -> i64 = n
        fn f(x: f64[n]) -> i64 = g(x) + g([1.0, 2.0]) + g([1.0, 2.0, 3.0]) + g([1, 2])
        """
    )
    assert len(made.functions_of("g")) == 4
    assert made.run(5, np.zeros(5)) == [12]


def test_sizes_that_are_equal_at_a_call_are_one_parameter():
    made = lowered("fn g(x, y) = x + y\nfn f(x: f64[n], y: f64[n]) -> f64[n] = g(x, y)")
    (g,) = made.functions_of("g")
    assert len([p for p in g.params if p.type.dtype == "i64"]) == 1


def test_a_function_passed_as_an_argument_is_part_of_the_instance():
    made = lowered(
        """
        fn apply(g: f64 -> f64, x: f64) -> f64 = g(x)
        fn double(x: f64) -> f64 = 2.0 * x
        fn f(x: f64) -> f64 = apply(double, x) + apply(|y| y + x, x) + apply(double, 1.0)
        """
    )
    assert len(made.functions_of("apply")) == 2
    assert made.run(3.0) == [6.0 + 6.0 + 2.0]


def test_a_recursive_function_calls_its_own_instance():
    made = lowered("fn f(n: i64) -> i64 = if n <= 1 { 1 } else { n * f(n - 1) }")
    assert len(made.functions_of("f")) == 1
    assert made.run(20) == [2432902008176640000]


def test_a_recursive_function_may_call_itself_at_other_sizes():
    made = lowered(
        """
        fn f(x: f64[n]) -> f64 =
          if n == 0 { 0.0 } else if n == 1 { x[0] } else { let h = n // 2; f(x[..h]) + f(x[h..]) }
        """
    )
    assert made.run(7, np.arange(7.0)) == [21.0]


def test_mutual_recursion_needs_no_order():
    text = """
    fn even(n: i64) -> bool = if n == 0 { true } else { odd(n - 1) }
    fn odd(n: i64) -> bool = if n == 0 { false } else { even(n - 1) }
    """
    assert lowered(text, "even").run(10) == [True]


def test_a_recursive_local_function_sees_the_locals_before_it():
    made = lowered(
        """
        fn f(g: f64 -> f64, limit: f64) -> f64 {
          let step = 1.0
          fn go(x: f64) -> f64 = if g(x) > limit { x } else { go(x + step) }
          go(0.0)
        }
        fn h(limit: f64) -> f64 = f(|x| x * x, limit)
        """,
        "h",
    )
    assert made.run(10.0) == [4.0]


def test_a_returned_closure_carries_what_it_captured():
    made = lowered(
        """
        fn twice(g: a -> a) -> a -> a = |x| g(g(x))
        fn f(k: f64) -> f64 { let add = |x: f64| x + k; twice(twice(add))(0.0) }
        """
    )
    assert made.run(2.5) == [10.0]


def test_an_endless_family_of_instances_is_an_error():
    with pytest.raises(DlangError, match="E0602"):
        lowered("fn g(x: a, k: i64) -> i64 = if k == 0 { 0 } else { g((x, x), k - 1) }\nfn f() -> i64 = g(1, 3)")


def test_a_type_that_doubles_from_call_to_call_is_refused_before_it_is_large():
    with pytest.raises(DlangError, match="E0602"):
        lowered("fn g(x: a, k: i64) -> i64 = if k == 0 { 0 } else { g((x, x, x, x), k - 1) }\nfn f() -> i64 = g(1, 3)")


def test_a_recursion_through_literal_sizes_has_one_instance_for_all_the_rest():
    made = lowered(
        """
        fn total(x: f64[n]) -> f64 = if n == 0 { 0.0 } else { x[0] + total(x[1..]) }
        fn f() -> f64 = total([1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0])
        """
    )
    assert made.run() == [36.0]
    assert sum(name.startswith("total.") for name in made.program.functions) < 6


def test_a_lambda_captures_the_value_that_a_var_has_there():
    made = lowered("fn f(x: f64) -> f64 { var k = 1.0; let g = |y: f64| k * y; k = 10.0; g(x) + k }")
    assert made.run(3.0) == [13.0]


def test_default_arguments_see_the_parameters_before_them():
    made = lowered("fn g(x: f64, y: f64 = 2.0 * x) -> f64 = x + y\nfn f(x: f64) -> f64 = g(x) + g(x, y = 1.0)")
    assert made.run(3.0) == [9.0 + 4.0]

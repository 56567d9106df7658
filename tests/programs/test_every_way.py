"""Derivatives to second order, in both modes and nested in every order, of programs with each form of the language."""

import pytest

from tests.programs.every_way import agree

POINT = [0.31, -0.72, 1.13, 0.54]
LONG = [*POINT, -0.25, 0.8, 0.9, -1.1]

CHANGING = {
    "a loop that appends": """
        fn f(x: f64[n]) -> f64 {
          var y: f64[?] = [x[0], x[1]]
          for i in 2..n { y = concat(y, [y[len(y) - 1] * x[i] + y[0]]) }
          sum(y ** 3)
        }""",
    "a loop that halves": """
        fn f(x: f64[n]) -> f64 {
          var y: f64[?] = x
          while len(y) > 1 { let h = len(y) // 2; y = [sin(y[2 * i]) * y[2 * i + 1] for i < h] }
          y[0]
        }""",
    "a loop that filters": """
        fn f(x: f64[n]) -> f64 {
          var y: f64[?] = x
          var t = 0.0
          for k < 4 { t += sum(y ** 3) * f64(k + 1); y = [v * 1.3 + x[k] for v in y if v > f64(k) * 0.3 - 0.5] }
          t + sum(y)
        }""",
    "in branches, two arrays, and a loop that ends early": """
        fn f(x: f64[n]) -> f64 {
          var a: f64[?] = x
          var b: f64[?] = [1.0]
          var s = 0.0
          var k = 0
          while true {
            k += 1
            if k > 4 { break }
            if k == 2 { a = [v * v for v in a if v > -0.5]; continue }
            b = concat(b, [sum(a) * b[0]])
            s += sum(b ** 2)
          }
          s + sum(a)
        }""",
    "loops in loops": """
        fn f(x: f64[n]) -> f64 {
          var y: f64[?] = x
          var s = 0.0
          for k < 3 {
            var z: f64[?] = y
            while len(z) > k + 1 {
              let h = len(z) // 2
              z = [tanh(z[2 * i]) * z[2 * i + 1] + x[i] for i < h]
              s += sum(z ** 2)
            }
            y = concat(y, z)
          }
          sum(y ** 2) + s
        }""",
    "in the elements of a comprehension": """
        fn grown(v: f64, x: f64[n]) -> f64 {
          var y: f64[?] = [v, v * v]
          while sum(y ** 2) < 4.0 { y = concat(y, [y[len(y) - 1] * 1.3 + x[0]]) }
          sum(y)
        }
        fn f(x: f64[n]) -> f64 = sum(grown(v, x) ** 2 for v in x)""",
    "in a recursive function": """
        fn go(y: f64[m], k: i64) -> f64 = if k == 0 { sum(y * y) } else {
          var z: f64[?] = y
          for i < 2 { z = concat(z, [sum(z) * 0.5]) }
          go([sin(v) for v in z if v > -0.5], k - 1) * z[0]
        }
        fn f(x: f64[n]) -> f64 = go(x, 2)""",
    "no iterations, updates of an array that shrinks, and a return": """
        fn f(x: f64[n]) -> f64 {
          var y: f64[?] = x
          for k < n - 8 { y = concat(y, y) }
          for k < 5 {
            for i in 1..len(y) { y[i] = y[i - 1] * y[i] + 0.1 }
            y = y[..len(y) - 1]
            if len(y) == 6 { return sum(y ** 2) }
          }
          0.0
        }""",
}


@pytest.mark.parametrize("name", CHANGING)
def test_a_loop_whose_arrays_change_size(name: str) -> None:
    agree(CHANGING[name], LONG)


EFFECTS = {
    "a while loop": """
        fn f(x: f64[n]) -> f64 {
          var y = 1.5 + x[0]
          while y < 20.0 { print("{y > 5.0}"); y *= 2.0 + x[1] ** 2 }
          y
        }""",
    "a loop that ends early": """
        fn f(x: f64[n]) -> f64 {
          var y = 2.0
          for i < 9 { print("{i}"); if y > 6.0 { break }; y *= 2.0 + x[i] }
          y
        }""",
    "arrays of each iteration, in a function that calls itself": """
        fn go(x: f64[n], y: f64, k: i64) -> f64 {
          print("call {k}")
          var s = y
          for i < 2 { let z = [v * s for v in x if v * s > 0.0]; print("{len(z)}"); s = sum(z ** 2) }
          if k == 0 { s } else { s * go(x, sin(s), k - 1) }
        }
        fn f(x: f64[n]) -> f64 = go(x, x[2], 1)""",
    "what is computed again": """
        fn g(v: f64) -> f64 { print("g"); sin(v) * v }
        fn f(x: f64[n]) -> f64 = checkpoint(g)(x[0]) * x[1]""",
}
PRINTED = {
    "a while loop": ["false", "false", "true"],
    "a loop that ends early": ["0", "1", "2", "3"],
    "arrays of each iteration, in a function that calls itself": ["call 1", "3", "3", "call 0", "3", "3"],
    "what is computed again": ["g"],
}


@pytest.mark.parametrize("name", EFFECTS)
def test_what_a_function_does_happens_once_for_each_derivative(name: str) -> None:
    # `derivatives_` differentiates f six times.
    assert agree(EFFECTS[name], POINT).splitlines() == PRINTED[name] * 6


STORED = {
    "an index that is found behind the value": """
        fn f(x: f64[n]) -> f64 {
          let a = [[x[t], 2.0 * x[t]] for t < n]
          sum(exp(a[n - 1 - i, 0] ** 2) * a[i, (i + 1) % 2] for i < n)
        }""",
    "an index that the value decides": """
        fn f(x: f64[n]) -> f64 {
          let a = [[x[t] * f64(c + 1) for c < 2] for t < n]
          sum({
            let v = exp(a[n - 1 - i, 0])
            v * a[i, i64(10.0 * v) % 2]
          } for i < n)
        }""",
}


@pytest.mark.parametrize("name", STORED)
def test_a_value_is_read_where_it_was_stored(name: str) -> None:
    agree(STORED[name], POINT)

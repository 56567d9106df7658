"""`dlc test --coverage`: lines and branches that tests reach, and no others."""

import textwrap
from contextlib import suppress
from pathlib import Path

import pytest

from dlang.diagnostics import DlangError, Source
from dlang.driver import check, errors_of
from dlang.host.effects import Host
from dlang.tools.coverage import Coverage, by_file, lcov, table


def covered(text, path="cov.dl"):
    checked = check(Source(path, textwrap.dedent(text).lstrip()))
    assert not errors_of(checked)
    coverage = Coverage()
    coverage.instrument(checked)
    for test in checked.module.tests:
        with suppress(DlangError):
            coverage.run(test, Host())
    return by_file(coverage.reached())


def lines(text):
    """The lines that count, in order: those that were reached, and those that were not."""
    (file,) = covered(text)
    return [k for k, hit in file.lines.items() if hit], [k for k, hit in file.lines.items() if not hit]


def arms(text):
    (file,) = covered(text)
    return list(file.arms.values())


BRANCHES = """
    fn sign(x: f64) -> f64 {
      if x > 0.0 {
        1.0
      } else if x < 0.0 {
        -1.0
      } else {
        0.0
      }
    }
    fn unused(x: f64) -> f64 {
      let y = x * x
      y + 1.0
    }
    test "positive" { assert sign(2.0) == 1.0 }
"""


def test_what_no_test_reaches_is_missing():
    assert lines(BRANCHES) == ([2, 3], [4, 5, 7, 11, 12])
    assert arms(BRANCHES) == [True, False, False, False]


def test_a_test_that_fails_counts_as_far_as_it_went():
    text = 'fn f(x: f64) -> f64 {\n  assert x > 1.0\n  x + 1.0\n}\ntest "no" { assert f(0.0) == 1.0 }\n'
    assert lines(text) == ([2], [3])


def test_a_derivative_reaches_what_its_function_does():
    text = BRANCHES.replace("assert sign(2.0) == 1.0", "assert grad(sign)(-2.0) == 0.0")
    assert lines(text) == ([2, 4, 5], [3, 7, 11, 12])


def test_loops_and_ways_out_of_them():
    text = """
        fn total(n: i64) -> i64 {
          var total = 0
          for i < n {
            if i == 3 { continue }
            if i > 100 {
              total += 1000
              break
            }
            total += i
          }
          while total > 1000 {
            total -= 1
          }
          return total
        }
        test "five" { assert total(5) == 7 }
    """
    assert lines(text) == ([2, 3, 4, 5, 9, 11, 14], [6, 7, 12])


def test_a_loop_without_a_iteration_reaches_nothing_in_it():
    text = "fn f(n: i64) -> f64 {\n  var t = 0.0\n  for i < n {\n    t += 1.0\n  }\n  t\n}\n"
    assert lines(text + 'test "t" { assert f(0) == 0.0 }\n') == ([2, 3, 6], [4])


ELEMENTS = """
    fn f(x: f64[n]) -> f64[n] =
      [
        if v > 10.0 {
          v * 2.0
        } else {
          helper(v)
        }
        for v in x
      ]
    fn helper(v: f64) -> f64 = v + 1.0
    test "t" { assert sum(f(XS)) >= 0.0 }
"""


@pytest.mark.parametrize(
    "xs, missing",
    [("[1.0, 2.0]", [4]), ("[11.0]", [6, 10]), ("[1.0, 11.0]", []), ("[1.0][1..]", [3, 4, 6, 10])],
)
def test_an_arm_counts_if_it_runs_for_an_element(xs, missing):
    assert lines(ELEMENTS.replace("XS", xs))[1] == missing


def test_any_instance_of_a_function_counts():
    text = """
        fn twice(x) =
          if x > x - x { x + x } else {
            x - x
          }
        fn both(k: i64) -> f64 = f64(twice(k)) + twice(-1.0)
        test "t" { assert both(2) == 4.0 }
    """
    assert lines(text) == ([2, 3, 5], []) and arms(text) == [True, True]


def test_arms_of_a_match_functions_within_functions_and_constants():
    text = """
        enum Shape { Circle(f64), Square(f64) }
        const limit = 4.0
        const other = 3.0
        fn area(s: Shape) -> f64 = match s {
          Circle(r) => 3.0 * r * r,
          Square(a) => a * a,
        }
        fn f(x: f64) -> f64 {
          let g = |y: f64|
            y * x
          fn h(z: f64) -> f64 {
            z + 1.0
          }
          g(x) + limit
        }
        test "t" { assert area(Square(f(0.0))) == 16.0 }
    """
    assert lines(text) == ([2, 4, 6, 10, 14], [3, 5, 12])
    assert arms(text) == [False, True]


def test_a_constant_that_types_know_does_not_count():
    text = """
        const size = 2 + 1
        const scale = 2.0
        fn f(x: f64[size]) -> f64 = scale * sum(x)
        test "t" { assert f([1.0, 1.0, 1.0]) == 6.0 }
    """
    assert lines(text) == ([2, 3], [])


def test_rules_and_recursive_functions():
    text = """
        fn clamp(x: f64) -> f64 = x
        pullback clamp(x) -> y =
          |t: f64| 2.0 * t
        fn depth(n: i64) -> i64 {
          if n == 0 { return 0 }
          1 + depth(n - 1)
        }
        test "t" { assert grad(clamp)(1.0) == 2.0
          assert depth(3) == 3 }
    """
    assert lines(text) == ([1, 3, 5, 6], [])


def test_the_table_has_ranges_and_a_sum(tmp_path):
    files = covered(BRANCHES)
    assert table(files).splitlines()[1].split() == ["cov.dl", "7", "2", "28.6", "%", "1/4", "4-12"]
    both = table(files + covered(BRANCHES.replace("positive", "other"), "other.dl")).splitlines()
    assert both[-1].split() == ["all", "14", "4", "28.6", "%", "2/8"]


def test_lcov_has_a_record_for_each_file():
    records = lcov(covered(BRANCHES)).splitlines()
    assert records[:2] == ["TN:", "SF:cov.dl"] and records[-1] == "end_of_record"
    for record in ("FN:1,sign", "FNDA:1,sign", "FNDA:0,unused", "FNF:2", "FNH:1", "BRDA:2,0,0,1", "BRDA:4,1,1,0",
                   "BRF:4", "BRH:1", "DA:2,1", "DA:5,0", "LF:7", "LH:2"):  # fmt: skip
        assert record in records


def test_the_command_prints_and_writes_it_for_imports_too(write, dlc, tmp_path):
    write("fn half(x: f64) -> f64 = x / 2.0\nfn third(x: f64) -> f64 = x / 3.0\n", "part.dl")
    main = write(
        'import part\nimport nn\nfn f(x: f64) -> f64 = part.half(nn.relu(x))\ntest "t" { assert f(2.0) == 1.0 }'
    )
    code, out, _ = dlc("test", "--coverage", "--coverage-out", "lcov.info", main)
    assert code == 0
    rows = [line.split() for line in out.splitlines()[3:]]
    assert [r[:5] for r in rows[1:]] == [
        ["part.dl", "2", "1", "50.0", "%"],
        ["program.dl", "1", "1", "100.0", "%"],
        ["all", "3", "2", "66.7", "%"],
    ]
    assert (tmp_path / "lcov.info").read_text().count("end_of_record") == 2
    code, out, err = dlc("test", "--coverage-out", "no/lcov.info", main)
    assert (code, out) == (1, "") and "E0822" in err
    code, out, _ = dlc("test", "--coverage", write("fn f(x: f64) -> f64 = x\n", "untested.dl"))
    assert code == 0 and out.splitlines()[-1].split()[:4] == ["untested.dl", "1", "0", "0.0"]


def test_the_page_shows_what_is_printed(write, dlc):
    page = (Path(__file__).parents[2] / "docs/testing.md").read_text()
    program, shown = page.split("### Coverage\n\n```dlang\n")[1].split("```", 1)
    _, out, _ = dlc("test", "--coverage", write(program, "steps.dl"))
    assert textwrap.indent("\n".join(out.splitlines()[3:]), "    ") in shown

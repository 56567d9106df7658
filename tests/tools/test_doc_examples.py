"""`dlc test --doc`: the examples in `##` lines are tests."""

from pathlib import Path

STDLIB = Path(__file__).parents[2] / "stdlib"
MODULE = """
## ```dlang
## assert twice(2.0) == 4.0
## ```

## Twice.
##
## ```dlang
## import math
## let x = [1.0, 2.0]
## assert close(twice(x), [2.0, 4.0])
## assert math.pi > 3.0 and m.twice(0.5) == Box(1.0).x
## ```
##
## ```text
## not this
## ```
fn twice(x) = 2.0 * x

## ```dlang
## assert twice(_hidden()) == 3.0
## ```
struct Box { x: f64 }
fn _hidden() -> f64 = 1.0

test "a test" { assert twice(1.0) == 2.0 }
"""


def test_examples_are_tests_with_their_lines(write, dlc):
    text = MODULE.replace("twice(_hidden())", "twice(Box(1.0).x)")
    code, out, err = dlc("test", "--doc", write(text, "m.dl"))
    assert code == 1
    assert [line.strip() for line in out.splitlines()[:-1]] == [
        "m.dl",
        "ok      a test",
        "m.dl (examples)",
        "ok      the example in line 1",
        "ok      the example in line 7",
        "FAILED  the example in line 19",
    ]
    assert "3 passed, 1 failed" in out
    assert "m.dl (examples):20:4" in err and "assertion failed: `twice(Box(1.0).x) == 3.0`" in err


def test_an_example_with_a_mistake_has_a_message_at_its_line(write, dlc):
    code, out, err = dlc("test", "--doc", write(MODULE, "m.dl"))
    assert code == 1 and "1 file with errors" in out and "m.dl (examples):20:" in err and "_hidden" in err


def test_without_the_option_there_are_no_examples(write, dlc):
    code, out, _ = dlc("test", write(MODULE, "m.dl"))
    assert code == 0 and out.startswith("m.dl\n  ok      a test\n1 passed")


def test_examples_are_chosen_by_their_names(write, dlc):
    code, out, _ = dlc("test", "--doc", "--filter", "line 7", write(MODULE.replace("twice(_hidden())", "3.0"), "m.dl"))
    assert code == 0 and "1 passed" in out


def test_an_example_that_is_never_closed_ends_with_its_words(write, dlc):
    code, out, _ = dlc("test", "--doc", write("## ```dlang\n## assert f() == 1\nfn f() = 1\n", "m.dl"))
    assert code == 0 and "ok      the example in line 1" in out
    code, out, _ = dlc("test", "--doc", write("fn f() = 1\n## ```dlang\n## assert f() == 1", "m.dl"))
    assert code == 0 and "ok      the example in line 2" in out


def test_a_file_that_is_no_module_has_examples_of_the_language(write, dlc):
    code, out, _ = dlc("test", "--doc", write("## ```dlang\n## assert 1 + 1 == 2\n## ```\nfn f() = 1\n", "my-file.dl"))
    assert code == 0 and "1 passed" in out


def test_the_examples_of_the_library_hold(dlc):
    code, out, err = dlc("test", "--doc", STDLIB)
    assert code == 0, err
    assert out.count("  ok ") >= 4

"""Functions in a line."""

import pytest

from dlang.tools import assistance
from dlang.tools.assistance import from_text, of_builtin
from dlang.typecheck import builtins


def test_every_function_that_the_compiler_knows_is_described():
    for name in builtins.names():
        assert assistance.words(name), name
        assert str(of_builtin(name)) == name + assistance.signature(name)


@pytest.mark.parametrize(
    "text, parameters, names, result",
    [
        ("<a: Num>(x: a[..s]) -> a", ("x: a[..s]",), ("x",), "a"),
        ("(n: size, m: size, …) -> a[n, m, …]", ("n: size", "m: size", "…"), ("n", "m", None), "a[n, m, …]"),
        ("(f: (a, b) -> c, x: a, tol = 1e-9)", ("f: (a, b) -> c", "x: a", "tol = 1e-9"), ("f", "x", "tol"), ""),
        ("() -> f64", (), (), "f64"),
    ],
)
def test_a_signature_is_taken_apart(text, parameters, names, result):
    found = from_text("f", text)
    assert (found.parameters, found.names, found.result) == (parameters, names, result)
    assert str(found) == "f" + text

"""Places in texts that are half written: `‸` is the place."""

import pytest

from dlang.tools.assistance import call_at, expected, situation


def at(text):
    return situation(text[: text.index("‸")])


@pytest.mark.parametrize(
    "text, path, argument, name",
    [
        ("f(‸", "f", 0, None),
        ("f(a, g(b), ‸", "f", 2, None),
        ("f(a, g(b, ‸", "g", 1, None),
        ("nn.dense(x, [1, 2], w = ‸", "nn.dense", 2, "w"),
        ("f(w = 1, ‸", "f", 1, None),
        ("f([a, ‸", "f", 0, None),
        ("f(|a, b| a, ‸", "f", 1, None),
        ("f(|a, ‸", "f", 0, None),
        ("sum(x[i] for i < n, j‸", "sum", 0, None),
        ("x |> f(‸", "f", 1, None),
        ('f("a, {‸', "f", 0, None),
        ('print("{g(1, ‸)}")', "g", 1, None),
        ('print("{g(1)} {h(‸)}")', "h", 0, None),
        ('print("{{ {x[1, g(‸', "g", 0, None),
        ("f(a, # b, ‸", "f", 1, None),
        ("let x = f(\n\nfn g(y) = h(‸", "h", 0, None),
        ("let x = f(\nlet y = ‸", None, 0, None),
        ("f(|x| { let y = ‸", None, 0, None),
        ("fn f(‸", None, 0, None),
        ("(a, ‸", None, 0, None),
        ("f(a)‸", None, 0, None),
        ("x[0].f(‸", None, 0, None),
    ],
)
def test_the_call_around_a_place(text, path, argument, name):
    call = call_at(at(text))
    assert (call and (call.path, call.argument, call.name)) == (path and (path, argument, name))


@pytest.mark.parametrize(
    "text, prefix",
    [
        ('"a {xs‸}"', "xs"),
        ('f("{a}") + xs‸', "xs"),
        ('"{a[f(1):2]‸', ""),
        ('"\\" {{{xs‸', "xs"),
    ],
)
def test_an_interpolation_is_code(text, prefix):
    assert (at(text).prefix, at(text).quiet) == (prefix, False)


@pytest.mark.parametrize(
    "text", ['"xs‸"', "#xs‸", '"{x} xs‸', '"{x:.2‸', '"{x:.2f} xs‸', '"{{xs‸', '"\\‸', '"a" # "{xs‸']
)
def test_text_and_comments_are_quiet(text):
    assert at(text).quiet


@pytest.mark.parametrize(
    "text, what",
    [
        ("let ‸", "new"),
        ("[x for ‸", "new"),
        ("import a as ‸", "new"),
        ("import a.‸", "path"),
        ("import a { b, ‸", "member"),
        ("import a { b }\n‸", "value"),
        ("import a\n‸", "value"),
        ("let x: ‸", "type"),
        ("x as ‸", "type"),
        ("fn f(x: (f64, ‸", "type"),
        ("fn f(‸", "new"),
        ("fn f<a: Float>(x: f64, ‸", "new"),
        ("fn f(x: f64, nodiff x‸", "new"),
        ("fn f(x: f64 = ‸", "value"),
        ("f(x, ‸", "value"),
        ("let (a, ‸", "new"),
        ("for (a, ‸", "new"),
        ("type V‸", "new"),
        ("struct P { ‸", "new"),
        ("struct P<n> {\n  w: f64[n]\n  ‸", "new"),
        ("struct P { w: ‸", "type"),
        ("enum E { A, ‸", "new"),
        ("match e { ‸", "value"),
        ("fn f() { ‸", "value"),
        ("fn f() {\n  let x = g(x)\n  ‸", "value"),
        ("let x: List<‸", "type"),
        ("enum E<a> { A(‸", "type"),
        ("match e { A(‸", "value"),
        ("let x: f64[n, ‸", "size"),
        ("fn f(x: List<f64[‸", "size"),
        ("let y = x[‸", "value"),
        ("fn f() -> f64 ! ‸", "effect"),
        ('"{x[‸', "value"),
        ("(" * 5000 + "‸", "value"),
        ("let x: " + "(" * 5000 + "‸", "type"),
    ],
)
def test_what_is_expected_at_a_place(text, what):
    assert expected(at(text)) == what

"""The scheme of every function in `schemes/` is the one in the line above it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from dlang.diagnostics import Source
from dlang.typecheck.program import check_source, scheme_text
from tests.typecheck.support import HERE, accepted, check, refused, scheme, words

FILES = sorted((HERE / "schemes").glob("*.dl"))


def expected(text: str) -> dict[str, str]:
    pairs = re.findall(r"^#: (.*)\n(?:fn|const) (\w+'*)", text, re.MULTILINE)
    return {name: s for s, name in pairs}


@pytest.mark.parametrize("backwards", [False, True], ids=["forwards", "backwards"])
@pytest.mark.parametrize("path", FILES, ids=lambda p: p.stem)
def test_schemes_are_those_written_above_in_either_order_of_solving(path: Path, backwards: bool) -> None:
    text = path.read_text(encoding="utf-8")
    checked = check_source(Source(str(path), text), backwards=backwards)
    assert not checked.diagnostics, [words(d) for d in checked.diagnostics]
    wanted = expected(text)
    assert len(wanted) > 5
    # Without constraints, whose order may differ.
    for name, s in wanted.items():
        assert scheme_text(checked.module.functions[name]) == plain(s)


def plain(s: str) -> str:
    """A scheme without constraints, and without bounds on variables that only they mention."""
    s = s.split(" where ")[0]
    match = re.match(r"<(.*?)> (\(.*)", s)
    if match is None:
        return s
    kept = [b for b in match[1].split(", ") if re.search(rf"\b{b.split(':')[0]}\b", match[2])]
    return f"<{', '.join(kept)}> {match[2]}" if kept else match[2]


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.stem)
def test_constraints_of_schemes_are_those_written_above(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    checked = check_source(Source(str(path), text))
    for name, s in expected(text).items():
        assert scheme_text(checked.module.functions[name], constraints=True) == s


# ---- literals --------------------------------------------------------------------------------------------------------
def test_a_literal_tied_to_a_parameter_is_generalised_with_it() -> None:
    assert scheme("fn f(x: a[n]) -> a[n] = x", "f") == "(a[n]) -> a[n]"
    assert scheme("fn double(x) = 2.0 * x\nfn f(x: f32) = double(x)") == "(f32) -> f32"


def test_a_literal_that_nothing_decides_is_f64_or_i64() -> None:
    assert scheme("fn f() = (1, 1.0, 1 / 2, 3 // 2)") == "() -> (i64, f64, f64, i64)"


def test_an_integer_exponent_leaves_the_base_alone() -> None:
    assert scheme("fn f(x: f32) = x ** 2") == "(f32) -> f32"
    assert scheme("fn f(x: f32) = x ** -2") == "(f32) -> f32"
    assert scheme("fn f(x: i64, y: f64) = y ** x") == "(i64, f64) -> f64"


# ---- polymorphism ----------------------------------------------------------------------------------------------------
def test_a_let_of_a_lambda_is_polymorphic_and_other_lets_are_not() -> None:
    assert scheme("fn f() { let id = |x| x; (id(1), id(true)) }") == "() -> (i64, bool)"


def test_a_local_function_shares_the_types_of_what_it_captures() -> None:
    assert scheme("fn f(x, y: f64) { fn g(z) = x + z; g(y) }") == "(f64[..s], f64) -> f64[..s]"


def test_an_annotated_function_may_call_itself_at_other_sizes() -> None:
    text = "fn f(x: f64[n]) -> f64 = if n < 2 { sum(x) } else { f(x[..n // 2]) + f(x[n // 2..]) }"
    assert scheme(text) == "(f64[n]) -> f64"


def test_functions_that_call_one_another_are_generalised_together() -> None:
    text = "fn f(n, x) = if n == 0 { x } else { g(n - 1, x) }\nfn g(n, x) = if n == 0 { x } else { f(n - 1, x) }\n"
    assert scheme(text, "f") == scheme(text, "g") == "<a: Num> (a, b) -> b"


# ---- sizes -----------------------------------------------------------------------------------------------------------
def test_a_named_size_of_a_local_is_that_size() -> None:
    assert (
        scheme("fn f(x: f64[n]) { let h = n // 2; (x[..h], x[h..]) }") == "(f64[n]) -> (f64[n // 2], f64[n - n // 2])"
    )


def test_a_slice_between_indices_has_the_size_of_their_difference() -> None:
    assert scheme("fn f(x: f64[n]) = [sum(x[i..i + 3]) for i < n - 2]") == "(f64[n]) -> f64[n - 2]"


def test_branches_of_different_sizes_join_to_an_unknown_one_only_if_one_was_opened() -> None:
    positive = "fn positive(x: f64[n]) -> f64[?] = [v for v in x if v > 0.0]\n"
    assert scheme(positive + "fn f(x: f64[n], c: bool) = if c { positive(x) } else { x }") == "(f64[n], bool) -> f64[?]"
    assert scheme(positive + "fn f(x, y: f64[n], c: bool) = if c { positive(y) } else { x }").endswith("-> f64[?]")


def test_a_var_of_unknown_size_may_change_its_size() -> None:
    text = "fn f(x: f64[n]) { var y: f64[?] = x; while len(y) > 3 { y = [v for v in y if v > 1.0] }; y }"
    assert scheme(text) == "(f64[n]) -> f64[?]"


def test_integer_constants_are_sizes() -> None:
    assert scheme("const k = 2 * 4\nfn f(x: f64[k + 1]) = x") == "(f64[9]) -> f64[9]"


def test_an_immutable_integer_counts_as_itself() -> None:
    assert scheme("fn f(k: i64) = zeros(k) + ones(k)") == "(i64) -> f64[?]"


# ---- data ------------------------------------------------------------------------------------------------------------
LINEAR = "struct Linear<n, m> { w: f64[m, n], b: f64[m] }\n"


def test_arguments_of_a_struct_are_inferred_from_its_fields() -> None:
    assert scheme(LINEAR + "fn f() = Linear(w = zeros(2, 3), b = zeros(2))") == "() -> Linear<3, 2>"


def test_an_updated_struct_may_have_other_arguments() -> None:
    assert scheme(LINEAR + "fn f(l: Linear<n, 3>) = Linear(..l, w = zeros(3, 7))") == "(Linear<n, 3>) -> Linear<7, 3>"


def test_structs_of_floats_add_and_scale() -> None:
    assert scheme(LINEAR + "fn f(l: Linear<n, m>) = l - 0.5 * (l + l) / 2.0") == "(Linear<n, m>) -> Linear<n, m>"


def test_structures_compare_to_one_bool_and_arrays_to_many() -> None:
    assert scheme("fn f(x: (f64, f64[n])) = x == x") == "((f64, f64[n])) -> bool"
    assert scheme("fn f(x: f64[n]) = x == x") == "(f64[n]) -> bool[n]"


# ---- derivatives -----------------------------------------------------------------------------------------------------
def test_a_gradient_has_the_type_of_the_parameter() -> None:
    loss = LINEAR + "fn loss(l: Linear<n, m>, x: f64[n]) -> f64 = sum(l.w @ x + l.b)\n"
    assert scheme(loss + "fn f(l: Linear<3, 2>, x) = grad(loss)(l, x)") == "(Linear<3, 2>, f64[3]) -> Linear<3, 2>"
    assert scheme(loss + "fn f(l: Linear<3, 2>, x) = grad(loss, wrt = (x, l))(l, x)").endswith("(f64[3], Linear<3, 2>)")


def test_jacobians_have_the_axes_of_the_result_then_those_of_the_parameter() -> None:
    assert scheme("fn g(x: f64[n]) -> f64[n, 2] = reshape(concat(x, x), n, 2)\nfn f(x: f64[n]) = jacobian(g)(x)") == (
        "(f64[n]) -> f64[n, 2, n]"
    )
    assert scheme("fn g(x: f64[n]) -> f64 = sum(x)\nfn f(x: f64[n]) = hessian(g)(x)") == "(f64[n]) -> f64[n, n]"


def test_products_give_the_value_too() -> None:
    g = "fn g(x: f64[n], y: f64) -> f64[n] = x * y\n"
    assert scheme(g + "fn f(x: f64[n]) = jvp(g, (x, 1.0), (x, 2.0))") == "(f64[n]) -> (f64[n], f64[n])"
    assert scheme(g + "fn f(x: f64[n]) = vjp(g, x, 1.0)") == "(f64[n]) -> (f64[n], (f64[n]) -> (f64[n], f64))"


def test_an_extern_may_be_bounded_and_have_defaults() -> None:
    text = 'extern "builtin:g" fn g<a: Float>(x: a[n], twice: bool = true) -> a\n'
    assert scheme(text + "fn f(x: f32[n]) = g(x) + g(x, false) + g(x, twice = false)") == "(f32[n]) -> f32"
    assert refused(text + "fn f() = g([1i32])").code == "E0302"
    assert refused('extern "builtin:g" fn g(x: f64, twice: bool = 1) -> f64\n').code == "E0301"


def test_a_number_of_any_class_of_numbers_can_be_converted() -> None:
    for cls in ("Float", "Int", "Num"):
        assert scheme(f"fn f<a: {cls}>(x: a) -> f64 = f64(x)") == f"<a: {cls}> (a) -> f64"
    assert scheme("fn f<a: Int>(x: a) -> a = bit_and(x, x)") == "<a: Int> (a) -> a"


# ---- effects ---------------------------------------------------------------------------------------------------------
def test_effects_are_those_of_what_is_called() -> None:

    text = 'fn f(x: f64) { g(x); h(x) }\nfn g(x: f64) { print("{x}") }\nfn h(x: f64) = x\n'
    functions = accepted(text).module.functions
    assert functions["f"].effects == functions["g"].effects == {"print"}
    assert not functions["h"].effects


RANDOM = """
extern "builtin:random_normal" fn normal() -> a ! random
extern "builtin:random_run" fn run(seed: i64, f: () -> a) -> a
"""


def test_a_seed_discharges_randomness() -> None:
    assert scheme(RANDOM + "fn f(x: f64[n]) = [v + normal() for v in x]") == "(f64[n]) -> f64[n] ! random"
    assert scheme(RANDOM + "fn f(x: f64[n]) = run(1, || [v + normal() for v in x])") == "(f64[n]) -> f64[n]"
    assert scheme(RANDOM + "fn f() = run(1, || normal()) + normal()") == "<a: Float> () -> a ! random"


def test_effects_that_an_annotation_forbids_are_refused() -> None:
    assert refused(RANDOM + "fn f() -> f64 ! () = normal()").code == "E0312"
    text = RANDOM + "fn g(h: f64 -> f64 ! ()) -> f64 = h(1.0)\nfn f() = g(|x| x + normal())"
    assert "random" in refused(text).message
    assert scheme(RANDOM + "fn g(h: f64 -> f64) -> f64 = h(1.0)\nfn f() = g(|x| x + normal())").endswith("! random")


def test_a_seed_that_is_drawn_is_an_effect_outside() -> None:
    assert scheme(RANDOM + "fn f() = run(i64(normal()), || 1.0)").endswith("! random")


def test_a_constant_has_no_effect() -> None:
    assert refused(RANDOM + "const c: f64 = normal()").code == "E0312"
    assert refused('const c: i64 = { print("once"); 1 }').code == "E0312"


def test_a_parameter_of_a_lambda_with_a_default_is_refused() -> None:
    assert refused("fn f() -> f64 { let g = |x: f64, y: f64 = 2.0| x * y; g(1.0, 3.0) }").code == "E0307"


@pytest.mark.parametrize(
    "text",
    ["const f = f + 1\n", "const f = g\nconst g = f\n", "const f = g()\nfn g() -> i64 = f\n"],
)
def test_a_constant_that_is_needed_for_its_own_value_is_refused(text: str) -> None:
    assert {d.code for d in check(text).diagnostics} == {"E0214"}


def test_a_parameter_may_have_the_name_of_a_constant_that_calls_the_function() -> None:
    accepted("const a = f(1.0)\nfn f(a: f64) -> f64 = a\n")


def test_a_size_that_divides_is_taken_out_of_a_division() -> None:
    for size in (
        "(s * n - s) // s + 1",
        "(n * s) // s",
        "((s + t) * n) // (s + t)",
        "(s * t * n - s * t) // (s * t) + 1",
        "((n - 1) * s + t - t) // s + 1",
        "((n * s) // s * t) // t",
    ):
        assert scheme(f"fn f(x: f64[n], s: size, t: size) -> f64[{size}] = x", "f") == (
            "(f64[n], s: size, t: size) -> f64[n]"
        )
    for size in ("(s * n + 1) // s", "n // s", "(n * t) // s", "(s * n) // (s + 1)", "(3 * s * n) // (2 * s) * 2"):
        assert refused(f"fn f(x: f64[n], s: size, t: size) -> f64[{size}] = x").code == "E0401"


def test_a_call_at_sizes_that_divide_has_the_size_that_is_left() -> None:
    every = "fn every(x: f64[n], s: size) -> f64[(n - 1) // s + 1] = [x[i * s] for i < (n - 1) // s + 1]\n"
    back = "fn back(y: f64[m], s: size) -> f64[m] = every(zeros((m - 1) * s + 1), s)"
    assert scheme(every + back, "back") == "(f64[m], s: size) -> f64[m]"

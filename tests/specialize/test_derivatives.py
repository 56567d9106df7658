"""Derivative forms as operations of the IR, custom rules as functions of it, and what carries no derivative."""

import numpy as np
import pytest

import dlang
from dlang.ir import anf
from tests.specialize.support import lowered, ops

RULED = """
fn clipped(x: f64) -> f64 = x
pullback clipped(x) -> y = |dy| clip(dy, -1.0, 1.0)
"""


def made(program, kind):
    return [op for op in ops(program) if isinstance(op, kind)]


# ---- operations ------------------------------------------------------------------------------------------------------
def test_a_pull_is_used_any_number_of_times_and_the_forward_pass_runs_once():
    program = lowered(
        """
        fn f(x: f64[n]) -> f64[n] {
          let (y, pull) = vjp(|v: f64[n]| v * v, x)
          pull(y) + pull(x) + pull(pull(x))
        }
        """
    ).program
    (record,) = made(program, anf.VjpForward)
    pulls = made(program, anf.VjpBackward)
    assert len(pulls) == 4 and {p.function for p in pulls} == {record.function}
    assert record.tape in program.datatypes


def test_a_function_has_one_kind_of_tape():
    program = lowered(
        """
        fn square(x: f64) -> f64 = x * x
        fn f(x: f64) -> f64 = vjp(square, x).1(1.0) + vjp(square, 2.0 * x).1(1.0)
        """
    ).program
    assert len({r.tape for r in made(program, anf.VjpForward)}) == 1


def test_only_floats_are_seeded_and_get_cotangents():
    program = lowered(
        """
        fn g(k: i64, x: f64) -> (i64, f64) = (k, f64(k) * x)
        fn f(x: f64) -> f64 { let (y, pull) = vjp(g, 3, x); pull(y).1 }
        """
    ).program
    (record,), (pull,) = made(program, anf.VjpForward), made(program, anf.VjpBackward)
    assert record.wrt == (1,) and record.seeded == (False, True)
    assert pull.cotangents[0] is None and pull.cotangents[1] is not None
    assert pull.sizes == (anf.Lit(3, "i64"),)


def test_jvp_seeds_the_arguments_that_have_tangents():
    program = lowered("fn f(x: f64) -> f64 = jvp(|k: i64, v: f64| f64(k) * v, (2, x), (0, 1.0)).1").program
    (op,) = made(program, anf.Jvp)
    assert op.tangents == (None, anf.Lit(1.0, "f64"))


@pytest.mark.parametrize(
    "function, forward, reverse",
    [
        ("fn f(x: f64[n]) -> f64[n, n] = jacobian(|v: f64[n]| v * v)(x)", 1, 0),
        ("fn f(x: f64[5]) -> f64[2, 5] = jacobian(|v: f64[5]| [v[0], v[1]])(x)", 0, 1),
        ("fn f(x: f64[2]) -> f64[3, 2] = jacobian(|v: f64[2]| [v[0], v[1], v[0]])(x)", 1, 0),
        ("fn f(x: f64[n]) -> f64[n] = jacobian(|v: f64[n]| sum(v))(x)", 0, 1),
        ("fn f(x: f64[n], m: size) -> f64[m, n] = jacobian(|v: f64[n]| [sum(v) * f64(i) for i < m])(x)", 1, 1),
        ("fn f(x: f64[n]) -> f64[n, n] = hessian(|v: f64[n]| sum(v ** 3))(x)", 1, 0),
        ("struct P { a: f64 }\nfn f(p: P) -> P[9] = jacobian(|p: P| [p.a for i < 9])(p)", 0, 1),
        ("struct P { a: f64 }\nfn f(x: f64[9]) -> P[9] = jacobian(|v: f64[9]| P(sum(v)))(x)", 1, 0),
        ('fn f(x: f64[2]) -> f64[2, 2] = jacobian(|v: f64[2]| { print("once"); v * v })(x)', 0, 1),
    ],
)
def test_the_mode_of_a_jacobian_is_chosen_by_the_sizes_structures_and_effects(function, forward, reverse):
    program = lowered(function).program
    assert (len(made(program, anf.Jvp)), len(made(program, anf.VjpForward))) == (forward, reverse)


def test_a_jacobian_in_reverse_mode_runs_the_forward_pass_once():
    low = lowered("fn f(x: f64[5]) -> f64[2, 5] = jacobian(|v: f64[5]| [v[0] * v[1], v[2] ** 2])(x)")
    (let,) = [x for x in low.functions_of("f")[0].body.lets if isinstance(x.op, anf.VjpForward)]
    assert let.op.wrt == (0,)


def test_a_checkpoint_is_an_instance_of_its_own():
    low = lowered(
        """
        fn cube(x: f64) -> f64 = x ** 3
        fn f(x: f64) -> f64 = cube(x) + grad(checkpoint(cube))(x)
        """
    )
    assert [f.rules for f in low.functions_of("cube")] == [None, anf.Rules(checkpoint=True)]


# ---- rules -----------------------------------------------------------------------------------------------------------
def test_a_rule_is_a_function_of_parameters_results_and_cotangents():
    low = lowered(
        """
        fn scale(x: f64[n], nodiff k: f64, y: f64) -> (f64[n], f64) = (x * k, y)
        pullback scale(x, k, y) -> r = |d| (d.0 * k, d.1)
        pushforward scale(x, k, y) -> r = |dx, dy| (dx * k, dy)
        fn f(x: f64[n]) -> f64[n] = scale(x, 2.0, 3.0).0
        """
    )
    (function,) = [f for f in low.functions_of("scale") if f.rules is not None]
    rules = function.rules
    assert [function.params[p].name for p in rules.wrt] == ["x", "y"]
    pullback, pushforward = low.program.functions[rules.pullback], low.program.functions[rules.pushforward]
    own = len(function.params) + len(function.results)
    assert len(pullback.params) == own + 2 and len(pullback.results) == 2
    assert len(pushforward.params) == own + 2 and len(pushforward.results) == 2


@pytest.mark.parametrize("backend", ["cpu", "interp"])
def test_rules_of_imported_functions_and_of_functions_of_python(backend, tmp_path, monkeypatch):
    (tmp_path / "rules_of.dl").write_text(RULED)
    (tmp_path / "outside_of.py").write_text("def cube(x):\n    return x ** 3\n")
    (tmp_path / "main.dl").write_text(
        """
        import rules_of { clipped }
        extern "python:outside_of.cube" fn cube(x: f64) -> f64
        pullback cube(x) -> y = |dy| 3.0 * x * x * dy
        fn f(x: f64) -> f64 = grad(|v: f64| 100.0 * clipped(v))(x)
        fn g(x: f64) -> f64 = grad(|v: f64| sin(cube(v)))(x)
        fn h(x: f64) -> f64 = cube(x)
        """
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    module = dlang.load(tmp_path / "main.dl", backend=backend)
    assert module.f(1.0) == 1.0 and module.h(2.0) == 8.0
    assert module.g(0.5) == pytest.approx(np.cos(0.125) * 0.75)


@pytest.mark.parametrize("backend", ["cpu", "interp"])
def test_a_rule_that_no_derivative_needs_is_no_matter(backend):
    text = RULED + "fn g(x: f64) -> f64 = grad(|v: f64| v * v)(x) + clipped(x)"
    assert dlang.compile(text, backend=backend).g(3.0) == 9.0


@pytest.mark.parametrize("backend", ["cpu", "interp"])
def test_a_rule_holds_behind_a_call_and_through_a_function_chosen_when_it_runs(backend):
    text = RULED + (
        "fn outer(x: f64) -> f64 = 100.0 * clipped(x)\n"
        "fn f(x: f64, c: bool) -> f64 { let g = if c { outer } else { |v: f64| v * v }; grad(|v: f64| g(v))(x) }"
    )
    module = dlang.compile(text, backend=backend)
    assert module.f(5.0, True) == 1.0 and module.f(5.0, False) == 10.0


def test_an_edit_that_removes_a_rule_removes_it():
    from dlang.diagnostics import Source
    from dlang.typecheck.cache import Cache
    from dlang.typecheck.program import check_source

    cache = Cache()
    first = check_source(Source("a.dl", RULED), (), cache=cache)
    assert set(first.module.functions["clipped"].rules) == {"pullback"}
    again = check_source(Source("a.dl", RULED.split("pullback")[0]), (), cache=cache)
    assert again.module.functions["clipped"].rules == {}


# ---- what carries no derivative --------------------------------------------------------------------------------------
@pytest.mark.parametrize("backend", ["cpu", "interp"])
def test_a_nodiff_parameter_carries_no_derivative(backend):
    module = dlang.compile(
        "fn scaled(x: f64, nodiff k: f64) -> f64 = k * x\nfn f(x: f64) -> f64 = grad(|v: f64| scaled(v, v))(x)",
        backend=backend,
    )
    assert module.f(3.0) == 3.0


@pytest.mark.parametrize("backend", ["cpu", "interp"])
def test_other_leaves_of_a_gradient_are_those_of_the_argument(backend):
    module = dlang.compile(
        """
        struct S { w: f64[3], n: i64, on: bool }
        fn loss(s: S) -> f64 = if s.on { f64(s.n) * sum(s.w ** 2) } else { 0.0 }
        fn f(w: f64[3]) -> S = grad(loss)(S(w = w, n = 2, on = true))
        """,
        backend=backend,
    )
    slope = module.f(np.array([1.0, 2.0, 3.0]))
    assert slope.w.tolist() == [4.0, 8.0, 12.0] and slope.n == 2 and slope.on is True


@pytest.mark.parametrize("backend", ["cpu", "interp"])
def test_a_conversion_to_an_integer_stops_the_derivative(backend):
    module = dlang.compile("fn f(x: f64) -> f64 = grad(|v: f64| v * f64(i64(v)))(x)", backend=backend)
    assert module.f(2.5) == 2.0

"""Forward mode: against central differences and reverse mode, costs, derivatives of derivatives."""

from __future__ import annotations

import io
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings

from dlang.diagnostics import DlangError
from dlang.host.effects import Host
from dlang.ir.anf import (
    Array,
    Block,
    Comp,
    Contract,
    Datatype,
    Effect,
    Function,
    Let,
    Lit,
    Prim,
    Program,
    Rules,
    Token,
    Var,
    VjpBackward,
    VjpForward,
    poly,
)
from dlang.ir.builder import Builder
from dlang.ir.substitution import refresh_vars
from dlang.ir.traverse import op_blocks, walk
from dlang.ir.types import array_type
from dlang.optimize.contractions import contractions
from dlang.pipeline import optimise
from dlang.runtime.engine import Engine
from tests.ad import control, models
from tests.ad.forward_support import check_forward, ratio
from tests.ad.support import (
    F64,
    I64,
    close,
    const,
    cost,
    differentiated,
    directions,
    expanded,
    program_of,
    pushed,
    real,
    run,
    tidy,
    total,
)
from tests.ir.programs import programs

# Their bodies are products of two active factors, each of which takes one operation, and its tangent three.
PRODUCTS = ("nested_sums", "reshape_reverse")


@pytest.mark.parametrize("name", models.CASES)
def test_the_tangent_is_that_of_central_differences(name: str) -> None:
    check_forward(*models.CASES[name](3))


@pytest.mark.parametrize("name", control.CASES)
def test_the_tangent_through_control_is_that_of_central_differences(name: str) -> None:
    check_forward(*control.CASES[name]())


@settings(max_examples=30, deadline=None)
@given(programs())
def test_both_modes_agree_on_random_programs(program: Program) -> None:
    rng = np.random.default_rng(1)
    args = [3, rng.normal(size=3), rng.normal(size=(3, 3))]
    us = directions([1, 2], args)
    forward = run(expanded(pushed(program, "f", [1, 2])), "along", [*args, *us])
    seeds = [np.asarray(rng.normal(size=np.shape(value))) for value in forward[:3]]
    reverse = expanded(differentiated(program, "f", [1, 2], seeds=["param"] * 3))
    bars = run(reverse, "grad", [*args, *(s if s.shape else float(s) for s in seeds)])[3:]
    pulled = sum(np.sum(bar * u) for bar, u in zip(bars, us, strict=True))
    close(sum(np.sum(s * dot) for s, dot in zip(seeds, forward[3:], strict=True)), pulled, 1e-8, 1e-8)


@pytest.mark.parametrize("name", [*models.CASES, *control.CASES])
def test_compiled_tangents_are_those_of_the_interpreter(name: str) -> None:
    f, wrt, args = models.CASES[name](5) if name in models.CASES else control.CASES[name]()
    program = pushed(program_of(f), f.name, wrt)
    full = [*args, *directions(wrt, args)]
    compiled = Engine(Host(io.StringIO())).compile(optimise(program, ["along"], verify=True), ["along"])
    for got, wanted in zip(compiled.run("along", full), run(expanded(program), "along", full), strict=True):
        close(got, wanted, 1e-9, 1e-10)


# ---- costs -----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("name", models.CASES)
def test_value_and_tangent_cost_at_most_two_and_a_half_times_the_value_at_any_size(name: str) -> None:
    small, large = ratio(*models.CASES[name](6)), ratio(*models.CASES[name](12))
    most = 8 / 3 if name in PRODUCTS else 2.5
    assert small <= most and large <= most and large <= 1.05 * small


@pytest.mark.parametrize("name", ["inplace", "smooth", "rnn", "cumsum", "early", "while_newton", "local_array_loop"])
def test_a_tangent_through_a_loop_costs_at_most_two_and_a_half_times_the_loop(name: str) -> None:
    assert ratio(*control.CASES[name]()) <= 2.5


def test_the_tangent_of_updates_in_place_is_linear_in_their_number() -> None:
    b = Builder()
    n = b.param("n", I64)
    x = b.param("x", real(n))

    def body(i: Var, u: Var) -> Var:
        return b.update(u, [i], b.mul(b.prim("sin", b.read(u, [i])), b.read(u, [poly(i) + 1])))

    (u,) = b.for_(0, poly(n) - 1, [x], body)
    program = program_of(b.function("f", [total(b, [n], lambda i: b.read(u, [i]))]))
    both = expanded(pushed(program, "f", [1]))
    costs = [cost(both, "along", [n, np.linspace(0.1, 1.0, n), np.ones(n)]) for n in (1_000, 10_000)]
    assert costs[1] / costs[0] == pytest.approx(10, rel=0.01)
    assert costs[0] <= 2.5 * cost(tidy(program), "f", [1_000, np.linspace(0.1, 1.0, 1_000)])


def test_the_tangent_of_three_layers_is_eight_products_and_no_other_large_sum() -> None:
    f, wrt, _ = models.CASES["mlp"](2)
    program = contractions(expanded(pushed(program_of(f), f.name, wrt)))
    lets = [let for g in program.functions.values() if g.name != f.name for let in g.body.lets]
    assert sum(isinstance(let.op, Contract) for let in lets) == 8
    assert not [let for let in lets if isinstance(let.op, Comp) and len(let.op.axes) > 2]


def test_what_is_not_active_has_no_tangent() -> None:
    """Of a product with one active factor the tangent is one product, and no zeros are built."""
    f, wrt, args = models.CASES["matmul"](8)
    program = program_of(f)
    one = expanded(pushed(program, f.name, wrt[:1]))
    value = cost(tidy(program), f.name, args)
    assert cost(one, "along", [*args, *directions(wrt[:1], args)]) <= 2 * value


def test_results_that_do_not_depend_on_the_arguments_have_zero_tangents() -> None:
    b = Builder()
    n, x, y = b.param("n", I64), b.param("x", F64), b.param("y", real(poly(3)))
    twice = b.map([n], lambda i: b.cast("f64", i))
    k = b.prim("add", n, Lit(1, "i64"))
    program = program_of(b.function("f", [x, twice, k, y]))
    got = run(expanded(pushed(program, "f", [1])), "along", [2, 0.5, np.ones(3), 4.0])
    assert len(got) == 7
    close(got[4], 4.0)
    close(got[5], np.zeros(2))
    close(got[6], np.zeros(3))


def test_empty_arrays_have_empty_tangents() -> None:
    f, wrt, _ = models.CASES["layer_norm"](2)
    program = expanded(pushed(program_of(f), f.name, wrt))
    for n, m in ((0, 3), (3, 0)):
        x, v = np.ones((n, m)), np.ones(m)
        got = run(program, "along", [n, m, x, v, v, x, v, v])
        assert [g.shape for g in got] == [(n, m), (n, m)]


@pytest.mark.parametrize("x", [[2.0, 3.0, 4.0], [0.0, 3.0, 4.0], [0.0, 3.0, 0.0], [0.0, 0.0, 0.0]])
def test_the_tangent_of_a_product_is_exact_where_factors_are_zero(x: list[float]) -> None:
    b = Builder()
    n = b.param("n", I64)
    v = b.param("x", real(n))
    program = program_of(b.function("f", [b.reduce([n], lambda i: b.read(v, [i]), "prod")]))
    both = expanded(pushed(program, "f", [1]))
    for unit in np.eye(3):
        others = [x[j] for j in range(3) if unit[j] == 0]
        assert run(both, "along", [3, np.array(x), unit])[1] == others[0] * others[1]


def test_the_tangent_of_a_maximum_is_that_of_its_first_position() -> None:
    b = Builder()
    n = b.param("n", I64)
    x = b.param("x", real(n))
    program = program_of(b.function("f", [b.reduce([n], lambda i: b.read(x, [i]), "max")]))
    both = expanded(pushed(program, "f", [1]))
    got = [run(both, "along", [3, np.array([1.0, 2.0, 2.0]), unit])[1] for unit in np.eye(3)]
    assert got == [0.0, 1.0, 0.0]


# ---- derivatives of derivatives --------------------------------------------------------------------------------------
def slope(program: Program, name: str, mode: str, out: str) -> Program:
    """The program with a function that gives just the derivative of a function of one float."""
    b = Builder(program.functions)
    x = b.param("x", F64)
    found = b.jvp(name, [x], [const(1.0)]) if mode == "f" else b.vjp(name, [x], [0], [const(1.0)])
    return replace(program, functions={**program.functions, out: b.function(out, found[1:])})


@pytest.mark.parametrize("modes", ["fff", "ffr", "frf", "rff", "rrf", "rfr", "frr"])
def test_third_derivatives_in_any_order_of_modes(modes: str) -> None:
    b = Builder()
    x = b.param("x", F64)
    program = program_of(b.function("f", [b.mul(b.mul(x, x), b.prim("exp", x))]))
    name = "f"
    for k, mode in enumerate(modes):
        program = slope(program, name, mode, f"d{k}")
        name = f"d{k}"
    for at in (0.5, -1.0):
        close(run(expanded(program), name, [at])[0], (at * at + 6 * at + 6) * np.exp(at), 1e-12)


def test_no_perturbation_confusion_between_nested_tangents() -> None:
    """d/dx (x · d/dy (x + y)) at x = 1 is 1; it would be 2 if the two tangents were one."""
    b = Builder()
    x, y = b.param("x", F64), b.param("y", F64)
    plus = b.function("plus", [b.add(x, y)])
    b = Builder({"plus": plus})
    x = b.param("x", F64)
    inner = b.jvp("plus", [x, const(1.0)], [None, const(1.0)])[1]
    f = b.function("f", [b.mul(x, inner)])
    close(run(expanded(pushed(program_of(plus, f), "f", [0])), "along", [1.0, 1.0])[1], 1.0)


def picked(program: Program, name: str, k: int, out: str) -> Program:
    """The program with a function that gives just one result of another."""
    b = Builder(program.functions)
    b.params = list(refresh_vars(program.functions[name].params, {}))
    return replace(program, functions={**program.functions, out: b.function(out, [b.call(name, *b.params)[k]])})


def weighted(f: Function) -> Program:
    """The program with a function `value`: the sum of sin(i + 1) r[i] over the elements of the first result."""
    b = Builder({f.name: f})
    b.params = list(refresh_vars(f.params, {}))
    out = b.call(f.name, *b.params)[0]

    def term(*at: Var) -> Var:
        weight = b.prim("sin", b.add(b.cast("f64", at[0]), const(1.0)))
        return b.mul(weight, b.read(out, at))

    value = total(b, out.type.shape, term) if isinstance(out.type, Array) else out
    return program_of(f, b.function("value", [value]))


@pytest.mark.parametrize("name", ["softmax", "gmm", "rosenbrock", "conv1d", "max_pool", "embedding"])
def test_forward_over_reverse_is_reverse_over_forward(name: str) -> None:
    """H u in two ways; the first costs at most three times the gradient."""
    f, wrt, args = models.CASES[name](4)
    at = wrt[0]
    program = weighted(f)
    (u,) = directions([at], args)
    gradient = picked(differentiated(program, "value", [at], "both"), "both", 1, "gradient")
    first = expanded(pushed(gradient, "gradient", [at], "product"))
    tangent = picked(pushed(program, "value", [at]), "along", 1, "tangent")
    second = expanded(differentiated(tangent, "tangent", [at], "product"))
    wanted = run(second, "product", [*args, u])[1]
    close(run(first, "product", [*args, u])[1], wanted, 1e-9, 1e-9)
    assert cost(first, "product", [*args, u]) <= 3 * cost(expanded(gradient), "gradient", args)


def hessian(program: Program, name: str, k: int) -> Program:
    """The program with `hessian`: the tangents of the gradient along every unit vector."""
    gradient = picked(differentiated(program, name, [k], "both"), "both", 1, "gradient")
    b = Builder(gradient.functions)
    b.params = params = list(refresh_vars(program.functions[name].params, {}))
    size = array_type(params[k]).shape[0]

    def entry(i: Var, j: Var) -> Var:
        unit = b.map([size], lambda q: b.select(b.prim("eq", q, i), const(1.0), const(0.0)))
        tangents = [unit if at == k else None for at in range(len(params))]
        return b.read(b.jvp("gradient", params, tangents)[1], [j])

    rows = b.map([size, size], entry)
    return replace(gradient, functions={**gradient.functions, "hessian": b.function("hessian", [rows])})


def test_a_hessian_by_unit_vectors_computes_what_does_not_depend_on_them_once() -> None:
    """f(x) = Σ_i sin(Σ_j a[i, j] x[j]): the inner sums, n² operations, are not computed again for each direction."""
    b = Builder()
    n = b.param("n", I64)
    a, x = b.param("a", real(n, n)), b.param("x", real(n))

    def term(i: Var) -> Var:
        return b.prim("sin", total(b, [n], lambda j: b.mul(b.read(a, [i, j]), b.read(x, [j]))))

    program = program_of(b.function("f", [total(b, [n], term)]))
    program = optimise(hessian(program, "f", 2), ["hessian", "f"], verify=True)
    rng = np.random.default_rng(2)
    for size in (5, 10):
        a0, x0 = rng.normal(size=(size, size)), rng.normal(size=size)
        close(run(program, "hessian", [size, a0, x0])[0], -(a0.T * np.sin(a0 @ x0)) @ a0, 1e-10, 1e-10)
    sines = [
        len(axes)
        for g in program.functions.values()
        if g.name != "f"
        for let, axes in nested(g.body)
        if isinstance(let.op, Prim) and let.op.name in ("sin", "cos")
    ]
    assert sines and max(sines) == 1
    products = [let for let in walk(program.functions["hessian"].body) if isinstance(let.op, Contract)]
    assert [len(let.vars[0].type.shape) for let in products if isinstance(let.vars[0].type, Array)].count(2) == 1, (
        "the second derivative is one product of matrices: that with the unit vectors is none"
    )
    for size in (10, 20):  # two products of matrices, and what is in proportion to the elements
        counted = cost(program, "hessian", [size, np.ones((size, size)), np.ones(size)])
        assert counted <= 2 * 4 * size**3 + 24 * size**2


def nested(block: Block, axes: tuple[Var, ...] = ()) -> Iterator[tuple[Let, tuple[Var, ...]]]:
    """Every let with the axes of the comprehensions around it."""
    for let in block.lets:
        yield let, axes
        inner = (*axes, *(a.var for a in let.op.axes)) if isinstance(let.op, Comp) else axes
        for body in op_blocks(let.op):
            yield from nested(body, inner)


def test_a_tangent_of_what_a_pull_gives() -> None:
    """Forward mode over the two halves of reverse mode: the derivative of pull(f)(x, 1) along u is H u."""
    b = Builder()
    x = b.param("x", F64)
    f = b.function("f", [b.mul(b.prim("sin", x), x)])
    b = Builder({"f": f})
    x = b.param("x", F64)
    _, tape = b.emit(VjpForward("f", (x,), (0,), (True,), "tape.0"))
    bar = Var("bar", F64)
    b.emit_as([bar], VjpBackward("f", (0,), (True,), tape, (), (const(1.0),)))
    g = b.function("g", [bar])
    program = Program({"f": f, "g": g}, {"tape.0": Datatype("tape.0", ())})
    got = run(expanded(pushed(program, "g", [0])), "along", [0.7, 1.0])
    close(got[0], np.sin(0.7) + 0.7 * np.cos(0.7))
    close(got[1], 2 * np.cos(0.7) - 0.7 * np.sin(0.7))


# ---- rules and what has none -----------------------------------------------------------------------------------------
def ruled(**rules: str) -> list[Function]:
    """cube(x) = x³ with rules that are wrong on purpose, so that it shows which are used: 5 ẋ, and 7 ȳ."""
    b = Builder()
    x = b.param("x", F64)
    cube = b.function("cube", [b.mul(x, b.mul(x, x))])
    made = [replace(cube, rules=Rules((0,), rules.get("pullback"), rules.get("pushforward"), "checkpoint" in rules))]
    for name, factor in (("five", 5.0), ("seven", 7.0)):
        if name in rules.values():
            b = Builder()
            _, _, g = b.param("x", F64), b.param("y", F64), b.param("g", F64)
            made.append(b.function(name, [b.mul(const(factor), g)]))
    return made


@pytest.mark.parametrize(
    ("rules", "wanted"),
    [
        ({"pushforward": "five"}, 5.0),
        ({"pushforward": "five", "pullback": "seven"}, 5.0),
        ({"pullback": "seven"}, 12.0),
        ({"checkpoint": "yes"}, 12.0),
    ],
)
def test_a_pushforward_replaces_the_body_and_no_other_rule_does(rules: dict[str, str], wanted: float) -> None:
    functions = ruled(**rules)
    b = Builder({g.name: g for g in functions})
    x = b.param("x", F64)
    f = b.function("f", [b.prim("sin", b.call("cube", x)[0])])
    both = optimise(pushed(program_of(*functions, f), "f", [0]), ["along"], verify=True)
    close(run(both, "along", [2.0, 1.0])[1], np.cos(8.0) * wanted)
    direct = optimise(pushed(program_of(*functions), "cube", [0]), ["along"], verify=True)
    close(run(direct, "along", [2.0, 1.0]), [8.0, wanted])


def test_an_effect_that_a_tangent_passes_through_is_refused_and_one_that_it_does_not_is_kept() -> None:
    for used in (True, False):
        b = Builder()
        world, x = b.param("world", Token()), b.param("x", F64)
        after, y = b.effect("foreign", world, [x], [F64], static=["c:m:erfcx"])
        program = program_of(b.function("f", [after, b.mul(x, y if used else x)]))
        if used:
            with pytest.raises(DlangError, match="erfcx") as caught:
                expanded(pushed(program, "f", [1]))
            assert caught.value.diagnostics[0].code == "E0705"
        else:
            lets = [let for g in expanded(pushed(program, "f", [1])).functions.values() for let in walk(g.body)]
            assert any(isinstance(let.op, Effect) for let in lets)


def test_stop_ends_the_tangent() -> None:
    b = Builder()
    x = b.param("x", F64)
    program = program_of(b.function("f", [b.mul(x, b.stop(x))]))
    assert run(expanded(pushed(program, "f", [0])), "along", [3.0, 2.0])[1] == 6.0


def test_a_check_that_fails_ends_the_run_as_it_does_for_the_value() -> None:
    b = Builder()
    x, i = b.param("x", real(3)), b.param("i", I64)
    (at,) = b.check(b.prim("lt", i, Lit(3, "i64")), "E0801", ("out of range",), (), (i,))
    program = program_of(b.function("f", [b.read(x, [at])]))
    both = expanded(pushed(program, "f", [0]))
    v = np.array([1.0, 2.0, 3.0])
    assert run(both, "along", [v, 1, 10 * v]) == [2.0, 20.0]
    with pytest.raises(Exception, match="out of range"):
        run(both, "along", [v, 3, v])

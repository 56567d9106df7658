"""Loops, branches and updates: gradients against central differences and closed forms, costs, second derivatives."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dlang.diagnostics import DlangError
from dlang.ir.anf import For, Function, Lit, Program, Token, Var, While, poly
from dlang.ir.builder import Builder
from dlang.ir.traverse import walk
from tests.ad.control import CASES
from tests.ad.support import (
    F64,
    I64,
    check_gradient,
    check_second,
    close,
    const,
    cost,
    differentiated,
    expanded,
    program_of,
    ratio,
    real,
    run,
    tidy,
    total,
)


@pytest.mark.parametrize("name", CASES)
def test_the_gradient_is_that_of_central_differences(name: str) -> None:
    check_gradient(*CASES[name]())


@pytest.mark.parametrize("name", [name for name in CASES if name != "no_use"])
def test_second_derivatives_are_those_of_central_differences(name: str) -> None:
    f, wrt, args = CASES[name]()
    check_second(f, wrt[0], args)


def jacobian(name: str, x: Any) -> Any:
    """The Jacobian of a case of parameters (n, x) that gives an array."""
    f, _, _ = CASES[name]()
    program = expanded(differentiated(program_of(f), f.name, [1], seeds=["param"]))
    return np.array([run(program, "grad", [len(x), x, row])[1] for row in np.eye(len(x))])


def gradient(name: str) -> Any:
    f, wrt, args = CASES[name]()
    return run(expanded(differentiated(program_of(f), f.name, wrt)), "grad", args)[1]


def test_a_stencil_that_updates_in_place_has_the_gradient_of_the_tour() -> None:
    wanted = [0.8200438022613527, 0.4494709968566894, 0.9410078525543214, 0.9552164077758788, 3.1868000030517583]
    close(gradient("smooth"), wanted, 1e-12, 0)


def test_squaring_each_element_in_place_has_a_diagonal_jacobian() -> None:
    close(jacobian("inplace", np.arange(1.0, 6)), np.diag([2.0, 4, 6, 8, 10]))


def test_a_wavefront_of_squares_overwrites_what_it_reads_next() -> None:
    close(jacobian("wavefront", np.array([1.0, 3, 4, 5, 6]))[:, 0], [1.0, 2, 4, 8, 16])


def test_only_the_last_iteration_of_a_loop_that_overwrites_counts() -> None:
    close(gradient("keep_last"), [0.0, 0.0, 26.0])


def test_a_cell_overwritten_in_a_branch_has_no_cotangent_where_the_branch_ran() -> None:
    f, _, _ = CASES["overwrite_branch"]()
    program = expanded(differentiated(program_of(f), f.name, [1], seeds=["param"]))
    x = np.array([1.0, 2.0, 3.0])
    close(run(program, "grad", [3, x, True, np.ones(3)])[1], [0.0, 4.0, 6.0])
    close(run(program, "grad", [3, x, False, np.ones(3)])[1], [2.0, 4.0, 6.0])


def test_a_running_product_needs_no_division() -> None:
    close(gradient("cumprod"), [5040.0, 2521, 1684, 1278, 1104, 1440])
    close(gradient("prod_zero"), [0.0, 24.0, 0.0, 0.0])


def test_the_derivative_of_a_square_root_by_iteration() -> None:
    close(gradient("while_newton"), 0.25, 1e-9)


def updates() -> Function:
    """u[i] = sin(u[i]) * u[i + 1] over an array: in place."""
    b = Builder()
    n = b.param("n", I64)
    x = b.param("x", real(n))

    def body(i: Var, u: Var) -> Var:
        value = b.mul(b.prim("sin", b.read(u, [i])), b.read(u, [poly(i) + 1]))
        return b.update(u, [i], value)

    (u,) = b.for_(0, poly(n) - 1, [x], body)
    return b.function("f", [total(b, [n], lambda i: b.read(u, [i]))])


def test_the_derivative_of_updates_in_place_is_linear_in_their_number() -> None:
    program = expanded(differentiated(program_of(updates()), "f", [1]))
    costs = [cost(program, "grad", [n, np.linspace(0.1, 1.0, n)]) for n in (1_000, 10_000)]
    assert costs[1] / costs[0] == pytest.approx(10, rel=0.05)
    plain = cost(tidy(program_of(updates())), "f", [1_000, np.linspace(0.1, 1.0, 1_000)])
    assert costs[0] <= 4 * (plain + 1_000)


@pytest.mark.parametrize("name", ["inplace", "smooth", "rnn", "comp_branch", "stencil_in_loop", "matrix_power_loop"])
def test_the_cost_of_a_derivative_of_a_loop_is_in_proportion(name: str) -> None:
    assert ratio(*CASES[name]()) <= 4.5


def test_both_arms_of_a_branch_in_one_program() -> None:
    f, wrt, _ = CASES["branch_scalar"]()
    for x in (-0.4, 0.3):
        check_gradient(f, wrt, [x, 0.7])


def test_a_loop_of_no_iterations_passes_the_cotangent_on() -> None:
    f, wrt, _ = CASES["power_loop"]()
    program = expanded(differentiated(program_of(f), f.name, wrt))
    close(run(program, "grad", [0, 3.0]), [1.0, 0.0])
    f, wrt, _ = CASES["smooth"]()
    program = expanded(differentiated(program_of(f), f.name, wrt))
    close(run(program, "grad", [1, 3, np.array([2.0])])[1], [4.0])
    close(run(program, "grad", [0, 3, np.zeros(0)])[1], np.zeros(0))


def test_a_loop_is_not_run_again_for_a_derivative_that_it_does_not_need() -> None:
    b = Builder()
    n, x = b.param("n", I64), b.param("x", F64)
    (s,) = b.for_(0, n, [const(0.0)], lambda i, s: b.add(s, x))
    f = b.function("f", [s])
    program = expanded(differentiated(program_of(f), "f", [1]))
    loops = [let for g in program.functions.values() for let in walk(g.body) if isinstance(let.op, For)]
    assert len(loops) <= 4 and not [let for let in walk(program.functions["grad"].body) if isinstance(let.op, While)]
    close(run(program, "grad", [5, 3.0]), [15.0, 5.0])


def test_an_effect_that_a_derivative_passes_through_is_refused_and_one_that_it_does_not_is_kept() -> None:
    b = Builder()
    world, x = b.param("world", Token()), b.param("x", F64)
    after, y = b.effect("io.call", world, [x], [F64])
    program = program_of(b.function("f", [after, y]))
    with pytest.raises(DlangError) as caught:
        expanded(differentiated(program, "f", [1], seeds=[None, 1.0]))
    assert caught.value.diagnostics[0].code == "E0705"


def test_a_call_that_no_derivative_passes_through_stays() -> None:
    b = Builder()
    n = b.param("n", I64)
    count = b.function("count", [b.prim("add", n, Lit(1, "i64"))])
    b = Builder({"count": count})
    n, x = b.param("n", I64), b.param("x", F64)
    (k,) = b.call("count", n)
    f = b.function("f", [b.mul(x, b.cast("f64", k))])
    program = program_of(count, f)
    both = differentiated(program, "f", [1])
    close(run(expanded(both), "grad", [2, 5.0])[1], 3.0)


def test_a_result_whose_size_the_function_computes_checks_its_cotangent() -> None:
    b = Builder()
    n = b.param("n", I64)
    x = b.param("x", real(n))
    k, positions = b.compact(b.map([n], lambda i: b.prim("gt", b.read(x, [i]), const(0.0))))
    y = b.map([k], lambda i: b.prim("exp", b.read(x, [b.read(positions, [i])])))
    formal = Var("k", I64)
    f = b.function("f", [k, y], formals=(formal, Var("y", real(formal))))
    b = Builder({"f": f})
    n, m = b.param("n", I64), b.param("m", I64)
    x, seed = b.param("x", real(n)), b.param("seed", real(m))
    results = b.vjp("f", [n, x], [1], [None, seed])
    g = b.function("g", results[2:])
    program = expanded(Program({"f": f, "g": g}))
    x0 = np.array([0.5, -1.0, 2.0])
    close(run(program, "g", [3, 2, x0, np.ones(2)])[0], np.where(x0 > 0, np.exp(x0), 0.0))
    with pytest.raises(Exception, match="cotangent"):
        run(program, "g", [3, 3, x0, np.ones(3)])


def test_nothing_of_a_derivative_is_left() -> None:
    f, wrt, _ = CASES["rnn"]()
    program = expanded(differentiated(program_of(f), f.name, wrt, seeds=["param"]))
    assert all(type(let.op).__name__ not in ("Vjp", "Jvp") for g in program.functions.values() for let in walk(g.body))

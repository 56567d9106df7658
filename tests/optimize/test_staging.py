"""Functions split by when their parameters are known."""

import numpy as np
import pytest

import dlang
from dlang.diagnostics import Source
from dlang.driver import check, split
from dlang.dump_ir import listing, request
from dlang.host.effects import Host
from dlang.ir.anf import Call, early_name
from dlang.ir.traverse import walk
from dlang.ir.verify import verify
from dlang.ops.primitives import FLOAT, PRIMITIVES, ROOT

PROGRAM = """
enum Tree { Leaf(f64), Node(Tree, Tree) }
fn total(t: Tree) -> f64 = match t { Leaf(x) => x, Node(l, r) => total(l) + total(r) }
fn grown(n: i64) -> Tree = if n == 0 { Leaf(1.0) } else { Node(grown(n - 1), grown(n - 1)) }

fn scaled(x: f64[n], w: f64) -> f64 = w * sum(exp(x))
fn viewed(x: f64[n, n], w: f64[n]) -> f64[n] = transpose(x) @ w
fn constant(x: f64[n], w: f64[n]) -> f64[n] = zeros(n) + x * 0.0 + w
fn chosen(x: f64[n], w: f64) -> f64 = sum([exp(v) for v in x if v > 0.0]) * w
fn parts(x: f64[n], w: f64) -> f64[?] = [exp(v) * w for v in x if v > 0.0]
fn mixed(x: f64[n], w: f64) -> f64 = sum((w - exp(x[i])) ** 2 for i)
fn rows(x: f64[n, k], w: f64[n]) -> f64[k] = [sum(exp(x[i, j]) * w[i] for i) for j]
fn pairs(x: f64[n], w: f64) -> f64 = sum(exp(x[i] - x[j]) * w + w for i, j)
fn tree(n: i64, w: f64) -> f64 = total(grown(n)) * w
fn shown(x: f64[n], w: f64) -> f64 { print("{sum(exp(x))}"); w }
struct Pile<n> { v: f64[n], used: i64 }
fn push(pile: Pile<n>, y: f64) -> Pile<n> { var p = pile; p.v[p.used] = y; p.used += 1; p }
fn piled(x: f64[n], w: f64) -> f64 {
  var pile: Pile<n + 1> = Pile(zeros(n + 1), 0)
  pile = push(pile, exp(x[0]))
  var s = w
  while s > 0.0 and pile.used < n + 1 { pile = push(pile, s * pile.v[0]); s -= 1.0 }
  sum(pile.v)
}
fn looped(x: f64[n], steps: i64) -> f64[n] { var y = x; for _ < steps { y = y + exp(x) }; y }
"""


@pytest.fixture(scope="module")
def functions():
    checked = check(Source("<text>", PROGRAM))
    assert not checked.diagnostics
    return checked.module.functions


def halves(functions, name, *bound):
    """The text of what runs early, and of the rest."""
    rest, early = listing([functions[name]], "opt", bound=bound).split(f'.early" "{name}"')
    return early, rest


def test_what_depends_on_early_parameters_alone_is_a_function_of_its_own(functions):
    early, rest = halves(functions, "scaled", 0)
    assert "exp" in early and "exp" not in rest and "comp" not in rest
    early, rest = halves(functions, "scaled", 1)
    assert "exp" not in early and "exp" in rest


HAVE_NO_WORD = {"erfc"}
LONG = {p.name for p in PRIMITIVES.values() if p.domain == FLOAT and p.cost >= ROOT}
FLOATING = sorted(LONG - HAVE_NO_WORD)


@pytest.mark.parametrize("name", FLOATING)
def test_whatever_takes_longer_than_a_read_is_computed_early(name):
    arguments = ", ".join(["x[i]"] * PRIMITIVES[name].arity)
    value = {"div": "(1.0 / x[i])", "rsqrt": "(1.0 / sqrt(x[i]))"}.get(name, f"{name}({arguments})")
    text = f"fn f(x: f64[n], w: f64[n]) -> f64 = sum({value} * w[i] for i < n)"
    early, rest = halves(check(Source("<text>", text)).module.functions, "f", 0)
    assert f"{name}(" in early and f"{name}(" not in rest


def test_views_and_constants_are_made_again(functions):
    _, rest = halves(functions, "viewed", 0)
    assert "(n.0: i64, x.1: f64[n.0, n.0], w.2: f64[n.0]) ->" in rest
    early, rest = halves(functions, "constant", 0)
    assert early.count("comp") == 1  # the zeros and the sum with them


def test_a_size_that_is_found_early_is_a_value_too(functions):
    early, rest = halves(functions, "parts", 0)
    assert "compact" in early and "compact" not in rest and "exp" not in rest
    assert "k.3: i64" in rest


def test_what_a_comprehension_computes_from_early_data_is_an_array(functions):
    early, rest = halves(functions, "mixed", 0)
    assert "exp" in early and "exp" not in rest
    early, rest = halves(functions, "rows", 0)
    assert "exp" in early and "exp" not in rest


def test_there_is_never_more_of_it_than_of_the_data(functions):
    early, rest = halves(functions, "pairs", 0)
    assert "exp" not in early and "exp" in rest


def test_what_a_loop_repeats_is_computed_before_it(functions):
    early, rest = halves(functions, "looped", 0)
    assert "exp" in early and "exp" not in rest


def test_nodes_and_effects_stay_in_the_rest(functions):
    early, rest = halves(functions, "tree", 0)
    assert "construct" not in early and "call" in rest
    early, rest = halves(functions, "shown", 0)
    assert "print" in rest and "print" not in early


@pytest.mark.parametrize("backend", ["interp", "cpu"])
def test_both_parts_give_what_the_whole_gives(functions, backend):
    x = np.array([0.5, -1.0, 2.0])
    runner, signature = split(request(functions["chosen"]), [0], backend, Host())
    passed = [3, x, 2.0]
    early = runner.run(early_name(signature.name), [passed[k] for k in signature.early([0])])
    (result,) = runner.run(signature.name, [*passed, *early])
    assert result == pytest.approx(2.0 * (np.exp(0.5) + np.exp(2.0)), rel=1e-14)


def test_the_parts_are_well_formed(functions):
    from dlang.driver import lower

    for name in ("scaled", "viewed", "constant", "chosen", "parts", "mixed", "rows", "pairs", "tree", "looped"):
        program, _ = lower([request(functions[name])], bound=[0], verify=True)
        verify(program, ownership=True)
        assert not any(
            isinstance(let.op, Call) and "early" in let.op.function
            for f in program.functions.values()
            for let in walk(f.body)
        )


def test_the_rest_knows_which_sizes_are_equal(functions):
    early, _ = halves(functions, "piled", 0)
    assert "exp" in early
    module = dlang.compile(PROGRAM)
    x = np.array([0.1, 0.2, 0.3])
    assert module.piled.bind(x)(1.5) == module.piled(x, 1.5)
    assert dlang.grad(module.piled.bind(x))(1.5) == dlang.grad(module.piled, wrt="w")(x, 1.5)

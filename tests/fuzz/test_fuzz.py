"""Random well-typed programs through every stage, interpreted and compiled. `make fuzz` runs many more."""

from __future__ import annotations

import re
from random import Random

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from dlang.host.effects import Host
from dlang.runtime.engine import Engine
from dlang.runtime.tiers import Tiers
from tests.fuzz.bound import differing_calls
from tests.fuzz.compare import disagreement
from tests.fuzz.derivatives import wrong_derivative
from tests.fuzz.programs import FEATURES, differentiable, program

ENGINE = Engine(Host())
QUICK = Engine(Host(), level=Tiers().quick)
"""Its code has the same bits: `threads.py` compares the two."""


# What has to be found in at least one of so many programs.
SOMETIMES = {
    "a loop over a size": r"\n *for i\d+ < ",
    "a loop with a step": r"\n *for i\d+ in .* by ",
    "a loop over elements": r"\n *for (\(i\d+, )?v\d+",
    "a loop with two binders": r"\n *for i\d+ < [^,]+, i\d+ <",
    "while": r"\n *while c\d+",
    "while with floats": r"\n *while abs\(",
    "break": r"\{ break \}",
    "continue": r"\{ continue \}",
    "return": r"\{ return ",
    "a branch": r"\n *if ",
    "an element in place": r"\n *[uh]\d+\[.*\] [-+*/]?= ",
    "a row or column in place": r"\n *u\d+\[(\.\., )?\w+\] [-+]?= tanh",
    "swapped variables": r"\n *\(u\d+, u\d+\) = ",
    "a comprehension with a condition": r"for i\d+ < [^\]]* if ",
    "a triangle": r"for i\d+ < [^,\]]*, j\d+ (<|in) i\d+",
    "zip": r" in zip\(",
    "a gather": r"\)? % \(\w+\) for i\d+ < ",
    "sort": r"\bsort\(",
    "argsort": r"argsort\(",
    "scan": r"\bscan\(",
    "fold": r"\bfold\(",
    "fold of pairs": r"fold\(\|\(",
    "reduce": r"reduce\(\|",
    "a product of matrices": r" @ ",
    "a matrix and its transpose in a loop": r"@ (a\d+) @ transpose\(\1\)",
    "a network": r"nn\.dense",
    "a recurrent network": r"\n *for [^\n]*\n *h\d+ = .*nn\.(gru|lstm)_cell",
    "an attention": r"nn\.attention",
    "a convolution": r"nn\.conv2d",
    "a cross entropy in a loop": r"\n    let a\d+ = .*\n.*\n *a\d+ \+= nn\.cross_entropy",
    "a system of equations": r"\bsolve\(",
    "a factorisation": r"cholesky\(",
    "an inverse": r"inverse\(",
    "a determinant": r"\b(log)?det\(",
    "a reduction of an axis": r"axis = ",
    "a struct": r"struct S0 ",
    "a struct with a size": r"struct S0<n>",
    "an enum": r"enum Shape ",
    "a recursive enum": r"enum Tree ",
    "a recursive enum with arrays": r"enum Tree<n>",
    "a list": r"Cons\(",
    "match": r"\(match ",
    "a guard": r"\) if .* => ",
    "a function that is chosen": r"\(if .* \{ \(\|",
    "an array of functions": r"\[\(\|.*\]\[[01]\]\(",
    "continuations": r"fn cps",
    "recursion": r"fn r0_at",
    "mutual recursion": r"fn r0_even",
    "a local recursion": r"fn go",
    "a rule": r"pullback ",
    "grad": r"\bgrad\(",
    "grad of a named function": r"grad\(\w+, wrt",
    "grad of grad": r"grad\(grad\(",
    "hessian": r"hessian\(",
    "jacobian": r"jacobian\(",
    "jvp": r"jvp\(",
    "jvp of grad": r"jvp\(grad\(",
    "vjp": r"vjp\(",
    "value_and_grad": r"value_and_grad\(",
    "checkpoint": r"checkpoint\(",
}


def test_programs_have_every_kind_of_code() -> None:
    texts = [differentiable(Random(seed)) for seed in range(300)]
    never = [name for name, pattern in SOMETIMES.items() if not any(re.search(pattern, t) for t in texts)]
    assert not never


@settings(max_examples=8, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(st.randoms(use_true_random=False))
def test_all_ways_to_run_a_program_agree(random: Random) -> None:
    text = program(random)
    found = disagreement(text, ENGINE)
    assert found is None, f"{found}\n{text}"


@pytest.mark.parametrize("feature", sorted(FEATURES))
def test_programs_with_one_feature_agree(feature: str) -> None:
    for seed in range(3):
        text = program(Random(seed), frozenset({feature}))
        found = disagreement(text, QUICK)
        assert found is None, f"seed {seed}: {found}\n{text}"


@pytest.mark.parametrize("batch", range(3))
def test_all_ways_to_differentiate_a_program_agree(batch: int) -> None:
    for seed in range(3 * batch, 3 * batch + 3):
        text = differentiable(Random(seed))
        found = wrong_derivative(text)
        assert found is None, f"seed {seed}: {found}\n{text}"


def test_all_ways_to_call_a_program_agree() -> None:
    for seed in range(100, 103):
        text = program(Random(seed))
        found = differing_calls(text, seed)
        assert found is None, f"seed {seed}: {found}\n{text}"


def test_a_wrong_derivative_is_found() -> None:
    rule = "pullback f(x) -> y = |g| g * cos(x) * 1.0001"
    main = "fn main(p: f64[n], q: f64[k], m: f64[n, k], x: f64, j: i64) -> f64 = f(x) + sum(m) * sum(p) * sum(q)"
    found = wrong_derivative(f"fn f(x: f64) -> f64 = sin(x)\n{rule}\n{main}")
    assert found is not None and found.where == "reverse in `x`"


def test_a_wrong_result_is_found() -> None:
    """The comparison itself: a program whose outcome depends on how it is run can't pass."""
    from tests.fuzz.compare import alike

    assert not alike("E0801", "E0802")
    assert not alike([1.0], "E0801")

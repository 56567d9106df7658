"""A function that draws, called again without a seed, gives the same numbers, and says so once."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import dlang
from dlang.codegen.llvm import dispatch
from dlang.host.platform.objects import can_call
from dlang.tools.dlc import main

TEXT = """
import random { uniform }
fn noisy(x: f64[n]) -> f64[n] ! random = [v * uniform() for v in x]
fn cost(x: f64[n]) -> f64 ! random = sum(noisy(x))
fn plain(x: f64[n]) -> f64 = sum(x)
fn given(f: (f64) -> f64 ! random, x: f64) -> f64 ! random = f(x)
fn own(x: f64, seed: i64) -> f64 = x * f64(seed)
"""
X = np.ones(3)


@pytest.fixture(params=["interp", "cpu"])
def m(request):
    return dlang.compile(TEXT, request.param)


def told(*calls):
    """The numbers of the calls that warned, with nothing else said."""
    found = []
    for k, call in enumerate(calls):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            call()
        assert all(w.category is dlang.SeedWarning and w.filename == __file__ for w in caught)
        found += [k] * len(caught)
    return found


WAYS = {
    "function": lambda m: m.noisy,
    "by name": lambda m: lambda *a, **n: m.noisy(x=a[0], **n),
    "list": lambda m: lambda x, **n: m.noisy(x.tolist(), **n),
    "gradient": lambda m: dlang.grad(m.cost),
    "a gradient for each call": lambda m: lambda x, **n: dlang.grad(m.cost)(x, **n),
    "bound": lambda m: (lambda bound: lambda x, **n: bound(**n))(m.cost.bind(X)),
    "products": lambda m: lambda x, **n: dlang.jvp(m.cost, x, x, **n),
    "pull": lambda m: lambda x, **n: [dlang.vjp(m.cost, x, **n)[1](c) for c in (1.0,)],
}


@pytest.mark.parametrize("way", WAYS)
def test_the_second_call_without_a_seed_warns_and_no_other(m, way):
    f = WAYS[way](m)
    assert told(*[lambda: f(X)] * 6) == [1]


@pytest.mark.parametrize("way", WAYS)
def test_calls_with_seeds_say_nothing_and_hide_nothing(m, way):
    f = WAYS[way](m)
    with_seeds = [lambda k=k: f(X, seed=k) for k in range(4)]
    assert told(*with_seeds, *[lambda: f(X)] * 4, *with_seeds) == [5]


def test_a_zero_that_is_written_is_a_seed(m):
    assert told(*[lambda: m.noisy(X, seed=0)] * 4) == []
    assert m.noisy(X, seed=0).tolist() == m.noisy(X).tolist()


def test_a_pull_draws_what_its_value_did_in_silence(m):
    _, pull = dlang.vjp(m.cost, X)
    assert told(*[lambda: pull(1.0)] * 3) == []


def test_what_draws_nothing_and_what_has_a_seed_of_its_own_say_nothing(m):
    assert told(*[lambda: m.plain(X)] * 3, *[lambda: m.own(1.0, 2)] * 3) == []


def test_each_function_says_it_and_a_filter_silences_it(m):
    assert told(*[lambda: m.noisy(X)] * 3, *[lambda: m.cost(X)] * 3) == [1, 4]
    other = dlang.compile(TEXT)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", dlang.SeedWarning)
        for _ in range(3):
            other.noisy(X)


def test_once_it_is_said_calls_go_to_compiled_code_with_and_without_seeds():
    f = dlang.compile(TEXT).noisy
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", dlang.SeedWarning)
        alike = [f(X).tolist() for _ in range(4)]
        others = [f(X, seed=1).tolist() for _ in range(4)]
    assert all(a == alike[0] for a in alike) and all(b == others[0] for b in others) and alike[0] != others[0]
    assert not can_call() or sorted(given >> dispatch.MOST_PARAMETERS for given, _ in f._record.tables) == [0, 1]


def test_a_built_module_says_it_too(tmp_path):
    (tmp_path / "model.dl").write_text(
        "import random { uniform }\nfn noisy(x: f64[n]) -> f64[n] ! random = [v * uniform() for v in x]\n"
    )
    assert main(["build", str(tmp_path / "model.dl"), "--fn", "noisy", "-o", str(tmp_path)]) == 0
    f = dlang.load(tmp_path / "model.dlo").noisy
    assert told(*[lambda: f(X, seed=1)] * 3, *[lambda: f(X)] * 5, *[lambda: f(X, seed=1)] * 3) == [4]

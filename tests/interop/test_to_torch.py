"""Functions as operators of PyTorch: differentiated, compiled and traced like its own."""

from __future__ import annotations

import numpy as np
import pytest

import dlang

torch = pytest.importorskip("torch")
from torch.autograd import gradcheck, gradgradcheck  # noqa: E402

TEXT = """
import random { uniform }
struct Net<n, m> { w: f64[n, m], b: f64[m] }
struct Deep<n> { first: Net<n, n>, scale: f64 }
fn loss(p: Net<n, m>, x: f64[k, n], y: f64[k, m]) -> f64 = mean((tanh(x @ p.w + p.b) - y) ** 2)
fn deep(d: Deep<n>, x: f64[n]) -> (Deep<n>, f64) =
  (Deep(first = Net(w = d.first.w * d.scale, b = exp(d.first.b)), scale = sum(d.first.b * x)), d.scale ** 3)
fn grown(x: f64[n], s: f64 = 2.0) -> f64[n] = exp(s * x) + 1.0
fn cube(x) = x * x * x
fn same(x: f64[n]) -> f64[n] = x
fn every_other(x: f64[n]) -> f64[n // 2] = [x[2 * i] ** 3 for i < n // 2]
fn gathered(x: f64[n], k: Idx<n>[m]) -> f64[m] = [x[j] ** 2 for j in k]
fn joined(x: f64[n], y: f64[m]) -> f64[n + m] = concat(x * x, y)
fn repeated(x: f64, n: size) -> f64[n] = full(x * x, n)
fn noisy(x: f64[n]) -> f64[n] ! random = [v * uniform() for v in x]
fn ranks(x: f64[n]) -> (i64, f64[n]) = (argmax(x), x * x)
fn steps(x: f64[n], nodiff k: i64) -> f64[n] {
  var y = x
  for i < k { y = y * x }
  y
}
fn narrow(x: f32[n]) -> f32[n] = sin(x)
fn positive(x: f64[n]) -> f64[?] = [v for v in x if v > 0.0]
fn shown(x: f64[n]) -> str = "{sum(x)}"
fn shout(x: f64[n]) -> f64[n] ! print {
  print("x")
  x
}
fn maybe(x: Option<f64>) -> f64 = match x { None => 0.0, Some(y) => y }
fn applied(f: (f64) -> f64, x: f64) -> f64 = f(x)
"""


@pytest.fixture(scope="module")
def m():
    return dlang.compile(TEXT)


def real(*shape, seed=0):
    generator = torch.Generator().manual_seed(seed + sum(shape))
    return torch.randn(shape, dtype=torch.float64, generator=generator).requires_grad_()


# ---- derivatives -----------------------------------------------------------------------------------------------------
def plain(m, name):
    f = getattr(m, name).to_torch()
    match name:
        case "loss":
            return lambda w, b, x, y: f(m.Net(w, b), x, y)
        case "deep":

            def deep(w, b, s, x):
                made, number = f(m.Deep(m.Net(w, b), s), x)
                return made.first.w, made.first.b, made.scale, number

            return deep
        case "gathered":
            return lambda x: f(x, torch.tensor([0, 0, 2]))
        case "steps":
            return lambda x: f(x, 3)
        case "repeated":
            return lambda x: f(x, n=3)
        case "noisy":
            return lambda x: f(x, seed=7)
    return f


CASES = {
    "loss": [(3, 2), (2,), (4, 3), (4, 2)],
    "deep": [(3, 3), (3,), (), (3,)],
    "grown": [(3,)],
    "cube": [(2, 3)],
    "every_other": [(5,)],
    "gathered": [(4,)],
    "joined": [(2,), (3,)],
    "repeated": [()],
    "noisy": [(3,)],
    "steps": [(3,)],
}


@pytest.mark.parametrize("name", CASES)
def test_first_and_second_derivatives_are_right(m, name):
    f, given = plain(m, name), tuple([real(*s) for s in CASES[name]])
    assert gradcheck(f, given)
    assert gradgradcheck(f, given)


def test_a_gradient_is_wanted_of_some_tensors_alone(m):
    f = m.loss.to_torch()
    w, b, x, y = real(3, 2), real(2).detach(), real(4, 3).detach(), real(4, 2)
    f(m.Net(w, b), x, y).backward()
    assert w.grad is not None and y.grad is not None and b.grad is None and x.grad is None
    slope = dlang.grad(m.loss, wrt=["p", "y"])(m.Net(w.detach(), b), x, y.detach())
    assert torch.allclose(w.grad, slope[0].w) and torch.allclose(y.grad, slope[1])
    assert not f(m.Net(w.detach(), b), x, y.detach()).requires_grad


def test_integers_have_no_gradient_and_do_not_get_in_the_way(m):
    x = real(4)
    where, squares = m.ranks.to_torch()(x)
    assert where.dtype == torch.int64 and not where.requires_grad and squares.requires_grad
    squares.sum().backward()
    assert torch.allclose(x.grad, 2 * x)


def test_the_same_network_in_pytorch_has_the_same_gradients_and_hessian(m):
    w, b, x, y = real(3, 2), real(2), real(4, 3), real(4, 2)

    def theirs(w, b, x, y):
        return ((torch.tanh(x @ w + b) - y) ** 2).mean()

    ours = plain(m, "loss")
    assert torch.allclose(ours(w, b, x, y), theirs(w, b, x, y), rtol=1e-12)
    for a, c in zip(
        torch.autograd.grad(ours(w, b, x, y), (w, b, x, y)), torch.autograd.grad(theirs(w, b, x, y), (w, b, x, y))
    ):
        assert torch.allclose(a, c, rtol=1e-9, atol=1e-12)
    hessian = torch.autograd.functional.hessian
    flat = (w, b)
    for a, c in zip(hessian(lambda w, b: ours(w, b, x, y), flat), hessian(lambda w, b: theirs(w, b, x, y), flat)):
        for p, q in zip(a, c):
            assert torch.allclose(p, q, rtol=1e-8, atol=1e-12)


# ---- values ----------------------------------------------------------------------------------------------------------
def test_tensors_in_any_layout_are_read_and_never_shared(m):
    f, grid = m.cube.to_torch(), torch.arange(12.0, dtype=torch.float64).reshape(3, 4)
    for x in (grid.T, grid[:, ::2], grid.flip(0)):
        assert torch.equal(f(x), x * x * x)
    x = real(3)
    y = m.same.to_torch()(x)
    assert torch.equal(x, y) and x.data_ptr() != y.data_ptr()


def test_numbers_names_defaults_and_bound_arguments(m):
    f, x = m.grown.to_torch(), real(3)
    assert torch.equal(f(x), f(x=x, s=2.0)) and torch.equal(f(x, 2.0), f(x, torch.tensor(2.0, dtype=torch.float64)))
    assert torch.equal(f(x), m.grown.bind(s=2.0).to_torch()(x))
    assert m.cube.to_torch()(np.float32(2.0)).dtype == torch.float32
    assert m.narrow.to_torch()(torch.ones(2)).dtype == torch.float32
    noisy = m.noisy.to_torch()
    assert torch.equal(noisy(x, seed=1), noisy(x, seed=1)) and not torch.equal(noisy(x, seed=1), noisy(x, seed=2))


def test_a_derivative_of_the_language_is_an_operator_too(m):
    slope = dlang.grad(m.loss, wrt="y").to_torch()
    net, x = m.Net(real(3, 2), real(2)), real(4, 3)
    assert gradcheck(lambda y: slope(net, x, y), (real(4, 2),))


# ---- compiled --------------------------------------------------------------------------------------------------------
def compilers():
    import shutil

    return ["aot_eager", *(["inductor"] if shutil.which("g++") else [])]


@pytest.mark.parametrize("backend", compilers())
def test_pytorch_compiles_what_calls_it(m, backend):
    torch._dynamo.reset()
    f = m.loss.to_torch()

    def program(net, x, y):
        return torch.sin(f(net, x, y)) * 2.0

    compiled = torch.compile(program, backend=backend, fullgraph=True)
    w, b, x, y = real(3, 2), real(2), real(4, 3), real(4, 2)
    value, wanted = compiled(m.Net(w, b), x, y), program(m.Net(w, b), x, y)
    assert torch.allclose(value, wanted, rtol=1e-12)
    for a, c in zip(torch.autograd.grad(value, (w, b, y)), torch.autograd.grad(wanted, (w, b, y))):
        assert torch.allclose(a, c, rtol=1e-12)
    deep = torch.compile(m.deep.to_torch(), backend=backend)
    made, number = deep(m.Deep(m.Net(real(3, 3), x[0]), y[0, 0]), x[0])
    assert type(made) is m.Deep and made.first.w.shape == (3, 3) and number.shape == ()


def test_one_graph_serves_all_sizes(m):
    from torch._dynamo.testing import CompileCounterWithBackend

    torch._dynamo.reset()
    f, g = m.every_other.to_torch(), m.joined.to_torch()
    counter = CompileCounterWithBackend("aot_eager")
    compiled = torch.compile(lambda x: g(f(x) + 1.0, x), backend=counter, fullgraph=True, dynamic=True)
    for n in (5, 6, 9, 14):
        x = real(n)
        assert torch.equal(compiled(x), g(f(x) + 1.0, x))
        (slope,) = torch.autograd.grad(compiled(x).sum(), x)
        assert slope.shape == (n,)
    assert counter.frame_count == 1


def test_pytorch_finds_nothing_wrong_with_the_operator(m):
    m.grown.to_torch()
    key = f"grown#{m.grown.key}"
    for given in (
        ([real(3)], [2.0], [], key, "A,F"),
        ([real(3), real()], [], [], key, "A,A"),
        ([real(3)], [], [], key, "A,-"),
    ):
        torch.library.opcheck(torch.ops.dlang.call.default, given)


# ---- what is refused -------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "name, why",
    [
        ("positive", "known only when it runs"),
        ("shown", "its result is or holds a text"),
        ("shout", "it has the effect print"),
        ("maybe", "its parameter `x` is or holds an enum"),
        ("applied", "its parameter `f` is or holds a function"),
    ],
)
def test_what_can_be_no_operator_is_told(m, name, why):
    with pytest.raises(dlang.DlangError, match=f"E0967.*{why}"):
        getattr(m, name).to_torch()


def test_arguments_that_do_not_fit_are_told_as_always(m):
    f, g = m.loss.to_torch(), m.grown.to_torch()
    with pytest.raises(dlang.DlangError, match=r"argument `y`: expected f64\[k, m\], k = 4 from `x`"):
        f(m.Net(real(3, 2), real(2)), real(4, 3), real(7, 2))
    for call in (lambda: g(), lambda: g(real(2), t=1.0), lambda: g(real(2), x=real(2)), lambda: g(real(2), "a")):
        with pytest.raises(dlang.DlangError, match="E0961"):
            call()
    with pytest.raises(dlang.DlangError, match=r"E0961.*`p` is given something else"):
        f((real(3, 2), real(2)), real(4, 3), real(4, 2))
    with pytest.raises(dlang.DlangError, match="which is not below n = 3"):
        m.gathered.to_torch()(real(3), torch.tensor([5]))


def test_structs_are_trees_of_pytorch(m):
    from torch.utils import _pytree

    net = m.Deep(m.Net(real(3, 3), real(3)), real())
    twice = _pytree.tree_map(lambda a: 2 * a, net)
    assert type(twice) is m.Deep and type(twice.first) is m.Net and torch.equal(twice.scale, 2 * net.scale)

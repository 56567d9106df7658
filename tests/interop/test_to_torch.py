"""Functions as operators of PyTorch: differentiated, compiled and traced like its own."""

from __future__ import annotations

import copy
import inspect
import io

import numpy as np
import pytest

import dlang
from tests.interop.functions import CASES, TEXT, of_arrays

torch = pytest.importorskip("torch")
from torch.autograd import gradcheck, gradgradcheck  # noqa: E402


@pytest.fixture(scope="module")
def m():
    return dlang.compile(TEXT)


def real(*shape, seed=0):
    generator = torch.Generator().manual_seed(seed + sum(shape))
    return torch.randn(shape, dtype=torch.float64, generator=generator).requires_grad_()


# ---- derivatives -----------------------------------------------------------------------------------------------------
def plain(m, name):
    return of_arrays(m, name, lambda f: f.to_torch(), torch.tensor)


@pytest.mark.parametrize("name", CASES)
def test_first_and_second_derivatives_are_right(m, name):
    f, given = plain(m, name), tuple([real(*s) for s in CASES[name]])
    assert gradcheck(f, given, check_forward_ad=True)
    assert gradgradcheck(f, given, check_fwd_over_rev=True)


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


# ---- transforms ------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("name", CASES)
def test_the_transforms_of_torch_func_see_through(m, name):
    from torch.func import jvp, vjp, vmap

    f, given = plain(m, name), tuple([real(*s).detach() for s in CASES[name]])
    values, pull = vjp(f, *given)
    results = values if isinstance(values, tuple) else (values,)
    bars = [torch.ones_like(r) for r in results]
    slopes = pull(tuple(bars) if isinstance(values, tuple) else bars[0])
    recorded = [x.clone().requires_grad_() for x in given]
    made = f(*recorded)
    wanted = torch.autograd.grad(made if isinstance(made, tuple) else (made,), recorded, bars, allow_unused=True)
    for a, b in zip(slopes, wanted):
        assert torch.allclose(a, b if b is not None else torch.zeros_like(a), rtol=1e-12)
    dots = jvp(f, given, given)[1]
    along = sum((dot * bar).sum() for dot, bar in zip(dots if isinstance(dots, tuple) else (dots,), bars))
    assert torch.allclose(along, sum((a * x).sum() for a, x in zip(slopes, given)), rtol=1e-10)
    several = vmap(f, in_dims=-1)(*[torch.stack([x, 2 * x], -1) for x in given])
    one, two = f(*given), f(*[2 * x for x in given])
    for s, a, b in zip(*[r if isinstance(r, tuple) else (r,) for r in (several, one, two)]):
        assert torch.equal(s, torch.stack([a, b]))


def test_transforms_compose(m):
    from torch.func import grad, hessian, vmap

    net, x, y = m.Net(real(3, 2).detach(), real(2).detach()), real(5, 4, 3).detach(), real(5, 4, 2).detach()

    def theirs(w, b, x, y):
        return ((torch.tanh(x @ w + b) - y) ** 2).mean()

    ours = plain(m, "loss")
    per_sample = [vmap(grad(f), (None, None, 0, 0))(net.w, net.b, x, y) for f in (ours, theirs)]
    assert torch.allclose(*per_sample, rtol=1e-9, atol=1e-12)
    mapped = [vmap(f, (None, None, 0, 0)) for f in (ours, theirs)]
    of_all = [grad(lambda w, f=f: f(w, net.b, x, y).sum())(net.w) for f in mapped]
    assert torch.allclose(*of_all, rtol=1e-9, atol=1e-12)
    second = [vmap(hessian(f, argnums=(0, 1)), (None, None, 0, 0))(net.w, net.b, x, y) for f in (ours, theirs)]
    for a, b in zip(*[[p for row in s for p in row] for s in second]):
        assert torch.allclose(a, b, rtol=1e-8, atol=1e-12)
    assert vmap(m.every_other.to_torch())(torch.ones(0, 5, dtype=torch.float64)).shape == (0, 2)
    slope = grad(lambda p: m.loss.to_torch()(p, x[0], y[0]))(net)
    assert type(slope) is m.Net and torch.equal(slope.w, per_sample[0][0])


# ---- objects ---------------------------------------------------------------------------------------------------------
class Layer(torch.nn.Module):
    def __init__(self, m):
        super().__init__()
        self.w, self.b = torch.nn.Parameter(real(3, 2).detach()), torch.nn.Parameter(real(2).detach())
        self.loss, self.m = m.loss.to_torch(), m

    def forward(self, x, y):
        return self.loss(self.m.Net(self.w, self.b), x, y)


def test_a_module_that_holds_an_operator_is_copied_and_saved(m):
    layer, x, y = Layer(m), real(4, 3), real(4, 2)
    file = io.BytesIO()
    torch.save(layer, file)
    file.seek(0)
    for other in (copy.deepcopy(layer), torch.load(file, weights_only=False)):
        assert torch.equal(other(x, y), layer(x, y))
    exported = torch.export.export(layer, (x.detach(), y.detach())).module()
    assert torch.allclose(exported(x.detach(), y.detach()), layer(x, y))


def test_an_operator_looks_like_its_function(m):
    f = m.grown.to_torch()
    assert inspect.signature(f) == inspect.signature(m.grown) and f.__doc__ == m.grown.__doc__
    assert repr(f) == f"<to_torch of {m.grown!r}>"
    assert list(inspect.signature(m.grown.bind(s=1.0).to_torch()).parameters) == ["x"]


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
    odd = m.odd.to_torch()
    assert torch.equal(odd(x, lambda_=3.0), odd(x, **{"lambda": 3.0})) and torch.equal(odd(x, 3.0), 3.0 * x)
    assert torch.equal(torch.compile(odd, backend="eager", fullgraph=True)(x, lambda_=3.0), 3.0 * x)
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


@pytest.mark.parametrize("backend", compilers())
def test_transforms_are_seen_through_in_what_pytorch_compiles(m, backend):
    from torch.func import grad, grad_and_value, jacfwd, jvp, vjp, vmap

    def theirs(w, b, x, y):
        return ((torch.tanh(x @ w + b) - y) ** 2).mean()

    ours = plain(m, "loss")
    w, b, x, y = [t.detach() for t in (real(3, 2), real(2), real(5, 4, 3), real(5, 4, 2))]

    def program(f):
        def run(w, b, x, y):
            slope, value = grad_and_value(f)(w, b, x[0], y[0])
            several = vmap(grad(f, argnums=(0, 2)), (None, None, 0, 0))(w, b, x, y)
            dot = jvp(lambda w: f(w, b, x[1], y[1]), (w,), (torch.sin(w),))[1]
            pulled = vjp(lambda b: f(w, b, x[2], y[2]), b)[1](value)[0]
            rows = jacfwd(lambda b: vmap(f, (None, None, 0, 0))(w, b, x, y))(b)
            return [slope * 2.0, value, *several, dot, pulled, rows]

        return run

    torch._dynamo.reset()
    made = torch.compile(program(ours), backend=backend, fullgraph=True)(w, b, x, y)
    for a, c in zip(made, program(theirs)(w, b, x, y), strict=True):
        assert torch.allclose(a, c, rtol=1e-9, atol=1e-12)


def test_a_graph_gives_what_is_asked_for_and_no_more(m):
    graphs = []

    def backend(graph, _):
        graphs.append(graph)
        return graph

    torch._dynamo.reset()
    f, x = m.cube.to_torch(), real(3)
    torch.compile(lambda x: f(x * 2.0) + 1.0, backend=backend, fullgraph=True)(x)
    (graph,) = graphs
    assert len(next(n for n in graph.graph.nodes if n.op == "output").args[0]) == 1


def test_a_plain_call_breaks_a_graph_and_is_not_traced(m):
    from torch._dynamo.exc import Unsupported
    from torch._dynamo.testing import CompileCounterWithBackend

    torch._dynamo.reset()
    counter = CompileCounterWithBackend("aot_eager")
    bound = m.grown.bind(s=3.0)

    def program(x):
        return m.grown(x * 2.0, s=4.0) * 3.0 + bound(x + 1.0)

    x = real(4).detach()
    assert torch.equal(torch.compile(program, backend=counter)(x), program(x))
    assert counter.frame_count == 3  # before, between and after the calls
    with pytest.raises(Unsupported, match="plain_call_that_breaks_the_graph"):
        torch.compile(program, backend="eager", fullgraph=True)(x)


def test_whole_numbers_and_failures_are_as_they_are_outside_of_a_graph(m):
    torch._dynamo.reset()
    f, g, x = m.steps.to_torch(), m.gathered.to_torch(), real(3)
    assert torch.equal(torch.compile(lambda x: f(x, 3), backend="eager", fullgraph=True)(x), f(x, 3))
    with pytest.raises(dlang.DlangError, match="which is not below n = 3"):
        torch.compile(lambda x, k: g(x, k), backend="eager", fullgraph=True)(x, torch.tensor([5]))


def test_a_size_in_a_tensor_is_no_size_of_a_graph(m):
    torch._dynamo.reset()
    f, x, n = m.repeated.to_torch(), real(), torch.tensor(3)
    assert f(x, n).shape == (3,)
    with pytest.raises(Exception, match="its parameter `n` is a size of its result"):
        torch.compile(f, backend="eager", fullgraph=True)(x, n)


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
    with pytest.raises(dlang.DlangError, match=r"E0961.*`p` is given \(an object of class Tensor"):
        f((real(3, 2), real(2)), real(4, 3), real(4, 2))
    with pytest.raises(dlang.DlangError, match="which is not below n = 3"):
        m.gathered.to_torch()(real(3), torch.tensor([5]))


def test_structs_are_trees_of_pytorch(m):
    from torch.utils import _pytree

    net = m.Deep(m.Net(real(3, 3), real(3)), real())
    twice = _pytree.tree_map(lambda a: 2 * a, net)
    assert type(twice) is m.Deep and type(twice.first) is m.Net and torch.equal(twice.scale, 2 * net.scale)

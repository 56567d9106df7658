"""Functions of arrays that other systems test or fail, by the four ways to differentiate them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.ad.four_ways import four_ways

rng = np.random.default_rng(5)
X, Y = rng.normal(size=5), rng.normal(size=5)
M, P = rng.normal(size=(3, 4)), rng.normal(size=(4, 3))
T = rng.normal(size=(2, 5, 4))

Case = tuple[str, list[Any]]
WEIGHTED = "fn w(i: i64) -> f64 = cos(1.3 * f64(i))\n"

UNARY = {
    "abs": "abs({})",
    "exp": "exp({})",
    "log": "log(1.5 + abs({}))",
    "relu": "maximum(0.0, {})",
    "sign": "sign({}) * {}",
    "sigmoid": "1.0 / (1.0 + exp(-{}))",
    "tanh": "tanh({})",
    "sqrt": "sqrt(2.0 + sin({}))",
}


@pytest.mark.parametrize("name", UNARY)
def test_functions_of_numbers_of_both_signs_vectors_and_matrices(name: str) -> None:
    of = UNARY[name].replace("{}", "{0}").format
    text = (
        f"{WEIGHTED}fn f(a: f64, b: f64, x: f64[n], m: f64[p, q]) -> f64 {{ let y = {of('x')}; let z = {of('m')}; "
        f"{of('a')} + 2.0 * ({of('b')}) + sum(y[i] * w(i) for i) + sum(z[i, j] * w(4 * i + j) for i, j) }}"
    )
    four_ways(text, [5, 3, 4, 0.7, -1.3, X, M])


LAYERS = {
    "a sum": "sum(u @ x + b)",
    "a sum of tanh": "sum(tanh(u @ x + b))",
    "squares of differences": "sum((tanh(u @ x + b) - y) ** 2)",
    "a sine, then a bias": "sum(sin(u @ x) + b)",
    "squares and a bias": "sum(b * b + (u @ x))",
    "one mean of a row": "mean([u @ x + b, y], axis = 1)[0]",
    "a sum of sums": "sum(sum(u * x, axis = 1) * y)",
    "squares of a matrix and a row": "sum(u * u + x)",
    "a linear layer of many rows, scaled": "sum(sin([u[i] * b[i] for i] @ transpose(u) * y[0]))",
}


@pytest.mark.parametrize("name", LAYERS)
def test_forms_of_a_layer(name: str) -> None:
    four_ways(
        f"fn f(u: f64[n, m], x: f64[m], b: f64[n], y: f64[n]) -> f64 = {LAYERS[name]}", [3, 4, M, X[:4], Y[:3], X[:3]]
    )


# ---- indexing --------------------------------------------------------------------------------------------------------
INDEXING: dict[str, Case] = {
    "an element, a row, a plane": (
        "fn f(x: f64[n, m, k]) -> f64 = x[1, 2, 1] ** 2 + sum(x[0, 3] ** 3) + sum(x[.., 1, ..] ** 2) + sum(x[1] ** 2)",
        [2, 5, 4, T],
    ),
    "a slice with a step between two other indices": (
        "fn f(x: f64[n, m, k]) -> f64 = sum(x[.., 2..4 by 2, 2] ** 2) + sum(x[0, 0..m by 2, ..] ** 3)",
        [2, 5, 4, T],
    ),
    "a negative step is a reverse": (
        f"{WEIGHTED}fn f(x: f64[n]) -> f64 {{ let y = reverse(x)[0..n by 2]; sum(sin(y[i]) * w(i) for i) }}",
        [5, X],
    ),
    "slices that overlap": (
        "fn f(x: f64[n]) -> f64 = sum(x[..n - 1] * x[1..]) + sum(x[1..n - 1] ** 3) + sum(x[.. by 2] ** 2)",
        [5, X],
    ),
    "columns at positions that repeat": (
        "fn f(m: f64[n, k]) -> f64 { let at = [1, 3, 1]; sum(m[.., at] ** 2) + sum(m[[2, 2, 0], at] ** 3) }",
        [3, 4, M],
    ),
    "arrays of positions of two and three axes": (
        (
            f"import nn\n{WEIGHTED}fn f(e: f64[n, k]) -> f64 {{ let a = nn.embedding(e, "
            "[[(3 * i + 5 * j) % n for j < 7] for i < 2]); let b = nn.embedding(e, "
            "[[[(i + j + 2 * l) % n for l < 2] for j < 2] for i < 3]); "
            "sum(tanh(a[i, j, c]) * w(i + 2 * j + c) for i, j, c) "
            "+ sum(b[i, j, l, c] ** 2 * w(i - j + l) for i, j, l, c) }"
        ),
        [3, 4, M],
    ),
    "a gather along an axis": (
        f"{WEIGHTED}fn f(m: f64[n, k]) -> f64 = sum(m[(i * j + 1) % n, j] ** 2 * w(i + j) for i < 4, j < k)",
        [3, 4, M],
    ),
    "a scatter, where the last of several wins": (
        (
            f"{WEIGHTED}fn f(m: f64[n, k], s: f64[k, n]) -> f64 {{ var u = m; for i < k, j < n {{ "
            "u[(i + j) % n, i] = s[i, j] * s[i, j] }; sum(u[i, j] ** 2 * w(i - j) for i, j) }"
        ),
        [3, 4, M, P],
    ),
    "a scatter that adds": (
        (
            f"{WEIGHTED}fn f(m: f64[n, k], s: f64[k, n]) -> f64 {{ var u = m; for i < k, j < n {{ "
            "u[(i * j) % n, j] += sin(s[i, j]) }; sum(u[i, j] ** 3 * w(i + 2 * j) for i, j) }"
        ),
        [3, 4, M, P],
    ),
    "a scatter of one number": (
        "fn f(x: f64[n], v: f64) -> f64 { var u = x; for i in [3, 0, 3] { u[i] = v }; sum(u ** 3) * u[3] }",
        [5, X, 0.7],
    ),
    "assigned slices, rows and columns": (
        (
            "fn f(m: f64[n, k], x: f64[k]) -> f64 { var u = m; u[0] = x * x; u[.., 1] = 2.0 * m[.., 0]; "
            "u[1..3, 2..] += 0.5; u[2][..2] = sin(x[1..3]); u[1..3, 3] *= x[0]; sum(u ** 2) + sum(u @ x) ** 2 }"
        ),
        [3, 4, M, X[:4]],
    ),
    "joined along the first, the second and the third axis": (
        (
            f"{WEIGHTED}fn f(a: f64[2, 2, 1], b: f64[2, 2, 2], c: f64[2, 2, 3], d: f64[2, 2, 2]) -> f64 {{ "
            "let wide = [concat(concat(a[i, j], b[i, j]), concat(c[i, j], d[i, j])) for i, j]; "
            "let high = [concat(b[i], d[i]) for i]; let long = concat(b, d); "
            "sum(sin(wide[i, j, l]) * w(i + 2 * j + 4 * l) for i, j, l) "
            "+ sum(high[i, j, l] ** 2 * w(i + j - l) for i, j, l) "
            "+ sum(long[i, j, l] ** 3 * w(i * j + l) for i, j, l) }"
        ),
        [
            rng.normal(size=(2, 2, 1)),
            rng.normal(size=(2, 2, 2)),
            rng.normal(size=(2, 2, 3)),
            rng.normal(size=(2, 2, 2)),
        ],
    ),
    "joined, stacked and reversed along any axis": (
        (
            f"{WEIGHTED}fn f(a: f64[2, 2, 1], b: f64[2, 2, 2], c: f64[2, 2, 3], d: f64[2, 2, 2]) -> f64 {{ "
            "let wide = concat(a, b, c, d, axis = 2); let high = concat(b, d, b, axis = 1); "
            "let long = reverse(stack(b, d, axis = 3), axis = 2); "
            "let last = reverse(stack(b * d, d, axis = -1), axis = 0); "
            "sum(sin(wide[i, j, l]) * w(i + 2 * j + 4 * l) for i, j, l) "
            "+ sum(high[i, j, l] ** 2 * w(i + 3 * j - l) for i, j, l) "
            "+ sum(long[i, j, l, p] ** 3 * last[j, i, p, l] * w(i * j + l + 2 * p) for i, j, l, p) }"
        ),
        [
            rng.normal(size=(2, 2, 1)),
            rng.normal(size=(2, 2, 2)),
            rng.normal(size=(2, 2, 3)),
            rng.normal(size=(2, 2, 2)),
        ],
    ),
    "running sums and sorting along any axis": (
        (
            f"{WEIGHTED}fn f(m: f64[n, k]) -> f64 {{ let a = cumsum(m, axis = 0); let b = cumsum(m * m, axis = 1); "
            "let c = sort(m, axis = 0); let d = sort(sin(m), axis = 1); "
            "sum(a[i, j] ** 2 * w(i - j) + b[i, j] * c[i, j] * w(i + 2 * j) + d[i, j] ** 3 * w(j) for i, j) }"
        ),
        [3, 4, M],
    ),
    "split in parts of 4, 3 and 2, and in chunks with a rest": (
        (
            "fn f(x: f64[9]) -> f64 { let (a, b, c) = (x[..4], x[4..7], x[7..]); "
            "let s = sum(a ** 2) * sum(b[..2] * c) + sum(sin(b)); for k < 3 { s + 0.0 }; "
            "s + sum(prod(x[4 * k + i] for i in 0..minimum(4, 9 - 4 * k)) for k < 3) }"
        ).replace("for k < 3 { s + 0.0 }; ", ""),
        [rng.normal(size=9)],
    ),
    "a stack, and a permutation of axes that is known only when it runs": (
        (
            f"{WEIGHTED}fn f(a: f64[n], m: f64[n, k], turn: bool) -> f64 {{ let s = stack(a, a * a, sin(a)); "
            "let order = [(2 * i + 1) % n for i < n]; let p = m[order]; "
            "let t = if turn { transpose(transpose(p)) } else { p }; "
            "sum(s[i, j] * w(i + 3 * j) for i, j) + sum(t[i, j] ** 2 * w(i - j) for i, j) }"
        ),
        [3, 4, X[:3], M, True],
    ),
    "an output that is not used, and one that is": (
        (
            "fn step(c: f64[n], y: f64[n + 1, k]) -> (f64[n], f64[n]) { let g = tanh(y[1.., 0]); let d = g * c; "
            "(d, tanh(d)) }\nfn f(c: f64[n], y: f64[n + 1, k]) -> f64 = sum(step(c, y).1)"
        ),
        [2, 4, X[:2], M],
    ),
}


@pytest.mark.parametrize("name", INDEXING)
def test_indexing_joining_and_scattering(name: str) -> None:
    text, args = INDEXING[name]
    assert any(np.any(e) for e in four_ways(text, args))


# ---- reductions ------------------------------------------------------------------------------------------------------
def variance(axis: int) -> str:
    return f"mean((m - mean(m, axis = {axis}, keepdims = true)) ** 2, axis = {axis})"


REDUCTIONS = {
    "sum over axis 0": "sum(sin(sum(m, axis = 0)))",
    "sum over axis 1, which stays": "sum(m * sum(m, axis = 1, keepdims = true))",
    "mean over the last axis": "sum(mean(m, axis = -1) ** 2)",
    "variance of all": "mean((m - mean(m)) ** 2)",
    "variances of columns": f"sum(sin({variance(0)}))",
    "standard deviations of rows": f"sum(sqrt({variance(1)}))",
    "product over an axis": "sum(prod(m, axis = 0) ** 2)",
    "maxima and minima over axes": "sum(max(m, axis = 0) ** 2) + sum(min(m, axis = 1, keepdims = true) * m)",
    "logsumexp over an axis": "sum(logsumexp(m, axis = 1) ** 2)",
    "norm with p = 2": "sqrt(sum(m * m))",
    "norms of rows with p = 3.5": "sum(sum(abs(m) ** 3.5, axis = 1) ** (1.0 / 3.5))",
    "norms of columns with p = inf": "sum(max(abs(m), axis = 0) ** 2)",
    "norms of rows with p = -inf": "sum(min(abs(m), axis = 1) ** 2)",
    "norms with p = 1 and p = 0.5": "sum(abs(m)) + sum(sqrt(abs(m))) ** 2",
    "softmax over axis 1": "sum(nn.softmax(m) ** 2)",
    "softmax over axis 0": "sum(transpose(nn.softmax(transpose(m))) * m)",
    "logarithm of softmax": "sum(nn.log_softmax(m) * sin(m))",
    "logarithm of softmax over axis 0": "sum(nn.log_softmax(transpose(m)) ** 2)",
    "running sums along the rows": "sum([sum(cumsum(m[i]) ** 2) for i] ** 2)",
}


@pytest.mark.parametrize("name", REDUCTIONS)
def test_reductions_over_all_and_over_one_axis(name: str) -> None:
    text = REDUCTIONS[name]
    head = "import nn\n" if "nn." in text else ""
    four_ways(f"{head}fn f(m: f64[n, k]) -> f64 = {text}", [3, 4, M])


# ---- products of any number of arrays --------------------------------------------------------------------------------
EINSUM = {
    "ij->ij": "[a[i, j] for i, j]",
    "ij->ji": "[a[i, j] for j, i]",
    "ij->": "sum(a[i, j] for i, j)",
    "ij->i": "[sum(a[i, j] for j) for i]",
    "ij->j": "[sum(a[i, j] for i) for j]",
    "i,i->": "sum(x[i] * y[i] for i)",
    "i,j->ij": "[x[i] * y[j] for i, j]",
    "ij,j->i": "[sum(a[i, j] * x[j] for j) for i]",
    "i,ij->j": "[sum(x[i] * a[i, j] for i) for j]",
    "ij,jk->ik": "[sum(a[i, j] * b[j, k] for j) for i, k]",
    "ij,kj->ik": "[sum(a[i, j] * b[k, j] for j) for i, k]",
    "ij,kj->ikj": "[a[i, j] * b[k, j] for i, k, j]",
    "ij,kl->ijkl": "[a[i, j] * b[k, l] for i, j, k, l]",
    "ii->i": "[a[i, i] for i]",
    "ii->": "sum(a[i, i] for i)",
    "ij,ij->": "sum(a[i, j] * b[i, j] for i, j)",
    "ij,ji->i": "[sum(a[i, j] * b[j, i] for j) for i]",
    "ij,jk,kl->il": "[sum(a[i, j] * b[j, k] * a[k, l] for j, k) for i, l]",
    "i,ij,j->": "sum(x[i] * a[i, j] * y[j] for i, j)",
    "bij,bjk->bik": "[sum(t[b, i, j] * t[b, j, k] for j) for b, i, k]",
    "ijk->kji": "[t[i, j, k] for k, j, i]",
    "bi,bj,bij->b": "[sum(a[b, i] * a[b, j] * t[b, i, j] for i, j) for b]",
}


@pytest.mark.parametrize("pattern", EINSUM)
def test_products_and_sums_by_index(pattern: str) -> None:
    result = EINSUM[pattern]
    text = "fn f(a: f64[3, 3], b: f64[3, 3], t: f64[3, 3, 3], x: f64[3], y: f64[3]) -> f64 { let out = RESULT; "
    floats = "sin(out) + 0.5 * out * out" if result.startswith("sum") else "sum(sin(out)) + 0.5 * sum(out * out)"
    a, b, t = M[:, :3], P[:3], T[:, :3, :3]
    t = np.concatenate([t, t[:1] + 0.5])
    four_ways(f"{text}{floats} }}".replace("RESULT", result), [a, b, t, X[:3], Y[:3]])


# ---- windows ---------------------------------------------------------------------------------------------------------
IMAGE = rng.normal(size=(5, 6))
POOLING = {
    "squares of 2 by 2, one apart": "[max(x[i + p, j + q] for p < 2, q < 2) for i < n - 1, j < m - 1]",
    "with a border of 1, one apart and three apart": (
        "[max(padded(x)[i + p, 3 * j + q] for p < 2, q < 2) for i < n + 1, j < m // 3 + 1]"
    ),
    "windows of 3 by 2, two apart and one apart": (
        "[max(x[2 * i + p, j + q] for p < 3, q < 2) for i < (n - 3) // 2 + 1, j < m - 1]"
    ),
    "means of windows that overlap": "[mean(x[i + p, j + q] for p < 3, q < 3) for i < n - 2, j < m - 2]",
    "a convolution with a stride": (
        "[sum(x[2 * i + p, 2 * j + q] * x[p, q] for p < 2, q < 2) for i < (n - 2) // 2 + 1, j < (m - 2) // 2 + 1]"
    ),
    "the greatest of elements that are checked, of an array that is made at every point": (
        "[[max([x[at[c], j] * x[i, j] for c < 2][a] for a < 2) for j] for i]"
    ),
    "a convolution with holes": "[sum(x[i + 2 * p, j + 2 * q] * x[p, q] for p < 2, q < 2) for i < n - 2, j < m - 2]",
}


@pytest.mark.parametrize("name", POOLING)
def test_windows_that_overlap_and_that_do_not(name: str) -> None:
    padded = (
        "fn padded(x: f64[n, m]) -> f64[n + 2, m + 2] = [if i > 0 and j > 0 and i <= n and j <= m "
        "{ x[i - 1, j - 1] } else { -100.0 } for i < n + 2, j < m + 2]\n"
    )
    head = f"{WEIGHTED}{padded}" if "padded" in POOLING[name] else WEIGHTED
    body = f"{{ let y = {POOLING[name]}; sum(y[i, j] ** 2 * w(i + 3 * j) for i, j) }}"
    four_ways(f"{head}fn f(x: f64[n, m], at: i64[2]) -> f64 {body}", [5, 6, IMAGE, np.array([2, 0])])


# ---- arrays made at every point --------------------------------------------------------------------------------------
# The elements x[at[c]] are checked, so that nothing here can be taken out of the comprehension around it.
NESTED = {
    "a maximum in a loop": "[{ var s = 0.0; for l < 2 { s += max(INNER * f64(l + 1)) }; s } for i]",
    "a maximum of elements": "[max({ let y = INNER; y[a] } for a < k) for i]",
    "a product of elements": "[prod({ let y = INNER; y[a] } for a < k) for i]",
    "a scan": "[{ let (s, ys) = scan(|a, v| (a * v + 0.5, a), x[i], INNER); s + max(ys) } for i]",
    "one in each arm": "[if x[i] > 0.0 { let y = INNER; y[1] + max(y) } else { min(INNER) * prod(INNER) } for i]",
    "a maximum of maxima": "[max(max(INNER * x[j]) for j < n) for i]",
    "a maximum of what a loop makes": (
        "[max({ var u = INNER; for c < k { u[c] = u[c] * x[i] * x[j] }; u[0] + u[1] } for j < n) for i]"
    ),
    "sorted": "[max(sort(INNER)[a] for a < k) for i]",
    "updated": "[max({ var y = INNER; y[a] = y[a] * y[0]; y[a] } for a < k) for i]",
    "while": "[max({ var s = x[i]; while abs(s) < 1.0 { s = 2.0 * s + x[at[a]] }; s } for a < k) for i]",
    "an operator of its own": "[max(reduce(|p, q| p + q + p * q, 0.0, INNER) * x[a] for a < k) for i]",
}


@pytest.mark.parametrize("name", NESTED)
def test_arrays_that_are_made_at_every_point(name: str) -> None:
    body = NESTED[name].replace("INNER", "[x[at[c]] * x[i] for c < k]")
    text = f"fn f(x: f64[n], at: i64[k]) -> f64 {{ let y = {body}; sum(y * y) + y[2] }}"
    four_ways(text, [4, 2, X[:4], np.array([2, 0])], 1e3)


# ---- models ----------------------------------------------------------------------------------------------------------
A = 0.4 * rng.normal(size=(4, 4))
MODELS: dict[str, Case] = {
    "an expensive function of three windows, of which each is summed over another pair": (
        (
            "fn f(x: f64[n], z: f64[n], w: f64[5]) -> f64 = "
            "sum(exp(sin(x[i + p] * z[i + q] * w[p + q])) for i < n - 2, p < 3, q < 3)"
        ),
        [5, X, Y, X * Y + 0.3],
    ),
    "a cell with long short-term memory": (
        (
            "fn s(x: f64[n]) -> f64[n] = 1.0 / (1.0 + exp(-x))\n"
            "fn f(x: f64[4], h: f64[4], c: f64[4], wx: f64[16, 4], wh: f64[16, 4], bx: f64[16], bh: f64[16]) -> f64 { "
            "let g = wx @ x + bx + wh @ h + bh; let d = s(g[4..8]) * c + s(g[..4]) * tanh(g[8..12]); "
            "sum(s(g[12..]) * tanh(d)) + sum(d * d) }"
        ),
        [*rng.normal(size=(3, 4)), *[0.3 * rng.normal(size=s) for s in ((16, 4), (16, 4), 16, 16)]],
    ),
    "chains of elementwise products": (
        (
            "fn f(a: f64[n], b: f64[n], x: f64[n, n], s: f64) -> f64 = sum(((a * b + a) * a + b)) + "
            "sum(a * a * a * b) + sum(x @ transpose(x) * s)"
        ),
        [4, X[:4], Y[:4], A, 0.7],
    ),
    "an elementwise chain that loses all but one term": (
        "fn f(a: f64[n], c: f64[n]) -> f64 { var r = c; for _ in 0..30 { r = a * r + 0.01 }; sum(r * r) }",
        [4, 0.5 + 0.1 * X[:4], Y[:4]],
    ),
    "a variational autoencoder with its draws": (
        (
            "import random\nfn f(x: f64[n], enc: f64[2 * k, n], dec: f64[n, k]) -> f64 = random.run(7, || { "
            "let h = enc @ x; let (mu, r) = (h[..k], h[k..]); let z = mu + exp(0.5 * r) * [random.normal() for _ < k]; "
            "sum((tanh(dec @ z) - x) ** 2) + 0.5 * sum(mu * mu + exp(r) - 1.0 - r) })"
        ),
        [4, 2, X[:4], A, A[:, :2]],
    ),
    "linear regression": (
        "fn f(x: f64[n, k], b: f64[k], y: f64[n]) -> f64 = mean((y - x @ b) ** 2)",
        [3, 4, M, X[:4], Y[:3]],
    ),
    "a network of two layers": (
        (
            "struct Layer<n, m> { w: f64[m, n], b: f64[m] }\n"
            "fn g(l: Layer<n, m>, x: f64[n]) -> f64[m] = tanh(l.w @ x + l.b)\n"
            "fn f(w: f64[k, n], b: f64[k], v: f64[n, k], c: f64[n], x: f64[n]) -> f64 = "
            "sum((g(Layer(v, c), g(Layer(w, b), x)) - x) ** 2)"
        ),
        [3, 4, M, Y[:3], P, X[:4], Y[:4]],
    ),
    "products of a chain of matrices of 4 by 4, in every prefix": (
        (
            "fn f(x: f64[n, 4, 4]) -> f64 { var p = [[if i == j { 1.0 } else { 0.0 } for j < 4] for i < 4]; "
            "var s = 0.0; for i < n { p = p @ x[i]; s += sum(tanh(p)) }; s }"
        ),
        [3, np.stack([A, A.T + 0.2, A @ A - 0.5])],
    ),
    "running products of matrices of 3 by 3 and of 4 by 4": (
        (
            "fn one(n: size) -> f64[n, n] = [if i == j { 1.0 } else { 0.0 } for i < n, j < n]\n"
            "fn f(x: f64[n, 3, 3], y: f64[n, 4, 4]) -> f64 { let (p, ps) = scan(|a, b| (a @ b, a @ b), one(3), x); "
            "let (_, qs) = scan(|a, b| (a @ b, a), one(4), y); "
            "sum(p) * sum(tanh(ps)) + sum(sin(qs[i, j, k]) * y[i, k, j] for i, j, k) }"
        ),
        [3, rng.normal(size=(3, 3, 3)), np.stack([A, A.T + 0.2, A @ A - 0.5])],
    ),
    "a reduction of matrices of 3 by 3": (
        (
            "fn f(x: f64[n, 3, 3]) -> f64 { let one = [[if i == j { 1.0 } else { 0.0 } for j < 3] for i < 3]; "
            "sum(tanh(reduce(|a, b| a @ b, one, [x[i] for i]))) }"
        ),
        [4, rng.normal(size=(4, 3, 3))],
    ),
}


@pytest.mark.parametrize("name", MODELS)
def test_models(name: str) -> None:
    text, args = MODELS[name]
    four_ways(text, args)

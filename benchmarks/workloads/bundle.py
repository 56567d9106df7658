"""Bundle adjustment, the second problem of ADBench: many small functions, and a sparse Jacobian by rows."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from benchmarks.adbench.problems import BA
from benchmarks.tools import Calls, cpp_function, loaded, waiting

TITLE = "ADBench BA: reprojection errors, Jacobian by rows"
SIZES = ("49x7776x31843", "372x47423x204472")
DTYPES = ("f64",)
TOLERANCE = {"f64": 1e-8}


def data(size: str, dtype: str) -> list[Any]:
    """Cameras, points, weights; which camera saw which point, and where."""
    import numpy as np

    n, m, p = map(int, size.split("x"))
    random = np.random.default_rng(2016)
    cameras = random.normal(size=(n, 11)) * [1, 1, 1, 50, 50, 50, 500, 10, 10, 0.1, 0.01]
    points, weights = random.normal(size=(m, 3)) * 5, random.uniform(size=p)
    return [cameras, points, weights, np.arange(p) % n, np.arange(p) % m, random.normal(size=(2, p)) * 500]


def dlang(given: list[Any]) -> Calls:
    m = loaded(BA.path)
    cameras, points, weights, of_camera, of_point, (u, v) = given
    scene = m.Scene(cameras=cameras, points=points, weights=weights)
    seen = m.Seen(cameras=of_camera, points=of_point, u=u, v=v)
    return {"value": partial(m.objective, scene, seen), "gradient": partial(m.jacobian_rows, scene, seen)}


def projection(sin: Any, cos: Any, sqrt: Any, where: Any) -> Callable[..., Any]:
    """The errors of observations; `c` has 11 and `x` 3 arrays, an element of each for every observation."""

    def errors(c: Any, x: Any, w: Any, seen: Any) -> Any:
        from_centre = [x[i] - c[3 + i] for i in range(3)]
        square = c[0] * c[0] + c[1] * c[1] + c[2] * c[2]
        turns = square > 0
        angle = sqrt(where(turns, square, 1.0 + 0 * square))
        cosine = where(turns, cos(angle), 1 + 0 * angle)
        sine = where(turns, sin(angle), 1 + 0 * angle)
        a = [where(turns, r / angle, r) for r in c[:3]]
        o = from_centre
        crossed = [a[1] * o[2] - a[2] * o[1], a[2] * o[0] - a[0] * o[2], a[0] * o[1] - a[1] * o[0]]
        along = (a[0] * o[0] + a[1] * o[1] + a[2] * o[2]) * (1.0 - cosine)
        q = [o[i] * cosine + crossed[i] * sine + a[i] * along for i in range(3)]
        px, py = q[0] / q[2], q[1] / q[2]
        r = px * px + py * py
        scale = (1.0 + c[9] * r + c[10] * r * r) * c[6]
        return w * (px * scale + c[7] - seen[0]), w * (py * scale + c[8] - seen[1])

    return errors


def jax(given: list[Any]) -> Calls:
    import jax
    import jax.numpy as jnp

    errors = projection(jnp.sin, jnp.cos, jnp.sqrt, jnp.where)
    # without barriers XLA gathers again in every row of the result, which takes two to three times as long
    barrier = jax.lax.optimization_barrier

    def gathered(cameras: Any, points: Any, of_camera: Any, of_point: Any) -> Any:
        c = [barrier(cameras[:, i][of_camera]) for i in range(11)]
        return c, [barrier(points[:, i][of_point]) for i in range(3)]

    def objective(cameras: Any, points: Any, w: Any, of_camera: Any, of_point: Any, seen: Any) -> Any:
        u, v = errors(*gathered(cameras, points, of_camera, of_point), w, seen)
        return jnp.stack([u, v]), 1.0 - w * w

    def rows(cameras: Any, points: Any, w: Any, of_camera: Any, of_point: Any, seen: Any) -> Any:
        c, x = gathered(cameras, points, of_camera, of_point)
        (u, _), pull = jax.vjp(lambda c, x, w: errors(c, x, w, barrier(seen)), c, x, w)
        one, zero = jnp.ones_like(u), jnp.zeros_like(u)
        both = []
        for seed in ((one, zero), (zero, one)):
            of_c, of_x, of_w = pull(seed)
            both.append(jnp.stack(barrier([*of_c, *of_x, of_w])))
        return both[0], both[1], -2.0 * w

    arrays = [jnp.asarray(a) for a in given]
    return {"value": waiting(jax.jit(objective), *arrays), "gradient": waiting(jax.jit(rows), *arrays)}


def enzyme(given: list[Any]) -> Calls:
    import jax
    import jax.numpy as jnp

    p = len(given[2])
    errors = cpp_function("bundle", f"errors<{p}>", (p,), (p,))
    # one backward pass uses up what the forward pass has left: so both rows come from one, of all observations twice
    twice = cpp_function("bundle", f"errors<{2 * p}>", (2 * p,), (2 * p,))

    def gathered(cameras: Any, points: Any, w: Any, of_camera: Any, of_point: Any) -> Any:
        return jnp.concatenate([cameras[of_camera].T, points[of_point].T, w[None]])

    def objective(*arrays: Any) -> Any:
        w, seen = arrays[2], arrays[5]
        return jnp.stack(errors(gathered(*arrays[:5]), seen)), 1.0 - w * w

    def rows(*arrays: Any) -> Any:
        w, seen = arrays[2], arrays[5]
        both = jnp.tile(gathered(*arrays[:5]), 2)
        _, pull = jax.vjp(lambda g: twice(g, jnp.tile(seen, 2)), both)
        of_u = jnp.concatenate([jnp.ones_like(w), jnp.zeros_like(w)])
        (found,) = pull([of_u, 1.0 - of_u])
        return found[:, :p], found[:, p:], -2.0 * w

    arrays = [jnp.asarray(a) for a in given]
    return {"value": waiting(jax.jit(objective), *arrays), "gradient": waiting(jax.jit(rows), *arrays)}


def torch(given: list[Any], wrap: Any) -> Calls:
    import torch

    run = wrap(projection(torch.sin, torch.cos, torch.sqrt, torch.where))
    cameras, points, w, of_camera, of_point, seen = (torch.tensor(a) for a in given)
    by_camera = [column.contiguous() for column in cameras.unbind(1)]
    by_point = [column.contiguous() for column in points.unbind(1)]

    def gathered() -> Any:
        return [a[of_camera] for a in by_camera], [a[of_point] for a in by_point]

    def objective() -> Any:
        with torch.no_grad():
            u, v = run(*gathered(), w, seen)
            return torch.stack([u, v]), 1.0 - w * w

    def rows() -> Any:
        c, x = gathered()
        active = [a.requires_grad_() for a in (*c, *x)] + [w.detach().requires_grad_()]
        u, v = run(active[:11], active[11:14], active[14], seen)
        one = torch.ones_like(u)
        of_u = torch.autograd.grad(u, active, one, retain_graph=True, materialize_grads=True)
        of_v = torch.autograd.grad(v, active, one, materialize_grads=True)
        return torch.stack(of_u), torch.stack(of_v), -2.0 * w

    return {"value": objective, "gradient": rows}

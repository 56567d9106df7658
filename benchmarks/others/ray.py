"""Accelerate's ray tracer: spheres above a floor, that mirror each other."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from benchmarks.others.peers import prange, sizes_of, tools

TITLE = "an image of spheres that mirror each other"
SIZES = ("150x200x8", "16x20x4")
DTYPES = ("f64",)
TOLERANCE = {"f64": 1e-8}
BOUNCES, MIRROR, AMBIENT = 3, 0.4, 0.3
LIGHT, EYE = (3.0, 6.0, -4.0), (0.1, 1.53, -6.07)


def data(size: str, dtype: str) -> list[Any]:
    n, m, spheres = sizes_of(size)
    random = np.random.default_rng(0)
    centres = np.stack(
        [random.uniform(-3, 3, spheres), random.uniform(0.5, 2.5, spheres), random.uniform(-1, 4, spheres)], axis=1
    )
    return [centres, random.uniform(0.4, 0.8, spheres), random.uniform(0.2, 1, (spheres, 3)), n, m]


def value(centres: Any, radii: Any, colours: Any, n: int, m: int) -> Any:
    import jax
    import jax.numpy as jnp

    light, eye = jnp.array(LIGHT), jnp.array(EYE)

    def hit(origin: Any, way: Any) -> Any:
        """How far away each sphere is, and the floor behind them."""
        d = origin - centres
        b = d @ way
        inside = b * b - (d * d).sum(axis=1) + radii**2
        t = -b - jnp.sqrt(jnp.where(inside > 0, inside, 1.0))
        spheres = jnp.where((inside > 0) & (t > 1e-6), t, 1e9)
        down = jnp.where(way[1] < 0, way[1], -1.0)
        floor = jnp.where((way[1] < 0) & (origin[1] > 1e-6), -origin[1] / down, 1e9)
        return jnp.append(spheres, floor)

    def pixel(way: Any) -> Any:
        origin, colour, weight = eye, jnp.zeros(3), 1.0
        for _ in range(BOUNCES):
            distances = hit(origin, way)
            k = jnp.argmin(distances)
            t, ball = distances[k], jnp.minimum(k, len(radii) - 1)
            missed = t >= 1e9
            t = jnp.where(missed, 1.0, t)
            point = origin + t * way
            normal = jnp.where(k < len(radii), (point - centres[ball]) / radii[ball], jnp.array([0.0, 1.0, 0.0]))
            squares = jnp.floor(point[0]) + jnp.floor(point[2])
            own = jnp.where(k < len(radii), colours[ball], jnp.where(squares % 2 == 0, 0.9, 0.1))
            to = light - point
            far = jnp.sqrt((to * to).sum())
            shadow = jnp.min(hit(point + 1e-4 * normal, to / far)[:-1]) < far
            shade = AMBIENT + (1 - AMBIENT) * jnp.where(shadow, 0.0, jnp.maximum(normal @ to / far, 0.0))
            colour = colour + jnp.where(missed, 0.0, weight * (1 - MIRROR)) * shade * own
            weight = jnp.where(missed, 0.0, weight * MIRROR)
            origin, way = point + 1e-4 * normal, way - 2 * (way @ normal) * normal
        return colour

    y, x = jnp.meshgrid(0.5 - (jnp.arange(n) + 0.5) / n, (jnp.arange(m) + 0.5) / m - 0.5, indexing="ij")
    ways = jnp.stack([1.2 * x * m / n, 1.2 * y, jnp.ones_like(x)], axis=2)
    ways = ways / jnp.sqrt((ways**2).sum(axis=2, keepdims=True))
    return jax.vmap(jax.vmap(pixel))(ways)


def hit(origin: Any, way: Any, centres: Any, radii: Any) -> Any:
    """The number of the nearest thing on a ray, and its distance: a sphere, the floor behind them, or nothing."""
    nearest, at = 1e9, -1
    for k in range(len(radii)):
        b = c = 0.0
        for q in range(3):
            d = origin[q] - centres[k, q]
            b += d * way[q]
            c += d * d
        inside = b * b - c + radii[k] * radii[k]
        if inside > 0:
            t = -b - math.sqrt(inside)
            if 1e-6 < t < nearest:
                nearest, at = t, k
    if way[1] < 0 and origin[1] > 1e-6 and -origin[1] / way[1] < nearest:
        nearest, at = -origin[1] / way[1], len(radii)
    return at, nearest


def dot(a: Any, b: Any) -> float:
    result: float = a[0] * b[0] + a[1] * b[1] + a[2] * b[2]
    return result


def pixel(way: Any, centres: Any, radii: Any, colours: Any) -> Any:
    light, origin = np.array(LIGHT), np.array(EYE)
    colour, weight = np.zeros(3), 1.0
    for _ in range(BOUNCES):
        k, t = hit(origin, way, centres, radii)
        if k < 0:
            break
        point = origin + t * way
        if k < len(radii):
            normal, own = (point - centres[k]) / radii[k], colours[k]
        else:
            normal = np.array([0.0, 1.0, 0.0])
            own = np.full(3, 0.9 if (math.floor(point[0]) + math.floor(point[2])) % 2 == 0 else 0.1)
        to = light - point
        far = math.sqrt(dot(to, to))
        above = point + 1e-4 * normal
        blocker, near = hit(above, to / far, centres, radii)
        shadow = 0 <= blocker < len(radii) and near < far
        shade = AMBIENT + (1 - AMBIENT) * (0.0 if shadow else max(dot(normal, to) / far, 0.0))
        colour += weight * (1 - MIRROR) * shade * own
        weight *= MIRROR
        origin, way = above, way - 2 * dot(way, normal) * normal
    return colour


def loops(centres: Any, radii: Any, colours: Any, n: int, m: int) -> Any:
    image = np.zeros((n, m, 3))
    for i in prange(n):
        for j in range(m):
            way = np.array([1.2 * ((j + 0.5) / m - 0.5) * m / n, 1.2 * (0.5 - (i + 0.5) / n), 1.0])
            image[i, j] = pixel(way / math.sqrt(dot(way, way)), centres, radii, colours)
    return image


WRT = (0, 1, 2)
dlang, jax, numba = tools("ray", value, loops, WRT)

"""Rodinia's particle filter: where a disc is in a noisy film."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from benchmarks.others.peers import prange, sizes_of, tools

TITLE = "the place of a disc in each image of a film, by particles"
SIZES = ("10000x10x128", "200x5x32")
DTYPES = ("f64",)
TOLERANCE = {"f64": 1e-6}
RADIUS, BACKGROUND, OBJECT = 5, 100.0, 228.0


def data(size: str, dtype: str) -> list[Any]:
    """A film of a disc that moves by (1, -2), the points of a disc, and for each image noise and where to draw."""
    particles, frames, side = sizes_of(size)
    random = np.random.default_rng(0)
    axis = np.arange(side)
    film = np.full((frames, side, side), BACKGROUND)
    for f in range(frames):
        x, y = side // 4 + f, side - side // 4 - 2 * f
        film[f][np.hypot(axis[:, None] - x, axis - y) < RADIUS] = OBJECT
    film += 5 * random.normal(size=film.shape)
    near = np.arange(1 - RADIUS, RADIUS)
    disc = np.array([(a, b) for a in near for b in near if math.hypot(a, b) < RADIUS], np.int64)
    start = np.array([side // 4, side - side // 4], np.float64)
    noise = random.normal(size=(frames, particles, 2)) * np.array([1.5, 1.0])
    return [film, disc, start, noise, random.uniform(size=frames)]


def value(film: Any, disc: Any, start: Any, noise: Any, draws: Any) -> Any:
    import jax
    import jax.numpy as jnp

    _, particles, _ = noise.shape
    _, n, m = film.shape

    def frame(places: Any, given: Any) -> Any:
        image, moved, draw = given
        places = places + jnp.array([1.0, -2.0]) + moved
        at = jnp.round(places).astype(int)[:, None] + disc
        pixels = image[jnp.clip(at[..., 0], 0, n - 1), jnp.clip(at[..., 1], 0, m - 1)]
        likelihood = ((pixels - BACKGROUND) ** 2 - (pixels - OBJECT) ** 2).mean(axis=1) / 500
        weights = jnp.exp(likelihood - likelihood.max())
        weights = weights / weights.sum()
        chosen = jnp.searchsorted(jnp.cumsum(weights), (jnp.arange(particles) + draw) / particles)
        return places[jnp.minimum(chosen, particles - 1)], weights @ places

    return jax.lax.scan(frame, jnp.broadcast_to(start, (particles, 2)), (film, noise, draws))[1]


def loops(film: Any, disc: Any, start: Any, noise: Any, draws: Any) -> Any:
    (frames, particles, _), (_, n, m) = noise.shape, film.shape
    places, following = np.empty((particles, 2)), np.empty((particles, 2))
    places[:] = start
    found, weights = np.zeros((frames, 2)), np.empty(particles)
    for f in range(frames):
        for p in prange(particles):
            places[p, 0] += 1.0 + noise[f, p, 0]
            places[p, 1] += -2.0 + noise[f, p, 1]
            x, y = round(places[p, 0]), round(places[p, 1])
            s = 0.0
            for k in range(len(disc)):
                i, j = min(max(x + disc[k, 0], 0), n - 1), min(max(y + disc[k, 1], 0), m - 1)
                s += (film[f, i, j] - BACKGROUND) ** 2 - (film[f, i, j] - OBJECT) ** 2
            weights[p] = s / len(disc) / 500
        weights = np.exp(weights - weights.max())
        weights /= weights.sum()
        for p in range(particles):
            found[f] += weights[p] * places[p]
        reached, k = weights[0], 0
        for p in range(particles):
            while k < particles - 1 and reached < (p + draws[f]) / particles:
                k += 1
                reached += weights[k]
            following[p] = places[k]
        places, following = following, places
    return found


dlang, jax, numba = tools("particlefilter", value, loops)

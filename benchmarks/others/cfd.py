"""Rodinia's CFD: a compressible flow through a mesh, in steps of Runge and Kutta."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from benchmarks.others.peers import prange, sizes_of, tools

TITLE = "Euler's equations on a mesh of tetrahedra"
SIZES = ("20000x3", "200x3")
DTYPES = ("f64",)
TOLERANCE = {"f64": 1e-9}
GAMMA, SMOOTHING, MACH = 1.4, 0.2, 1.2
FAR = (GAMMA, GAMMA * MACH, 0.0, 0.0, 1 / (GAMMA - 1) + 0.5 * GAMMA * MACH**2)


def data(size: str, dtype: str) -> list[Any]:
    """The neighbour of a face is an element, -1 for a wall, or -2 for what is far away."""
    n, steps = sizes_of(size)
    random = np.random.default_rng(0)
    neighbours = np.arange(n)[:, None] + np.array([-1, 1, -30, 30])
    neighbours = np.where(neighbours < 0, -1, np.where(neighbours >= n, -2, neighbours))
    normals = random.normal(size=(n, 4, 3))
    state = np.array(FAR) * random.uniform(0.98, 1.02, (n, 5))
    return [state, neighbours, normals, random.uniform(50, 100, n), steps]


def flows(xp: Any, density: Any, momentum: Any, energy: Any) -> Any:
    """The pressure, the speed and that of sound, and what flows of momentum and of energy."""
    velocity = momentum / density[..., None]
    square = (velocity**2).sum(axis=-1)
    pressure = (GAMMA - 1) * (energy - 0.5 * density * square)
    of_momentum = velocity[..., :, None] * momentum[..., None, :] + pressure[..., None, None] * xp.eye(3)
    of_energy = velocity * (energy + pressure)[..., None]
    return pressure, xp.sqrt(square), xp.sqrt(GAMMA * pressure / density), of_momentum, of_energy


def value(state: Any, neighbours: Any, normals: Any, areas: Any, steps: int) -> Any:
    import jax
    import jax.numpy as jnp

    far = jnp.array(FAR)
    length = jnp.sqrt((normals**2).sum(axis=2))
    element, wall = (neighbours >= 0)[..., None], (neighbours == -1)[..., None]

    def flux(s: Any) -> Any:
        pressure, speed, sound, of_momentum, of_energy = flows(jnp, s[:, 0], s[:, 1:4], s[:, 4])
        there = jnp.where(element, s[neighbours], far)
        _, speed_b, sound_b, of_momentum_b, of_energy_b = flows(jnp, there[..., 0], there[..., 1:4], there[..., 4])
        factor = -length * SMOOTHING * 0.5 * (speed[:, None] + speed_b + sound[:, None] + sound_b)
        smoothed = jnp.where(element, factor[..., None] * (s[:, None] - there), 0.0)
        density = 0.5 * (normals * (there[..., 1:4] + s[:, None, 1:4])).sum(axis=2)
        momentum = 0.5 * jnp.einsum("nfc,nfdc->nfd", normals, of_momentum_b + of_momentum[:, None])
        energy = 0.5 * (normals * (of_energy_b + of_energy[:, None])).sum(axis=2)
        through = smoothed + jnp.concatenate([density[..., None], momentum, energy[..., None]], axis=2)
        against = jnp.pad(normals * pressure[:, None, None], ((0, 0), (0, 0), (1, 1)))
        return jnp.where(wall, against, through).sum(axis=1)

    def step(_: Any, old: Any) -> Any:
        _, speed, sound, _, _ = flows(jnp, old[:, 0], old[:, 1:4], old[:, 4])
        factor = 0.5 / (jnp.sqrt(areas) * (speed + sound)) * 0.01
        s = old
        for k in range(3):
            s = old + (factor / (3 - k))[:, None] * flux(s)
        return s

    return jax.lax.fori_loop(0, steps, step, state)


def loss(*args: Any) -> Any:
    return (value(*args) ** 2).mean()


def flow(s: Any, c: int) -> tuple[float, float, float, float, float]:
    """The flux of density, momentum and energy in the direction c."""
    velocity, pressure = s[1 + c] / s[0], pressure_of(s)
    x, y, z = velocity * s[1], velocity * s[2], velocity * s[3]
    if c == 0:
        x += pressure
    elif c == 1:
        y += pressure
    else:
        z += pressure
    return s[1 + c], x, y, z, velocity * (s[4] + pressure)


def pressure_of(s: Any) -> float:
    result: float = (GAMMA - 1) * (s[4] - 0.5 * (s[1] * s[1] + s[2] * s[2] + s[3] * s[3]) / s[0])
    return result


def speeds(s: Any) -> float:
    """The speed, and that of sound."""
    speed = math.sqrt(s[1] * s[1] + s[2] * s[2] + s[3] * s[3]) / s[0]
    return speed + math.sqrt(GAMMA * pressure_of(s) / s[0])


def loops(state: Any, neighbours: Any, normals: Any, areas: Any, steps: int) -> Any:
    n = len(state)
    far = np.array(FAR)
    for _ in range(steps):
        s = state
        for k in range(3):
            following = np.empty_like(state)
            for i in prange(n):
                own, total = s[i], np.zeros(5)
                for f in range(4):
                    normal, neighbour = normals[i, f], neighbours[i, f]
                    if neighbour == -1:
                        for c in range(3):
                            total[1 + c] += normal[c] * pressure_of(own)
                        continue
                    there = s[neighbour] if neighbour >= 0 else far
                    if neighbour >= 0:
                        length = math.sqrt(normal[0] ** 2 + normal[1] ** 2 + normal[2] ** 2)
                        factor = -length * SMOOTHING * 0.5 * (speeds(own) + speeds(there))
                        for v in range(5):
                            total[v] += factor * (own[v] - there[v])
                    for c in range(3):
                        a, b = flow(own, c), flow(there, c)
                        for v in range(5):
                            total[v] += 0.5 * normal[c] * (a[v] + b[v])
                factor = 0.5 / (math.sqrt(areas[i]) * speeds(state[i])) * 0.01 / (3 - k)
                for v in range(5):
                    following[i, v] = state[i, v] + factor * total[v]
            s = following
        state = s
    return state


WRT = (0, 2)
dlang, jax, numba = tools("cfd", value, loops, WRT, loss)

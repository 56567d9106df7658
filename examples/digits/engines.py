"""Who computes the parts of a batch: this process, the workers of Ray or Dask, or the ranks of MPI.

A part depends on the parameters and its rows alone, so it does not matter who computes it, and one that was lost with
its worker is computed again. Parts are merged in a tree whose form depends on their number alone: the result has the
same bits whoever computes, and however many there are.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np

import dlang

PROGRAM = Path(__file__).with_name("parallel.dl")
Rows = np.ndarray
Data = tuple[np.ndarray, np.ndarray]


class Engine(Protocol):
    """Gives the parts of a batch, merged; None where another rank leads."""

    leads: bool

    def whole(self, params: Any, shards: Sequence[Rows]) -> Any: ...
    def close(self) -> None: ...


@functools.cache
def program() -> Any:
    """The functions of `parallel.dl`, compiled once in each process, or taken from the cache that all share."""
    os.environ.setdefault("DLANG_THREADS", "1")  # a worker has one core
    return dlang.load(str(PROGRAM))


def part(params: Any, data: Data, rows: Rows) -> Any:
    images, labels = data
    return program().part(params, images[rows], labels[rows])


def merge(a: Any, b: Any) -> Any:
    return program().merge(a, b)


def merged(parts: Sequence[Any], merge: Callable[[Any, Any], Any]) -> Any:
    """Neighbours are merged until one is left."""
    while len(parts) > 1:
        pairs = [merge(*parts[k : k + 2]) for k in range(0, len(parts) - 1, 2)]
        parts = [*pairs, *parts[len(pairs) * 2 :]]
    return parts[0]


class Alone:
    """This process does it all."""

    leads = True

    def __init__(self, data: Data) -> None:
        self.data = data

    def whole(self, params: Any, shards: Sequence[Rows]) -> Any:
        return merged([part(params, self.data, rows) for rows in shards], merge)

    def close(self) -> None:
        pass


class OnRay:
    """Tasks of Ray, which runs a task again whose worker has died."""

    leads = True

    def __init__(self, data: Data, workers: int, address: str | None = None) -> None:
        import ray

        self.ray = ray
        settings = {"address": address} if address else {"num_cpus": workers, "include_dashboard": False}
        ray.init(runtime_env={"env_vars": {"PYTHONPATH": os.pathsep.join(map(str, path()))}}, **settings)
        self.data = ray.put(data)
        self.part = ray.remote(max_retries=10)(part)
        self.merge = ray.remote(max_retries=10)(merge)

    def whole(self, params: Any, shards: Sequence[Rows]) -> Any:
        held = self.ray.put(params)
        parts = [self.part.remote(held, self.data, rows) for rows in shards]
        return self.ray.get(merged(parts, self.merge.remote))

    def close(self) -> None:
        self.ray.shutdown()


class OnDask:
    """Tasks of Dask, whose scheduler gives those of a lost worker to another."""

    leads = True

    def __init__(self, data: Data, workers: int, address: str | None = None) -> None:
        from distributed import Client, LocalCluster

        self.cluster = (
            None if address else LocalCluster(n_workers=workers, threads_per_worker=1, dashboard_address=None)
        )
        self.client = Client(address or self.cluster)
        self.client.run(_see, [str(p) for p in path()])
        self.data = self.client.submit(_same, data, pure=False)

    def whole(self, params: Any, shards: Sequence[Rows]) -> Any:
        held = self.client.submit(_same, params, pure=False)
        parts = [self.client.submit(part, held, self.data, rows, pure=False, retries=10) for rows in shards]
        joined = functools.partial(self.client.submit, merge, pure=False, retries=10)
        return merged(parts, joined).result()

    def close(self) -> None:
        self.client.close()
        if self.cluster is not None:
            self.cluster.close()


class OnMpi:
    """Ranks of MPI, each with its share of the parts: `mpirun -n 2 python parallel.py --engine mpi`.

    MPI ends the whole job with a rank that dies; it is started again with `--resume`.
    """

    def __init__(self, data: Data) -> None:
        from mpi4py import MPI

        self.data, self.world = data, MPI.COMM_WORLD
        self.leads = self.world.rank == 0

    def whole(self, params: Any, shards: Sequence[Rows]) -> Any:
        rank, ranks = self.world.rank, self.world.size
        mine = [part(params, self.data, rows) for rows in shards[rank::ranks]]
        shares = self.world.allgather(mine)
        parts = [shares[k % ranks][k // ranks] for k in range(len(shards))]
        return merged(parts, merge)

    def close(self) -> None:
        pass


def path() -> list[Path]:
    """Where other processes find this file and dlang."""
    return [Path(__file__).parent, Path(dlang.__file__).parents[1]]


def _same(value: Any) -> Any:
    """A task whose result can be made again where it was lost, which what is scattered can't."""
    return value


def _see(folders: list[str]) -> None:
    import sys

    sys.path[:0] = [f for f in folders if f not in sys.path]

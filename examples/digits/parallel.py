"""Trains the network of `model.dl` on several workers, which share every batch.

python examples/digits/parallel.py --engine ray --workers 2
mpirun -n 2 python examples/digits/parallel.py --engine mpi

A run that was killed goes on from its last checkpoint, if there is one yet, with --resume, and ends with the same loss.
"""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import engines
import numpy as np

HERE = Path(__file__).parent
SPLIT = 1500


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--engine", choices=("alone", "ray", "dask", "mpi"), default="alone")
    parser.add_argument("--workers", type=int, default=2, help="of a cluster on this machine")
    parser.add_argument("--address", help="of a cluster of Ray or Dask that is there already")
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--batch", type=int, default=300)
    parser.add_argument("--shards", type=int, default=4, help="parts of a batch; not fewer than workers")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--checkpoint", default="digits.state.npz", help="where the state is after every epoch")
    parser.add_argument("--resume", action="store_true", help="go on from the checkpoint")
    args = parser.parse_args()
    if not 1 <= args.shards <= args.batch <= SPLIT or args.workers < 1:
        parser.error(f"a batch has at most {SPLIT} images, a shard at least one; there is a worker at least")
    images, labels = digits(args.seed)
    data = images[:SPLIT], labels[:SPLIT]
    match args.engine:
        case "ray":
            engine: engines.Engine = engines.OnRay(data, args.workers, args.address)
        case "dask":
            engine = engines.OnDask(data, args.workers, args.address)
        case "mpi":
            engine = engines.OnMpi(data)
        case _:
            engine = engines.Alone(data)
    try:
        state = train(engine, args.epochs, args.batch, args.shards, args.seed, args.checkpoint, args.resume)
        if engine.leads:
            accuracy = engines.program().accuracy(state.params, images[SPLIT:], labels[SPLIT:])
            print(f"{accuracy:.1%} of the unseen digits are read correctly")
    finally:
        engine.close()


def digits(seed: int) -> engines.Data:
    """Images and labels in an order of the seed."""
    held = np.load(HERE / "digits.npz")
    order = np.random.default_rng(seed).permutation(len(held["labels"]))
    return held["images"].reshape(-1, 64)[order] / 16.0, held["labels"].astype(np.int64)[order]


def train(
    engine: engines.Engine,
    epochs: int,
    batch: int,
    shards: int,
    seed: int = 0,
    checkpoint: str | None = None,
    resume: bool = False,
    after_step: Callable[[int, float], object] = lambda step, loss: None,
) -> Any:
    """The state after the last epoch. after_step: told the number of each step, and its loss.

    What an epoch does depends on the state, the seed and its number, so a run that goes on from a checkpoint takes the
    steps that it would have taken. Raises SystemExit if the checkpoint is of another run.
    """
    program = engines.program()
    settings = program.Settings(seed, batch, shards)
    if resume and checkpoint and Path(checkpoint).exists():
        state = program.load(checkpoint)
        if dataclasses.astuple(state.settings) != dataclasses.astuple(settings):
            raise SystemExit(f"{checkpoint} is of a run with {state.settings}, and this has {settings}")
    else:
        state = program.start(settings)
    steps = SPLIT // batch
    for epoch in range(state.steps // steps, epochs):
        rows = np.random.default_rng([seed, epoch]).permutation(SPLIT)
        losses = []
        for k in range(steps):
            chosen = rows[k * batch : (k + 1) * batch]
            whole = engine.whole(state.params, np.array_split(chosen, shards))
            state = program.update(state, whole)
            losses.append(whole.loss / whole.rows)
            after_step(state.steps, losses[-1])
        if engine.leads:
            print(f"epoch {epoch + 1}: loss {np.mean(losses):.4f}", flush=True)
            if checkpoint:
                program.save(checkpoint, state)
    return state


if __name__ == "__main__":
    main()

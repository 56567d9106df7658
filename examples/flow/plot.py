"""A picture of `flow.dl`: points that it draws, and the density that it has learned beside the true one.

python examples/flow/plot.py [picture.png]
"""

import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import dlang

flow = dlang.load(str(Path(__file__).parent / "flow.dl"))


def picture(steps: int = 3000, seed: int = 1) -> plt.Figure:
    learned = flow.trained(steps, seed=seed)
    x, y = np.meshgrid(np.linspace(-2, 2, 121), np.linspace(-1.2, 1.2, 73))
    grid = np.stack([x, y], axis=-1).reshape(-1, 2)
    points = flow.drawn(learned, np.random.default_rng(seed).normal(size=(2000, 2)))

    figure, (left, middle, right) = plt.subplots(1, 3, figsize=(12, 2.8), layout="constrained")
    left.plot(points[:, 0], points[:, 1], ".", markersize=2)
    left.set(title="drawn from the flow", xlim=(-2, 2), ylim=(-1.2, 1.2))
    middle.pcolormesh(x, y, np.exp(flow.log_density(learned, grid)).reshape(x.shape))
    middle.set(title="its density")
    right.pcolormesh(x, y, np.exp(flow.truths(grid)).reshape(x.shape))
    right.set(title="the true density")
    return figure


if __name__ == "__main__":
    shown = picture()
    if len(sys.argv) > 1:
        shown.savefig(sys.argv[1], dpi=150)
    else:
        plt.show()

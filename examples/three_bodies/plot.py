"""A picture of `three_bodies.dl`: the paths of the first guess, and the orbit that the gradient finds.

python examples/three_bodies/plot.py [picture.png]
"""

import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import dlang

three_bodies = dlang.load(str(Path(__file__).parent / "three_bodies.dl"))


def picture(steps: int = 500) -> plt.Figure:
    guess = three_bodies.Throw(velocity=np.array([0.3, 0.5]), period=6.0)
    found = three_bodies.closed(guess, steps).params
    figure, axes = plt.subplots(1, 2, figsize=(10, 3), layout="constrained")
    for axis, (name, throw) in zip(axes, {"a first guess": guess, "an orbit": found}.items()):
        paths = np.stack(
            [three_bodies.flown(throw, throw.period * k / 300, 3 * steps).position for k in range(301)], axis=1
        )
        for path in paths:
            (line,) = axis.plot(path[:, 0], path[:, 1], linewidth=1)
            axis.plot(*path[0], "o", color=line.get_color())
        axis.set(title=name, aspect="equal")
    return figure


if __name__ == "__main__":
    shown = picture()
    if len(sys.argv) > 1:
        shown.savefig(sys.argv[1], dpi=150)
    else:
        plt.show()

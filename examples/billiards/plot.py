"""A picture of `billiards.dl`: the best of some shots at random, and what the gradient makes of it.

python examples/billiards/plot.py [picture.png]
"""

import sys
from pathlib import Path

import matplotlib.pyplot as plt

import dlang

billiards = dlang.load(str(Path(__file__).parent / "billiards.dl"))


def picture(tries: int = 300, seed: int = 1) -> plt.Figure:
    spot = [1.8, 0.8]
    tried = billiards.tried(spot, tries, seed=seed)
    improved = billiards.improved(tried, spot).params
    figure, axes = plt.subplots(1, 2, figsize=(11, 3), layout="constrained")
    for axis, (name, shot) in zip(axes, {"the best try": tried, "improved": improved}.items()):
        paths = billiards.seen(shot, 1000)
        for ball in range(4):
            (line,) = axis.plot(paths[:, ball, 0], paths[:, ball, 1], linewidth=1)
            for moment, alpha in ((0, 0.3), (-1, 1.0)):
                axis.add_patch(plt.Circle(paths[moment, ball], 0.05, color=line.get_color(), alpha=alpha))
        axis.plot(*spot, "kx")
        axis.set(title=name, xlim=(0, 2), ylim=(0, 1), aspect="equal")
    return figure


if __name__ == "__main__":
    shown = picture()
    if len(sys.argv) > 1:
        shown.savefig(sys.argv[1], dpi=150)
    else:
        plt.show()

"""A picture of `rendering.dl`: the first guess, the photographs, and what was found, from the same three sides.

python examples/rendering/plot.py [picture.png]
"""

import sys
from pathlib import Path

import matplotlib.pyplot as plt

import dlang

rendering = dlang.load(str(Path(__file__).parent / "rendering.dl"))


def picture(pixels: int = 32, steps: int = 200, seed: int = 1) -> plt.Figure:
    photos = rendering.photographs(rendering.thing(), pixels)
    start = rendering.guess(seed=seed)
    found = rendering.fitted(start, photos, steps)
    rows = {
        "guess": rendering.photographs(start, pixels),
        "photographs": photos,
        "found": rendering.photographs(found, pixels),
        "larger": rendering.photographs(found, 4 * pixels),
    }
    figure, axes = plt.subplots(len(rows), 3, figsize=(5, 6.5), layout="constrained")
    for row, (name, images) in zip(axes, rows.items()):
        row[0].set_ylabel(name)
        for axis, image in zip(row, images):
            axis.imshow(image.clip(0, 1))
            axis.set(xticks=[], yticks=[])
    return figure


if __name__ == "__main__":
    shown = picture()
    if len(sys.argv) > 1:
        shown.savefig(sys.argv[1], dpi=150)
    else:
        plt.show()

"""A picture of `sunspots.dl`: the number of spots, and what the long short-term memory guesses, beyond the data too.

python examples/sunspots/plot.py [picture.png]
"""

import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import dlang

HERE = Path(__file__).parent
sunspots = dlang.load(str(HERE / "sunspots.dl"))


def picture(steps: int = 500, seed: int = 1) -> plt.Figure:
    table = np.loadtxt(HERE / "sunspots.csv", delimiter=",", skiprows=1)
    _, guesses = sunspots.fitted(table, 220, steps, seed=seed)
    years = 1701 + np.arange(len(guesses))
    figure, axis = plt.subplots(figsize=(12, 3), layout="constrained")
    axis.plot(table[:, 0], table[:, 1], color="black", linewidth=1, label="observed")
    axis.plot(years, guesses, linewidth=1, label="guessed from the years before")
    axis.axvspan(1700, 1920, color="black", alpha=0.05, label="learned from")
    axis.axvspan(2009, years[-1], color="orange", alpha=0.1, label="by itself")
    axis.set(xlim=(1700, years[-1]), ylabel="spots")
    axis.legend(ncols=4, loc="upper left")
    return figure


if __name__ == "__main__":
    shown = picture()
    if len(sys.argv) > 1:
        shown.savefig(sys.argv[1], dpi=150)
    else:
        plt.show()

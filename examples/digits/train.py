"""The training of `train.dl` from Python: the network and its step are the language's, the loop is Python's.

python examples/digits/train.py [epochs]
"""

import sys
from pathlib import Path

import numpy as np

import dlang.importer  # `import model` finds model.dl

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

import model

BATCH, SPLIT = 32, 1500


def main(epochs: int = 20, seed: int = 0) -> float:
    """Prints the loss and the test accuracy after each epoch; gives the last accuracy."""
    digits = np.load(HERE / "digits.npz")
    random = np.random.default_rng(seed)
    order = random.permutation(len(digits["labels"]))
    images = digits["images"].reshape(-1, 64)[order] / 16.0
    labels = digits["labels"].astype(np.int64)[order]

    params = model.init(seed=seed)
    state = model.start(params)
    accuracy = 0.0
    for epoch in range(1, epochs + 1):
        rows = random.permutation(SPLIT)
        losses = []
        for start in range(0, SPLIT, BATCH):
            chosen = rows[start : start + BATCH]
            loss, params, state = model.step(params, state, images[chosen], labels[chosen])
            losses.append(loss)
        accuracy = model.accuracy(params, images[SPLIT:], labels[SPLIT:])
        print(f"epoch {epoch}: loss {np.mean(losses):.4f}, test accuracy {accuracy:.4f}")
    return accuracy


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))

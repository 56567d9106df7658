"""What `foreign.dl` beside this file calls."""

import numpy as np


def swapped(pair):
    return pair[1], pair[0]


def moved(point, distance):
    return type(point)(point.x + distance, 2.0 * point.weights)


def all_moved(points):
    return [moved(p, 1.0) for p in points]


def described(number, flag):
    assert isinstance(flag, bool) and isinstance(number, np.int32)
    return f"{number} {flag}"


def numbered(words):
    return [f"{k} {word}" for k, word in enumerate(words)]


def by_sign(x):
    return x[x > 0.0], x[x <= 0.0]


def doubled(x):
    return np.float32(2) * x


def counted(n):
    return [float(k) for k in range(n)]


def overwritten(x):
    x[0] = 100.0
    return x


class Memory:
    """Arrays that a program passed, which are its own no more."""

    def __init__(self):
        self.kept = []

    def keep(self, x):
        self.kept.append(x)

    def total(self):
        return float(sum(x.sum() for x in self.kept))

    def forget(self):
        self.kept.clear()


memory = Memory()

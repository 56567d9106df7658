"""Words in messages: which name a misspelt one may have meant, and how many there are of something."""

from __future__ import annotations

from collections.abc import Iterable


def closest(name: str, candidates: Iterable[str]) -> str | None:
    """The candidate with the fewest edits to it, if they are few for its length; None if there is none.

    Of several it is the first, but one of the same letters before all others. An edit inserts, drops or changes a
    letter, or swaps two neighbours (Damerau 1964, in the restricted form).
    """
    limit = 1 if len(name) <= 5 else 2
    best: str | None = None
    fewest = (limit + 1, False)
    letters = set(name)
    for candidate in candidates:
        if candidate.lower() == name.lower() and candidate != name:
            return candidate
        if len(name) < 3 or len(candidate) < 2 or abs(len(candidate) - len(name)) > limit:
            continue
        if len(letters ^ set(candidate)) > 2 * limit:  # an edit takes one letter away and brings another, at most
            continue
        if (0, True) < (needed := edits(name, candidate)) < fewest:
            best, fewest = candidate, needed
    return best


def edits(name: str, candidate: str) -> tuple[int, bool]:
    """How far a candidate is from a name: no edits if only capitals differ, and less far if it has the same letters."""
    return 0 if candidate.lower() == name.lower() else distance(name, candidate), sorted(name) != sorted(candidate)


def plural(n: int, word: str, words: str = "") -> str:
    """`1 axis`, `2 axes`."""
    return f"{n} {word}" if n == 1 else f"{n} {words or word + 's'}"


def distance(a: str, b: str) -> int:
    """How many edits lead from one word to the other."""
    before: list[int] = []
    row = list(range(len(b) + 1))
    for i, letter in enumerate(a, 1):
        above, row = row, [i]
        for j, other in enumerate(b, 1):
            cost = min(above[j] + 1, row[j - 1] + 1, above[j - 1] + (letter != other))
            if i > 1 and j > 1 and letter == b[j - 2] and a[i - 2] == other:
                cost = min(cost, before[j - 2] + 1)
            row.append(cost)
        before = above
    return row[-1]

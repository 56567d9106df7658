"""What the fuzzer looks for: from a seed to a program, and from a program to what is wrong with it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from random import Random

from dlang.runtime.threads import Pool, new_pool
from tests.fuzz import edges, seams
from tests.fuzz.bound import differing_calls
from tests.fuzz.compare import Disagreement, disagreement
from tests.fuzz.costly import costly, of_loops
from tests.fuzz.costs import broken_law
from tests.fuzz.derivatives import wrong_derivative
from tests.fuzz.programs import differentiable, program
from tests.fuzz.spellings import different_costs, spellings
from tests.fuzz.threads import different_bits, gradient_of

OF_LOOPS = 4
"""One of so many programs is of those whose costs are counted."""


@dataclass(frozen=True, slots=True)
class Mode:
    """way: one of `WAYS`, or the empty one; derivatives: of gradients, or of values."""

    way: str = ""
    derivatives: bool = False

    @property
    def options(self) -> list[str]:
        """How the command line asks for it."""
        return [f"--{word}" for word in (self.way, "derivatives" if self.derivatives else "") if word]

    def program(self, seed: int) -> str:
        if self.way == "costs":
            return costly(Random(seed))
        if self.way == "seams":
            return seams.program(seed)
        if self.way == "edges":
            return edges.program(seed)
        if self.way == "spellings":
            return spellings(Random(seed))
        random = Random(seed)
        if not random.randrange(OF_LOOPS):
            return of_loops(random, every=True)
        return (differentiable if self.derivatives else program)(random)

    def wrong(self, text: str, seed: int) -> Disagreement | None:
        """What is wrong with a program. seed: chooses among ways to look at it."""
        if not self.way:
            return wrong_derivative(text, verify=seed % 4 == 0) if self.derivatives else disagreement(text)
        return WAYS[self.way].wrong(gradient_of(text) if self.derivatives else text, seed)


@dataclass(frozen=True, slots=True)
class Way:
    """One more way to look at programs. help: of its option."""

    help: str
    wrong: Callable[[str, int], Disagreement | None]


@cache
def pools() -> list[Pool]:
    return [new_pool(threads) for threads in (1, 2, 5)]


WAYS: dict[str, Way] = {
    "threads": Way("compare numbers of threads", lambda text, seed: different_bits(text, pools())),
    "calls": Way("compare ways to call from Python", differing_calls),
    "seams": Way("join templates of features, differentiated and split", seams.wrong_at_a_seam),
    "edges": Way("at sizes 0 and 1, with indices from data", edges.wrong_at_an_edge),
    "costs": Way("compare counted costs with the law", lambda text, seed: broken_law(text)),
    "spellings": Way("compare counted costs of spellings of one kernel", lambda text, seed: different_costs(text)),
}

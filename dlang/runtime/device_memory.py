"""Memory of a device that outlives a run, and which stream may use it.

Two things outlive a run: a *state*, where kernels note what has failed and reductions keep partial results, and a
*graph*, with its state and the memory that it works in. Each is a `Holding`, or two. A device does the work of one
stream in order, and that of two streams in any order, so that one rule keeps runs apart:

    A holding is used by one run at a time, and belongs to the stream of the last one. A run on another stream has its
    own wait for all that the last one has been asked for. Before memory is given back, the stream that it was allocated
    on, which is the one that gets it anew, waits in the same way.

`use` and `give_back` see to that, and holdings are handed on by nothing else. The host never waits for it.

Graphs of all programs of a device share a part of its memory, and give way where that is short.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from threading import RLock

from dlang.runtime.devices import Driver, Graph, Stream

KEPT = 64
"""The number of runs of a program that are kept as graphs."""
SHARE = 4
"""Graphs hold a part of the memory of the device: this is how many such parts it has."""


@dataclass(eq=False, slots=True)
class Holding:
    """Blocks of a device that runs use one after another. home: the stream that they were allocated on; stream: that of
    the last use; bytes: how large they are."""

    blocks: tuple[int, ...]
    bytes: int
    home: Stream
    stream: Stream


def use(driver: Driver, holding: Holding) -> None:
    """Lets the current stream use it from now on."""
    now = driver.current
    if holding.stream != now:
        driver.follow(holding.stream, now)
        holding.stream = now


def give_back(driver: Driver, holding: Holding) -> None:
    """Frees its blocks; if this thread makes a graph, as soon as it may."""
    driver.graphs.waste.append(holding)
    if not driver.making:
        _clear(driver)


def _clear(driver: Driver) -> None:
    waste = driver.graphs.waste
    while waste:
        try:
            holding = waste.pop()
        except IndexError:  # another thread was quicker
            return
        driver.follow(holding.stream, holding.home)
        for block in holding.blocks:
            driver.free(block)


def held(driver: Driver, sizes: Sequence[int]) -> Holding:
    """A holding of the current stream with blocks of these sizes. Raises MemoryError."""
    blocks: list[int] = []
    try:
        for size in sizes:
            blocks.append(allocate(driver, size))
    except BaseException:
        for block in blocks:
            driver.free(block)
        raise
    now = driver.current
    return Holding(tuple(blocks), sum(sizes), now, now)


def allocate(driver: Driver, size: int) -> int:
    """A block of the device; graphs give way to it. Raises MemoryError."""
    if driver.graphs.waste and not driver.making:
        _clear(driver)
    while True:
        try:
            return driver.allocate(size)
        except MemoryError:
            if size > driver.capacity or not _drop_oldest(driver):
                raise


# ---- graphs ----------------------------------------------------------------------------------------------------------
@dataclass(eq=False, slots=True)
class Repeat:
    """A run that can be repeated. raw: the words that it gave; state: what has failed in it; memory: what it works in.

    shelf: the graphs of its program, among which it is known by its key. used: when it was used last; busy: it is now.
    """

    graph: Graph
    raw: list[int]
    state: Holding
    memory: Holding
    shelf: dict[Hashable, Repeat]
    key: Hashable
    used: int = 0
    busy: bool = True

    @property
    def bytes(self) -> int:
        """The bytes that it holds."""
        return self.state.bytes + self.memory.bytes


@dataclass(eq=False, slots=True)
class Graphs:
    """The graphs of all programs of a device. now: how many repeatable runs there were, which dates the use of a graph.
    waste: holdings that are to be given back. lock: who holds it may look for graphs and change them."""

    repeats: list[Repeat] = field(default_factory=list)
    now: int = 0
    waste: list[Holding] = field(default_factory=list)
    lock: RLock = field(default_factory=RLock)

    def take(self, shelf: Mapping[Hashable, Repeat], key: Hashable) -> Repeat | None:
        """The graph of a run, which nobody else uses or drops until it is `busy` no longer."""
        with self.lock:
            self.now += 1
            repeat = shelf.get(key)
            if repeat is None or repeat.busy:
                return None
            repeat.used, repeat.busy = self.now, True
            return repeat

    def keep(self, repeat: Repeat) -> None:
        """Adds it to the known ones, as used at this moment."""
        with self.lock:
            repeat.used = self.now
            repeat.shelf[repeat.key] = repeat
            self.repeats.append(repeat)

    def forget(self, repeat: Repeat) -> None:
        """Removes it from the known ones."""
        with self.lock:
            if repeat.shelf.get(repeat.key) is repeat:
                del repeat.shelf[repeat.key]
            if repeat in self.repeats:
                self.repeats.remove(repeat)

    def oldest(self, among: Sequence[Repeat], before: int) -> Repeat | None:
        """The one that has not been used for longest, if that was before a moment."""
        idle = [repeat for repeat in among if not repeat.busy and repeat.used < before]
        return min(idle, key=lambda repeat: repeat.used, default=None)


def can_keep(driver: Driver, shelf: Mapping[Hashable, Repeat], size: int, since: int) -> bool:
    """Tells whether there is a place for another graph of a program, with so many bytes, of a run done at a moment.

    It takes the place of those that have not been used since then: were it of others, graphs that take turns would
    drop one another for ever.
    """
    graphs, limit = driver.graphs, driver.capacity // SHARE
    if size > limit:
        return False
    with graphs.lock:
        while len(shelf) >= KEPT:
            if not _dropped(driver, graphs.oldest(list(shelf.values()), since)):
                return False
        while sum([repeat.bytes for repeat in graphs.repeats]) + size > limit:
            if not _dropped(driver, graphs.oldest(graphs.repeats, since)):
                return False
    return True


def drop(driver: Driver, repeat: Repeat) -> None:
    """Gives back what a graph holds."""
    driver.graphs.forget(repeat)
    give_back(driver, repeat.state)
    give_back(driver, repeat.memory)


def _dropped(driver: Driver, repeat: Repeat | None) -> bool:
    if repeat is not None:
        drop(driver, repeat)
    return repeat is not None


def _drop_oldest(driver: Driver) -> bool:
    """Tells whether there was a graph to be dropped."""
    graphs = driver.graphs
    with graphs.lock:
        return _dropped(driver, graphs.oldest(graphs.repeats, graphs.now + 1))

"""The history of a run. It goes on as far as somebody looks, and back by running again from a state that was kept.

A *moment* is where a statement begins; moments are numbered from 0. Of each the log has how many operations ran before
it, its spot, how many calls are around it and whether it is of a backward pass. So what somebody looks for in the past
is found in the log, and one state has to be made again.

States are kept at about equal distances. When they take more memory than they may, every other one is given up.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from dataclasses import dataclass, field

from dlang.host.errors import RunError
from dlang.identity import ByIdentity
from dlang.tools.debugger.code import Instruction, Spot
from dlang.tools.debugger.finite import Sought
from dlang.tools.debugger.machine import MEMORY, Machine, Stop
from dlang.tools.debugger.state import Entered, State

CLOSE = 50  # operations that are run again each time that somebody looks
WAYS = 20  # states on the way
BETWEEN = 2000  # operations from one state that is kept to the next, at first


@dataclass(slots=True)
class Log:
    """For each moment. calls: how many operations ran before the call that it is in.

    entered: the comprehensions that can be entered, with how many operations ran before them.
    """

    steps: array[int] = field(default_factory=lambda: array("q"))
    spots: array[int] = field(default_factory=lambda: array("i"))
    depths: array[int] = field(default_factory=lambda: array("i"))
    backward: array[int] = field(default_factory=lambda: array("b"))
    begun: array[int] = field(default_factory=lambda: array("b"))
    calls: array[int] = field(default_factory=lambda: array("q"))
    entered: Entered = field(default_factory=Entered)


@dataclass(slots=True)
class Timeline:
    """One run. front: as far as it went. failure: why it ends there, if it failed; ended: whether it is over.

    looked: a state somewhere in the past, where somebody looked last; ways: states on the way there, closer and closer.
    """

    machine: Machine
    front: State
    memory: int = MEMORY
    log: Log = field(default_factory=Log)
    failure: RunError | None = None
    ended: bool = False
    kept: list[State] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)
    between: int = BETWEEN
    looked: State | None = None
    ways: list[State] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._keep()

    def __len__(self) -> int:
        """How many moments are known."""
        return len(self.log.steps)

    # ---- forward
    def more(self) -> Stop:
        """Goes on from the front to the next moment, or to what stops before it."""
        if self.ended:
            return Stop.END
        if self.front.steps - self.kept[-1].steps >= self.between:
            self._keep()
        self.machine.entered = self.log.entered
        try:
            stop = self.machine.run(self.front)
        except RunError as e:
            self._failed(e)
            return Stop.END
        finally:
            self.machine.entered = None
        if stop is Stop.STATEMENT:
            self._note()
        elif stop is Stop.END:
            self.ended = True
        return stop

    def _failed(self, e: RunError) -> None:
        frame = self.front.frame
        while frame.caller is not None and frame.parent is not None:
            e.called(frame.label, frame.caller.let.span)
            frame = frame.parent
        self.failure, self.ended = e, True

    def _note(self) -> None:
        frame, log = self.front.frame, self.log
        assert frame.spot is not None
        log.steps.append(self.front.steps)
        log.spots.append(frame.spot.number)
        log.depths.append(frame.depth_here)
        log.backward.append(frame.backward(frame.spot.via))
        log.begun.append(self.front.begun)
        log.calls.append(frame.began)

    # ---- states
    def _keep(self) -> None:
        before = self.kept[-1].frame.env if self.kept else {}
        size = self.front.detach(ByIdentity((x, None) for x in before.values()))
        self.kept.append(self.front.copy())
        self.sizes.append(size)
        while sum(self.sizes) > self.memory and len(self.kept) > 2:
            del self.kept[1::2], self.sizes[1::2]
            self.between *= 2

    def at(self, steps: int, moment: int | None = None) -> State:
        """The state after so many operations; of a moment its statement is under way. It is only to be looked at."""
        if steps == self.front.steps and (moment is None or (moment == len(self) - 1 and not self.ended)):
            return self.front
        early = moment is not None and bool(self.log.begun[moment])
        latest = steps - early  # where a block has ended, it is left without an operation, and there is no way back
        near = self.looked = self._near(latest)
        self.again(near, steps, early)
        if moment is not None:
            near.frame.spot = self.spot(moment)
            if not early:
                near.frame.fresh = ()
        return near

    def _near(self, steps: int) -> State:
        """A state that is not far before a number of operations.

        Of the way there each half is kept that somebody has to go again who goes back from there, step by step.
        """
        kept = self.kept[bisect_right(self.kept, steps, key=lambda s: s.steps) - 1]
        while self.ways and self.ways[-1].steps > steps:
            self.ways.pop()
        if not self.ways or self.ways[-1].steps < kept.steps:
            self.ways = [kept]
        s = self.looked
        if s is None or not self.ways[-1].steps <= s.steps <= steps:
            s = self.ways[-1].copy()
        while steps - s.steps > CLOSE:
            self.again(s, (s.steps + steps) // 2)
            self.ways.append(s.copy())
        del self.ways[:-WAYS]
        return s

    def again(self, s: State, steps: int, early: bool = False) -> None:
        """Runs a state of the past up to a number of operations, without anything that stops it.

        early: whether to stay in a block that has ended there.
        """
        machine = self.machine
        sought, machine.sought = machine.sought, None
        try:
            if machine.run(s, steps, statements=False, early=early) is Stop.INTERRUPTED:
                raise KeyboardInterrupt
        finally:
            machine.sought = sought

    def moment(self, k: int) -> State:
        return self.at(self.log.steps[k], k)

    def spot(self, k: int) -> Spot:
        return self.machine.library.spots[self.log.spots[k]]

    def call(self, k: int) -> object:
        """Identifies the call that a moment is in; inlined calls count too."""
        return self.log.calls[k], self.spot(k).via

    def last_before(self, steps: int) -> int:
        """The last moment that began before, or where, so many operations had run; -1 if there is none."""
        return bisect_right(self.log.steps, steps) - 1

    def comprehensions(self, k: int) -> list[tuple[int, Instruction]]:
        """The comprehensions that can be entered between a moment and the next that is known, with their steps.

        A moment of -1 is the beginning.
        """
        low = self.log.steps[k] if k >= 0 else -1
        high = self.log.steps[k + 1] if k + 1 < len(self) else self.front.steps + 1
        return self.log.entered.between(low, high)

    # ---- what is looked for
    def found(self, sought: Sought, steps: int) -> int | None:
        """After how many operations the last one is one that is looked for, from some on."""
        machine, machine.sought = self.machine, sought
        try:
            if steps < self.front.steps:
                s = self.at(steps).copy()
                stop = machine.run(s, self.front.steps, statements=False)
                if stop is Stop.FOUND:
                    return s.steps
                if stop is Stop.INTERRUPTED:
                    raise KeyboardInterrupt
            while True:
                match self.more():
                    case Stop.FOUND:
                        return self.front.steps
                    case Stop.INTERRUPTED:
                        raise KeyboardInterrupt
                    case Stop.END:
                        return None
        finally:
            machine.sought = None

"""Orders the work on a device by clocks of its streams and of the host, and finds accesses that nothing orders.

Every stream counts what it was asked for, and knows how far it comes after each other one: by events that it waits for,
and by what the host has waited for before it asked. Two accesses of a block by two streams are in order if the later
one's clock knows of the first. Any access counts as a change, but for blocks that are only read.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field

Clock = dict[Hashable, int]


@dataclass(eq=False)
class Ordering:
    """shared: blocks that are only read. accesses: the last of each stream, by the block. conflicts: what is in no
    order."""

    clocks: dict[Hashable, Clock] = field(default_factory=dict)
    host: Clock = field(default_factory=dict)
    shared: set[Hashable] = field(default_factory=set)
    accesses: dict[Hashable, Clock] = field(default_factory=dict)
    conflicts: list[str] = field(default_factory=list)

    def asked(self, stream: Hashable, what: str, blocks: Iterable[Hashable]) -> None:
        """The stream is to do something with blocks."""
        clock = self.clocks.setdefault(stream, {})
        _join(clock, self.host)
        clock[stream] = clock.get(stream, 0) + 1
        for block in set(blocks) - self.shared:
            last = self.accesses.setdefault(block, {})
            for other, when in last.items():
                if other != stream and clock.get(other, 0) < when:
                    self.conflicts.append(f"{what} on {stream} of {block!r}, which {other} may still use")
            last[stream] = clock[stream]

    def recorded(self, stream: Hashable) -> Clock:
        """An event: all that the stream has been asked for."""
        clock = self.clocks.setdefault(stream, {})
        _join(clock, self.host)
        return dict(clock)

    def after(self, stream: Hashable, event: Clock) -> None:
        """The stream waits for an event."""
        _join(self.clocks.setdefault(stream, {}), event)

    def waited(self, stream: Hashable) -> None:
        """The host has waited for a stream."""
        _join(self.host, self.clocks.setdefault(stream, {}))

    def told(self, event: Clock) -> None:
        """The host knows that the device has come to an event."""
        _join(self.host, event)

    def waited_for_all(self) -> None:
        """The host has waited for the device."""
        for stream in self.clocks:
            self.waited(stream)


def _join(clock: Clock, other: Clock) -> None:
    for stream, count in other.items():
        clock[stream] = max(clock.get(stream, 0), count)

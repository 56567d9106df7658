"""The compiled instances of one program, each made when it is first needed.

An instance is keyed by the function and by the dtypes and ranks of its arguments, so one compilation serves every size.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from threading import RLock
from typing import TYPE_CHECKING, Any

from dlang.driver import Backend, Request, Runner, call, load, lower
from dlang.python.callables import Handles
from dlang.python.results import to_python
from dlang.python.settling import Settled
from dlang.runtime.host import Host
from dlang.specialize.structs import StructClasses
from dlang.specialize.types import Bindings, Mono, bindings_key
from dlang.specialize.values import mono_of
from dlang.typecheck.core import FnDecl
from dlang.typecheck.program import Checked

if TYPE_CHECKING:
    from dlang.specialize.specialize import Entry


@dataclass
class Counter:
    """Compilations since the process began."""

    total: int = 0


COMPILATIONS = Counter()


@dataclass(frozen=True, slots=True)
class Prepared:
    """A compiled function with the sizes of a call: all that is left are the leaves of the arguments."""

    runner: Runner
    entry: Entry
    sizes: tuple[int, ...]
    result: Mono
    classes: StructClasses

    def __call__(self, leaves: Sequence[Any], seed: int = 0) -> Any:
        return to_python(self.result, iter(call(self.runner, self.entry, self.sizes, leaves, seed)), self.classes)


@dataclass
class Program:
    """A checked file with what has been compiled of it."""

    checked: Checked
    backend: Backend
    classes: StructClasses = field(default_factory=StructClasses)
    host: Host = field(default_factory=Host)
    handles: Handles = field(default_factory=Handles)
    settled: Settled = field(init=False)
    _instances: dict[object, tuple[Runner, Entry]] = field(default_factory=dict)
    _lock: RLock = field(default_factory=RLock)

    def __post_init__(self) -> None:
        self.settled = Settled(self.checked)

    def prepare(self, decl: FnDecl, bindings: Bindings) -> Prepared:
        """A call where the variables of the function's scheme stand for `bindings`; compiles what is new."""
        from dlang.specialize.specialize import entry_sizes

        runner, entry = self._instance(decl, bindings)
        sizes = tuple([int(s.constant or 0) for s in entry_sizes(decl, bindings)])
        return Prepared(runner, entry, sizes, mono_of(entry.result), self.classes)

    def _instance(self, decl: FnDecl, bindings: Bindings) -> tuple[Runner, Entry]:
        ordered = {v: bindings[v] for v in decl.variables if v in bindings}
        key = (decl, bindings_key(ordered, lambda _: None))
        with self._lock:
            if key not in self._instances:
                program, (entry,) = lower([Request(decl, ordered)], structs=self.classes)
                self._instances[key] = load(program, [entry], self.backend, self.host), entry
                COMPILATIONS.total += 1
            return self._instances[key]

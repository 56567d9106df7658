"""The compiled instances of one program, each made when it is first needed.

An instance is keyed by the function and by the dtypes and ranks of its arguments, so one compilation serves every size.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from threading import RLock
from typing import TYPE_CHECKING, Any

from dlang.diagnostics import error
from dlang.driver import Backend, Request, Runner, call, load, lower
from dlang.python.callables import Handles
from dlang.python.settling import Settled
from dlang.runtime.crossing import holds_code
from dlang.runtime.host import Host
from dlang.runtime.inward import flattened
from dlang.runtime.outward import built
from dlang.specialize.structs import StructClasses
from dlang.specialize.types import Bindings, bindings_key
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

    def leaves(self, values: Sequence[Any]) -> list[Any] | None:
        """The leaves of arguments that have been matched; None if one holds itself."""
        border = self.entry.border
        known = dict(zip(self.entry.sizes, self.sizes, strict=True))
        sizes = [int(s.evaluate(known.__getitem__)) if set(s.atoms()) <= known.keys() else None for s in border.sizes]
        return flattened(list(zip(border.params, values, strict=True)), sizes, border.trees)

    def __call__(self, leaves: Sequence[Any], seed: int = 0) -> Any:
        border = self.entry.border
        results = call(self.runner, self.entry, self.sizes, leaves, seed)
        return built((border.result,), iter(results), border.trees)[0]


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
        return Prepared(runner, entry, sizes)

    def _instance(self, decl: FnDecl, bindings: Bindings) -> tuple[Runner, Entry]:
        ordered = {v: bindings[v] for v in decl.variables if v in bindings}
        key = (decl, bindings_key(ordered, lambda _: None))
        with self._lock:
            if key not in self._instances:
                program, (entry,) = lower([Request(decl, ordered)], structs=self.classes)
                _refuse_code(decl, entry)
                self._instances[key] = load(program, [entry], self.backend, self.host), entry
                COMPILATIONS.total += 1
            return self._instances[key]


def _refuse_code(decl: FnDecl, entry: Entry) -> None:
    """A function has no form in Python."""
    if holds_code(entry.border.result, entry.border.trees):
        help = ("return what the function needs, and pass it to a function of the module",)
        message = f"the result of `{decl.name}` holds a function, which Python cannot get yet"
        raise error("E0690", message, decl.span, help=help)

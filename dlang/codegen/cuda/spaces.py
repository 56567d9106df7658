"""Decides in which memory arrays live: that of the host or of the device.

A function that launches nothing, and calls nothing that does, is the host's alone. In any other one an array of numbers
lives on the device if it is a parameter or a result, if a kernel or a product works on it, or if it may be the same as
one that does. Arrays of texts and of nodes are the host's.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import chain

from dlang.codegen import loops
from dlang.codegen.cuda.kernels import fits
from dlang.codegen.cuda.nests import Nest, is_number, nest_of
from dlang.codegen.cuda.scans import scan_of
from dlang.codegen.traverse import binds, blocks, callee, captures, walk
from dlang.codegen.vectorize import known_iterations
from dlang.identity import ByIdentity
from dlang.ir.anf import FLOATS
from dlang.ir.kernels import is_kernel
from dlang.ops.monoids import ROUNDED

FEW = 32  # iterations in all, that are no reason to use a device


@dataclass(slots=True)
class Launching:
    """The parts of a program that launch kernels. nests: of loops; functions: by their names.

    deterministic: whether the host is to do what threads would add up in any order.
    """

    deterministic: bool = False
    nests: ByIdentity[loops.Loop, Nest | None] = field(default_factory=ByIdentity)
    functions: frozenset[str] = frozenset()

    def nest(self, loop: loops.Loop) -> Nest | None:
        """A loop as a nest for a kernel; None if it can't be one."""
        if loop not in self.nests:
            nest = nest_of(loop)
            runs = nest is not None and fits(nest) and not self.is_refused(nest)
            self.nests[loop] = nest if runs else None
        return self.nests[loop]

    def plain(self, loop: loops.Loop) -> Nest | None:
        """The same, in little code, if it can be."""
        nest = nest_of(loop, plain=True)
        return nest if nest is not None and fits(nest) and not self.is_refused(nest) else self.nest(loop)

    def is_refused(self, nest: Nest | None) -> bool:
        """Tells whether `deterministic` refuses a nest: it adds floats in an order that can differ between runs."""
        return (
            self.deterministic
            and nest is not None
            and any(s.monoid in ROUNDED and s.buffer.dtype in FLOATS for s in nest.joined)
        )

    def is_work(self, stmt: loops.Stmt) -> bool:
        """Tells whether a statement that is no independent loop is for the device by itself."""
        match stmt:
            case loops.Product():
                return True
            case loops.CallC(target):
                return is_kernel(target)
            case loops.For():
                return scan_of(stmt) is not None
            case _:
                return callee(stmt) in self.functions

    def stays_on_host(self, stmt: loops.Stmt) -> bool:
        """Tells whether nothing in a statement is for the device, so that the host runs it unchanged."""
        match stmt:
            case loops.Loop():
                if self.nest(stmt) is not None:
                    return not is_worth_it(stmt)
                if self.deterministic and self.is_refused(nest_of(stmt)):
                    return True
                return all(map(self.stays_on_host, stmt.stmts))
            case _ if self.is_work(stmt):
                return False
            case _:
                inside = blocks(stmt)
                return not inside or (not _hands_on(binds(stmt)) and all(map(self.stays_on_host, chain(*inside))))

    def is_opened(self, stmt: loops.Stmt) -> bool:
        """Tells whether a loop runs on the host with work for the device inside."""
        if isinstance(stmt, loops.Loop):
            return self.nest(stmt) is None and self.has_work(stmt.stmts)
        return not self.stays_on_host(stmt) and not (isinstance(stmt, loops.For) and scan_of(stmt) is not None)

    def has_work(self, stmts: Iterable[loops.Stmt]) -> bool:
        """Tells whether there is work for the device in statements."""
        for stmt in stmts:
            match stmt:
                case loops.Loop() if self.nest(stmt) is not None:
                    if is_worth_it(stmt):
                        return True
                case loops.Loop():
                    if not self.stays_on_host(stmt) and self.has_work(stmt.stmts):
                        return True
                case _ if self.is_work(stmt):
                    return True
                case _:
                    if any(map(self.has_work, blocks(stmt))):
                        return True
        return False


def is_worth_it(loop: loops.Loop) -> bool:
    """Tells whether the iterations of a loop, with those of all loops inside it, may be many."""
    total = 1
    for stmt in walk([loop]):
        if stmt.IS.nest == "loop":
            iterations = known_iterations(stmt) if isinstance(stmt, loops.Loop) else None
            if iterations is None:
                return True
            total *= max(iterations, 1)
    return total >= FEW


def _hands_on(slots: Iterable[loops.Slot]) -> bool:
    return any(isinstance(slot, loops.Buffer) and is_number(slot.dtype) for slot in slots)


def launching(program: loops.Program, deterministic: bool = False) -> Launching:
    """Finds the parts of a program that launch kernels; deterministic: as in `Launching`."""
    launches = Launching(deterministic)
    while True:
        names = [n for n, f in program.functions.items() if n in launches.functions or launches.has_work(f.body.stmts)]
        if len(names) == len(launches.functions):
            return launches
        launches.functions = frozenset(names)


# ---- arrays ----------------------------------------------------------------------------------------------------------
@dataclass(slots=True)
class _Classes:
    """Arrays that may be the same, by one that stands for them."""

    parents: dict[loops.Buffer, loops.Buffer] = field(default_factory=dict)
    device: set[loops.Buffer] = field(default_factory=set)

    def find(self, buffer: loops.Buffer) -> loops.Buffer:
        while (parent := self.parents.get(buffer)) is not None:
            buffer = parent
        return buffer

    def join(self, a: loops.Value, b: loops.Value) -> None:
        if isinstance(a, loops.Buffer) and isinstance(b, loops.Buffer):
            x, y = self.find(a), self.find(b)
            if x is not y:
                self.parents[y] = x
                if y in self.device:
                    self.device.add(x)

    def put(self, values: Iterable[loops.Value]) -> None:
        """These live on the device."""
        self.device.update(self.find(v) for v in values if isinstance(v, loops.Buffer) and is_number(v.dtype))


@dataclass(frozen=True, slots=True)
class Spaces:
    """The memory in which each array of a function lives."""

    classes: _Classes

    def on_device(self, value: loops.Value) -> bool:
        """Tells whether an array lives on the device."""
        return (
            isinstance(value, loops.Buffer)
            and is_number(value.dtype)
            and self.classes.find(value) in self.classes.device
        )

    def group(self, buffer: loops.Buffer) -> loops.Buffer:
        """The array that stands for all that may be the same as one, or parts of it."""
        return self.classes.find(buffer)


def spaces_of(f: loops.Function, launches: Launching) -> Spaces:
    """Decides where the arrays of a function that launches kernels live."""
    classes = _Classes()
    classes.put((*f.params, *[out.buffer for out in f.outs], *f.body.results))
    few: list[loops.Loop] = []  # whose iterations are few: they are the device's too if it has some of their arrays

    def statements(stmts: Sequence[loops.Stmt]) -> None:
        for stmt in stmts:
            statement(stmt)

    def join(values: Sequence[loops.Value], slots: Sequence[loops.Value]) -> None:
        """Values that become slots."""
        for value, slot in zip(values, slots, strict=True):
            classes.join(value, slot)

    def statement(stmt: loops.Stmt) -> None:
        if isinstance(stmt, loops.Slice):
            classes.join(stmt.source, stmt.result)
            return
        if launches.stays_on_host(stmt):
            if isinstance(stmt, loops.Loop) and launches.nest(stmt) is not None:
                few.append(stmt)
            return
        match stmt:
            case loops.Product(a, b, c):
                classes.put((a.buffer, b.buffer, c.buffer))
            case loops.Invoke(_, args, outs, results):
                classes.put((*args, *outs, *results))
            case loops.CallC(_, args):
                classes.put(args)
            case loops.Loop():
                if launches.nest(stmt) is not None:
                    classes.put(captures((stmt,), ()))
                else:
                    statements(stmt.stmts)
            case loops.For() if scan_of(stmt) is not None:
                classes.put(captures((stmt,), ()))
            case loops.InOrder():
                join(stmt.init, stmt.params)
                for inner in blocks(stmt):
                    statements(inner)
                join(stmt.following, stmt.params)
                join(stmt.following, stmt.results)
            case loops.Branch():
                for arm in (stmt.then, stmt.otherwise):
                    statements(arm.stmts)
                    join(arm.results, stmt.results)
            case _:
                raise AssertionError(f"{type(stmt).__name__} on a device")

    statements(f.body.stmts)
    spaces = Spaces(classes)
    changed = True
    while changed:
        changed = False
        for loop in few:
            arrays = [v for v in captures((loop,), ()) if isinstance(v, loops.Buffer)]
            there = [spaces.on_device(v) for v in arrays]
            if any(there) and not all(there):
                classes.put(arrays)
                changed = True
    return spaces

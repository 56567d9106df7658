"""Plans loops over adjacent elements so that a thread reads and writes several of them at once.

t = &x[m*i + j]                 inside: t = a[k]            where a = &x[m*i + j …]
&y[m*i + j] = s * t                     b[k] = s * t        and &y[m*i + j …] = b

Prints code in which a thread handles several elements at once: it reads them all, computes each, writes them all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass

from dlang.codegen import loops
from dlang.codegen.cuda import scalars
from dlang.codegen.cuda.statements import Printer, left
from dlang.codegen.loops import Load, Store
from dlang.codegen.traverse import bound_by, captures, walk
from dlang.codegen.vectorize import known_iterations, work
from dlang.ir.anf import Size, Var
from dlang.ir.terms import WIDTHS

BYTES = 16  # that a thread reads or writes at once
MOST = 8  # elements
CODE = 400  # about as many operations may the elements of a thread have in all: each is text for the compiler

Place = tuple[loops.Buffer, Size]
"""A part of memory side by side: a buffer, and the offset of what the first iteration (whose number is 0) finds
there."""


@dataclass(frozen=True, slots=True)
class Plan:
    """The statements of an iteration, sorted: `before`, the same in all iterations, then what each iteration has
    `inside`.

    loads, stores: those of them that are side by side from iteration to iteration. width: how many iterations a thread
    does at once. careful: whether only iterations that there are may be done, as they do more than compute.
    """

    var: Var
    width: int
    before: tuple[loops.Stmt, ...]
    inside: tuple[loops.Stmt, ...]
    loads: tuple[loops.Load, ...]
    stores: tuple[loops.Store, ...]
    careful: bool

    @property
    def accesses(self) -> tuple[loops.Load | loops.Store, ...]:
        """Returns the accesses to adjacent elements."""
        return (*self.loads, *self.stores)

    @property
    def needed(self) -> dict[Place, loops.Load | loops.Store]:
        """Returns the accesses that read memory: loads, and stores that combine with the element stored before."""
        elements: tuple[loops.Load | loops.Store, ...] = (*self.loads, *[s for s in self.stores if s.monoid != "set"])
        return {self.place(access): access for access in elements}

    @property
    def places(self) -> tuple[Place, ...]:
        return tuple(dict.fromkeys(map(self.place, self.accesses)))

    def place(self, access: loops.Load | loops.Store) -> Place:
        return access.buffer, access.offset.without(self.var)


def planned(
    loop: loops.Loop, joined: frozenset[loops.Store], uncertain: frozenset[Var], carried: Sequence[Var] = ()
) -> Plan | None:
    """The iterations of a loop that is straight code; None of any other.

    joined: stores that combine with what other threads store. uncertain: what is loaded and may not have been written.
    carried: what else is not the same in all iterations. Nothing may be loaded after what is stored, so that all loads
    of several iterations can come first.
    """
    varying: set[loops.Slot] = {loop.var, *carried}
    before: list[loops.Stmt] = []
    inside: list[loops.Stmt] = []
    stored = False
    for stmt in loop.stmts:
        match stmt:
            case loops.At():
                continue
            case loops.Store():
                stored = True
            case loops.Branch():
                if not all(s.IS.straight or isinstance(s, loops.Branch) for s in walk((stmt,))):
                    return None
            case _ if not (stmt.IS.straight or isinstance(stmt, loops.Branch)):
                return None
        if stored and any(isinstance(s, loops.Load) for s in walk((stmt,))):
            return None
        if isinstance(stmt, loops.Store) or any(slot in varying for slot in captures((stmt,), ())):
            inside.append(stmt)
            varying.update(bound_by(stmt))
        else:
            before.append(stmt)
    loads = tuple(
        s
        for s in inside
        if isinstance(s, loops.Load) and s.var not in uncertain and _is_contiguous(s, loop.var, varying)
    )
    roots = root_of((*before, *inside))
    all_stores = [s for s in inside if isinstance(s, loops.Store)]
    stores = tuple(
        s
        for s in all_stores
        if s not in joined
        and _is_contiguous(s, loop.var, varying)
        and sum(roots(other.buffer) is roots(s.buffer) for other in all_stores) == 1
    )
    single = len(loads) + len(stores)
    others = sum(isinstance(s, loops.Load | loops.Store) for s in walk(inside)) - single
    careful = others > 0 or bool(loop.reductions)
    return Plan(loop.var, _width(loop, inside, (*loads, *stores)), tuple(before), tuple(inside), loads, stores, careful)


def _is_contiguous(access: loops.Load | loops.Store, var: Var, varying: Set[loops.Slot]) -> bool:
    if access.buffer in varying:
        return False
    try:
        step = access.offset.coefficient(var)
    except ValueError:
        return False
    return step == 1 and not any(atom in varying for atom in access.offset.without(var).atoms())


def _width(loop: loops.Loop, inside: Sequence[loops.Stmt], accesses: Sequence[loops.Load | loops.Store]) -> int:
    """Returns how many iterations fill the bytes that are moved at once, with the widest elements; fewer if costly."""
    if not accesses:
        return 1
    width = min(BYTES // max(WIDTHS[a.buffer.dtype] for a in accesses), MOST)
    while width > 1 and width * work(inside) > CODE:
        width //= 2
    count = known_iterations(loop)
    return width if count is None or count >= 2 * width else 1


def root_of(stmts: Sequence[loops.Stmt]) -> Roots:
    return Roots({s.result: s.source for s in walk(stmts) if isinstance(s, loops.Slice)})


@dataclass(frozen=True, slots=True)
class Roots:
    """Maps a buffer to the one that it is a part of."""

    sources: dict[loops.Buffer, loops.Buffer]

    def __call__(self, buffer: loops.Buffer) -> loops.Buffer:
        while buffer in self.sources:
            buffer = self.sources[buffer]
        return buffer


def accesses(stmts: Sequence[loops.Stmt]) -> Iterator[loops.Load | loops.Store]:
    return (s for s in walk(stmts) if isinstance(s, loops.Load | loops.Store))


# ---- their text ------------------------------------------------------------------------------------------------------
def read(p: Printer, access: Load | Store, array: str, many: str, head: str = "") -> None:
    """Fills an array of registers; the loop's variable stands for the first iteration. head: a condition."""
    p.line(f"{head}dl_load({array}, {p.names[access.buffer]}, {p.size(access.offset)}, {many});")


def write(p: Printer, store: Store, array: str, many: str, head: str = "") -> None:
    p.line(f"{head}dl_store({p.names[store.buffer]}, {p.size(store.offset)}, {array}, {many});")


def declare(p: Printer, place: Place, shape: str) -> str:
    """An array of registers for elements as they are in memory."""
    name = p.fresh("a")
    p.line(f"{scalars.memory_type(place[0].dtype)} {name}{shape};")
    return name


def compute(
    p: Printer, plan: Plan, first: str, many: str, arrays: Mapping[Place, str], more: Callable[[], None]
) -> None:
    """The iterations from `first` on, whose elements are in arrays. more: what else is done in each."""
    for access in plan.accesses:
        p.held[access] = f"{arrays[plan.place(access)]}[k]"
    p.line("#pragma unroll")
    with p.block(f"for (i32 k = 0; k < {plan.width}; ++k)" + (f" if (k < {many})" if plan.careful else "")):
        p.let(plan.var, f"{first} + k")
        p.statements(plan.inside)
        more()


def at_once(p: Printer, plan: Plan, first: str, high: str, more: Callable[[], None] = lambda: None) -> None:
    """Prints as many iterations as the plan is for, from `first` on and below `high`."""
    p.statements(plan.before)
    p.names[plan.var] = first
    many = p.fresh("n")
    p.line(f"const i32 {many} = dl_left({left(first, high)});")
    shape = f"[{plan.width}]"
    arrays = {place: declare(p, place, shape) for place in plan.places}
    for place, access in plan.needed.items():
        read(p, access, arrays[place], many)
    compute(p, plan, first, many, arrays, more)
    p.names[plan.var] = first
    for store in plan.stores:
        write(p, store, arrays[plan.place(store)], many)

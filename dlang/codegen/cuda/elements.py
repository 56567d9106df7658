"""Prints code in which a thread handles several elements at once: it reads them all, computes each, writes them all."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from dlang.codegen.cuda import scalars
from dlang.codegen.cuda.statements import Printer, left
from dlang.codegen.cuda.vectors import Place, Plan
from dlang.codegen.loops import Load, Store


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

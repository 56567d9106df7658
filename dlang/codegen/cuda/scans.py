"""Loops in order that keep a running total, as in a cumulative sum: blocks have parts of the iterations.

A first kernel has each block add up its part, and a second one begins each part with what comes before: a block goes
over its iterations in pieces, each thread adds up some neighbouring ones, and the totals of threads are scanned in
between.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dlang.codegen.abi import BLOCK, SHARED, WARP
from dlang.codegen.cuda import scalars
from dlang.codegen.cuda.nests import can_run, is_number
from dlang.codegen.cuda.statements import Printer, accumulators, behind, distance, fold_into, totals_of
from dlang.codegen.cuda.vectors import Plan, compute, declare, planned, read, root_of, write
from dlang.codegen.loops import Buffer, Compute, For, Load, Loop, Reduction, Stmt, Store
from dlang.codegen.traverse import bound_by, captures
from dlang.ir.anf import HALF, Atom, Var
from dlang.ir.types import dtype_of
from dlang.ops.monoids import COMBINED_BY

MOST = (SHARED - 1) // (8 * (BLOCK + WARP))
"""Totals: each thread of a block, and each of its warps, leaves a word of each in the memory that they share."""


@dataclass(frozen=True, slots=True)
class Scan:
    """A loop whose totals are combinations of what its iterations give. own: what computes that, before any total is
    used.

    totals: for each variable that the loop carries what an iteration adds to it.
    """

    loop: For
    own: tuple[Stmt, ...]
    totals: tuple[Reduction, ...]

    @property
    def params(self) -> list[Var]:
        return [param for param in self.loop.params if isinstance(param, Var)]

    def iteration(self, reductions: Sequence[Reduction] = ()) -> Loop:
        """All that an iteration does, as if iterations were independent."""
        f = self.loop
        return Loop(f.index, (f.low,), (f.high,), f.body.stmts, tuple(reductions))


def scan_of(stmt: For) -> Scan | None:
    """A loop in order as a scan; None if its iterations depend on each other in another way."""
    params = [param for param in stmt.params if isinstance(param, Var)]
    if stmt.early or not 0 < len(params) <= MOST or len(params) != len(stmt.params):
        return None
    if any(not is_number(dtype_of(param)) or dtype_of(param) in HALF for param in params):
        return None
    if not all(s.IS.straight or isinstance(s, Store) for s in stmt.body.stmts):
        return None
    if not all(map(can_run, stmt.body.stmts)) or not _keeps_apart(stmt):
        return None
    later = set(params)
    independent: list[Stmt] = []
    computed: dict[Var, Compute] = {}
    for s in stmt.body.stmts:
        if isinstance(s, Compute):
            computed[s.var] = s
        if any(slot in later for slot in captures((s,), ())):
            later.update(v for v in bound_by(s) if isinstance(v, Var))
        elif not isinstance(s, Store):
            independent.append(s)
    totals: list[Reduction] = []
    for param, result in zip(params, stmt.body.results, strict=True):
        added = _added(computed.get(result) if isinstance(result, Var) else None, param)
        if added is None or added[1] in later or not isinstance(result, Var):
            return None
        totals.append(Reduction(added[0], result, added[1]))
    scan = Scan(stmt, tuple(independent), tuple(totals))
    return None if planned(scan.iteration(scan.totals), frozenset(), frozenset(), scan.params) is None else scan


def _added(stmt: Compute | None, param: Var) -> tuple[str, Atom] | None:
    """Returns how a statement adds to a total: the monoid and the value added."""
    match stmt:
        case Compute(_, name, (x, y)) if name in COMBINED_BY and (x is param) != (y is param):
            return COMBINED_BY[name], y if x is param else x
        case _:
            return None


def _keeps_apart(stmt: For) -> bool:
    """Tells whether no iteration reads what another stores, and each stores to elements of its own."""
    roots = root_of(stmt.body.stmts)
    inside = [v for s in stmt.body.stmts for v in bound_by(s) if isinstance(v, Var)] + list(stmt.params)
    stores = [s for s in stmt.body.stmts if isinstance(s, Store)]
    looked_at = [roots(s.buffer) for s in stmt.body.stmts if isinstance(s, Load)]
    for store in stores:
        root = roots(store.buffer)
        if store.monoid != "set" or root is not store.buffer or any(root is other for other in looked_at):
            return False
        if sum(roots(other.buffer) is root for other in stores) > 1:
            return False
        try:
            step = store.offset.coefficient(stmt.index)
        except ValueError:
            return False
        base = store.offset.without(stmt.index)
        if step.constant in (None, 0) or base.mentions([v for v in inside if isinstance(v, Var)]):
            return False
    return True


def plan_of_scan(scan: Scan, uncertain: frozenset[Var]) -> Plan:
    """Returns the plan by which a thread runs several iterations at once."""
    plan = planned(scan.iteration(scan.totals), frozenset(), uncertain, scan.params)
    assert plan is not None, "otherwise it is no scan"
    return plan


def parts_text(p: Printer, scan: Scan, plan: Plan, parts: Sequence[Buffer], structs: list[str], name: str) -> None:
    """The kernel that adds up the parts of blocks."""
    with p.block("for (dl_index t = blockIdx.x; t < iterations; t += gridDim.x)"):
        first, last = _part(p, scan, plan)
        totals = totals_of(p, scan.totals, name, structs)
        index, type = p.name(scan.loop.index), p.type(scan.loop.index)
        with p.block(
            f"for ({type} {index} = {first} + (i32)threadIdx.x; {index} < {last}; {index} += (i32)blockDim.x)"
        ):
            p.statements(scan.own)
            p.accumulate(scan.totals, totals)
        p.line(f"dl_fold_group({fold_into(totals)}, (i32)blockDim.x);")
        for part, total in zip(parts, totals, strict=True):
            p.line(f"if (threadIdx.x == 0) {p.names[part]}[t] = {scalars.encode(total, part.dtype)};")


def scan_text(
    p: Printer, scan: Scan, plan: Plan, buffers: tuple[Sequence[Buffer], Sequence[Buffer]],
    structs: list[str], name: str,
) -> None:  # fmt: skip
    """The kernel that goes over the parts again, with what comes before.

    buffers: where what the parts add up to is, and where the totals of all iterations go.
    """
    parts, outs = buffers
    with p.block("for (dl_index t = blockIdx.x; t < iterations; t += gridDim.x)"):
        first, last = _part(p, scan, plan)
        before = totals_of(p, scan.totals, name, structs)
        with p.block("for (dl_index b = threadIdx.x; b < t; b += blockDim.x)"):
            part = p.fresh("a")
            p.line(f"{name} {part};")
            for buffer, total in zip(parts, before, strict=True):
                p.line(f"{part}.{total.partition('.')[2]} = {p.names[buffer]}[b];")
            p.line(f"{fold_into(before)}.join({part});")
        p.line(f"dl_fold_group({fold_into(before)}, (i32)blockDim.x);")
        carried = p.fresh("a")
        p.line(f"{name} {carried};")
        for begin, total in zip(scan.loop.init, before, strict=True):
            p.line(f"{carried}.{total.partition('.')[2]} = {p.value(begin)};")
        p.line(f"{carried}.join({fold_into(before)});")
        _pieces(p, scan, plan, (first, last), carried, name)
        for out, total in zip(outs, before, strict=True):
            value = scalars.encode(f"{carried}.{total.partition('.')[2]}", out.dtype)
            p.line(f"if (t == iterations - 1 && threadIdx.x == 0) {p.names[out]}[0] = {value};")


def _pieces(p: Printer, scan: Scan, plan: Plan, ends: tuple[str, str], carried: str, name: str) -> None:
    """The iterations of a block, as many at a time as its threads do at once."""
    width, fields = plan.width, [f"a{k}" for k in range(len(scan.totals))]
    first, many, mine = p.fresh("j"), p.fresh("n"), p.fresh("a")
    p.line("#pragma unroll 1")
    type = p.type(scan.loop.index)
    with p.block(f"for ({type} base = {ends[0]}; base < {ends[1]}; base += (i32)blockDim.x * {width})"):
        p.line(f"const {type} {first} = base + (i32)threadIdx.x * {width};")
        p.line(f"const i32 {many} = dl_left({ends[1]} - {first});")
        p.statements(plan.before)
        p.names[plan.var] = first
        arrays = {place: declare(p, place, f"[{width}]") for place in plan.places}
        for place, access in plan.needed.items():
            read(p, access, arrays[place], many)
        p.line(f"{name} {mine};")
        before = Plan(plan.var, width, (), scan.own, plan.loads, (), True)
        compute(p, before, first, many, arrays, lambda: p.accumulate(scan.totals, [f"{mine}.{f}" for f in fields]))
        p.line(f"dl_scan_block({mine}, {carried});")

        def follow() -> None:
            for field, total in zip(fields, scan.totals, strict=True):
                p.line(f"{mine}.{field} = {p.names[total.result]};")

        p.names.update(zip(scan.params, [f"{mine}.{f}" for f in fields], strict=True))
        compute(p, plan, first, many, arrays, follow)
        p.names[plan.var] = first
        for store in plan.stores:
            write(p, store, arrays[plan.place(store)], many)


def _part(p: Printer, scan: Scan, plan: Plan) -> tuple[str, str]:
    """The iterations of a block, which begin with a whole vector."""
    low, high = p.size(scan.loop.low), p.size(scan.loop.high)
    each, first, last = p.fresh("n"), p.fresh("r"), p.fresh("r")
    type = p.type(scan.loop.index)
    p.line(f"const {type} {each} = (({distance(low, high)}) / {plan.width} / iterations + 1) * {plan.width};")
    p.line(f"const {type} {first} = {behind(low, f't * {each}')};")
    p.line(f"const {type} {last} = dl_minimum({type}({high}), {type}({first} + {each}));")
    return first, last


def parts_of_scan(scan: Scan) -> tuple[Buffer, ...]:
    return tuple(Buffer("parts", dtype_of(var)) for var, _ in accumulators(scan.totals))

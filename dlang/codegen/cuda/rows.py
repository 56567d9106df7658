"""Rows as text: a warp or a block does an iteration, and its threads share the loops in it.

Loops over the same range give each thread the same elements, so that what one of them reads or writes, the next finds
in registers: a row that the threads can keep is read once and written once. Of longer rows all loops go over memory.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from dlang.codegen.abi import BLOCK, WARP
from dlang.codegen.cuda import scalars
from dlang.codegen.cuda.columns import Split
from dlang.codegen.cuda.indices import NARROW, WIDE
from dlang.codegen.cuda.nests import Nest, iterations_inside, shared_levels
from dlang.codegen.cuda.statements import (
    Printer,
    accumulators,
    behind,
    distance,
    fold_into,
    left,
    place_levels,
    quotient,
    totals_of,
)
from dlang.codegen.cuda.vectors import Place, Plan, Roots, accesses, compute, declare, planned, read, write
from dlang.codegen.loops import Buffer, Load, Loop, Stmt, Store
from dlang.codegen.traverse import bound_by, walk
from dlang.codegen.vectorize import known_iterations, work
from dlang.identity import ByIdentity
from dlang.ir.anf import Size, Var
from dlang.ir.terms import WIDTHS
from dlang.ops.dtypes import register_dtype

MOST = 2  # vectors of a row that a thread keeps: longer rows have larger blocks
REGISTERS = 48  # of a thread, for the elements that it keeps
CODE = 1200  # operations of all loops for the elements of a thread
LARGEST = 512
ADDED = 4  # arrays that rows add to, of which a thread keeps its elements
EACH = 8  # elements that a thread should have, where none are kept

Range = tuple[tuple[Size, ...], tuple[Size, ...]]


@dataclass(frozen=True, slots=True)
class Shares:
    """How the threads of a row share its loops.

    plans: of its loops, of which several may have the same variable. range: of those that give a thread the same
    elements: `vectors` times as many as the plan of each says at once, which is `each`. longest: the ranges of
    loops right inside each other, by which a row is for a warp or for a block; None where a warp does it. largest:
    how many threads a block may have, for which there are enough registers. added: what all rows add to the same
    elements.
    """

    plans: ByIdentity[Loop, Plan]
    range: Range | None
    vectors: int
    each: int
    longest: tuple[Range, ...] | None
    largest: int
    added: tuple[tuple[Plan, Store], ...] = ()

    @property
    def share(self) -> int:
        """How many elements a thread should have, before a block does a row instead of a warp."""
        return self.each if self.each > self.vectors else max(self.each, EACH)

    def keeps(self, loop: Loop) -> bool:
        return loop in self.plans and (loop.lows, loop.highs) == self.range


def shares_of(nest: Nest, uncertain: frozenset[Var]) -> Shares:
    """How the loops of a nest are divided among the threads that do a row together."""
    loops = [s for s in nest.stmts if isinstance(s, Loop)]
    plans = ByIdentity((s, plan) for s in loops if (plan := planned(s, nest.joined, uncertain)) is not None)
    ranges = Counter((s.lows, s.highs) for s in loops if s in plans)
    common = ranges.most_common(1)[0][0] if ranges else None
    members = [s for s in loops if s in plans and (s.lows, s.highs) == common]
    vectors, each, largest = 1, EACH, BLOCK
    if members:
        width = min(plans[s].width for s in members)
        for s in members:
            plans[s] = replace(plans[s], width=width)
        places = {place for s in members for place in plans[s].places}
        registers = width * sum(max(WIDTHS[buffer.dtype] // 4, 1) for buffer, _ in places)
        code = width * sum(work(plans[s].inside) for s in members)
        while vectors < MOST and 2 * vectors * registers <= REGISTERS and 2 * vectors * code <= CODE:
            vectors *= 2
        each = vectors * width
        if all(WIDTHS[buffer.dtype] <= 4 for buffer, _ in places):
            largest = LARGEST
    inside = {level.var for level in nest.levels} | {v for s in walk(nest.stmts) for v in bound_by(s)}
    longest = _longest(nest, members or loops, [v for v in inside if isinstance(v, Var)])
    shares = Shares(plans, common, vectors, each, None, largest)
    if longest is None:
        return shares
    if (
        all(known_iterations(level) is not None for level in longest)
        and iterations_inside(longest) <= WARP * shares.share
    ):
        return shares
    added: list[tuple[Plan, Store]] = []
    for plan in [plans[s] for s in members]:
        for store in plan.inside:
            if isinstance(store, Store) and store in nest.joined and store.buffer not in inside:
                if not store.offset.mentions([v for v in inside if isinstance(v, Var) and v is not plan.var]):
                    added.append((plan, store))
    ranges_of = tuple([(level.lows, level.highs) for level in longest])
    return Shares(plans, common, vectors, each, ranges_of, largest, tuple(added[:ADDED]))


def _longest(nest: Nest, loops: Sequence[Loop], inside: Sequence[Var]) -> tuple[Loop, ...] | None:
    """Finds the loop that seems to be longest of those that are alike in all rows, and the loops right inside it."""
    levels_of_loops = [shared_levels(loop, nest.spread[loop]) for loop in loops]
    same = [
        levels
        for levels in levels_of_loops
        if not any(size.mentions(inside) for level in levels for size in (*level.lows, *level.highs))
    ]
    return max(same, key=iterations_inside, default=None)


def _product(p: Printer, ranges: Sequence[Range]) -> str:
    """How many iterations loops right inside each other have."""
    factors = [distance(p.bound("dl_maximum", lows), p.bound("dl_minimum", highs)) for lows, highs in ranges]
    if len(factors) == 1:
        return factors[0]
    type = NARROW if all(p.indices.has((*lows, *highs)) for lows, highs in ranges) else WIDE
    return " * ".join([f if f.isdigit() else f"dl_maximum({type}({f}), {type}(0))" for f in factors])


@dataclass(slots=True)
class Rows:
    """The text of a row.

    arrays: what the threads have in registers. kept: whether that is so, as an expression. met: what of arrays has been
    looked at and stored since the threads met: each with whose elements these are. sums: what all rows add to the same
    elements of arrays, which each thread adds up first: of each loop the stores, with where that is kept. split: of
    long rows that several blocks share.
    """

    p: Printer
    nest: Nest
    shares: Shares
    structs: list[str]
    name: str
    roots: Roots
    arrays: dict[Place, str] = field(default_factory=dict)
    kept: str | None = None
    met: set[tuple[Buffer, object, bool]] = field(default_factory=set)
    sums: list[tuple[Plan, Store, str]] = field(default_factory=list)
    split: Split | None = None

    def heads(self) -> None:
        """Prints the setup before the first row: the threads that share a row, and registers for sums over rows."""
        p, shares = self.p, self.shares
        if shares.longest is None:
            p.line("const i32 width = DL_WARP, rank = (i32)threadIdx.x % width;")
            return
        extent = _product(p, shares.longest)
        p.line(f"const i32 width = dl_width({extent}, {shares.share}), rank = (i32)threadIdx.x % width;")
        if shares.longest != (shares.range,) or self.split is not None:
            return
        self.kept = p.fresh("kept")
        p.line(f"const bool {self.kept} = {extent} <= width * {shares.each};")
        for plan, store in shares.added:
            name, dtype = p.fresh("a"), store.buffer.dtype
            shape = f"[{shares.vectors}][{plan.width}]"
            p.line(f"{register_dtype(dtype)} {name}{shape};")
            p.line("#pragma unroll")
            start = scalars.first(store.monoid, dtype)
            p.line(f"for (i32 k = 0; k < {shares.each}; ++k) {name}[k / {plan.width}][k % {plan.width}] = {start};")
            p.collected[store] = self.kept, f"{name}[q][k]"
            self.sums.append((plan, store, name))

    def ends(self) -> None:
        """After the last row: what has been added up goes to memory."""
        p, shares = self.p, self.shares
        if not self.sums or shares.longest is None:
            return
        low, high = (p.bound(*ends) for ends in zip(("dl_maximum", "dl_minimum"), shares.longest[0], strict=True))
        with p.block(f"if ({self.kept} && dl_first_row(width) < iterations)"):
            p.line("#pragma unroll")
            with p.block(f"for (i32 k = 0; k < {shares.each}; ++k)"):
                for plan, store, name in self.sums:
                    width, place = plan.width, p.fresh("j")
                    element = f"(k / {width} * width + rank) * {width} + k % {width}"
                    p.line(f"const {p.type(plan.var)} {place} = {behind(low, element)};")
                    p.names[plan.var] = place
                    target = f"DL_AT({p.names[store.buffer]}, {p.size(store.offset)})"
                    value = f"{name}[k / {width}][k % {width}]"
                    p.line(f"if ({place} < {high}) dl_atomic_{store.monoid}({target}, {value});")

    def row(self) -> None:
        p = self.p
        self.arrays, self.met = {}, set()
        if self.shares.longest != (self.shares.range,) or self.split is not None:
            self.kept = None
        for number, stmt in enumerate(self.nest.stmts):
            self.meet(number, stmt)
            if isinstance(stmt, Loop):
                self.loop(stmt, self.nest.stmts[number + 1 :])
                if self.split is not None:
                    self.leave(stmt, self.split)
            else:
                p.alone = "rank == 0"
                p.statement(stmt)
                p.alone = None
            self.forget(stmt)

    def leave(self, loop: Loop, split: Split) -> None:
        """Prints the end of a part of a row that several blocks share: each stores its totals in memory."""
        p, count = self.p, self.p.names[split.count]
        with p.block(f"if ({count} > 1)"):
            for part, (var, _) in zip(split.parts, accumulators(loop.reductions), strict=True):
                value = scalars.encode(p.names[var], part.dtype)
                p.line(f"if (rank == 0) {p.names[part]}[turn * {quotient('iterations', count)} + row] = {value};")
            p.line("continue;")

    def range(self, loop: Loop) -> tuple[str, str]:
        """The bounds of a loop; of one that several blocks share those of a part, which begins with a whole vector."""
        p = self.p
        low, high = p.range(loop)
        if self.split is None:
            return low, high
        count, width = p.names[self.split.count], self.shares.plans[loop].width
        each, first, last = p.fresh("n"), p.fresh("r"), p.fresh("r")
        p.line(f"const dl_index {each} = (({distance(low, high)}) / {width} / {count} + 1) * {width};")
        p.line(f"const dl_index {first} = {behind(low, f'turn * {each}')};")
        p.line(f"const dl_index {last} = dl_minimum(dl_index({high}), dl_index({first} + {each}));")
        return first, last

    def meet(self, number: int, stmt: Stmt) -> None:
        """Has the threads wait for each other where a statement looks at what others have stored, or stores that."""
        touched: set[tuple[Buffer, object, bool]] = set()
        own_places = self.own(stmt)
        for access in accesses((stmt,)):
            stores = isinstance(access, Store)
            whose: object
            if access in self.nest.joined:
                whose = "joined"
            elif isinstance(stmt, Loop):
                whose = own_places.get(access, number)
            else:
                whose = "one" if stores else "all"
            touched.add((self.roots(access.buffer), whose, stores))
        for buffer, whose, stores in touched:
            if any(b is buffer and w != whose and (s or stores) for b, w, s in self.met):
                self.p.line("dl_meet(width);")
                self.met = set()
                break
        self.met |= touched

    def forget(self, stmt: Stmt) -> None:
        """Drops registers that hold elements of arrays in which a statement stores."""
        own_places = self.own(stmt)
        for store in accesses((stmt,)):
            if isinstance(store, Store):
                for place in [q for q in self.arrays if self.roots(q[0]) is self.roots(store.buffer)]:
                    if place != own_places.get(store):
                        del self.arrays[place]

    def own(self, stmt: Stmt) -> dict[Load | Store, Place]:
        """The accesses of a loop in which each thread has elements of its own, the same as in other such loops."""
        if not isinstance(stmt, Loop) or not self.shares.keeps(stmt):
            return {}
        plan = self.shares.plans[stmt]
        return {access: plan.place(access) for access in plan.accesses}

    # ---- loops -------------------------------------------------------------------------------------------------------
    def loop(self, loop: Loop, following: Sequence[Stmt]) -> None:
        p = self.p
        totals: list[str] = []
        if loop.reductions:
            totals = totals_of(p, loop.reductions, f"{self.name}_totals{len(self.structs)}", self.structs)
        plan = self.shares.plans.get(loop)
        if plan is None:
            levels = shared_levels(loop, self.nest.spread[loop])
            total, turn = p.fresh("n"), p.fresh("u")
            type = NARROW if all(level.var in p.indices for level in levels) else WIDE
            p.line(f"const {type} {total} = {_product(p, [(level.lows, level.highs) for level in levels])};")
            with p.block(f"for ({type} {turn} = rank; {turn} < {total}; {turn} += width)"):
                place_levels(p, levels, turn, type)
                p.statements(levels[-1].stmts)
                p.accumulate(loop.reductions, totals)
        else:
            self.elements(loop, plan, totals, following)
        if loop.reductions:
            p.line(f"dl_fold_group({fold_into(totals)}, width);")
            p.names.update((var, total) for (var, _), total in zip(accumulators(loop.reductions), totals, strict=True))

    def elements(self, loop: Loop, plan: Plan, totals: Sequence[str], following: Sequence[Stmt]) -> None:
        """A loop of which each thread does several iterations at once."""
        p, shares = self.p, self.shares
        p.statements(plan.before)
        low, high = self.range(loop)
        each = shares.vectors * plan.width
        known = self.arrays if shares.keeps(loop) else {}
        if shares.keeps(loop) and self.kept is None:
            self.kept = p.fresh("kept")
            p.line(f"const bool {self.kept} = {distance(low, high)} <= width * {each};")
        shape = f"[{shares.vectors}][{plan.width}]"
        wanted = plan.needed
        arrays = {place: known[place] for place in wanted if place in known}
        arrays |= {place: declare(p, place, shape) for place in plan.places if place not in arrays}
        first, many = p.fresh("j"), p.fresh("n")
        p.line("#pragma unroll 1")
        type = p.type(loop.var)
        with p.block(f"for ({type} base = {low}; base < {high}; base += width * {each})"):

            def each_vector() -> str:
                p.line("#pragma unroll")
                return f"for (i32 q = 0; q < {shares.vectors}; ++q)"

            def position() -> None:
                p.line(f"const {type} {first} = base + (q * width + rank) * {plan.width};")
                p.line(f"const i32 {many} = dl_left({left(first, high)});")
                p.names[plan.var] = first

            if wanted:
                with p.block(each_vector()):
                    position()
                    for place, access in wanted.items():
                        unless_kept = f"!{self.kept} && " if place in known else ""
                        read(p, access, f"{arrays[place]}[q]", many, f"if ({unless_kept}{many}) ")
            with p.block(each_vector()):
                position()
                p.line(f"if (!{many}) break;")
                within = {place: f"{array}[q]" for place, array in arrays.items()}
                compute(p, plan, first, many, within, lambda: p.accumulate(loop.reductions, totals))
                p.names[plan.var] = first
                for store in plan.stores:
                    over = shares.keeps(loop) and self.is_overwritten(store, plan.place(store), following)
                    write(p, store, within[plan.place(store)], many, f"if (!{self.kept}) " if over else "")
        if shares.keeps(loop):
            self.arrays.update(arrays)

    def is_overwritten(self, store: Store, place: Place, following: Sequence[Stmt]) -> bool:
        """Tells whether all elements stored are stored again before they are read from memory."""
        for stmt in following:
            of_array = [a for a in accesses((stmt,)) if self.roots(a.buffer) is self.roots(store.buffer)]
            own_places = self.own(stmt)
            if any(own_places.get(a) != place for a in of_array):
                return False
            if any(isinstance(a, Store) for a in of_array):
                return True
        return False

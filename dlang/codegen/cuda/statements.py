"""The statements of an iteration as CUDA C, and the totals of reductions as a struct of C, whose parts are combined
between threads; see `device.cuh`. Names come in the order in which they are met, so equal nests have one text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from math import lcm

from dlang.codegen import loops
from dlang.codegen.cuda import scalars
from dlang.codegen.cuda.indices import NARROW, WIDE, Indices
from dlang.codegen.loops import Reduction
from dlang.identity import ByIdentity
from dlang.ir.anf import Atom, Lit, Size, Var
from dlang.ir.types import dtype_of
from dlang.ops.dtypes import register_dtype


def type_of(slot: loops.Slot) -> str:
    """The type of a parameter or a variable that is no index."""
    if isinstance(slot, loops.Buffer):
        return f"DL_GLOBAL({scalars.memory_type(slot.dtype)})"
    return register_dtype(dtype_of(slot))


def accumulators(reductions: Sequence[loops.Reduction]) -> list[tuple[Var, str]]:
    """Lists the variables in which reductions accumulate, each with its initial value."""
    out: list[tuple[Var, str]] = []
    for r in reductions:
        out.append((r.result, scalars.first(r.monoid, dtype_of(r.result))))
        if r.position is not None:
            out.append((r.position, "-1ll"))
    return out


@dataclass(slots=True)
class Printer:
    """The text under way.

    indices: which numbers are indices. joined: stores that combine with what other threads store.
    uncertain: what is loaded and may never have been written. leave: what a guard does that has failed. guards: those
    met so far. held: the elements that loads and stores find in registers. collected: where
    what joined stores add is kept for the time being, and the condition that it is. alone: where threads share a
    iteration, the condition that a thread is the one that stores for all.
    """

    indices: Indices
    joined: frozenset[loops.Store]
    uncertain: frozenset[Var]
    leave: str
    names: dict[loops.Slot, str] = field(default_factory=dict)
    lines: list[str] = field(default_factory=list)
    guards: list[loops.Assert] = field(default_factory=list)
    held: ByIdentity[loops.Load | loops.Store, str] = field(default_factory=ByIdentity)
    collected: dict[loops.Store, tuple[str, str]] = field(default_factory=dict)
    alone: str | None = None
    depth: int = 1
    count: int = 0

    # ---- lines and names ---------------------------------------------------------------------------------------------
    def line(self, text: str) -> None:
        self.lines.append("  " * self.depth + text)

    @contextmanager
    def block(self, head: str, tail: str = "}") -> Iterator[None]:
        """Encloses in braces the lines that are printed inside."""
        self.line(f"{head} {{")
        self.depth += 1
        yield
        self.depth -= 1
        self.line(tail)

    def fresh(self, stem: str = "v") -> str:
        self.count += 1
        return f"{stem}{self.count}"

    def name(self, slot: loops.Slot) -> str:
        """The name of what is bound here."""
        self.names[slot] = self.fresh("p" if isinstance(slot, loops.Buffer) else "v")
        return self.names[slot]

    def type(self, slot: loops.Slot) -> str:
        return NARROW if slot in self.indices else type_of(slot)

    def value(self, value: loops.Value) -> str:
        """A value of the program; one that is an index as what it is there, an i64."""
        if isinstance(value, Lit):
            return scalars.literal(value)
        return f"{WIDE}({self.names[value]})" if value in self.indices else self.names[value]

    def index(self, atom: Atom) -> str:
        """An atom that is an index."""
        return f"{NARROW}({atom.value})" if isinstance(atom, Lit) else self.names[atom]

    def let(self, slot: loops.Slot, text: str) -> None:
        constant = "" if isinstance(slot, loops.Buffer) else "const "  # which would be that of the elements
        self.line(f"{constant}{self.type(slot)} {self.name(slot)} = {text};")

    def variable(self, var: loops.Slot, text: str) -> str:
        """Declares a variable that is assigned later."""
        self.line(f"{type_of(var)} {self.name(var)} = {text};")
        return self.names[var]

    def size(self, size: Size) -> str:
        """A polynomial that is an offset or a bound: an index, unless it is made of other numbers."""
        return _rendered(size, self.names.__getitem__ if self.indices.has((size,)) else self.value)

    def bound(self, function: str, sizes: Sequence[Size]) -> str:
        """The largest or the smallest of some sizes."""
        text, type = self.size(sizes[0]), NARROW if self.indices.has(sizes) else WIDE
        for size in sizes[1:]:
            text = f"{function}({type}({text}), {type}({self.size(size)}))"
        return text

    def range(self, loop: loops.Loop) -> tuple[str, str]:
        """The bounds of a loop."""
        return self.bound("dl_maximum", loop.lows), self.bound("dl_minimum", loop.highs)

    # ---- statements --------------------------------------------------------------------------------------------------
    def statements(self, stmts: Sequence[loops.Stmt]) -> None:
        for stmt in stmts:
            self.statement(stmt)

    def statement(self, stmt: loops.Stmt) -> None:
        match stmt:
            case loops.Compute(var, name, args) if var in self.indices:
                self.let(var, scalars.primitive(name, (WIDE, WIDE), [self.index(arg) for arg in args]))
            case loops.Compute(var, name, args):
                exponent = _whole(args[1]) if name in ("pow", "powi") else None
                exponent = exponent if name == "powi" or exponent == 2 else None
                dtypes = tuple([dtype_of(a) for a in args])
                self.let(var, scalars.primitive(name, dtypes, [self.value(a) for a in args], exponent))
            case loops.Convert(var, arg) if var in self.indices:
                self.let(var, self.index(arg))
            case loops.Convert(var, arg):
                self.let(var, scalars.convert(self.value(arg), dtype_of(arg), dtype_of(var)))
            case loops.Evaluate(var, size):
                self.let(var, self.size(size) if var in self.indices else _rendered(size, self.value))
            case loops.Load(var, buffer, offset):
                element = self.held.get(stmt)
                if element is None:
                    pointer, place = self.names[buffer], self.size(offset)
                    element = f"DL_PERHAPS({pointer}, {place})" if var in self.uncertain else f"{pointer}[{place}]"
                self.let(var, scalars.decode(element, buffer.dtype))
            case loops.Store():
                self.store(stmt)
            case loops.Slice(result, source, offset):
                self.let(result, f"{self.names[source]} + ({self.size(offset)})")
            case loops.Assert():
                self.guard(stmt)
            case loops.Loop():
                self.loop(stmt)
            case loops.For():
                self.for_(stmt)
            case loops.While():
                self.while_(stmt)
            case loops.Branch():
                self.branch(stmt)
            case loops.Only(condition):
                self.line(f"if (!{self.value(condition)}) return;")
            case loops.At():
                pass
            case _:
                raise AssertionError(f"{type(stmt).__name__} in a kernel")

    def store(self, stmt: loops.Store) -> None:
        dtype, value = stmt.buffer.dtype, self.value(stmt.value)
        if stmt in self.joined:
            place = f"{self.names[stmt.buffer]}, {self.size(stmt.offset)}"
            text = f"dl_atomic_{stmt.monoid}(DL_AT({place}), {value});"
            if stmt in self.collected:
                condition, register = self.collected[stmt]
                text = (
                    f"if ({condition}) {register} = {scalars.combine(stmt.monoid, dtype, register, value)}; else {text}"
                )
        else:
            element = self.held.get(stmt) or f"{self.names[stmt.buffer]}[{self.size(stmt.offset)}]"
            if stmt.monoid != "set":
                old = self.fresh()
                known = f"const {register_dtype(dtype)} {old} = {scalars.decode(element, dtype)};"
                combined = scalars.encode(scalars.combine(stmt.monoid, dtype, old, value), dtype)
                text = f"{{ {known} {element} = {combined}; }}"
            else:
                text = f"{element} = {scalars.encode(value, dtype)};"
        self.line(text if self.alone is None else f"if ({self.alone}) {text}")

    def guard(self, stmt: loops.Assert) -> None:
        number = len(self.guards)
        self.guards.append(stmt)
        with self.block(f"if (!{self.value(stmt.condition)})"):
            words = [f"dl_word({self.value(v)})" for v in stmt.values if isinstance(v, Var | Lit)]
            values = "nullptr"
            if words:
                values = self.fresh("w")
                self.line(f"const i64 {values}[] = {{{', '.join(words)}}};")
            one = "" if self.alone is None else f"if ({self.alone}) "
            self.line(f"{one}dl_fail(run, t, site + {number}, {len(words)}, {values});")
            self.line(self.leave)

    # ---- control -----------------------------------------------------------------------------------------------------
    def loop(self, stmt: loops.Loop) -> None:
        """Iterations one by one."""
        for var, start in accumulators(stmt.reductions):
            self.variable(var, start)
        with self.iterations(stmt.var, *self.range(stmt)):
            self.statements(stmt.stmts)
            self.accumulate(stmt.reductions, [self.names[var] for var, _ in accumulators(stmt.reductions)])

    @contextmanager
    def iterations(self, var: Var, low: str, high: str, step: str = "++{}") -> Iterator[None]:
        name = self.name(var)
        end = self.fresh("n")
        head = f"for ({self.type(var)} {name} = {low}, {end} = {high}; {name} < {end}; {step.format(name)})"
        with self.block(head):
            yield

    def accumulate(self, reductions: Sequence[loops.Reduction], totals: Sequence[str]) -> None:
        """Adds what an iteration gives."""
        names = iter(totals)
        for r in reductions:
            total = next(names)
            value = self.value(r.value)
            if r.position is None:
                self.line(f"{total} = {scalars.combine(r.monoid, dtype_of(r.result), total, value)};")
                continue
            assert r.rank is not None
            place, rank = next(names), self.value(r.rank)
            with self.block(f"if ({scalars.better(r.monoid, value, rank, total, place)})"):
                self.line(f"{total} = {value};")
                self.line(f"{place} = {rank};")

    def for_(self, stmt: loops.For) -> None:
        state = self.state(stmt)
        with self.iterations(stmt.index, self.size(stmt.low), self.size(stmt.high)):
            self.follow(stmt, state)

    def while_(self, stmt: loops.While) -> None:
        state = self.state(stmt)
        with self.block("for (;;)"):
            self.statements(stmt.condition.stmts)
            self.line(f"if (!{self.value(stmt.condition.results[0])}) break;")
            self.follow(stmt, state)

    def state(self, stmt: loops.InOrder) -> list[str]:
        """The variables of a loop that carries values; afterwards they are its results."""
        first = [self.value(v) for v in stmt.init]
        state = [self.variable(param, text) for param, text in zip(stmt.params, first, strict=True)]
        self.names.update(zip(stmt.results, state, strict=True))
        return state

    def follow(self, stmt: loops.InOrder, state: Sequence[str]) -> None:
        """An iteration, and what it hands to the next one."""
        self.statements(stmt.body.stmts)
        results = [self.value(v) for v in stmt.body.results]
        if stmt.early:
            going, results = self.fresh(), results[1:]
            self.line(f"const bool {going} = {self.value(stmt.body.results[0])};")
        changed = [(s, r, v) for s, r, v in zip(state, results, stmt.params, strict=True) if s != r]
        if len(changed) > 1:  # all at once
            temporary = []
            for s, r, v in changed:
                name = self.fresh()
                self.line(f"const {type_of(v)} {name} = {r};")
                temporary.append((s, name, v))
            changed = temporary
        for s, r, _ in changed:
            self.line(f"{s} = {r};")
        if stmt.early:
            self.line(f"if (!{going}) break;")

    def branch(self, stmt: loops.Branch) -> None:
        results = []
        for slot in stmt.results:
            self.line(f"{type_of(slot)} {self.name(slot)};")
            results.append(self.names[slot])
        with self.block(f"if ({self.value(stmt.condition)})"):
            self.arm(stmt.then, results)
        if stmt.otherwise.stmts or results:
            with self.block("else"):
                self.arm(stmt.otherwise, results)

    def arm(self, body: loops.Body, results: Sequence[str]) -> None:
        self.statements(body.stmts)
        for name, value in zip(results, body.results, strict=True):
            self.line(f"{name} = {self.value(value)};")


def _rendered(size: Size, name: Callable[[Var], str]) -> str:
    """A polynomial; where its coefficients are fractions, a division that leaves nothing."""
    scale = lcm(*(c.denominator for c in size.terms.values())) if size.terms else 1
    text = (size * scale).render(name)
    return text if scale == 1 else f"({text}) / {scale}"


def left(first: str, high: str) -> str:
    """How far a variable is from the end."""
    return f"{high if high.isidentifier() else f'({high})'} - {first}"


def distance(low: str, high: str) -> str:
    """How many iterations lie between two bounds."""
    return high if low == "0" else f"({high}) - ({low})"


def quotient(x: str, y: str, type: str = NARROW) -> str:
    """Prints a quotient of two numbers that are not negative, of a type for indices."""
    return f"dl_quotient({x}, {y})" if type == NARROW else f"{x} / {y}"


def remainder(x: str, y: str, type: str = NARROW) -> str:
    return f"dl_remainder({x}, {y})" if type == NARROW else f"{x} % {y}"


def place_levels(p: Printer, levels: Sequence[loops.Loop], number: str, type: str = NARROW) -> None:
    """The variables of loops, from the number of an iteration: the innermost moves first. type: of that number."""
    ranges = [p.range(level) for level in levels[1:]]
    remaining = number
    for level, (low, high) in zip(reversed(levels), reversed(ranges), strict=False):
        extent, above = p.fresh("n"), p.fresh("t")
        p.line(f"const {type} {extent} = {distance(low, high)};")
        p.line(f"const {type} {above} = {quotient(remaining, extent, type)};")
        p.let(level.var, behind(low, remainder(remaining, extent, type)))
        remaining = above
    outer = levels[0]
    p.let(outer.var, behind(p.bound("dl_maximum", outer.lows), remaining))


def behind(low: str, count: str) -> str:
    """Prints the index that is `count` above a bound."""
    return count if low == "0" else f"({low}) + {count}"


def _whole(atom: loops.Value) -> int | None:
    """A constant that is a whole number."""
    if not isinstance(atom, Lit) or isinstance(atom.value, str) or not float(atom.value).is_integer():
        return None
    return int(atom.value)


# ---- totals of reductions --------------------------------------------------------------------------------------------
def fold_into(totals: Sequence[str]) -> str:
    """The variable that has the totals as its parts."""
    return totals[0].partition(".")[0].partition("[")[0]


def totals_of(
    p: Printer, reductions: Sequence[Reduction], name: str, structs: list[str], shape: str = "", at: str = ""
) -> list[str]:
    """Declares the totals of reductions, of a struct that is added; gives what their parts are called.

    shape: of an array of such totals; at: which of them is meant.
    """
    parts = accumulators(reductions)
    fields = [f"a{k}" for k in range(len(parts))]
    types = [register_dtype(dtype_of(var)) for var, _ in parts]
    lines = [f"struct {name} {{", f"  enum {{ count = {len(parts)} }};"]
    for type, part, (_, start) in zip(types, fields, parts, strict=True):
        lines.append(f"  {type} {part} = {start};")
    lines.append(f"  __device__ void join(const {name} &later) {{")
    k = 0
    for r in reductions:
        mine, other = f"a{k}", f"later.a{k}"
        if r.position is None:
            lines.append(f"    {mine} = {scalars.combine(r.monoid, dtype_of(r.result), mine, other)};")
            k += 1
            continue
        place, rank = f"a{k + 1}", f"later.a{k + 1}"
        condition = scalars.better(r.monoid, other, rank, mine, place)
        lines.append(f"    if ({condition}) {{ {mine} = {other}; {place} = {rank}; }}")
        k += 2
    lines.append("  }")
    moved = " ".join(f"other.{f} = dl_shuffle({f}, d);" for f in fields)
    lines.append(f"  __device__ {name} shuffled(i32 d) const {{ {name} other; {moved} return other; }}")
    put = " ".join(f"words[at + {k}] = dl_word({f});" for k, f in enumerate(fields))
    lines.append(f"  template <class W> __device__ void put(W &&words, i64 at) const {{ {put} }}")
    get = " ".join(f"{f} = dl_of_word<{t}>(words[at + {k}]);" for k, (f, t) in enumerate(zip(fields, types)))
    lines.append(f"  template <class W> __device__ void get(W &&words, i64 at) {{ {get} }}")
    lines.append("};")
    structs.append("\n".join(lines))
    total = p.fresh("a")
    p.line(f"{name} {total}{shape};")
    return [f"{total}{at}.{field}" for field in fields]

"""Random statements: locals, assignments to them and to their parts, loops, branches, local functions, ways out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from tests.fuzz.forms import derivative
from tests.fuzz.networks import network
from tests.fuzz.types import BOOL, F64, I64, Arr, Enum, Size, Struct, Tup, Type, holds, vector
from tests.fuzz.writer import EACH, Writer


@dataclass(frozen=True, slots=True)
class Place:
    """Where a statement stands. result: what `return` gives there; None if there is none."""

    pad: str = "  "
    result: Type | None = None
    in_loop: bool = False
    loops: int = 0

    def inside(self, loop: bool = False) -> Place:
        return replace(self, pad=self.pad + "  ", in_loop=self.in_loop or loop, loops=self.loops + loop)


Kind = Callable[[Writer, Place], list[str]]


def statements(w: Writer, place: Place, count: int) -> list[str]:
    lines: list[str] = []
    for _ in range(count):
        if w.budget > 0:
            lines += w.weighted(KINDS)(w, place)
    return lines


def body(w: Writer, place: Place) -> list[str]:
    """Of a loop or a branch: something in it is assigned if anything can be."""
    lines = statements(w, place, w.random.randrange(0, 3))
    if place.in_loop and w.chance(25):
        lines += left(w, place)
    lines += assigned(w, place) or ["assert true"]
    return [line if line.startswith(place.pad) else place.pad + line for line in lines]


def computed(w: Writer, t: Type, depth: int) -> str | None:
    """A block with loops in it, as an expression."""
    if depth < 2 or not w.affords():
        return None
    with w.inner(mutable=False):
        name = w.fresh("u")
        lines = [f"  var {name} = {w.expr(t, depth - 2)}"]
        w.bind(name, t, True)
        w.scope.favourite = name
        lines += looped(w, Place(loops=1)) if w.chance(60) else statements(w, Place(loops=1), 2)
        rest = w.expr(t, depth - 2) if w.chance(50) else name
        return "{\n" + "\n".join(lines) + f"\n  {rest}\n}}"


# ---- locals ----------------------------------------------------------------------------------------------------------
def local(w: Writer, place: Place) -> list[str]:
    t = w.function_type() if w.has("functions") and w.chance(12) else w.type(2)
    name = w.fresh("a")
    value = w.expr(t, 3)
    line = f"{place.pad}let {name}{annotation(t, value)} = {value}"
    w.bind(name, t)
    return [line]


def annotation(t: Type, value: str) -> str:
    """What says which type a value is of that does not say it itself: `None` may hold anything."""
    empty = isinstance(t, Enum) and value in [name for name, fields in t.variants if not fields]
    return f": {t}" if empty else ""


def variable(w: Writer, place: Place) -> list[str]:
    plain: list[Type] = [F64, vector(w.size())]
    t = w.type(2) if w.chance(60) else w.random.choice(plain)
    name = w.fresh("u")
    value = w.expr(t, 2)
    line = f"{place.pad}var {name}{annotation(t, value)} = {value}"
    w.bind(name, t, True)
    return [line]


def unpacked(w: Writer, place: Place) -> list[str]:
    items = tuple([w.type(1) for _ in range(2)])
    names = [w.fresh("a") for _ in items]
    assignable = w.chance(50)
    line = f"{place.pad}{'var' if assignable else 'let'} ({', '.join(names)}) = {w.expr(Tup(items), 3)}"
    for name, t in zip(names, items, strict=True):
        w.bind(name, t, assignable)
    return [line]


def derived(w: Writer, place: Place) -> list[str]:
    """A derivative of what comes from here."""
    text = derivative(w, 3)
    if text is None:
        return local(w, place)
    name = w.fresh("a")
    w.bind(name, F64)
    return [f"{place.pad}let {name} = {text}"]


def recursive_local(w: Writer, place: Place) -> list[str]:
    """A local function that calls itself, and a value that it gives."""
    if not w.has("recursion") or not w.affords(2 * EACH):
        return local(w, place)
    go, d, a = w.fresh("go"), w.fresh("d"), w.fresh("a")
    with w.inner(mutable=False, iterations=2 * EACH):
        w.bind(d, I64)
        w.bind(a, F64)
        w.scope.favourite = a
        last, passed = w.expr(F64, 1), f"tanh({w.expr(F64, 2)})"
        again = f"{go}({d} - 1, {passed})"
        form = w.random.choice(["{}", "({1} + {0})", "0.9 * {0} * {1}", "sin({0}) - {1}"])
        again = form.format(again, w.expr(F64, 1)) if form != "{}" else again
    name = w.fresh("a")
    lines = [f"{place.pad}fn {go}({d}: i64, {a}: f64) -> f64 = if {d} <= 0 {{ {last} }} else {{ {again} }}"]
    lines.append(f"{place.pad}let {name} = {go}({w.expr(I64, 1)} % 5, {w.expr(F64, 2)})")
    w.bind(name, F64)
    return lines


# ---- assignments -----------------------------------------------------------------------------------------------------
def assigned(w: Writer, place: Place) -> list[str]:
    """An assignment to a variable or a part of it; nothing where there is none."""
    assignable = [(n, t) for n, t, can in w.scope.locals if can]
    if not assignable:
        return []
    floats = [(n, t) for n, t in assignable if holds(t, F64)]
    name, t = w.random.choice(floats if floats and w.chance(85) else assignable)
    numbers = [n for n, have in assignable if have == F64]
    if len(numbers) > 1 and w.chance(70):
        one, other = w.random.sample(numbers, 2)
        return [f"{place.pad}({one}, {other}) = ({other}, tanh({w.expr(F64, 2)}))"]
    return [f"{place.pad}{assignment(w, name, t, place.loops > 0)}"]


def assignment(w: Writer, name: str, t: Type, looped: bool) -> str:
    place = name
    while w.chance(75):
        match t:
            case Struct(_, fields):
                field, t = w.random.choice(fields)
                place += f".{field}"
            case Tup(items):
                k = w.random.randrange(len(items))
                place, t = f"{place}.{k}", items[k]
            case Arr(element, (size,)) if element == F64 and w.chance(12) and size.least >= 2:
                first = w.random.randrange(2)
                place, t = f"{place}[{first}..{first + 1}]", vector(Size(one=1))
            case Arr(element, shape) if len(shape) == 2 and element == F64 and w.chance(25):
                row = w.chance(50)
                at = f"{w.index(shape[0])}" if row else f".., {w.index(shape[1])}"
                place, t = f"{place}[{at}]", vector(shape[1] if row else shape[0])
            case Arr(element, shape):
                entries = [w.index(s) if w.chance(70) else f"({w.expr(I64, 1)}) % ({s})" for s in shape]
                place, t = f"{place}[{', '.join(map(str, entries))}]", element
            case _:
                break
    if t == F64:
        sign = w.random.choice(["=", "=", "+=", "+=", "-=", "*=", "/="])
        value = w.expr(F64, 2)
        if sign == "*=":
            return f"{place} *= 1.2 * tanh({value})"
        if sign == "/=":
            return f"{place} /= 1.0 + ({value}) ** 2"
        return f"{place} {sign} {f'tanh({value})' if looped else value}"
    if t == I64:
        return f"{place} {w.random.choice(['+=', '-='])} {w.expr(t, 1)} % 5"
    if isinstance(t, Arr) and t.element == F64 and w.chance(40):
        return f"{place} {w.random.choice(['+=', '-='])} tanh({w.expr(t, 2)})"
    value = w.expr(t, 2)
    return f"{place} = {f'tanh({value})' if isinstance(t, Arr) and t.element == F64 and looped else value}"


# ---- control ---------------------------------------------------------------------------------------------------------
def looped(w: Writer, place: Place) -> list[str]:
    if place.loops >= 2 or not w.affords():
        return variable(w, place)
    return w.weighted([(6, counted), (3, over_elements), (3, while_counted), (2, while_small), (1, scattered)])(
        w, place
    )


def counted(w: Writer, place: Place) -> list[str]:
    i, size = w.fresh("i"), w.size()
    head = f"for {i} < {size}"
    with w.inner(iterations=EACH):
        match w.random.randrange(6):
            case 0:
                first, step = w.random.choice([(0, 2), (1, 1), (size.least - 1, -1)])
                head = f"for {i} in {first}..{size if step > 0 else 0} by {step}"
                w.scope.indices.append((i, size))
            case 1 if w.affords():
                other = w.fresh("i")
                w.scope.indices += [(i, size), (other, size)]
                head = f"for {i} < {size}, {other} < {size}"
                w.scope.points *= EACH
            case 2:
                head = f"for {i} in 0..({w.expr(I64, 1)}) % 5"
                w.bind(i, I64)
            case _:
                w.scope.indices.append((i, size))
        return [f"{place.pad}{head} {{", *body(w, place.inside(loop=True)), f"{place.pad}}}"]


def over_elements(w: Writer, place: Place) -> list[str]:
    v, size = w.fresh("v"), w.size()
    source = w.expr(vector(size), 2)
    with w.inner(iterations=EACH):
        w.bind(v, F64)
        head = f"{v} in {source}"
        if w.chance(40):
            i = w.fresh("i")
            w.scope.indices.append((i, size))
            head = f"({i}, {v}) in enumerate({source})"
        return [f"{place.pad}for {head} {{", *body(w, place.inside(loop=True)), f"{place.pad}}}"]


def while_counted(w: Writer, place: Place) -> list[str]:
    c = w.fresh("c")
    condition = f"{c} > 0" if w.chance(60) else f"{c} > 0 and {w.expr(BOOL, 1)}"
    lines = [f"{place.pad}var {c} = {w.random.randrange(1, 5)}", f"{place.pad}while {condition} {{"]
    with w.inner(iterations=EACH):
        w.bind(c, I64)
        lines += [f"{place.pad}  {c} -= 1", *body(w, place.inside(loop=True)), f"{place.pad}}}"]
    return lines


def while_small(w: Writer, place: Place) -> list[str]:
    """Iterations whose number depends on floats."""
    u = w.fresh("u")
    lines = [f"{place.pad}var {u} = {w.expr(F64, 2)}", f"{place.pad}while abs({u}) < 2.0 {{"]
    with w.inner(iterations=EACH):
        w.bind(u, F64)
        w.scope.favourite = u
        lines += body(w, replace(place.inside(loop=True), in_loop=False))
        lines += [f"{place.pad}  {u} = 1.6 * {u} + (if {u} < 0.0 {{ -0.5 }} else {{ 0.5 }})", f"{place.pad}}}"]
    w.bind(u, F64, True)
    return lines


def scattered(w: Writer, place: Place) -> list[str]:
    """Elements added or written at positions that repeat."""
    h, i, bins, size = w.fresh("h"), w.fresh("i"), w.size(), w.size()
    lines = [f"{place.pad}var {h} = {w.expr(vector(bins), 1)}", f"{place.pad}for {i} < {size} {{"]
    with w.inner(iterations=EACH):
        w.bind(h, vector(bins))
        w.scope.indices.append((i, size))
        position = f"({w.random.randrange(1, 4)} * {i} + {w.expr(I64, 1)}) % ({bins})"
        value = w.expr(F64, 2)
    sign = w.random.choice([f"+= {value}", f"= tanh({value})", f"*= cos({value})", f"= maximum({h}[0], {value})"])
    lines += [f"{place.pad}  {h}[{position}] {sign}", f"{place.pad}}}"]
    w.bind(h, vector(bins), True)
    return lines


def layered(w: Writer, place: Place) -> list[str]:
    """Iterations that multiply a matrix by others that stay as they are, and by their transposes."""
    if place.loops >= 2 or not w.affords(EACH**2):
        return variable(w, place)
    u, g, s, i = w.fresh("u"), w.fresh("a"), w.fresh("a"), w.fresh("i")
    rows, columns, inner = w.size(), w.size(), w.size()
    lines = [f"{place.pad}var {u} = {w.expr(Arr(F64, (rows, columns)), 1)}"]
    for name, shape in ((g, (columns, inner)), (s, (rows, rows))):
        r, c, first, second = w.fresh("i"), w.fresh("i"), w.random.randrange(1, 9), w.random.randrange(1, 9)
        entry = f"sin(1.{first} * f64({r}) - 0.{second} * f64({c}) + {w.expr(F64, 1)})"
        lines.append(f"{place.pad}let {name} = [{entry} for {r} < {shape[0]}, {c} < {shape[1]}]")
        w.bind(name, Arr(F64, shape))
    chains = [
        f"{u} @ {g} @ transpose({g})",
        f"{s} @ {u}",
        f"transpose({s}) @ {u}",
        f"transpose(transpose({u}) @ {s})",
        f"[row @ {g} for row in {u}] @ transpose({g})",
        f"{s} @ tanh({u} @ {g}) @ transpose({g})",
        u,
    ]
    terms = [f"0.{w.random.randrange(2, 8)} * ({w.random.choice(chains)})" for _ in range(w.random.randrange(1, 4))]
    lines += [f"{place.pad}for {i} < {w.size()} {{", f"{place.pad}  {u} = tanh({' + '.join(terms)})"]
    with w.inner(iterations=EACH):
        w.bind(u, Arr(F64, (rows, columns)), True)
        w.scope.indices.append((i, Size(one=1)))
        if w.chance(40):
            lines += body(w, place.inside(loop=True))
    total = w.fresh("a")
    lines += [f"{place.pad}}}", f"{place.pad}let {total} = sum({u})"]
    w.bind(u, Arr(F64, (rows, columns)), True)
    w.bind(total, F64)
    w.scope.favourite = total
    return lines


def trained(w: Writer, place: Place) -> list[str]:
    """A network and its loss."""
    if not w.has("networks") or place.loops or not w.affords(EACH**2):
        return variable(w, place)
    return network(w, place.pad)


def branched(w: Writer, place: Place) -> list[str]:
    lines = [f"{place.pad}if {w.expr(BOOL, 2)} {{"]
    with w.inner():
        lines += body(w, place.inside())
    if w.chance(60):
        lines.append(f"{place.pad}}} else {{")
        with w.inner():
            lines += body(w, place.inside())
    return [*lines, f"{place.pad}}}"]


def left(w: Writer, place: Place) -> list[str]:
    ways = ["break", "break", "continue"] if place.in_loop else []
    if place.result is not None:
        ways.append(f"return {w.expr(place.result, 2)}")
    if not ways:
        return variable(w, place)
    return [f"{place.pad}if {w.expr(BOOL, 2)} {{ {w.random.choice(ways)} }}"]


def maybe_assigned(w: Writer, place: Place) -> list[str]:
    return assigned(w, place) or variable(w, place)


KINDS: list[tuple[int, Kind]] = [
    (4, local),
    (5, variable),
    (1, unpacked),
    (2, recursive_local),
    (4, derived),
    (8, maybe_assigned),
    (7, looped),
    (2, layered),
    (2, trained),
    (4, branched),
    (2, left),
]

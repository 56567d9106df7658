"""The gradient of a function computed in four ways that share little, and compared: the same number, or a bug."""

from __future__ import annotations

import signal
import sys
import threading
import time
from collections.abc import Callable, Container, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache, partial
from io import StringIO
from types import FrameType
from typing import Any

import numpy as np

from dlang.driver import Request, Runner, lower
from dlang.graphs import reached
from dlang.host.effects import Host
from dlang.host.errors import RunError
from dlang.interpret.derivatives import Differentiable
from dlang.interpret.interpreter import Interpreter
from dlang.interpret.traced import NoDerivative
from dlang.ir.anf import Array, Atom, Function, Let, Lit, Program, Scalar, StopGradient, Token, Var
from dlang.ir.builder import Builder, opened
from dlang.ir.traverse import named_function, walk
from dlang.ir.types import is_float, product
from dlang.ops.dtypes import DTYPES, FLOATS
from dlang.runtime.devices import Driver
from dlang.runtime.engine import Engine
from dlang.specialize.specialize import Entry
from dlang.specialize.values import leaves

NDArray = np.ndarray[Any, Any]
Slopes = list[NDArray]  # for each float argument the gradient, of its shape, as f64
REVERSE, FORWARD, WEIGHTED = "gradient in reverse", "derivative along a direction", "weighted sum"
STEPS = {name: DTYPES[name].step for name in FLOATS}
TOLERANCES = {name: DTYPES[name].tolerance for name in FLOATS}


@dataclass(frozen=True, slots=True)
class Gradients:
    """A function of the IR that gives a float, compiled with its derivatives.

    mono: the program as specialised, with derivatives that are not expanded. wrt: the float arguments, among those that
    are given. fixed: parameters that are `nodiff`. coarsest: of the dtypes of floats that the function computes with.
    """

    mono: Program
    function: Function
    wrt: tuple[int, ...]
    compiled: Callable[[], Runner]
    host: Host
    fixed: frozenset[Atom] = frozenset()
    coarsest: str = "f64"

    def prepare(self) -> None:
        """Compiles it, if it is not."""
        self.compiled()

    def call(self, name: str, args: Sequence[Any]) -> Sequence[Any]:
        return self.compiled().run(name, args)

    def stops(self) -> bool:
        """Tells whether a derivative is stopped somewhere in the function (`stop_gradient`)."""
        fixed = set(self.fixed)
        for let in _reached(self.mono, self.function):
            if isinstance(let.op, StopGradient):
                if let.op.arg not in fixed:
                    return True
                fixed.update(let.vars)
        return False

    def stops_at(self, args: Sequence[Any], seconds: float, reference: Slopes | None = None) -> bool:
        """Tells whether a derivative that is stopped counts at arguments, or nobody knows: then differences are others.

        What `logsumexp` or `math.logaddexp` stop does not count, since the value does not depend on it.
        """
        if not self.stops():
            return False
        try:
            with within(seconds):
                reference = self.reference(args) if reference is None else reference
                moving = self.slopes(self._referred(REVERSE, _copies(args), stops=False))
        except (NoDerivative, TooLong):
            return True
        most = max([float(np.max(np.abs(r), initial=0.0)) for r in reference], default=0.0)
        return any(
            distance(float(a), float(b), TOLERANCES[self.coarsest], most) > 1
            for r, m in zip(reference, moving, strict=True)
            for a, b in zip(r.reshape(-1), m.reshape(-1), strict=True)
        )

    def precision(self, k: int) -> str:
        """The coarsest of the dtypes that argument k has and that are computed with."""
        return max(self.coarsest, self.dtype(k), key=TOLERANCES.__getitem__)

    def value(self, args: Sequence[Any]) -> float:
        return float(self.call(self.function.name, _copies(args))[-1])

    def along(self, args: Sequence[Any], direction: Slopes) -> float:
        """The derivative along a direction, by compiled forward mode."""
        return float(self.call(FORWARD, [*_copies(args), *self.typed(direction)])[-1])

    def reference_along(self, args: Sequence[Any], direction: Slopes) -> float:
        """The same by dual numbers."""
        return float(self._referred(FORWARD, [*_copies(args), *self.typed(direction)])[-1])

    def reverse(self, args: Sequence[Any]) -> Slopes:
        return self.slopes(self.call(REVERSE, _copies(args)))

    def reference(self, args: Sequence[Any]) -> Slopes:
        return self.slopes(self._referred(REVERSE, _copies(args)))

    def _referred(self, name: str, args: Sequence[Any], stops: bool = True) -> list[Any]:
        return Interpreter(self.mono, self.host, Differentiable(stops=stops)).run(name, args)

    def forward(self, args: Sequence[Any]) -> Slopes:
        return self.each(args, lambda k, at: self.forward_at(args, k, at))

    def forward_at(self, args: Sequence[Any], k: int, at: tuple[int, ...]) -> float:
        """The derivative in an element of argument k."""
        return self.along(args, self.unit(args, k, at))

    def differences(self, args: Sequence[Any], finer: float = 1.0) -> Slopes:
        return self.each(args, lambda k, at: self.difference_at(args, k, at, finer))

    def difference_at(self, args: Sequence[Any], k: int, at: tuple[int, ...], finer: float = 1.0) -> float:
        """Central differences extrapolated once (Richardson): the error is of fourth order in the step.

        finer: by how much the step is smaller than usual, for functions that bend sharply.
        """
        step = STEPS[self.precision(k)] / finer
        near, far = [self._moved(args, k, at, s) for s in (step, 2 * step)]
        return (4 * near - far) / 3

    def difference_along(self, args: Sequence[Any], direction: Slopes) -> float:
        """The same along a direction."""
        step = max([STEPS[self.precision(k)] for k in self.wrt])
        near, far = [
            (self._stepped(args, direction, s) - self._stepped(args, direction, -s)) / (2 * s) for s in (step, 2 * step)
        ]
        return (4 * near - far) / 3

    def _stepped(self, args: Sequence[Any], direction: Slopes, step: float) -> float:
        moved = list(_copies(args))
        for k, d in zip(self.wrt, direction, strict=True):
            there = np.asarray(moved[k], np.float64) + step * d
            moved[k] = self.typed([there], [k])[0]
        return self.value(moved)

    def _moved(self, args: Sequence[Any], k: int, at: tuple[int, ...], step: float) -> float:
        ends, values = [], []
        for sign in (1, -1):
            moved = list(_copies(args))
            changed = np.asarray(moved[k], dtype=np.asarray(args[k]).dtype).copy()
            changed[at] += sign * step
            moved[k] = changed if changed.shape else changed[()]
            ends.append(float(changed[at]))
            values.append(self.value(moved))
        return (values[0] - values[1]) / (ends[0] - ends[1])

    def each(self, args: Sequence[Any], slope: Callable[[int, tuple[int, ...]], float]) -> Slopes:
        out = []
        for k in self.wrt:
            gradient = np.zeros(np.shape(args[k]))
            for at in np.ndindex(gradient.shape):
                gradient[at] = slope(k, at)
            out.append(gradient)
        return out

    def unit(self, args: Sequence[Any], k: int, at: tuple[int, ...]) -> Slopes:
        out = [np.zeros(np.shape(args[j])) for j in self.wrt]
        out[self.wrt.index(k)][at] = 1.0
        return out

    def slopes(self, results: Sequence[Any]) -> Slopes:
        return [np.asarray(r, np.float64) for r in list(results)[len(results) - len(self.wrt) :]]

    def typed(self, slopes: Slopes, wrt: Sequence[int] | None = None) -> list[Any]:
        """Tangents in the dtypes of their arguments."""
        kinds = {name: np.dtype(DTYPES[name].numpy).type for name in FLOATS}
        out = [s.astype(kinds[self.dtype(k)]) for k, s in zip(self.wrt if wrt is None else wrt, slopes, strict=True)]
        return [s if s.shape else s[()] for s in out]

    def dtype(self, k: int) -> str:
        t = self.params[k].type
        assert not isinstance(t, Token)
        return t.dtype

    @property
    def params(self) -> tuple[Var, ...]:
        """The parameters that are given."""
        return given(self.function)


def _reached(program: Program, function: Function) -> Iterator[Let]:
    """Lists the operations of a function, and of the functions that it calls."""

    def callees(name: str) -> list[str]:
        return [callee for let in walk(program.functions[name].body) if (callee := named_function(let.op)) is not None]

    for name in reached([function.name], callees):
        yield from walk(program.functions[name].body)


def given(function: Function) -> tuple[Var, ...]:
    return tuple([p for p in function.params if not isinstance(p.type, Token)])


def gradients(
    request: Request, verify: bool | None = None, level: int = 2, driver: Driver | None = None
) -> tuple[Gradients, Entry]:
    """A function that has float parameters and gives some float, with its derivatives in all that are not `nodiff`.

    It is compiled when it is first called. What it prints is not shown. level: of LLVM's code generator, which changes
    no result. driver: of the device that is to run it, if one is.
    """
    host = Host(StringIO())
    kept: list[tuple[Program, Function]] = []
    fixed: set[int] = set()
    held: set[Atom] = set()

    def extend(program: Program, entries: Sequence[Entry]) -> tuple[Program, list[str]]:
        (entry,) = entries
        function = program.functions[entry.name]
        pairs = zip(request.decl.params, entry.params, strict=True)
        held.update(a for p, v in pairs if p.nodiff for a in leaves(v))
        fixed.update(k for k, p in enumerate(function.params) if p in held)
        kept.append(with_derivatives(program, function, fixed))
        return kept[0][0], [kept[0][1].name, REVERSE, FORWARD]

    program, (entry,) = lower([request], verify=verify, extend=extend)
    mono, function = kept[0]
    tokens = sum(isinstance(p.type, Token) for p in function.params)
    gives = any(
        is_float(r.type) for r in mono.functions[entry.name].results
    )  # what lists and trees hold is not compared
    wrt = tuple([k for k, p in enumerate(given(function)) if gives and is_float(p.type) and k + tokens not in fixed])

    @cache
    def compiled() -> Runner:
        return Engine(host, level=level, driver=driver).compile(program, [function.name, REVERSE, FORWARD])

    kinds = {v.type.dtype for let in _reached(mono, function) for v in let.vars if isinstance(v.type, Scalar | Array)}
    coarsest = max(kinds.intersection(FLOATS), key=TOLERANCES.__getitem__, default="f64")
    return Gradients(mono, function, wrt, compiled, host, frozenset(held), coarsest), entry


def with_derivatives(program: Program, function: Function, fixed: Container[int] = ()) -> tuple[Program, Function]:
    """The program with the functions `REVERSE` and `FORWARD`, and the function with one float that they are of.

    fixed: the parameters in which it is not differentiated.
    """
    functions = dict(program.functions)
    floats = [r for r in function.results if is_float(r.type)]
    if len(floats) != 1 or not isinstance(floats[0].type, Scalar) or function.results[-1] is not floats[0]:
        function = functions[WEIGHTED] = _weighted(program, function)
    *_, result = function.results
    assert isinstance(result.type, Scalar)
    wrt = [k for k, p in enumerate(function.params) if is_float(p.type) and k not in fixed]
    b, params = opened(functions, function)
    seeds = [*[None] * (len(function.results) - 1), Lit(1.0, result.type.dtype)]
    functions[REVERSE] = b.function(REVERSE, b.vjp(function.name, params, wrt, seeds))
    b, params = opened(functions, function)
    tangents = {k: b.param(f"d{params[k].name}", params[k].type) for k in wrt}
    dots = [tangents.get(k) for k in range(len(params))]
    functions[FORWARD] = b.function(FORWARD, b.jvp(function.name, params, dots))
    return Program(functions, program.datatypes, program.python), function


def _weighted(program: Program, function: Function) -> Function:
    """The sum of weight · float over all floats of the results, after the tokens. A weight is cos(1, 2, …)."""
    b, params = opened(program.functions, function)
    results = b.call(function.name, *params)
    total: Atom = Lit(0.0, "f64")

    def weighted(x: Atom, number: Atom) -> Atom:
        weight = b.prim("cos", b.add(b.cast("f64", number), Lit(1.0, "f64")))
        return b.mul(weight, b.cast("f64", x))

    for r in results:
        if not is_float(r.type):
            continue
        if isinstance(r.type, Array):
            flat = b.reshape(r, [product(r.type.shape)])
            total = b.add(total, b.reduce([product(r.type.shape)], partial(_weighted_element, b, weighted, flat)))
        else:
            total = b.add(total, weighted(r, Lit(0, "i64")))
    return b.function(WEIGHTED, [*[r for r in results if isinstance(r.type, Token)], total])


def _weighted_element(b: Builder, weighted: Callable[[Atom, Atom], Atom], flat: Var, i: Var) -> Atom:
    return weighted(b.read(flat, [i]), i)


def _copies(args: Sequence[Any]) -> list[Any]:
    return [a.copy() if isinstance(a, np.ndarray) else a for a in args]


# ---- comparison ------------------------------------------------------------------------------------------------------
def distance(expected: float, actual: float, tolerance: float, scale: float) -> float:
    """How far two numbers are apart in units of what is acceptable; NaN agrees with NaN alone."""
    if expected == actual or (expected != expected and actual != actual):
        return 0.0
    acceptable = tolerance * (abs(expected) + 0.1 * scale)
    error = abs(actual - expected) / acceptable if acceptable else float("inf")
    return error if error == error else float("inf")


# ---- the comparison --------------------------------------------------------------------------------------------------
# Compares the derivatives of a function at a point, computed in four ways, in as many elements as time allows.

COARSE = 100.0  # how much farther differences may be from the others than these from one another
ROUNDING, COARSE_ROUNDING = 1e-9, 1e-5  # numbers that a function adds up, at least: what is lost of them is no mistake


@dataclass(frozen=True, slots=True)
class Row:
    """One derivative in all ways. error: 1 is just acceptable.

    hollow: that its differences are acceptable says nothing, since rounding takes more of the value than it changes by.
    """

    name: str
    slopes: dict[str, float]
    error: float
    hollow: bool = False

    @property
    def relative(self) -> float:
        values = list(self.slopes.values())
        spread, size = max(values) - min(values), max(map(abs, values))
        return spread / size if size else 0.0


@dataclass(frozen=True, slots=True)
class Edge:
    """An element at an edge of its range, and its derivative there. differences: infinite where they grow."""

    name: str
    at: float
    reverse: float
    forward: float
    differences: float


@dataclass(slots=True)
class Comparison:
    """rows: of each argument the element in which the ways differ most. of: how many elements there are.

    hollow: of how many of those compared differences say nothing. notes: what could not be computed. boundary: elements
    at which the modes, or the quotients of differences, give another derivative where they are 0 or 1.
    """

    value: float
    rows: list[Row] = field(default_factory=list)
    compared: int = 0
    of: int = 0
    hollow: int = 0
    boundary: list[Edge] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def finite(self) -> bool:
        """Tells whether the function's value is finite: else there are no differences to compare derivatives with."""
        return abs(self.value) < float("inf")

    @property
    def known(self) -> bool:
        """Tells whether differences can confirm any derivative."""
        return self.finite and (self.hollow < self.compared or not self.compared)

    @property
    def wrong(self) -> list[Row]:
        return [r for r in self.rows if r.error > 1]


def compare(gradients: Gradients, args: Sequence[Any], names: Sequence[str], seconds: float, seed: int) -> Comparison:
    """Raises RunError where the program refuses, TooLong if one gradient takes longer than there is time.

    names: of the float arguments. seconds: for all of it, compiling excepted. seed: of the order of the elements.
    """
    gradients.prepare()
    start = time.monotonic()
    with within(seconds):
        value = gradients.value(args)
        reverse = gradients.reverse(args)
    out = Comparison(value, of=sum(s.size for s in reverse))
    reference = _reference(gradients, args, seconds / 2, out.notes)
    stopped = gradients.stops() if reference is None else gradients.stops_at(args, seconds / 2, reference)
    if stopped:
        out.notes.insert(0, "it stops derivatives, so differences are others")
    rows: dict[int, Row] = {}
    rng = np.random.default_rng(seed)
    for k, at in _places([s.shape for s in reverse], rng):
        late = time.monotonic() - start > seconds
        if late and out.compared >= len(names):
            break
        slopes = {"reverse": float(reverse[k][at]), "forward": gradients.forward_at(args, gradients.wrt[k], at)}
        if reference is not None:
            slopes["reference"] = float(reference[k][at])
        slopes["differences"] = gradients.difference_at(args, gradients.wrt[k], at)
        label = names[k] + (f"[{', '.join(map(str, at))}]" if at else "")
        row = _row(label, slopes, gradients.precision(gradients.wrt[k]), value, stopped)
        if k not in rows or row.error > rows[k].error:
            rows[k] = row
        out.compared += 1
        out.hollow += row.hollow
    out.rows = [rows[k] for k in sorted(rows)]
    if out.compared < out.of:
        direction = [rng.standard_normal(s.shape) / np.sqrt(out.of) for s in reverse]
        out.rows.append(_along(gradients, args, direction, reverse, reference, value, stopped))
    return out


def _reference(gradients: Gradients, args: Sequence[Any], seconds: float, notes: list[str]) -> Slopes | None:
    try:
        with within(seconds):
            return gradients.reference(args)
    except NoDerivative as e:
        notes.append(f"no reference: it can't differentiate {e}")
    except TooLong:
        notes.append(f"no reference: it takes more than {seconds:g} s")
    return None


def _places(shapes: Sequence[tuple[int, ...]], rng: np.random.Generator) -> Iterator[tuple[int, tuple[int, ...]]]:
    """All elements of arrays in random order, one of each array after another."""
    orders = [rng.permutation(int(np.prod(shape))) for shape in shapes]
    for n in range(max([len(order) for order in orders], default=0)):
        for k, order in enumerate(orders):
            if n < len(order):
                yield k, tuple([int(i) for i in np.unravel_index(order[n], shapes[k])])


def _along(
    gradients: Gradients,
    args: Sequence[Any],
    direction: Slopes,
    reverse: Slopes,
    reference: Slopes | None,
    value: float,
    stopped: bool,
) -> Row:
    """The derivative along a direction, which all elements have a part in."""

    def sum_of(slopes: Slopes) -> float:
        return sum([float(np.sum(s * d)) for s, d in zip(slopes, direction, strict=True)])

    slopes = {"reverse": sum_of(reverse), "forward": gradients.along(args, direction)}
    if reference is not None:
        slopes["reference"] = sum_of(reference)
    slopes["differences"] = gradients.difference_along(args, direction)
    widest = max([gradients.precision(k) for k in gradients.wrt], key=TOLERANCES.__getitem__)
    return _row("a direction", slopes, widest, value, stopped)


def _row(name: str, slopes: dict[str, float], dtype: str, value: float, stopped: bool) -> Row:
    deviation = error(slopes, dtype, value, stopped)
    return Row(name, slopes, deviation, not stopped and deviation <= 1 and _hollow(slopes, dtype, value))


def _hollow(slopes: dict[str, float], dtype: str, value: float) -> bool:
    """Tells whether differences are far off, and acceptable for the size of the value alone.

    A derivative that is exactly 0 may well be so: then the value does not depend on the element.
    """
    if not abs(value) < float("inf"):
        return False
    others = [s for way, s in slopes.items() if way != "differences"]
    largest = max(map(abs, others))
    acceptable = COARSE * TOLERANCES[dtype] * 0.1 * abs(value)
    return 0 < largest < acceptable and abs(slopes["differences"] - others[0]) > 0.1 * largest


def error(slopes: dict[str, float], dtype: str, value: float, stopped: bool) -> float:
    """The largest distance between two ways, in units of what is acceptable between them.

    stopped: whether the function has derivatives that are stopped, of which differences know nothing.
    """
    worst = 0.0
    finite = abs(value) < float("inf")
    ways = [way for way in slopes if way != "differences" or (finite and not stopped)]  # infinity has no differences
    scale = abs(value) if finite else 0.0
    for k, one in enumerate(ways):
        for other in ways[:k]:
            factor, lost = (COARSE, COARSE_ROUNDING) if "differences" in (one, other) else (1.0, ROUNDING)
            deviation = distance(slopes[other], slopes[one], factor * TOLERANCES[dtype], scale + lost)
            worst = max(worst, deviation)
    return worst


# ---- edges -----------------------------------------------------------------------------------------------------------
def edges(
    gradients: Gradients, args: Sequence[Any], names: Sequence[str], values: Sequence[float], seconds: float, seed: int
) -> list[Edge]:
    """Finds where elements are 0, or another of some values, and a derivative may be a convention and no limit.

    At a kink, where the differences of both sides are finite and not the same, all may be right: that is left out. As
    many elements are tried as time allows.
    """
    start = time.monotonic()
    edges_found: list[Edge] = []
    shapes = [np.shape(args[k]) for k in gradients.wrt]
    for k, at in _places(shapes, np.random.default_rng(seed)):
        for value in values:
            if time.monotonic() - start > seconds:
                return edges_found
            moved = _at_value(args, gradients.wrt[k], at, value)
            try:
                edge = _edge(gradients, moved, k, at, value, names, seconds)
            except RunError:  # it may refuse the value
                continue
            edges_found += [edge] if edge is not None else []
    return edges_found


def _edge(
    gradients: Gradients,
    args: Sequence[Any],
    k: int,
    at: tuple[int, ...],
    value: float,
    names: Sequence[str],
    seconds: float,
) -> Edge | None:
    centre = gradients.value(args)
    if not abs(centre) < float("inf"):
        return None
    reverse = float(gradients.reverse(args)[k][at])
    forward = gradients.forward_at(args, gradients.wrt[k], at)
    tolerance = TOLERANCES[gradients.precision(gradients.wrt[k])]
    near = 0.0 if gradients.stops_at(args, seconds) else 1e3 * tolerance
    sides = [s for s in (_one_sided(gradients, args, k, at, value, sign, centre) for sign in (1, -1)) if s == s]
    is_kink = len(sides) == 2 and not _close(sides[0], sides[1], near, centre)
    expected = sides[0] if sides and not is_kink and near else reverse
    modes_agree = _close(reverse, forward, 10 * tolerance, centre)
    if (modes_agree or is_kink) and (_close(reverse, expected, near, centre) or not near):
        return None
    label = names[k] + (f"[{', '.join(map(str, at))}]" if at else "")
    return Edge(label, value, reverse, forward, expected)


def _one_sided(
    gradients: Gradients, args: Sequence[Any], k: int, at: tuple[int, ...], value: float, sign: int, centre: float
) -> float:
    """The quotient of differences on one side: NaN where there is no value, infinite where it grows as steps shrink."""
    step = 10 * STEPS[gradients.precision(gradients.wrt[k])] * sign
    quotients = []
    for s in (step, step / 2, step / 4):
        try:
            there = gradients.value(_at_value(args, gradients.wrt[k], at, value + s))
        except RunError:
            return float("nan")
        quotients.append((there - centre) / s)
    if not all(abs(q) < float("inf") for q in quotients):
        return float("nan")
    first, second, third = quotients
    if abs(third) > 1.3 * abs(second) > 1.69 * abs(first) and abs(third - second) * abs(step) > 1e-9 * (
        1 + abs(centre)
    ):
        return float(np.copysign(np.inf, third))
    return (8 * third - 6 * second + first) / 3


def _close(x: float, y: float, tolerance: float, value: float) -> bool:
    return x == y or abs(x - y) <= tolerance * (max(abs(x), abs(y)) + 0.1 * abs(value) + 0.1)


def _at_value(args: Sequence[Any], k: int, at: tuple[int, ...], value: float) -> list[Any]:
    """The arguments with one element of another value."""
    moved = [a.copy() if isinstance(a, np.ndarray) else a for a in args]
    changed = np.asarray(moved[k], dtype=np.asarray(args[k]).dtype).copy()
    changed[at] = value
    moved[k] = changed if changed.shape else changed[()]
    return moved


# ---- deadlines -------------------------------------------------------------------------------------------------------
# An end for what may take too long: compiled code, and Python.

AGAIN = 0.1  # seconds


class TooLong(Exception):
    """The time that there was is over."""


@contextmanager
def within(seconds: float) -> Iterator[None]:
    """Raises `TooLong` if the body takes more time; only in the main thread, where the system has such a clock.

    What the interruption has made fail, such as the import of a module, is `TooLong` too.
    """
    if not hasattr(signal, "setitimer") or threading.current_thread() is not threading.main_thread():
        yield
        return

    late = False

    def over(number: int, frame: FrameType | None) -> None:
        nonlocal late
        late = True
        raise TooLong

    def lost(args: sys.UnraisableHookArgs) -> None:
        if not isinstance(args.exc_value, TooLong):
            hook(args)

    before, hook = signal.signal(signal.SIGALRM, over), sys.unraisablehook
    # Again and again, because an exception is lost where Python runs a callback that may not raise. Nobody is told.
    sys.unraisablehook = lost
    signal.setitimer(signal.ITIMER_REAL, max(seconds, 0.01), AGAIN)
    try:
        yield
    except Exception as e:
        if late and not isinstance(e, TooLong):
            raise TooLong from e
        raise
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        sys.unraisablehook = hook

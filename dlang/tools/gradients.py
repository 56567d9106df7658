"""The gradient of a function computed in four ways that share little: the same number four times, or a bug.

A function that gives anything but one float is differentiated as the sum of all floats that it gives, each times a
weight of its own.

    reverse, forward    compiled: what `ad/` makes of the function, optimised, as machine code
    reference           by `interpret/derivatives.py`, which has rules of its own and no part in `ad/`
    differences         central differences of the compiled function
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, partial
from io import StringIO
from typing import Any

import numpy as np

from dlang.driver import Request, Runner, lower
from dlang.graphs import reached
from dlang.host.effects import Host
from dlang.interpret.derivatives import Differentiable
from dlang.interpret.interpreter import Interpreter
from dlang.ir.anf import Array, Atom, Function, Let, Lit, Program, Scalar, StopGradient, Token, Var
from dlang.ir.builder import Builder
from dlang.ir.substitution import refresh_vars
from dlang.ir.traverse import named_function, walk
from dlang.ir.types import product
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

    def _referred(self, name: str, args: Sequence[Any]) -> list[Any]:
        return Interpreter(self.mono, self.host, Differentiable()).run(name, args)

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
            found = np.zeros(np.shape(args[k]))
            for at in np.ndindex(found.shape):
                found[at] = slope(k, at)
            out.append(found)
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
    gives = any(map(_float, mono.functions[entry.name].results))  # what lists and trees hold is not compared
    wrt = tuple([k for k, p in enumerate(given(function)) if gives and _float(p) and k + tokens not in fixed])

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
    made = dict(program.functions)
    floats = [r for r in function.results if _float(r)]
    if len(floats) != 1 or not isinstance(floats[0].type, Scalar) or function.results[-1] is not floats[0]:
        function = made[WEIGHTED] = _weighted(program, function)
    *_, result = function.results
    assert isinstance(result.type, Scalar)
    wrt = [k for k, p in enumerate(function.params) if _float(p) and k not in fixed]
    b, params = _opened(made, function)
    seeds = [*[None] * (len(function.results) - 1), Lit(1.0, result.type.dtype)]
    made[REVERSE] = b.function(REVERSE, b.vjp(function.name, params, wrt, seeds))
    b, params = _opened(made, function)
    tangents = {k: b.param(f"d{params[k].name}", params[k].type) for k in wrt}
    dots = [tangents.get(k) for k in range(len(params))]
    made[FORWARD] = b.function(FORWARD, b.jvp(function.name, params, dots))
    return Program(made, program.datatypes, program.python), function


def _weighted(program: Program, function: Function) -> Function:
    """The sum of weight · float over all floats of the results, after the tokens. A weight is cos(1, 2, …)."""
    b, params = _opened(program.functions, function)
    results = b.call(function.name, *params)
    total: Atom = Lit(0.0, "f64")

    def weighted(x: Atom, number: Atom) -> Atom:
        weight = b.prim("cos", b.add(b.cast("f64", number), Lit(1.0, "f64")))
        return b.mul(weight, b.cast("f64", x))

    for r in results:
        if not _float(r):
            continue
        if isinstance(r.type, Array):
            flat = b.reshape(r, [product(r.type.shape)])
            total = b.add(total, b.reduce([product(r.type.shape)], partial(_weighted_element, b, weighted, flat)))
        else:
            total = b.add(total, weighted(r, Lit(0, "i64")))
    return b.function(WEIGHTED, [*[r for r in results if isinstance(r.type, Token)], total])


def _weighted_element(b: Builder, weighted: Callable[[Atom, Atom], Atom], flat: Var, i: Var) -> Atom:
    return weighted(b.read(flat, [i]), i)


def _opened(functions: dict[str, Function], function: Function) -> tuple[Builder, list[Var]]:
    b = Builder(functions, function.span)
    b.params = list(refresh_vars(function.params, {}))
    return b, list(b.params)


def _float(v: Var) -> bool:
    return isinstance(v.type, Scalar | Array) and v.type.dtype in FLOATS


def _copies(args: Sequence[Any]) -> list[Any]:
    return [a.copy() if isinstance(a, np.ndarray) else a for a in args]


# ---- comparison ------------------------------------------------------------------------------------------------------
def distance(expected: float, found: float, tolerance: float, scale: float) -> float:
    """How far two numbers are apart in units of what is acceptable; NaN agrees with NaN alone."""
    if expected == found or (expected != expected and found != found):
        return 0.0
    acceptable = tolerance * (abs(expected) + 0.1 * scale)
    error = abs(found - expected) / acceptable if acceptable else float("inf")
    return error if error == error else float("inf")

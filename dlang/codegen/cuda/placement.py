"""The program of the host of a device: which statements run where, and what is copied between them.

Numbers that the device has made stay there: what is computed of them is computed again by each kernel that uses them,
and the host gets them only where it must know them. What no kernel can do is done by the host, on copies of arrays:

    loop i in 0..n                  launch kernel 0, n iterations (&x, &s)
      s = s + &x[i]                 launch kernel 1, n iterations (&s, &y)        which loads s
    m = s / n                       on host (&y)
    loop i in 0..n                    runtime print(&y)
      &y[i] = m
    runtime print(&y)

Finds repeatable functions: their work for the device depends on their arguments, not on its results.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from dlang.codegen import loops
from dlang.codegen.abi import NUMBERS
from dlang.codegen.counting import Routines
from dlang.codegen.cuda.exact_sums import with_exact_sums
from dlang.codegen.cuda.expansion import expanded
from dlang.codegen.cuda.kernels import Kernels
from dlang.codegen.cuda.placer import Placer
from dlang.codegen.cuda.spaces import Launching, launching, spaces_of
from dlang.codegen.profile import Measuring, with_nests
from dlang.codegen.schedule import LOOPS, SCHEDULED, LoopStep, loop_steps, verify_loop_steps
from dlang.codegen.traverse import callee, map_inside, walk
from dlang.ir import anf
from dlang.ir.anf import FLOATS, Var
from dlang.ir.terms import ZERO
from dlang.ir.types import dtype_of
from dlang.passes import Form, Pass, Step, run_phase, verifying


@dataclass(frozen=True, slots=True)
class Measured:
    """How a program for a device is placed; parameters as for `on_device`."""

    profile: Routines | None = None
    deterministic: bool = False


_WHOLE, _READY, _ONCE = frozenset({Form.WHOLE}), frozenset({Form.LAUNCHABLE}), frozenset({Form.ONCE})

DEVICE_PASSES: tuple[Pass[loops.Program, Measured], ...] = (
    Pass("exact_sums", lambda program, to: _exact(program) if to.deterministic else program, LOOPS,
         "adds up floats so that the order of threads changes no bit", needs=_WHOLE, ends=_ONCE, device=True),
    Pass("expansion", lambda program, to: _expanded(program), LOOPS,
         "gives each iteration of a loop memory of its own, where that makes it a kernel", needs=_WHOLE, gives=_READY,
         device=True),
    Pass("kernels", lambda program, to: _placed(program, to), LOOPS,
         "makes kernels of loops, and says what the host does around them", needs=_WHOLE | _READY,
         gives=frozenset({Form.KERNELS}) | _ONCE, ends=_WHOLE | _READY, device=True),
)  # fmt: skip
"""The passes of the loop IR for a device."""


def device_steps(
    program: anf.Program, profile: Routines | None = None, deterministic: bool = False
) -> Iterator[LoopStep]:
    """The loop nests of a program for a device, then the same with kernels. Parameters as for `on_device`."""
    (begin,) = loop_steps(program, places=profile is not None, device=True)
    yield begin
    yield from _steps(begin, Measured(profile, deterministic))


def placed(program: anf.Program, profile: Routines | None = None, deterministic: bool = False) -> loops.Program:
    """The program for a device. Parameters as for `on_device`."""
    return deque(device_steps(program, profile, deterministic), maxlen=1).pop().program


def on_device(program: loops.Program, profile: Routines | None = None, deterministic: bool = False) -> loops.Program:
    """The program with its kernels, and with what the host is to do around them. Its loops have one lane and piece.

    profile: has the program measure itself, and says how many operations functions of mathematics are. deterministic:
    whether its floats are the same in every run, which the order of threads may change otherwise where they add to the
    same elements.
    """
    begin = Step("schedule", program, SCHEDULED)
    return deque(_steps(begin, Measured(profile, deterministic)), maxlen=1).pop().program


def _steps(begin: LoopStep, to: Measured) -> Iterator[LoopStep]:
    steps = run_phase(begin, to, DEVICE_PASSES)
    return verify_loop_steps(steps, begin) if verifying() else steps


def _exact(program: loops.Program) -> loops.Program:
    return replace(program, functions={name: with_exact_sums(f) for name, f in program.functions.items()})


def _expanded(program: loops.Program) -> loops.Program:
    bodies = {name: expanded(f.body) for name, f in program.functions.items()}
    changed = {n: replace(f, body=bodies[n]) for n, f in program.functions.items() if bodies[n] is not f.body}
    return replace(program, functions={**program.functions, **changed})


def _placed(program: loops.Program, to: Measured) -> loops.Program:
    """The program with kernels."""
    launches = launching(program, to.deterministic)
    fails = any(
        isinstance(s, loops.Assert) for name in launches.functions for s in walk(program.functions[name].body.stmts)
    )
    called = {s.function for f in program.functions.values() for s in walk(f.body.stmts) if isinstance(s, loops.Invoke)}
    kernels = Kernels(careful=fails)
    measure = None if to.profile is None else Measuring(with_nests(program), to.profile, launches.is_opened)
    functions = {}
    for name, f in program.functions.items():
        if name not in launches.functions:
            functions[name] = f if measure is None else measure.function(f)
            continue
        if measure is not None:
            f = measure.counted(f)
        placer = Placer(launches, kernels, spaces_of(f, launches), measure)
        body = placer.block(f.body, {}, leaves=name not in called)
        functions[name] = replace(f, body=body if measure is None else measure.whole(body), device=True)
    placed = replace(program, functions=functions, kernels=tuple(kernels.made), careful=fails)
    if measure is None:
        for name in sorted(launches.functions - called):
            placed = _with_numbers(placed, program.functions[name], launches, kernels)
        return only_launched(placed)
    hosts = [f for name, f in program.functions.items() if name not in launches.functions]
    return replace(placed, functions=measure.with_parts(functions, hosts), nests=measure.all_nests())


def _with_numbers(program: loops.Program, f: loops.Function, launches: Launching, kernels: Kernels) -> loops.Program:
    """The program whose function, if it can be repeated, has the device know the floats that it takes.

    So what it asks of the device is the same for all of them.
    """
    floats = {p: loops.Buffer(p.name, dtype_of(p)) for p in f.params if isinstance(p, Var) and dtype_of(p) in FLOATS}
    if not floats or len(f.params) > NUMBERS or not is_repeatable(program, f.name):
        return program
    placer = Placer(launches, kernels, spaces_of(f, launches))
    body = placer.block(f.body, {p: loops.Load(p, buffer, ZERO) for p, buffer in floats.items()}, leaves=True)
    params = tuple([floats[p] if isinstance(p, Var) and p in floats else p for p in f.params])
    functions = {**program.functions, f.name: replace(f, params=params, body=body, device=True)}
    numbered = replace(program, functions=functions, kernels=tuple(kernels.made))
    return numbered if is_repeatable(numbered, f.name) else program


# ---- repeatable functions --------------------------------------------------------------------------------------------
def only_launched(program: loops.Program) -> loops.Program:
    """The program without kernels that nothing launches."""
    launched = [s.kernel for f in program.functions.values() for s in walk(f.body.stmts) if isinstance(s, loops.Launch)]
    numbers = {old: new for new, old in enumerate(sorted(set(launched)))}

    def statements(stmts: Sequence[loops.Stmt]) -> tuple[loops.Stmt, ...]:
        return tuple([statement(s) for s in stmts])

    def statement(s: loops.Stmt) -> loops.Stmt:
        return replace(s, kernel=numbers[s.kernel]) if isinstance(s, loops.Launch) else map_inside(s, statements)

    if len(numbers) == len(program.kernels):
        return program
    functions = {
        name: replace(f, body=loops.Body(statements(f.body.stmts), f.body.results))
        for name, f in program.functions.items()
    }
    return replace(program, functions=functions, kernels=tuple([program.kernels[k] for k in numbers]))


def is_repeatable(program: loops.Program, name: str) -> bool:
    """Tells whether a function that launches kernels asks nothing of the host but to have the device do things."""
    visited: set[str] = set()
    open = [name]
    while open:
        f = program.functions[open.pop()]
        if f.name in visited:
            continue
        if not f.device:
            return False
        visited.add(f.name)
        for stmt in walk(f.body.stmts):
            if (function := callee(stmt)) is not None:
                open.append(function)
            elif isinstance(stmt, loops.Load | loops.Store):
                return False
            elif not (stmt.IS.kernel or isinstance(stmt, loops.OnDevice | loops.Launch)):
                return False
    return True

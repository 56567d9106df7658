"""Scheduling: a program of the core IR to the loop-nest IR.

One walk over each function decides where every array lives and turns operations on arrays into loops; `blocks` has the
state of the walk, and each kind of operation a module of its own.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import chain
from typing import TypeVar

from dlang.codegen import loops
from dlang.codegen.allocation_overflow import bounds_of, check_sizes
from dlang.codegen.blocks import OWNED, ResultPlace, Scheduler
from dlang.codegen.control import branch, call, destination_known, repeat
from dlang.codegen.counting import Routines
from dlang.codegen.data import construct, fields, tag
from dlang.codegen.half import sum_in_f32
from dlang.codegen.lane_sums import lane_sums
from dlang.codegen.loop_scratch import with_scratch
from dlang.codegen.memory import Frame, whole
from dlang.codegen.operations import compact, concat, effect, flat_inside, foreign, formatted, library, scan
from dlang.codegen.parallel import in_pieces
from dlang.codegen.predication import predicated
from dlang.codegen.products import contraction
from dlang.codegen.profile import profiled
from dlang.codegen.regions import Nodes, are_joined, held_arrays, keepers_of, makers_of
from dlang.codegen.tiles import comprehension
from dlang.codegen.vectorize import Lanes
from dlang.codegen.verify import verify_loops
from dlang.ir import anf
from dlang.ir.anf import Array, Let, Lit, Scalar, Token
from dlang.ir.traverse import recursive_functions
from dlang.ir.types import I64, dtype_of, product
from dlang.ir.update_chains import last_uses
from dlang.passes import Form, Pass, Step, run_phase, same_functions, verifying
from dlang.timings import timed


@dataclass(frozen=True, slots=True)
class Target:
    """The target of the code, as far as the passes of the loop IR know it; parameters as for `schedule`."""

    grain: int = 0
    profile: Routines | None = None


C = TypeVar("C")
LoopPass = Pass[loops.Program, Target]
LoopStep = Step[loops.Program]
LOOPS = "loops"
_WHOLE = frozenset({Form.WHOLE})

SCHEDULED = _WHOLE | {Form.ONCE}
"""The forms of loops that are just scheduled."""

LOOP_PASSES: tuple[LoopPass, ...] = (
    Pass("profile", lambda program, to: program if to.profile is None else profiled(program, to.profile), LOOPS,
         "has a program measure itself", needs=_WHOLE, device=False),
    Pass("lane_sums", lambda program, to: lane_sums(program), LOOPS,
         "gives lanes places of their own for what they add up", needs=_WHOLE, device=False),
    Pass("pieces", lambda program, to: in_pieces(program, to.grain), LOOPS, "cuts large loops for several threads",
         needs=_WHOLE, gives=frozenset({Form.PIECES}), ends=_WHOLE, device=False),
    # in every piece of its own
    Pass("scratch", lambda program, to: with_scratch(program), LOOPS, "allocates rows of iterations before their loop",
         needs=frozenset({Form.PIECES}), gives=frozenset({Form.SCRATCH}), device=False),
    Pass("predicate", lambda program, to: predicated(program), LOOPS, "runs both arms of short branches in one path",
         needs=frozenset({Form.PIECES}), device=False),
)  # fmt: skip
"""The passes of the loop IR for native code, in order; those for a device are in `codegen/cuda/placement.py`."""


def schedule(
    program: anf.Program,
    lanes: Lanes | None = None,
    grain: int = 0,
    places: bool = False,
    profile: Routines | None = None,
    device: bool = False,
) -> loops.Program:
    """The loop nests of a program; `lanes` decides how many iterations of a loop go at once (default: one).

    grain: the least work, in picoseconds, of a piece of a loop that is to run on several threads; 0 for no pieces.
    places: says of the code outside of loops where it comes from. profile: has the program measure itself, and says
    how many operations functions of mathematics are. device: loops and products are to be those of one: whole, and as
    plain as they can be.
    """
    return deque(loop_steps(program, lanes, grain, places, profile, device), maxlen=1).pop().program


def loop_steps(
    program: anf.Program,
    lanes: Lanes | None = None,
    grain: int = 0,
    places: bool = False,
    profile: Routines | None = None,
    device: bool = False,
) -> Iterator[LoopStep]:
    """The loop nests, then what each pass of native code makes of them; verified if the environment asks for that."""
    nests = _nests(program, lanes or Lanes(0), places or profile is not None, device)
    begin = Step("schedule", nests, SCHEDULED)
    passes = () if device else LOOP_PASSES
    steps = chain([begin], run_phase(begin, Target(grain, profile), passes))
    return verify_loop_steps(steps) if verifying() else steps


def run_loop_passes(program: loops.Program, passes: Iterable[Pass[loops.Program, C]], to: C) -> loops.Program:
    """The loop nests after some passes, verified after each."""
    begin = Step("text", program, SCHEDULED)
    return deque(chain([begin], verify_loop_steps(run_phase(begin, to, passes), begin)), maxlen=1).pop().program


def verify_loop_steps(steps: Iterable[LoopStep], before: LoopStep | None = None) -> Iterator[LoopStep]:
    """The same steps, each verified, or an IRError says who made it. before: the step before the first, verified."""
    for step in steps:
        if before is None or not same_functions(before.program, step.program):
            once = Form.ONCE in step.forms
            since = None if before is None or (once and Form.ONCE not in before.forms) else before.program
            with timed("verify"):
                verify_loops(step.program, f"the pass `{step.name}`", since, not once)
        yield step
        before = step


def _nests(program: anf.Program, lanes: Lanes, places: bool, device: bool) -> loops.Program:
    """The loop nests of all functions."""
    recursive = recursive_functions(program)
    makers = makers_of(program)
    nodes = Nodes(makers, keepers_of(program, makers), joins=are_joined(program))
    return loops.Program(
        {
            name: _function(program, lanes, function, name in recursive, nodes, places, device)
            for name, function in program.functions.items()
        }
    )


def _function(
    program: anf.Program,
    lanes: Lanes,
    f: anf.Function,
    recursive: bool,
    nodes: Nodes,
    places: bool,
    device: bool,
) -> loops.Function:
    f = sum_in_f32(f)
    s = FunctionScheduler(program, lanes, f.span, places, device=device)
    s.chains.continues = {name: g.continues for name, g in program.functions.items() if g.continues}
    s.chains.add(f.body)
    if nodes.makers:
        s.nodes = replace(nodes, held=held_arrays(f, s.chains), arrays=set())
    s.note_sizes(f.params)
    for size in f.sizes:
        s.facts.size(size)
    params: list[loops.Slot] = []
    for k, param in enumerate(f.params):
        match param.type:
            case Array(dtype, shape):
                buffer = loops.Buffer(param.name, dtype)
                if k in f.consumed:
                    s.memory.writable.add(buffer)
                s.memory.settle(param, whole(buffer, shape))
                params.append(buffer)
            case Scalar():
                params.append(param)
    outs: list[loops.ArrayValue] = []
    order: list[tuple[str, int] | None] = []
    wanted: list[ResultPlace] = []
    kept = 0
    continued = dict(f.continues)
    for position, formal in enumerate(f.results):
        match formal.type:
            case Array() if position in continued:
                place = s.place(f.params[continued[position]])
                order.append(None)
                wanted.append(place)
            case Array(dtype, shape) if destination_known(f, position):
                buffer = loops.Buffer(formal.name, dtype)
                s.memory.writable.add(buffer)
                order.append(("out", len(outs)))
                outs.append(loops.ArrayValue(buffer, shape))
                wanted.append(whole(buffer, shape))
            case Token():
                order.append(None)
                wanted.append(None)
            case type:
                order.append(("result", kept))
                kept += 1
                wanted.append(OWNED if isinstance(type, Array) else None)
    body = s.block(f.body, wanted, Frame(last_uses(f.body)), region=True)
    label, extents = f.label or f.name, [_extent(p) for p in f.params if not isinstance(p.type, Token)]
    return loops.Function(
        f.name, tuple(params), tuple(outs), body, tuple(order), recursive, label, f.span, extents=tuple(extents)
    )


def _extent(param: anf.Var) -> anf.Size | None:
    """The elements of an array; None for a scalar."""
    return product(param.type.shape) if isinstance(param.type, Array) else None


@dataclass(slots=True)
class FunctionScheduler(Scheduler):
    """The walk that knows how each operation is scheduled."""

    def let(self, let: Let) -> None:
        op, vars = let.op, let.vars
        match op:
            case anf.Prim("eq" | "ne" | "lt" | "le" | "gt" | "ge" as order, args) if dtype_of(args[0]) == "str":
                self.out.append(loops.TextOp(vars[0], order, args, let.span))
            case anf.Prim("not", (x,)) if x in self.holds:
                self.holds[vars[0]] = not self.holds[x]
                self.out.append(loops.Convert(vars[0], Lit(self.holds[vars[0]], "bool")))
            case anf.Prim(name, args):
                self.out.append(loops.Compute(vars[0], name, args))
                if name == "maximum" and vars[0].type == I64:  # the size of an array, perhaps
                    self.facts.between(vars[0], tuple([anf.poly(a).substitute(self.sizes.get) for a in args]), ())
            case anf.Cast(_, arg):
                self.out.append(loops.Convert(vars[0], arg))
            case anf.IndexExpr(size):
                if not self.looping:
                    check_sizes(self, (size,), let.span)
                self.out.append(loops.Evaluate(vars[0], size))
                self.sizes[vars[0]] = size.substitute(self.sizes.get)
            case anf.Read(array, index):
                place = self.place(array)
                self.out.append(loops.Load(vars[0], place.buffer, place.at(index)))
                self.flats.add(vars[0])
            case anf.StopGradient(arg):
                self.alias(vars[0], arg)
            case anf.Assert():
                if op.condition != Lit(True, "bool") and not self.holds.get(op.condition):
                    self.out.append(loops.Assert(op.condition, op.code, op.parts, self.operands(op.values), let.span))
                self.holds[op.condition] = True
                for var, value in zip(vars, op.guarded, strict=True):
                    self.alias(var, value)
            case anf.Format(parts, args):
                formatted(self, parts, args, vars[0], let.span)
            case anf.Effect():
                effect(self, let, op)
            case anf.Foreign(target, args):
                foreign(self, target, args, vars, let.span)
            case anf.View(array, axes, shape, index):
                self.memory.settle(vars[0], self.place(array).seen_through(axes, shape, index))
            case anf.Reshape(array, shape):
                self.memory.settle(vars[0], self.in_a_row(array).reshaped(shape))
            case anf.Comp() if vars and vars[0] in self.finished:
                pass
            case anf.Comp():
                if not self.copied.isdisjoint(vars):
                    op, vars = self.without_copies(op, vars)
                    if not vars:
                        return
                check_sizes(self, bounds_of(op), let.span)
                op = flat_inside(self, op)
                around = self.places, self.looping
                self.places, self.looping = False, True
                comprehension(self, op, vars, let.span)
                self.places, self.looping = around
            case anf.Update(array, index, scalar):
                place = self.continued(vars[0], array)
                self.out.append(loops.Store(place.buffer, place.at(index), self.flat(scalar)))
            case anf.Copy(array):
                self.copy(self.place(array), self.target(vars[0]))
            case anf.Empty(dtype):
                if vars[0] not in self.memory.places:
                    place = self.target(vars[0])
                    if anf.is_reference(dtype):  # a collector looks at all elements of an array
                        self.fill(place, Lit("" if dtype == "str" else 0, dtype))
            case anf.Scan(monoid, array):
                scan(self, monoid, self.place(array), self.target(vars[0]))
            case anf.Concat(arrays):
                concat(self, arrays, self.target(vars[0]))
            case anf.Compact(mask):
                compact(self, self.place(mask), vars)
            case anf.Contract():
                contraction(self, op, vars[0], let.span)
            case anf.LinalgOp():
                library(self, let, op)
            case anf.Call():
                call(self, op, vars, let.span)
            case anf.If():
                branch(self, op, vars)
            case anf.Construct():
                construct(self, op, vars[0], let.span)
            case anf.Tag():
                tag(self, op, vars[0])
            case anf.Fields():
                fields(self, op, vars)
            case anf.For() | anf.While():
                if isinstance(op, anf.For):
                    check_sizes(self, bounds_of(op), let.span)
                looping, self.looping = self.looping, True
                repeat(self, flat_inside(self, op), vars)
                self.looping = looping
            case anf.Vjp() | anf.Jvp() | anf.VjpForward() | anf.VjpBackward():
                raise AssertionError("derivatives are expanded before scheduling")

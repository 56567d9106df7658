"""The passes of the core IR: what each is for, what it relies on, and their order.

normalise     every comprehension a perfect nest, each derivative of a named function: what `ad/` differentiates
derivatives   the innermost first, each result normalised again, until none is left
products      products of arrays are found while nothing is fused; then functions that get arguments early are split
afterwards    fused, in blocks and rows, and each array has one owner

`steps` runs them, and gives the program after each: to be verified, printed (`dlc ir --after`), compared (`dlc
bisect`), or thrown away. This is the one file that knows both passes and derivatives.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import replace
from functools import partial, reduce
from itertools import chain
from typing import Any

from dlang.ad.determinants import cofactors_in_products
from dlang.ad.expand import expand_innermost
from dlang.ad.limits import with_limits
from dlang.ad.residuals import Residuals
from dlang.ir.anf import Derivative, Function, Program, StopGradient, early_name
from dlang.ir.errors import IRError
from dlang.ir.sharing import verify_sharing
from dlang.ir.traverse import walk
from dlang.ir.verify import verify as verify_program
from dlang.optimize.batch_outer_products import batch_outer_products
from dlang.optimize.block_loop_products import block_loop_products
from dlang.optimize.blocking import blocking
from dlang.optimize.coalesce_writes import coalesce_writes
from dlang.optimize.contractions import contractions
from dlang.optimize.cse import cse
from dlang.optimize.dce import dce
from dlang.optimize.dead_fill import dead_fill
from dlang.optimize.distribute import distribute
from dlang.optimize.fuse import fuse
from dlang.optimize.fuse_outer_axis import fuse_outer_axis
from dlang.optimize.guards import guards
from dlang.optimize.hoist import hoist
from dlang.optimize.idle import idle
from dlang.optimize.index_checks import remove_index_checks
from dlang.optimize.inline import inline
from dlang.optimize.jacobians import jacobians
from dlang.optimize.jump_threading import jump_threading
from dlang.optimize.narrow import narrow
from dlang.optimize.ownership import ownership
from dlang.optimize.parts import parts
from dlang.optimize.reads_first import early_reads
from dlang.optimize.scatters import scatters
from dlang.optimize.simplify import simplify
from dlang.optimize.sink_products import sink_products
from dlang.optimize.slice_writes import slice_writes
from dlang.optimize.staging import staged
from dlang.optimize.symmetry import symmetry
from dlang.optimize.tailcalls import tail_calls_to_loops
from dlang.optimize.unroll import unroll
from dlang.optimize.vectorise_loops import vectorise_loops
from dlang.passes import DEVICE, Form, Pass, Step, of_phase, run_phase, same_functions, unmet as passes_unmet
from dlang.timings import timed
from dlang.verification import verifying

NORMAL, DERIVATIVES, PRODUCTS, AFTER = "normal", "derivatives", "products", "after"
STAGES = ("mono", "normal", "ad", "opt")
DEEPEST = 64  # derivatives of derivatives; each round removes one

Observer = Callable[[str, Program], None]


CorePass = Pass[Program, Sequence[str]]
"""A pass of the core IR; its context is the names of the functions that are called from outside."""
CoreStep = Step[Program]


def _plain(name: str, function: Callable[[Program], Program], when: str, purpose: str, **more: Any) -> CorePass:
    return Pass(name, lambda program, entries: function(program), when, purpose, **more)


_NESTS, _OWNED = frozenset({Form.NESTS}), frozenset({Form.OWNED})
_EXPANDED, _CONTRACTED = frozenset({Form.EXPANDED}), frozenset({Form.CONTRACTED})
_SIMPLIFY = "rewrites operations by the laws of arithmetic, and folds constants"
_CSE = "computes equal values once"
_DCE = "drops what nobody uses, and results and state that nobody reads"
_HOIST = "moves out of loops what does not change in them"

PASSES: tuple[CorePass, ...] = (
    Pass("inline", inline, NORMAL, "puts bodies of functions in the place of calls, callees before callers"),
    _plain("parts", parts, NORMAL, "hands recursive functions a whole array and an offset in place of a part"),
    _plain("index_checks", remove_index_checks, NORMAL, "removes checks of indices that loops and conditions prove"),
    # before a product with 1 is simplified: then it is a tangent without a factor
    Pass("guards", guards, NORMAL, "makes zero-safe products plain where no zero meets what is not finite"),
    _plain("simplify", simplify, NORMAL, _SIMPLIFY),
    _plain("cse", cse, NORMAL, _CSE),
    _plain("jump_threading", jump_threading, NORMAL, "joins branches whose conditions another has decided"),
    _plain("simplify", simplify, NORMAL, _SIMPLIFY),
    _plain("dce", dce, NORMAL, _DCE, tidies=True),
    _plain("early_reads", early_reads, NORMAL, "puts what reads an array before what consumes it"),
    # what a loop computes in every iteration would be saved in every iteration
    _plain("hoist", hoist, NORMAL, _HOIST),
    _plain("vectorise_loops", vectorise_loops, NORMAL, "does loops whose iterations are independent at once"),
    _plain("distribute", distribute, NORMAL, "splits comprehensions into perfect nests", gives=_NESTS),
    _plain("narrow", narrow, NORMAL, "computes where they are read elements of which few are read", needs=_NESTS),
    _plain("simplify", simplify, NORMAL, _SIMPLIFY, again=True),
    _plain("cse", cse, NORMAL, _CSE, again=True),
    _plain("dce", dce, NORMAL, _DCE, again=True),
    # as long as recursion is calls
    Pass("batch_outer_products", batch_outer_products, PRODUCTS,
         "adds up the outer products of a recursion a few dozen at a time", needs=_EXPANDED),
    _plain("tail_calls", tail_calls_to_loops, PRODUCTS, "makes loops of recursion in tail position"),
    _plain("slice_writes", slice_writes, PRODUCTS, "sets what each iteration adds to a slice of zeros of its own"),
    _plain("sink_products", sink_products, PRODUCTS,
           "does the products that a loop adds up as one product behind it", needs=_EXPANDED),
    _plain("jacobians", jacobians, PRODUCTS,
           "finds the local Jacobians of iterations before they are applied", needs=_EXPANDED),
    Pass("last_guards", partial(guards, last=True), PRODUCTS,
         "the same once more, when derivatives are expanded", needs=_EXPANDED),
    _plain("symmetry", symmetry, PRODUCTS, "adds up sums over both sides of pairs once", needs=_NESTS),
    _plain("contractions", contractions, PRODUCTS, "finds the products of arrays", needs=_NESTS | _EXPANDED,
           gives=_CONTRACTED),
    # before fusion, which would take invariant arrays into the loop
    _plain("hoist", hoist, PRODUCTS, _HOIST),
    _plain("fuse", fuse, AFTER, "computes arrays where they are read", needs=_NESTS | _CONTRACTED),
    _plain("simplify", simplify, AFTER, _SIMPLIFY),
    _plain("cse", cse, AFTER, _CSE),
    _plain("dce", dce, AFTER, _DCE, tidies=True),
    _plain("hoist", hoist, AFTER, _HOIST),
    # behind what moves code out of loops
    _plain("idle", partial(idle, last=True), AFTER, "makes nothing for loops without iterations"),
    # when fusion has left of a product what the iterations of a loop read
    _plain("block_loop_products", block_loop_products, AFTER,
           "does the products of a loop's inputs for a block of iterations at once", needs=_CONTRACTED),
    Pass("blocking", lambda program, entries: blocking(program), AFTER,
         "does chains of products and comprehensions a block of rows at a time", needs=_CONTRACTED, ends=_NESTS,
         on_device=lambda program, entries: blocking(program, device=True)),
    _plain("fuse_outer_axis", fuse_outer_axis, AFTER,
           "makes one loop of comprehensions that share an outer axis", needs=_CONTRACTED, ends=_NESTS),
    _plain("unroll", unroll, AFTER, "writes out comprehensions over a few known points as scalar code"),
    _plain("cse", cse, AFTER, _CSE, again=True),
    _plain("dce", dce, AFTER, _DCE, again=True),
    _plain("coalesce_writes", coalesce_writes, AFTER, "writes the segments of an array in one pass", needs=_EXPANDED),
    _plain("dead_fill", dead_fill, AFTER, "leaves arrays empty that are overwritten as a whole", needs=_EXPANDED),
    Pass("ownership", ownership, AFTER, "copies what is consumed while something else holds it", needs=_EXPANDED,
         gives=_OWNED),
)  # fmt: skip


BETWEEN: tuple[CorePass, ...] = (
    _plain("limits", with_limits, DERIVATIVES, "notes where a derivative is a limit, beside products with zeros"),
    _plain("derivatives", lambda program: expand_innermost(program) or program, DERIVATIVES,
           "expands the innermost derivatives", ends=_NESTS),
    _plain("cofactors", cofactors_in_products, DERIVATIVES, "expands the cofactors of determinants", ends=_NESTS),
    _plain("scatters", scatters, DEVICE, "makes scatters of loops that only a device does at once"),
)  # fmt: skip
"""Passes that run at one place only: derivatives are normalised after each round, `scatters` is for a device."""

NAMED: Mapping[str, CorePass] = {p.name: p for p in reversed((*PASSES, *BETWEEN))}
"""Each pass by its name, as it is where it comes first."""


def unmet(passes: Sequence[CorePass] = PASSES) -> list[str]:
    """The contracts that an order of passes breaks; derivatives are expanded behind the first phase."""
    normal, rest = of_phase(passes, NORMAL), [*of_phase(passes, PRODUCTS), *of_phase(passes, AFTER)]
    given = reduce(lambda forms, p: p.after(forms), normal, _EXPANDED)
    return [*passes_unmet(normal), *passes_unmet(rest, given)]


def steps(
    program: Program,
    entries: Sequence[str],
    residuals: list[Residuals] | None = None,
    given: Mapping[str, Set[int]] | None = None,
    device: bool = False,
    passes: Sequence[CorePass] | None = None,
) -> Iterator[CoreStep]:
    """The program after each pass and at the end of each stage; parameters as for `optimise`."""
    passes = PASSES if passes is None else passes
    normal = of_phase(passes, NORMAL)
    step = Step("mono", program, frozenset(), True)
    yield step
    step = yield from run_phase(step, entries, normal, device)
    finished = _finished(step.program)
    if any(isinstance(let.op, Derivative) for f in step.program.functions.values() for let in walk(f.body)):
        yield (step := _become(step, "idle", idle(step.program)))
    yield (step := Step("normal", step.program, step.forms, True))
    yield (step := _become(step, "limits", with_limits(step.program), _NESTS))
    for _ in range(DEEPEST):
        with timed("derivatives"):
            expanded = expand_innermost(step.program, residuals)
        if expanded is None:
            break
        expanded = replace(expanded, finished=finished)
        yield (step := _become(step, "derivatives", expanded, _NESTS))
        step = yield from run_phase(step, entries, normal, device)
        finished = _finished(step.program)
    products = cofactors_in_products(_unfinished(step.program))
    if not same_functions(products, step.program):
        products = replace(products, finished=finished)
        yield (step := _become(step, "cofactors", products, _NESTS))
        step = yield from run_phase(step, entries, normal, device)
    yield (step := Step("ad", _unfinished(step.program), step.forms | _EXPANDED, True))
    step = yield from run_phase(step, entries, of_phase(passes, PRODUCTS), device)
    for name, positions in (given or {}).items():  # before fusion, which would mix what is early with the rest
        yield (step := _become(step, "staging", staged(step.program, name, positions)))
        entries = [*entries, early_name(name)]
    if device:
        yield (step := _become(step, "scatters", scatters(step.program)))
    step = yield from run_phase(step, entries, of_phase(passes, AFTER), device)
    yield Step("opt", step.program, step.forms, True)


def _finished(program: Program) -> dict[str, Function]:
    """The functions of a program in normal form that have it for good: while they stay as they are, and calls of them
    are not inlined, the passes of that form have nothing to do. A `StopGradient` goes with the last derivative."""
    return {
        name: f
        for name, f in program.functions.items()
        if not any(isinstance(let.op, StopGradient) for let in walk(f.body))
    }


def _unfinished(program: Program) -> Program:
    return replace(program, finished={}) if program.finished else program


def run_passes(program: Program, entries: Sequence[str], passes: Sequence[CorePass]) -> Program:
    """A program after some passes, in any order; it is verified after each, but not for forms that it may lack."""
    for p in passes:
        before, program = program, p.function(program, entries)
        verified(program, f"the pass `{p.name}`", before, Form.OWNED in p.gives)
    return program


def _become(step: CoreStep, name: str, program: Program, ends: frozenset[Form] = frozenset()) -> CoreStep:
    """A step that is no pass of a phase."""
    return Step(name, program, step.forms if same_functions(program, step.program) else step.forms - ends)


def verified(program: Program, maker: str, since: Program | None = None, ownership: bool = False) -> Program:
    """The program, which is well formed: else an IRError says who made it. since: what it was made of, verified."""
    with timed("verify"):
        try:
            verify_program(program, ownership, since)
        except IRError as error:
            raise IRError(f"{maker} made an ill-formed program: {error}") from None
    return program


def _shared(program: Program, maker: str, since: Program | None = None) -> None:
    """Checks that a program keeps the law of sharing: else an IRError says who broke it. since: what it was made of."""
    with timed("verify"):
        try:
            verify_sharing(program, since)
        except IRError as error:
            raise IRError(f"{maker} has something computed more often than it has to be: {error}") from None


def verify_steps(made: Iterable[CoreStep]) -> Iterator[CoreStep]:
    """The same steps, each verified: it is well formed and has the forms that it should have, or an IRError says who
    made it."""
    before: CoreStep | None = None
    for step in made:
        maker = "specialisation" if before is None else f"the pass `{step.name}`"
        if not step.stage or before is None:
            since = None if before is None else before.program
            verified(step.program, maker, since, Form.OWNED in step.forms)
            if Form.NESTS in step.forms:
                _shared(step.program, maker, since if before is not None and Form.NESTS in before.forms else None)
        yield step
        before = step


def normalise(program: Program, entries: Sequence[str], verify: bool = False) -> Program:
    """The normal form that `ad/` differentiates."""
    begin = Step("mono", program, frozenset(), True)
    made = chain([begin], run_phase(begin, entries, of_phase(PASSES, NORMAL)))
    return deque(verify_steps(made) if verify else made, maxlen=1).pop().program


def optimise(
    program: Program,
    entries: Sequence[str],
    verify: bool | None = None,
    observe: Observer | None = None,
    residuals: list[Residuals] | None = None,
    given: Mapping[str, Set[int]] | None = None,
    device: bool = False,
    passes: Sequence[CorePass] | None = None,
) -> Program:
    """The program as the back ends want it; `entries` are the functions that are called from outside.

    verify: whether it is checked after each pass; None leaves that to the environment. observe: called after each pass
    and each of `STAGES` with its name and the program. residuals: gets those of each derivative. given: of entries that
    are to be split (`staging.py`), the positions of the parameters that are known early. device: whether the program is
    for one.
    """
    made = steps(program, entries, residuals, given, device, passes)
    for step in verify_steps(made) if (verifying() if verify is None else verify) else made:
        if observe is not None:
            observe(step.name, step.program)
    return step.program

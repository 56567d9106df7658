"""The passes of the core IR: what each is for, what it relies on, and their order.

normal        every comprehension a perfect nest, each derivative of a named function: what `ad/` differentiates
derivatives   the innermost first, each result normalised again, until none is left
products      products of arrays are found while nothing is fused; then functions that get arguments early are split
after         fused, in blocks and rows, and each array has one owner

`steps` runs them, and gives the program after each: to be verified, printed (`dlc ir --after`), compared (`dlc
bisect`), or thrown away. This is the one file that knows both passes and derivatives.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain, groupby
from typing import Any

from dlang.ad.determinants import cofactors_in_products
from dlang.ad.expand import expand_innermost
from dlang.ad.limits import with_limits
from dlang.ad.residuals import Residuals
from dlang.ir.accesses import verify_accesses
from dlang.ir.anf import Derivative, Function, Program, StopGradient, early_name
from dlang.ir.errors import IRError
from dlang.ir.sharing import verify_sharing
from dlang.ir.traverse import walk
from dlang.ir.verify import verify as verify_program
from dlang.optimize.batch_outer_products import batch_outer_products
from dlang.optimize.block_loop_products import block_loop_products
from dlang.optimize.blocking import blocking
from dlang.optimize.branch_reads import branch_reads
from dlang.optimize.coalesce_writes import coalesce_writes
from dlang.optimize.common_calls import common_calls
from dlang.optimize.common_fields import common_fields
from dlang.optimize.common_loops import common_loops
from dlang.optimize.compared_axes import compared_axes
from dlang.optimize.contractions import contractions
from dlang.optimize.counted_calls import counted_calls
from dlang.optimize.cse import cse
from dlang.optimize.dce import dce
from dlang.optimize.dead_fill import dead_fill
from dlang.optimize.distribute import distribute
from dlang.optimize.factors import factors
from dlang.optimize.fuse import fuse
from dlang.optimize.fuse_outer_axis import fuse_outer_axis
from dlang.optimize.grown_arrays import grown_arrays
from dlang.optimize.guards import guards
from dlang.optimize.half_operands import half_operands
from dlang.optimize.hoist import hoist
from dlang.optimize.idle import idle
from dlang.optimize.index_checks import remove_index_checks
from dlang.optimize.inline import inline
from dlang.optimize.jacobians import jacobians
from dlang.optimize.joined_arrays import joined_arrays
from dlang.optimize.jump_threading import jump_threading
from dlang.optimize.lists import lists
from dlang.optimize.loop_points import loop_points
from dlang.optimize.masked_sums import masked_sums
from dlang.optimize.narrow import narrow
from dlang.optimize.one_element import one_element
from dlang.optimize.ownership import ownership
from dlang.optimize.parts import parts
from dlang.optimize.point_loops import point_loops
from dlang.optimize.reads_first import early_reads
from dlang.optimize.recurrences import recurrences
from dlang.optimize.remake import remake
from dlang.optimize.running_powers import running_powers
from dlang.optimize.short_axes import short_axes
from dlang.optimize.simplify import simplify
from dlang.optimize.sink_products import sink_products
from dlang.optimize.slice_writes import slice_writes
from dlang.optimize.split_axes import split_axes
from dlang.optimize.staging import staged
from dlang.optimize.steady_sums import steady_sums
from dlang.optimize.symmetry import symmetry
from dlang.optimize.tailcalls import tail_calls_to_loops
from dlang.optimize.unroll import unroll
from dlang.optimize.vectorise_loops import vectorise_loops
from dlang.optimize.whole_updates import whole_updates
from dlang.passes import (
    Form,
    Pass,
    Step,
    of_phase,
    run_pass,
    run_phase,
    same_functions,
    unmet as passes_unmet,
    verifying,
)
from dlang.timings import timed

NORMAL, BEFORE, DERIVATIVES, PRODUCTS, AFTER = "normal", "before", "derivatives", "products", "after"
PHASES: Mapping[str, str | None] = {NORMAL: None, BEFORE: "normal", DERIVATIVES: "ad", PRODUCTS: None, AFTER: "opt"}
"""The phases in order, and the stage that is reached at the end of each."""
STAGES = ("mono", *filter(None, PHASES.values()))
DEEPEST = 64  # derivatives of derivatives; each round removes one

Observer = Callable[[str, Program], None]


@dataclass(frozen=True, slots=True)
class CoreTarget:
    """The code that the passes of the core IR are to make; parameters as for `optimise`."""

    entries: Sequence[str]
    residuals: list[Residuals] | None = None
    given: Mapping[str, Set[int]] = field(default_factory=dict)
    device: bool = False

    def called(self, program: Program) -> Sequence[str]:
        """The functions of a program that are called from outside, those that run early included."""
        return [*self.entries, *[name for name in map(early_name, self.given) if name in program.functions]]


CorePass = Pass[Program, CoreTarget]
CoreStep = Step[Program]


def _plain(name: str, function: Callable[[Program], Program], when: str, purpose: str, **more: Any) -> CorePass:
    return Pass(name, lambda program, to: function(program), when, purpose, **more)


def _split(program: Program, to: CoreTarget) -> Program:
    for name, positions in to.given.items():
        program = staged(program, name, positions)
    return program


def differentiates(program: Program) -> bool:
    """Tells whether a program has derivatives that are not expanded."""
    return any(isinstance(let.op, Derivative) for f in program.functions.values() for let in walk(f.body))


def where_differentiated(change: Callable[[Program], Program]) -> Callable[[Program], Program]:
    """A pass that leaves a program without derivatives as it is."""
    return lambda program: change(program) if differentiates(program) else program


_NESTS, _OWNED = frozenset({Form.NESTS}), frozenset({Form.OWNED})
_EXPANDED, _CONTRACTED = frozenset({Form.EXPANDED}), frozenset({Form.CONTRACTED})
_SIMPLIFY = "rewrites operations by the laws of arithmetic, and folds constants"
_CSE = "computes equal values once"
_DCE = "drops what nobody uses, and results and state that nobody reads"
_HOIST = "moves out of loops what does not change in them"
_NARROW = "computes where they are read elements of which few are read"
_IDLE = "makes nothing for loops without iterations, nor for arms that do not run"
_THREADING = "joins branches whose conditions another has decided"

PASSES: tuple[CorePass, ...] = (
    _plain("common_calls", common_calls, NORMAL, "calls once what both arms of a branch call last", exact=True),
    Pass("inline", lambda program, to: inline(program, to.entries), NORMAL,
         "puts bodies of functions in the place of calls, callees before callers", exact=True),
    Pass("counted_calls", lambda program, to: counted_calls(program, to.entries), NORMAL,
         "makes loops of recursion that counts", exact=True),
    Pass("lists", lambda program, to: lists(program, to.entries), NORMAL,
         "keeps lists that are made in order, and only walked, as arrays", exact=True),
    _plain("grown_arrays", grown_arrays, NORMAL,
           "makes arrays as long from the start as a loop makes them", exact=True),
    _plain("parts", parts, NORMAL, "hands recursive functions a whole array and an offset in place of a part",
           exact=True),
    _plain("split_axes", split_axes, NORMAL, "makes two axes of one by whose quotients elements are read", exact=True),
    _plain("index_checks", remove_index_checks, NORMAL, "removes checks of indices that loops and conditions prove",
           exact=True),
    # before a product with 1 is simplified: then it is a tangent without a factor
    Pass("guards", lambda program, to: guards(program, to.entries), NORMAL,
         "makes zero-safe products plain where no zero meets what is not finite"),
    _plain("simplify", partial(simplify, nests=False), NORMAL, _SIMPLIFY, exact=True),
    _plain("cse", cse, NORMAL, _CSE, exact=True),
    _plain("jump_threading", jump_threading, NORMAL, _THREADING, exact=True),
    _plain("simplify", simplify, NORMAL, _SIMPLIFY, exact=True),
    _plain("dce", dce, NORMAL, _DCE, exact=True, tidies=True),
    Pass("common_fields", lambda program, to: common_fields(program, to.entries), NORMAL,
         "reads where it comes from what all nodes of a variant hold", exact=True),
    _plain("early_reads", early_reads, NORMAL, "puts what reads an array before what consumes it", exact=True),
    # what a loop computes in every iteration would be saved in every iteration
    _plain("hoist", hoist, NORMAL, _HOIST, exact=True),
    # a state that no longer depends on the iterations leaves its loop before that is put where it depends on axes
    _plain("simplify", simplify, NORMAL, _SIMPLIFY, exact=True, again=True),
    # what nobody uses depends on axes, and so does what a comprehension makes beside it
    _plain("dce", dce, NORMAL, _DCE, exact=True, again=True),
    _plain("one_element", one_element, NORMAL, "computes what is 0 but for one element of a row for that element"),
    _plain("short_axes", short_axes, NORMAL, "writes out short axes of known length"),
    _plain("joined_arrays", joined_arrays, NORMAL, "computes the elements of joined arrays where they are read",
           exact=True),
    _plain("vectorise_loops", vectorise_loops, NORMAL,
           "does loops at once whose iterations are independent or only accumulate"),
    _plain("running_powers", running_powers, NORMAL, "keeps powers of one number from one term of a sum to the next"),
    # elements of an array that a loop made, and that are one number, depend on no axis
    _plain("simplify", partial(simplify, nests=False), NORMAL, _SIMPLIFY, exact=True, again=True),
    _plain("distribute", distribute, NORMAL, "splits comprehensions into perfect nests", gives=_NESTS),
    _plain("masked_sums", masked_sums, NORMAL, "does the sums of an arm where a condition on axes holds", needs=_NESTS),
    _plain("narrow", narrow, NORMAL, _NARROW, needs=_NESTS, exact=True),
    _plain("whole_updates", whole_updates, NORMAL, "updates almost all of an array as a whole, by a condition",
           needs=_NESTS, exact=True),
    _plain("simplify", simplify, NORMAL, _SIMPLIFY, exact=True, again=True),
    _plain("cse", cse, NORMAL, _CSE, exact=True, again=True),
    _plain("dce", dce, NORMAL, _DCE, exact=True, again=True),
    _plain("compared_axes", where_differentiated(compared_axes), BEFORE,
           "visits one point of an axis that is compared with a number"),
    # what was made at all points of such an axis is now read at one
    _plain("narrow", where_differentiated(narrow), BEFORE, _NARROW, exact=True),
    # or what a derivative saves of such a loop is made for nothing, and of what only an arm needs
    _plain("idle", where_differentiated(idle), BEFORE, _IDLE, exact=True),
    _plain("jump_threading", where_differentiated(jump_threading), BEFORE, _THREADING, exact=True),
    _plain("factors", where_differentiated(factors), BEFORE,
           "multiplies the factors of a sum's terms that depend on fewer axes by themselves", ends=_NESTS),
    _plain("dce", where_differentiated(dce), BEFORE, _DCE, exact=True),
    _plain("distribute", where_differentiated(distribute), BEFORE, "splits comprehensions into perfect nests",
           gives=_NESTS),
    _plain("limits", with_limits, DERIVATIVES, "notes where a derivative is a limit, beside products with zeros",
           ends=_NESTS),
    Pass("derivatives", lambda program, to: expand_innermost(program, to.residuals), DERIVATIVES,
         "expands the innermost derivatives", gives=_EXPANDED, ends=_NESTS, rounds=True),
    _plain("cofactors", cofactors_in_products, DERIVATIVES, "expands the cofactors of determinants", ends=_NESTS,
           rounds=True),
    # as long as recursion is calls
    Pass("batch_outer_products", lambda program, to: batch_outer_products(program, to.entries), PRODUCTS,
         "adds up the outer products of a recursion a few dozen at a time", needs=_EXPANDED),
    _plain("tail_calls", tail_calls_to_loops, PRODUCTS, "makes loops of recursion in tail position", exact=True),
    _plain("slice_writes", slice_writes, PRODUCTS, "sets what each iteration adds to a slice of zeros of its own",
           exact=True),
    # whose numbers no product is made of
    _plain("steady_sums", steady_sums, PRODUCTS, "adds up in a number what a loop adds to one element"),
    _plain("sink_products", sink_products, PRODUCTS,
           "does the products that a loop adds up as one product behind it", needs=_EXPANDED),
    _plain("jacobians", jacobians, PRODUCTS,
           "finds the local Jacobians of iterations before they are applied", needs=_EXPANDED),
    Pass("last_guards", lambda program, to: guards(program, to.entries, last=True), PRODUCTS,
         "the same once more, when derivatives are expanded", needs=_EXPANDED),
    _plain("symmetry", symmetry, PRODUCTS, "adds up sums over both sides of pairs once", needs=_NESTS),
    Pass("contractions", lambda program, to: contractions(program, bool(to.given)), PRODUCTS,
         "finds the products of arrays", needs=_NESTS | _EXPANDED, gives=_CONTRACTED),
    # before fusion, which would take invariant arrays into the loop
    _plain("hoist", hoist, PRODUCTS, _HOIST, exact=True),
    # before fusion, which would mix what is early with the rest
    Pass("staging", _split, PRODUCTS, "makes functions of their own of what is known early", exact=True),
    _plain("fuse", fuse, AFTER, "computes arrays where they are read", needs=_NESTS | _CONTRACTED),
    _plain("compared_axes", compared_axes, AFTER, "visits one point of an axis that is compared with a number",
           ends=_NESTS),
    _plain("simplify", simplify, AFTER, _SIMPLIFY, exact=True),
    _plain("cse", cse, AFTER, _CSE, exact=True),
    _plain("dce", dce, AFTER, _DCE, exact=True, tidies=True),
    _plain("hoist", hoist, AFTER, _HOIST, exact=True),
    # behind what moves code out of loops
    _plain("idle", idle, AFTER, _IDLE, exact=True),
    # when fusion has left of a product what the iterations of a loop read
    _plain("block_loop_products", block_loop_products, AFTER,
           "does the products of a loop's inputs for a block of iterations at once", needs=_CONTRACTED),
    Pass("blocking", lambda program, to: blocking(program, to.device), AFTER,
         "does chains of products and comprehensions a block of rows at a time", needs=_CONTRACTED, ends=_NESTS),
    # a device does the comprehensions of an iteration with all that it has
    _plain("point_loops", point_loops, AFTER, "does loops whose points never meet a point at a time",
           needs=_CONTRACTED, ends=_NESTS, device=False),
    _plain("fuse_outer_axis", fuse_outer_axis, AFTER,
           "makes one loop of comprehensions that share an outer axis", needs=_CONTRACTED, ends=_NESTS),
    # what a row is made of, in one pass over it
    _plain("fuse", fuse, AFTER, "computes arrays where they are read", needs=_CONTRACTED, again=True),
    # a device does the comprehensions of an iteration with all that it has
    _plain("loop_points", loop_points, AFTER,
           "does iterations that only add up, or set parts of arrays, as points", ends=_NESTS, device=False),
    _plain("unroll", unroll, AFTER, "writes out comprehensions over a few known points as scalar code"),
    _plain("recurrences", recurrences, AFTER, "shortens what an iteration waits for of the one before it", exact=True),
    # a device has no lanes to gain, and reads no more than it has to
    _plain("branch_reads", branch_reads, AFTER, "reads ahead of light branches what their arms read", exact=True,
           device=False),
    _plain("common_loops", common_loops, AFTER, "goes once through the state that two loops have", exact=True),
    _plain("cse", cse, AFTER, _CSE, exact=True, again=True),
    _plain("dce", dce, AFTER, _DCE, exact=True, again=True),
    _plain("coalesce_writes", coalesce_writes, AFTER, "writes the segments of an array in one pass", needs=_EXPANDED),
    _plain("dead_fill", dead_fill, AFTER, "leaves arrays empty that are overwritten as a whole", needs=_EXPANDED,
           exact=True),
    # behind what makes or joins such casts
    _plain("half_operands", half_operands, AFTER,
           "has a device multiply numbers of half precision as they are, in products of f32", exact=True, device=True),
    Pass("ownership", lambda program, to: ownership(program, to.called(program)), AFTER,
         "copies what is consumed while something else holds it", needs=_EXPANDED, gives=_OWNED, exact=True),
    _plain("remake", remake, AFTER, "makes once more, in place of a copy, what takes less to make", needs=_OWNED,
           ends=_NESTS, exact=True),
)  # fmt: skip

NAMED: Mapping[str, CorePass] = {
    p.name: p for p in (*of_phase(PASSES, BEFORE), *[p for p in reversed(PASSES) if p.when != BEFORE])
}
"""Each pass by its name, as it is where it comes first for programs with and without derivatives, if it does."""


def unmet(passes: Sequence[CorePass] = PASSES) -> list[str]:
    """The contracts that an order of passes breaks; behind those that run in rounds the first phase runs again."""
    normal = of_phase(passes, NORMAL)
    ordered = [p for when in PHASES for p in of_phase(passes, when)]
    return passes_unmet(q for p in ordered for q in ((p, *normal) if p.rounds else (p,)))


def steps(program: Program, to: CoreTarget, passes: Sequence[CorePass] | None = None) -> Iterator[CoreStep]:
    """The program after each pass and at the end of each stage."""
    wanted = [p for p in (PASSES if passes is None else passes) if p.device in (None, to.device)]
    normal = of_phase(wanted, NORMAL)
    yield (step := Step("mono", program, frozenset(), True))
    finished: dict[str, Function] = {}
    for when, stage in PHASES.items():
        for rounds, phase in groupby(of_phase(wanted, when), lambda p: p.rounds):
            if rounds:
                for p in phase:
                    step, finished = yield from _rounds(step, to, p, normal, finished)
            else:
                step = yield from run_phase(step, to, phase)
        if when == NORMAL:
            finished = _finished(step.program)
        if stage is not None:
            yield (step := Step(stage, step.program, step.forms, True))


def _rounds(
    step: CoreStep, to: CoreTarget, p: CorePass, normal: Sequence[CorePass], finished: dict[str, Function]
) -> Generator[CoreStep, None, tuple[CoreStep, dict[str, Function]]]:
    """The steps of a pass that runs until it has nothing to do, with the first phase after each round.

    finished: as `_finished` gives them; they are given back, too.
    """
    for _ in range(DEEPEST):
        after = run_pass(step, to, p)
        if same_functions(after.program, step.program):
            return replace(step, forms=after.forms), finished
        yield (step := Step(p.name, replace(after.program, finished=finished), after.forms - p.gives))
        step = yield from run_phase(step, to, normal)
        finished = _finished(step.program)
        step = replace(step, program=replace(step.program, finished={}))
    raise IRError(f"the pass `{p.name}` has not come to an end after {DEEPEST} rounds")


def _finished(program: Program) -> dict[str, Function]:
    """The functions of a program in normal form that have it for good: while they stay as they are, and calls of them
    are not inlined, the passes of that form have nothing to do. A `StopGradient` goes with the last derivative."""
    return {
        name: f
        for name, f in program.functions.items()
        if not any(isinstance(let.op, StopGradient) for let in walk(f.body))
    }


def run_passes(program: Program, entries: Sequence[str], passes: Sequence[CorePass]) -> Program:
    """A program after some passes, in any order; it is verified after each, but not for forms that it may lack."""
    for p in passes:
        before, program = program, p.function(program, CoreTarget(entries, device=p.device is True))
        verified(program, f"the pass `{p.name}`", before, Form.OWNED in p.gives)
    return program


def verified(program: Program, maker: str, since: Program | None = None, ownership: bool = False) -> Program:
    """The program, which is well formed: else an IRError says who made it. since: what it was made of, verified."""
    with timed("verify"):
        try:
            verify_program(program, ownership, since)
            verify_accesses(program, since)
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


def verify_steps(steps_made: Iterable[CoreStep]) -> Iterator[CoreStep]:
    """The same steps, each verified: it is well formed and has the forms that it should have, or an IRError says who
    made it."""
    before: CoreStep | None = None
    for step in steps_made:
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
    steps_made = chain([begin], run_phase(begin, CoreTarget(entries), of_phase(PASSES, NORMAL)))
    return deque(verify_steps(steps_made) if verify else steps_made, maxlen=1).pop().program


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
    steps_made = steps(program, CoreTarget(entries, residuals, given or {}, device), passes)
    for step in verify_steps(steps_made) if (verifying() if verify is None else verify) else steps_made:
        if observe is not None:
            observe(step.name, step.program)
    return step.program

"""The order of the passes: the one file of this folder that knows derivatives.

normalise     inline · bounds · guards · simplify · CSE · DCE · early reads · hoist · batching ·
              distribute, so that every comprehension is a perfect nest · narrow
derivatives   idle, limits, then the innermost first, each result normalised again, until none is left; cofactors
products      collect · tail calls · slices · defer · jacobians · guards · symmetry · contractions · hoist;
              then functions that get arguments early are split
afterwards    fuse · simplify · CSE · DCE · hoist · idle · inputs · blocking · rows · unroll · CSE · DCE ·
              segments · fills · ownership
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass
from operator import is_

from dlang.ad.determinants import cofactors_in_products
from dlang.ad.expand import expand_innermost
from dlang.ad.limits import with_limits
from dlang.ad.residuals import Residuals
from dlang.ir.anf import Derivative, Program, early_name
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
from dlang.timings import timed
from dlang.verification import verifying

NORMAL, PRODUCTS, AFTER = "normal", "products", "after"
STAGES = ("mono", "normal", "ad", "opt")
DEEPEST = 64  # derivatives of derivatives; each round removes one

Observer = Callable[[str, Program], None]
Witness = Callable[[Residuals], None]


@dataclass(frozen=True, slots=True)
class Pass:
    """One pass: `function(program, entries)`, run in the order of `PASSES` in the phase `when`.

    again: it tidies for the second time in its phase, and has nothing to do if no pass changed a function since.
    on_device: what is run in its place where the program is for a device.
    """

    name: str
    function: Callable[[Program, Sequence[str]], Program]
    when: str
    again: bool = False
    on_device: Callable[[Program, Sequence[str]], Program] | None = None


def _plain(name: str, function: Callable[[Program], Program], when: str, again: bool = False) -> Pass:
    return Pass(name, lambda program, entries: function(program), when, again)


PASSES: tuple[Pass, ...] = (
    Pass("inline", inline, NORMAL),
    _plain("parts", parts, NORMAL),
    _plain("index_checks", remove_index_checks, NORMAL),
    Pass("guards", guards, NORMAL),  # before a product with 1 is simplified: then it is a tangent without a factor
    _plain("simplify", simplify, NORMAL),
    _plain("cse", cse, NORMAL),
    _plain("jump_threading", jump_threading, NORMAL),
    _plain("simplify", simplify, NORMAL),
    _plain("dce", dce, NORMAL),
    _plain("early_reads", early_reads, NORMAL),
    _plain("hoist", hoist, NORMAL),  # what a loop computes in every iteration would be saved in every iteration
    _plain("vectorise_loops", vectorise_loops, NORMAL),
    _plain("distribute", distribute, NORMAL),
    _plain("narrow", narrow, NORMAL),  # what fusion would leave out has no derivative
    _plain("simplify", simplify, NORMAL, again=True),
    _plain("cse", cse, NORMAL, again=True),
    _plain("dce", dce, NORMAL, again=True),
    Pass("batch_outer_products", batch_outer_products, PRODUCTS),  # as long as recursion is calls
    _plain("tail_calls", tail_calls_to_loops, PRODUCTS),
    _plain("slice_writes", slice_writes, PRODUCTS),
    _plain("sink_products", sink_products, PRODUCTS),
    _plain("jacobians", jacobians, PRODUCTS),
    Pass("last_guards", lambda program, entries: guards(program, entries, last=True), PRODUCTS),
    _plain("symmetry", symmetry, PRODUCTS),
    _plain("contractions", contractions, PRODUCTS),
    _plain("hoist", hoist, PRODUCTS),  # before fusion, which would take invariant arrays into the loop
    _plain("fuse", fuse, AFTER),
    _plain("simplify", simplify, AFTER),
    _plain("cse", cse, AFTER),
    _plain("dce", dce, AFTER),
    _plain("hoist", hoist, AFTER),
    _plain("idle", lambda program: idle(program, last=True), AFTER),  # behind what moves code out of loops
    _plain(
        "block_loop_products", block_loop_products, AFTER
    ),  # when fusion has left of a product what the iterations of a loop read
    Pass(
        "blocking",
        lambda program, entries: blocking(program),
        AFTER,
        on_device=lambda program, entries: blocking(program, device=True),
    ),
    _plain("fuse_outer_axis", fuse_outer_axis, AFTER),
    _plain("unroll", unroll, AFTER),
    _plain("cse", cse, AFTER, again=True),
    _plain("dce", dce, AFTER, again=True),
    _plain("coalesce_writes", coalesce_writes, AFTER),
    _plain("dead_fill", dead_fill, AFTER),
    Pass("ownership", ownership, AFTER),
)


def run(program: Program, entries: Sequence[str], when: str, verify: bool = False, device: bool = False) -> Program:
    """The passes of one phase; with `verify` the result of each is checked. device: whether the program is for one."""
    tidy = program
    perfect = when != NORMAL  # from here on comprehensions are perfect nests, until their axes are taken apart
    for step in PASSES:
        if step.when == when:
            if step.again and _same_functions(program, tidy):
                continue
            before = program
            with timed(step.name):
                function = step.on_device if device and step.on_device is not None else step.function
                program = function(program, entries)
            if step.name == "dce":
                tidy = program
            if verify:
                verified(program, f"the pass `{step.name}`", before, step.name == "ownership")
                perfect = (perfect or step.name == "distribute") and step.name != "blocking"
                if perfect:
                    shared(program, f"the pass `{step.name}`", None if step.name == "distribute" else before)
    return program


def verified(program: Program, maker: str, since: Program | None = None, ownership: bool = False) -> Program:
    """The program, which is well formed: else an IRError says who made it. since: what it was made of, verified."""
    with timed("verify"):
        try:
            verify_program(program, ownership, since)
        except IRError as error:
            raise IRError(f"{maker} made an ill-formed program: {error}") from None
    return program


def shared(program: Program, maker: str, since: Program | None = None) -> None:
    """Checks that a program keeps the law of sharing: else an IRError says who broke it. since: what it was made of."""
    with timed("verify"):
        try:
            verify_sharing(program, since)
        except IRError as error:
            raise IRError(f"{maker} has something computed more often than it has to be: {error}") from None


def _same_functions(a: Program, b: Program) -> bool:
    """Whether two programs have the same functions; a pass gives back what it did not change."""
    return len(a.functions) == len(b.functions) and all(map(is_, a.functions.values(), b.functions.values()))


def normalise(program: Program, entries: Sequence[str], verify: bool = False) -> Program:
    """The normal form that `ad/` differentiates."""
    return run(program, entries, NORMAL, verify)


def optimise(
    program: Program,
    entries: Sequence[str],
    verify: bool | None = None,
    observe: Observer | None = None,
    saw: Witness | None = None,
    given: Mapping[str, Set[int]] | None = None,
    device: bool = False,
) -> Program:
    """The program as the back ends want it; `entries` are the functions that are called from outside.

    verify: whether it is checked after each pass; None leaves that to the environment. observe: called after each of
    `STAGES` with its name and the program. saw: with what each derivative saves. given: of entries that are to be split
    (`staging.py`), the positions of the parameters that are known early. device: whether the program is for one.
    """
    seen = observe or (lambda stage, program: None)
    if verify is None:
        verify = verifying()
    if verify:
        verified(program, "specialisation")

    def made(after: Program, maker: str) -> Program:
        """What became of the program, with its maker, for what is no pass of a phase."""
        return verified(after, maker, program) if verify else after

    seen("mono", program)
    program = normalise(program, entries, verify)
    if any(isinstance(let.op, Derivative) for f in program.functions.values() for let in walk(f.body)):
        program = made(idle(program), "making nothing for loops without iterations")
    seen("normal", program)
    program = made(with_limits(program), "noting limits")
    for _ in range(DEEPEST):
        with timed("derivatives"):
            expanded = expand_innermost(program, saw)
        if expanded is None:
            break
        program = normalise(made(expanded, "the expansion of derivatives"), entries, verify)
    products = made(cofactors_in_products(program), "the expansion of cofactors")
    if not _same_functions(products, program):
        program = normalise(products, entries, verify)
    seen("ad", program)
    program = run(program, entries, PRODUCTS, verify)
    for name, positions in (given or {}).items():  # before fusion, which would mix what is early with the rest
        program = made(staged(program, name, positions), "splitting by what is known early")
        entries = [*entries, early_name(name)]
    if device:
        program = made(scatters(program), "taking loops for scatters")
    program = run(program, entries, AFTER, verify, device)
    seen("opt", program)
    return program

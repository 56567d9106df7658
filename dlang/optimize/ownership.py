"""Copies made explicit: what is updated in place is owned there and used nowhere afterwards. The last pass.

`Update`, `into`, a call of what continues its argument, and the state of a loop that is updated in it
consume an array. Where the value is still held, by a caller, a later use, a view, or because a loop or comprehension
around would need it again, a `Copy` of it is consumed instead: before the loop if the loop carries it. The arrays that
a function returns are its own, each a buffer for itself. Afterwards a back end may update in place without looking.

A *root* is a variable whose value has storage of its own; every array variable holds one or more roots. A *region* is
code that runs once as a whole: a function, a loop's body or condition, a comprehension's body. Only the region in which
a root arises may consume it.

A call whose argument is owned and dead afterwards lends it to a function that would consume its parameter: that may
change the array in its place, and the caller frees it as before. There is one version of a function for each choice of
parameters that its calls lend. So a recursion that changes an array copies it at the first call at most, whether it
gives the array back or not; the derivative of a derivative changes arrays that nobody asks for any more.

It also lets a result that a comprehension sets, element by element, take the place of an array that it reads at the
same points and that nothing needs afterwards (`ir/writes.py`): the weights after a step are made in the memory
of their gradients.

Results of a function that are its array parameters, changed, go in and come out in one place.

    fn f(x: f64[n], …) -> (y: f64[n]) { … y: f64[n] = update x[i] = v … }

A result continues a parameter if it grows from it on every path (`ir/update_chains.py`). What a function returns is its
own, so it would have to copy such a parameter at any rate; instead whoever calls it hands over the array, or a copy
where something still holds that. So a recursion that changes an array passes it along and copies nothing. Functions
that are called from outside are left alone.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from dlang.ir import anf
from dlang.ir.substitution import Renaming
from dlang.ir.traverse import block_acts, mentioned, own_consumed, parts, walk
from dlang.ir.update_chains import goes_on, last_uses
from dlang.ir.writes import Continues, How, arrays_at_own_points, choices, links, reads_its_place
from dlang.ops import figures
from dlang.optimize.effects import effectful_functions
from dlang.optimize.reads_first import reads_first


def ownership(program: anf.Program, entries: Sequence[str] = ()) -> anf.Program:
    """The program in which everything that is consumed is owned and dead afterwards.

    entries: the functions that are called from outside; by default all.
    """
    refused: frozenset[Continued] = frozenset()
    while True:
        handed = handed_over(program, entries, refused)
        versions = _Versions(handed.functions, _uses(handed), effectful_functions(handed))
        for name in entries or handed.functions:
            versions.named(name, frozenset())
        owned = replace(handed, functions=versions.made())
        lost = versions.copied(owned)
        if not lost:
            return owned
        refused |= lost


# ---- functions -------------------------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class _Uses:
    """The array parameters that functions consume.

    continues: those that a result continues: every call hands over an array, or a copy. wanted: others, which a
    function changes in their place if a call lends them, and copies if not.
    """

    continues: Continues
    wanted: Mapping[str, frozenset[int]]

    def positions(self, function: str) -> list[int]:
        """The positions of the parameters that a call may consume."""
        return [*(k for _, k in self.continues.get(function, ())), *sorted(self.wanted.get(function, ()))]


def _uses(program: anf.Program) -> _Uses:
    functions = program.functions
    uses = _Uses({f.name: f.continues for f in functions.values() if f.continues}, {})
    while True:
        wanted = {name: _wanted_params(f, uses) for name, f in functions.items()}
        if wanted == uses.wanted:
            return uses
        uses = replace(uses, wanted=wanted)


def _wanted_params(function: anf.Function, uses: _Uses) -> frozenset[int]:
    handed = {k for _, k in function.continues}
    arrays = {p: k for k, p in enumerate(function.params) if _is_array(p) and k not in handed}
    if not arrays:
        return frozenset()
    return frozenset([arrays[p] for p in _wanted(function, uses, results=()) if p in arrays])


@dataclass(slots=True)
class _Versions:
    """The versions of functions that are called so far, by what is lent to them. effectful: the functions that are."""

    functions: Mapping[str, anf.Function]
    uses: _Uses
    effectful: frozenset[str]
    names: dict[tuple[str, frozenset[int]], str] = field(default_factory=dict)

    def named(self, function: str, lent: frozenset[int]) -> str:
        """The name of the version of a function that is lent the parameters at some positions, or as many as it may."""
        if (function, lent) not in self.names:
            known = [positions for name, positions in self.names if name == function and positions]
            if lent and len(known) >= figures.LENT_VERSIONS:
                return self.named(function, max([k for k in known if k < lent], key=len, default=frozenset()))
            self.names[function, lent] = ".".join([function, *(["lent", *map(str, sorted(lent))] if lent else [])])
        return self.names[function, lent]

    def copied(self, program: anf.Program) -> frozenset[Continued]:
        """The pairs that do not hold after all, since more needs the parameter, and a copy of it is changed."""
        continues = {f.name: f.continues for f in program.functions.values()}
        return frozenset(
            [
                (function, pair)
                for (function, _), name in self.names.items()
                for pair in {*continues[name]}.difference(goes_on(program.functions[name], continues))
            ]
        )

    def made(self) -> dict[str, anf.Function]:
        """All versions, and those that they call."""
        versions: dict[str, anf.Function] = {}
        while len(versions) < len(self.names):
            for (function, lent), name in list(self.names.items()):
                if name not in versions:
                    versions[name] = _version(self.functions[function], name, lent, self)
        order = {name: k for k, name in enumerate(self.functions)}
        places = {name: order[function] for (function, _), name in self.names.items()}
        return {name: versions[name] for name in sorted(versions, key=places.__getitem__)}


def _version(function: anf.Function, name: str, lent: frozenset[int], versions: _Versions) -> anf.Function:
    owner = _Owner(_wanted(function, versions.uses, function.body.results), versions, _Region())
    owned = {*lent, *(k for _, k in function.continues)}
    for k, param in enumerate(function.params):
        if k in owned:
            owner.owned(param)
        elif _is_array(param):
            owner.borrowed(param)
    owner.lent.update([function.params[k] for k in lent])
    body = owner.block(function.body, None, range(len(function.body.results)), final=True)
    return replace(function, name=name, body=body, consumes=tuple(sorted(lent)))


def _viewed(arm: anf.Block, result: anf.Atom) -> anf.Atom | None:
    """The array from outside of an arm that a result of it is a view of; None if it is no view."""
    views = {let.vars[0]: let.op.array for let in arm.lets if isinstance(let.op, anf.View | anf.Reshape)}
    if result not in views:
        return None
    while isinstance(result, anf.Var) and result in views:
        result = views[result]
    return result


def _is_array(atom: anf.Atom) -> bool:
    return isinstance(atom, anf.Var) and isinstance(atom.type, anf.Array)


# ---- what will be consumed -------------------------------------------------------------------------------------------
def _consumed(op: anf.Op, uses: _Uses) -> list[anf.Var]:
    """The arrays that an operation may consume by itself; the state of loops is found by `_wanted`."""
    match op:
        case anf.Call(function=function, args=args):
            return [a for k in uses.positions(function) if isinstance(a := args[k], anf.Var)]
        case anf.For() | anf.While():
            return []
        case _:
            return own_consumed(op)


def _wanted(function: anf.Function, uses: _Uses, results: Iterable[anf.Atom]) -> set[anf.Var]:
    """The variables whose storage is consumed somewhere later, or that of one of the results.

    A loop's state is updated in place if it is one, or if the next one can take its place.
    """
    work: list[anf.Atom] = [r for r in results if _is_array(r)]
    sources: dict[anf.Var, tuple[anf.Atom, ...]] = {}  # what else has the storage of a variable
    for let in walk(function.body):
        work += _consumed(let.op, uses)
        if isinstance(let.op, anf.For | anf.While):
            work += _replaced_states(let.op)
        sources.update({var: (source,) for var, source, how in links(let) if how is not How.CHANGED})
        sources.update(choices(let))
    wanted: set[anf.Var] = set()
    while work:
        atom = work.pop()
        if isinstance(atom, anf.Var) and isinstance(atom.type, anf.Array) and atom not in wanted:
            wanted.add(atom)
            work += sources.get(atom, ())
    return wanted


def _replaced_states(op: anf.For | anf.While) -> list[anf.Var]:
    """The arrays of a loop's state that an iteration reads last where it makes the next state, each point its own."""
    states = [
        (param, result)
        for param, result in zip(op.params, op.body.results[op.early :], strict=True)
        if isinstance(param.type, anf.Array) and isinstance(result, anf.Var) and result is not param
    ]
    replaced: list[anf.Var] = []
    for k, let in enumerate(op.body.lets if states else ()):
        for param, result in states:
            if isinstance(let.op, anf.Comp) and result in let.vars:
                own = arrays_at_own_points(let.op, let.vars.index(result))
                later = anf.Block(op.body.lets[k + 1 :], op.body.results)
                if param in own and param not in mentioned(later):
                    replaced.append(param)
    return replaced


# ---- where copies are needed -----------------------------------------------------------------------------------------
@dataclass(slots=True, eq=False)
class _Region:
    """Identity of a piece of code that runs as a whole."""


@dataclass(slots=True, eq=False)
class _Frame:
    """A block under way: its lets, what it mentions last where, and the frame around it in the same region.

    ends: the variables that hold arrays, by the position after which nothing here uses them.
    """

    around: _Frame | None
    last: dict[anf.Var, int]
    lets: tuple[anf.Let, ...]
    at: int = 0
    ends: dict[int, list[anf.Var]] = field(default_factory=dict)

    def live(self, var: anf.Var) -> bool:
        """Tells whether a variable is used after the current let, here or further out in the region."""
        frame: _Frame | None = self
        while frame is not None:
            if frame.last.get(var, -1) > frame.at:
                return True
            frame = frame.around
        return False


@dataclass(slots=True)
class _Owner:
    """The walk of a region: who holds what.

    A variable that nothing uses any more holds nothing. Roots of one region that the same variable alone holds are one
    root from then on, so a value has few, however many branches it went through.
    """

    wanted: set[anf.Var]
    versions: _Versions
    region: _Region
    roots: dict[anf.Var, set[anf.Var]] = field(default_factory=dict)
    holders: dict[anf.Var, set[anf.Var]] = field(default_factory=dict)  # of a root
    home: dict[anf.Var, _Region] = field(default_factory=dict)  # of a root; none: borrowed
    private: dict[tuple[anf.Var, _Region | None], anf.Var] = field(
        default_factory=dict
    )  # a root that only a variable held
    one_with: dict[anf.Var, anf.Var] = field(
        default_factory=dict
    )  # of a root that is no longer told from another: that one
    open: list[_Frame] = field(default_factory=list)  # the blocks under way
    lent: set[anf.Var] = field(default_factory=set)  # roots: the caller frees them, so they may not be returned
    strided: set[anf.Var] = field(default_factory=set)  # not row-major in its storage
    fills: dict[anf.Var, anf.Comp | anf.Empty] = field(default_factory=dict)  # arrays of one value, or of none yet
    refilled: set[anf.Var] = field(default_factory=set)  # those that were filled once more instead of being copied
    products: dict[anf.Var, int] = field(default_factory=dict)  # and which of them they are
    lets: list[anf.Let] = field(default_factory=list)

    def borrowed(self, var: anf.Var) -> None:
        self.hold(var, (var,))

    def owned(self, var: anf.Var) -> None:
        self.home[var] = self.region
        self.hold(var, (var,))

    def hold(self, var: anf.Var, roots: Iterable[anf.Var]) -> None:
        held = {self.canonical(root) for root in roots}
        for root in self.roots.get(var, ()):
            if root not in held:
                self.holders[root].discard(var)
        self.roots[var] = held
        for root in held:
            holders = self.holders.setdefault(root, set())
            holders.add(var)
            if len(holders) == 1:
                self.private.setdefault((var, self.home.get(root)), root)
        if self.open:
            self.until_last_use(var)

    def canonical(self, root: anf.Var) -> anf.Var:
        """The root that stands for one."""
        representative = root
        while representative in self.one_with:
            representative = self.one_with[representative]
        while root is not representative:
            self.one_with[root], root = representative, self.one_with[root]
        return representative

    def until_last_use(self, var: anf.Var) -> None:
        """Notes that a variable holds what it holds until nothing in the block under way uses it."""
        frame = self.open[-1]
        frame.ends.setdefault(max(frame.at, frame.last.get(var, 0)), []).append(var)

    def release(self, var: anf.Var) -> None:
        """A variable that nothing uses any more holds nothing."""
        for root in [*self.roots[var]]:
            holders = self.holders[root]
            holders.discard(var)
            if len(holders) == 1:
                (holder,) = holders
                self.only(holder, root)

    def only(self, holder: anf.Var, root: anf.Var) -> None:
        """A root that a single variable still holds becomes one with others of the same region which it alone holds."""
        key = holder, self.home.get(root)
        other = self.private.get(key, root)
        if other is root or other not in self.roots[holder] or len(self.holders[other]) > 1:
            self.private[key] = root
            return
        self.roots[holder].discard(root)
        self.holders[root] = set()
        self.one_with[root] = other
        if root in self.lent:
            self.lent.add(other)

    def roots_of(self, atom: anf.Atom | None) -> set[anf.Var]:
        return {*map(self.canonical, self.roots.get(atom, ()))} if isinstance(atom, anf.Var) else set()

    # ---- consuming
    def consumed(self, op: anf.Op) -> list[anf.Var]:
        """The arrays that an operation, or one in its arms, consumes, or carries on from in a loop."""
        match op:
            case anf.For() | anf.While():
                return [
                    a for a, p in zip(op.init, op.params, strict=True) if isinstance(a, anf.Var) and p in self.wanted
                ]
            case anf.If():
                arms = (op.then, op.otherwise)
                return [v for arm in arms for inner in block_acts(arm).consumers for v in self.consumed(inner)]
            case _:
                return _consumed(op, self.versions.uses)

    def consume(self, var: anf.Var, frame: _Frame, others: Iterable[anf.Var] = ()) -> anf.Var:
        """The variable to consume in place of `var`: itself, or a copy. others: what the let uses besides."""
        if var not in self.strided and self.own(self.roots_of(var), frame, set(others)):
            return var
        return self.copy(var)

    def own(self, roots: set[anf.Var], frame: _Frame, others: set[anf.Var]) -> bool:
        """Tells whether the storage belongs to this region and nothing else uses it, now or afterwards."""
        if not roots:  # nothing is known of it
            return False
        for root in roots:
            if self.home.get(root) is not self.region:
                return False
            if root in others or any(holder in others or frame.live(holder) for holder in self.holders[root]):
                return False
        return True

    def copy(self, var: anf.Var) -> anf.Var:
        """Another array of the same value; one of a constant is filled again."""
        new = anf.fresh(var.name, var.type)
        if var in self.fills:
            self.refilled.add(var)
        self.lets.append(
            anf.Let((new,), Renaming({}, renew=True).op(self.fills[var]) if var in self.fills else anf.Copy(var))
        )
        self.owned(new)
        return new

    def overtaken(self, var: anf.Var, op: anf.If, position: int, frame: _Frame) -> bool:
        """Tells whether a result of a branch may view an array that is consumed while the result is still needed.

        The arm then copies what it views, lest all of the array is copied where it is consumed.
        """
        viewed = {r for arm in (op.then, op.otherwise) for r in self.roots_of(_viewed(arm, arm.results[position]))}
        later = frame.lets[frame.at + 1 : frame.last.get(var, 0) + 1] if viewed else ()
        return any(not viewed.isdisjoint(self.roots_of(v)) for let in later for v in self.consumed(let.op))

    # ---- blocks
    def block(
        self, block: anf.Block, around: _Frame | None, owned_results: Iterable[int] = (), final: bool = False
    ) -> anf.Block:
        """A block in the same region as what is around it; the results at these positions shall be owned.

        final: it is the body of the function.
        """
        block = reads_first(block, self.consumed, self.versions.effectful)
        frame = _Frame(around, last_uses(block), block.lets)
        outer, self.lets = self.lets, []
        self.open.append(frame)
        for k, let in enumerate(block.lets):
            frame.at = k
            self.let(let, frame)
            for var in frame.ends.pop(k, ()):
                self.release(var)
        frame.at = len(block.lets)
        results = self.results(block.results, frame, set(owned_results), self.lent if final else ())
        new = self.without_dead_fills(anf.Block(tuple(self.lets), results))
        self.lets = outer
        self.open.pop()
        if self.open:  # what is around may still ask what the results hold
            self.open[-1].ends.setdefault(self.open[-1].at, []).extend(frame.ends.pop(frame.at, ()))
        return new

    def without_dead_fills(self, block: anf.Block) -> anf.Block:
        """The block without constant arrays of which all uses were given fills of their own."""
        refilled = self.refilled & {v for let in block.lets for v in let.vars}
        if not refilled:
            return block
        used = {v for let in block.lets for v in mentioned(let.op)} | set(block.results)
        return anf.Block(tuple([let for let in block.lets if used.issuperset(refilled & {*let.vars})]), block.results)

    def results(
        self, results: tuple[anf.Atom, ...], frame: _Frame, owned: set[int], lent: Iterable[anf.Var]
    ) -> tuple[anf.Atom, ...]:
        """Lets results at the positions `owned` hold storage of this region that no other one holds, nor is lent."""
        alike: dict[anf.Var, list[int]] = {}  # the positions of the results that are a variable, or hold a root
        for k, result in enumerate(results):
            if isinstance(result, anf.Var):
                for v in self.roots_of(result) | {result}:
                    alike.setdefault(v, []).append(k)
        out: list[anf.Atom] = []
        for k, result in enumerate(results):
            if k in owned and isinstance(result, anf.Var) and isinstance(result.type, anf.Array):
                near = {j for v in self.roots_of(result) | {result} for j in alike.get(v, ())}
                others = [out[j] if j < k else results[j] for j in near if j < k or (j > k and j not in owned)]
                result = self.consume(result, frame, [*self.same_storage(result, others), *lent])
            out.append(result)
        return tuple(out)

    def same_storage(self, var: anf.Var, others: Iterable[anf.Atom]) -> list[anf.Var]:
        mine = self.roots_of(var)
        return [o for o in others if isinstance(o, anf.Var) and (o is var or mine & self.roots_of(o))]

    def inside(
        self, block: anf.Block, owned_params: Iterable[anf.Var] = (), owned_results: Iterable[int] = ()
    ) -> anf.Block:
        """A block that is a region of its own."""
        outer, self.region = self.region, _Region()
        for param in owned_params:
            self.owned(param)
        new = self.block(block, None, owned_results)
        self.region = outer
        return new

    # ---- operations
    def let(self, let: anf.Let, frame: _Frame) -> None:
        op = let.op
        match op:
            case anf.Update(array, index, value):
                op = anf.Update(self.consume(array, frame), index, value)
                self.taken(let.vars[0], op.array)
            case anf.Comp():
                op = self.comp(op, frame)
                for var, d in zip(let.vars, op.destinations, strict=True):
                    if d.into is not None:
                        self.taken(var, d.into)
            case anf.Call():
                op = self.call(let, op, frame)
            case anf.For() | anf.While():
                self.loop(let, op, frame)
                return
            case anf.If():
                kept = [  # an arm copies what isn't its own
                    k
                    for k, var in enumerate(let.vars)
                    if var in self.wanted or (_is_array(var) and self.overtaken(var, op, k, frame))
                ]
                then = self.block(op.then, frame, kept)
                otherwise = self.block(op.otherwise, frame, kept)
                self.lets.append(anf.Let(let.vars, anf.If(op.condition, then, otherwise, cold=op.cold), let.span))
                for var, a, b in zip(let.vars, then.results, otherwise.results, strict=True):
                    if _is_array(var):
                        self.owned(var)  # whatever arose in an arm
                        self.hold(var, (var, *self.roots_of(a), *self.roots_of(b)))
                        if a in self.strided or b in self.strided:
                            self.strided.add(var)
                return
            case _:
                pass
        self.lets.append(anf.Let(let.vars, op, let.span))
        match op:
            case anf.View(array=array):
                self.hold(let.vars[0], self.roots_of(array))
                self.strided.add(let.vars[0])
            case anf.Reshape(array=array):
                self.alias(let.vars[0], array)
            case anf.Assert():
                for var, value in zip(let.vars, op.guarded, strict=True):
                    if isinstance(value, anf.Var) and _is_array(var):
                        self.alias(var, value)
            case anf.Comp():
                self.fresh_arrays(let)
                if len(let.vars) == 1 and not op.body.lets and op.destinations[0].into is None:
                    self.fills[let.vars[0]] = op
            case anf.Contract():
                self.fresh_arrays(let)
                self.products[let.vars[0]] = len(self.products)
            case anf.Empty():
                self.fresh_arrays(let)
                self.fills[let.vars[0]] = op
            case anf.Fields():
                for var in let.vars:
                    if _is_array(var):
                        self.borrowed(var)  # the node holds it
            case _:
                self.fresh_arrays(let)

    def fresh_arrays(self, let: anf.Let) -> None:
        for var in let.vars:
            if _is_array(var):
                self.owned(var)

    def alias(self, var: anf.Var, array: anf.Var) -> None:
        self.hold(var, self.roots_of(array))
        if array in self.strided:
            self.strided.add(var)

    def taken(self, var: anf.Var, array: anf.Var) -> None:
        """Notes that a new array is in the memory of another one."""
        if not self.lent.isdisjoint(self.roots_of(array)):
            self.lent.add(var)

    def call(self, let: anf.Let, op: anf.Call, frame: _Frame) -> anf.Call:
        """A call of the version of a function that is lent what it may have."""
        args = list(op.args)

        def others(k: int) -> list[anf.Var]:
            return [a for j, a in enumerate(args) if j != k and isinstance(a, anf.Var)]

        for j, k in self.versions.uses.continues.get(op.function, ()):
            arg = args[k]
            assert isinstance(arg, anf.Var)
            args[k] = consumed = self.consume(arg, frame, others(k))
            self.taken(let.vars[j], consumed)
        lent = [
            k
            for k in self.versions.uses.wanted.get(op.function, ())
            if isinstance(a := args[k], anf.Var)
            and a not in self.strided
            and self.own(self.roots_of(a), frame, set(others(k)))
        ]
        return anf.Call(self.versions.named(op.function, frozenset(lent)), tuple(args))

    def comp(self, op: anf.Comp, frame: _Frame) -> anf.Comp:
        used = mentioned(op.body)
        destinations: list[anf.Destination] = []
        for k, d in enumerate(op.destinations):
            if d.into is None:
                dying = self.dying(op, k, [d.into for d in destinations if d.into is not None], frame)
                if dying is not None:
                    d = anf.Reduce(d.shape, d.index, "set", dying)
            else:
                others = [o.into for j, o in enumerate(op.destinations) if j != k and o.into is not None]
                read = [v for v in used if v is not d.into] if reads_its_place(op, k) else used
                into = self.consume(d.into, frame, [*read, *others])
                if isinstance(d, anf.Reduce):
                    d = anf.Reduce(d.shape, d.index, d.monoid, into)
                else:
                    d = anf.ScatterAdd(d.shape, d.index, into)
            destinations.append(d)
        return anf.Comp(op.axes, self.inside(op.body), tuple(destinations))

    def dying(self, op: anf.Comp, position: int, taken: Sequence[anf.Var], frame: _Frame) -> anf.Var | None:
        """An array that a comprehension reads and nothing after it, in whose place a result can be.

        Of several the product that was made last: the comprehension may run with it, block by block.
        """
        arrays: list[anf.Var] = []
        for array in arrays_at_own_points(op, position):
            roots = self.roots_of(array)
            others = {*mentioned(op)} - {array} | {*taken} | self.lent
            if array not in self.strided and self.own(roots, frame, others):
                arrays.append(array)
        return max(arrays, key=lambda array: self.products.get(array, -1), default=None)

    def loop(self, let: anf.Let, op: anf.For | anf.While, frame: _Frame) -> None:
        carried = [_is_array(p) and p in self.wanted for p in op.params]
        used = [v for block in parts(op).blocks for v in mentioned(block)]
        init: list[anf.Atom] = []
        for k, atom in enumerate(op.init):
            if carried[k] and isinstance(atom, anf.Var):
                others = [a for j, a in enumerate(op.init) if j != k and isinstance(a, anf.Var)]
                atom = self.consume(atom, frame, [*used, *others])
            elif isinstance(atom, anf.Var) and _is_array(atom):
                self.borrowed(op.params[k])
                if atom in self.strided:
                    self.strided.add(op.params[k])
            init.append(atom)
        owned_params = [p for p, c in zip(op.params, carried, strict=True) if c]
        owned_results = [k + op.early for k, c in enumerate(carried) if c]
        new: anf.Op
        if isinstance(op, anf.For):
            body = self.inside(op.body, owned_params, owned_results)
            new = anf.For(op.index, op.low, op.high, op.params, tuple(init), body, op.early)
        else:
            for param in owned_params:
                self.borrowed(param)  # in the condition: the body needs it afterwards
            condition = self.inside(op.condition)
            body = self.inside(op.body, owned_params, owned_results)
            new = anf.While(op.params, tuple(init), condition, body, op.early)
        self.lets.append(anf.Let(let.vars, new, let.span))
        held: set[anf.Var] = set()  # by the state that is not carried: what is not of the body itself
        for k, c in enumerate(carried):
            if not c:
                held |= self.roots_of(init[k])
                held |= {r for r in self.roots_of(body.results[k + op.early]) if self.home.get(r) is self.region}
        for k, var in enumerate(let.vars):
            if _is_array(var):
                self.owned(var)
                if carried[k] and isinstance(first := init[k], anf.Var):
                    self.taken(var, first)
                if not carried[k]:
                    self.hold(var, (var, *held))
                    self.strided.add(var)


# ---- arrays that go in and come out ----------------------------------------------------------------------------------
Continued = tuple[str, tuple[int, int]]
"""A function, and the positions of a result and of the parameter that it continues."""


def handed_over(program: anf.Program, entries: Sequence[str] = (), refused: Container[Continued] = ()) -> anf.Program:
    """The program in which every function says what it continues, but for what is refused; `entries` are called from
    outside."""
    called = {
        let.op.function for f in program.functions.values() for let in walk(f.body) if isinstance(let.op, anf.Call)
    }
    inner = {f.name: f for f in program.functions.values() if f.name in called and f.name not in entries}
    if not any(_pairs(f) for f in inner.values()):
        return program
    found = _candidates(inner)
    continued = {f: tuple([pair for pair in pairs if (f, pair) not in refused]) for f, pairs in found.items()}
    while True:
        kept = {name: goes_on(inner[name], continued) for name in continued}
        if kept == continued:
            break
        continued = kept
    functions = {name: replace(f, continues=continued.get(name, ())) for name, f in program.functions.items()}
    return replace(program, functions=functions)


def _pairs(f: anf.Function) -> list[tuple[int, int]]:
    """The results that could continue a parameter, with that: arrays of one type."""
    return [
        (j, k)
        for j, result in enumerate(f.results)
        for k, param in enumerate(f.params)
        if isinstance(result.type, anf.Array) and result.type == param.type
    ]


def _candidates(functions: dict[str, anf.Function]) -> Continues:
    """The results that grow from just one parameter on the paths on which they grow from any."""
    sources = {name: _sources(f) for name, f in functions.items()}
    reached: dict[str, list[set[int]]] = {name: [set() for _ in f.results] for name, f in functions.items()}
    grew = True
    while grew:
        grew = False
        for name, f in functions.items():
            for j, result in enumerate(f.body.results):
                origins = _params_behind(f, result, sources[name], reached)
                grew |= origins != reached[name][j]
                reached[name][j] = origins
    out: dict[str, tuple[tuple[int, int], ...]] = {}
    for name, f in functions.items():
        allowed = set(_pairs(f))
        pairs = [(j, *params) for j, params in enumerate(reached[name]) if len(params) == 1]
        taken: dict[int, int] = {}
        for j, k in pairs:
            if (j, k) in allowed:
                taken.setdefault(k, j)
        out[name] = tuple(sorted((j, k) for k, j in taken.items()))
    return out


def _sources(f: anf.Function) -> dict[anf.Var, tuple[anf.Call, int] | tuple[anf.Atom, ...]]:
    """Maps a variable to the sources that it may continue: other variables, or, for a call's result, its arguments."""
    out: dict[anf.Var, tuple[anf.Call, int] | tuple[anf.Atom, ...]] = {}
    for let in walk(f.body):
        out.update({var: (source,) for var, source, how in links(let) if how is not How.SEEN})
        out.update(choices(let))
        if isinstance(let.op, anf.Call):
            out.update({v: (let.op, j) for j, v in enumerate(let.vars)})
    return out


def _params_behind(
    f: anf.Function,
    result: anf.Atom,
    sources: dict[anf.Var, tuple[anf.Call, int] | tuple[anf.Atom, ...]],
    reached: dict[str, list[set[int]]],
) -> set[int]:
    positions = {p: k for k, p in enumerate(f.params) if isinstance(p.type, anf.Array)}
    origins: set[int] = set()
    seen: set[anf.Atom] = set()
    work = [result]
    while work:
        atom = work.pop()
        if not isinstance(atom, anf.Var) or atom in seen:
            continue
        seen.add(atom)
        if atom in positions:
            origins.add(positions[atom])
        match sources.get(atom, ()):
            case (anf.Call() as call, int(j)):
                if call.function in reached:
                    work += [call.args[k] for k in reached[call.function][j]]
            case atoms:
                work += [a for a in atoms if isinstance(a, anf.Var)]
    return origins

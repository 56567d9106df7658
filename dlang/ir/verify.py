"""Checks that a program is well formed, as every pass may rely on and must keep it.

Scopes, one binding for each variable, the type of every result, sizes equal by their normal forms, the classes of
dtypes that a primitive takes, destinations, calls and their signatures, tokens used once. A size that is not plainly
another one takes its place only where an `Assert` binds the array that has it: one that compares just these sizes. With
`ownership`, also that nothing is used after an in-place operation consumed it. A violation is a defect of a pass: an
`IRError` with the let.

Where `DLANG_VERIFY` is set it is asked after every pass, for the functions that the pass changed, and looks again only
at blocks that are new (`Block.sound`).

Checks linear use: of tokens, at most once on every path, and of arrays that an in-place operation consumes.

`Update`, a destination's `into`, and a call of a function that says so consume an array. A view shares its elements
with what it is of; a loop's state starts as what it is initialised with, so consuming the one consumes the other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set

from dlang.ir import anf
from dlang.ir.affine import slope
from dlang.ir.errors import IRError
from dlang.ir.printer import print_let
from dlang.ir.rules import RULES, Checker, primitive_dtype, result_vars, type_rank
from dlang.ir.scope import Scope, show
from dlang.ir.sizes import learn
from dlang.ir.traverse import bound_vars, inner_sizes, mentioned, named_function, outer_sizes, parts, walk
from dlang.ir.types import I64, comp_types, dtype_of, type_of
from dlang.ir.update_chains import goes_on
from dlang.ir.writes import links, reads_its_place
from dlang.ops.monoids import MONOIDS, STAYS
from dlang.ops.primitives import ANY, CLASSES


def verify(program: anf.Program, ownership: bool = False, since: anf.Program | None = None) -> None:
    """Raises IRError unless every function of the program is well formed.

    since: a program that is, so what this one has of it is not looked at again, if nothing that it relies on differs.
    """
    if since is None or program.datatypes is not since.datatypes:
        _verify_datatypes(program)
    for name, function in program.functions.items():
        if function.name != name:
            raise IRError(f"the function {function.name} is filed as {name}")
    for function in program.functions.values() if since is None else _changed(program, since, ownership):
        try:
            try:
                _Verifier(program, function, trusting=True).run()
            except IRError:  # perhaps for what it did not look at again
                _Verifier(program, function, trusting=False).run()
            check_linear(function, program.functions, ownership)
            if ownership and function.continues:
                _check_continued(function, program)
        except IRError as error:
            raise IRError(f"in {function.name}: {error}") from None


def _check_continued(function: anf.Function, program: anf.Program) -> None:
    """Raises IRError if a result does not go on in the memory of the parameter that it is said to continue."""
    held = goes_on(function, {f.name: f.continues for f in program.functions.values()})
    for j, k in function.continues:
        if (j, k) not in held:
            raise IRError(f"result {j} continues the parameter {k}, and is made elsewhere")


def _verify_datatypes(program: anf.Program) -> None:
    for datatype in program.datatypes.values():
        for tag, variant in enumerate(datatype.variants):
            if variant.datatype != datatype.name or variant.tag != tag or not anf.is_handle(datatype.name):
                raise IRError(f"the variant {variant.name} of {datatype.name} is filed as {variant.datatype} {tag}")


def _changed(program: anf.Program, since: anf.Program, ownership: bool) -> list[anf.Function]:
    """The functions of a program that are others than before, or rely on what is: what is used up is another question
    with `ownership`, if nothing asked it before."""
    functions = program.functions
    if ownership or not since.datatypes.items() <= program.datatypes.items():
        return list(functions.values())
    called = {n for n, f in since.functions.items() if n not in functions or _signature(functions[n]) != _signature(f)}
    return [
        f
        for name, f in functions.items()
        if since.functions.get(name) is not f
        or (called and any(named_function(let.op) in called for let in walk(f.body)))
    ]


def _signature(f: anf.Function) -> tuple[object, ...]:
    """Returns the parts of a function on which its callers rely."""
    return f.params, f.results, f.continues, f.consumes, f.sizes


class _Verifier(Checker):
    """trusting: what is in a block that was found to be sound is not looked at again, nor known."""

    def __init__(self, program: anf.Program, function: anf.Function, trusting: bool) -> None:
        self.trusting = trusting
        self.functions = program.functions
        self.function = function
        self.scope = Scope(program.datatypes)
        self.compared: dict[
            anf.Var, tuple[tuple[anf.Size, anf.Size], ...]
        ] = {}  # the sizes that are equal if a condition holds

    def run(self) -> None:
        function = self.function
        self.scope.bind(function.params)
        self.block(function.body)
        self.scope.bind(function.results)
        self.scope.match(function.results, function.body.results, {}, "the function's results")
        for j, k in function.continues:
            if (
                not isinstance(function.params[k].type, anf.Array)
                or function.results[j].type != function.params[k].type
            ):
                raise IRError(f"result {j} cannot continue the parameter {k}, of another type")
        for k in function.consumes:
            if not isinstance(function.params[k].type, anf.Array):
                raise IRError(f"the parameter {k} cannot be consumed: it is no array")
        if not function.sizes.issubset([p for p in function.params if p.type == I64]):
            raise IRError("a size is no i64 among the parameters")

    # ---- blocks ------------------------------------------------------------------------------------------------------
    def block(self, block: anf.Block) -> None:
        """Checks a block; what it binds stays visible until the caller leaves it."""
        if self.trusting and block.sound and self.scope.enter(block):
            return
        leans = self.scope.leans
        for let in block.lets:
            try:
                self.let(let)
            except IRError as error:
                if "\n" in str(error):
                    raise
                text = print_let(let)
                place = f" ({let.span!r})" if let.span is not None else ""
                raise IRError(f"{error}{place}\n{text}") from None
        for result in block.results:
            self.scope.atom(result)
        if self.scope.leans == leans:
            object.__setattr__(block, "sound", True)

    def inside(self, op: anf.Op) -> None:
        """Checks the blocks of an operation, and the sizes that see what it binds."""
        p = parts(op)
        if not p.binds and not p.blocks:
            return
        mark = self.scope.mark()
        self.scope.bind(p.binds)
        for block in p.blocks:
            self.block(block)
        self.scope.sizes(inner_sizes(op))
        self.scope.leave(mark)

    def inner(self, block: anf.Block) -> None:
        """Checks a block of which nothing is visible behind it."""
        mark = self.scope.mark()
        self.block(block)
        self.scope.leave(mark)

    def let(self, let: anf.Let) -> None:
        op = let.op
        match op:
            case anf.Prim():  # as most operations are
                for arg in op.args:
                    if arg not in self.scope.visible:
                        self.scope.atom(arg)
                dtype = self.primitive(op)
                self.gives(let, (anf.scalar(dtype),))
                self.scope.bind(let.vars)
                if dtype == "bool":
                    self.equality(let, op)
                if dtype != "i64":
                    return
            case anf.Read():  # and most others
                self.scope.atom(op.array)
                self.scope.sizes(op.index)
                self.gives(let, (anf.scalar(self.rank(op.array, len(op.index), "the index").dtype),))
                self.scope.bind(let.vars)
                return
            case anf.Comp():
                for destination in op.destinations:
                    if destination.into is not None:
                        self.scope.atom(destination.into)
                self.comprehension(op)
                self.scope.bind(let.vars)
                self.gives(let, comp_types(op))
            case _:
                self.other(let, op)
        learn(let, self.scope.known)

    def gives(self, let: anf.Let, types: Sequence[anf.Type]) -> None:
        """Checks that the variables that a let binds have the types of its operation's results."""
        if len(types) != len(let.vars):
            raise IRError(f"what the operation gives: {len(let.vars)} for {len(types)}")
        for type, var in zip(types, let.vars, strict=True):
            if not self.scope.same(type, var.type):
                raise IRError(f"what the operation gives: {var} has the type {show(var.type)}, not {show(type)}")

    def other(self, let: anf.Let, op: anf.Op) -> None:
        if named_function(op) is not None or isinstance(op, anf.Construct | anf.Tag | anf.Fields):
            self.scope.leans += 1  # on another function, or a datatype
        mentioned = parts(op)
        for atom in mentioned.atoms:
            self.scope.atom(atom)
        self.scope.sizes(outer_sizes(op))
        self.operands(op)
        match op:  # whose results depend on what is bound inside
            case anf.If():
                self.inner(op.then)
                self.inner(op.otherwise)
            case anf.For():
                self.loop(op.params, op.init, op.body, op.early, (op.index,), None)
            case anf.While():
                self.loop(op.params, op.init, op.body, op.early, (), op.condition)
            case _:
                self.inside(op)
        self.scope.bind(let.vars)
        match op:
            case anf.If():
                for arm in (op.then, op.otherwise):
                    self.scope.match(let.vars, arm.results, {}, "what an arm returns")
            case anf.Assert():
                self.certified(op, let)
            case _:
                if (bound := RULES[type(op)].bound) is not None:
                    bound(op, let.vars)
                else:
                    self.scope.match(result_vars(op, self.functions), let.vars, {}, "what the operation gives")

    # ---- sizes that a check compares ---------------------------------------------------------------------------------
    def equality(self, let: anf.Let, op: anf.Prim) -> None:
        """Notes the sizes that are equal if a condition holds."""
        match op:
            case anf.Prim("eq", (x, y)) if x.type == I64:
                self.compared[let.vars[0]] = ((anf.poly(x), anf.poly(y)),)
            case anf.Prim("and", (x, y)):
                self.compared[let.vars[0]] = (*self.equalities(x), *self.equalities(y))
            case _:
                pass

    def equalities(self, condition: anf.Atom) -> tuple[tuple[anf.Size, anf.Size], ...]:
        """The sizes that are equal where a condition holds."""
        return self.compared.get(condition, ()) if isinstance(condition, anf.Var) else ()

    def certified(self, op: anf.Assert, let: anf.Let) -> None:
        if len(op.guarded) != len(let.vars):
            raise IRError("a check binds one variable for each guarded value")
        for value, var in zip(op.guarded, let.vars, strict=True):
            a, b = value.type, var.type
            alike = type_rank(a) == type_rank(b) and not isinstance(a, anf.Token) and not isinstance(b, anf.Token)
            if not alike or dtype_of(value) != dtype_of(var):
                raise IRError(f"{var} certifies {value!r} and has another dtype or rank")
            if not self.scope.same(a, b) and op.condition != anf.Lit(False, "bool"):
                assert isinstance(a, anf.Array) and isinstance(b, anf.Array)
                for size_before, size in zip(a.shape, b.shape, strict=True):
                    if not self.equal_by_check(op.condition, size_before, size):
                        raise IRError(f"the check of {value!r} does not compare {size_before} with {size}")

    def equal_by_check(self, condition: anf.Atom, a: anf.Size, b: anf.Size) -> bool:
        """Tells whether two sizes are equal if a condition holds."""
        open = self.scope.opened
        a, b = open(a), open(b)
        for left, right in self.equalities(condition):
            for one, other in ((open(left), open(right)), (open(right), open(left))):
                var = one.atom
                if a == one and b == other:
                    return True
                if var is not None and not other.mentions((var,)):  # it may stand in a sum, or a product
                    a, b = a.substitute({var: other}.get), b.substitute({var: other}.get)
        return a == b

    # ---- operations --------------------------------------------------------------------------------------------------
    def primitive(self, op: anf.Prim) -> str:
        """Checks the arguments of a primitive; gives the dtype of its result."""
        return primitive_dtype(op.name, tuple([self.scalar(a) for a in op.args]))

    def comprehension(self, op: anf.Comp) -> None:
        mark = self.scope.mark()
        for destination in op.destinations:
            self.scope.sizes(destination.shape)
        for axis in op.axes:
            if not axis.lows or not axis.highs:
                raise IRError(f"the axis {axis.var} has no bound")
            self.scope.sizes(axis.lows)
            self.scope.sizes(axis.highs)
            if axis.var.type != I64:
                raise IRError(f"the axis {axis.var} is not an i64")
            self.scope.bind((axis.var,))
        self.block(op.body)
        if len(op.body.results) != len(op.destinations):
            raise IRError(f"{len(op.body.results)} values for {len(op.destinations)} destinations")
        for k, (value, destination) in enumerate(zip(op.body.results, op.destinations, strict=True)):
            if isinstance(destination, anf.Reduce) and destination.after is not None:
                self.segment(op, k, destination.after)
            self.scope.sizes(destination.index)
            dtype = self.value(value, destination)
            monoid = "sum" if isinstance(destination, anf.ScatterAdd) else destination.monoid
            if monoid not in MONOIDS:
                raise IRError(f"there is no monoid {monoid}")
            domain = MONOIDS[monoid].domain
            if domain != ANY and dtype not in CLASSES[domain]:
                raise IRError(f"{monoid} of {dtype}")
            if not isinstance(destination, anf.ScatterAdd):
                self.kept(destination.index, op.axes, monoid)
            if destination.into is not None:
                if monoid in STAYS:
                    raise IRError(f"{monoid} into an array")
                if not self.scope.same(destination.into.type, type_of(dtype, destination.shape)):
                    raise IRError(f"{destination.into} is not an array of the destination's type")
        self.scope.leave(mark)

    def segment(self, op: anf.Comp, k: int, after: int) -> None:
        """A destination that goes on with the array of an earlier one."""
        d = op.destinations[k]
        if not 0 <= after < k or d.into is not None:
            raise IRError(f"destination {k} goes on with that of no earlier one")
        earlier = op.destinations[after]
        if any(isinstance(o, anf.Reduce) and o.after == after for o in op.destinations[:k]):
            raise IRError(f"two destinations go on with that of destination {after}")
        if not isinstance(earlier, anf.Reduce) or dtype_of(op.body.results[k]) != dtype_of(op.body.results[after]):
            raise IRError(f"destination {k} is not of the type of the one that it goes on with")
        self.equal_sizes(d.shape, earlier.shape, "segments are of arrays of other sizes")

    def value(self, value: anf.Atom, destination: anf.Destination) -> str:
        """The dtype of what goes to a destination: a scalar, or an array for its last axes, or several such rows."""
        index, shape = destination.index, destination.shape
        row: tuple[anf.Size, ...] = ()
        if isinstance(value.type, anf.Array) and isinstance(destination, anf.Reduce):
            row = value.type.shape
            if index and destination.monoid == "set" and len(index) + len(row) == len(shape) + 1:
                row = row[1:]
            self.equal_sizes(shape[len(index) :], row, "the values are rows of other sizes")
        else:
            self.scalar(value)
        if len(index) + len(row) != len(shape):
            raise IRError(f"an index of {len(index)} entries for a shape of {len(shape)}")
        return dtype_of(value)

    def kept(self, index: Sequence[anf.Size], bounded: Sequence[anf.Axis], monoid: str) -> None:
        """Checks, as far as it shows, that an index determines its axes; an axis of one point needs nothing."""
        axes = [axis.var for axis in bounded]
        plain = [entry.atom for entry in index]
        if set(plain) == set(axes) and len(plain) == len(axes):
            return
        mentioned = {v for entry in index for v in entry.atoms()}
        if monoid == "set" and not mentioned.issuperset(axes):
            raise IRError("`set` with an index that misses an axis")
        determined = {axis.var for axis in bounded if _single(axis)}
        entries = [{v for v in entry.atoms() if v in axes} for entry in index]
        for _ in entries:
            for names in entries:
                if len(names - determined) == 1:
                    determined |= names
        for entry, names in zip(index, entries, strict=True):
            open = names - determined
            if len(open) > 1 and all(abs(slope(entry, v)) == 1 for v in open):
                raise IRError(f"the entry {entry} does not determine its axes")

    def loop(
        self,
        params: Sequence[anf.Var],
        init: Sequence[anf.Atom],
        body: anf.Block,
        early: bool,
        index: Sequence[anf.Var],
        condition: anf.Block | None,
    ) -> None:
        self.scope.match(params, init, {}, "the first state")
        mark = self.scope.mark()
        self.scope.bind((*index, *params))
        if condition is not None:
            self.inner(condition)
            if len(condition.results) != 1:
                raise IRError("a condition is one bool")
            self.scalar(condition.results[0], "bool")
        self.block(body)
        results = body.results
        if early:
            if not results:
                raise IRError("a loop that may end early gives a bool first")
            self.scalar(results[0], "bool")
            results = results[1:]
        self.scope.match(params, results, {}, "the next state")
        self.scope.leave(mark)


def _single(axis: anf.Axis) -> bool:
    """Tells whether an axis has one point at most."""
    spans = [(high - low).constant for low in axis.lows for high in axis.highs]
    return any(span is not None and span <= 1 for span in spans)


# ---- linear use ------------------------------------------------------------------------------------------------------
def check_linear(function: anf.Function, functions: Mapping[str, anf.Function], ownership: bool) -> None:
    """Raises IRError if a token is used twice or, with `ownership`, an array after it was consumed."""
    if not ownership and not any(isinstance(p.type, anf.Token) for p in function.params):
        return  # all tokens come from one that it is given
    params = function.params
    lent = {params[k] for k in function.consumed}
    checker = _Checker(functions, ownership, frozenset([p for p in params if isinstance(p.type, anf.Array)]) - lent)
    checker.block(function.body, frozenset(params))


class _Checker:
    """borrowed: the arrays that belong to the caller. spent: tokens used and arrays consumed so far on this path.
    roots: whose elements an array may share.
    """

    def __init__(self, functions: Mapping[str, anf.Function], ownership: bool, borrowed: frozenset[anf.Var]) -> None:
        self.functions = functions
        self.ownership = ownership
        self.borrowed = borrowed
        self.spent: dict[anf.Var, str] = {}
        self.roots: dict[anf.Var, frozenset[anf.Var]] = {}

    def roots_of(self, atom: anf.Atom) -> frozenset[anf.Var]:
        if not isinstance(atom, anf.Var) or not isinstance(atom.type, anf.Array):
            return frozenset()
        return self.roots.get(atom, frozenset((atom,)))

    def use(self, atom: anf.Atom, mine: Set[anf.Var]) -> None:
        """A mention: an error if it is spent. A token is spent by it; `mine` are the variables that may be spent."""
        if not isinstance(atom, anf.Var):
            return
        for root in (atom, *self.roots_of(atom)):
            if root in self.spent:
                raise IRError(f"{atom} is used after {self.spent[root]}")
        if isinstance(atom.type, anf.Token):
            if atom not in mine:
                raise IRError(f"the token {atom} is used in a body that may run more than once")
            self.spent[atom] = "it was used"

    def consume(self, array: anf.Var, mine: Set[anf.Var], how: str) -> None:
        if not self.ownership:
            return
        for root in self.roots_of(array):
            if root not in mine:
                raise IRError(f"{array} is consumed by {how} in a body that may run more than once")
            if root in self.borrowed:
                raise IRError(f"{array} is consumed by {how}, but belongs to the caller")
            self.spent[root] = f"{how} consumed it"

    def block(self, block: anf.Block, outer: Set[anf.Var]) -> None:
        if not self.ownership and not any(isinstance(v.type, anf.Token) for v in mentioned(block)):
            return
        mine = set(outer)
        for let in block.lets:
            try:
                self.let(let, mine)
            except IRError as error:
                if "\n" in str(error):
                    raise
                raise IRError(f"{error}\n{print_let(let)}") from None
            if not isinstance(let.op, anf.Fields):  # its arrays are the node's
                mine |= set(let.vars)
        for result in block.results:
            self.use(result, mine)

    def let(self, let: anf.Let, mine: Set[anf.Var]) -> None:
        op = let.op
        for atom in parts(op).atoms:
            self.use(atom, mine)
        match op:
            case anf.Update(array=array):
                self.consume(array, mine, "an update")
            case anf.Call(function=function, args=args):
                for k in self.functions[function].consumed:
                    arg = args[k]
                    if isinstance(arg, anf.Var):
                        self.consume(arg, mine, "a call")
            case anf.Comp():
                self.comprehension(op, mine)
            case anf.If():
                self.branch(op, let, mine)
            case anf.For() | anf.While():
                self.loop(op, let, mine)
            case _:
                self.roots.update({var: self.roots_of(source) for var, source, _ in links(let)})

    def comprehension(self, op: anf.Comp, mine: Set[anf.Var]) -> None:
        read = set(mentioned(op.body)) if self.ownership else set()
        consumed: list[anf.Var] = []
        for position, destination in enumerate(op.destinations):
            into = destination.into
            if into is None:
                continue
            if self.ownership:
                others = read - {into} if reads_its_place(op, position) else read
                if any(self.roots_of(into) & self.roots_of(v) for v in (*others, *consumed)):
                    raise IRError(f"{into} is read in the comprehension that consumes it")
            consumed.append(into)
        self.block(op.body, frozenset(axis.var for axis in op.axes))
        for into in consumed:
            self.consume(into, mine, "a comprehension")

    def branch(self, op: anf.If, let: anf.Let, mine: Set[anf.Var]) -> None:
        before = dict(self.spent)
        self.block(op.then, mine)
        after_then = self.spent
        self.spent = dict(before)
        self.block(op.otherwise, mine)
        self.spent = {**after_then, **self.spent}
        for var, a, b in zip(let.vars, op.then.results, op.otherwise.results, strict=True):
            if self.ownership and isinstance(var.type, anf.Array):
                # what one arm consumed and the other hands on is now held by the result alone
                shared = {r for r in self.roots_of(a) | self.roots_of(b) if r not in self.spent}
                self.roots[var] = self.seen_outside(var, frozenset(shared), op) | {var}

    def loop(self, op: anf.For | anf.While, let: anf.Let, mine: Set[anf.Var]) -> None:
        inside = frozenset(op.params)
        if isinstance(op, anf.While):
            self.block(op.condition, frozenset())
        self.block(op.body, inside)
        results = op.body.results[1:] if op.early else op.body.results
        for var, param, init, result in zip(let.vars, op.params, op.init, results, strict=True):
            if not (self.ownership and isinstance(param.type, anf.Array)):
                continue
            shared = self.roots_of(result)
            if param in self.spent:
                assert isinstance(init, anf.Var)
                self.consume(init, mine, "a loop")
            else:  # a loop of no iterations gives its first state
                shared |= self.roots_of(init)
            self.roots[var] = self.seen_outside(var, shared, op) | {var}

    def seen_outside(
        self, var: anf.Var, roots: frozenset[anf.Var], op: anf.If | anf.For | anf.While
    ) -> frozenset[anf.Var]:
        inner = set(bound_vars(op))
        return frozenset(var if root in inner else root for root in roots)

"""Checks linear use: of tokens, at most once on every path, and of arrays that an in-place operation consumes.

`Update`, a destination's `into`, and a call of a function that says so consume an array. A view shares its elements
with what it is of; a loop's state starts as what it is initialised with, so consuming the one consumes the other.
"""

from __future__ import annotations

from collections.abc import Mapping, Set

from dlang.ir import anf
from dlang.ir.errors import IRError
from dlang.ir.printer import print_let
from dlang.ir.traverse import bound_vars, mentioned, parts
from dlang.ir.writes import links, reads_its_place


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

"""The LALR(1) automaton of `dl.lark`: its tables, and how they are run over tokens."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from dlang.cache.records import Unkept, dump, load
from dlang.cache.store import digest, user_store
from dlang.grammar.lexer import CONTEXTUAL, Token

GRAMMAR = Path(__file__).with_name("dl.lark")
STARTS = ("item", "expr")
END = "$END"


@dataclass(frozen=True, slots=True)
class Rule:
    """One alternative of the grammar.

    method: the name of the `tree.Builder` method that builds its node; None hands the only child on. layout: for each
    argument of the method the index of a child, or None where an optional part is absent; None if it is the identity.
    """

    left: str
    size: int
    method: str | None
    layout: tuple[int | None, ...] | None


@dataclass(frozen=True, slots=True)
class Tables:
    """actions: per state, what a terminal does: `n >= 0` shifts to state n, `n < 0` reduces by `rules[~n]`.

    gotos: per state, the state that follows a nonterminal. A terminal that the grammar has in quotes is named by its
    text, any other by its name. chains: those of the automaton, remembered as they are needed.
    """

    actions: tuple[dict[str, int], ...]
    gotos: tuple[dict[str, int], ...]
    rules: tuple[Rule, ...]
    starts: dict[str, int]
    ends: dict[str, int]
    terminals: frozenset[str]
    chains: dict[tuple[int, str, str], int] = field(default_factory=dict)


@cache
def tables() -> Tables:
    """The tables, from the cache if they are there."""
    grammar = GRAMMAR.read_bytes()
    key = digest(grammar, Path(__file__).read_bytes(), repr(sys.version_info[:2]))
    store = user_store()
    kept = store.get("grammar", key)
    if kept is not None:
        try:
            loaded, _ = load(kept)
        except Unkept:
            loaded = None
        if isinstance(loaded, Tables):
            return loaded
    computed = compute(grammar.decode())
    store.put("grammar", key, dump(computed)[0])
    return computed


def compute(grammar: str) -> Tables:
    """Let Lark analyse the grammar."""
    from lark import Lark
    from lark.lexer import Lexer, PatternStr
    from lark.parsers.lalr_analysis import Shift

    class NoLexer(Lexer):
        """The tokens are made by lexer.py."""

        def __init__(self, _: object) -> None: ...

        def lex(self, *_: object) -> Any:
            return iter(())

    lark = Lark(
        grammar, parser="lalr", lexer=NoLexer, start=list(STARTS), keep_all_tokens=True, maybe_placeholders=True
    )
    parser: Any = lark.parser
    parse_table = parser.parser._parse_table
    names = {t.name: t.pattern.value for t in lark.terminals if isinstance(t.pattern, PatternStr)}
    rules = {rule: number for number, rule in enumerate(lark.rules)}
    nonterminals = {str(rule.origin.name) for rule in lark.rules}
    actions: list[dict[str, int]] = [{} for _ in parse_table.states]
    gotos: list[dict[str, int]] = [{} for _ in parse_table.states]
    for state, row in parse_table.states.items():
        for symbol, (action, argument) in row.items():
            if symbol in nonterminals:
                gotos[state][symbol] = argument
            else:
                actions[state][names.get(symbol, symbol)] = argument if action is Shift else ~rules[argument]
    return Tables(
        actions=tuple(actions),
        gotos=tuple(gotos),
        rules=tuple(_rule(rule) for rule in lark.rules),
        starts=dict(parse_table.start_states),
        ends=dict(parse_table.end_states),
        terminals=frozenset(kind for row in actions for kind in row),
    )


def _rule(rule: Any) -> Rule:
    """`empty_indices` marks the absent optional parts with True, the children with False."""
    left, size = str(rule.origin.name), len(rule.expansion)
    if rule.options.expand1 and size == 1 and rule.alias is None:
        return Rule(left, size, None, None)
    layout: list[int | None] = []
    child = 0
    for absent in rule.options.empty_indices or (False,) * size:
        layout.append(None if absent else child)
        child += not absent
    method = str(rule.alias or left)
    return Rule(left, size, method, tuple(layout) if len(layout) > size else None)


# ---- the automaton ---------------------------------------------------------------------------------------------------
# The LALR automaton: runs the tables over tokens, calling the builder at every reduction.
#
# Chains of reductions that only hand their child on (`or_ → and_ → … → atom`) are taken in one remembered step.

Method = Callable[[list[Any], int, int], Any]


class Machine:
    """The stacks are parallel, but that `states` has one more at the bottom. `begins` are the indices of the tokens at
    which the values begin."""

    __slots__ = ("tables", "methods", "end_state", "states", "values", "begins")

    def __init__(self, tables: Tables, start: str, methods: list[Method | None]) -> None:
        self.tables = tables
        self.methods = methods
        self.end_state = tables.ends[start]
        self.states = [tables.starts[start]]
        self.values: list[Any] = []
        self.begins: list[int] = []

    def run(self, tokens: list[Token]) -> int:
        """Parse; the result is the index of the first token that can't stand where it does, or `len(tokens)` when all
        were taken (then, after an end token, `values` is the result alone)."""
        actions, rules, chains = self.tables.actions, self.tables.rules, self.tables.chains
        methods = self.methods
        states, values, begins = self.states, self.values, self.begins
        end = 0  # of the token before
        for position, token in enumerate(tokens):
            kind = token.kind
            while True:
                action = actions[states[-1]].get(kind)
                if action is None:
                    if kind == END and states[-1] == self.end_state:
                        break
                    if kind in CONTEXTUAL:
                        kind = "NAME"
                        continue
                    return position
                if action >= 0:
                    states.append(action)
                    values.append(token)
                    begins.append(position)
                    break
                rule = rules[~action]
                size = rule.size
                method = methods[~action]
                if method is not None:
                    children = values[-size:]
                    begin = begins[-size]
                    del values[-size:], begins[-size:]
                    if rule.layout is not None:
                        children = [None if i is None else children[i] for i in rule.layout]
                    values.append(method(children, tokens[begin].start, end))
                    begins.append(begin)
                del states[-size:]
                below = states[-1]
                key = (below, rule.left, kind)
                state = chains.get(key)
                if state is None:
                    state = chains[key] = _settle(self.tables, below, rule.left, kind)
                states.append(state)
            end = token.end
        return len(tokens)

    def survey(self, kinds: Iterable[str], states: list[int] | None = None) -> int:
        """How many of these kinds would be accepted one after the other; nothing changes."""
        actions, gotos, rules = self.tables.actions, self.tables.gotos, self.tables.rules
        states = list(self.states if states is None else states)
        accepted = 0
        for kind in kinds:
            while True:
                action = actions[states[-1]].get(kind)
                if action is None:
                    if kind == END and states[-1] == self.end_state:
                        break
                    if kind in CONTEXTUAL:
                        kind = "NAME"
                        continue
                    return accepted
                if action >= 0:
                    states.append(action)
                    break
                rule = rules[~action]
                del states[-rule.size :]
                states.append(gotos[states[-1]][rule.left])
            accepted += 1
        return accepted


def _settle(tables: Tables, below: int, left: str, kind: str) -> int:
    """The state after `left` stands on `below` and all reductions that hand it on before `kind` have been made."""
    state = tables.gotos[below][left]
    while True:
        action = tables.actions[state].get(kind, 0)
        if action >= 0 or tables.rules[~action].method is not None:
            return state
        state = tables.gotos[below][tables.rules[~action].left]

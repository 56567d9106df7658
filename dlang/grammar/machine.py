"""The LALR automaton: runs the tables over tokens, calling the builder at every reduction.

Chains of reductions that only hand their child on (`or_ → and_ → … → atom`) are taken in one remembered step.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from dlang.grammar.lexer import CONTEXTUAL, Token
from dlang.grammar.tables import END, Tables

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

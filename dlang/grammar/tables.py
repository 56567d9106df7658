"""The LALR(1) tables of `dl.lark`, computed by Lark once and kept in a cache as plain data.

Only a machine whose cache is empty (or can't be written) pays for Lark: it is imported here alone, and lazily.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from dlang.cache.records import Unkept, dump, load
from dlang.cache.store import digest, user_store

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
    text, any other by its name. chains: what `machine.py` remembers of the tables, filled as it is needed.
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
    made = compute(grammar.decode())
    store.put("grammar", key, dump(made)[0])
    return made


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

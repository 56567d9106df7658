"""A session: declarations, and values that were computed once and are kept.

An input that fails leaves it as it was. Values that can't leave a run, which are functions and those of types that
contain themselves, are kept as the expressions that they come from. A declaration that is made anew counts for
everything that is declared or computed later; values that were computed keep what they are, and know that they are
stale.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from time import perf_counter
from typing import TYPE_CHECKING, Any

from dlang.diagnostics import Diagnostic, DlangError, Source, Span, error
from dlang.driver import Backend, Request, call, load, lower
from dlang.grammar import syntax as s
from dlang.grammar.parser import parse
from dlang.grammar.syntax import walk
from dlang.identity import ByIdentity
from dlang.lazy_modules import lazy_module
from dlang.runtime.devices import DEVICES
from dlang.tools.repl.compose import (
    NAME,
    RESULT,
    assignable,
    assigned,
    bound,
    composed,
    decide,
    decide_numbers,
    functions_among,
    known_size,
    sizes_bound,
)
from dlang.tools.repl.state import (
    LAST,
    Item,
    Recipe,
    State,
    StoredValue,
    Written,
    datatypes_of,
    has_unknown,
    items_of,
    key_of,
    leaves_a_run,
    mentions,
    separate,
    written,
)
from dlang.typecheck import core
from dlang.typecheck.printing import Names
from dlang.typecheck.program import Checked, Workspace, scheme_text
from dlang.typecheck.terms import variables
from dlang.typecheck.types import UNIT, SizeVar, Type, TypeFn

if TYPE_CHECKING:
    from dlang.driver import Runner
    from dlang.host import effects as host
    from dlang.specialize.specialize import Entry
    from dlang.specialize.values import Value
else:
    host = lazy_module("dlang.host.effects")

REMEMBERED, REMEMBERED_BYTES = 100, 1 << 28  # inputs that can be taken back, and arrays that are kept for that
_Named = s.Fn | s.Const | s.Extern  # items with a type to print
_OWN = f".{NAME}`"  # in the note on the call of an input, which nobody wrote


@dataclass(frozen=True, slots=True)
class Shown:
    """The value of an input: its type for people, and its structure with its leaves, or its text."""

    type: str
    form: Value | None = None
    leaves: tuple[Any, ...] = ()
    text: str = ""


@dataclass(frozen=True, slots=True)
class Answer:
    """The effects of an input. declared: names and types of functions; stale: values computed with what it replaced,
    and replaced: what that was."""

    value: Shown | None = None
    declared: tuple[tuple[str, str], ...] = ()
    stale: tuple[str, ...] = ()
    replaced: tuple[str, ...] = ()


@dataclass(slots=True)
class Stopwatch:
    """Seconds that an input took: to be checked and compiled, and to run."""

    compiling: float = 0.0
    running: float = 0.0


@dataclass(slots=True, repr=False)  # types refer to declarations, which no line can show
class Session:
    """One conversation. inputs: how many there were; past: the states to which `undo` goes back."""

    backend: Backend = "cpu"
    folder: str = ""
    workspace: Workspace = field(default_factory=Workspace)
    state: State = field(default_factory=State)
    past: list[State] = field(default_factory=list)
    inputs: int = 0
    _checked: tuple[str, Checked] | None = None

    # ---- inputs ------------------------------------------------------------------------------------------------------
    def submit(self, text: str, watch: Stopwatch | None = None, name: str = "") -> Answer:
        """Does what an input says. name: of it, in messages. Raises `DlangError`, and then nothing has changed."""
        self.inputs += 1
        return self._do(self.parsed(Source(name or f"<input {self.inputs}>", text)), watch)

    def evaluate(self, text: str) -> Shown | None:
        """The value of an expression, which is not kept. Raises `DlangError`."""
        source, e = self.expression(text, ":plot")
        with self._told():
            value, new = self._run(source, [e], None)
        self.state = replace(self.state, seed=new.seed)
        return value

    def load(self, sources: Sequence[Source]) -> tuple[Answer, list[tuple[int, int]]]:
        """Takes the declarations of files in the place of those that they gave before, but no tests and no benches.

        Also how many functions each file has, and how many statements, which are not run. Raises `DlangError`.
        """
        new, taken, counts = self.state, list[Item](), list[tuple[int, int]]()
        for source in sources:
            module, problems = parse(source)
            if problems:
                raise DlangError(problems)
            items = separate(i for i in module.items if isinstance(i, Item) and not isinstance(i, s.Test | s.Bench))
            loaded = (*(p for p in new.loaded if p != source.path), source.path)
            new = replace(new.declared(items, source.path), loaded=loaded)
            taken += items
            functions = sum(1 for i in items if isinstance(i, _Named))
            counts.append((functions, sum(1 for i in module.items if not isinstance(i, Item))))
        return self._taken(new, taken), counts

    def undo(self) -> tuple[str, ...]:
        """Goes back to before the last input that has changed something; what that was. Raises `DlangError`."""
        if not self.past:
            raise error("E0980", "there is nothing to take back", None)
        before, now = self.past[-1], self.state
        self.state = self.past.pop()
        names = set(now.changed_since(before))
        names |= {n for n in {*now.values, *before.values} if now.values.get(n) is not before.values.get(n)}
        return tuple(sorted("_" if n == LAST else n for n in names))

    def parsed(self, source: Source) -> s.Module:
        """The tree of an input, in which `_` is the last value if there is one. Raises `DlangError`."""
        module, problems = parse(source)
        if problems:
            raise DlangError(problems)
        blanks = list(_blanks(module))
        if blanks and LAST not in self.state.values:
            at = Span(source, blanks[0], blanks[0] + 1)
            raise error("E0201", "there is no last value yet", at, help=("`_` is the value of the last input",))
        return parse(Source(source.path, _with_last(source.text, blanks)))[0] if blanks else module

    def expression(self, text: str, what: str) -> tuple[Source, s.Expr]:
        """An expression, that a command takes. Raises `DlangError`."""
        if not text.strip():
            raise error("E0971", f"`{what}` takes an expression", None, help=(f"for example `{what} sum([1.0, 2.0])`",))
        module = self.parsed(Source("<expression>", text))
        if len(module.items) != 1 or not isinstance(module.items[0], s.Expr):
            raise error("E0971", f"`{what}` takes one expression", Span(module.source, 0, len(text)))
        return module.source, module.items[0]

    def _do(self, module: s.Module, watch: Stopwatch | None) -> Answer:
        started = perf_counter()
        declared = separate(i for i in module.items if isinstance(i, Item))
        statements = [i for i in module.items if not isinstance(i, Item)]
        before = self.state
        answer = self._taken(self.state.declared(declared), declared) if declared else Answer()
        if watch is not None:
            watch.compiling = perf_counter() - started
        if statements:
            try:
                with self._told():
                    value, new = self._run(module.source, statements, watch)
            except BaseException:
                if declared:
                    self.state = before
                    self.past.pop()
                raise
            answer = replace(answer, value=value)
            if not declared:
                self._remember(before)
            self.state = new
        return answer

    def _remember(self, state: State) -> None:
        """Keeps a state for `undo`, and forgets the oldest if there are many, or if they alone hold much memory."""
        self.past = [*self.past[1 - REMEMBERED :], state]
        while len(self.past) > 1 and self._held() > REMEMBERED_BYTES:
            del self.past[0]

    def _held(self) -> int:
        """The bytes of arrays that earlier states have and this one has not."""
        mine = ByIdentity((leaf, None) for leaf in _leaves(self.state))
        earlier = ByIdentity((leaf, None) for state in self.past for leaf in _leaves(state))
        return sum(getattr(leaf, "nbytes", 0) for leaf in earlier if leaf not in mine)

    # ---- declarations ------------------------------------------------------------------------------------------------
    @property
    def path(self) -> str:
        """The path of the module of all declarations."""
        return f"{self.folder}<session>"

    @property
    def checked(self) -> Checked:
        """Returns the module of all declarations as it is now, checked."""
        text = self.state.text
        if self._checked is None or self._checked[0] != text:
            self._checked = text, self._check(text)
        return self._checked[1]

    def _check(self, text: str) -> Checked:
        try:
            with uninterrupted():  # what the workspace keeps must not be half done
                return self.workspace.check(Source(self.path, text))
        except KeyboardInterrupt:
            self.workspace = Workspace(self.workspace.search_path)
            raise

    def _taken(self, new: State, items: Sequence[Item]) -> Answer:
        """Goes over to a state with other declarations, unless these are wrong."""
        before = self.state
        checked = self._check(new.text)
        wrong = [d for d in checked.diagnostics if d.severity == "error"]
        if wrong:
            raise DlangError(self._refused(new, items, wrong))
        self._checked = new.text, checked
        imported = {d.name for k, d in new.declarations.items() if d.imports and k not in before.declarations}
        self.state, stale, replaced = new.outdated(new.changed_since(before) - imported)
        if items:
            self._remember(before)
        functions = checked.module.functions
        names = [i.name for i in items if isinstance(i, _Named)]
        declared = tuple((n, scheme_text(functions[n])) for n in dict.fromkeys(names))
        stale_names = tuple(n for n in stale if n != LAST)  # the last value is not for long
        return Answer(None, declared, stale_names, tuple(sorted(replaced)))

    def _refused(self, new: State, items: Sequence[Item], wrong: Sequence[Diagnostic]) -> list[Diagnostic]:
        """Lists the mistakes in declarations; first, if these break others that use them, a message about that."""
        keys = {key_of(i) for i in items}
        entered = {d.text for k, d in new.declarations.items() if k in keys}
        broken: dict[str, None] = {}
        for d in wrong:
            at = new.declaration_at(d.span.first) if d.span is not None and d.span.source.path == self.path else None
            if at is not None and at[0].text not in entered:
                broken[at[0].name] = None
        explained = [self._explained(new.located(d, self.path)) for d in wrong]
        if not broken or not items:
            return explained
        what = " and ".join(f"`{i.name}`" for i in items if not isinstance(i, s.Import))
        whom = " and ".join(f"`{n}`" for n in broken)
        help = (f"nothing was changed; declare {whom} anew in the same input",)
        message = f"{whom} would no longer be right with this {what}"
        return [Diagnostic("E0979", message, items[0].span, help=help), *explained]

    def _explained(self, d: Diagnostic) -> Diagnostic:
        name = d.span.text if d.code in ("E0201", "E0202") and d.span is not None else ""
        if d.code == "E0201" and name in self.state.values:
            help = f"a function doesn't see the values of a session: make `{name}` a parameter or a `const`"
            return replace(d, help=(help,))
        owners = [o.name for o in self.state.declarations.values() if name in o.names and name != o.name]
        if d.code == "E0202" and owners:
            return replace(
                d, help=(f"it is one of `{owners[0]}`: declare that anew without it, or name this otherwise",)
            )
        return d

    # ---- statements --------------------------------------------------------------------------------------------------
    def _run(self, source: Source, statements: Sequence[s.Item], watch: Stopwatch | None) -> tuple[Shown | None, State]:
        started = perf_counter()
        state, checked = self.state, self.checked
        body: list[s.Statement] = [i for i in statements if isinstance(i, s.Statement)]
        last = body[-1] if isinstance(body[-1], s.Expr) else None
        if last is not None:
            body[-1] = s.Let(last.span, s.PatternName(last.span, RESULT), None, last)
        generic = functions_among(self, source, body)
        wanted = [n for n in dict.fromkeys(assignable(body, state.values)) if n not in generic]
        decl, given = self.composed(checked, source, body, wanted)
        assert decl.result is not None
        types = dict(zip(wanted, items_of(decl.result), strict=True))
        decide_numbers(decl)
        shown = {n: Names(scheme=True).prepare(t)(t) for n, t in types.items()}
        recipes = {n: t for n, t in types.items() if not leaves_a_run(t)}
        kept = [n for n in types if n not in recipes and types[n] != UNIT]
        decide(decl, types, body[-1].span)
        origins = {n: origin(body, n, n in generic or not decl.effects) for n in (*recipes, *generic)}
        text = RESULT in recipes and not isinstance(types[RESULT], TypeFn)
        final, given = self.composed(checked, source, body, kept, text)
        decide(final, dict(zip(kept, items_of(final.result or UNIT), strict=False)), body[-1].span)
        results, forms = self._called(final, given, watch, started)
        leaves = iter(results)
        stored: dict[str, StoredValue | Recipe] = {}
        for name, (form, count) in zip(kept, forms, strict=False):
            part = tuple([next(leaves) for _ in range(count)])
            sized = any(isinstance(v, SizeVar) for v in variables(types[name]))
            known = written(types[name], form, part) if sized else shown[name]
            value = self._kept(body, name, types[name], form, part, given)
            stored[LAST if name == RESULT else name] = replace(value, shown=known)
        for name, origin_of_name in sorted(origins.items(), key=lambda o: o[1].let.span.start):
            values = state.values | {n: v for n, v in stored.items() if n in origin_of_name.own}
            function = name in generic or isinstance(recipes[name], TypeFn)
            type = generic[name] if name in generic else shown[name]
            stored[LAST if name == RESULT else name] = recipe(origin_of_name, values, type, function)
        valued = last is not None and types.get(RESULT) != UNIT
        new = state.with_values(stored, _said(statements, valued, decl), draws="random" in decl.effects)
        if not valued:
            return None, new
        result = stored[LAST]
        if isinstance(result, StoredValue):
            return Shown(result.shown, result.form, result.leaves), new
        return Shown(result.shown, text=str(results[-1]) if text else result.shown), new

    def composed(
        self,
        checked: Checked,
        source: Source,
        body: Sequence[s.Statement],
        results: Sequence[str],
        text: bool = False,
        more: Sequence[s.Parameter] = (),
    ) -> tuple[core.FnDecl, list[StoredValue]]:
        """The function of an input. Raises `DlangError`."""
        with uninterrupted():
            return composed(checked, self.state, source, body, results, text, more)

    def compiled(self, decl: core.FnDecl, *, tiers: bool = True) -> tuple[Runner, Entry]:
        """A function of an input, ready to run."""
        program, (entry,) = lower([Request(decl)], device=self.backend in DEVICES)
        return load(program, [entry], self.backend, host.Host(), tiers=tiers), entry

    def leaves(self, given: Sequence[StoredValue]) -> list[Any]:
        """Lists the leaves of the values that are arguments of an input, where the back end can read them."""
        leaves = [leaf for k in given if known_size(k) is None for leaf in k.leaves]
        if self.backend in DEVICES:
            return leaves
        from dlang.tools.repl.values import on_host

        return list(map(on_host, leaves))

    def _called(
        self, decl: core.FnDecl, given: Sequence[StoredValue], watch: Stopwatch | None, started: float
    ) -> tuple[list[Any], list[tuple[Value, int]]]:
        """The leaves of the result, and of each component its form and how many they are."""
        from dlang.specialize.values import TupleV, leaves

        runner, entry = self.compiled(decl, tiers=watch is None)
        compiled = perf_counter()
        try:
            results = call(runner, entry, leaves=self.leaves(given), seed=self.state.seed)
        except DlangError as e:
            theirs = [replace(d, notes=tuple(n for n in d.notes if _OWN not in n.text)) for d in e.diagnostics]
            raise DlangError(theirs) from None
        if watch is not None:
            watch.compiling += compiled - started
            watch.running += perf_counter() - compiled
        components = entry.result.items if isinstance(entry.result, TupleV) else ()
        return results, [(c, len(list(leaves(c)))) for c in components]

    def _kept(
        self,
        body: Sequence[s.Statement],
        name: str,
        t: Type,
        form: Value,
        leaves: tuple[Any, ...],
        given: Sequence[StoredValue],
    ) -> StoredValue:
        state = self.state
        declared, mutable, of = None, False, ""
        before = state.values.get(name)
        if isinstance(before, StoredValue):
            declared, mutable = before.annotation, before.mutable
        for statement in body:
            if isinstance(statement, s.Let | s.Var) and name in bound(statement.pattern):
                mutable = isinstance(statement, s.Var)
                declared = statement.type if mutable and has_unknown(statement.type) else None
            of = next((array for array, size in sizes_bound(statement) if size == name), of)
        earlier = {d: text for v in given for d, text in v.decls.items()}
        decls = {d: earlier[d] if d in earlier else state.text_of_type(d.name) for d in datatypes_of(t)}
        mentioned = mentions(*body)
        mentioned_by_recipes = (
            v.mentions() for n, v in state.values.items() if n in mentioned and isinstance(v, Recipe)
        )
        uses = state.reached(mentioned.union((d.name for d in decls), *mentioned_by_recipes)).union(
            *(v.uses for v in given)
        )
        stale = frozenset[str]().union(*(v.stale for v in given))
        return StoredValue(form, leaves, t, "", mutable, declared, decls, uses, stale, of)

    @contextmanager
    def _told(self) -> Iterator[None]:
        """Errors that pass through get the places where declarations were written."""
        try:
            yield
        except DlangError as e:
            e.diagnostics = [self.state.located(d, self.path) for d in e.diagnostics]
            raise


def _said(statements: Sequence[s.Item], valued: bool, decl: core.FnDecl) -> Written:
    """Statements as they are written down. valued: whether the last is an expression with a value."""
    texts = [i.span.text for i in statements]
    if valued:
        texts[-1] = f"let {LAST} = {texts[-1]}"
    return Written(tuple(texts), bool(decl.effects))


def _leaves(state: State) -> Iterator[Any]:
    for v in state.values.values():
        if isinstance(v, StoredValue):
            yield from v.leaves


# ---- the last value --------------------------------------------------------------------------------------------------
def _blanks(module: s.Module) -> Iterator[int]:
    """Lists the offsets where `_` stands as a value; on the left of `=` it drops a part."""
    targets = {n for a in walk(*module.items) if isinstance(a, s.Assign) for n in walk(a.target)}
    for n in walk(*module.items):
        if isinstance(n, s.Name) and n.name == "_" and n not in targets:
            yield n.span.start


def _with_last(text: str, places: Iterable[int]) -> str:
    """The text in which `_` at some places is the name of the last value."""
    out = list(text)
    for place in places:
        out[place] = LAST
    return "".join(out)


@contextmanager
def uninterrupted() -> Iterator[None]:
    """A signal of Ctrl-C that comes inside is raised at the end; a second one at once."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    came = False

    def note(number: int, frame: object) -> None:
        nonlocal came
        if came:
            raise KeyboardInterrupt
        came = True

    before = signal.signal(signal.SIGINT, note)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.SIG_DFL if before is None else before)
    if came:
        raise KeyboardInterrupt


@dataclass(frozen=True, slots=True)
class Origin:
    """The origin of a value of an input. own: the names of the input itself that its `let` sees."""

    let: s.Let
    own: frozenset[str]


def origin(body: Sequence[s.Statement], name: str, harmless: bool) -> Origin:
    """The `let` of a name. harmless: whether nothing happens that is not to happen again. Raises `DlangError`."""
    k = max(k for k, statement in enumerate(body) if name in _named(statement))
    let = body[k]
    if not isinstance(let, s.Let):
        raise _refused(let.span, "a `var` can't keep a function, a list or a tree", "name it by `let`")
    reads = mentions(let)
    before, after = ({n for statement in part for n in _named(statement)} for part in (body[:k], body[k + 1 :]))
    if changed := sorted(reads & before & after):
        message = f"a function, a list or a tree can't be kept here: `{changed[0]}` changes after it"
        raise _refused(let.span, message, "give it an input of its own")
    if not harmless and not isinstance(let.value, s.Lambda | s.Name):
        raise _refused(
            let.span,
            "a list or a tree can't be kept from an input with effects",
            "give it an input of its own, without effects: it is made again where it is used",
        )
    value = let.value
    if not isinstance(let.pattern, s.PatternName):
        value = s.Block(let.span, (let, s.Name(let.span, name)))
    pattern = s.PatternName(let.span, LAST if name == RESULT else name)
    binding = s.Let(let.span, pattern, let.type if value is let.value else None, value)
    return Origin(binding, frozenset(reads & before))


def recipe(origin: Origin, values: Mapping[str, StoredValue | Recipe], shown: str, function: bool) -> Recipe:
    """A value that is made by a `let`. values: those that it may see; shown: its type; function: whether it is one."""
    seen = {n: v for n, v in values.items() if n in mentions(origin.let)}
    given = {n: v for n, v in seen.items() if isinstance(v, StoredValue)}
    uses = {n: v for n, v in seen.items() if isinstance(v, Recipe)}
    return Recipe(origin.let, given, uses, shown, function)


def _named(statement: s.Statement) -> set[str]:
    """The names that a statement binds or assigns to."""
    bound_names = bound(statement.pattern) if isinstance(statement, s.Let | s.Var) else ()
    return {*bound_names, *assigned((statement,))}


def _refused(span: Span, message: str, help: str) -> DlangError:
    return error("E0970", message, span, help=(help,))

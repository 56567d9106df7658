"""`make census`: counts what the structure of `dlang/` is judged by.

python tools/census.py            a table: the question, the count, and the aim
python tools/census.py --list     with the places that each count is made of
python tools/census.py --json     the counts alone, for comparisons

The counts are made from the syntax trees of the modules, which are not imported, so they take a few seconds. Two
questions need the compiler itself and are answered with `--trace`: how many files and functions the gradient of one
line passes through on its way to machine code.
"""

from __future__ import annotations

import argparse
import ast
import cProfile
import json
import re
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from dlang.graphs import components

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "dlang"
FEW_LINES, MANY_LINES = 60, 800
SHARE = 3
"""A literal counts as a table of some names if it holds so many of them."""


# ---- the package as text and trees -----------------------------------------------------------------------------------
@dataclass(frozen=True)
class Module:
    """A module of the package. name: with dots, `dlang.ir.anf`; path: from the root of the repository."""

    name: str
    path: str
    text: str

    @cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.text)

    @cached_property
    def lines(self) -> int:
        return len(self.text.splitlines())

    @cached_property
    def nodes(self) -> tuple[ast.AST, ...]:
        return tuple(ast.walk(self.tree))

    @property
    def folder(self) -> str:
        """The part of the package that it belongs to: a folder, or `codegen/llvm` and `codegen/cuda` for themselves."""
        parts = self.path.split("/")[1:-1]
        return (
            "/".join(parts[:2])
            if parts[:1] == ["codegen"] and parts[1:2] in (["llvm"], ["cuda"])
            else "".join(parts[:1])
        )

    @cached_property
    def docstrings(self) -> frozenset[int]:
        """The lines where docstrings begin, and other texts that are statements."""
        bodies = [n.body for n in self.nodes if isinstance(n, ast.Module | ast.ClassDef | ast.FunctionDef)]
        return frozenset(s.lineno for b in bodies for s in b if isinstance(s, ast.Expr))

    @cached_property
    def strings(self) -> tuple[tuple[str, int], ...]:
        """The texts in it, with their lines."""
        constants = [n for n in self.nodes if isinstance(n, ast.Constant)]
        return tuple([(n.value, n.lineno) for n in constants if isinstance(n.value, str)])

    @cached_property
    def classes(self) -> dict[str, str]:
        """The classes and modules that names in it may stand for, classes with the modules that define them."""
        imported = {
            a.asname or a.name: f"{n.module}.{a.name}"
            for n in self.nodes
            if isinstance(n, ast.ImportFrom) and n.module is not None
            for a in n.names
        }
        return imported | {n.name: f"{self.name}.{n.name}" for n in self.nodes if isinstance(n, ast.ClassDef)}


@dataclass(frozen=True)
class Package:
    modules: tuple[Module, ...]

    @cached_property
    def by_name(self) -> dict[str, Module]:
        return {m.name: m for m in self.modules}

    @cached_property
    def imports(self) -> dict[str, frozenset[str]]:
        """The modules that each imports when it is itself imported; not those that only types or functions need."""
        return {m.name: frozenset(self._imported(m, at_once=True)) for m in self.modules}

    @cached_property
    def importers(self) -> dict[str, set[str]]:
        """The modules that import each, wherever the import stands."""
        found: dict[str, set[str]] = defaultdict(set)
        for m in self.modules:
            for other in self._imported(m, at_once=False):
                found[other].add(m.name)
        return found

    def _imported(self, module: Module, at_once: bool) -> set[str]:
        found: set[str] = set()
        for node in statements(module.tree.body) if at_once else module.nodes:
            match node:
                case ast.Import(names):
                    wanted = [a.name for a in names]
                case ast.ImportFrom(of, names) if of is not None:
                    wanted = [f"{of}.{a.name}" if f"{of}.{a.name}" in self.by_name else of for a in names]
                case _:
                    continue
            found.update(w for w in wanted if w in self.by_name)
        return found - {module.name}


def statements(body: Sequence[ast.stmt]) -> Iterator[ast.stmt]:
    """The statements that run when a module is imported."""
    for s in body:
        yield s
        match s:
            case ast.If(test, then, otherwise):
                if "TYPE_CHECKING" not in ast.unparse(test):
                    yield from statements(then)
                yield from statements(otherwise)
            case ast.Try(tried, handlers, otherwise, last):
                for block in (tried, *(h.body for h in handlers), otherwise, last):
                    yield from statements(block)
            case ast.With(body=inner) | ast.ClassDef(body=inner):
                yield from statements(inner)


def read_package() -> Package:
    def module(path: Path) -> Module:
        relative = path.relative_to(ROOT)
        parts = relative.with_suffix("").parts
        return Module(".".join(parts[:-1] if parts[-1] == "__init__" else parts), str(relative), path.read_text())

    return Package(tuple(module(p) for p in sorted(PACKAGE.rglob("*.py"))))


# ---- counting --------------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Count:
    """The answer to one question. aim: what it should become; places: what was counted, for `--list`."""

    question: str
    number: int
    aim: str
    places: tuple[str, ...] = ()


@dataclass(frozen=True)
class Question:
    """A question about the package, whose answer is the number of some places.

    limit: a number that has been reached; `tests/test_census.py` fails if the answer gets larger again.
    """

    text: str
    aim: str
    places: Callable[[Package], Iterable[str]]
    limit: int | None

    def answer(self, package: Package) -> Count:
        found = tuple(self.places(package))
        return Count(self.text, len(found), self.aim, found)


QUESTIONS: list[Question] = []
Places = Callable[[Package], Iterable[str]]


def question(text: str, aim: str, limit: int | None = None) -> Callable[[Places], Places]:
    """Registers a function that lists places as a question."""

    def register(places: Places) -> Places:
        QUESTIONS.append(Question(text, aim, places, limit))
        return places

    return register


def target(node: ast.Assign | ast.AnnAssign) -> tuple[str, ...]:
    """The names to which a statement assigns."""
    return tuple(ast.unparse(t) for t in (node.targets if isinstance(node, ast.Assign) else [node.target]))


def names_in(path: str, variable: str) -> frozenset[str]:
    """The words that begin the rows of a table of the package: strings in first place of calls, or keys."""
    tree = ast.parse((ROOT / path).read_text())
    for node in tree.body:
        if isinstance(node, ast.Assign | ast.AnnAssign) and variable in target(node):
            calls = [n for n in ast.walk(node) if isinstance(n, ast.Call) and n.args]
            firsts = [c.args[0] for c in calls] or list(ast.walk(node))
            return frozenset(n.value for n in firsts if isinstance(n, ast.Constant) and isinstance(n.value, str))
    raise SystemExit(f"{path} has no table `{variable}`")


def classes_in(path: str, above: str) -> frozenset[str]:
    """The names of the classes that a union in a module is made of, unions in it included."""
    tree = ast.parse((ROOT / path).read_text())
    unions = {
        s.targets[0].id: {n.id for n in ast.walk(s.value) if isinstance(n, ast.Name)}
        for s in tree.body
        if isinstance(s, ast.Assign) and isinstance(s.targets[0], ast.Name) and isinstance(s.value, ast.BinOp)
    }
    found = unions[above]
    while any(n in unions for n in found):
        found = {leaf for n in found for leaf in unions.get(n, {n})}
    return frozenset(found)


def tables(package: Package, names: frozenset[str], home: tuple[str, ...]) -> Iterator[str]:
    """Tables of names at the top level of modules: some of what stands in a column are such names, and half of it.

    So a list of the reserved words of C, some of which have the name of a primitive, is no table of primitives.
    """
    for m in package.modules:
        if m.path.startswith(home):
            continue
        for s in m.tree.body:
            if not isinstance(s, ast.Assign | ast.AnnAssign) or s.value is None or target(s)[0] == "__all__":
                continue
            several = isinstance(s, ast.Assign) and isinstance(s.targets[0], ast.Tuple)
            values = s.value.elts if several and isinstance(s.value, ast.Tuple) else [s.value]
            found = [(len(c), len(c & names)) for v in values for c in columns(v)]
            if any(known >= SHARE and size <= 2 * known for size, known in found):
                yield f"{m.path}:{s.lineno} {target(s)[0]}"


def columns(value: ast.expr) -> Iterator[frozenset[str]]:
    """The texts below one another in a literal: elements, what rows begin with, keys, values, words that are split."""
    for node in ast.walk(value):
        match node:
            case ast.Dict(keys, values):
                yield texts(k for k in keys if k is not None)
                yield texts(values)
            case ast.Tuple(elements) | ast.List(elements) | ast.Set(elements):
                yield texts(elements)
                rows = (e.elts if isinstance(e, ast.Tuple) else getattr(e, "args", ()) for e in elements)
                yield texts(row[0] for row in rows if row)
            case ast.Call(ast.Attribute(ast.Constant(str() as words), "split")):
                yield frozenset(words.split())


def texts(nodes: Iterable[ast.expr]) -> frozenset[str]:
    return frozenset(n.value for n in nodes if isinstance(n, ast.Constant) and isinstance(n.value, str))


def dispatches(package: Package, classes: frozenset[str], of: str, least: int) -> Iterator[str]:
    """The files that tell at least so many classes of a module apart, by patterns or by `isinstance`."""
    for m in package.modules:
        seen: set[str] = set()
        for node in m.nodes:
            match node:
                case ast.MatchClass(kinds) | ast.Call(ast.Name("isinstance"), [_, kinds]):
                    named = [name.rpartition(".") for name in re.findall(r"[\w.]+", ast.unparse(kinds))]
                    seen.update(name for module, _, name in named if module in ("", of))
                case _:
                    pass
        if len(seen & classes) >= least:
            yield f"{m.path} ({len(seen & classes)})"


def cycles(graph: Mapping[str, Iterable[str]]) -> list[list[str]]:
    """The strongly connected components of more than one node, the largest first."""
    whole = {node: sorted(graph.get(node, ())) for node in {*graph, *(o for others in graph.values() for o in others)}}
    return sorted([sorted(c) for c in components(whole) if len(c) > 1], key=len, reverse=True)


# ---- facts that stand in several places ------------------------------------------------------------------------------
@question("files that know the scalar primitive `erf`", "1", limit=1)
def _(package: Package) -> Iterable[str]:
    for m in package.modules:
        if any(re.search(r"\berf\b", s) for s, line in m.strings if line not in m.docstrings):
            yield m.path


OPERATORS = frozenset(("and", "or", "not"))
"""Primitives with the name of a word of the grammar."""


@question("tables of primitives' names outside of their own folder", "0", limit=0)
def _(package: Package) -> Iterable[str]:
    return tables(package, names_in("dlang/ops/primitives.py", "_ROWS") - OPERATORS, ("dlang/ops/",))


DTYPES = frozenset("f64 f32 f16 bf16 i64 i32 i16 i8 u64 u32 u16 u8 bool".split())


@question("tables that are keyed by dtypes", "≤ 1", limit=0)
def _(package: Package) -> Iterable[str]:
    return tables(package, DTYPES, ("dlang/ir/terms.py", "dlang/ops/"))


@question("files in which `bf16` stands", "≤ 12", limit=12)
def _(package: Package) -> Iterable[str]:
    return (m.path for m in package.modules if re.search(r"\bbf16\b", m.text))


@question("files that tell at least 14 operations of the core IR apart", "≤ 4", limit=4)
def _(package: Package) -> Iterable[str]:
    return dispatches(package, classes_in("dlang/ir/anf.py", "Op"), "anf", 14)


@question("files that tell at least 8 statements of the loop IR apart", "≤ 5", limit=5)
def _(package: Package) -> Iterable[str]:
    return dispatches(package, classes_in("dlang/codegen/loops.py", "Stmt"), "loops", 8)


@question("places where the order of the passes is written", "1")
def _(package: Package) -> Iterable[str]:
    table = next(
        s.value
        for s in package.by_name["dlang.pipeline"].tree.body
        if isinstance(s, ast.AnnAssign) and ast.unparse(s.target) == "PASSES" and s.value is not None
    )
    names = {n.value for n in ast.walk(table) if isinstance(n, ast.Constant) and isinstance(n.value, str)}
    several = re.compile(rf"[`\"]({'|'.join(map(re.escape, names))})\b")
    for m in package.modules:
        for text, line in m.strings:
            if len({name for name in several.findall(text) if len(name) > 3}) >= 10:
                yield f"{m.path}:{line}"
    yield "dlang/pipeline.py PASSES"


# ---- mechanisms ------------------------------------------------------------------------------------------------------
@question("import statements inside of functions", "≤ 150", limit=150)
def _(package: Package) -> Iterable[str]:
    for m in package.modules:
        functions = [f for f in m.nodes if isinstance(f, ast.FunctionDef | ast.AsyncFunctionDef)]
        lines = {n.lineno for n in m.nodes if isinstance(n, ast.Import | ast.ImportFrom)}
        inside = [n for n in sorted(lines) if any(f.lineno <= n <= (f.end_lineno or 0) for f in functions)]
        yield from (f"{m.path}:{line}" for line in inside)


@question("lists of names from `ir/anf.py`, a name a line", "0", limit=0)
def _(package: Package) -> Iterable[str]:
    for m in package.modules:
        for n in m.nodes:
            if isinstance(n, ast.ImportFrom) and n.module == "dlang.ir.anf" and n.end_lineno != n.lineno:
                yield f"{m.path}:{n.lineno}"


def stored_functions(package: Package) -> Iterator[tuple[Module, ast.ClassDef, ast.AnnAssign]]:
    """The fields of classes that hold a function."""
    for m in package.modules:
        for c in m.nodes:
            if isinstance(c, ast.ClassDef):
                for s in c.body:
                    if isinstance(s, ast.AnnAssign) and "Callable[" in ast.unparse(s.annotation):
                        yield m, c, s


@question("fields that hold a function", "few")
def _(package: Package) -> Iterable[str]:
    for m, c, s in stored_functions(package):
        yield f"{m.path}:{s.lineno} {c.name}.{ast.unparse(s.target)}"


@question("fields through which a recursion goes", "0", limit=0)
def _(package: Package) -> Iterable[str]:
    """A stored function goes on with the walk that it is called from if it is given the object that it is a field of,
    or one that holds this."""
    holders: dict[str, set[str]] = defaultdict(set)
    for m in package.modules:
        for c in m.nodes:
            if isinstance(c, ast.ClassDef):
                for s in c.body:
                    if isinstance(s, ast.AnnAssign):
                        for held in classes_named(package, m, s.annotation):
                            holders[held].add(f"{m.name}.{c.name}")
    for m, c, s in stored_functions(package):
        own = f"{m.name}.{c.name}"
        given = {
            name
            for call in ast.walk(s.annotation)
            if isinstance(call, ast.Subscript) and ast.unparse(call.value) == "Callable"
            for name in classes_named(package, m, call.slice.elts[0] if isinstance(call.slice, ast.Tuple) else call)
        }
        if given & {own, *holders[own]}:
            yield f"{m.path}:{s.lineno} {c.name}.{ast.unparse(s.target)}"


def classes_named(package: Package, module: Module, annotation: ast.AST) -> set[str]:
    """The classes of the package that an annotation in a module names, with the modules that define them."""
    known, found = module.classes, set()
    for n in ast.walk(annotation):
        match n:
            case ast.Name(name) if name in known:
                found.add(known[name])
            case ast.Attribute(ast.Name(name), attr) if known.get(name) in package.by_name:
                found.add(f"{known[name]}.{attr}")
    return found


@question("messages decided by English words", "0", limit=0)
def _(package: Package) -> Iterable[str]:
    for m in package.modules:
        for n in m.nodes:
            match n:
                case ast.Compare(ast.Constant(str()), [ast.In()], [ast.Attribute(attr="note" | "message")]):
                    yield f"{m.path}:{n.lineno}"
                case ast.Call(ast.Attribute(ast.Attribute(attr="note" | "message"), "startswith" | "endswith")):
                    yield f"{m.path}:{n.lineno}"


@question("facts that are keyed by `id(…)`", "0")
def _(package: Package) -> Iterable[str]:
    for m in package.modules:
        for n in m.nodes:
            if isinstance(n, ast.Call) and isinstance(n.func, ast.Name) and n.func.id == "id" and len(n.args) == 1:
                yield f"{m.path}:{n.lineno}"


# ---- structure -------------------------------------------------------------------------------------------------------
def folders(package: Package) -> dict[str, set[str]]:
    """The folders that each folder imports from, when it is imported."""
    found: dict[str, set[str]] = defaultdict(set)
    for name, others in package.imports.items():
        here = package.by_name[name].folder
        found[here].update(f for o in others if (f := package.by_name[o].folder) not in (here, ""))
    found.pop("", None)
    return found


@question("folders in a cycle of imports", "0", limit=0)
def _(package: Package) -> Iterable[str]:
    return (f for c in cycles(folders(package)) for f in c)


@question("modules in a cycle of more than three", "0", limit=0)
def _(package: Package) -> Iterable[str]:
    return (m for c in cycles(package.imports) if len(c) > 3 for m in c)


@question("files of the package", "about 350")
def _(package: Package) -> Iterable[str]:
    return (f"{m.path} ({m.lines})" for m in package.modules)


@question(f"files of fewer than {FEW_LINES} lines", "few")
def _(package: Package) -> Iterable[str]:
    return (m.path for m in package.modules if m.lines < FEW_LINES and not m.path.endswith("__init__.py"))


@question("modules with one importer", "few")
def _(package: Package) -> Iterable[str]:
    return (f"{m.path} ← {min(by)}" for m in package.modules if len(by := package.importers[m.name]) == 1)


@question(f"files of more than {MANY_LINES} lines", "0")
def _(package: Package) -> Iterable[str]:
    return (f"{m.path} ({m.lines})" for m in package.modules if m.lines > MANY_LINES)


def lines(package: Package) -> Count:
    by_folder: dict[str, int] = defaultdict(int)
    for m in package.modules:
        by_folder[m.folder or "(the package itself)"] += m.lines
    places = tuple(f"{folder} {n}" for folder, n in sorted(by_folder.items()))
    return Count("lines of the package", sum(by_folder.values()), "< 100,000", places)


# ---- English ---------------------------------------------------------------------------------------------------------
RIDDLE = re.compile(r"(What|Whether|Which|Where|Who|Whose|Those|That)\b")


@question("docstrings that begin with a question word", "0", limit=0)
def _(package: Package) -> Iterable[str]:
    for m in package.modules:
        for n in m.nodes:
            if isinstance(n, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                text = ast.get_docstring(n)
                if text is not None and RIDDLE.match(text):
                    yield f"{m.path}:{getattr(n, 'lineno', 1)} {text.splitlines()[0]}"


# ---- the road of one line --------------------------------------------------------------------------------------------
LINE = "fn f(x: f64[n]) -> f64 = sum(sin(x) * x)\nfn slope(x: f64[n]) -> f64[n] = grad(f)(x)\n"


def traced() -> list[Count]:
    """The files and functions that run from the text of a gradient to its machine code."""
    from dlang.diagnostics import Source
    from dlang.driver import check, lower
    from dlang.dump_ir import request
    from dlang.host.effects import Host
    from dlang.runtime.engine import Engine

    profile = cProfile.Profile()
    profile.enable()
    program, entries = lower([request(check(Source("line.dl", LINE)).module.functions["slope"])], verify=False)
    Engine(Host()).compile(program, [entries[0].name])
    profile.disable()
    rows = [e.code for e in profile.getstats() if hasattr(e.code, "co_filename")]
    ours = {(c.co_filename, c.co_firstlineno) for c in rows if c.co_filename.startswith(str(PACKAGE))}
    files = tuple(sorted({str(Path(f).relative_to(ROOT)) for f, _ in ours}))
    return [
        Count("files from text to machine code, for the gradient of one line", len(files), "about 107", files),
        Count("functions on that road", len(ours), "about 1,140"),
    ]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python tools/census.py", description=__doc__.splitlines()[0])
    parser.add_argument("--list", action="store_true", help="with the places")
    parser.add_argument("--json", action="store_true", help="the counts alone")
    parser.add_argument("--trace", action="store_true", help="also what the gradient of one line passes through")
    options = parser.parse_args()
    package = read_package()
    counts = [q.answer(package) for q in QUESTIONS]
    counts += [lines(package), *(traced() if options.trace else ())]
    if options.json:
        print(json.dumps({c.question: c.number for c in counts}, indent=2, ensure_ascii=False))
        return 0
    width = max(len(c.question) for c in counts)
    for c in counts:
        print(f"{c.question:{width}}  {c.number:>7,}  {c.aim}")
        if options.list:
            print(*(f"    {p}" for p in c.places), sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())

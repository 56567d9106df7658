"""A function of the language as a Python callable."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from pickle import PicklingError
from typing import TYPE_CHECKING, Any

from dlang.cache.store import digest
from dlang.diagnostics import DlangError, error
from dlang.host.platform.objects import callable_class
from dlang.host.values import describe, number
from dlang.lazy_modules import lazy_module
from dlang.python.arguments import Matcher
from dlang.python.callables import Passed, of_language, of_python
from dlang.python.documentation import Documentation, parameter_names, signature
from dlang.python.indices import asks_for_indices
from dlang.python.instances import Prepared, Program
from dlang.python.kinds import Borrowed, Kind, borrowed
from dlang.python.repeats import Conversion, Seen, conversions, converted, seen_before
from dlang.runtime.seeds import DefaultSeeds
from dlang.typecheck.headers import FnDecl, Param
from dlang.typecheck.types import TypeFn, TypeVar, resolve

if TYPE_CHECKING:
    from dlang import dump_ir
    from dlang.python import derivatives, jax_operators, operators, origins, torch_graphs, torch_operators
    from dlang.python.bound import Bound
    from dlang.python.lazy import arrays
    from dlang.python.operators import Operator
    from dlang.runtime import direct
    from dlang.runtime.direct import Record
    from dlang.runtime.profile import Profile
else:
    arrays = lazy_module("dlang.python.lazy.arrays")
    derivatives = lazy_module("dlang.python.derivatives")
    direct = lazy_module("dlang.runtime.direct")
    dump_ir = lazy_module("dlang.dump_ir")
    jax_operators = lazy_module("dlang.python.jax_operators")
    operators = lazy_module("dlang.python.operators")
    origins = lazy_module("dlang.python.origins")
    torch_graphs = lazy_module("dlang.python.torch_graphs")
    torch_operators = lazy_module("dlang.python.torch_operators")

RECORDING = "dlang.python.lazy.arrays"  # without this module nothing is lazy
COMPILER = "torch._dynamo"  # without this module PyTorch compiles nothing
REMEMBERED = 512  # kinds of call that a function recognises without matching them again


@dataclass(slots=True)
class Known:
    """A kind of call. shortened: of calls with a seed (True) and without, those of which it has been tried to have them
    go to compiled code.
    """

    prepared: Prepared
    conversions: tuple[Conversion, ...]
    shortened: set[bool] = field(default_factory=set)


def is_traced() -> bool:
    """Tells whether PyTorch's compiler traces what runs."""
    if COMPILER not in sys.modules:
        return False
    return torch_graphs.is_compiling()


OFFERED = ("bind", "ir", "profile", "to_jax", "to_torch")
"""What a person may ask of a function beside calling it."""


class Function:
    __doc__ = Documentation(
        """Takes NumPy arrays, Python's numbers, tuples and structs; checks them; compiles what is new; gives the
        value. Of a back end that runs on a device also arrays that are there, such as CuPy's. Arrays of other
        libraries are read where they lie, and then the value is of their kind (`kinds.py`).

        A function with the effect `random` also takes `seed=`, 0 unless given, on which the numbers that it
        draws depend; a parameter of that name comes first.

        Calls that look like earlier ones go to compiled code at once, where the platform has such functions;
        what is here is the way of the others, and says what all of them mean.
        """
    )

    def __new__(cls, *_: object) -> Function:
        quick = callable_class(Function)
        function: Function = object.__new__(cls if quick is None else quick.type)
        return function

    def __init__(self, program: Program, decl: FnDecl, expression: str, settle: bool) -> None:
        """expression: how the module itself would write the function; settle: its scheme has constraints."""
        self.program = program
        self.decl = decl
        self.expression = expression
        self.settle = settle
        self.derived: dict[object, Function] = {}  # what has been made of it by `dlang.grad` and its relatives
        self._made_of: tuple[Function, object] | None = None
        self._partial: dict[tuple[Param, ...], FnDecl] = {}
        self._sizes = [p.local.size is not None for p in decl.params]
        self.asks_for_indices = asks_for_indices(decl)
        self.default_seeds = DefaultSeeds(decl.name)
        self.generic = settle or any(isinstance(v, TypeVar) for v in decl.variables)
        self._own_seed = any(p.local.name == "seed" for p in decl.params)
        self._takes_functions = any(isinstance(resolve(p.local.type), TypeFn) for p in decl.params)
        self._foreign: dict[Param, Passed] = {}
        self._prepared: dict[tuple[object, ...], Known] = {}
        self._record: Record | None = None
        self.__name__ = self.__qualname__ = decl.name
        self.__module__ = decl.module

    def __call__(self, *args: Any, **named: Any) -> Any:
        if RECORDING in sys.modules:
            if arrays.has_lazy((*args, *named.values())):
                return arrays.recorded(self, args, named)
        if is_traced():
            return torch_graphs.plain_call_that_breaks_the_graph(self, args, named)
        theirs = borrowed(self.decl.params, args, named)
        if theirs is None:
            return self._called(args, named)
        return theirs.called(self, self._called, partial(self.retold, self.assigned))

    def retold(
        self, assigned: Callable[[Any, Any], Mapping[Param, Any]], failure: DlangError, theirs: Borrowed
    ) -> DlangError:
        """Returns the error of a call, in the words of the library whose arrays it was given.

        assigned: gives the value of each parameter.
        """
        if failure.diagnostics[0].code == "E0960":
            named = dict(theirs.named)
            self.seed_in(named, theirs.args)
            try:
                self._matcher(self.decl, kinds=theirs.of).match(assigned(theirs.args, named))
            except DlangError as e:
                return e
        return failure

    def _called(self, args: tuple[Any, ...], named: dict[str, Any]) -> Any:
        given_seed = self.seed_in(named, args)
        seed, seeded = given_seed or 0, given_seed is not None
        if not seeded and self.draws(args):
            self.default_seeds.note()
        if self._takes_functions:
            return self._with_functions(self.assigned(args, named), seed)
        given = self.assigned(args, named) if named or len(args) > len(self._sizes) else None
        values, which = (args, (1 << len(args)) - 1) if given is None else (tuple(given.values()), self.set_of(given))
        seen = self.seen(values, which)
        known = self._prepared.get(seen.key) if seen is not None else None
        if seen is not None and known is not None:
            ready = converted(seen.leaves, known.conversions)
            if ready is not None:
                result = known.prepared(ready, seed)
                if seeded not in known.shortened and self.may_be_direct(seeded):
                    known.shortened.add(seeded)
                    self._shorten(values, which, known.prepared, seeded)
                return result
        prepared, leaves = self.matched(self.assigned(args, {}) if given is None else given)
        how = conversions(seen.leaves, leaves) if seen is not None else None
        if seen is not None and how is not None:
            if len(self._prepared) >= REMEMBERED:
                self._prepared.clear()
            self._prepared[seen.key] = Known(prepared, how)
        result = prepared(leaves, seed)
        shortened = self._shorten(values, which, prepared, seeded)
        if shortened and seen is not None and (known := self._prepared.get(seen.key)) is not None:
            known.shortened.add(seeded)
        return result

    def seen(self, values: tuple[Any, ...], which: int) -> Seen | None:
        """Returns the `Seen` form of a call; None where arguments have to be matched. which: the parameters given."""
        return None if self.asks_for_indices else seen_before(values, self._sizes, which)

    def set_of(self, given: Mapping[Param, Any]) -> int:
        """Some parameters, in bits."""
        return sum([1 << k for k, p in enumerate(self.decl.params) if p in given])

    def _shorten(self, values: tuple[Any, ...], which: int, prepared: Prepared, seeded: bool) -> bool:
        """Has calls like this one go to compiled code from now on, if they can. which: the parameters given; seeded:
        whether a seed is.
        """
        if self.asks_for_indices and self.settle:  # the function of these types need not ask for them
            return False
        quick = callable_class(Function)
        table = None if quick is None else prepared.instance.table(values, quick.word, self.generic)
        if quick is None or table is None or not self.may_be_direct(seeded):
            return False
        if self._record is None:
            names = parameter_names(self.decl)[0]
            self._record = direct.Record(self._slowly, "seed" if self.draws() else None, names)
        self._record.add(table, which, quick, self, seeded)
        return True

    def _slowly(self, *args: Any, **named: Any) -> Any:
        return Function.__call__(self, *args, **named)

    def bind(self, *args: Any, **named: Any) -> Bound:
        """This function with some arguments given once and for all, by their order or their names.

        What depends on these alone is computed at the first call, and kept. Arrays are copied, unless they own their
        memory and can't be written to.
        """
        from dlang.python.bound import Bound

        if self._takes_functions:
            raise self.misuse("takes a function, so nothing of it can be bound")
        if (theirs := borrowed(self.decl.params, args, named)) is not None:
            args, named = theirs.args, theirs.named
        return Bound(self, self.assigned(args, named, complete=False))

    def profile(self, *args: Any, **named: Any) -> Profile:
        """Calls the function as code that measures itself: where its time goes. `result` is what it gave.

        What the call has to compile first is not in the times, but for functions that take functions.
        """
        from dlang.runtime.profile import recorded

        twin = self.measured()
        if (theirs := borrowed(self.decl.params, args, named)) is not None:
            args, named = theirs.args, theirs.named
        seed = twin.seed_in(named, args) or 0
        given = twin.assigned(args, named)
        prepared, leaves = (None, []) if twin._takes_functions else twin.matched(given)
        with recorded(twin.program.compiled) as profile:
            if prepared is None:
                profile.result = twin._with_functions(given, seed)
            else:
                profile.result = prepared(leaves, seed)
        return profile

    def to_torch(self) -> Operator:
        """This function as an operator of PyTorch: it takes and gives tensors, and PyTorch differentiates and compiles
        what calls it. Tuples and structs hold tensors; numbers may be Python's.

        Raises `DlangError` for a function with effects, and for values that are no arrays.
        """
        operators.needed("torch", "PyTorch")
        return torch_operators.to_torch(self)

    def to_jax(self) -> Operator:
        """This function as a primitive of JAX: `jit`, `vmap`, and derivatives in both modes and of any order go through
        it. Tuples and structs hold arrays; Python's numbers are constants.

        Raises `DlangError` for a function with effects, and for values that are no arrays.
        """
        operators.needed("jax", "JAX")
        return jax_operators.to_jax(self)

    def __dir__(self) -> list[str]:
        """Lists the attributes that callers need."""
        return sorted([*dir(object), "__name__", "__qualname__", "__signature__", *OFFERED])

    @property
    def key(self) -> str:
        """Returns a key that identifies the function and its program, in every process."""
        return digest(self.program.key, self.expression)

    def measured(self) -> Function:
        """The same as code that measures itself."""
        return Function(self.program.measured(), self.decl, self.expression, self.settle)

    def ir(self, stage: str = "opt", bound: Sequence[str] = ()) -> str:
        """The program of the function after a stage, as `dlc ir --stage` prints it: `mono`, `normal`, `ad`, `opt`,
        `loops` or `llvm`. Of a derivative `ad` shows the forward and the backward program. bound: the names of
        parameters that are given early.

        Raises `ValueError` for another stage, and `DlangError` where a use has to decide a type.
        """
        if stage not in dump_ir.STAGES:
            raise ValueError(f"`{stage}` is not a stage: {', '.join(dump_ir.STAGES)}")
        early = [k for k, p in enumerate(self.decl.params) if p.local.name in bound]
        return dump_ir.listing([self.decl], stage, bound=early, deterministic=self.program.deterministic)

    def draws(self, args: Sequence[Any] = ()) -> bool:
        """Tells whether a call takes a seed; an argument may be a function that draws, too."""
        functions = [self, *[a for a in args if isinstance(a, Function)]]
        return not self._own_seed and any("random" in f.decl.effects for f in functions)

    def may_be_direct(self, seeded: bool) -> bool:
        """Tells whether calls with a seed, or without, need not come through Python: nothing is left to warn of."""
        return seeded or self.default_seeds.is_told or not self.draws()

    def seed_in(self, named: dict[str, Any], args: Sequence[Any] = ()) -> int | None:
        """Takes the seed of a call out of what is given by name; None if there is none."""
        if "seed" not in named or not self.draws(args):
            return None
        value = named.pop("seed")
        seed = number(value, "i64")
        if seed is None:
            raise self.misuse(f"takes an integer of 64 bits as `seed`, got {describe(value)}")
        return int(seed)

    def matched(self, given: Mapping[Param, Any], bound: frozenset[str] = frozenset()) -> tuple[Prepared, list[Any]]:
        """Arguments compared with the declared types; raises a `DlangError` where one does not fit.

        bound: the names of those that are given early.
        """
        matcher = self._matcher(self.decl)
        matcher.match(given)
        if self.settle:
            return self._settled(given, matcher, bound=bound)
        decl = self.decl if len(given) == len(self.decl.params) else self._without_defaults(tuple(given))
        return self._prepared_with(decl, matcher, given, bound)

    def _matcher(self, decl: FnDecl, thorough: bool = False, kinds: Mapping[str, Kind] | None = None) -> Matcher:
        return Matcher(decl, self.program.on_device, thorough, kinds=kinds or {})

    def _prepared_with(
        self, decl: FnDecl, matcher: Matcher, given: Mapping[Param, Any], bound: frozenset[str]
    ) -> tuple[Prepared, list[Any]]:
        bindings = {v: bound for v, bound in matcher.bindings().items() if v not in decl.opened}
        early = tuple([k for k, p in enumerate(decl.params) if p.local.name in bound])
        prepared = self.program.prepare(decl, bindings, early)
        ready = prepared.given(list(given.values()))
        if ready is None:
            self._matcher(matcher.decl, thorough=True).match(given)
            raise self.misuse("is given a value that holds itself")
        return ready

    def _with_functions(self, given: Mapping[Param, Any], seed: int) -> Any:
        """The value of a call with functions among the arguments."""
        matcher = self._matcher(self.decl)
        matcher.match(given)
        known = [p.local.type for p in self.decl.params if not isinstance(resolve(p.local.type), TypeFn)]
        functions: dict[str, Passed] = {}
        values: dict[str, Any] = {}
        held: list[int] = []
        handles = self.program.handles
        try:
            for p, value in given.items():
                arrow = resolve(p.local.type)
                if not isinstance(arrow, TypeFn):
                    values[p.local.name] = value
                elif isinstance(value, Function):
                    checked = value.program.checked
                    functions[p.local.name] = of_language(checked, value.expression, value.decl, value.settle)
                else:
                    if p not in self._foreign:
                        self._foreign[p] = of_python(p, arrow, known, handles, self.decl.span)
                    functions[p.local.name] = self._foreign[p]
                    held.append(handles.hold(value))
                    values[p.local.name] = held[-1]
            prepared, leaves = self._settled(given, matcher, functions, values)
            return prepared(leaves, seed)
        finally:
            handles.release(held)

    def _settled(
        self,
        given: Mapping[Param, Any],
        matcher_before: Matcher,
        functions: Mapping[str, Passed] | None = None,
        values: Mapping[str, Any] | None = None,
        bound: frozenset[str] = frozenset(),
    ) -> tuple[Prepared, list[Any]]:
        """The call of a function that the checker infers for these dtypes and ranks.

        functions: arguments that are functions. values: what is passed, if that is not what is given.
        """
        decl = self.inferred(given, matcher_before, functions)
        matcher = self._matcher(decl)
        passed = dict(zip(decl.params, (given if values is None else values).values(), strict=True))
        matcher.match(passed)
        return self._prepared_with(decl, matcher, passed, bound)

    def inferred(
        self, given: Mapping[Param, Any], matcher: Matcher, functions: Mapping[str, Passed] | None = None
    ) -> FnDecl:
        names = [p.local.name for p in given]
        whole = len(given) == len(self.decl.params)
        if not whole and self.expression.startswith("("):  # a lambda, whose parameters have no defaults
            missing = next(p.local.name for p in self.decl.params if p not in given)
            raise self.misuse(f"needs `{missing}`")
        by_name = self.expression == self.decl.name or not whole
        types = [matcher.mono(p.local.type) for p in given]
        return self.program.settled.at(self.decl, self.expression, names, types, by_name, functions)

    def at(self, args: Sequence[Any]) -> Function:
        """The function with the types that it has for such arguments, if they are not written out."""
        if not self.settle:
            return self
        given, matcher = self.assigned(args, {}), self._matcher(self.decl)
        matcher.match(given)
        decl = self.inferred(given, matcher)
        return self.once(decl, lambda: Function(self.program, decl, decl.name, False))

    def once(self, key: object, make: Callable[[], Function]) -> Function:
        """A function made of this one when it is first asked for: what it compiles is kept with it."""
        if key not in self.derived:
            self.derived[key] = make()
            self.derived[key]._made_of = self, key
        return self.derived[key]

    def __copy__(self) -> Function:
        return self

    def __deepcopy__(self, memo: object) -> Function:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        """It is pickled by where its program comes from and by its name; a derivative by what it is made of."""
        if self._made_of is not None and isinstance(self._made_of[1], tuple):
            return derivatives.made_again, self._made_of
        if self.program.origin is None or self.program.functions.get(self.expression) is not self:
            raise PicklingError(f"{self!r} is not a function of a module")
        return origins.function_of, (self.program.origin, self.expression)

    def __repr__(self) -> str:
        from dlang.typecheck.program import scheme_text

        return f"<dlang function {self.decl.name}: {scheme_text(self.decl)}>"

    @cached_property
    def __signature__(self) -> inspect.Signature:
        return signature(self.decl, self.draws())

    def assigned(self, args: Sequence[Any], named: Mapping[str, Any], complete: bool = True) -> dict[Param, Any]:
        """The value given for each parameter; those left to their defaults are missing, or to later if not complete."""
        params = self.decl.params
        if len(args) > len(params):
            raise self.misuse(f"takes {_arguments(len(params))}, got {len(args)}")
        given = dict(zip(params, args, strict=False))
        for name, value in named.items():
            if name not in self.by_name:
                raise self.misuse(f"has no parameter `{name}`")
            if self.by_name[name] in given:
                raise self.misuse(f"is given `{self.by_name[name].local.name}` twice")
            given[self.by_name[name]] = value
        missing = [f"`{p.local.name}`" for p in params if p not in given and not p.has_default]
        if missing and complete:
            raise self.misuse(f"needs {' and '.join(missing)}")
        return {p: given[p] for p in params if p in given}

    @cached_property
    def by_name(self) -> dict[str, Param]:
        """The parameters by their names in Python, and by those that they have in the language."""
        params = self.decl.params
        return dict(zip(parameter_names(self.decl)[0], params, strict=True)) | {p.local.name: p for p in params}

    def misuse(self, problem: str) -> DlangError:
        names = ", ".join([*parameter_names(self.decl)[0], *(["seed = 0"] if self.draws() else [])])
        help = (f"it is `{self.decl.name}({names})`",)
        return error("E0961", f"`{self.decl.name}` {problem}", self.decl.span, help=help)

    def _without_defaults(self, given: tuple[Param, ...]) -> FnDecl:
        """A function of the given parameters alone, which calls this one."""
        if given not in self._partial:
            from dlang.typecheck.trees import at_its_own_types, calling, reference

            args = tuple(reference(p, self.decl.span) if p in given else None for p in self.decl.params)
            left = [p.local.size for p in self.decl.params if p not in given]
            sizes = tuple([size for size in left if size is not None])
            function = at_its_own_types(self.decl, sizes)
            self._partial[given] = calling(self.decl, self.decl.name, given, function, args, opened=sizes)
        return self._partial[given]


def _arguments(n: int) -> str:
    return "no arguments" if n == 0 else "1 argument" if n == 1 else f"{n} arguments"

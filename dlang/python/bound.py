"""A function with some arguments given once and for all: what depends on them alone is computed once."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import numpy as np

from dlang.host.classes import fields_of
from dlang.host.errors import RunError
from dlang.host.placed import copied, placed
from dlang.host.platform.objects import callable_class
from dlang.identity import ByIdentity
from dlang.lazy_modules import lazy_module
from dlang.python.documentation import parameter_names
from dlang.python.function import REMEMBERED, Function, Known, is_traced
from dlang.python.instances import Instance, Prepared
from dlang.python.kinds import borrowed
from dlang.python.repeats import Seen, conversions, converted
from dlang.typecheck import core

if TYPE_CHECKING:
    from dlang.python import jax_operators, operators, torch_graphs, torch_operators
    from dlang.python.operators import Operator
    from dlang.runtime import direct
    from dlang.runtime.direct import Record
    from dlang.runtime.profile import Profile
else:
    direct = lazy_module("dlang.runtime.direct")
    jax_operators = lazy_module("dlang.python.jax_operators")
    operators = lazy_module("dlang.python.operators")
    torch_graphs = lazy_module("dlang.python.torch_graphs")
    torch_operators = lazy_module("dlang.python.torch_operators")


class Bound:
    """Takes the arguments that are left, in their order or by name; gives what the function gives for all of them, but
    for rounding: what is computed once is no longer fused with the rest.

    `early_runs` counts how often the part that depends on the bound arguments alone has run: once for each combination
    of dtypes and ranks of the others.
    """

    def __new__(cls, *_: object) -> Bound:
        quick = callable_class(Bound)
        bound: Bound = object.__new__(cls if quick is None else quick.type)
        return bound

    def __init__(self, function: Function, values: Mapping[core.Param, Any]) -> None:
        self.function = function
        self.values = {p: _own(v) for p, v in values.items()}
        self.left = tuple([p for p in function.decl.params if p not in self.values])
        self.early_runs = 0
        self._derived: dict[object, Bound] = {}  # what has been made of it by `dlang.jvp` and `dlang.vjp`
        self._names = frozenset(p.local.name for p in self.values)
        self._early: ByIdentity[Instance, list[Any] | None] = ByIdentity()
        params = function.decl.params
        self._template = [self.values.get(p) for p in params]
        self._open = [k for k, p in enumerate(params) if p not in self.values]
        self._known: dict[tuple[object, ...], Known] = {}
        self._record: Record | None = None
        self.__name__ = self.__qualname__ = function.decl.name
        self.__module__ = function.decl.module
        self.__doc__ = function.decl.doc or None

    def __call__(self, *args: Any, **named: Any) -> Any:
        if is_traced():
            return torch_graphs.plain_call_that_breaks_the_graph(self, args, named)
        theirs = borrowed(self.left, args, named)
        if theirs is None:
            return self._called(args, named)
        return theirs.called(self, self._called, partial(self.function.retold, self._assigned))

    def _called(self, args: tuple[Any, ...], named: dict[str, Any]) -> Any:
        f = self.function
        given_seed = f.seed_in(named)
        seed, seeded = given_seed or 0, given_seed is not None
        if not seeded and f.draws():
            f.default_seeds.note()
        whole = not named and len(args) == len(self.left)
        given = None if whole else self._assigned(args, named)
        values = self._filled(args) if given is None else tuple(given.values())
        seen = f.seen(values, (1 << len(values)) - 1 if given is None else f.set_of(given))
        known = None if seen is None else self._known.get(seen.key)
        if seen is not None and known is not None:
            ready = converted(seen.leaves, known.conversions)
            early = None if ready is None else self.early_of(known.prepared, ready)
            if ready is not None and early is not None:
                result = known.prepared(ready, seed, early)
                if seeded not in known.shortened and f.may_be_direct(seeded):
                    known.shortened.add(seeded)
                    given = self._assigned(args, named) if given is None else given
                    self._shorten(given, known.prepared, known.prepared.passed(ready, seed, early), seeded)
                return result
        return self._matched(self._assigned(args, named) if given is None else given, seen, seed, seeded)

    def _filled(self, args: tuple[Any, ...]) -> tuple[Any, ...]:
        """The value of each parameter, of arguments for all that are left."""
        values = list(self._template)
        for k, value in zip(self._open, args, strict=True):
            values[k] = value
        return tuple(values)

    def _matched(self, given: Mapping[core.Param, Any], seen: Seen | None, seed: int, seeded: bool) -> Any:
        """A call unlike those before it. seen: what it looks like; seeded: whether it gives a seed."""
        f = self.function
        prepared, leaves = f.matched(given, self._names)
        early = self.early_of(prepared, leaves)
        if early is None:
            prepared, leaves = f.matched(given)
            return prepared(leaves, seed)
        how = None if seen is None else conversions(seen.leaves, leaves)
        if seen is not None and how is not None:
            if len(self._known) >= REMEMBERED:
                self._known.clear()
            self._known[seen.key] = Known(prepared, how)
        result = prepared(leaves, seed, early)
        self._shorten(given, prepared, prepared.passed(leaves, seed, early), seeded)
        return result

    def bind(self, *args: Any, **named: Any) -> Bound:
        """With more arguments bound."""
        if (theirs := borrowed(self.left, args, named)) is not None:
            args, named = theirs.args, theirs.named
        return Bound(self.function, self._assigned(args, named, complete=False))

    @property
    def named(self) -> dict[str, Any]:
        """The bound values by the names of their parameters."""
        return {p.local.name: v for p, v in self.values.items()}

    def once(self, key: object, make: Callable[[], Bound]) -> Bound:
        """Returns what is derived from the function, made on first request: what depends on bound arguments is computed
        once in it too."""
        if key not in self._derived:
            self._derived[key] = make()
        return self._derived[key]

    def profile(self, *args: Any, **named: Any) -> Profile:
        """Calls the function as code that measures itself, as `Function.profile` does.

        What depends on the bound arguments alone has been computed before, and is not in the times.
        """
        from dlang.runtime.profile import recorded

        twin = Bound(self.function.measured(), self.values)
        if (theirs := borrowed(self.left, args, named)) is not None:
            args, named = theirs.args, theirs.named
        f = twin.function
        seed = f.seed_in(named) or 0
        given = twin._assigned(args, named)
        prepared, leaves = f.matched(given, twin._names)
        early = twin.early_of(prepared, leaves)
        if early is None:
            prepared, leaves = f.matched(given)
        with recorded(f.program.compiled) as profile:
            profile.result = prepared(leaves, seed, early or ())
        return profile

    def to_torch(self) -> Operator:
        """This function as an operator of PyTorch, as `Function.to_torch` gives it, of the arguments that are left."""
        operators.needed("torch", "PyTorch")
        return torch_operators.to_torch(self)

    def to_jax(self) -> Operator:
        """This function as a primitive of JAX, as `Function.to_jax` gives it, of the arguments that are left."""
        operators.needed("jax", "JAX")
        return jax_operators.to_jax(self)

    @property
    def key(self) -> str:
        """Returns a name for the function with its bound arguments, unique in this process."""
        return f"{self.function.key}.{id(self)}"

    def ir(self, stage: str = "opt") -> str:
        """The program after a stage, as of a function: one function for what runs once, one for the rest."""
        return self.function.ir(stage, tuple(self._names))

    def _assigned(
        self, args: tuple[Any, ...], named: Mapping[str, Any], complete: bool = True
    ) -> dict[core.Param, Any]:
        """The value of each parameter, in order."""
        f = self.function
        if len(args) > len(self.left):
            names = ", ".join(f"`{p.local.name}`" for p in self.left)
            raise f.misuse(f"has {names or 'nothing'} left to be given, got {len(args)} arguments")
        given = {**self.values, **dict(zip(self.left, args, strict=False))}
        for name in named:
            if f.by_name.get(name) in given:
                raise f.misuse(f"is given `{f.by_name[name].local.name}` twice")
        return f.assigned((), {**{p.local.name: v for p, v in given.items()}, **named}, complete)

    def early_of(self, prepared: Prepared, leaves: list[Any]) -> list[Any] | None:
        """Returns the values of the early part; None if that fails, as then the whole says what fails first."""
        if not prepared.instance.bound:
            return []
        instance = prepared.instance
        if instance not in self._early:
            early: list[Any] | None = None
            self.early_runs += 1
            with suppress(RunError):
                early = prepared.early(leaves)
            self._early[instance] = early
        return self._early[instance]

    def _shorten(self, given: Mapping[core.Param, Any], prepared: Prepared, passed: list[Any], seeded: bool) -> None:
        """Has calls like this one go to compiled code from now on, if they can."""
        if self.function.settle and self.function.asks_for_indices:
            return
        quick = callable_class(Bound)
        values = [given[p] for p in self.left if p in given]
        table = None if quick is None else prepared.instance.table(values, quick.word, self.function.generic, passed)
        if quick is None or table is None or not self.function.may_be_direct(seeded):
            return
        if self._record is None:
            decl = self.function.decl
            names = [name for name, p in zip(parameter_names(decl)[0], decl.params, strict=True) if p in self.left]
            self._record = direct.Record(self._slowly, "seed" if self.function.draws() else None, names)
        self._record.add(table, sum([1 << k for k, p in enumerate(self.left) if p in given]), quick, self, seeded)

    def _slowly(self, *args: Any, **named: Any) -> Any:
        return Bound.__call__(self, *args, **named)

    def __copy__(self) -> Bound:
        return self

    def __deepcopy__(self, memo: object) -> Bound:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return _bound, (self.function, self.named)

    def __repr__(self) -> str:
        return f"{self.function!r} with {', '.join(f'`{p.local.name}`' for p in self.values)} bound"

    @cached_property
    def __signature__(self) -> inspect.Signature:
        whole = inspect.signature(self.function)
        bound = {k for k, p in enumerate(self.function.decl.params) if p in self.values}
        parameters = list(whole.parameters.values())  # one more than `params` if it takes a seed
        return whole.replace(parameters=[p for k, p in enumerate(parameters) if k not in bound])


def _bound(function: Function, values: Mapping[str, Any]) -> Bound:
    return function.bind(**values)


def _own(value: Any) -> Any:
    """A value that nobody else changes."""
    if isinstance(value, np.ndarray):
        if value.flags.owndata and not value.flags.writeable:
            return value
        copy = value.copy()
        copy.flags.writeable = False
        return copy
    if placed(value) is not None:
        return copied(value)
    if isinstance(value, tuple):
        return tuple(map(_own, value))
    if isinstance(value, list):
        return list(map(_own, value))
    if hasattr(value, "__dataclass_fields__") and not isinstance(value, type):
        return type(value)(*[_own(getattr(value, name)) for name in fields_of(type(value))])
    return value

"""Calls of functions as PyTorch has them: tensors, and a description of all else by which a graph can be kept."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch

from dlang.diagnostics import error
from dlang.host.values import dtype_name
from dlang.ops.dtypes import ELSEWHERE
from dlang.python.extents import Extent
from dlang.python.kinds import TORCH
from dlang.python.mapped import each_leaf, mapped
from dlang.python.operators import (
    Described,
    Plans,
    Target,
    described,
    given,
    leaves,
    pulled,
    pushed,
    symbols,
)

PULL, PUSH = "|>"
"""In a key, between a function and the numbers of the parameters whose cotangents are wanted, or that have tangents."""

_DERIVED = re.compile(r"(.+)([|>])([\d,]+)")


# ---- functions by their keys -----------------------------------------------------------------------------------------
@cache
def _targets() -> dict[str, Target]:
    """Returns the targets that can be called, by key. They stay, as the operators of PyTorch do."""
    return {}


def key_of(f: Target) -> str:
    """The key of a function, under which calls find it from now on."""
    key = f"{f.__name__}#{f.key}"
    _targets().setdefault(key, f)
    return key


def derived(key: str, how: str, wanted: Sequence[int]) -> str:
    """The key of the function that pulls back, or that pushes, in some parameters."""
    return f"{key}{how}{','.join(map(str, wanted))}"


def target(key: str) -> Target:
    """The function of a key, derived when it is first asked for."""
    targets = _targets()
    if key not in targets:
        found = _DERIVED.fullmatch(key)
        if found is None:
            name = key.partition("#")[0]
            help = ("call `to_torch()` of it before the graph runs",)
            raise error("E0967", f"a graph calls `{name}`, which is not an operator in this process", None, help=help)
        base, how, wanted = found.groups()
        f = target(base)
        names = Plans.of(f).names
        targets[key] = (pulled if how == PULL else pushed)(f, [names[int(k)] for k in wanted.split(",")])
    return targets[key]


# ---- calls -----------------------------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class Call:
    """The parts of a call besides tensors: its function, the kinds of leaves, the numbers among them, a seed."""

    key: str
    letters: str
    floats: Sequence[float]
    integers: Sequence[Any]

    @property
    def plans(self) -> Plans:
        return Plans.of(target(self.key))

    def over(self, tensors: Sequence[Any], batched: Sequence[bool]) -> Call | None:
        """The same over a further axis, the first, of some tensors; None where it has to be called for each element."""
        types = tuple([(_dtype(t), t.ndim - over) for t, over in zip(tensors, batched, strict=True)])
        numbers = tuple(self.floats), tuple(self.integers)
        f = mapped(target(self.key), self.letters, *numbers, types, tuple(batched))
        return None if f is None else Call(key_of(f), each_leaf(self.letters), self.floats, self.integers)

    def run(self, tensors: Sequence[Any]) -> list[Any]:
        """The leaves of the result, computed with the memory of the tensors."""
        return _unseen()(self, tensors) if "torch._dynamo" in sys.modules else self.computed(tensors)

    def computed(self, tensors: Sequence[Any]) -> list[Any]:
        """The same, where PyTorch's compiler may look at what is done."""
        f, plans = target(self.key), self.plans
        with torch.no_grad():
            integers = iter(self.integers)
            arguments = given(plans, self.letters, [t.detach() for t in tensors], self.floats, integers)
            if (seed := next(integers, None)) is not None:  # what no leaf has taken
                arguments["seed"] = int(seed)
            found = list(leaves(plans.result, f(**arguments)))
            return found if tensors else [TORCH.of(x) for x in found]

    def describe(self, tensors: Sequence[Any]) -> list[Any]:
        """Empty tensors of the dtypes and sizes of the results."""
        stand_ins = [Described(_dtype(t), tuple(map(_extent, t.shape))).stand_in() for t in tensors]
        arguments = given(self.plans, self.letters, stand_ins, self.floats, map(_extent, self.integers))
        device = next((t.device for t in tensors if t.device.type != "cpu"), torch.device("cpu"))
        return [
            torch.empty(symbols(d.shape), dtype=_torch_dtype(d.dtype), device=device)
            for d in described(target(self.key), arguments, self.plans.result, TORCH)
        ]


@cache
def _unseen() -> Any:
    """`Call.computed` without PyTorch's compiler, which else looks at all that runs where a graph is broken."""
    return torch.compiler.disable(Call.computed)


def _dtype(tensor: Any) -> str:
    """The language's name of the dtype of a tensor. One that it does not have keeps PyTorch's name."""
    name = str(tensor.dtype).removeprefix("torch.")
    return dtype_name(name) or name


def _torch_dtype(dtype: str) -> Any:
    return getattr(torch, ELSEWHERE[dtype])


def _extent(size: Any) -> int:
    """A size of a tensor that may be any number in a graph."""
    if not isinstance(size, torch.SymInt):
        return int(size)
    return Extent(int(size.node.require_hint()), size)

"""How PyTorch differentiates calls, and maps them over a further axis.

A derivative is a call again, of a function of the language: `slopes` of the one that pulls back, `tangents` of the one
that pushes. So calls can be differentiated as often as wanted, in any mixture of modes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.autograd import forward_ad

from dlang.python.operators import ARRAY, INTEGER, NEXT, places, with_tangents
from dlang.python.torch_targets import PULL, PUSH, Call, derived

Invoke = Callable[[Call, Sequence[Any]], Any]
"""A function that computes a call of some tensors, so that PyTorch can differentiate it."""


def slopes(
    invoke: Invoke, call: Call, tensors: Sequence[Any], bars: Sequence[Any], needed: Sequence[bool]
) -> list[Any]:
    """The cotangents of tensors, None for those that need none. bars: of the results."""
    found: list[Any] = [None] * len(needed)
    own, fixed = places(call.letters), call.plans.fixed
    wanted = [k for k, leaves in enumerate(own) if not fixed[k] and any(at is not None and needed[at] for at in leaves)]
    if wanted:
        letters = NEXT.join([call.letters, ARRAY * len(bars)])
        pull = Call(derived(call.key, PULL, wanted), letters, call.floats, call.integers)
        made = invoke(pull, [*tensors, *bars])
        for at, slope in zip([at for k in wanted for at in own[k]], made, strict=True):
            if at is not None and needed[at]:
                found[at] = slope
    return found


def tangents(invoke: Invoke, call: Call, tensors: Sequence[Any], dots: Sequence[Any], results: int) -> list[Any]:
    """The tangents of results, None for those that have none. dots: of the tensors; results: how many there are."""
    own, fixed = places(call.letters), call.plans.fixed
    wanted = [
        k
        for k, leaves in enumerate(own)
        if not fixed[k] and any(at is not None and dots[at] is not None for at in leaves)
    ]
    if not wanted:
        return [None] * results
    letters, floats, integers = with_tangents(call.letters, wanted)
    count = call.letters.count(INTEGER)
    numbers = [*call.integers[:count], *integers, *call.integers[count:]]  # a seed stays the last
    push = Call(derived(call.key, PUSH, wanted), letters, [*call.floats, *floats], numbers)
    given = [at for k in wanted for at in own[k] if at is not None]
    pushed = [torch.zeros_like(tensors[at]) if dots[at] is None else dots[at] for at in given]
    return [dot if dot.is_floating_point() else None for dot in invoke(push, [*tensors, *pushed])[results:]]


# ---- calls that are no part of a graph -------------------------------------------------------------------------------
class Differentiated(torch.autograd.Function):
    """Computes the derivatives of a call for PyTorch, from what `_remember` has kept of it."""

    @staticmethod
    def backward(ctx: Any, *cotangents: Any) -> Any:
        made = zip(cotangents, ctx.results, strict=True)
        bars = [torch.zeros(shape, dtype=t, device=d) if bar is None else bar for bar, (shape, t, d) in made]
        return None, *slopes(invoke, ctx.call, ctx.saved_tensors, bars, ctx.needs_input_grad[1:])

    @staticmethod
    def jvp(ctx: Any, _: None, *dots: Any) -> Any:
        return tuple(tangents(invoke, ctx.call, ctx.saved_tensors, dots, len(ctx.results)))


class Eager(Differentiated):
    """A call that is made at once."""

    @staticmethod
    def forward(ctx: Any, call: Call, *tensors: Any) -> Any:
        made = tuple(call.run(tensors))
        _remember(ctx, call, tensors, made)
        return made


class Transformed(Differentiated):
    """One in the form that the transforms of `torch.func` ask for."""

    @staticmethod
    def forward(call: Call, *tensors: Any) -> Any:
        return tuple(invoke(call, tensors))

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Any, ...]) -> None:
        call, *tensors = inputs
        _remember(ctx, call, tensors, output)

    @staticmethod
    def vmap(info: Any, axes: tuple[int | None, ...], call: Call, *tensors: Any) -> Any:
        """Another function of the language, or else the function once for each element."""
        moved = [t if axis is None else t.movedim(axis, 0) for t, axis in zip(tensors, axes[1:], strict=True)]

        over = call.over(moved, [axis is not None for axis in axes[1:]])
        if over is not None:
            made = invoke(over, moved)
            return tuple(made), (0,) * len(made)

        def element(k: int) -> Any:
            return invoke(call, [t if axis is None else t[k] for t, axis in zip(moved, axes[1:], strict=True)])

        if info.batch_size == 0:
            one = [t if axis is None else t.new_empty(t.shape[1:]) for t, axis in zip(moved, axes[1:], strict=True)]
            made = [t.new_empty((0, *t.shape)) for t in call.describe(one)]
        else:
            made = [torch.stack(items) for items in zip(*map(element, range(info.batch_size)), strict=True)]
        return tuple(made), (0,) * len(made)


def _remember(ctx: Any, call: Call, tensors: Sequence[Any], results: Sequence[Any]) -> None:
    ctx.call = call
    ctx.results = [(t.shape, t.dtype, t.device) for t in results]
    ctx.save_for_backward(*tensors)
    ctx.save_for_forward(*tensors)
    ctx.set_materialize_grads(False)


def invoke(call: Call, tensors: Sequence[Any]) -> Any:
    """Computes a call, as whoever watches has to see it: who traces a graph sees the operator."""
    if torch._C._are_functorch_transforms_active():
        return Transformed.apply(call, *tensors)
    if _is_traced(tensors):
        return torch.ops.dlang.call(list(tensors), call.floats, call.integers, call.key, call.letters)
    if forward_ad._current_level >= 0 or (torch.is_grad_enabled() and any(t.requires_grad for t in tensors)):
        return Eager.apply(call, *tensors)
    return call.run(tensors)


def _is_traced(tensors: Sequence[Any]) -> bool:
    if torch._C._len_torch_dispatch_stack() or torch._C._is_tracing():
        return True
    return any(type(t) not in (torch.Tensor, torch.nn.Parameter) or t.is_meta for t in tensors)

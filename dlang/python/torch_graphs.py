"""Plain calls in what PyTorch compiles: they break the graph, and nothing of them is traced."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from dlang.python.bound import Bound
    from dlang.python.function import Function


def is_compiling() -> bool:
    return bool(torch.compiler.is_compiling())


@torch.compiler.disable
def plain_call_that_breaks_the_graph(f: Function | Bound, args: tuple[Any, ...], named: dict[str, Any]) -> Any:
    """The value of a call. PyTorch tells this name to those who ask for a graph without breaks."""
    return f(*args, **named)

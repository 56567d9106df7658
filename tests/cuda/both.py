"""A program on the emulated device and in the interpreter, which say the same."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any

import numpy as np

from dlang.codegen.abi import Kernel
from dlang.codegen.cuda.placement import on_device
from dlang.codegen.schedule import schedule
from dlang.diagnostics import Source
from dlang.driver import call, check, errors_of, lower
from dlang.dump_ir import request
from dlang.host.effects import Host
from dlang.interpret.interpreter import Interpreter
from dlang.ir.anf import Program
from dlang.runtime.emulation.driver import EmulatedDriver
from dlang.runtime.engine import Engine


class Both:
    """The functions of a program, by their names."""

    def __init__(self, text: str, names: Sequence[str], multiprocessors: int = 2, deterministic: bool = False) -> None:
        checked = check(Source("program.dl", text))
        assert not errors_of(checked)
        functions = checked.module.functions
        self.program, entries = lower([request(functions[name]) for name in names], device=True)
        self.entries = dict(zip(names, entries, strict=True))
        self.driver = EmulatedDriver(multiprocessors=multiprocessors)
        engine = Engine(Host(io.StringIO()), driver=self.driver, deterministic=deterministic)
        self.runner = engine.compile(self.program, [e.name for e in entries])
        self.interpreter = Interpreter(self.program, Host(io.StringIO()))

    def found(self, name: str, sizes: Sequence[int], args: Sequence[Any], order: int = 0) -> list[Any]:
        """What the device gives, whose threads run in an order: from the first, from the last, or at random."""
        self.driver.reorder(order)
        return [np.array(result) for result in call(self.runner, self.entries[name], sizes, args)]

    def agree(self, name: str, sizes: Sequence[int], args: Sequence[Any], tolerance: float, fixed: bool = True) -> None:
        """Checks that all orders of threads give what the interpreter gives, and the same bits if they are fixed."""
        wanted = call(self.interpreter, self.entries[name], sizes, args)
        first: list[Any] = []
        for order in (0, 1, 2):
            found = self.found(name, sizes, args, order)
            for f, w in zip(found, wanted, strict=True):
                np.testing.assert_allclose(
                    np.array(f, np.float64), np.array(w, np.float64), rtol=tolerance, atol=tolerance, err_msg=name
                )
            first = first or found
            for f, before in zip(found, first, strict=True):
                if fixed:
                    np.testing.assert_array_equal(f, before)

    def kernels(self, name: str) -> list[Kernel]:
        """The kernels of a function alone."""
        f = self.entries[name].name
        alone = Program({f: self.program.functions[f]}, self.program.datatypes)
        return list(on_device(schedule(alone, device=True)).kernels)

"""`python -m dlang.tools.notebook install [--user | --prefix DIR]`; `… run`, which Jupyter calls, starts the kernel."""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from dlang.drafts import write
from dlang.lazy_modules import lazy_module

if TYPE_CHECKING:
    from dlang.tools.notebook import kernel
else:
    kernel = lazy_module("dlang.tools.notebook.kernel")


SPEC = {
    "argv": [sys.executable, "-m", "dlang.tools.notebook", "run", "-f", "{connection_file}"],
    "display_name": "dlang",
    "language": "dlang",
    "interrupt_mode": "signal",
}


def main() -> int:
    """Installs or runs the kernel; 1 if that can't be done."""
    if find_spec("ipykernel") is None:
        print("the kernel needs Jupyter's packages: pip install 'dlang[notebook]'", file=sys.stderr)
        return 1
    if sys.argv[1:2] == ["run"]:
        from ipykernel.kernelapp import IPKernelApp

        IPKernelApp.launch_instance(argv=sys.argv[2:], kernel_class=kernel.DlangKernel)
        return 0
    parser = argparse.ArgumentParser(prog="python -m dlang.tools.notebook", description="Adds a kernel to Jupyter.")
    parser.add_argument("command", choices=("install",))
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--user", action="store_true", help="for you alone")
    where.add_argument("--prefix", help="for the environment in a folder; for that of this Python if not given")
    args = parser.parse_args()
    from jupyter_client.kernelspec import KernelSpecManager

    with tempfile.TemporaryDirectory() as folder:
        write(Path(folder) / "kernel.json", json.dumps(SPEC))
        prefix = None if args.user else args.prefix or sys.prefix
        try:
            print(KernelSpecManager().install_kernel_spec(folder, "dlang", user=args.user, prefix=prefix))
        except OSError as e:
            print(f"the kernel can't be installed: {e}", file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

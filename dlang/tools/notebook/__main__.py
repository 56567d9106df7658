"""`python -m dlang.tools.notebook install [--user | --prefix DIR]`; `… run`, which Jupyter calls, starts the kernel."""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path

SPEC = {
    "argv": [sys.executable, "-m", "dlang.tools.notebook", "run", "-f", "{connection_file}"],
    "display_name": "dlang",
    "language": "dlang",
    "interrupt_mode": "signal",
}


def main() -> None:
    if sys.argv[1:2] == ["run"]:
        from ipykernel.kernelapp import IPKernelApp

        from dlang.tools.notebook.kernel import DlangKernel

        IPKernelApp.launch_instance(argv=sys.argv[2:], kernel_class=DlangKernel)
        return
    parser = argparse.ArgumentParser(prog="python -m dlang.tools.notebook")
    parser.add_argument("command", choices=("install",))
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--user", action="store_true", help="for you alone")
    where.add_argument("--prefix", help="for the environment in a folder; for that of this Python if not given")
    args = parser.parse_args()
    from jupyter_client.kernelspec import KernelSpecManager

    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "kernel.json").write_text(json.dumps(SPEC), encoding="utf-8")
        prefix = None if args.user else args.prefix or sys.prefix
        print(KernelSpecManager().install_kernel_spec(folder, "dlang", user=args.user, prefix=prefix))


if __name__ == "__main__":
    main()

"""`dlc doctor`: whether everything is there that dlang uses on this machine, and what to do where it is not."""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import platform
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from importlib import metadata, util
from typing import TYPE_CHECKING, Literal

from dlang import __version__
from dlang.diagnostics import DlangError, Source
from dlang.host.platform.machine import processor_features, processor_name
from dlang.lazy_modules import lazy_module, subprocess
from dlang.tools.arguments import Parser
from dlang.tools.cache import size
from dlang.tools.report import coloured, painted

if TYPE_CHECKING:
    from dlang import driver
    from dlang.cache import store as stores
    from dlang.host import cuda, effects
    from dlang.host.platform import machine
    from dlang.runtime import threads
    from dlang.typecheck import modules
else:
    stores = lazy_module("dlang.cache.store")
    driver = lazy_module("dlang.driver")
    cuda = lazy_module("dlang.host.cuda")
    effects = lazy_module("dlang.host.effects")
    machine = lazy_module("dlang.host.platform.machine")
    threads = lazy_module("dlang.runtime.threads")
    modules = lazy_module("dlang.typecheck.modules")


SIGNS = {"ok": ("ok", "green"), "absent": ("–", "dim"), "warn": ("warn", "yellow"), "fail": ("FAIL", "red")}
WIDTH = 18


def options(parser: Parser) -> None:
    parser.add_argument("--json", action="store_true", help="an object for each line")


def main(args: argparse.Namespace) -> int:
    failed = False
    for finding in findings():
        failed |= finding.state == "fail"
        print(json.dumps(asdict(finding), ensure_ascii=False) if args.json else _line(finding), flush=True)
    return 1 if failed else 0


def _line(f: Finding) -> str:
    sign, style = SIGNS[f.state]
    line = f"{painted(f'{sign:<4}', style, coloured(sys.stdout))}  {f.what:<{WIDTH}}{f.found}"
    return f"{line}\n      {'':<{WIDTH}}→ {f.advice}" if f.advice else line


# ---- findings --------------------------------------------------------------------------------------------------------
# Checks what dlang uses of a machine: each finding is made by itself, so that one that fails hides no other.

State = Literal["ok", "absent", "warn", "fail"]

NEEDED = ("lark", "llvmlite", "numpy", "platformdirs", "prompt_toolkit", "scipy-openblas32")
OPTIONAL = {  # what is looked for, and the extra of dlang that installs it
    "language server": (("pygls",), "lsp"),
    "plots": (("matplotlib",), "plots"),
    "types of tensors": (("ml_dtypes",), "test"),
}
EDITORS = ("code", "codium", "nvim", "vim", "emacs", "hx", "zed")
SETTINGS = "DLANG_"


@dataclass(frozen=True, slots=True)
class Finding:
    """A line of the report. absent: something that one can do without. advice: what to do, empty if nothing."""

    what: str
    state: State
    found: str
    advice: str = ""


def findings() -> Iterator[Finding]:
    """All of them, in the order in which one depends on another."""
    for what, look in _LOOKS:
        try:
            yield from look()
        except DlangError as e:
            d = e.diagnostics[0]
            yield Finding(what, "fail", f"{d.code}: {d.message}", "; ".join(d.help))
        except Exception as e:  # whatever is broken on this machine is what is looked for
            yield Finding(what, "fail", f"{type(e).__name__}: {e}", "see what that says; DLANG_DEBUG=1 shows more")


# ---- what must be there ----------------------------------------------------------------------------------------------
def _python() -> Iterator[Finding]:
    text = f"{platform.python_implementation()} {platform.python_version()}, {platform.platform()}"
    yield Finding("dlang", "ok", f"{__version__}, in {os.path.dirname(os.path.dirname(os.path.abspath(__file__)))}")
    if platform.python_implementation() != "CPython":
        yield Finding("Python", "warn", text, "calls from Python are slower than with CPython")
    else:
        yield Finding("Python", "ok", text)


def _packages() -> Iterator[Finding]:
    versions, missing = [], []
    for name in NEEDED:
        try:
            versions.append(f"{name} {metadata.version(name)}")
        except metadata.PackageNotFoundError:
            missing.append(name)
    if missing:
        yield Finding("packages", "fail", f"missing: {', '.join(missing)}", f"pip install {' '.join(missing)}")
    yield Finding("packages", "ok", ", ".join(versions))


def _processor() -> Iterator[Finding]:
    features = processor_features()
    wanted = ("avx2", "fma", "avx512f") if platform.machine() in ("x86_64", "AMD64") else ("asimd",)
    there = [name for name in wanted if name in features]
    text = f"{processor_name()}: {', '.join(there)}" if there else processor_name()
    if features and "fma" in wanted and "fma" not in features:
        yield Finding("processor", "warn", text, "without fma and AVX2 mathematical functions are several times slower")
    else:
        yield Finding("processor", "ok", text)


def _threads() -> Iterator[Finding]:
    text = f"{threads.wanted()} of {os.cpu_count() or '?'} processors"
    if os.environ.get(threads.VARIABLE):
        yield Finding("threads", "ok", f"{text}, by {threads.VARIABLE}")
    elif threads.available() < (os.cpu_count() or 1):
        yield Finding("threads", "ok", f"{text}: this process may use no more")
    else:
        yield Finding("threads", "ok", text)


def _library() -> Iterator[Finding]:
    names = sorted({p.stem for folder in modules.library_folders() for p in folder.glob("*.dl")} - {"prelude"})
    checked = driver.check(Source("<doctor>", "".join(f"import {name}\n" for name in names)))
    if wrong := driver.errors_of(checked):
        yield Finding("library", "fail", wrong[0].message, "install dlang again")
    yield Finding("library", "ok", ", ".join(names))


def _cache() -> Iterator[Finding]:
    store = stores.user_store()
    usage = f"{store.directory}, {size(sum(e.bytes for e in store.entries()))} of {size(store.limit)}"
    if store.limit <= 0:
        advice = f"unset {stores.DIRECTORY}" if stores.switched_off() else f"{stores.SIZE}=1G"
        yield Finding("cache", "warn", "nothing is kept", f"{advice} keeps what is compiled for other runs")
        return
    if (text := stores.misread()) is not None:
        yield Finding("cache", "warn", f"{stores.SIZE} is `{text}`, which says no size", "500M or 2G would")
    key = stores.digest("doctor")
    store.put("doctor", key, b"kept")
    kept = store.get("doctor", key) == b"kept"
    for entry in store.entries():
        if entry.kind == "doctor":
            os.unlink(entry.path)
    if kept:
        yield Finding("cache", "ok", usage)
    else:
        advice = f"{stores.DIRECTORY} names another directory; it must be writable for you, and for nobody else"
        yield Finding("cache", "warn", f"{usage}: cannot be used", advice)


def _blas() -> Iterator[Finding]:
    library = machine.openblas()
    for name in ("scipy_openblas_get_config", "openblas_get_config"):
        if hasattr(library, name):
            config = getattr(library, name)
            config.restype = ctypes.c_char_p
            yield Finding("BLAS", "ok", " ".join(config().decode().split()))
            return
    yield Finding("BLAS", "ok", "OpenBLAS")


def _smoke() -> Iterator[Finding]:
    """A program compiled and run here and now, with a derivative, a product and a library routine in it."""
    text = """
        fn f(x: f64[n], a: f64[n, n]) -> f64 = sum(exp(x) * (a @ x))
        fn g(x: f64[n], a: f64[n, n]) -> f64[n] = grad(f)(x, a)
        fn main() -> f64 = sum(g([0.0, 1.0], [[2.0, 0.0], [0.0, 3.0]]))
    """
    expected = 2.0 + 3.0 * 2.718281828459045 * 2
    start = time.perf_counter()
    program, (entry,) = driver.lower([driver.Request(driver.check(Source("<doctor>", text)).module.functions["main"])])
    (value,) = driver.call(driver.load(program, [entry], "cpu", effects.Host()), entry)
    took = f"{(time.perf_counter() - start) * 1000:.0f} ms"
    if abs(value - expected) < 1e-12 * expected:
        yield Finding("compiler", "ok", f"a gradient in native code is right ({took})")
    else:
        advice = "please report this with the output of `dlc doctor --json`"
        yield Finding("compiler", "fail", f"a gradient is {value}, and should be {expected}", advice)


# ---- what one can do without -----------------------------------------------------------------------------------------
def _c_compiler() -> Iterator[Finding]:
    """For `dlc build`, and for GPUs that are emulated."""
    for what, names, variable in (
        ("C compiler", ("cc", "gcc", "clang"), "CC"),
        ("C++ compiler", ("c++", "g++", "clang++"), "CXX"),
    ):
        configured = os.environ.get(variable, "").split()[:1]
        path = next((p for name in configured or names if (p := shutil.which(name))), None)
        if path is not None:
            yield Finding(what, "ok", _first_line([path, "--version"]) or path)
        elif configured:
            yield Finding(what, "warn", f"{variable} is `{configured[0]}`, which is no command", f"correct {variable}")
        else:
            use = "`dlc build --shared` links with one" if variable == "CC" else "emulated GPUs need one"
            yield Finding(what, "absent", "none", f"{use}: install gcc or clang")


def _gpu() -> Iterator[Finding]:
    try:
        library = ctypes.CDLL("libcuda.so.1")
        version = ctypes.c_int()
        library.cuDriverGetVersion(ctypes.byref(version))
        yield Finding("CUDA driver", "ok", f"{version.value // 1000}.{version.value % 1000 // 10}")
    except OSError:
        if util.find_spec("cupy") is None:
            yield Finding("GPU", "absent", "none", "`--backend cuda-emulated` runs kernels on the processor")
            return
        yield Finding("CUDA driver", "absent", "none", "without a GPU there is only `--backend cuda-emulated`")

    try:
        module = cuda.cupy()
        names = [module.cuda.runtime.getDeviceProperties(k)["name"].decode()
                 for k in range(module.cuda.runtime.getDeviceCount())]  # fmt: skip
        yield Finding("GPU", "ok", f"{', '.join(names)}; CuPy {module.__version__}")
    except DlangError as e:
        yield Finding("GPU", "warn", e.diagnostics[0].message, "; ".join(e.diagnostics[0].help))
    try:
        yield Finding("NVRTC", "ok", ".".join(map(str, cuda.nvrtc().getVersion())))
    except DlangError as e:
        yield Finding("NVRTC", "warn", e.diagnostics[0].message, "; ".join(e.diagnostics[0].help))


def _extras() -> Iterator[Finding]:
    for what, (names, extra) in OPTIONAL.items():
        if all(util.find_spec(name) for name in names):
            yield Finding(what, "ok", ", ".join(f"{name} {metadata.version(name)}" for name in names))
        else:
            yield Finding(what, "absent", "not installed", f"pip install 'dlang[{extra}]'")
    there = [name for name in EDITORS if shutil.which(name)]
    if there:
        yield Finding("editors", "ok", ", ".join(there))
    else:
        yield Finding("editors", "absent", f"none of {', '.join(EDITORS)}")


def _settings() -> Iterator[Finding]:
    given = [f"{name}={value}" for name, value in sorted(os.environ.items()) if name.startswith(SETTINGS)]
    yield Finding("settings", "ok", " ".join(given) or "none in the environment")
    if (sys.stdout.encoding or "").lower().replace("-", "") != "utf8":
        advice = "PYTHONUTF8=1, or a locale of UTF-8, shows all letters"
        yield Finding("terminal", "warn", f"its encoding is {sys.stdout.encoding}", advice)


def _first_line(command: Sequence[str]) -> str:
    """Returns the first line that a command prints; empty if it can't be run."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.partition("\n")[0]


_LOOKS: tuple[tuple[str, Callable[[], Iterator[Finding]]], ...] = (
    ("Python", _python),
    ("packages", _packages),
    ("processor", _processor),
    ("threads", _threads),
    ("library", _library),
    ("cache", _cache),
    ("BLAS", _blas),
    ("compiler", _smoke),
    ("C compiler", _c_compiler),
    ("GPU", _gpu),
    ("extras", _extras),
    ("settings", _settings),
)

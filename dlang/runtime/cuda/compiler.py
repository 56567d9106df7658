"""Kernels as machine code of a GPU, made by NVIDIA's compiler. What was made once is kept.

All kernels that are not known yet are compiled together, for the compiler takes as long to start as for a kernel. Each
is called after its text, so that it is known again in another program, where it has another number. Where all are
known NVIDIA's compiler is not even loaded: what another version of it has made is as right.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from dlang.cache.store import Store, digest, user_store
from dlang.codegen.cuda.printing import device_text, source
from dlang.codegen.kernel import FOREIGN, Kernel
from dlang.diagnostics import error
from dlang.host import cuda
from dlang.runtime.devices import Misbehaviour, does_not_compile

# a product and the sum that it is for become one operation where both stand together, as on the CPU
OPTIONS = ("--std=c++17", "--fmad=true", "--minimal", "--split-compile=0", "--disable-warnings")
WIDE = "-DDL_WIDE"
"""The option with which kernels have wide indices."""


@dataclass(frozen=True, slots=True)
class Code:
    """A module of machine code, or of code for a virtual machine that the driver compiles."""

    key: str
    content: bytes


@dataclass(frozen=True, slots=True)
class Function:
    """A kernel in a module, by its name there."""

    code: Code
    name: str


def compiled(kernels: Sequence[Kernel], capability: int, wide: bool = False) -> list[Function]:
    """Kernels for a GPU of a compute capability, 90 for 9.0; wide: whether their indices are.

    Raises `DlangError` where there is no compiler for it, and Misbehaviour for kernels that are wrong.
    """
    options = (*OPTIONS, WIDE) if wide else OPTIONS
    setting = digest(device_text(), str(capability), *options)
    named = [kernel if kernel.form == FOREIGN else _named(kernel) for kernel in kernels]
    foreign = {kernel: _foreign(kernel, capability, setting, options) for kernel in named if kernel.form == FOREIGN}
    keys = {kernel.name: digest(setting, kernel.text) for kernel in named if kernel.form != FOREIGN}
    store, codes, found = user_store(), dict[str, Code](), dict[str, Function]()
    for name, key in keys.items():
        if (code := _kept(store, key, codes)) is not None:
            found[name] = Function(code, name)
    missing = {kernel.name: kernel for kernel in named if kernel.form != FOREIGN and kernel.name not in found}
    if missing:
        content = _compile(source(tuple(missing.values())), capability, options)
        code = Code(digest(*[keys[name] for name in missing]), content)
        store.put("cubin", code.key, content)
        for name in missing:
            store.put("kernel", keys[name], code.key.encode())
            found[name] = Function(code, name)
    return [foreign[kernel] if kernel.form == FOREIGN else found[kernel.name] for kernel in named]


def _foreign(kernel: Kernel, capability: int, setting: str, options: Sequence[str]) -> Function:
    """A kernel that a program brings along, in a module of its own. Raises `DlangError` if its text is wrong."""
    store, key = user_store(), digest(setting, kernel.name, kernel.text)
    content = store.get("cubin", key)
    if content is None:
        try:
            content = _compile(kernel.text, capability, options)
        except Misbehaviour as e:
            raise does_not_compile(kernel, str(e)) from None
        store.put("cubin", key, content)
    return Function(Code(key, content), kernel.name)


def target_of(capability: int, supported: Sequence[int]) -> str:
    """Returns the target for a GPU: its machine code, or code for the closest virtual machine that both know.

    Raises `DlangError` for a GPU that the compiler does not know any more.
    """
    if capability in supported:
        return f"sm_{capability}"
    older = [known for known in supported if known < capability]
    if not older:
        message = (
            f"the GPU has compute capability {_shown(capability)}, and NVRTC compiles for {_shown(min(supported))}"
        )
        raise error(cuda.NO_DEVICE, f"{message} and later", None, help=(cuda.EMULATE,))
    return f"compute_{max(older)}"


def _shown(capability: int) -> str:
    return f"{capability // 10}.{capability % 10}"


def _named(kernel: Kernel) -> Kernel:
    """A kernel with a name that its text has given it."""
    text = kernel.text.replace(kernel.name, "@")
    name = f"dl_{kernel.form}_{digest(text)[:16]}"
    return replace(kernel, name=name, text=text.replace("@", name))


def _kept(store: Store, key: str, codes: dict[str, Code]) -> Code | None:
    """The module that has a kernel."""
    whole = store.get("kernel", key)
    if whole is None:
        return None
    name = whole.decode()
    if name not in codes:
        content = store.get("cubin", name)
        if content is None:
            return None
        codes[name] = Code(name, content)
    return codes[name]


def _compile(text: str, capability: int, options: Sequence[str]) -> bytes:
    nvrtc = cuda.nvrtc()
    target = target_of(capability, nvrtc.getSupportedArchs())
    program = nvrtc.createProgram(text, "kernels.cu", [], [])
    try:
        nvrtc.compileProgram(program, (f"--gpu-architecture={target}", *options))
        content = nvrtc.getCUBIN(program) if target.startswith("sm_") else nvrtc.getPTX(program)
    except nvrtc.NVRTCError:
        log = nvrtc.getProgramLog(program)
        raise Misbehaviour(f"the kernels do not compile:\n{log}\n{text}") from None
    finally:
        nvrtc.destroyProgram(program)
    # CuPy takes the last byte for the end of a text
    return (content.encode() if isinstance(content, str) else bytes(content)) + b"\0"

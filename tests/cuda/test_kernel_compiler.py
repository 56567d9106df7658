"""Which kernels are compiled, for which GPU, and what is kept of it; NVRTC itself needs no GPU."""

from __future__ import annotations

from pathlib import Path

import pytest

from dlang.diagnostics import DlangError
from dlang.host import cuda
from dlang.runtime import gpu
from dlang.runtime.devices import Misbehaviour
from tests.cuda.doubling import BODY, kernel


def test_a_gpu_is_compiled_for_as_closely_as_the_compiler_knows_it() -> None:
    supported = (75, 80, 90, 100)
    assert gpu.target_of(90, supported) == "sm_90"
    assert gpu.target_of(89, supported) == "compute_80"
    assert gpu.target_of(130, supported) == "compute_100"
    with pytest.raises(DlangError, match=r"capability 7\.0, and NVRTC compiles for 7\.5 and later"):
        gpu.target_of(70, supported)


class FakeCompiler:
    """Makes code that names the kernels of a text."""

    NVRTCError = KeyError

    def __init__(self) -> None:
        self.texts: list[str] = []

    def getSupportedArchs(self) -> tuple[int, ...]:
        return (80, 90)

    def createProgram(self, text: str, name: str, headers: list[str], names: list[str]) -> str:
        self.texts.append(text)
        return text

    def compileProgram(self, program: str, options: list[str]) -> None:
        if "nonsense" in program:
            raise KeyError

    def getCUBIN(self, program: str) -> bytes:
        return b"cubin " + str(len(self.texts)).encode()

    def getPTX(self, program: str) -> str:
        return "ptx"

    def getProgramLog(self, program: str) -> str:
        return "what the compiler says"

    def destroyProgram(self, program: str) -> None:
        pass


@pytest.fixture
def fake_compiler(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> FakeCompiler:
    found = FakeCompiler()
    monkeypatch.setattr(cuda, "nvrtc", lambda: found)
    monkeypatch.setenv("DLANG_CACHE", str(tmp_path))
    return found


THRICE = BODY.replace("2.0", "3.0")


def test_only_kernels_that_are_not_known_are_compiled(fake_compiler: FakeCompiler) -> None:
    one, other = kernel("dl_map_0"), kernel("dl_map_1", THRICE)
    first = gpu.compiled([one, other], 90)
    assert len(fake_compiler.texts) == 1 and first[0].code == first[1].code
    assert first[0].code.content == b"cubin 1\0"
    # under another number, and with another kernel around
    again = gpu.compiled([kernel("dl_map_0", THRICE), kernel("dl_map_1", " {}\n"), kernel("dl_map_2")], 90)
    assert [f.name for f in (again[0], again[2])] == [f.name for f in (first[1], first[0])]
    assert again[0].code == again[2].code == first[0].code
    assert again[1].code.content == b"cubin 2\0"
    assert again[1].name in fake_compiler.texts[1] and again[0].name not in fake_compiler.texts[1]
    assert "dl_map_1" not in fake_compiler.texts[1]


def test_kernels_of_one_text_are_compiled_once(fake_compiler: FakeCompiler) -> None:
    one, other = gpu.compiled([kernel("dl_map_0"), kernel("dl_map_1")], 90)
    assert one == other and fake_compiler.texts[0].count(f"{one.name}(") == 1


def test_other_gpus_have_code_of_their_own(fake_compiler: FakeCompiler) -> None:
    gpu.compiled([kernel("k")], 90)
    gpu.compiled([kernel("k")], 80)
    assert gpu.compiled([kernel("k")], 86)[0].code.content == b"ptx\0"
    assert len(fake_compiler.texts) == 3


def test_the_compiler_is_not_loaded_for_kernels_that_are_known(
    fake_compiler: FakeCompiler, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = gpu.compiled([kernel("k")], 90)
    monkeypatch.setattr(cuda, "nvrtc", lambda: pytest.fail("it is loaded"))
    assert gpu.compiled([kernel("k")], 90) == made


def test_code_that_is_gone_is_made_again(fake_compiler: FakeCompiler, tmp_path: Path) -> None:
    gpu.compiled([kernel("k")], 90)
    for file in tmp_path.glob("cubin-*"):
        file.unlink()
    gpu.compiled([kernel("k")], 90)
    gpu.compiled([kernel("k")], 90)
    assert len(fake_compiler.texts) == 2


def test_a_kernel_that_does_not_compile_is_a_mistake_of_this_compiler(fake_compiler: FakeCompiler) -> None:
    with pytest.raises(Misbehaviour, match=r"(?s)what the compiler says.*nonsense"):
        gpu.compiled([kernel("k", " { nonsense }\n")], 90)


def test_nvidias_compiler_makes_code_for_a_gpu_that_is_not_there(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    pytest.importorskip("cupy_backends.cuda.libs.nvrtc", reason="CuPy is not installed")
    monkeypatch.setenv("DLANG_CACHE", str(tmp_path))
    found = gpu.compiled([kernel("dl_map_0"), kernel("dl_map_1", THRICE)], 90)
    content = found[0].code.content
    assert content.startswith(b"\x7fELF") and all(f.name.encode() in content for f in found)
    assert gpu.compiled([kernel("dl_map_5", THRICE)], 90)[0].code.content == content
    with pytest.raises(Misbehaviour, match="nonsense"):
        gpu.compiled([kernel("k", " { nonsense }\n")], 90)

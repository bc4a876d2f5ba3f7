"""The C stand-in for NVIDIA's driver library, built once and loaded under the real library's name."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

SOURCE = Path(__file__).parent / "standin.c"


@pytest.fixture(scope="session")
def nvml_library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """``libnvidia-ml.so.1`` made of ``standin.c``."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    assert compiler, "a C compiler is needed to build the stand-in for NVIDIA's driver library"
    made = tmp_path_factory.mktemp("nvml") / "libnvidia-ml.so.1"
    subprocess.run(
        [compiler, "-shared", "-fPIC", "-O1", "-w", "-Wl,-soname,libnvidia-ml.so.1", "-o", str(made), str(SOURCE)],
        check=True,
    )
    return made


@pytest.fixture
def boards(nvml_library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Sets what the driver says from now on: lines ``GPU KEY VALUE``, see ``standin.c``."""
    # Whoever asks for the soname later is given the library that already bears it.
    ctypes.CDLL(str(nvml_library))
    script = tmp_path / "boards.txt"
    monkeypatch.setenv("NVML_STANDIN", str(script))

    def say(text: str) -> None:
        script.write_text(text)

    return say

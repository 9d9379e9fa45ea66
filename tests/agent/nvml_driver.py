"""Builds the fake libnvidia-ml.so.1 and tells it what to answer."""

import ctypes
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pynvml
import pytest

SOURCE = Path(__file__).parent / "fake_nvml" / "fake_nvml.c"
needs_compiler = pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler (cc) to build the fake NVML library")


def build(folder: Path, *options: str) -> Path:
    """The shared library, built anew in the folder."""
    library = folder / "libnvidia-ml.so.1"
    subprocess.run(
        ["cc", "-shared", "-fPIC", "-Wl,-soname,libnvidia-ml.so.1", *options, "-o", str(library), str(SOURCE)],
        check=True,
        capture_output=True,
    )
    return library


class Driver:
    """The fake driver of one test: `says` replaces what it answers."""

    def __init__(self, library: Path, state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self._state = state
        monkeypatch.setenv("FAKE_NVML", str(state))
        # the real pynvml, on our library: what its own loader would have done by LD_LIBRARY_PATH
        monkeypatch.setattr(pynvml, "nvmlLib", ctypes.CDLL(str(library)))
        pynvml._nvmlGetFunctionPointer_cache.clear()

    def says(self, *lines: str) -> None:
        """Each line is `key value`; see fake_nvml.c."""
        self._state.write_text("".join(f"{line}\n" for line in lines))


def samples(first_us: int, values: Sequence[int], *, step_us: int = 166_667) -> str:
    """A sample buffer at 6 Hz, as fake_nvml.c reads it."""
    return ",".join(f"{first_us + number * step_us}:{value}" for number, value in enumerate(values))

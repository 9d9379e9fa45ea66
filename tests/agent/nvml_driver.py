"""Builds the fake libnvidia-ml.so.1 and tells it what to answer."""

import ctypes
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pynvml
import pytest

from agent.bindings import shrink
from agent.sources.nvml import NVMLSource

SOURCE = Path(__file__).parent / "fake_nvml" / "fake_nvml.c"
shrink(pynvml)  # as a daemon has them
needs_compiler = pytest.mark.skipif(
    shutil.which("cc") is None, reason="no C compiler (cc) to build the fake NVML library"
)


def build(folder: Path, *options: str) -> Path:
    """The shared library, built anew in the folder."""
    library = folder / "libnvidia-ml.so.1"
    subprocess.run(
        [
            "cc",
            "-shared",
            "-fPIC",
            "-Wl,-soname,libnvidia-ml.so.1",
            *options,
            "-o",
            str(library),
            str(SOURCE),
        ],
        check=True,
        capture_output=True,
    )
    return library


class Driver:
    """The fake driver of one test: `says` replaces what it answers."""

    def __init__(self, library: Path, state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self._state = state
        self._sources: list[NVMLSource] = []
        self._library = ctypes.CDLL(str(library))
        monkeypatch.setenv("FAKE_NVML", str(state))
        # the real pynvml, on our library: what its own loader would have done by LD_LIBRARY_PATH
        monkeypatch.setattr(pynvml, "nvmlLib", self._library)
        pynvml._nvmlGetFunctionPointer_cache.clear()
        self.says()

    def says(self, *lines: str) -> None:
        """Each line is `key value`; see fake_nvml.c."""
        # the thread that waits for events reads it at any time
        temporary = self._state.with_suffix(".new")
        temporary.write_text("".join(f"{line}\n" for line in ("event_wait_ms 20", *lines)))
        temporary.replace(self._state)

    def open(self, **options: Any) -> NVMLSource:
        """A source on this driver, closed with the test; no card is in the kernel's list unless
        `cards` says where.
        """
        source = NVMLSource(**{"cards": self._state.parent / "no-cards", **options})
        self._sources.append(source)
        return source

    def calls(self, function: str) -> int:
        """How often the function was called since the library was loaded."""
        return int(self._library.fake_calls(function.encode()))

    @property
    def lent(self) -> tuple[int, int]:
        """GPM samples and event sets that were not given back."""
        return self._library.fake_live_samples(), self._library.fake_live_sets()

    def close(self) -> None:
        """Ends every source, so that no thread of it hears the next test's driver."""
        for source in self._sources:
            source.close()
        pynvml._nvmlGetFunctionPointer_cache.clear()


def samples(first_us: int, values: Sequence[int], *, step_us: int = 166_667) -> str:
    """A sample buffer at 6 Hz, as fake_nvml.c reads it."""
    return ",".join(f"{first_us + number * step_us}:{value}" for number, value in enumerate(values))

"""Keeps the daemon small: what loading it cost must not stay its size for months."""

import ctypes
import gc
import importlib

BINDINGS = "pynvml"
M_ARENA_MAX = -8  # malloc.h


def prepare(*, reads_nvml: bool) -> None:
    """Before the daemon's modules are loaded: one heap for all threads, and the NVML bindings first.

    They are 8,000 lines, which Python compiles at each start where it runs from one file, in 20 MB of memory: taken first,
    the modules loaded next are put in what becomes free of it.
    """
    _libc("mallopt", M_ARENA_MAX, 1)
    if reads_nvml:
        try:
            importlib.import_module(BINDINGS)
        except Exception:  # whatever is wrong with them, the source says it where it is told and tried again
            return
        give_back()


def give_back() -> None:
    """Hands free memory to the system, and spares the garbage collector what was loaded by now and will stay."""
    gc.collect()
    gc.freeze()
    _libc("malloc_trim", 0)


def _libc(function: str, *arguments: int) -> None:
    """Calls it where this C library has it: musl has neither."""
    try:
        call = getattr(ctypes.CDLL(None), function)
    except (AttributeError, OSError):
        return
    call(*arguments)

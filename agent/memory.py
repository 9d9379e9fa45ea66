"""Keeps the daemon small: what loading and starting cost must not stay its size for months."""

import ctypes
import gc
import importlib
import importlib.util
import marshal
import os
import re
import sys
import zipimport
from functools import partial
from types import CodeType, ModuleType
from typing import Callable, Iterable, Iterator, Optional, Tuple

from agent.bindings import shrink
from agent.deferred import forget

BINDINGS = "pynvml"
# what reading the command line takes, and nothing after it
OF_THE_START = ("agent.flags", "argparse", "gettext", "locale", "shutil")
M_ARENA_MAX = -8  # malloc.h
MADV_DONTNEED = 4  # bits/mman-linux.h
_MAPPING = re.compile(r"([0-9a-f]+)-([0-9a-f]+) (....) \S+ \S+ \S+\s*(.*)")


def prepare(*, reads_nvml: bool) -> None:
    """Before the daemon's modules are loaded: one heap for all threads, and the NVML bindings
    first.

    What becomes free of them is filled by the modules that are loaded next.
    """
    _libc("mallopt", ctypes.c_int(M_ARENA_MAX), ctypes.c_int(1))
    for name in OF_THE_START:
        forget(name)
    if reads_nvml:
        try:
            shrink(_loaded(BINDINGS))
        # whatever is wrong with them, the source says it where it is told and tried again
        except Exception:
            return
    give_back()


def _loaded(name: str) -> ModuleType:
    """The module, compiled in a child where it lies in a zip file, from which Python compiles it at
    each start: 8,000 lines take 20 MB, which this process would never be rid of entirely.
    """
    spec = importlib.util.find_spec(name)
    loader = None if spec is None else spec.loader
    if spec is None or name in sys.modules or not isinstance(loader, zipimport.zipimporter):
        return importlib.import_module(name)
    code = _from_child(partial(loader.get_code, name))
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        exec(code, vars(module))  # noqa: S102 - as an import does
    except BaseException:
        del sys.modules[name]  # a half of it is never found again
        raise
    return module


def _from_child(compiled: Callable[[], CodeType]) -> CodeType:
    """The code. Before there are threads. Raises EOFError where the child could not make it."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            with os.fdopen(writing, "wb") as file:
                marshal.dump(compiled(), file)
        finally:
            os._exit(0)
    os.close(writing)
    try:
        with os.fdopen(reading, "rb") as file:
            code: CodeType = marshal.load(file)  # noqa: S302 - what our own child wrote
            return code
    finally:
        os.waitpid(child, 0)


def settle() -> None:
    """Once everything has run: hands back what only the start needed, the libraries' code too (a
    third of their pages).

    Code that is needed after all is mapped again from the page cache.
    """
    give_back()
    try:
        with open("/proc/self/smaps") as lines:
            unchanged = list(unchanged_file_mappings(lines))
    except OSError:
        return
    for start, length in unchanged:
        _libc(
            "madvise", ctypes.c_size_t(start), ctypes.c_size_t(length), ctypes.c_int(MADV_DONTNEED)
        )


def give_back() -> None:
    """Hands free memory to the system, and spares the garbage collector what was loaded by now and
    will stay.
    """
    gc.collect()
    gc.freeze()
    _libc("malloc_trim", ctypes.c_size_t(0))


def unchanged_file_mappings(smaps: Iterable[str]) -> Iterator[Tuple[int, int]]:
    """(start, length) of the mappings that hold nothing but what their file holds: dropping such a
    page loses nothing.

    Written pages count as Anonymous: the linker's relocations, which a later mprotect made
    read-only, must stay.
    """
    mapping: Optional[Tuple[int, int]] = None
    for line in smaps:
        match = _MAPPING.match(line)
        if match is not None:
            start, end, rights, path = match.groups()
            is_code = path.startswith("/") and "w" not in rights and rights.endswith("p")
            mapping = (int(start, 16), int(end, 16) - int(start, 16)) if is_code else None
        elif mapping is not None and line.split() == ["Anonymous:", "0", "kB"]:
            yield mapping


def _libc(function: str, *arguments: object) -> None:
    """Calls it where this C library has it: musl lacks some."""
    try:
        call = getattr(ctypes.CDLL(None), function)
    except (AttributeError, OSError):
        return
    call(*arguments)

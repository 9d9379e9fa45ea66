"""Modules of the standard library that others import and the daemon never or hardly ever uses: each
is loaded when something of it is asked for. At rest they would be a tenth of the daemon.
"""

import importlib
import sys
from threading import Lock
from types import ModuleType
from typing import Any

# who imports it, for what
SELDOM_USED = (
    "bz2",  # shutil
    "calendar",  # email: dates of other zones
    "gzip",  # the batches of earlier versions
    "inspect",  # dataclasses: signatures of those without a docstring
    "ipaddress",  # urllib: addresses in brackets
    "locale",  # calendar, subprocess
    "lzma",  # shutil
    "platform",  # uuid
    "selectors",  # socket, subprocess
    "shutil",  # argparse, ctypes
    "subprocess",  # ctypes, platform
    "tempfile",  # ctypes
    "textwrap",  # traceback
    "tokenize",  # linecache: lines of a traceback
    "traceback",  # logging: of exceptions
    "uuid",
)
_LOCK = Lock()


class _Deferred(ModuleType):
    """Stands in the place of a module; whoever took it asks the module through it."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # what Python itself asks of any module
            raise AttributeError(name)
        with _LOCK:
            if sys.modules.get(self.__name__) is self:
                del sys.modules[self.__name__]
        return getattr(importlib.import_module(self.__name__), name)


def defer() -> None:
    """For the start of a process: what is loaded already stays."""
    for name in SELDOM_USED:
        sys.modules.setdefault(name, _Deferred(name))


def forget(name: str) -> None:
    """Lets go of a module that is no longer used; who asks for it again gets it anew."""
    if name in sys.modules:
        sys.modules[name] = _Deferred(name)
    package, _, module = name.rpartition(".")
    if package:
        vars(sys.modules[package]).pop(module, None)

"""A part of a bench in a process of its own: Django's settings and pool belong to one hub for a process's life."""

import multiprocessing
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from typing import Any, TypeVar

Found = TypeVar("Found")
_BEGAN = time.monotonic()


def apart(measure: Callable[..., Found], *arguments: Any) -> Found:
    """What `measure` gives, a function of a module."""
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as alone:
        return alone.submit(measure, *arguments).result()


def say(doing: str) -> None:
    """How far this part is: a line on the terminal, with the minutes and seconds since its process began."""
    minutes, seconds = divmod(round(time.monotonic() - _BEGAN), 60)
    print(f"{minutes:4d}:{seconds:02d} {doing}", flush=True)

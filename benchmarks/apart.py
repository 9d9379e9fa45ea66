"""A part of a bench in a process of its own: Django's settings and pool belong to one hub for a
process's life.
"""

import multiprocessing
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from typing import Any, TypeVar

Found = TypeVar("Found")
_BEGAN = time.monotonic()


def apart(measure: Callable[..., Found], *arguments: Any) -> Found:
    """What `measure` gives, a function of a module."""
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as alone:
        return alone.submit(measure, *arguments).result()


def side_by_side(
    work: Callable[[Any], Found], parts: Iterable[Any], *, starts: Callable[[], None] | None = None
) -> Iterator[Found]:
    """What `work` gives for each part, in order, one process for each core: for what is prepared,
    not for what is measured.

    `starts` is called once in each process; Django's setup where the hub that runs is wanted.
    """
    with ProcessPoolExecutor(
        os.cpu_count(), mp_context=multiprocessing.get_context("spawn"), initializer=starts
    ) as pool:
        yield from pool.map(work, parts)


def until_alone() -> None:
    """Returns when no other bench runs: of a bench that warms up beside the others, `__main__` then
    closes the standard input.
    """
    sys.stdin.read()


def say(doing: str) -> None:
    """How far this part is: a line on the terminal, with the minutes and seconds since its process
    began.
    """
    minutes, seconds = divmod(round(time.monotonic() - _BEGAN), 60)
    print(f"{minutes:4d}:{seconds:02d} {doing}", flush=True)

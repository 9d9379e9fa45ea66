"""Where this process' CPU time goes, by the product's modules: what a profile shows when a target
is missed.
"""

import signal
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

from benchmarks.tables import Cell, Table

ROOT = Path(__file__).resolve().parent.parent
ROOMS = (str(ROOT / "fleetwatch"), str(ROOT / "agent"))
EACH_S = 0.002
LEAST_SHARE = 0.02


@contextmanager
def sampled() -> Iterator[Counter[str]]:
    """Counts, each EACH_S of the main thread's CPU time, the innermost module of the product that
    is at work ("elsewhere": none is).
    """
    found: Counter[str] = Counter()

    def note(_: int, frame: FrameType | None) -> None:
        found[_module(frame)] += 1

    before = signal.signal(signal.SIGPROF, note)
    signal.setitimer(signal.ITIMER_PROF, EACH_S, EACH_S)
    try:
        yield found
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def _module(frame: FrameType | None) -> str:
    while frame is not None:
        if frame.f_code.co_filename.startswith(ROOMS):
            return (
                Path(frame.f_code.co_filename)
                .relative_to(ROOT)
                .with_suffix("")
                .as_posix()
                .replace("/", ".")
            )
        frame = frame.f_back
    return "elsewhere"


def table(title: str, found: Counter[str], *, python_s: float) -> Table:
    """Modules with LEAST_SHARE and more, the largest first; `python_s` is what all of them took, in
    the unit of the measured table.
    """
    whole = max(found.total(), 1)
    named = [
        (module, count / whole)
        for module, count in found.most_common()
        if count / whole >= LEAST_SHARE
    ]
    rows: list[list[Cell]] = [[module, f"{share:.0%}", python_s * share] for module, share in named]
    rest = 1 - sum(share for _, share in named)
    rows.append(["all others together", f"{rest:.0%}", python_s * rest])
    note = (
        f"samples of the Python process each {EACH_S * 1000:g} ms of CPU; numpy, zstd and psycopg"
        " count for the module that called"
    )
    return Table(title, ["module", "share", "CPU-s"], rows, notes=(note,))

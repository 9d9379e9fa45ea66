"""`make bench`, `make bench-full`: every benchmarks/bench_*.py in a process of its own; all
together write docs/benchmarks.md.
"""

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from benchmarks import page
from benchmarks.tables import Size

HERE = Path(__file__).resolve().parent
PAGE = HERE.parent / "docs" / "benchmarks.md"
# warms up for long and takes no core: it starts first and measures last, when it is alone
BESIDE = ("agent",)


def main() -> int:
    """0 when every bench gave its tables."""
    names = [path.stem.removeprefix("bench_") for path in sorted(HERE.glob("bench_*.py"))]
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks", description="Runs the benchmarks; without a name all of them."
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(names))
    parser.add_argument(
        "--size", type=Size, default=Size.QUICK, help="quick or full (default quick)"
    )
    parser.add_argument(
        "--page",
        type=Path,
        metavar="FILE",
        help=(
            "where the tables go (default, of all benches: docs/benchmarks.md); of named ones into"
            " their sections of a page that is there"
        ),
    )
    wanted = parser.parse_args()
    if unknown := set(wanted.names) - set(names):
        parser.error(f"there is no {', '.join(sorted(unknown))}; there is {', '.join(names)}")
    began = datetime.now(UTC)
    results = _run(wanted.names or names, wanted.size)
    command = _command(wanted.names, wanted.size)
    text = page.text(results, command=command, began=began)
    print(f"\n{text}")
    failed = [one.name for one in results if one.error]
    path = wanted.page or (None if wanted.names else PAGE)
    if path is not None and not failed:
        if wanted.names and path.exists():
            kept = path.read_text(encoding="utf-8")
            text = page.with_sections(kept, results, command=command, began=began)
        path.write_text(text, encoding="utf-8")
        print(f"written to {path}")
    if failed:
        print(f"failed: {', '.join(failed)}; no page was written", file=sys.stderr)
    return 1 if failed else 0


def _command(names: Sequence[str], size: Size) -> str:
    """What a reader types for the same."""
    if names:
        return f"python -m benchmarks --size {size.value} {' '.join(names)}"
    return "make bench" if size is Size.QUICK else "make bench-full"


@dataclass(frozen=True, slots=True)
class Running:
    """A bench in a process of its own, and where its tables go."""

    name: str
    process: "subprocess.Popen[bytes]"
    file: Path


def _run(names: Sequence[str], size: Size) -> list[page.Result]:
    """What each gave, in the order of the names; one at a time measures."""
    with tempfile.TemporaryDirectory() as folder:
        waiting = {name: _start(name, size, Path(folder)) for name in names if name in BESIDE}
        found = {
            name: _end(_start(name, size, Path(folder))) for name in names if name not in waiting
        }
        found |= {name: _end(one) for name, one in waiting.items()}
    return [found[name] for name in names]


def _start(name: str, size: Size, folder: Path) -> Running:
    file = folder / f"{name}.json"
    command = [sys.executable, "-m", "benchmarks.one", name, size, str(file)]
    return Running(name, subprocess.Popen(command, cwd=HERE.parent, stdin=subprocess.PIPE), file)


def _end(one: Running) -> page.Result:
    """The bench's tables, or what went wrong.

    It is alone now: its standard input ends (`apart.until_alone`).
    """
    print(f"\n== {one.name} ==", flush=True)
    began = time.monotonic()
    assert one.process.stdin is not None
    one.process.stdin.close()
    status = one.process.wait()
    took_s = time.monotonic() - began
    print(f"{one.name}: {took_s / 60:.1f} minutes", flush=True)
    if status or not one.file.exists():
        return page.Result(one.name, took_s, error=f"exit status {status}")
    return page.Result.from_json(one.name, took_s, one.file.read_text(encoding="utf-8"))


if __name__ == "__main__":
    sys.exit(main())

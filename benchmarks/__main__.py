"""`make bench`: every benchmarks/bench_*.py, one after the other, each in a process of its own."""

import platform
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

HERE = Path(__file__).resolve().parent


def main() -> int:
    """0 when every benchmark ran."""
    print(f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC, {platform.processor() or platform.machine()}, Python {platform.python_version()}")
    failed = 0
    for path in sorted(HERE.glob("bench_*.py")):
        print(f"\n== {path.stem.removeprefix('bench_')} ==", flush=True)
        failed += subprocess.run([sys.executable, "-m", f"benchmarks.{path.stem}"], cwd=HERE.parent, check=False).returncode != 0
    return 1 if failed else 0


sys.exit(main())

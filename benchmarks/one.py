"""`python -m benchmarks.one NAME SIZE FILE`: one bench in this process; its tables go to the file
as JSON.
"""

import importlib
import json
import sys
from dataclasses import asdict
from pathlib import Path

from benchmarks.tables import BenchError, Size


def main() -> int:
    """0 when the bench gave its tables."""
    name, size, file = sys.argv[1:]
    bench = importlib.import_module(f"benchmarks.bench_{name}")
    try:
        tables = bench.run(Size(size))
    except BenchError as error:
        print(f"{name}: {error}", file=sys.stderr)
        return 1
    about = (bench.run.__doc__ or "").strip().split("\n")[0]
    Path(file).write_text(
        json.dumps({"about": about, "tables": [asdict(table) for table in tables]}),
        encoding="utf-8",
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())

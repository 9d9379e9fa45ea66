"""A bench has a hub of its own, in a process that nobody prepared."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
SCRIPT = """
from benchmarks.servers import running_hub

if __name__ == "__main__":
    with running_hub():
        from fleetwatch.inventory.models import Node

        print("nodes:", Node.objects.count())
"""


def test_a_bench_starts_its_hub_without_any_setting():
    bare = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}

    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], cwd=ROOT, env=bare, capture_output=True, text=True
    )

    assert (done.stdout, done.returncode) == ("nodes: 0\n", 0), done.stderr

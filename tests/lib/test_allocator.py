"""What a process does about its memory once all is loaded."""

import subprocess
import sys

PROGRAM = """
import gc
from fleetwatch.lib import allocator

before = gc.get_freeze_count()
allocator.spare_loaded()
print(before, gc.get_freeze_count() > 1000, gc.get_threshold() == allocator.COLLECT_AFTER)
"""


def test_what_is_loaded_is_not_looked_through_again_and_what_comes_is_seldom():
    shown = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True
    )

    assert shown.stdout.split() == ["0", "True", "True"]

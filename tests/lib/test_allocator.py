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

THREADS = """
import resource, threading
import numpy as np
from fleetwatch.lib import allocator

def columns():
    return sum(np.ones(1_000_000).sum() for _ in range(3))

def faults_of(work):
    thread = threading.Thread(target=work)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    thread.start()
    thread.join()
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

print(allocator.keep_freed(), faults_of(columns) > 200, faults_of(columns) < 50)
"""


def test_what_is_loaded_is_not_looked_through_again_and_what_comes_is_seldom():
    assert _said_by(PROGRAM) == ["0", "True", "True"]


def test_memory_that_one_thread_freed_is_at_hand_for_the_next():
    assert _said_by(THREADS) == ["True", "True", "True"]


def _said_by(program):
    shown = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    return shown.stdout.split()

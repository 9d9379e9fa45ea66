"""What can't be logged stops no work."""

import subprocess
import sys

LINES = """
import fleetwatch.settings
import structlog

structlog.get_logger().warning("request refused", error="x" * 100_000)
structlog.get_logger().warning("request refused")
print("went on")
"""


def test_on_a_full_disk_the_log_is_lost_and_the_work_goes_on():
    with open("/dev/full", "w") as full:
        ended = subprocess.run(
            [sys.executable, "-c", LINES], stdout=subprocess.PIPE, stderr=full, timeout=60
        )

    assert ended.stdout == b"went on\n"

"""What the web process asks of the system."""

import subprocess
import sys

from django.conf import settings

ROOM = """
import resource
resource.setrlimit(resource.RLIMIT_NOFILE, (512, 1000))
from fleetwatch.front import running
print(resource.getrlimit(resource.RLIMIT_NOFILE)[0], running.register.in_all)
"""


def test_each_connection_may_be_sent_a_file_too():
    told = subprocess.run(
        [sys.executable, "-c", ROOM],
        cwd=settings.BASE_DIR,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    files, connections = map(int, told.stdout.split())

    assert files == 1000
    assert 300 < connections <= (files - 256) // 2

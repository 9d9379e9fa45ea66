#!/usr/bin/python3
"""Opens the GPUs that the control group lets it, for so many seconds, with so much memory of the
host: burn.py burn|hold SECONDS [BYTES].
"""

import contextlib
import os
import sys
import time

opened = []
for number in range(4):
    with contextlib.suppress(OSError):
        os.open(f"/dev/nvidia{number}", os.O_RDWR | os.O_NOCTTY)
        opened.append(number)
sys.stdout.write(f"{sys.argv[1]} opened {opened}\n")
sys.stdout.flush()
filled = b"x" * int(sys.argv[3]) if len(sys.argv) > 3 else b""  # held while it sleeps
time.sleep(float(sys.argv[2]))

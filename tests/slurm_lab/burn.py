#!/usr/bin/python3
"""Opens the GPUs that the control group lets it, for so many seconds: burn.py burn|hold SECONDS."""

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
time.sleep(float(sys.argv[2]))

"""Starts the agent from its one file, and what else names itself here.

In words that the oldest Python understands: it shall say what is missing.
"""

import os
import runpy
import sys

COMMAND = "fleetwatch-agent"
PACKAGE = "agent"

if sys.version_info < (3, 8):
    # RHEL 8 and SLES 15 call 3.6 python3, and have newer ones beside it
    for minor in range(14, 7, -1):
        for folder in os.environ.get("PATH", "").split(os.pathsep):
            newer = os.path.join(folder, "python3.%d" % minor)
            if os.access(newer, os.X_OK):
                os.execv(newer, [newer, "-I"] + sys.argv)
    sys.stderr.write(
        COMMAND + ": Python 3.8 or newer is needed, this is %d.%d\n" % sys.version_info[:2]
    )
    sys.exit(2)
runpy.run_module(PACKAGE, run_name="__main__", alter_sys=True)

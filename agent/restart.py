"""A new process of the agent in the place of this one: same number, arguments and environment.

After a change of the driver its old library stays mapped here, and only a new process can load the
new one.
"""

import logging
import os
import sys
from typing import NoReturn

log = logging.getLogger("agent.restart")

# a process no older than this does not replace itself: a mismatch that stays costs a start a minute
ALIVE_S = 60.0


def restart() -> NoReturn:
    """Never comes back. Raises OSError when the kernel refuses."""
    # What followed the interpreter, as the kernel has it: options, -m agent or the .pyz, flags.
    # sys.argv has lost the options and -m; sys.orig_argv is there from Python 3.10 on only.
    with open("/proc/self/cmdline", "rb") as file:
        words = file.read().split(b"\0")
    command = [sys.executable, *map(os.fsdecode, words[1:-1])]
    log.info("the agent replaces itself")
    logging.shutdown()
    os.execv(sys.executable, command)  # noqa: S606 - our own interpreter and arguments

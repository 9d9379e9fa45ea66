"""The door of `fleetwatch`.

Exit 0: ok; 1: the hub refused or did not answer; 2: bad arguments; 3: not logged in.
"""

import os
import signal
import sys
from typing import Optional, Sequence

from cli import command_line
from cli.cli_errors import FAILED, CommandError
from cli.terminal_text import clean


def main(arguments: Optional[Sequence[str]] = None) -> int:
    """The exit status; every failure is one line on standard error."""
    if hasattr(signal, "SIGPIPE"):
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # `fleetwatch waste | head` ends quietly
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")  # what the terminal's encoding has no letter for
    asked = command_line.parse(sys.argv[1:] if arguments is None else arguments, os.environ)
    try:
        asked.command(asked)
    except CommandError as error:
        print("fleetwatch: %s" % clean(str(error)), file=sys.stderr)
        return error.status
    except (KeyError, TypeError) as error:
        print(
            "fleetwatch: this hub answers otherwise than this file knows (%s): fetch it again"
            % clean(repr(error)),
            file=sys.stderr,
        )
        return FAILED
    except KeyboardInterrupt:
        return FAILED
    return 0


if __name__ == "__main__":
    sys.exit(main())

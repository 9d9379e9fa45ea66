"""What the agent is told to do: run | once | check | replay | history.

Exit 0: ok; 1: nothing to read, or the hub refused; 2: bad arguments.
"""

import importlib
import logging
import os
import sys
from typing import Optional, Sequence

from agent import config, memory
from agent.errors import AgentError, BadArgumentError
from agent.lines import printable

FAILED = 1
BAD_ARGUMENTS = 2
# A command's modules are loaded when it is asked for: a daemon that holds them all would be half as
# large again.
COMMANDS = {
    "run": ("agent.daemon", "run"),
    "once": ("agent.check.look", "once"),
    "check": ("agent.check.look", "check"),
    "replay": ("agent.replay", "send"),
    "history": ("agent.history", "send"),
}


class OneLine(logging.Formatter):
    """What drivers, exporters and commands say can't begin a line of its own in the log, nor speak
    to a terminal.
    """

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - logging's name
        record.message = printable(record.message)
        return super().formatMessage(record)


def main(arguments: Optional[Sequence[str]] = None) -> int:
    """The exit status; every failure is one clear line on standard error."""
    if sys.version_info < (3, 8):
        return _fail(
            "Python 3.8 or newer is needed, this is %d.%d" % sys.version_info[:2], BAD_ARGUMENTS
        )
    _log_in_lines()
    try:
        return _run(sys.argv[1:] if arguments is None else arguments)
    except BadArgumentError as error:
        return _fail(str(error), BAD_ARGUMENTS)
    except (AgentError, OSError) as error:
        return _fail(str(error), FAILED)
    except KeyboardInterrupt:
        return FAILED


def _log_in_lines() -> None:
    logging.basicConfig(level=logging.INFO, stream=sys.stderr)
    for handler in logging.getLogger().handlers:
        handler.setFormatter(OneLine("%(asctime)s %(levelname)s %(message)s"))


def _run(arguments: Sequence[str]) -> int:
    """The command's exit status. Raises what it raises."""
    chosen = config.parse(arguments, os.environ)
    logging.getLogger().setLevel(logging.INFO if chosen.command == "run" else logging.WARNING)
    if chosen.command == "run":
        memory.prepare(reads_nvml=chosen.source in ("auto", "nvml"))
    module, function = COMMANDS[chosen.command]
    status: int = getattr(importlib.import_module(module), function)(chosen)
    return status


def _fail(text: str, status: int) -> int:
    print("fleetwatch-agent: %s" % " ".join(text.split()), file=sys.stderr)
    return status

"""The commands and their flags, as they stand on the command line: their values as texts."""

import argparse
from typing import Any, Dict, NoReturn, Sequence

from agent import __version__
from agent.errors import ConfigError

_OF_A_HUB = "run check replay history"
_OF_THIS_HOST = "run once check"
# Flag, its value's name ("" for a switch), its help, the commands that have it.
_FLAGS = (
    ("--json", "", "in the wire's format", "once"),
    ("--server", "URL", "the hub, such as https://fleetwatch.example.org", _OF_A_HUB),
    (
        "--token",
        "T",
        "an enrolment token, or this node's own (better: FLEETWATCH_TOKEN_FILE)",
        _OF_A_HUB,
    ),
    ("--node", "NAME", "this node's name (the host name)", _OF_A_HUB + " once"),
    ("--ca-file", "PEM", "certificates to trust instead of the system's", _OF_A_HUB),
    ("--spool", "DIR", "folder of the queue on disk, to see whether it can be written", "check"),
    ("--json", "", "the report for machines", "check"),
    (
        "--gpm",
        "on|off",
        "off: SM, tensor and memory activity of Hopper and newer are not read (on)",
        _OF_THIS_HOST,
    ),
    (
        "--source",
        "S",
        "auto | nvml | nvidia-smi | dcgm=URL | simulated:SPEC | replay:FILE (auto)",
        _OF_THIS_HOST,
    ),
    (
        "--jobs",
        "LIST",
        "whose books are read: auto, or some of slurm,kubernetes,docker,process (auto)",
        _OF_THIS_HOST,
    ),
    (
        "--cluster",
        "C",
        "the cluster's name in job keys, where its scheduler has none (default)",
        _OF_THIS_HOST,
    ),
    (
        "--docker-all-counts",
        "",
        "a container that was given all GPUs holds them all (no: only those it uses)",
        _OF_THIS_HOST,
    ),
    (
        "--proc-root",
        "DIR",
        "where the host's /proc is mounted, in a container (/proc)",
        _OF_THIS_HOST,
    ),
    ("--job", "KEY", "declare one job that holds all GPUs", "run replay"),
    ("--user", "U", "the declared job's owner", "run replay"),
    ("--account", "A", "the declared job's account or team", "run replay"),
    (
        "--kind",
        "K",
        "the declared job's kind: batch, interactive or service (batch)",
        "run replay",
    ),
    (
        "--flush-s",
        "S",
        "seconds between batches, 1 to 300 (30; the hub may ask for another)",
        "run",
    ),
    (
        "--release-min",
        "MIN",
        "how long SIGUSR1 lets go of the driver, for a GPU reset or rmmod nvidia (5)",
        "run",
    ),
    (
        "--allow-actions",
        "LIST",
        "what the hub may have done on this host: none, or some of stop_job,drain_node (none)",
        "run",
    ),
    (
        "--spool",
        "DIR",
        "folder of the queue on disk (as root /var/lib/fleetwatch-agent)",
        "run",
    ),
    (
        "--spool-mb",
        "MB",
        "the queue's limit; beyond it the oldest batches are dropped (512)",
        "run",
    ),
    ("--labels", "K=V,…", "labels of this node, such as pool=a,rack=7", "run"),
    ("--record", "FILE", "also write every reading to FILE, for replay", "run"),
    ("--gpus", "N", "GPUs in a CSV that has neither index nor uuid (1)", "replay"),
    ("--model", "M", "the GPUs' model, where the file does not name it", "replay"),
    (
        "--tz",
        "ZONE",
        "zone of the file's times: UTC, +05:30, Europe/Berlin (UTC)",
        "replay",
    ),
    ("--start", "ISO", "move the log in time so that it begins here", "replay"),
    ("--speed", "X", "max, or how many times real time (max)", "replay"),
    ("--cluster", "NAME", "the jobs' cluster, where the file has no column Cluster", "history"),
    (
        "--tz",
        "ZONE",
        "zone in which sacct -P printed its times: UTC, +05:30, Europe/Berlin (UTC)",
        "history",
    ),
)
_COMMANDS = {
    "run": "the daemon: read, keep, send, until it is told to stop",
    "once": "one window of this host on standard output; needs no hub",
    "check": "what this host offers, what can't be read, why, and what to do about it",
    "replay": "send a recorded log through the real pipeline",
    "history": "send how Slurm's jobs ended and what they asked for, from its accounting",
}
_FILES = {
    "replay": "CSV of nvidia-smi --query-gpu, or a recording of run --record",
    "history": "output of sacct --json, or of sacct -P with its header; - reads it from a pipe",
}


class _Parser(argparse.ArgumentParser):
    """Raises instead of exiting, so that every complaint leaves in one shape."""

    def error(self, message: str) -> NoReturn:
        raise ConfigError(message)


def given_by(arguments: Sequence[str]) -> Dict[str, Any]:
    """What each flag was given, by its name, and the command.

    Raises ConfigError; --help and --version print and raise SystemExit(0).
    """
    return vars(_parser().parse_args(list(arguments)))


def _parser() -> _Parser:
    parser = _Parser(
        allow_abbrev=False,
        prog="fleetwatch-agent",
        description="Reads this host's GPUs and streams them to a FleetWatch hub.",
        epilog=(
            "Each flag of a command that is about the host or the hub is also FLEETWATCH_<NAME> in"
            " the environment. Exit status: 0 well, 1 nothing to read or the hub did not take it, 2"
            " a wrong argument or setting."
        ),
    )
    parser.add_argument("--version", action="version", version="fleetwatch-agent " + __version__)
    commands = parser.add_subparsers(
        dest="command", parser_class=_Parser, metavar=" | ".join(_COMMANDS)
    )
    parsers = {
        name: commands.add_parser(name, help=help, allow_abbrev=False)
        for name, help in _COMMANDS.items()
    }
    for command, help in _FILES.items():
        parsers[command].add_argument("files", nargs="+", metavar="FILE", help=help)
    for flag, metavar, help, of in _FLAGS:
        for command in of.split():
            if metavar:
                parsers[command].add_argument(flag, metavar=metavar, help=help)
            else:
                is_required = (command, flag) == ("once", "--json")
                parsers[command].add_argument(
                    flag, action="store_const", const="yes", required=is_required, help=help
                )
    return parser

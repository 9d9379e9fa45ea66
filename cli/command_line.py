"""What may be typed: `fleetwatch COMMAND …`, with --help for each."""

from argparse import ArgumentParser, ArgumentTypeError, Namespace
from typing import Any, Mapping, Sequence

from cli import home_hub
from cli.login_commands import login, logout
from cli.report_commands import FILTERS, explain, job, me, waste
from cli.top_command import top

GROUPS = ("team", "user", "project", "cost_centre", "job", "node", "gpu_model", "cause")
MOST_ROWS = 1000
STATUS = (
    "Exit status: 0 ok, 1 the hub refused or does not answer, 2 bad arguments, 3 not logged in."
)


def parse(arguments: Sequence[str], environment: Mapping[str, str]) -> Namespace:
    """What was asked for, with the function that does it as `command`; exits with status 2, and a
    line of help, for what can't be read.
    """
    server = environment.get("FLEETWATCH_SERVER") or home_hub.ADDRESS
    parser = ArgumentParser(
        "fleetwatch",
        description="What GPU jobs cost, what of it is wasted, why, and what helps.",
        epilog=STATUS,
    )
    parser.set_defaults(environment=environment)
    shared = ArgumentParser(add_help=False)
    shared.add_argument(
        "--server", default=server, help="the hub's address (%s)" % (server or "FLEETWATCH_SERVER")
    )
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    for name, command, help_text in (
        ("login", login, "get a token: shows a code that you confirm in a browser"),
        ("logout", logout, "end the token, and forget it here"),
    ):
        log = commands.add_parser(name, help=help_text, description=help_text, parents=[shared])
        log.set_defaults(command=command)
    _add_reports(commands, shared)
    return parser.parse_args(arguments)


def _add_reports(commands: Any, shared: ArgumentParser) -> None:
    """The commands that read, each with --json, a period and a number of rows."""
    adds = {
        me: ("me", "your jobs, and what they waste", "now-7d", _add_nothing),
        job: ("job", "one job: why it wastes, and what helps", "its life", _add_job),
        waste: ("waste", "what is wasted, by team, user, job, …", "now-24h", _add_waste),
        explain: ("explain", "what a figure is made of", "now-24h", _add_explain),
        top: ("top", "jobs that waste most now, again and again", "now-1h", _add_top),
    }
    for command, (name, help_text, start, add) in adds.items():
        reads = commands.add_parser(name, help=help_text, description=help_text, parents=[shared])
        reads.add_argument("--json", action="store_true", help="the API's answer, for programs")
        reads.add_argument(
            "--from", dest="start", metavar="WHEN", help="now-7d, now/M, ISO 8601 (%s)" % start
        )
        reads.add_argument("--to", dest="end", metavar="WHEN", help="now")
        reads.add_argument("--limit", type=_rows, default=20, help="rows at most (20)")
        reads.set_defaults(command=command)
        add(reads)


def _add_nothing(_: ArgumentParser) -> None:
    """It takes what all take."""


def _add_job(parser: ArgumentParser) -> None:
    parser.add_argument(
        "key",
        nargs="?",
        default="",
        help="such as slurm/della/4711, or the number of a job of yours; in a Slurm job its own",
    )


def _add_filters(parser: ArgumentParser) -> None:
    for name in FILTERS:
        parser.add_argument("--%s" % name.replace("_", "-"), help="of this one alone")


def _add_waste(parser: ArgumentParser) -> None:
    _add_filters(parser)
    parser.add_argument("--by", choices=GROUPS, default="team", help="a row for each (team)")


def _add_explain(parser: ArgumentParser) -> None:
    _add_filters(parser)
    parser.add_argument("--job", help="of this job alone, by its key")
    parser.add_argument("--state", help="of time in this state alone, such as idle")


def _add_top(parser: ArgumentParser) -> None:
    _add_filters(parser)
    parser.add_argument("--once", action="store_true", help="do not go on")
    parser.add_argument(
        "--every", type=_seconds, default=10, metavar="S", help="seconds between looks (10)"
    )


def _rows(text: str) -> int:
    return _number(text, 1, MOST_ROWS)


def _seconds(text: str) -> int:
    return _number(text, 2, 3600)


def _number(text: str, low: int, high: int) -> int:
    if not text.isdecimal() or not low <= int(text) <= high:
        raise ArgumentTypeError("a whole number from %d to %d, please" % (low, high))
    return int(text)

"""Flags and environment -> one frozen Config. A wrong or unknown value is one clear line, never a
guess.

Every flag is also FLEETWATCH_<NAME>; a flag wins. The token may come from a file
(FLEETWATCH_TOKEN_FILE), so that it stands in no process list. What looks at this host (check, once)
takes the installed agent's settings where no hub is named.
"""

import argparse
import os
import re
import socket
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Dict, Mapping, NoReturn, Optional, Sequence, Tuple
from urllib.parse import urlsplit

from agent import __version__
from agent.errors import BadArgumentError
from agent.wire import JOB_KINDS, MAX_LABELS, MAX_TEXT

SOURCES = ("auto", "nvml", "nvidia-smi")
SOURCE_PREFIXES = ("simulated:", "replay:")
EXPORTER = "dcgm="
JOB_SOURCES = ("auto", "slurm", "kubernetes", "docker", "process")
PREFIX = "FLEETWATCH_"
TOKEN_FILE = PREFIX + "TOKEN_FILE"
INSTALLED = Path("/etc/fleetwatch-agent/environment")  # the service's, root's
MIN_FLUSH_S, MAX_FLUSH_S = 1, 300
MIN_RELEASE_MIN, MAX_RELEASE_MIN = 1, 120
MIN_SPOOL_MB, MAX_SPOOL_MB = 1, 1_000_000
_CLUSTER = re.compile(r"[^\x00-\x20\x7f/]{1,128}")
_NODE = re.compile(r"[^\x00-\x20\x7f/?#]{1,253}")
MAX_TOKEN_FILE = 4096
_TOKEN = re.compile(r"[\x21-\x7e]{1,512}")


class ConfigError(BadArgumentError):
    """A wrong value; the text names it and says what was expected."""


@dataclass(frozen=True)
class JobOptions:
    """A job declared on the command line; `key` is its name on the hub."""

    key: str
    user: str = ""
    account: str = ""
    kind: str = "batch"


@dataclass(frozen=True)
class Config:
    """What one start of the agent was told."""

    command: str
    node: str
    source: str = "auto"
    gpm: bool = True  # whether GPM is read, on GPUs that have it
    server: str = ""
    token: str = field(default="", repr=False)
    ca_file: Optional[str] = None
    token_file: Optional[Path] = None  # the token came from it, and a new one may
    flush_s: int = 30
    release_min: int = 5
    spool: Path = Path()
    spool_bytes: int = 0
    labels: Mapping[str, str] = field(default_factory=dict)
    record: Optional[Path] = None
    jobs: Tuple[str, ...] = ("auto",)  # of JOB_SOURCES: whose books are read
    cluster: str = ""  # as job keys name it, where the scheduler itself has no name for it
    proc_root: str = "/proc"  # where the host's is mounted
    docker_all: bool = False  # a container that was given all GPUs holds them all
    job: Optional[JobOptions] = None
    files: Tuple[Path, ...] = ()
    gpus: int = 1
    model: Optional[str] = None
    zone: str = "UTC"
    start: Optional[str] = None
    speed: Optional[float] = None  # times real time; None: as fast as the hub takes it
    is_json: bool = False


class _Parser(argparse.ArgumentParser):
    """Raises instead of exiting, so that every complaint leaves in one shape."""

    def __init__(self, **options: Any) -> None:
        super().__init__(allow_abbrev=False, **options)

    def error(self, message: str) -> NoReturn:
        raise ConfigError(message)


def parse(
    arguments: Sequence[str], environment: Mapping[str, str], *, installed: Path = INSTALLED
) -> Config:
    """The configuration. Raises ConfigError; --help and --version print and raise SystemExit(0)."""
    given = vars(_parser().parse_args(list(arguments)))
    if given.get("command") is None:
        raise ConfigError("say what to do: run, once, check, replay or history (--help tells more)")
    # where a hub is named, the installed agent's token is for another one
    if (
        given["command"] in ("check", "once")
        and given.get("server") is None
        and not environment.get(PREFIX + "SERVER")
    ):
        environment = {**_settings_in(installed), **environment}
    _refuse_unknown(environment)

    def value(name: str) -> Optional[str]:
        flag = given.get(name)
        return flag if flag is not None else environment.get(PREFIX + name.upper()) or None

    command = given["command"]
    needs_hub = command in ("run", "replay", "history")
    may_ask_hub = command == "check" and value("server") is not None
    may_have_token = may_ask_hub and (value("token") or environment.get(TOKEN_FILE))
    return Config(
        command=command,
        node=_node(value("node") or socket.gethostname()),
        source=_source(value("source") or "auto"),
        gpm=_is_on("--gpm", value("gpm") or "on"),
        server=_server(value("server")) if needs_hub or may_ask_hub else "",
        token=_token(value("token"), environment) if needs_hub or may_have_token else "",
        token_file=(
            None
            if value("token") or not environment.get(TOKEN_FILE)
            else Path(environment[TOKEN_FILE])
        ),
        ca_file=_existing("--ca-file", value("ca_file")),
        flush_s=_whole("--flush-s", value("flush_s") or "30", MIN_FLUSH_S, MAX_FLUSH_S),
        release_min=_whole(
            "--release-min", value("release_min") or "5", MIN_RELEASE_MIN, MAX_RELEASE_MIN
        ),
        spool=Path(value("spool") or default_spool(environment)),
        spool_bytes=_whole("--spool-mb", value("spool_mb") or "512", MIN_SPOOL_MB, MAX_SPOOL_MB)
        * 1024
        * 1024,
        labels=_labels(value("labels")),
        record=Path(str(given["record"])) if given.get("record") else None,
        jobs=_job_sources(value("jobs") or "auto"),
        cluster=_cluster(value("cluster")),
        proc_root=_proc_root(value("proc_root")),
        docker_all=_switch("--docker-all-counts", value("docker_all_counts")),
        job=_job(given),
        files=tuple(Path(name) for name in given.get("files", ())),
        gpus=_whole("--gpus", given.get("gpus") or "1", 1, 1024),
        model=given.get("model"),
        zone=given.get("tz") or "UTC",
        start=given.get("start"),
        speed=_speed(given.get("speed") or "max"),
        is_json=bool(given.get("json")),
    )


def _settings_in(path: Path) -> Dict[str, str]:
    """The FLEETWATCH_ lines of a file as systemd reads it, and the token file beside it, as the
    unit has it.

    None of them where there is no such file, or it is root's alone.
    """
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        return {}
    pairs = [line.strip().partition("=") for line in lines if line.strip().startswith(PREFIX)]
    settings = {name.strip(): _unquoted(value.strip()) for name, _, value in pairs}
    token = path.with_name("token")
    return {TOKEN_FILE: str(token), **settings} if token.exists() else settings


def _unquoted(text: str) -> str:
    return text[1:-1] if len(text) > 1 and text[0] == text[-1] and text[0] in "\"'" else text


def default_spool(environment: Mapping[str, str]) -> str:
    """/var/lib/fleetwatch-agent for root and for a service, else the user's own state folder."""
    if environment.get("STATE_DIRECTORY"):  # systemd's, for StateDirectory=
        return environment["STATE_DIRECTORY"].split(":")[0]
    if os.geteuid() == 0:
        return "/var/lib/fleetwatch-agent"
    home = environment.get("HOME", "/tmp")  # noqa: S108
    state = environment.get("XDG_STATE_HOME") or os.path.join(home, ".local", "state")
    return os.path.join(state, "fleetwatch-agent")


def _parser() -> _Parser:
    parser = _Parser(
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
        dest="command", parser_class=_Parser, metavar="run | once | check | replay | history"
    )
    run = commands.add_parser("run", help="the daemon: read, keep, send, until it is told to stop")
    _add_hub_flags(run)
    _add_source_flag(run)
    _add_host_flags(run)
    _add_job_flags(run)
    run.add_argument(
        "--flush-s",
        metavar="S",
        help="seconds between batches, 1 to 300 (30; the hub may ask for another)",
    )
    run.add_argument(
        "--release-min",
        metavar="MIN",
        help="how long SIGUSR1 lets go of the driver, for a GPU reset or rmmod nvidia (5)",
    )
    run.add_argument(
        "--spool",
        metavar="DIR",
        help="folder of the queue on disk (as root /var/lib/fleetwatch-agent)",
    )
    run.add_argument(
        "--spool-mb",
        metavar="MB",
        help="the queue's limit; beyond it the oldest batches are dropped (512)",
    )
    run.add_argument("--labels", metavar="K=V,…", help="labels of this node, such as pool=a,rack=7")
    run.add_argument(
        "--record", metavar="FILE", help="also write every reading to FILE, for replay"
    )
    once = commands.add_parser(
        "once", help="one window of this host on standard output; needs no hub"
    )
    once.add_argument("--json", action="store_true", required=True, help="in the wire's format")
    once.add_argument("--node", metavar="NAME", help="this node's name (the host name)")
    check = commands.add_parser(
        "check", help="what this host offers, what can't be read, why, and what to do about it"
    )
    _add_hub_flags(check)
    check.add_argument(
        "--spool",
        metavar="DIR",
        help="folder of the queue on disk, to see whether it can be written",
    )
    check.add_argument("--json", action="store_true", help="the report for machines")
    for command in (once, check):
        _add_source_flag(command)
        _add_host_flags(command)
    replay = commands.add_parser("replay", help="send a recorded log through the real pipeline")
    replay.add_argument(
        "files",
        nargs="+",
        metavar="FILE",
        help="CSV of nvidia-smi --query-gpu, or a recording of run --record",
    )
    _add_hub_flags(replay)
    _add_job_flags(replay)
    replay.add_argument(
        "--gpus", metavar="N", help="GPUs in a CSV that has neither index nor uuid (1)"
    )
    replay.add_argument(
        "--model", metavar="M", help="the GPUs' model, where the file does not name it"
    )
    replay.add_argument(
        "--tz", metavar="ZONE", help="zone of the file's times: UTC, +05:30, Europe/Berlin (UTC)"
    )
    replay.add_argument(
        "--start", metavar="ISO", help="move the log in time so that it begins here"
    )
    replay.add_argument("--speed", metavar="X", help="max, or how many times real time (max)")
    history = commands.add_parser(
        "history", help="send how Slurm's jobs ended and what they asked for, from its accounting"
    )
    history.add_argument(
        "files",
        nargs="+",
        metavar="FILE",
        help="output of sacct --json, or of sacct -P with its header; - reads it from a pipe",
    )
    _add_hub_flags(history)
    history.add_argument(
        "--cluster", metavar="NAME", help="the jobs' cluster, where the file has no column Cluster"
    )
    history.add_argument(
        "--tz",
        metavar="ZONE",
        help="zone in which sacct -P printed its times: UTC, +05:30, Europe/Berlin (UTC)",
    )
    return parser


def _add_hub_flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--server", metavar="URL", help="the hub, such as https://fleetwatch.example.org"
    )
    parser.add_argument(
        "--token",
        metavar="T",
        help="an enrolment token, or this node's own (better: FLEETWATCH_TOKEN_FILE)",
    )
    parser.add_argument("--node", metavar="NAME", help="this node's name (the host name)")
    parser.add_argument(
        "--ca-file", metavar="PEM", help="certificates to trust instead of the system's"
    )


def _add_source_flag(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--gpm",
        metavar="on|off",
        help="off: SM, tensor and memory activity of Hopper and newer are not read (on)",
    )
    parser.add_argument(
        "--source",
        metavar="S",
        help="auto | nvml | nvidia-smi | dcgm=URL | simulated:SPEC | replay:FILE (auto)",
    )


def _add_host_flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--jobs",
        metavar="LIST",
        help="whose books are read: auto, or some of slurm,kubernetes,docker,process (auto)",
    )
    parser.add_argument(
        "--cluster",
        metavar="C",
        help="the cluster's name in job keys, where its scheduler has none (default)",
    )
    parser.add_argument(
        "--docker-all-counts",
        action="store_const",
        const="yes",
        help="a container that was given all GPUs holds them all (no: only those it uses)",
    )
    parser.add_argument(
        "--proc-root",
        metavar="DIR",
        help="where the host's /proc is mounted, in a container (/proc)",
    )


def _add_job_flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--job", metavar="KEY", help="declare one job that holds all GPUs")
    parser.add_argument("--user", metavar="U", help="the declared job's owner")
    parser.add_argument("--account", metavar="A", help="the declared job's account or team")
    parser.add_argument(
        "--kind", metavar="K", help="the declared job's kind: batch, interactive or service (batch)"
    )


_VARIABLES = (
    "SERVER", "TOKEN", "TOKEN_FILE", "NODE", "SOURCE", "GPM", "FLUSH_S", "SPOOL", "SPOOL_MB",
    "CA_FILE", "LABELS", "RELEASE_MIN",
    "JOBS", "CLUSTER", "PROC_ROOT", "DOCKER_ALL_COUNTS",
)  # fmt: skip


def _refuse_unknown(environment: Mapping[str, str]) -> None:
    """A misspelt FLEETWATCH_AGENT-ish name would be silence; names of the hub's own are not ours to
    judge.
    """
    for name in environment:
        close = name.startswith(PREFIX) and name[len(PREFIX) :] not in _VARIABLES
        if close and any(
            name[len(PREFIX) :].startswith(known + "_")
            for known in ("SERVER", "TOKEN", "FLUSH", "SPOOL")
        ):
            raise ConfigError(
                "%s is not a setting of the agent; known: %s"
                % (name, ", ".join(PREFIX + known for known in _VARIABLES))
            )


def _node(text: str) -> str:
    if _NODE.fullmatch(text) is None:
        raise ConfigError(
            "--node is %r, expected 1 to 253 characters without spaces, '/', '?' or '#'" % text
        )
    return text


def _source(text: str) -> str:
    if text in SOURCES or any(
        text.startswith(prefix) and len(text) > len(prefix) for prefix in SOURCE_PREFIXES
    ):
        return text
    if text.startswith(EXPORTER) and _is_address(text[len(EXPORTER) :]):
        return text
    known = "auto, nvml, nvidia-smi, dcgm=http://HOST:9400/metrics, simulated:SPEC or replay:FILE"
    raise ConfigError("--source is %r, expected %s" % (text, known))


def _job_sources(text: str) -> Tuple[str, ...]:
    names = tuple(name.strip() for name in text.split(","))
    if any(name not in JOB_SOURCES for name in names) or ("auto" in names and len(names) > 1):
        raise ConfigError(
            "--jobs is %r, expected auto, or some of %s" % (text, ",".join(JOB_SOURCES[1:]))
        )
    return names


def _cluster(text: Optional[str]) -> str:
    if text is not None and (_CLUSTER.fullmatch(text) is None or not text.isprintable()):
        raise ConfigError(
            "--cluster is %r, expected 1 to 128 characters without spaces and '/'" % text
        )
    return text or ""


def _proc_root(text: Optional[str]) -> str:
    if text is None:
        return "/proc"
    if not os.path.exists(os.path.join(text, "stat")):
        raise ConfigError("--proc-root is %r, and no /proc is mounted there" % text)
    return text


def _is_on(flag: str, text: str) -> bool:
    if text not in ("on", "off"):
        raise ConfigError("%s is %r, expected on or off" % (flag, text))
    return text == "on"


def _server(text: Optional[str]) -> str:
    if not text:
        raise ConfigError(
            "--server (or FLEETWATCH_SERVER) is missing: the hub's address, such as"
            " https://fleetwatch.example.org"
        )
    if not _is_address(text) or "?" in text:
        raise ConfigError("--server is %r, expected http:// or https:// and a host" % text)
    return text.rstrip("/")


def _is_address(text: str) -> bool:
    """True for http:// or https:// with a host, and nothing that would be left out in silence (a
    user, a fragment).
    """
    try:
        parts = urlsplit(text)
        is_good = (
            parts.scheme in ("http", "https")
            and bool(parts.hostname)
            and parts.port != 0
            and "@" not in parts.netloc
        )
    except ValueError:
        return False
    return (
        is_good
        and not parts.fragment
        and not any(character.isspace() or not character.isprintable() for character in text)
    )


def _token(text: Optional[str], environment: Mapping[str, str]) -> str:
    if not text and environment.get(TOKEN_FILE):
        return token_in(Path(environment[TOKEN_FILE]))
    if not text:
        raise ConfigError("--token (or FLEETWATCH_TOKEN, FLEETWATCH_TOKEN_FILE) is missing")
    return _checked_token(text)


def token_in(path: Path) -> str:
    """The token that the file holds. Raises ConfigError."""
    try:
        with open(path, encoding="utf-8") as file:
            text = file.read(MAX_TOKEN_FILE).strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(
            "%s %s can't be read: %s"
            % (TOKEN_FILE, path, getattr(error, "strerror", None) or "no text")
        ) from error
    if not text:
        raise ConfigError("%s %s is empty" % (TOKEN_FILE, path))
    return _checked_token(text)


def _checked_token(text: str) -> str:
    if _TOKEN.fullmatch(text) is None:
        raise ConfigError("the token holds characters that no token has, or is longer than 512")
    return text


def _existing(flag: str, text: Optional[str]) -> Optional[str]:
    if text is not None and not os.access(text, os.R_OK):
        raise ConfigError("%s %s can't be read" % (flag, text))
    return text


def _whole(flag: str, text: str, low: int, high: int) -> int:
    if not re.fullmatch(r"\d{1,9}", text) or not low <= int(text) <= high:
        raise ConfigError(
            "%s is %r, expected a whole number from %d to %d" % (flag, text, low, high)
        )
    return int(text)


def _switch(flag: str, text: Optional[str]) -> bool:
    if text not in (None, "yes", "no"):
        raise ConfigError("%s is %r, expected yes or no" % (flag, text))
    return text == "yes"


def _speed(text: str) -> Optional[float]:
    if text == "max":
        return None
    if not re.fullmatch(r"\d{1,6}(\.\d{1,6})?", text) or float(text) == 0:
        raise ConfigError("--speed is %r, expected max or how many times real time" % text)
    return float(text)


def _labels(text: Optional[str]) -> Dict[str, str]:
    pairs = [pair.partition("=") for pair in (text or "").split(",") if pair]
    if len(pairs) > MAX_LABELS or any(
        not key or not sign or len(key + value) > MAX_TEXT for key, sign, value in pairs
    ):
        raise ConfigError(
            "--labels is %r, expected name=value,name=value (at most %d)" % (text, MAX_LABELS)
        )
    return {key.strip(): value.strip() for key, _, value in pairs}


def _job(given: Mapping[str, Any]) -> Optional[JobOptions]:
    others = [name for name in ("user", "account", "kind") if given.get(name) is not None]
    if given.get("job") is None:
        if others:
            raise ConfigError("--%s describes a declared job: give --job too" % others[0])
        return None
    kind = given.get("kind") or "batch"
    if kind not in JOB_KINDS:
        raise ConfigError("--kind is %r, expected %s" % (kind, ", ".join(JOB_KINDS)))
    limits: Dict[str, Tuple[str, int]] = {
        "job": (given["job"], 400),
        "user": (given.get("user") or "", 128),
        "account": (given.get("account") or "", 128),
    }
    for name, (text, limit) in limits.items():
        if len(text) > limit or not text.isprintable() or (name == "job" and not text.strip()):
            raise ConfigError(
                "--%s is %.50r, expected at most %d printable characters" % (name, text, limit)
            )
    return JobOptions(given["job"], limits["user"][0], limits["account"][0], kind)

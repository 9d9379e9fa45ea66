"""Flags and environment -> one frozen Config. A wrong or unknown value is one clear line, never a
guess.

Every flag is also FLEETWATCH_<NAME>; a flag wins. The token may come from a file
(FLEETWATCH_TOKEN_FILE), so that it stands in no process list. What looks at this host (check, once)
takes the installed agent's settings where no hub is named.
"""

import os
import re
import socket
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any, Callable, Dict, Mapping, Optional, Sequence, Tuple
from urllib.parse import urlsplit

from agent.errors import ConfigError
from agent.readings import Job
from agent.wire import JOB_KINDS, MAX_LABELS, MAX_TEXT

SOURCES = ("auto", "nvml", "nvidia-smi")
EXPORTER = "dcgm="
JOB_SOURCES = ("slurm", "kubernetes", "docker", "process")
ACTIONS = ("stop_job", "drain_node")
PREFIX = "FLEETWATCH_"
TOKEN_FILE = PREFIX + "TOKEN_FILE"
INSTALLED = Path("/etc/fleetwatch-agent/environment")  # the service's, root's
_CLUSTER = re.compile(r"[^\x00-\x20\x7f/]{1,128}")
_NODE = re.compile(r"[^\x00-\x20\x7f/?#]{1,253}")
MAX_TOKEN_FILE = 4096
_TOKEN = re.compile(r"[\x21-\x7e]{1,512}")
_LINE = re.compile(r"\s*(%s[^=]*?)\s*=\s*([\"']?)(.*?)\2\s*" % PREFIX)


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
    allow_actions: Tuple[str, ...] = ()  # of ACTIONS: what the hub may have done here
    spool: Path = Path()
    spool_bytes: int = 0
    labels: Mapping[str, str] = field(default_factory=dict)
    record: Optional[Path] = None
    jobs: Tuple[str, ...] = ("auto",)  # or of JOB_SOURCES: whose books are read
    cluster: str = ""  # as job keys name it, where the scheduler itself has no name for it
    proc_root: str = "/proc"  # where the host's is mounted
    docker_all_counts: bool = False  # a container that was given all GPUs holds them all
    job: Optional[Job] = None  # declared: its key, user, account and kind
    files: Tuple[Path, ...] = ()
    gpus: int = 1
    model: Optional[str] = None
    zone: str = "UTC"
    start: Optional[str] = None
    speed: Optional[float] = None  # times real time; None: as fast as the hub takes it
    is_json: bool = False


def parse(
    arguments: Sequence[str], environment: Mapping[str, str], *, installed: Path = INSTALLED
) -> Config:
    """The configuration. Raises ConfigError; --help and --version print and raise SystemExit(0)."""
    # loaded here, and forgotten by a daemon (memory.prepare): argparse is large
    given: Dict[str, Any] = import_module("agent.flags").given_by(arguments)
    command = given["command"]
    if command is None:
        raise ConfigError("say what to do: run, once, check, replay or history (--help tells more)")
    # where a hub is named, the installed agent's token is for another one
    is_hub_named = given.get("server") is not None or environment.get(PREFIX + "SERVER")
    if command in ("check", "once") and not is_hub_named:
        environment = {**_settings_in(installed), **environment}
    _refuse_unknown(environment)
    texts = {name.lower(): environment.get(PREFIX + name) or None for name in _VARIABLES}
    texts.update({name: flag for name, flag in given.items() if flag is not None})
    return _config(command, texts, job=_job(given), default_folder=default_spool(environment))


def _config(
    command: str, texts: Mapping[str, Any], *, job: Optional[Job], default_folder: str
) -> Config:
    """The configuration of the settings' texts, by their names in small letters."""
    read = {
        name: check("--" + name.replace("_", "-"), texts.get(name) or default)
        for name, (default, check) in _READ_BY.items()
    }
    spool_mb = read.pop("spool_mb")
    return Config(
        command=command,
        spool=Path(texts["spool"] or default_folder),
        spool_bytes=spool_mb * 1024 * 1024,
        ca_file=_ca_file(texts["ca_file"]),
        record=Path(texts["record"]) if texts.get("record") else None,
        job=job,
        files=tuple(Path(name) for name in texts.get("files", ())),
        model=texts.get("model"),
        zone=texts.get("tz") or "UTC",
        start=texts.get("start"),
        is_json="json" in texts,
        **_hub(command, texts),
        **read,
    )


def _hub(command: str, texts: Mapping[str, Optional[str]]) -> Dict[str, Any]:
    """Which hub is spoken to, and with which token; a check asks the one that is named, if any."""
    server = texts["server"]
    token = texts["token"]
    file = texts["token_file"]
    if command == "once" or (command == "check" and server is None):
        return {}
    address = _server(server)
    path = Path(file) if file and not token else None
    if path is not None:
        token = token_in(path)
    elif token:
        token = _checked_token(token)
    elif command != "check":
        raise ConfigError("--token (or FLEETWATCH_TOKEN, FLEETWATCH_TOKEN_FILE) is missing")
    return {"server": address, "token": token or "", "token_file": path}


def _settings_in(path: Path) -> Dict[str, str]:
    """The FLEETWATCH_ lines of a file as systemd reads it, and the token file beside it, as the
    unit has it.

    None of them where there is no such file, or it is root's alone.
    """
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        return {}
    matches = map(_LINE.fullmatch, lines)
    settings = {match.group(1): match.group(3) for match in matches if match is not None}
    token = path.with_name("token")
    return {TOKEN_FILE: str(token), **settings} if token.exists() else settings


def default_spool(environment: Mapping[str, str]) -> str:
    """/var/lib/fleetwatch-agent for root and for a service, else the user's own state folder."""
    if environment.get("STATE_DIRECTORY"):  # systemd's, for StateDirectory=
        return environment["STATE_DIRECTORY"].split(":")[0]
    if os.geteuid() == 0:
        return "/var/lib/fleetwatch-agent"
    home = environment.get("HOME", "/tmp")  # noqa: S108
    state = environment.get("XDG_STATE_HOME") or os.path.join(home, ".local", "state")
    return os.path.join(state, "fleetwatch-agent")


_VARIABLES = (
    "SERVER", "TOKEN", "TOKEN_FILE", "NODE", "SOURCE", "GPM", "FLUSH_S", "SPOOL", "SPOOL_MB",
    "CA_FILE", "LABELS", "RELEASE_MIN", "ALLOW_ACTIONS", "JOBS", "CLUSTER", "PROC_ROOT",
    "DOCKER_ALL_COUNTS",
)  # fmt: skip


def _refuse_unknown(environment: Mapping[str, str]) -> None:
    """A misspelt FLEETWATCH_AGENT-ish name would be silence; names of the hub's own are not ours to
    judge.
    """
    variables = [PREFIX + name for name in _VARIABLES]
    for name in environment:
        if re.match(PREFIX + "(SERVER|TOKEN|FLUSH|SPOOL)_", name) and name not in variables:
            raise ConfigError(
                "%s is not a setting of the agent; known: %s" % (name, ", ".join(variables))
            )


def _wrong(flag: str, text: str, expected: str) -> ConfigError:
    return ConfigError("%s is %r, expected %s" % (flag, text, expected))


def _node(flag: str, text: str) -> str:
    name = text or socket.gethostname()
    if _NODE.fullmatch(name) is None:
        raise _wrong(flag, name, "1 to 253 characters without spaces, '/', '?' or '#'")
    return name


def _source(flag: str, text: str) -> str:
    kind, sign, rest = text.partition(":")
    is_parted = kind in ("simulated", "replay") and sign and rest
    is_exporter = text.startswith(EXPORTER) and _is_address(text[len(EXPORTER) :])
    if text in SOURCES or is_parted or is_exporter:
        return text
    raise _wrong(
        flag,
        text,
        "auto, nvml, nvidia-smi, dcgm=http://HOST:9400/metrics, simulated:SPEC or replay:FILE",
    )


def _job_sources(flag: str, text: str) -> Tuple[str, ...]:
    names = tuple(name.strip() for name in text.split(","))
    if names != ("auto",) and not set(names) <= set(JOB_SOURCES):
        raise _wrong(flag, text, "auto, or some of " + ",".join(JOB_SOURCES))
    return names


def _actions(flag: str, text: str) -> Tuple[str, ...]:
    names = tuple(name.strip() for name in text.split(","))
    if names == ("none",):
        return ()
    if not set(names) <= set(ACTIONS):
        raise _wrong(flag, text, "none, or some of " + ",".join(ACTIONS))
    return names


def _cluster(flag: str, text: str) -> str:
    if text and (_CLUSTER.fullmatch(text) is None or not text.isprintable()):
        raise _wrong(flag, text, "1 to 128 characters without spaces and '/'")
    return text


def _proc_root(flag: str, text: str) -> str:
    if text and not os.path.exists(os.path.join(text, "stat")):
        raise ConfigError("%s is %r, and no /proc is mounted there" % (flag, text))
    return text or "/proc"


def _either(yes: str, no: str) -> Callable[[str, str], bool]:
    """The reader of a word that is yes or no."""

    def read(flag: str, text: str) -> bool:
        if text not in (yes, no):
            raise _wrong(flag, text, "%s or %s" % (yes, no))
        return text == yes

    return read


def _whole(low: int, high: int) -> Callable[[str, str], int]:
    """The reader of a whole number within these limits."""

    def read(flag: str, text: str) -> int:
        if not re.fullmatch(r"\d{1,9}", text) or not low <= int(text) <= high:
            raise _wrong(flag, text, "a whole number from %d to %d" % (low, high))
        return int(text)

    return read


def _speed(flag: str, text: str) -> Optional[float]:
    if text == "max":
        return None
    if not re.fullmatch(r"\d{1,6}(\.\d{1,6})?", text) or float(text) == 0:
        raise _wrong(flag, text, "max or how many times real time")
    return float(text)


def _labels(flag: str, text: str) -> Dict[str, str]:
    pairs = [pair.partition("=") for pair in text.split(",") if pair]
    if len(pairs) > MAX_LABELS or any(
        not key or not sign or len(key + value) > MAX_TEXT for key, sign, value in pairs
    ):
        raise _wrong(flag, text, "name=value,name=value (at most %d)" % MAX_LABELS)
    return {key.strip(): value.strip() for key, _, value in pairs}


# Setting of Config -> its text where nobody gives one, and what reads it.
_READ_BY: Mapping[str, Tuple[str, Callable[[str, str], Any]]] = {
    "node": ("", _node),
    "source": ("auto", _source),
    "gpm": ("on", _either("on", "off")),
    "flush_s": ("30", _whole(1, 300)),
    "release_min": ("5", _whole(1, 120)),
    "spool_mb": ("512", _whole(1, 1_000_000)),
    "labels": ("", _labels),
    "jobs": ("auto", _job_sources),
    "allow_actions": ("none", _actions),
    "cluster": ("", _cluster),
    "proc_root": ("", _proc_root),
    "docker_all_counts": ("no", _either("yes", "no")),
    "gpus": ("1", _whole(1, 1024)),
    "speed": ("max", _speed),
}


def _server(text: Optional[str]) -> str:
    if not text:
        raise ConfigError(
            "--server (or FLEETWATCH_SERVER) is missing: the hub's address, such as"
            " https://fleetwatch.example.org"
        )
    if not _is_address(text) or "?" in text:
        raise _wrong("--server", text, "http:// or https:// and a host")
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


def _ca_file(text: Optional[str]) -> Optional[str]:
    if text is not None and not os.access(text, os.R_OK):
        raise ConfigError("--ca-file %s can't be read" % text)
    return text


def _job(given: Mapping[str, Any]) -> Optional[Job]:
    facts = {
        name: given[name]
        for name in ("job", "user", "account", "kind")
        if given.get(name) is not None
    }
    if "job" not in facts:
        for name in facts:
            raise ConfigError("--%s describes a declared job: give --job too" % name)
        return None
    for name, limit in (("job", 400), ("user", 128), ("account", 128)):
        text = facts.get(name, "")
        if len(text) > limit or not text.isprintable() or (name == "job" and not text.strip()):
            raise ConfigError(
                "--%s is %.50r, expected at most %d printable characters" % (name, text, limit)
            )
    job = Job(facts.pop("job"), **facts)
    if job.kind not in JOB_KINDS:
        raise _wrong("--kind", job.kind, ", ".join(JOB_KINDS))
    return job

"""Configuration from the environment; a wrong value stops the start with the variable's name."""

import json
import os
import pwd
import re
from dataclasses import dataclass
from ipaddress import IPv4Network, IPv6Network, ip_network
from pathlib import Path
from typing import Any
from urllib.parse import SplitResult, parse_qs, unquote, urlsplit

# How the examples of .env.example began, and those of guides do: whoever can read them can forge
# what they protect.
PUBLISHED = re.compile(r"change[-_ ]?(this|me)", re.IGNORECASE)
_AFTER_HOSTS = re.compile("[/?#]")
MIN_SECRET_KEY = 32  # characters
HOW_TO_MAKE_ONE = "make one: openssl rand -hex 32"


class ConfigurationError(Exception):
    """A setting that can't be used; the text names the variable and what was expected."""


def text(name: str, default: str = "") -> str:
    """The variable, or the content of the file that NAME_FILE names, or the default; an empty
    variable says nothing.

    Raises ConfigurationError when NAME_FILE can't be read.
    """
    if value := os.environ.get(name):
        return value
    path = os.environ.get(f"{name}_FILE")
    if path is None:
        return default
    try:
        return Path(path).read_text(encoding="utf-8").strip()
    except OSError as error:
        raise ConfigurationError(f"{name}_FILE: can't read {path}: {error.strerror}") from error


def boolean(name: str, default: bool) -> bool:
    """True for 1/true/yes/on, False for 0/false/no/off; raises ConfigurationError for anything
    else.
    """
    value = text(name).strip().lower()
    if not value:
        return default
    if value in ("1", "true", "yes", "on"):
        return True
    if value in ("0", "false", "no", "off"):
        return False
    raise ConfigurationError(f"{name}: expected true or false, not {value!r}")


def integer(name: str, default: int, *, low: int, high: int) -> int:
    """A whole number in [low, high]; raises ConfigurationError for anything else."""
    value = text(name).strip()
    if not value:
        return default
    try:
        number = int(value)
    except ValueError:
        raise ConfigurationError(f"{name}: expected a whole number, not {value!r}") from None
    if not low <= number <= high:
        raise ConfigurationError(f"{name}: expected {low} to {high}, not {number}")
    return number


def words(name: str, default: list[str]) -> list[str]:
    """A comma-separated list."""
    value = text(name)
    return [word.strip() for word in value.split(",") if word.strip()] if value else default


def pairs(name: str) -> dict[str, str]:
    """A comma-separated list of left=right; raises ConfigurationError for anything else."""
    couples = [word.rpartition("=") for word in words(name, [])]
    for left, _, right in couples:
        if not left or not right:
            raise ConfigurationError(f"{name}: expected name=value, not {left or right!r}")
    return {left.strip(): right.strip() for left, _, right in couples}


def address(name: str, default: str) -> str:
    """An address like https://fleetwatch.example.com, without a slash at its end; raises
    ConfigurationError for anything else.
    """
    value = text(name).strip().rstrip("/") or default
    parts = urlsplit(value)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
        raise ConfigurationError(
            f"{name}: expected an address like https://fleetwatch.example.com, not {value[:100]!r}"
        )
    return value


def host_of(url: str) -> str:
    """The host that an address names, as the Host header does, without its port."""
    host = urlsplit(url).hostname or ""
    return f"[{host}]" if ":" in host else host


def networks(name: str) -> list[IPv4Network | IPv6Network]:
    """A comma-separated list of addresses and networks (10.0.0.7, 10.0.0.0/8, fd00::/8); raises
    ConfigurationError.
    """
    try:
        return [ip_network(word) for word in words(name, [])]
    except ValueError as error:
        raise ConfigurationError(
            f"{name}: expected addresses or networks such as 10.0.0.0/8 ({error})"
        ) from error


def refuse_published(name: str, secret: str) -> None:
    """Raises ConfigurationError for an example's value; the text does not repeat it."""
    if PUBLISHED.match(secret):
        raise ConfigurationError(
            f"{name}: this is a published example, which everybody can read; {HOW_TO_MAKE_ONE}"
        )


def password_of(variable: str) -> str:
    """The password in the address that the variable holds; "" without one.

    Raises ConfigurationError for what is no address.
    """
    try:
        return unquote(split_hosts(text(variable))[0].password or "")
    except ValueError as error:
        raise ConfigurationError(f"{variable}: {error}") from error


def check_secret_key(key: str) -> None:
    """Before a hub serves: raises ConfigurationError for a key that everybody can read or guess."""
    refuse_published("SECRET_KEY", key)
    if len(key) < MIN_SECRET_KEY:
        raise ConfigurationError(
            f"SECRET_KEY: expected at least {MIN_SECRET_KEY} characters, not {len(key)};"
            f" {HOW_TO_MAKE_ONE}"
        )


def data_dir() -> Path:
    """Where the embedded stack keeps its files: FLEETWATCH_DATA, else the platform's usual
    place.
    """
    given = os.environ.get("FLEETWATCH_DATA")
    if given:
        return Path(given).expanduser().absolute()
    if os.geteuid() == 0:
        return Path("/var/lib/fleetwatch/default")
    return Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local/share") / "fleetwatch"


def folder_trouble(folder: Path, error: OSError) -> str:
    """Why a data folder can't be used, as an operator can mend it: names the part of its path that
    is in the way.
    """
    obstacle = next((part for part in (folder, *folder.parents) if os.path.exists(part)), folder)
    if not os.path.isdir(obstacle):
        return f"{obstacle} is no folder"
    if isinstance(error, PermissionError):
        return f"the user {_user()} may not use {obstacle}: run as the user to whom it belongs"
    return f"{obstacle} can't be written: {error.strerror}"


def _user() -> str:
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:  # a container's user needs no name
        return str(os.geteuid())


RUNTIME_FILE = "runtime.json"


@dataclass(frozen=True, slots=True)
class Runtime:
    """What a running (or last run) embedded stack wrote down for other commands; mode 0600."""

    database_url: str
    redis_url: str
    secret_key: str
    public_url: str = ""  # "" in what older versions wrote


def read_runtime(folder: Path) -> Runtime | None:
    """The embedded stack's addresses and secret; None when none was ever started in `folder`.

    Raises ConfigurationError when the file is there and can't be read.
    """
    path = folder / RUNTIME_FILE
    try:
        facts = json.loads(path.read_text(encoding="utf-8"))
        return Runtime(
            **{key: facts[key] for key in ("database_url", "redis_url", "secret_key")},
            public_url=facts.get("public_url", ""),
        )
    except FileNotFoundError:
        return None
    except (NotADirectoryError, PermissionError) as error:
        raise ConfigurationError(f"FLEETWATCH_DATA: {folder_trouble(folder, error)}") from error
    except (OSError, ValueError, KeyError) as error:
        raise ConfigurationError(
            f"{path}: can't be read ({error}); stop FleetWatch and start it again"
        ) from error


def database(url: str, variable: str = "DATABASE_URL") -> dict[str, Any]:
    """Django's settings for postgresql://user:password@host:port/name, or with
    ?host=/socket/folder. Several hosts (host:port,host:port) are tried in turn; with
    ?target_session_attrs=read-write the one that is written to is taken.

    Raises ConfigurationError for any other form.
    """
    parts, _ = split_hosts(url)
    if parts.scheme not in ("postgres", "postgresql"):
        raise ConfigurationError(f"{variable}: expected postgresql://user:password@host:port/name")
    options = {key: values[-1] for key, values in parse_qs(parts.query).items()}
    hosts = hosts_of(url, variable)
    return {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": unquote(parts.path.lstrip("/")),
        "USER": unquote(parts.username or ""),
        "PASSWORD": unquote(parts.password or ""),
        "HOST": options.pop("host", ",".join(host for host, _ in hosts)),
        "PORT": options.pop("port", ",".join(str(port or "") for _, port in hosts)),
        "OPTIONS": {**options},
    }


def split_hosts(url: str) -> tuple[SplitResult, list[str]]:
    """The address without its hosts, and these, each as it stands there: urlsplit() takes several
    (host:port,host:port) for one, and refuses them where one is an IPv6 address.
    """
    scheme, _, rest = url.partition("://")
    netloc = _AFTER_HOSTS.split(rest, maxsplit=1)[0]
    login, at, hosts = netloc.rpartition("@")
    return urlsplit(f"{scheme}://{login}{at}{rest.removeprefix(netloc)}"), hosts.split(",")


def hosts_of(url: str, variable: str) -> list[tuple[str, int | None]]:
    """Host and port of each server that the address names (host:port,host:port); None: its port is
    the usual one.

    Raises ConfigurationError for a port that is none.
    """
    _, hosts = split_hosts(url)
    try:
        named = [urlsplit(f"//{host}") for host in hosts]
        return [(each.hostname or "", each.port) for each in named]
    except ValueError as error:
        raise ConfigurationError(f"{variable}: {error}") from error

"""What every transport offers, and how it says that a message did not arrive."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from functools import partial
from itertools import accumulate
from typing import Any, Protocol
from urllib.parse import urlsplit

from fleetwatch.lib import outbound
from fleetwatch.notify.message import Message

Config = dict[str, str]
Check = Callable[[Config], dict[str, str]]  # what is wrong, by the field
Block = dict[str, Any]  # of a chat's message, as its JSON


class TransportError(Exception):
    """The message did not arrive.

    `permanent`: no message will, until a person mends the channel.
    """

    def __init__(
        self, text: str, *, permanent: bool = False, retry_after_s: float | None = None
    ) -> None:
        super().__init__(text)
        self.permanent = permanent
        self.retry_after_s = retry_after_s


class MessageRefusedError(TransportError):
    """This message will never be taken; the channel itself works."""


class AddressRefusedError(TransportError):
    """Nothing will ever be taken for this address; the channel itself works."""


class ConfigError(ValueError):
    """Settings that can't be used; `errors` says per field what to change."""

    def __init__(self, errors: Mapping[str, str]) -> None:
        super().__init__("; ".join(f"{name}: {text}" for name, text in errors.items()))
        self.errors = dict(errors)


@dataclass(frozen=True, slots=True)
class ConfigField:
    """One input of a channel's form.

    A secret is never shown again; left blank in an edit it stays.
    """

    name: str
    label: str
    help: str = ""
    is_required: bool = True
    is_secret: bool = False
    choices: tuple[tuple[str, str], ...] = ()
    default: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Envelope:
    """One message on its way.

    identity: the same for every try of one delivery. thread: what it is about for ever, the same
    for every message about that. address: a person's, "" = the channel's own. remote_id: what
    stands of its thread on the other side, as an earlier Receipt said it; "" = nothing.
    """

    message: Message
    identity: str
    thread: str
    address: str = ""
    remote_id: str = ""


@dataclass(frozen=True, slots=True)
class Receipt:
    """What the other side answered, and what the message is called there: "" = it can't be edited,
    or what stands of its thread is what stood before. repeat_after_s: what stands has to be said
    again by then, or the other side forgets it; None = it does not.
    """

    answer: str
    remote_id: str = ""
    repeat_after_s: float | None = None


class Transport(Protocol):
    """A way to reach people: one file, one object in TRANSPORTS.

    needs: what has to be at hand before one is added, a sentence.
    can_edit: a later message of a thread replaces the earlier one, so that only the last counts.
    person_by: the accounts.Identity.System whose names are addresses of people here; "" = it
    reaches nobody but its own channel.
    """

    kind: str
    label: str
    needs: str
    fields: tuple[ConfigField, ...]
    can_edit: bool
    person_by: str

    def validate(self, config: Mapping[str, str]) -> Config:
        """The settings, trimmed and complete. Raises ConfigError."""
        ...

    def describe(self, config: Mapping[str, str]) -> str:
        """Where messages go, in a few words and without any secret."""
        ...

    def send(
        self, config: Mapping[str, str], envelope: Envelope, *, allow_private: bool
    ) -> Receipt:
        """What the other side answered. Raises TransportError."""
        ...


@contextmanager
def reaching() -> Iterator[None]:
    """What keeps us from the other side, as a TransportError: an address that may not be reached is
    for good.
    """
    try:
        yield
    except outbound.OutboundError as error:
        is_forbidden = isinstance(error, outbound.ForbiddenAddressError)
        raise TransportError(str(error), permanent=is_forbidden) from error


def required(
    fields: tuple[ConfigField, ...], config: Mapping[str, str]
) -> tuple[Config, dict[str, str]]:
    """The fields' values (trimmed, defaults filled in) and an error for each required one that is
    missing or no choice.
    """
    values = {field.name: str(config.get(field.name) or field.default).strip() for field in fields}
    errors = {
        field.name: f"{field.label} is needed"
        for field in fields
        if field.is_required and not values[field.name]
    }
    for field in fields:
        allowed = [value for value, _ in field.choices]
        if allowed and values[field.name] and values[field.name] not in allowed:
            errors[field.name] = f"{field.label} must be one of {', '.join(allowed)}"
    return values, errors


def checked(fields: tuple[ConfigField, ...], config: Mapping[str, str], *checks: Check) -> Config:
    """The fields' values as required() gives them.

    Raises ConfigError with what it, and each check, says of them.
    """
    values, errors = required(fields, config)
    for check in checks:
        errors |= check(values)
    if errors:
        raise ConfigError(errors)
    return values


def url_check(name: str, label: str) -> Check:
    """Whether an address stands in this field, or nothing; `label` begins the sentence."""
    return partial(url_error, name=name, label=label)


def host_of(url: str) -> str:
    """What of an address is no secret."""
    return urlsplit(url).hostname or ""


def fitting(blocks: Sequence[Block], room: int, length: Callable[[Block], int]) -> list[Block]:
    """The first of the blocks, as many as are no longer than `room` together."""
    ends = accumulate(map(length, blocks))
    return [block for block, end in zip(blocks, ends, strict=True) if end <= room]


def url_error(values: Mapping[str, str], name: str, label: str) -> dict[str, str]:
    """What is wrong with the address in this field, nothing where it is empty; `label` begins the
    sentence.
    """
    if not values[name]:
        return {}
    try:
        outbound.check_url(values[name])
    except ValueError as error:
        return {name: f"{label} {error}"}
    return {}


def retry_after_s(headers: Mapping[str, str]) -> float | None:
    """Seconds to wait as the answer says, of a date those from the answer's own; None when it says
    neither.
    """
    value = headers.get("retry-after", "").strip()
    if value.isascii() and value.isdigit() and len(value) < 8:
        return float(value)
    try:
        wait = parsedate_to_datetime(value) - parsedate_to_datetime(headers.get("date", ""))
    except (ValueError, TypeError):  # no date; one without a zone beside one with it
        return None
    return wait.total_seconds()

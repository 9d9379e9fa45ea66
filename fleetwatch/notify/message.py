"""What is said to people, whatever way it takes: pure, and safe against hostile names."""

import math
import unicodedata
from dataclasses import dataclass

SEVERITIES = ("info", "warning", "critical", "resolved")
PAGES = ("spending", "budget")  # pages that are the same for everybody
ACTIONS = ("ack", "snooze", "unsnooze", "not_waste", "fixed", "keep", *PAGES, "open")
OPENING = ("keep", *PAGES, "open")  # these open a page, wherever they are
STYLES = ("", "primary", "danger")
STATUSES = ("", "firing", "acknowledged", "resolved")
# Control, format (bidirectional overrides, zero width), surrogate, private, unassigned, line and
# paragraph separators.
UNSHOWN = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
SIGNS = {"info": "🔵", "warning": "🟠", "critical": "🔴", "resolved": "🟢"}
BARS = "▁▂▃▄▅▆▇█"


@dataclass(frozen=True, slots=True)
class Button:
    """What a person can do about a message; `url` is the page where it can be done too.

    Where a chat answers to clicks the action is done there, and the url is what is left of it
    elsewhere. A button without a url is shown only where clicks are answered.
    """

    label: str
    action: str
    url: str = ""
    style: str = ""

    def __post_init__(self) -> None:
        _of("action", self.action, ACTIONS)
        _of("style", self.style, STYLES)


@dataclass(frozen=True, slots=True)
class Item:
    """Something that a mail names, with its page (`url`): what it is worth, whose it is, why it is
    named (`cause`, with its page), what to do and what to type; "" = nothing.
    """

    title: str
    url: str = ""
    value: str = ""
    about: str = ""
    cause: str = ""
    cause_url: str = ""
    text: str = ""
    code: str = ""


@dataclass(frozen=True, slots=True)
class Listing:
    """Items of a kind under a heading."""

    title: str
    items: tuple[Item, ...]


@dataclass(frozen=True, slots=True)
class Paragraph:
    """A sentence or some of a mail, and what to type below them ("" = nothing)."""

    text: str
    code: str = ""


@dataclass(frozen=True, slots=True)
class Message:
    """One message; every transport renders the same object.

    title: one line. summary: the sentence a notification shows. fields: (label, value) pairs.
    rows: a small table, its first row the head; empty = no table. url: where it opens.
    severity: info, warning, critical or resolved. text: a closing paragraph. buttons: what can be
    done about it. spark: a small series of shares of its full scale, 0 to 1, None where nothing
    was measured; spark_label: what it shows, with its unit. is_reply: it adds to what its thread
    has (a reminder), where any other message says how things stand now, instead of the last one.
    status: of the incident that it is about; "" = it is about none (a report, a test). labels: what
    programs route an incident by, by name. since_ms: when it began; None = of no incident.
    unsubscribe_url: where the person who gets it can stop such; "" = it is for no person.
    settings_url: where it is said who gets such, "" = that is said nowhere. lists: what a mail has
    in place of rows, and of the field of the same name; `notes` stand below them in place of text.
    paragraphs: the text as a mail has it, what is to be typed apart from the sentences. field_urls:
    by label of a field the page that it names, which a mail links.
    """

    title: str
    summary: str
    fields: tuple[tuple[str, str], ...] = ()
    rows: tuple[tuple[str, ...], ...] = ()
    url: str = ""
    severity: str = "info"
    text: str = ""
    buttons: tuple[Button, ...] = ()
    spark: tuple[float | None, ...] = ()
    spark_label: str = ""
    is_reply: bool = False
    status: str = ""
    labels: tuple[tuple[str, str], ...] = ()
    since_ms: int | None = None
    unsubscribe_url: str = ""
    settings_url: str = ""
    lists: tuple[Listing, ...] = ()
    notes: str = ""
    paragraphs: tuple[Paragraph, ...] = ()
    field_urls: tuple[tuple[str, str], ...] = ()

    def __post_init__(self) -> None:
        _of("severity", self.severity, SEVERITIES)
        _of("status", self.status, STATUSES)
        if not all(share is None or math.isfinite(share) for share in self.spark):
            raise ValueError("a spark's values are numbers, or None where nothing was measured")

    @property
    def links(self) -> list[Button]:
        """What leads to a page, of each action the first, at last the message's own page."""
        every = [*self.buttons, Button("Open in FleetWatch", "open", self.url)]
        return list({link.action: link for link in reversed(every) if link.url}.values())[::-1]

    @property
    def unlisted_fields(self) -> list[tuple[str, str]]:
        """The fields that no list tells in full."""
        titles = {each.title for each in self.lists}
        return [field for field in self.fields if field[0] not in titles]

    @property
    def linked_fields(self) -> list[tuple[str, str, str]]:
        """The same, each with the address of what it names ("": none)."""
        urls = dict(self.field_urls)
        return [(label, value, urls.get(label, "")) for label, value in self.unlisted_fields]

    @property
    def has_spark(self) -> bool:
        """Whether anything of its series was measured."""
        return any(share is not None for share in self.spark)


def one_line(text: str, limit: int = 200) -> str:
    """The text on one line, without control or direction characters, at most `limit` characters."""
    # nearly all texts are printable, which is known of a whole text at once
    shown = text if text.isprintable() else _shown(text)
    line = " ".join(shown.split())
    return line if len(line) <= limit else line[: limit - 1].rstrip() + "…"


def sparkline(shares: tuple[float | None, ...]) -> str:
    """One character for each share of the full scale (0 to 1; what lies beyond is cut to it), a
    blank where nothing was measured.
    """
    top = len(BARS) - 1
    return "".join(
        " " if share is None else BARS[round(min(max(share, 0.0), 1.0) * top)] for share in shares
    )


def _of(what: str, value: str, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise ValueError(f"{what} {value!r} is none of {', '.join(filter(None, allowed))}")


def _shown(text: str) -> str:
    return "".join(
        " " if character.isspace() else character
        for character in text
        if character.isspace() or unicodedata.category(character) not in UNSHOWN
    )

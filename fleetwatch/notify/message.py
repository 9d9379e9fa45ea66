"""What is said to people, whatever way it takes: pure, and safe against hostile names."""

import unicodedata
from dataclasses import dataclass

SEVERITIES = ("info", "warning", "resolved")
# Control, format (bidirectional overrides, zero width), surrogate, private, unassigned, line and
# paragraph separators.
UNSHOWN = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})


@dataclass(frozen=True, slots=True)
class Message:
    """One message; every transport renders the same object.

    title: one line. summary: the sentence a notification shows. fields: (label, value) pairs.
    rows: a small table, its first row the head; empty = no table. url: where it opens.
    severity: info, warning or resolved. text: a closing paragraph.
    """

    title: str
    summary: str
    fields: tuple[tuple[str, str], ...] = ()
    rows: tuple[tuple[str, ...], ...] = ()
    url: str = ""
    severity: str = "info"
    text: str = ""

    def __post_init__(self) -> None:
        if self.severity not in SEVERITIES:
            raise ValueError(f"severity {self.severity!r} is none of {', '.join(SEVERITIES)}")


def one_line(text: str, limit: int = 200) -> str:
    """The text on one line, without control or direction characters, at most `limit` characters."""
    shown = "".join(
        " " if character.isspace() else character
        for character in text
        if character.isspace() or _is_shown(character)
    )
    line = " ".join(shown.split())
    return line if len(line) <= limit else line[: limit - 1].rstrip() + "…"


def _is_shown(character: str) -> bool:
    return unicodedata.category(character) not in UNSHOWN

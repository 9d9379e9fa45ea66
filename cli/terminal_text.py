"""Text as a terminal shows it: names from jobs and hosts are anybody's, widths are cells."""

import os
import shutil
import sys
import unicodedata
from typing import Mapping, Optional, TextIO

WIDEST = 10_000  # of what is no terminal: nothing is cut there
NARROWEST = 40
COLOURS = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33"}
ELLIPSIS = "…"


def clean(text: str) -> str:
    """The text without what a terminal would obey: control characters, and marks that turn the
    direction of what follows.
    """
    return "".join(" " if is_control(each) else each for each in text)


def is_control(character: str) -> bool:
    return unicodedata.category(character).startswith("C") or character in "\u2028\u2029"


def cells(text: str) -> int:
    """How many cells of a terminal the text takes."""
    return sum(_cells_of(each) for each in text)


def _cells_of(character: str) -> int:
    if unicodedata.combining(character):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def cut(text: str, width: int) -> str:
    """The text in at most so many cells; what was cut ends in an ellipsis."""
    if cells(text) <= width:
        return text
    kept = ""
    for character in text:
        if cells(kept) + _cells_of(character) > width - 1:
            break
        kept += character
    return kept + ELLIPSIS


def terminal_width(stream: Optional[TextIO] = None) -> int:
    """Cells of the terminal's line; of a pipe or a file as many as there are."""
    if not (stream or sys.stdout).isatty():
        return WIDEST
    return max(NARROWEST, shutil.get_terminal_size().columns)


def paint(text: str, colour: str, environment: Optional[Mapping[str, str]] = None) -> str:
    """The text in a colour where the terminal takes one: https://no-color.org."""
    settings = os.environ if environment is None else environment
    if settings.get("NO_COLOR") or settings.get("TERM") == "dumb" or not sys.stdout.isatty():
        return text
    return "\x1b[%sm%s\x1b[0m" % (COLOURS[colour], text)

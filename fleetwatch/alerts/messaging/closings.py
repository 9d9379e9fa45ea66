"""How messages end: what to do, numbered where that is several steps. What is to be typed ends its
line in a chat, and has a line of its own in a mail. Pure.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from fleetwatch.alerts.breach import Breach
from fleetwatch.alerts.measuring.cause_words import FIX, apart
from fleetwatch.notify.message import Message, Paragraph

IN_ORDER = "Fix, in this order:"


@dataclass(frozen=True, slots=True)
class Closing:
    """A line as chats have it, and the same as a paragraph of a mail."""

    line: str
    paragraph: Paragraph


def closing(line: str) -> Closing:
    """Of a line with nothing to type."""
    return Closing(line, Paragraph(line))


def what_to_do(breach: Breach) -> list[Closing]:
    """The breach's actions, its fixes in order."""
    actions = [action for action in breach.actions if action]
    fixes = [action for action in actions if action.startswith(FIX)]
    if len(fixes) < 2:
        return [each for action in actions for each in _in_lines(action, breach)]
    others = [action for action in actions if not action.startswith(FIX)]
    return [
        closing(IN_ORDER),
        *(_numbered(of_action(fix, breach), place, breach) for place, fix in enumerate(fixes, 1)),
        *(each for action in others for each in _in_lines(action, breach)),
    ]


def _in_lines(action: str, breach: Breach) -> list[Closing]:
    """An action, cut behind each command that it says to type in between."""
    pieces = []
    rest = action
    while cuts := [rest.find(f"{code} ") + len(code) for code in _codes_within(rest, breach)]:
        pieces.append(rest[: min(cuts)])
        rest = rest[min(cuts) :].strip()
    return [of_action(each, breach) for each in (*pieces, rest)]


def _codes_within(text: str, breach: Breach) -> list[str]:
    """The commands that words follow; an empty one would be cut off for ever."""
    return [code for code in breach.codes if code and f"{code} " in text]


def of_action(action: str, breach: Breach, *, before: str = "") -> Closing:
    """One action, after these words."""
    step = apart(action, breach)
    return Closing(f"{before}{action}", Paragraph(f"{before}{step.text}".strip(), step.code))


def ending(message: Message, closings: Sequence[Closing]) -> Message:
    """The message with these at its end."""
    return replace(
        message,
        text="\n".join(each.line for each in closings),
        paragraphs=tuple(each.paragraph for each in closings),
    )


def _numbered(fix: Closing, place: int, breach: Breach) -> Closing:
    of_mail = fix.paragraph
    line = _number(fix.line, place, breach)
    return Closing(line, Paragraph(_number(of_mail.text, place, breach), of_mail.code))


def _number(fix: str, place: int, breach: Breach) -> str:
    """With a capital, but for what is to be typed as it is."""
    text = fix.removeprefix(FIX)
    is_typed = bool(breach.command) and text.startswith(breach.command)
    return f"{place}. {text if is_typed else text[:1].upper() + text[1:]}"

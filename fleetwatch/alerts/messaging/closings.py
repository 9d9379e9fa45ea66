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
        return [of_action(action, breach) for action in actions]
    others = [action for action in actions if not action.startswith(FIX)]
    return [
        closing(IN_ORDER),
        *(_numbered(of_action(fix, breach), place) for place, fix in enumerate(fixes, 1)),
        *(of_action(action, breach) for action in others),
    ]


def of_action(action: str, breach: Breach, *, before: str = "") -> Closing:
    """One action, after these words."""
    step = apart(action, breach)
    return Closing(f"{before}{action}", Paragraph(f"{before}{step.text}".strip(), step.code))


def ending(message: Message, closings: Sequence[Closing]) -> Message:
    """The message with these at its end."""
    paragraphs = tuple(each.paragraph for each in closings)
    has_code = any(each.code for each in paragraphs)
    return replace(
        message,
        text="\n".join(each.line for each in closings),
        paragraphs=paragraphs if has_code else (),
    )


def _numbered(fix: Closing, place: int) -> Closing:
    of_mail = fix.paragraph
    return Closing(_number(fix.line, place), Paragraph(_number(of_mail.text, place), of_mail.code))


def _number(fix: str, place: int) -> str:
    text = fix.removeprefix(FIX)
    return f"{place}. {text[:1].upper()}{text[1:]}"

"""What an incident is about and whose it is, in the words of messages. Pure."""

from fleetwatch.alerts.breach import Breach, Line, named
from fleetwatch.lib.intervals import clock_ms
from fleetwatch.notify import wording
from fleetwatch.notify.message import one_line

ORPHANED = "orphaned"  # the word of a GPU that somebody holds, if nobody knows who


def about(breach: Breach) -> tuple[Line, ...]:
    """Whose it is and what it is about, as lines of a message."""
    return *owner_line(breach), (kind_heading(breach), called(breach))


def owner_line(breach: Breach) -> tuple[Line, ...]:
    """Whose it is; () of what nobody holds."""
    return (("Owner", _owner(breach)),) if _is_held(breach) else ()


def of_owner(breach: Breach) -> str:
    """Whose it is after what it is, in a title: " of ann"; "" where nobody is known."""
    return f" of {_owner(breach)}" if breach.owner else ""


def called(breach: Breach) -> str:
    """What people call its subject. Of a budget, and of spending, that is nobody's word for it: its
    page's address.
    """
    if breach.kind in ("budget", "series") and breach.name:
        return one_line(breach.name, 60)
    if breach.kind == "gpu" and breach.name:
        return f"{one_line(breach.name, 60)} ({one_line(breach.subject, 100)})"
    return named(breach.subject, breach.name)


def kind_word(breach: Breach) -> str:
    """What its subject is, as people call it."""
    return "GPU" if breach.kind == "gpu" else breach.kind


def kind_heading(breach: Breach) -> str:
    """The same where a line or a column begins."""
    kind = kind_word(breach)
    return kind[:1].upper() + kind[1:]


def owner_sentence(breach: Breach) -> str:
    """Whose it is, as a sentence after a space; "" of what nobody holds."""
    return f" Owner: {_owner(breach)}." if _is_held(breach) else ""


def _is_held(breach: Breach) -> bool:
    """Whether somebody holds it: nobody owns a node, a budget, a part of FleetWatch, or a GPU that
    is broken.
    """
    return bool(breach.owner) or breach.kind == "job" or breach.word == ORPHANED


def _owner(breach: Breach) -> str:
    return one_line(breach.owner, 80) or "nobody known"


def length_of(breach: Breach) -> str:
    """For how long it was so: "2 h 10 m"."""
    return wording.duration(clock_ms(breach.since_ms, breach.until_ms))

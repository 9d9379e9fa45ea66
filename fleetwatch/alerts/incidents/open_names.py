"""Sentences with people in them, kept with their names left open: which name stands there is for
each reader to be decided (accounts.colleagues), and people are renamed. Pure.
"""

import re

from fleetwatch.accounts.models import User
from fleetwatch.notify.message import one_line

BY = "{by}"  # who did it
PERSON = "{person}"  # who was told, or whom it was given to
# what people typed comes after it, and is left as it is
BEFORE_REASON = ": "
NOBODY_KNOWN = "somebody"
_OPEN = re.compile(r"\{(by|person)\}")


def name_of(user: User | None) -> str:
    """As messages call the person; "somebody" of whom there is no account any more."""
    return one_line(user.get_full_name() or user.get_username(), 80) if user else NOBODY_KNOWN


def in_words(text: str, *, by: User | None = None, person: User | None = None) -> str:
    """The sentence with these people in it; one that names nobody stays as it is."""
    names = {"by": by, "person": person}
    sentence, colon, reason = text.partition(BEFORE_REASON)
    filled = _OPEN.sub(lambda place: name_of(names[place[1]]), sentence)
    return f"{filled}{colon}{reason}"

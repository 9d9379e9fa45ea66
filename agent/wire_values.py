"""Values of a batch: what each may be where it arrives, and what of it fits where it is sent."""

from dataclasses import dataclass
from typing import Any, Dict, List, Sequence

Item = Dict[str, Any]

MAX_TEXT = 400
MAX_LABELS = 64
MAX_LABEL_NAME = 128  # of those that an agent sends
MAX_AMOUNT = 1e18  # of what nobody reads: as much as a JSON column and a page take


class WireError(ValueError):
    """A batch that can never be accepted; `field` says where."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(message)
        self.field = field


class Field:
    """A value of an item that may be anything, or (null) not be read."""

    is_required = False

    def check(self, place: str, value: Any) -> Any:
        """The value as it is kept; null is given for what is required only.

        Raises WireError, which names its place.
        """
        return value

    def fit(self, value: Any) -> Any:
        """What of the agent's own value the wire takes; None for what is no such value."""
        return value


@dataclass(frozen=True)
class Text(Field):
    """At most so many characters; where it is required, some that are no spaces."""

    limit: int
    is_required: bool = False

    def check(self, place: str, value: Any) -> Any:
        if not isinstance(value, str):
            raise wrong(place, "is not a text")
        if self.is_required and not value.strip():
            raise wrong(place, "is empty")
        if len(value) > self.limit:
            raise wrong(place, "has %d characters, at most %d" % (len(value), self.limit))
        if not is_clean(value):
            raise wrong(place, "holds a character that can't be stored")
        return value

    def fit(self, value: Any) -> Any:
        return value and clipped(value, self.limit)


@dataclass(frozen=True)
class Whole(Field):
    """A whole number within these limits."""

    most: int
    least: int = 0
    is_required: bool = False

    def check(self, place: str, value: Any) -> Any:
        if type(value) is not int or not self.least <= value <= self.most:
            limits = (value, self.least, self.most)
            raise wrong(place, "is %.60r, expected a whole number from %d to %d" % limits)
        return value

    def fit(self, value: Any) -> Any:
        return value if value is not None and self.least <= value <= self.most else None


@dataclass(frozen=True)
class Amount(Field):
    """A number from 0 to this."""

    most: float

    def check(self, place: str, value: Any) -> Any:
        if not (type(value) in (int, float) and 0 <= value <= self.most):
            raise wrong(place, "is %.60r, expected a number from 0 to %g" % (value, self.most))
        return value


@dataclass(frozen=True)
class Position(Field):
    """A place in a list of so many."""

    length: int

    def check(self, place: str, value: Any) -> Any:
        if type(value) is not int or not 0 <= value < self.length:
            raise wrong(place, "is %.60r, but the list has %d entries" % (value, self.length))
        return value


@dataclass(frozen=True)
class Flag(Field):
    """True or false; where it is required, null is false."""

    is_required: bool = False

    def check(self, place: str, value: Any) -> Any:
        if value is not None and not isinstance(value, bool):
            raise wrong(place, "is neither true nor false")
        return bool(value)


class Labels(Field):
    """Names and plain values; null is none."""

    is_required = True

    def check(self, place: str, value: Any) -> Any:
        labels = as_object(place, {} if value is None else value)
        if len(labels) > MAX_LABELS:
            raise wrong(place, "has more than %d entries" % MAX_LABELS)
        for name, text in labels.items():
            if not (is_storable(name) and is_storable(text)):
                raise wrong(
                    place, "holds a name or value that is no plain short text, number or boolean"
                )
        return dict(labels)

    def fit(self, value: Any) -> Any:
        names = {clipped(name, MAX_LABEL_NAME): text for name, text in value.items()}
        return {name: clipped(str(names[name]), MAX_TEXT) for name in list(names)[:MAX_LABELS]}


def wrong(place: str, what: str) -> WireError:
    """The error of a value that is not as it must be: what follows on its place."""
    return WireError(place, "%s %s" % (place, what))


def as_object(place: str, value: Any) -> Item:
    if not isinstance(value, dict):
        raise WireError(place, "%s is not an object" % (place or "the batch"))
    return value


def as_list(place: str, value: Any) -> List[Any]:
    if not isinstance(value, list):
        raise wrong(place, "is not a list")
    return value


def as_integers(place: str, value: Any, low: int, high: int) -> List[int]:
    column = as_list(place, value)
    if not set(map(type, column)) <= {int}:
        raise wrong(place, "holds something that is no whole number")
    if column and not (low <= min(column) and max(column) <= high):
        raise wrong(
            place, "holds %d to %d, expected %d to %d" % (min(column), max(column), low, high)
        )
    return column


def check_length(place: str, column: Sequence[Any], length: int) -> None:
    if len(column) != length:
        raise wrong(place, "has %d values for %d windows" % (len(column), length))


def check_distinct(place: str, names: Sequence[str]) -> None:
    if len(set(names)) != len(names):
        raise wrong(place, "names the same one twice")


def clipped(text: str, limit: int) -> str:
    """The text as the wire takes it: without NUL and half surrogates, not longer than the limit."""
    return text.replace("\x00", "").encode("utf-8", "replace").decode("utf-8")[:limit]


def is_clean(text: str) -> bool:
    if "\x00" in text:
        return False
    return text.isascii() or not any("\ud800" <= character <= "\udfff" for character in text)


def is_storable(value: Any) -> bool:
    """True for what a Postgres JSON column takes and a page can show: no nesting, no NUL, no half
    surrogate.
    """
    if isinstance(value, str):
        return len(value) <= MAX_TEXT and is_clean(value)
    return (
        value is None
        or isinstance(value, bool)
        or (isinstance(value, (int, float)) and abs(value) <= MAX_AMOUNT)
    )

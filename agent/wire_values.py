"""Single values of a batch, checked: each is given back, or a WireError names its place."""

from typing import Any, Dict, List, Mapping, Optional, Sequence

Item = Dict[str, Any]


class WireError(ValueError):
    """A batch that can never be accepted; `field` says where."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(message)
        self.field = field


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


def as_text(place: str, value: Any, limit: int, *, required: bool = False) -> str:
    """The text; "" for null where it is not required."""
    if value is None and not required:
        return ""
    if not isinstance(value, str):
        raise wrong(place, "is not a text")
    if required and not value.strip():
        raise wrong(place, "is empty")
    if len(value) > limit:
        raise wrong(place, "has %d characters, at most %d" % (len(value), limit))
    if not is_clean(value):
        raise wrong(place, "holds a character that can't be stored")
    return value


def check_texts(item: Item, limits: Mapping[str, int]) -> None:
    for name, limit in limits.items():
        if item.get(name) is not None:
            as_text(name, item[name], limit)


def as_integer(place: str, value: Any, low: int, high: int) -> int:
    if type(value) is not int or not low <= value <= high:
        raise wrong(place, "is %.60r, expected a whole number from %d to %d" % (value, low, high))
    return value


def check_counts(item: Item, limits: Mapping[str, int]) -> None:
    for name, limit in limits.items():
        if item.get(name) is not None:
            as_integer(name, item[name], 0, limit)


def check_position(place: str, value: Any, length: int) -> None:
    if type(value) is not int or not 0 <= value < length:
        raise wrong(place, "is %.60r, but the list has %d entries" % (value, length))


def as_boolean(place: str, value: Any) -> Optional[bool]:
    if value is not None and not isinstance(value, bool):
        raise wrong(place, "is neither true nor false")
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


def check_length(place: str, column: Sequence[Any], other: Sequence[Any]) -> None:
    if len(column) != len(other):
        raise wrong(place, "has %d values for %d windows" % (len(column), len(other)))


def check_distinct(place: str, names: Sequence[str]) -> None:
    if len(set(names)) != len(names):
        raise wrong(place, "names the same one twice")


def is_clean(text: str) -> bool:
    if "\x00" in text:
        return False
    return text.isascii() or not any("\ud800" <= character <= "\udfff" for character in text)

"""Which users of jobs a person may be, by how he is called here. Pure."""

import re
from collections.abc import Iterable

SHORTEST = 3  # letters of a part that says who somebody is


def alike(names: Iterable[str], called: Iterable[str]) -> list[str]:
    """Those of the names that fit one of what a person is called, the nearest first: "jdoe" and
    "doe" fit "jane.doe", "Jane.Doe" is it.
    """
    meant = [parts for parts in map(_parts, called) if parts]
    ranked = [(min((_distance(name, parts) for parts in meant), default=9), name) for name in names]
    return [name for distance, name in sorted(ranked) if distance < len(_FITS)]


def _parts(text: str) -> list[str]:
    return re.findall(r"[a-z0-9]+", text.lower())


def _distance(name: str, parts: list[str]) -> int:
    """The first of _FITS that holds; their number where none does."""
    own = "".join(_parts(name))
    fits = (fit(own, parts) for fit in _FITS)
    return next((place for place, is_fit in enumerate(fits) if is_fit), len(_FITS))


def _is_whole(own: str, parts: list[str]) -> bool:
    return own == "".join(parts)


def _is_initial_and_last(own: str, parts: list[str]) -> bool:
    return len(parts) > 1 and own == parts[0][0] + parts[-1]


def _is_part(own: str, parts: list[str]) -> bool:
    return len(own) >= SHORTEST and own in parts


def _begins_alike(own: str, parts: list[str]) -> bool:
    """A name with something behind it, such as a number: "priya2"."""
    whole = "".join(parts)
    return min(len(own), len(whole)) >= SHORTEST and own.startswith(whole)


_FITS = (_is_whole, _is_initial_and_last, _is_part, _begins_alike)

"""Which addresses may be kept: those of our own pages that show a period, with what they take."""

from collections.abc import Mapping
from urllib.parse import SplitResult, unquote, urlencode, urlsplit

from django.http import QueryDict
from django.urls import Resolver404, resolve, reverse

from fleetwatch.lib import timeframes
from fleetwatch.lib.refusal import RefusedFieldError

# a parameter of pages -> how it is told
_IN_WORDS = {"group_by": "by {}", "group": "by {}", "sort": "sorted by {}"}
PLACE = "after"  # in a list: nothing that is looked at again


def read_address(text: str) -> tuple[str, str]:
    """The path and the query to keep of an address; parameters that the page does not know, and a
    place in its list, are left out.

    Raises RefusedFieldError where that is no page of ours with a period.
    """
    parts = _split(text)
    try:
        match = resolve(unquote(parts.path))
    except Resolver404:
        raise _refusal() from None
    names = getattr(match.func, "parameters", ())
    if not getattr(match.func, "is_page", False) or "from" not in names:
        raise _refusal()
    asked = QueryDict(parts.query)
    kept = {name: asked[name] for name in asked if name in names and name != PLACE}
    path = reverse(match.view_name, args=match.args, kwargs=match.kwargs)
    return path, urlencode(kept)


def address_in_words(path: str, query: str) -> str:
    """What a page of ours at that address shows: "Costs · last 7 days · team nlp, by user"."""
    asked = QueryDict(query).dict()
    words = [" ".join(path.strip("/").split("/")).capitalize() or "Overview", _period(asked)]
    for name, value in asked.items():
        if name in _IN_WORDS:
            words.append(_IN_WORDS[name].format(value.replace("_", " ")))
        elif name not in (*timeframes.NAMES, timeframes.ZONE):
            words.append(f"{name.replace('_', ' ')} {value}")
    return " · ".join(filter(None, words))


def _period(asked: Mapping[str, str]) -> str:
    """The period that the address names; "" where it names none."""
    ends = (asked.get("from", ""), asked.get("to", "now"))
    for name, (start, end, label) in timeframes.PRESETS.items():
        if asked.get("range") == name or ends == (start, end):
            return label.lower()
    return f"{ends[0]} to {ends[1]}" if ends[0] else ""


def _split(text: str) -> SplitResult:
    try:
        parts = urlsplit(text)
    except ValueError:
        raise _refusal() from None
    if parts.scheme or parts.netloc or not parts.path.startswith("/"):
        raise _refusal()
    return parts


def _refusal() -> RefusedFieldError:
    return RefusedFieldError("Only a page with a period can be saved.", field="address")

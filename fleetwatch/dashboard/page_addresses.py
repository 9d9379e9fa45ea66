"""Which addresses may be kept: those of our own pages that show a period, with what they take."""

from urllib.parse import SplitResult, unquote, urlencode, urlsplit

from django.http import QueryDict
from django.urls import Resolver404, resolve, reverse

from fleetwatch.lib.refusal import RefusedFieldError

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

"""The names of an address's parameters beside those that it may have."""

from collections.abc import Collection

from django.http import QueryDict


def unknown(query: QueryDict, allowed: Collection[str]) -> list[str]:
    """Names that it may not have, in their order."""
    return [name for name in query if name not in allowed]


def repeated(query: QueryDict, allowed: Collection[str]) -> list[str]:
    """Names that it may have once, and has more than once, in their order."""
    return [name for name in query if name in allowed and len(query.getlist(name)) > 1]

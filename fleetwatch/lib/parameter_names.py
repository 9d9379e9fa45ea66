"""The names of an address's parameters beside those that it may have, and what pages and the API
called them before.
"""

from collections.abc import Collection

from django.http import QueryDict

# another name -> the one that pages and the API have
RENAMED = {"group": "group_by", "model": "gpu_model", "person": "user"}


def unknown(query: QueryDict, allowed: Collection[str]) -> list[str]:
    """Names that it may not have, in their order."""
    return [name for name in query if name not in allowed]


def repeated(query: QueryDict, allowed: Collection[str]) -> list[str]:
    """Names that it may have once, and has more than once, in their order."""
    return [name for name in query if name in allowed and len(query.getlist(name)) > 1]


def renamed(query: QueryDict, allowed: Collection[str]) -> QueryDict | None:
    """The parameters with the names that they have now; None where none has another one, or none
    of those that it may have. Where both are given, the name of now decides.
    """
    old = [name for name in query if name not in allowed and RENAMED.get(name) in allowed]
    if not old:
        return None
    params = query.copy()
    for name in old:
        values = params.pop(name)
        if RENAMED[name] not in params:
            params.setlist(RENAMED[name], values)
    return params

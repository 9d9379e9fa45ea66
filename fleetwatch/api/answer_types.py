"""How a field of an answer is read from what a selector answers: by its name, or by its `alias`,
and made what JSON has of it. Dollars are rounded to the micro-dollar here.
"""

from collections.abc import Callable, Mapping
from datetime import datetime
from decimal import Decimal
from operator import attrgetter
from types import MappingProxyType
from typing import Annotated, Any, get_type_hints

from ninja import Schema
from pydantic import BaseModel, BeforeValidator, create_model

from fleetwatch.figures.pricing import usd
from fleetwatch.lib.intervals import HOUR_MS, from_ms

Answer = dict[str, Any]
MISSING = object()


class Joined:
    """Facts and things read as one: a name is that of the first that has it, facts before
    things. With dots it is an attribute's attribute; None where there is no such thing.
    """

    __slots__ = ("_facts", "_things")

    def __init__(self, *things: Any, **facts: Any) -> None:
        self._facts = facts
        self._things: list[Any] = []
        for thing in things:
            if isinstance(thing, Joined):
                self._facts = thing._facts | self._facts
                self._things += thing._things
            else:
                self._things.append(thing)

    def __getattr__(self, path: str) -> Any:
        name, _, rest = path.partition(".")
        value = self._facts.get(name, MISSING)
        for thing in self._things:
            if value is MISSING:
                value = getattr(thing, name, MISSING)
        if value is MISSING:
            raise AttributeError(path)
        return attrgetter(rest)(value) if rest and value is not None else value


def read_as(convert: Callable[[Any], Any]) -> BeforeValidator:
    """Of a value what `convert` makes of it; None of None."""
    return BeforeValidator(lambda value: None if value is None else convert(value))


def attribute(path: str) -> BeforeValidator:
    """Of a thing its attribute; None where there is no such thing."""
    return read_as(attrgetter(path))


def gpu_hours(milliseconds: int) -> float:
    return milliseconds / HOUR_MS


At = Annotated[datetime, read_as(from_ms)]
AtOrNone = Annotated[datetime | None, read_as(from_ms)]
Usd = Annotated[float, read_as(lambda amount: float(usd(amount)))]
UsdOrNone = Annotated[float | None, read_as(lambda amount: float(usd(amount)))]
GPUHours = Annotated[float, read_as(gpu_hours)]
TextOrNone = Annotated[str | None, read_as(lambda text: text or None)]  # "" = not said
NameOf = Annotated[str, attribute("name")]
NameOrNone = Annotated[str | None, attribute("name")]
UUIDOf = Annotated[str, attribute("uuid")]
UUIDOrNone = Annotated[str | None, attribute("uuid")]
KeyOrNone = Annotated[str | None, attribute("key")]
SlugOrNone = Annotated[str | None, attribute("slug")]

DOLLARS: Mapping[Any, Any] = MappingProxyType({Decimal: Usd, Decimal | None: UsdOrNone})


def fields_of(thing: type, read: Mapping[Any, Any] = DOLLARS) -> Any:
    """The base of an answer that has a dataclass's fields: each of its own type there, or of the
    one that `read` has for that.
    """
    types = get_type_hints(thing).items()
    return of_fields({name: (read.get(kind, kind), ...) for name, kind in types})


def of_fields(fields: Mapping[str, Any], base: type[BaseModel] = Schema) -> Any:
    """The base of an answer that has these fields, each its type and default."""
    return create_model("Fields", __base__=base, **fields)

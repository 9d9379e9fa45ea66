"""Named numbers of a view that has them as one typed array: a place for each name."""

from collections.abc import Sequence
from typing import Any

from django.db.models import Field

_KINDS = {int: "integer[]", float: "double precision[]"}


class NamedNumbers(Field):  # type: ignore[type-arg]
    """An array with a place for each of `names`; in Python a dict of those that are not 0, in their
    order.
    """

    def __init__(
        self, number: type[int] | type[float], *, names: Sequence[str], **options: Any
    ) -> None:
        self.number = number
        self.names = tuple(names)
        super().__init__(**{"default": dict} | options)

    def deconstruct(self) -> Any:
        """What a migration says of the field: other names are another field."""
        name, path, _, options = super().deconstruct()
        return name, path, [self.number], options | {"names": self.names}

    def db_type(self, connection: Any) -> str:
        """The column's type."""
        return _KINDS[self.number]

    def from_db_value(self, value: Sequence[Any] | None, *_: Any) -> dict[str, Any] | None:
        """The names whose number is not 0."""
        return (
            None
            if value is None
            else {name: number for name, number in zip(self.names, value, strict=True) if number}
        )

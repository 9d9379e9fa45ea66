"""Named numbers as one typed array of the database: a place for each name, and nothing is written
as text.
"""

from collections.abc import Mapping, Sequence
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

    def get_db_prep_value(
        self, value: Mapping[str, Any], connection: Any, prepared: bool = False
    ) -> list[Any]:
        """The numbers in their places, 0 where a name is missing.

        Raises ValueError for a name that has no place.
        """
        if unknown := value.keys() - set(self.names):
            raise ValueError(f"{self.name} has no place for {', '.join(sorted(unknown))}")
        return [self.number(value.get(name, 0)) for name in self.names]

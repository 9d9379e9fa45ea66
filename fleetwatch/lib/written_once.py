"""Rows by a statement that Django writes once per process: to write one takes it longer than
Postgres takes for the answer.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeVar

from django.db.models import Model, QuerySet
from django.db.models.expressions import RawSQL

from fleetwatch.lib import memo, replica, rows

Row = TypeVar("Row", bound=Model)


@dataclass(frozen=True, slots=True)
class Slot:
    """The place of a value that each reading names anew."""

    name: str


# what a queryset is asked for in the place of ids: column__in=IDS
IDS = RawSQL("SELECT unnest(%s::bigint[])", [Slot("ids")])


class written_once:  # noqa: N801 - it decorates
    """A reader of the queryset's rows, of which `make` names the values: nothing that it is made of
    changes while the process runs, but what a slot is for (`ids`).
    """

    def __init__(self, make: Callable[[], QuerySet[Any, Any]]) -> None:
        self._make = make
        self._written: tuple[str, tuple[Any, ...]] | None = None

    def __call__(self, **given: Any) -> list[tuple[Any, ...]]:
        return rows.fetched(*self.asked(**given), is_fixed=True)

    def asked(self, **given: Any) -> rows.Asked:
        """The statement, and what it is asked with."""
        if self._written is None:
            text, named = self._make().query.sql_with_params()
            self._written = text, tuple(named)
        text, parameters = self._written
        values = [given[each.name] if isinstance(each, Slot) else each for each in parameters]
        return rows.Asked(text, values)


def row_of_key(model: type[Row], key: Any) -> Row | None:
    """The model's row with that primary key; None = there is none. No field of it is one that
    Django converts when it is read.
    """
    key = model._meta.pk.get_prep_value(key)
    text, names = _by_key(model)
    row = memo.kept_answer(row_of_key, model, key)
    if row is memo.NOT_KEPT:
        row = next(iter(rows.fetched(text, [key], is_fixed=True)), None)
    return None if row is None else model.from_db(replica.reading().alias, names, row)


def read_together(*asked: tuple[type[Model], Any]) -> None:
    """Reads the rows of these models with these primary keys by one statement: within the same look
    at a page `row_of_key` gives them.
    """
    models = [model for model, _ in asked]
    keys = [model._meta.pk.get_prep_value(key) for model, key in asked]
    [values] = rows.fetched(_by_keys(*models), keys, is_fixed=True)
    for model, key in zip(models, keys, strict=True):
        _, names = _by_key(model)
        row = values[: len(names)]
        values = values[len(names) :]
        is_there = row[names.index(model._meta.pk.attname)] is not None
        memo.keep_answer(row if is_there else None, row_of_key, model, key)


@cache
def _by_keys(*models: type[Model]) -> str:
    """One row: what `_by_key` names of each model, all of it NULL where there is no such row."""
    values = ", ".join(f"part_{place}.*" for place in range(len(models)))
    parts = [
        f"LEFT JOIN ({_by_key(model)[0]}) AS part_{place} ON TRUE"
        for place, model in enumerate(models)
    ]
    return f"SELECT {values} FROM (SELECT) AS one {' '.join(parts)}"  # noqa: S608 - no value in it


@cache
def _by_key(model: type[Model]) -> tuple[str, list[str]]:
    names = [field.attname for field in model._meta.concrete_fields]
    keyed = model._base_manager.filter(pk=RawSQL("%s", [Slot("key")])).order_by()
    return str(keyed.values_list(*names).query.sql_with_params()[0]), names

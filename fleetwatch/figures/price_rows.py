"""Which price holds for which GPUs, when."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from fleetwatch.figures.packed_spans import Ints
from fleetwatch.lib.memo import kept_while, read_once
from fleetwatch.lib.rows import fetched
from fleetwatch.lib.sql import read_statement

_PRICES, _FOLLOW_FROM = (
    read_statement(f"figures/sql/{name}.sql") for name in ("prices", "prices_follow_from")
)
# dollars per GPU-hour, whether it is an example, valid from and to (None = open), packed ids
Row = tuple[Any, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Prices:
    """Everybody's prices as one reading found them; of another reading they are others."""

    rows: Sequence[Row]


def prices_of(gpus: Ints) -> Sequence[Row]:
    """Those of some GPUs."""
    return fetched(_PRICES, {"gpu_ids": gpus})


def _digest() -> str:
    """Of all that prices follow from."""
    ((digest,),) = fetched(_FOLLOW_FROM, {})
    return str(digest)


@read_once
@kept_while(_digest)
def every_price() -> Prices:
    """Everybody's, as all that one page reads of the fleet."""
    return Prices(fetched(_PRICES, {"gpu_ids": None}))

"""Which price holds for which GPUs, when."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

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


def _digest() -> str:
    """Of all that prices follow from."""
    ((digest,),) = fetched(_FOLLOW_FROM, {})
    return str(digest)


@read_once
@kept_while(_digest)
def every_price() -> Prices:
    """Everybody's, as all that one page reads. To ask what they follow from takes a fifth of what
    it takes to work out the prices of a single GPU.
    """
    return Prices(fetched(_PRICES, {}))

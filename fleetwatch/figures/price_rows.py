"""Which price holds for which GPUs, when."""

from collections.abc import Sequence
from typing import Any

from fleetwatch.figures.packed_spans import Ints
from fleetwatch.lib.memo import read_once
from fleetwatch.lib.rows import fetched
from fleetwatch.lib.sql import read_statement

_PRICES = read_statement("figures/sql/prices.sql")
# dollars per GPU-hour, whether it is an example, valid from and to (None = open), packed ids
Row = tuple[Any, ...]


def prices_of(gpus: Ints) -> Sequence[Row]:
    """Those of some GPUs."""
    return fetched(_PRICES, {"gpu_ids": gpus})


@read_once
def every_price() -> Sequence[Row]:
    """Everybody's, as all that one page reads of the fleet."""
    return fetched(_PRICES, {"gpu_ids": None})

"""GPUs of one price and model: in a figure of the fleet one stands for all of them."""

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from fleetwatch.figures.packed_spans import Ints
from fleetwatch.figures.price_rows import Prices, every_price
from fleetwatch.lib.rows import fetched
from fleetwatch.lib.sql import read_statement

_MODELS = read_statement("figures/sql/gpus_of_models.sql")
# How sums of alike GPUs are packed: those of another one are none.
_PACKED_AS = b"narrow columns"


@dataclass(frozen=True, slots=True)
class AlikeGPUs:
    """Every GPU's id, ascending, of each its node, and the first one that has its price and model,
    at every moment.
    """

    gpus: Ints
    nodes: Ints
    stands_for: Ints

    @property
    def last_id(self) -> int:
        """The newest GPU; 0 = there is none."""
        return int(self.gpus[-1]) if len(self.gpus) else 0

    def digest(self, last_id: int) -> str:
        """Which GPUs up to this one are alike, and how their sums are packed: of two groupings it
        is the same where these are. A later GPU changes nothing of it.
        """
        count = int(np.searchsorted(self.gpus, last_id, side="right"))
        parts = (_PACKED_AS, self.gpus[:count], self.stands_for[:count])
        return hashlib.md5(b"".join(map(bytes, parts)), usedforsecurity=False).hexdigest()

    def first_of(self, gpus: Ints) -> Ints:
        """Of each of these GPUs the one that stands for it: of one that was deleted itself."""
        at = np.searchsorted(self.gpus, gpus)
        is_there = np.append(self.gpus, -1)[at] == gpus
        return np.where(is_there, np.append(self.stands_for, -1)[at], gpus)

    def nodes_of(self, gpus: Ints) -> Ints:
        """Of each of these GPUs, all of them known, its node."""
        return self.nodes[np.searchsorted(self.gpus, gpus)]


def alike_gpus() -> AlikeGPUs:
    """As prices and models stand now."""
    return _at_prices(every_price())


@lru_cache(maxsize=1)  # models change with what prices follow from
def _at_prices(prices: Prices) -> AlikeGPUs:
    models = [_ids(pairs).reshape(-1, 2) for _, pairs in fetched(_MODELS, {})]
    pairs = np.concatenate([np.empty((0, 2), dtype=np.int64), *models])
    gpus, nodes = pairs[np.argsort(pairs[:, 0])].T
    of_prices = [_ids(row[-1]) for row in prices.rows]
    sets = [*(of_model[:, 0] for of_model in models), *of_prices]
    return AlikeGPUs(gpus, nodes, in_the_same(gpus, sets))


def in_the_same(gpus: Ints, sets: Iterable[Ints]) -> Ints:
    """Of each of the GPUs (ascending) the first one that is in the same of the sets. Pure."""
    group = np.zeros(len(gpus), dtype=np.int64)
    groups = 1
    for members in sets:
        at = np.searchsorted(gpus, members)
        split, part = np.unique(group[at], return_inverse=True)
        group[at] = groups + part
        groups += len(split)
    _, first, of_group = np.unique(group, return_index=True, return_inverse=True)
    return gpus[first[of_group]]


def _ids(packed: bytes) -> Ints:
    return np.frombuffer(packed, dtype=">i8").astype(np.int64)

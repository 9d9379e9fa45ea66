"""How much that is new one node may bring in an hour: rows that stay for ever are bounded by who
makes them, also by a stolen token.

One row per node, of its newest hour: several web processes need no word between them, and a refused
batch takes its count with it.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from agent.wire import WireError
from fleetwatch.lib.batched import columns, integers, run
from fleetwatch.lib.intervals import HOUR_MS, to_ms
from fleetwatch.lib.sql import read_statement

COUNT = read_statement("inventory/sql/count_intake.sql")

# A node of eight GPUs with tasks of seconds has some thousand jobs an hour, each with about ten
# labels (of 400 characters at most: 80 MB).
# MIG instances have new UUIDs each time that they are made: 56 of eight GPUs. An agent tells the
# same fault of a GPU once in five seconds: of eight GPUs each with eight faults 46,000 an hour.
# Batches as sent: 2 MB per GPU and day. After an outage an agent sends its spool of 512 MiB, which
# is a week of 37 GPUs, in less than an hour; the 3.6 GB of 256 GPUs (a larger spool) take six.
LIMITS = {
    "jobs": 20_000,
    "labels": 200_000,
    "teams": 500,
    "gpu_models": 64,
    "gpus": 2_048,
    "events": 50_000,
    "batch_bytes": 640 * 1024 * 1024,
}
WORDS = {
    "jobs": "jobs",
    "labels": "labels of jobs",
    "teams": "teams",
    "gpu_models": "GPU models",
    "gpus": "GPUs",
    "events": "events",
    "batch_bytes": "bytes of batches",
}
# Where in a batch it stands.
FIELDS = {"gpu_models": "gpus", "gpus": "gpus", "events": "events", "batch_bytes": "windows"}
# Years of accounting come in one evening, by a token that an admin trusts with them.
IMPORT_FACTOR = 100


@dataclass(frozen=True, slots=True)
class Brought:
    """How many of each are new."""

    jobs: int = 0
    labels: int = 0
    teams: int = 0
    gpu_models: int = 0
    gpus: int = 0
    events: int = 0
    batch_bytes: int = 0
    is_import: bool = False

    def __add__(self, more: "Brought") -> "Brought":
        sums = {name: getattr(self, name) + getattr(more, name) for name in LIMITS}
        return Brought(**sums, is_import=self.is_import or more.is_import)


class TooMuchNewError(Exception):
    """The node has brought too much that is new in this hour; its sender keeps the batch until the
    next.
    """

    def __init__(self, node_id: int, what: str, limit: int, retry_after_s: int) -> None:
        super().__init__(
            f"more than {limit} new {WORDS[what]} in one hour from this node: come again later"
        )
        self.node_id = node_id
        self.field = _field(what)
        self.retry_after_s = retry_after_s


def count(brought: Mapping[int, Brought], received_at: datetime) -> None:
    """Adds to what the nodes brought in this hour. Needs a transaction.

    Raises TooMuchNewError, the caller then undoes the transaction; WireError where one batch alone
    is more than an hour may bring.
    """
    if not brought:
        return
    now_ms = to_ms(received_at)
    hour_ms = now_ms - now_ms % HOUR_MS
    node_ids = sorted(brought)
    amounts = columns(brought[pk] for pk in node_ids)
    counted_rows = run(COUNT, amounts | {"nodes": integers(node_ids), "hour_ms": hour_ms})
    for node_id, *counted in counted_rows:
        left_s = math.ceil((hour_ms + HOUR_MS - now_ms) / 1000)
        for what, total in zip(LIMITS, counted, strict=True):
            _check(node_id, brought[node_id], what, total, left_s)


def _check(node_id: int, brought: Brought, what: str, total: int, left_s: int) -> None:
    limit = LIMITS[what] * (IMPORT_FACTOR if brought.is_import else 1)
    amount = getattr(brought, what)
    if amount > limit:
        raise WireError(_field(what), f"the batch brings more than {limit} new {WORDS[what]}")
    # an import may have brought more than the node's agent may: who adds nothing to it is not
    # refused
    if amount and total > limit:
        raise TooMuchNewError(node_id, what, limit, left_s)


def _field(what: str) -> str:
    return FIELDS.get(what, "jobs")

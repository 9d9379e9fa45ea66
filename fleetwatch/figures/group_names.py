"""Key and label of each line of a breakdown, as its reader is told of them."""

from collections.abc import Collection

import numpy as np

from fleetwatch.accounts.visibility import pseudonymous
from fleetwatch.figures.others_names import JOB, lines_shown
from fleetwatch.figures.priced_columns import NO_KEY, Keys
from fleetwatch.figures.totals import NOBODY, OWNERS, UNALLOCATED, Line
from fleetwatch.inventory.models import GPU, GPUModel, Node
from fleetwatch.jobs.models import Job
from fleetwatch.lib.written_once import IDS, written_once

UNHELD = (UNALLOCATED, "unallocated")
# by group: id, key and label (but for GPUs) of what has these ids
_STORED = {
    "job": written_once(lambda: Job.objects.filter(pk__in=IDS).values_list("pk", "key", "name")),
    "node": written_once(lambda: Node.objects.filter(pk__in=IDS).values_list("pk", "name", "name")),
    "gpu_model": written_once(
        lambda: GPUModel.objects.filter(pk__in=IDS).values_list("pk", "name", "name")
    ),
}


def lines_of(group_by: str, keys: Keys, ids: Collection[int]) -> dict[int, Line]:
    """Key and label of each of these groups; of one that was deleted since the ledger was read
    that it was.
    """
    if group_by in ("user", *OWNERS):
        return lines_shown(group_by, dict(enumerate([UNHELD, *keys.lines], NO_KEY)))
    what = group_by.replace("_", " ")
    stored = set(ids) - {NO_KEY}
    lines = {pk: (f"(deleted {pk})", f"{what} that was deleted") for pk in stored}
    lines[NO_KEY] = (NOBODY, "unknown model") if group_by == "gpu_model" else UNHELD
    lines |= _gpus(stored) if group_by == "gpu" else _stored(group_by, stored)
    return lines_shown(group_by, lines)


def ids_of(
    group_by: str, keys: Keys, ids: Collection[int], shown: Collection[str]
) -> dict[int, str]:
    """By id the keys of those of these groups that stand under one of these keys: of few of many
    jobs no other's name is read.
    """
    if group_by == JOB and pseudonymous() is None:
        return dict(Job.objects.filter(key__in=shown).values_list("pk", "key"))
    return {pk: key for pk, (key, _) in lines_of(group_by, keys, ids).items() if key in shown}


def _gpus(ids: Collection[int]) -> dict[int, Line]:
    rows = GPU.objects.filter(pk__in=ids).values_list("pk", "uuid", "node__name", "index")
    return {
        pk: (uuid, f"{node} GPU {'?' if index is None else index}")
        for pk, uuid, node, index in rows
    }


def _stored(group_by: str, ids: Collection[int]) -> dict[int, Line]:
    rows = _STORED[group_by](ids=np.array(list(ids), dtype=np.int64))
    return {pk: (key, label or key) for pk, key, label in rows}

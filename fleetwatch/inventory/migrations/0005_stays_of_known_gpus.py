"""Rows of GPUs that moved bear their UUID again, and every GPU's time becomes a stay.

A row of a stay that had ended was named "<UUID>@<its first ms>". Where one node had the GPU twice its older row keeps that
name (what was summed of it stays summed), its stay bears the UUID. Where rows overlapped the earlier one keeps the time.
"""

import re
from collections import defaultdict
from typing import Any

from django.db import migrations

FORMER = re.compile(r"(.+)@\d{13}")


def begin(apps: Any, schema_editor: Any) -> None:
    gpus = apps.get_model("inventory", "GPU").objects.select_related("node")
    rows_by_uuid: dict[str, list[Any]] = defaultdict(list)
    for gpu in gpus.order_by("first_ms", "pk"):
        former = FORMER.fullmatch(gpu.uuid)
        rows_by_uuid[former[1] if former else gpu.uuid].append(gpu)
    for uuid, rows in rows_by_uuid.items():
        _rename(uuid, rows)
        _add_stays(apps.get_model("inventory", "Stay"), uuid, rows)


def _rename(uuid: str, rows: list[Any]) -> None:
    newest_by_node = {gpu.node_id: gpu for gpu in sorted(rows, key=lambda gpu: gpu.uuid == uuid)}
    for gpu in newest_by_node.values():
        if gpu.uuid != uuid:
            gpu.uuid = uuid
            gpu.save(update_fields=["uuid"])


def _add_stays(stays: Any, uuid: str, rows: list[Any]) -> None:
    free_from_ms = 0
    for gpu in rows:
        if gpu.first_ms is None or gpu.last_ms is None:
            continue
        first_ms, last_ms = max(gpu.first_ms, free_from_ms), _newest_ms(gpu)
        if first_ms < last_ms:
            stays.objects.create(gpu=gpu, uuid=uuid, first_ms=first_ms, last_ms=last_ms, is_believed=True)
            free_from_ms = last_ms


def _newest_ms(gpu: Any) -> int:
    is_spoken_for = gpu.node.windows_ms is not None and gpu.facts_order == gpu.node.continued_order
    newest_ms: int = max(gpu.last_ms, gpu.node.windows_ms) if is_spoken_for else gpu.last_ms
    return newest_ms


def rename_back(apps: Any, schema_editor: Any) -> None:
    gpus = apps.get_model("inventory", "GPU").objects
    rows_by_uuid: dict[str, list[Any]] = defaultdict(list)
    for gpu in gpus.order_by("last_ms", "pk"):
        rows_by_uuid[gpu.uuid].append(gpu)
    for uuid, rows in rows_by_uuid.items():
        for gpu in rows[:-1]:
            gpu.uuid = f"{uuid[:80]}@{gpu.first_ms or 0:013d}"
            gpu.save(update_fields=["uuid"])


class Migration(migrations.Migration):

    dependencies = [
        ('inventory', '0004_stays'),
    ]

    operations = [migrations.RunPython(begin, rename_back)]

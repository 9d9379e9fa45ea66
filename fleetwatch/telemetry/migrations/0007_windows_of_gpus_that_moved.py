"""Windows of GPUs that moved are their former nodes' again, and all that is kept of these nodes is judged anew.

What was sealed or drawn after a move had the id of the GPU's row with its new node, so no capacity of
the old one claimed it and its time stood as unobserved.
"""

import json
from collections import defaultdict
from datetime import UTC, timedelta
from typing import Any

import numpy as np
from django.db import migrations

from fleetwatch.telemetry import codec

HOUR = timedelta(hours=1)

STRAYED = """
SELECT own.node_id, other.id, own.id
FROM inventory_gpu AS own
JOIN inventory_gpu AS other ON other.uuid = own.uuid AND other.node_id <> own.node_id
"""


def give_back(apps: Any, schema_editor: Any) -> None:
    with schema_editor.connection.cursor() as cursor:
        cursor.execute(STRAYED)
        own_ids: dict[int, dict[int, int]] = defaultdict(dict)
        for node_id, other_id, own_id in cursor.fetchall():
            own_ids[node_id][other_id] = own_id
        for node_id, own_id_of in own_ids.items():
            _mend_chunks(cursor, node_id, own_id_of)
            _mend_matrices(cursor, node_id, own_id_of)
            _judge_again(cursor, node_id)


def _mend_chunks(cursor: Any, node_id: int, own_id_of: dict[int, int]) -> None:
    cursor.execute("SELECT id, payload FROM telemetry_chunk WHERE node_id = %s", [node_id])
    for chunk_id, payload in cursor.fetchall():
        if not payload:
            continue
        table = codec.unpack(bytes(payload))
        ids = np.array([own_id_of.get(gpu_id, gpu_id) for gpu_id in table["gpu_id"].tolist()], dtype=np.int64)
        if (ids != table["gpu_id"]).any():
            cursor.execute(
                "UPDATE telemetry_chunk SET payload = %s, version = %s WHERE id = %s",
                [codec.pack(table | {"gpu_id": ids}), codec.VERSION, chunk_id],
            )


def _mend_matrices(cursor: Any, node_id: int, own_id_of: dict[int, int]) -> None:
    cursor.execute("SELECT id, gpu_ids FROM telemetry_daymatrix WHERE node_id = %s", [node_id])
    for matrix_id, gpu_ids in cursor.fetchall():
        named = json.loads(gpu_ids) if isinstance(gpu_ids, str) else gpu_ids
        own = [own_id_of.get(gpu_id, gpu_id) for gpu_id in named]
        # a day on which both ids stand keeps them: one row of cells has one GPU
        if own != named and len(set(own)) == len(own):
            cursor.execute("UPDATE telemetry_daymatrix SET gpu_ids = %s WHERE id = %s", [json.dumps(own), matrix_id])


def _judge_again(cursor: Any, node_id: int) -> None:
    cursor.execute(
        "SELECT min(first), max(last) FROM ("
        ' SELECT min(start) AS first, max("end") AS last FROM telemetry_chunk WHERE node_id = %s'
        " UNION ALL SELECT to_timestamp(min(start_ms) / 1000), to_timestamp(max(end_ms) / 1000) FROM telemetry_batch WHERE node_id = %s"
        ") AS kept",
        [node_id, node_id],
    )
    first, last = cursor.fetchone()
    if first is None:
        return
    hour = first.astimezone(UTC).replace(minute=0, second=0, microsecond=0)
    while hour < last:
        cursor.execute("INSERT INTO telemetry_touchedhour (node_id, hour) VALUES (%s, %s)", [node_id, hour])
        hour += HOUR


class Migration(migrations.Migration):

    dependencies = [
        ('inventory', '0006_one_row_per_gpu_and_node'),
        ('telemetry', '0006_chunks_to_join'),
    ]

    operations = [migrations.RunPython(give_back, migrations.RunPython.noop)]

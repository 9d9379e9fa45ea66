"""Windows of GPUs that moved are their former nodes' again, and all that is kept is judged anew.

What was sealed or drawn after a move had the id of the GPU's row with its new node, so no capacity of the old one
claimed it and its time stood as unobserved. The other nodes' hours are judged anew for the ends of their jobs (jobs 0005).
"""

import json
from collections import defaultdict
from typing import Any

import numpy as np
from django.db import migrations

from fleetwatch.telemetry import codec

# One mark: a clock hour of a node of which windows are kept. Again: safe, an hour that is marked twice is judged once.
JUDGE_AGAIN = """
INSERT INTO telemetry_touchedhour (node_id, hour)
SELECT node_id, generate_series(date_trunc('hour', min(first), 'UTC'), max(last) - interval '1 millisecond', interval '1 hour')
FROM (
    SELECT node_id, start AS first, "end" AS last FROM telemetry_chunk
    UNION ALL
    SELECT node_id, to_timestamp(start_ms / 1000.0), to_timestamp(end_ms / 1000.0)
    FROM telemetry_batch
    WHERE start_ms IS NOT NULL
) AS kept
GROUP BY node_id
"""

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
        cursor.execute(JUDGE_AGAIN)


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


class Migration(migrations.Migration):

    dependencies = [
        ('inventory', '0006_one_row_per_gpu_and_node'),
        ('telemetry', '0006_chunks_to_join'),
    ]

    operations = [migrations.RunPython(give_back, migrations.RunPython.noop)]

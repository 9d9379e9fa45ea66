"""Batches as agents send them; a test names only what it is about."""

import gzip
import json
from datetime import UTC, datetime
from types import SimpleNamespace

from agent import packed, wire
from agent.sending.payloads import GZIP_JSON, PACKED
from fleetwatch.ingest.tokens import create_agent_token
from fleetwatch.lib.intervals import to_ms

NOW = datetime(2026, 11, 20, 12, 0, tzinfo=UTC)
NOW_MS = to_ms(NOW)
BEGIN = NOW_MS - 3 * 3_600_000  # of the minutes of step()
T0 = NOW_MS - 600_000  # 11:50
ZLIB_MAGIC = b"x"


def gpu(uuid="GPU-1", **facts):
    return {
        "uuid": uuid,
        "index": 0,
        "model": "NVIDIA H100 80GB HBM3",
        "memory_total_bytes": 85520809984,
        "power_limit_w": 700.0,
        **facts,
    }


def job(key="slurm/della/1", **facts):
    scheduler, cluster, number = key.split("/", 2)
    return {
        "key": key,
        "scheduler": scheduler,
        "cluster": cluster,
        "id": number,
        "user": "ann",
        "account": "nlp",
        **facts,
    }


def holding(*jobs, **facts):
    """Jobs that hold the batch's first GPU, as Slurm's books have it; `facts` of the
    allocations.
    """
    return {
        "jobs": list(jobs),
        "allocations": [
            {"gpu": 0, "job": place, "source": "slurm", **facts} for place in range(len(jobs))
        ],
    }


def payload(*, node="n1", start_ms=T0, count=3, gpus=None, **keys):
    """The JSON object of a batch: `count` windows of 10 s for every GPU from `start_ms` on."""
    gpus = [gpu()] if gpus is None else gpus
    cells = [
        (place, start_ms + step * 10_000) for step in range(count) for place in range(len(gpus))
    ]
    batch = {
        "version": 1,
        "node": node,
        "boot_id": "boot-1",
        "boot_start_ms": T0 - 3_600_000,
        "sequence": 1,
        "window_s": 10,
        "gpus": gpus,
        "windows": {
            "gpu": [place for place, _ in cells],
            "start_ms": [start for _, start in cells],
            "observed_ms": [10_000] * len(cells),
            "util_mean": [0.5] * len(cells),
        },
    }
    return batch | keys


def batch(**keys):
    """The parsed batch."""
    return wire.parse(payload(**keys))


def pack(mapping):
    """The body in which an agent sends it; as JSON what can't be packed."""
    tables = {name: mapping.get(name) or {} for name in packed.TABLES}
    try:
        return packed.pack(SimpleNamespace(**mapping | tables))
    except (AttributeError, KeyError, TypeError, ValueError):
        return as_json(mapping)


def as_json(mapping):
    """The body in which earlier agents send it."""
    return gzip.compress(json.dumps(mapping).encode(), mtime=0)


def token(node="n1"):
    return create_agent_token(node, NOW)


def post(client, mapping, *, bearer, **headers):
    """The answer to the batch, sent as agents send it."""
    body = mapping if isinstance(mapping, bytes) else pack(mapping)
    form = PACKED if body[:1] == ZLIB_MAGIC else GZIP_JSON
    given = {
        name.lower(): value for name, value in {"authorization": f"Bearer {bearer}", **form}.items()
    } | {name.replace("_", "-"): value for name, value in headers.items()}
    return client.post(
        "/api/v1/batches",
        body,
        content_type=given.pop("content-type"),
        headers={k: v for k, v in given.items() if v is not None},
    )


def step(number, **keys):
    """The node's batch of the minute `number`."""
    return payload(**{"sequence": number, "start_ms": BEGIN + number * 60_000, "count": 6, **keys})

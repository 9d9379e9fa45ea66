"""POST /api/v1/batches, as docs/wire.md says it."""

import gzip
import json
import zlib

import numpy as np
import pytest
import time_machine
from django.apps import apps
from django.db import OperationalError, connection
from psycopg import errors

from agent import packed
from agent.sending.payloads import batch_of
from fleetwatch.ingest.models import AgentToken
from fleetwatch.ingest.tokens import revoke_agent_token
from fleetwatch.inventory.models import GPU, Node
from fleetwatch.operations import disk
from fleetwatch.telemetry import frames
from fleetwatch.telemetry.models import Batch, ReceivedSequence, SealMark, TouchedHour
from tests.ingest.factories import NOW, NOW_MS, T0, as_json, batch, gpu, pack, payload, post, token
from tests.ingest.wsgi import DoorClient

MINUTE = 60_000
pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("clock")]


@pytest.fixture(params=["django", "door"])
def client(request, client):
    """Django's view alone, and behind the door: one contract."""
    return client if request.param == "django" else DoorClient()


def counts():
    """How many rows every table holds."""
    tables = [
        model._meta.db_table
        for model in apps.get_models()
        if model._meta.db_table != "costs_gpurate"
    ]
    with connection.cursor() as cursor:
        cursor.execute(
            " UNION ALL ".join(f"SELECT '{table}', count(*) FROM {table}" for table in tables)
        )
        return dict(cursor.fetchall())


def test_a_batch_is_stored_once_and_answered_as_agreed(client):
    bearer = token()

    first = post(client, payload(), bearer=bearer)
    after_first = counts()
    second = post(client, payload(), bearer=bearer)

    assert first.status_code == 200
    assert first.json() == {"stored": 3, "duplicate": 0, "next_flush_s": 30, "actions": []}
    assert second.json() == {"stored": 0, "duplicate": 1, "next_flush_s": 30, "actions": []}
    assert counts() == after_first
    assert Batch.objects.count() == 1


def test_the_payload_is_kept_as_it_came(client):
    body = pack(payload())

    post(client, body, bearer=token())

    assert bytes(Batch.objects.get().payload) == body


@pytest.mark.parametrize(
    ("body", "headers"),
    [
        (as_json(payload()), {}),
        (json.dumps(payload()).encode(), {"content_encoding": None}),
        (
            zlib.decompress(pack(payload())),
            {"content_type": packed.CONTENT_TYPE, "content_encoding": "identity"},
        ),
    ],
    ids=["gzip JSON", "plain JSON", "packed, not deflated"],
)
def test_whatever_form_a_batch_has_it_is_kept_packed(client, body, headers):
    answer = post(client, body, bearer=token(), **headers)

    assert answer.status_code == 200
    assert batch_of(bytes(Batch.objects.get().payload)) == batch()


def test_a_packed_column_of_a_newer_agent_is_stepped_over_and_the_rest_is_stored(client):
    """As an older hub has job_memory_bytes: its place is beyond the names that it knows."""
    windows = payload()["windows"] | {"job_memory_bytes": [7, 7, 7]}
    content = zlib.decompress(pack(payload(windows=windows)))
    known = packed.COLUMN.pack(packed.PLACES["job_memory_bytes"], 0, 7, 1)
    newer = packed.COLUMN.pack(len(packed.NAMES), 0, 7, 1)
    assert content.count(known) == 1

    answer = post(client, zlib.compress(content.replace(known, newer)), bearer=token())

    assert answer.json()["stored"] == 3
    node = Node.objects.get()
    frame = frames.read_windows(node.pk, T0, T0 + 30_000, ["util_mean", "job_memory_bytes"])
    assert frame.columns["util_mean"].tolist() == [0.5, 0.5, 0.5]
    assert np.isnan(frame.columns["job_memory_bytes"]).all()


def test_the_answer_says_which_forms_are_taken(client):
    answer = post(client, payload(), bearer=token())

    assert answer.headers["Accept-Post"] == f"application/json, {packed.CONTENT_TYPE}"


TOO_MANY = packed.HEAD.pack(packed.MAGIC, 2) + b"{}" + packed.TABLE.pack(1, 2**21 + 1, 1)


def refused_cases():
    good = payload()
    bomb = zlib.compressobj(9, zlib.DEFLATED, 31)
    bomb = b"".join([bomb.compress(b" " * 1_000_000) for _ in range(20)] + [bomb.flush()])
    return {
        "no token": (401, good, {"authorization": None}),
        "another scheme": (401, good, {"authorization": "Basic abc"}),
        "unknown token": (401, good, {"authorization": "Bearer fw_unknown"}),
        "token of another node": (403, payload(node="n2"), {}),
        "too many bytes": (413, b"x" * (8 * 1024 * 1024 + 1), {}),
        "too many bytes as they are": (
            413,
            b" " * (8 * 1024 * 1024 + 1),
            {"content_encoding": None},
        ),
        "a gzip bomb": (413, bomb, {}),
        "no gzip": (422, b"{}", {}),
        "a gzip cut off": (422, as_json(good)[:-5], {}),
        "something after the gzip": (422, as_json(good) + b"x", {}),
        "a deflate cut off": (422, pack(good)[:-5], {}),
        "a deflate bomb": (413, zlib.compress(b" " * 20_000_000), {}),
        "no packed batch": (422, zlib.compress(b"{}"), {}),
        "a packed batch cut off": (422, zlib.compress(zlib.decompress(pack(good))[:-9]), {}),
        "too many values in a table": (413, zlib.compress(TOO_MANY), {}),
        "a packed batch as JSON": (422, pack(good), {"content_type": "application/json"}),
        "an unknown encoding": (422, good, {"content_encoding": "br"}),
        "no JSON": (422, gzip.compress(b"{"), {}),
        "nothing": (422, gzip.compress(b""), {}),
        "no UTF-8": (422, gzip.compress(b'{"node": "\xff"}'), {}),
        "a JSON depth bomb": (422, gzip.compress(b"[" * 200_000 + b"]" * 200_000), {}),
        "a depth bomb in an ignored key": (
            422,
            gzip.compress(b'{"x":' + b"[" * 200_000 + b"]" * 200_000 + b"}"),
            {},
        ),
        "no object": (422, gzip.compress(b"[1]"), {}),
        "a form": (422, good, {"content_type": "application/x-www-form-urlencoded"}),
        "a wrong clock header": (422, good, {"x_fleetwatch_sent_ms": "yesterday"}),
        "an endless clock header": (422, good, {"x_fleetwatch_sent_ms": "9" * 5000}),
        "a wrong clock of ours": (422, good, {"x_fleetwatch_hub_ms": "-1"}),
        "a missing key": (422, {key: value for key, value in good.items() if key != "boot_id"}, {}),
        "a ratio above 1": (
            422,
            payload(windows=payload()["windows"] | {"util_mean": [7.0] * 3}),
            {},
        ),
    }


REFUSED = refused_cases()


@pytest.mark.parametrize("case", REFUSED)
def test_a_refused_batch_leaves_nothing_behind(client, case):
    status, body, headers = REFUSED[case]
    bearer = token()
    before = counts()

    answer = post(client, body, bearer=bearer, **headers)

    assert answer.status_code == status
    assert set(answer.json()) == {"error", "field"}
    assert answer.json()["error"]
    assert counts() == before


def test_a_refusal_names_the_field(client):
    answer = post(client, payload(window_s=0), bearer=token())

    assert answer.json()["field"] == "window_s"


def test_who_may_not_enter_is_told_so_before_anything_is_read(client):
    answer = post(client, b"x" * (9 * 1024 * 1024), bearer="fw_unknown")

    assert answer.status_code == 401


def test_a_revoked_token_is_refused(client):
    bearer = token()
    revoke_agent_token(AgentToken.objects.get().pk, NOW)

    assert post(client, payload(), bearer=bearer).status_code == 401


def test_a_get_is_not_allowed(client):
    assert client.get("/api/v1/batches").status_code == 405


def test_a_gpu_that_another_node_is_reporting_costs_its_own_windows_and_not_the_batch(client):
    post(client, payload(node="n1"), bearer=token("n1"))

    answer = post(client, payload(node="n2", gpus=[gpu("GPU-1"), gpu("GPU-2")]), bearer=token("n2"))

    assert (answer.status_code, answer.json()["stored"]) == (200, 3)
    [refused] = answer.json()["refused"]
    assert refused["gpu"] == "GPU-1"
    assert "node n1 reports this GPU too" in refused["why"]
    assert list(
        GPU.objects.filter(first_ms__isnull=False)
        .order_by("uuid")
        .values_list("uuid", "node__name")
    ) == [
        ("GPU-1", "n1"),
        ("GPU-2", "n2"),
    ]


def test_a_batch_that_is_partly_believed_says_how_many_windows_are_stored(client):
    post(client, payload(node="n1", start_ms=NOW_MS - 40 * MINUTE, count=60), bearer=token("n1"))
    thief = token("n2")
    post(client, payload(node="n2", start_ms=NOW_MS - 20 * MINUTE, count=12), bearer=thief)

    # of n1's ten minutes until 30 minutes ago six windows are new to n2 and six n1's own
    answer = post(
        client,
        payload(node="n2", sequence=2, start_ms=NOW_MS - 31 * MINUTE, count=12),
        bearer=thief,
    )

    assert answer.json()["stored"] == 6
    assert [refused["gpu"] for refused in answer.json()["refused"]] == ["GPU-1"]


def test_a_database_that_is_away_is_503_with_retry_after(client, monkeypatch):
    bearer = token()

    def away(*args, **keywords):
        raise OperationalError("connection refused")

    monkeypatch.setattr(
        "fleetwatch.ingest.tokens.AgentToken.objects", type("Away", (), {"select_related": away})()
    )
    answer = post(client, payload(), bearer=bearer)

    assert answer.status_code == 503
    assert int(answer["Retry-After"]) > 0


def test_a_failure_at_the_last_step_leaves_nothing_behind(client, monkeypatch):
    bearer = token()
    before = counts()

    def fail(*args, **keywords):
        raise OperationalError("the server closed the connection unexpectedly")

    monkeypatch.setattr("fleetwatch.telemetry.services.append_batch", fail)
    answer = post(client, payload(), bearer=bearer)

    assert answer.status_code == 503
    assert counts() == before


def test_a_future_batch_is_quarantined_kept_but_not_used(client):
    answer = post(client, payload(start_ms=NOW_MS + 300_000 - 29_999), bearer=token())

    assert answer.json() == {"stored": 3, "duplicate": 0, "next_flush_s": 30, "actions": []}
    assert Batch.objects.get().quarantined
    assert (GPU.objects.count(), TouchedHour.objects.count(), SealMark.objects.count()) == (0, 0, 0)
    assert Node.objects.get().last_ms is None


def test_five_minutes_ahead_is_still_believed(client):
    post(client, payload(start_ms=NOW_MS + 300_000 - 30_000), bearer=token())

    assert not Batch.objects.get().quarantined
    assert Node.objects.get().last_ms == NOW_MS + 300_000


def test_a_clock_that_was_never_set_is_quarantined(client):
    post(client, payload(start_ms=60_000), bearer=token())

    assert Batch.objects.get().quarantined


def test_a_clock_that_is_two_seconds_off_is_left_alone(client):
    post(client, payload(), bearer=token(), x_fleetwatch_sent_ms=str(NOW_MS - 2000))

    assert Batch.objects.get().offset_ms == 0
    assert Node.objects.get().clock_offset_ms == 0


def test_a_clock_that_is_further_off_is_corrected_and_flagged(client):
    post(
        client,
        payload(start_ms=T0 - 7_200_000),
        bearer=token(),
        x_fleetwatch_sent_ms=str(NOW_MS - 7_200_000),
    )

    assert Batch.objects.get().offset_ms == 7_200_000
    assert Node.objects.get().clock_offset_ms == 7_200_000
    assert (GPU.objects.get().first_ms, GPU.objects.get().last_ms) == (T0, T0 + 30_000)


@pytest.mark.parametrize(
    ("known_ms", "offset_ms"), [(-1_000, 0), (0, 0), (2_000, 0), (2_001, 2_001)]
)
def test_a_batch_that_was_slow_on_its_way_is_no_clock_that_is_off(client, known_ms, offset_ms):
    sent_ms = NOW_MS - 7_800

    post(
        client,
        payload(),
        bearer=token(),
        x_fleetwatch_sent_ms=str(sent_ms),
        x_fleetwatch_hub_ms=str(sent_ms + known_ms),
    )

    assert Batch.objects.get().offset_ms == offset_ms
    assert Node.objects.get().clock_offset_ms == offset_ms


def test_a_clock_that_is_behind_is_corrected_on_a_slow_way_too(client):
    sent_ms = NOW_MS - 7_207_800

    post(
        client,
        payload(start_ms=T0 - 7_200_000),
        bearer=token(),
        x_fleetwatch_sent_ms=str(sent_ms),
        x_fleetwatch_hub_ms=str(sent_ms + 7_200_000),
    )

    assert Batch.objects.get().offset_ms == 7_200_000


def test_a_clock_that_was_set_right_since_the_last_answer_is_left_alone(client):
    post(
        client,
        payload(),
        bearer=token(),
        x_fleetwatch_sent_ms=str(NOW_MS - 50),
        x_fleetwatch_hub_ms=str(NOW_MS + 7_200_000),
    )

    assert Batch.objects.get().offset_ms == 0


def test_the_correction_of_a_boot_does_not_jitter(client):
    bearer = token()
    post(client, payload(), bearer=bearer, x_fleetwatch_sent_ms=str(NOW_MS - 10_000))
    post(
        client,
        payload(sequence=2, start_ms=T0 + 30_000),
        bearer=bearer,
        x_fleetwatch_sent_ms=str(NOW_MS - 11_500),
    )

    assert list(Batch.objects.values_list("offset_ms", flat=True)) == [10_000, 10_000]
    assert ReceivedSequence.objects.get().clock_offset_ms == 10_000


def test_a_batch_without_windows_is_a_sign_of_life(client):
    empty = {"gpu": [], "start_ms": [], "observed_ms": []}

    answer = post(
        client, payload(windows=empty, host={"start_ms": [T0], "cpu_ratio": [0.5]}), bearer=token()
    )

    assert answer.json()["stored"] == 0
    assert Node.objects.get().last_ms == T0 + 10_000


def test_everything_a_batch_can_hold_is_stored(client):
    mapping = payload(
        gpus=[gpu("GPU-1"), gpu("GPU-2", index=1)],
        sources=[{"kind": "slurm", "ok": True}],
        jobs=[
            {
                "key": "slurm/della/1",
                "scheduler": "slurm",
                "cluster": "della",
                "id": "1",
                "account": "nlp",
                "kind": "batch",
            }
        ],
        allocations=[
            {
                "gpu": 0,
                "job": 0,
                "start_ms": T0 - 1000,
                "end_ms": None,
                "source": "slurm",
                "share": 1.0,
            }
        ],
        processes=[
            {
                "gpu": 0,
                "job": 0,
                "pid": 7,
                "started_ms": T0,
                "user": "ann",
                "name": "python",
                "state": "S",
                "memory_bytes": 5,
            }
        ],
        events=[
            {"gpu": 1, "at_ms": T0 + 5, "kind": "xid", "code": 79, "text": "fallen off the bus"}
        ],
        host={"start_ms": [T0], "cpu_ratio": [0.4]},
    )

    answer = post(client, mapping, bearer=token())

    assert answer.json()["stored"] == 6
    rows = counts()
    assert (
        rows["jobs_job"],
        rows["jobs_allocation"],
        rows["jobs_sourcereport"],
        rows["jobs_gpuprocess"],
    ) == (1, 1, 1, 1)
    assert (rows["telemetry_healthevent"], rows["accounts_team"], rows["inventory_gpu"]) == (
        1,
        1,
        2,
    )


def test_the_use_of_a_token_is_noted_every_five_minutes(client):
    bearer = token()
    post(client, payload(), bearer=bearer)
    with time_machine.travel(NOW_MS / 1000 + 299, tick=False):
        post(client, payload(sequence=2), bearer=bearer)
        early = AgentToken.objects.get().last_used_at
    with time_machine.travel(NOW_MS / 1000 + 300, tick=False):
        post(client, payload(sequence=3), bearer=bearer)

    assert early == NOW
    assert (AgentToken.objects.get().last_used_at - NOW).total_seconds() == 300


def test_a_disk_that_postgres_calls_full_is_said_to_the_sender_and_by_readyz(client, settings):
    settings.DATABASE_FOLDER = None
    bearer = token()

    def full(execute, sql, params, many, context):
        if sql.lstrip().startswith("INSERT"):
            raise OperationalError("could not extend file") from errors.DiskFull()
        return execute(sql, params, many, context)

    with connection.execute_wrapper(full):
        answer = post(client, payload(), bearer=bearer)
    ready = client.get("/readyz")
    disk.refusals.forget()

    assert (answer.status_code, answer.json()["error"]) == (503, "the disk of the database is full")
    assert (ready.status_code, ready.json()["reason"]) == (503, "the disk of the database is full")
    assert not Batch.objects.exists()

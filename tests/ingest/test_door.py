"""The door in front of Django: the same rows and answers as Django's view alone, by a
shorter way.
"""

import zlib
from datetime import timedelta

import pytest
import time_machine

from agent import packed
from fleetwatch.ingest import door
from fleetwatch.ingest.models import AgentToken
from fleetwatch.ingest.services import bill_silent_nodes, remove_node, retire_silent_gpus
from fleetwatch.ingest.tokens import revoke_agent_token
from fleetwatch.inventory.models import GPU, Node, Stay
from fleetwatch.inventory.services import retire
from fleetwatch.jobs.models import (
    GPUProcess,
)
from fleetwatch.ledger import services as ledger
from fleetwatch.ledger.judgement_inputs import capacities
from fleetwatch.ledger.models import Entry
from fleetwatch.lib.intervals import from_ms
from fleetwatch.telemetry import hot
from fleetwatch.telemetry.models import Batch, ReceivedSequence
from tests.ingest.factories import BEGIN, NOW, NOW_MS, gpu, pack, post, step, token
from tests.ingest.wsgi import DoorClient
from tests.ledger.balance import unbalanced

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("clock")]
UNHEARD = ("missing", "silent")


@pytest.fixture
def client():
    return DoorClient()


def test_the_second_batch_of_a_node_comes_the_short_way(client):
    bearer = token()

    answers = [post(client, step(number), bearer=bearer).json() for number in range(3)]

    assert answers == [{"stored": 6, "duplicate": 0, "next_flush_s": 30, "actions": []}] * 3
    assert (client.long, client.short) == (1, 2)
    assert Batch.objects.count() == 3
    assert ReceivedSequence.objects.get().received == [(0, 3)]
    assert GPU.objects.select_related("node").get().newest_ms == BEGIN + 180_000
    assert Node.objects.get().last_ms == BEGIN + 180_000


@pytest.mark.parametrize(
    ("keys", "headers"),
    [
        ({"gpus": [gpu(power_limit_w=500.0)]}, {}),
        ({"gpus": [gpu(), gpu("GPU-2")]}, {}),
        ({"node_labels": {"rack": "7"}}, {}),
        ({"boot_id": "boot-2", "boot_start_ms": BEGIN}, {}),
        ({"window_s": 20}, {}),
        ({"events": [{"gpu": 0, "at_ms": BEGIN, "kind": "xid"}]}, {}),
        ({"a_newer_agent": 1}, {}),
        ({"start_ms": NOW_MS + 3_600_000}, {}),
        ({"start_ms": 0}, {}),
        ({"sequence": 0}, {}),
        ({}, {"x_fleetwatch_sent_ms": str(NOW_MS - 2001)}),
        ({}, {"x_fleetwatch_sent_ms": "yesterday"}),
        ({}, {"host": "127.0.0.1"}),
    ],
)
def test_what_does_more_than_continue_goes_the_long_way(client, keys, headers):
    bearer = token()
    post(client, step(0), bearer=bearer)

    post(client, step(1, **keys), bearer=bearer, **headers)

    assert (client.long, client.short) == (2, 0)


def test_what_was_said_last_is_what_is_continued(client):
    bearer = token()
    post(client, step(0), bearer=bearer)
    post(client, step(1, gpus=[gpu(power_limit_w=500.0)]), bearer=bearer)

    post(client, step(2, gpus=[gpu(power_limit_w=500.0)]), bearer=bearer)

    assert client.short == 1
    assert GPU.objects.get().power_limit_w == 500.0


def test_another_process_that_learned_something_else_is_noticed(client):
    other, bearer = DoorClient(), token()
    post(client, step(0), bearer=bearer)
    post(other, step(1, gpus=[gpu(power_limit_w=500.0)]), bearer=bearer)

    post(client, step(2), bearer=bearer)

    assert client.short == 0
    assert GPU.objects.get().power_limit_w == 700.0


@pytest.mark.parametrize("cases", [("lower", "upper"), ("upper", "lower")])
def test_a_uuid_in_another_case_is_the_same_gpu_stored_hot_and_by_the_short_way(client, cases):
    uuid = "GPU-0a1b2c3d-aaaa-bbbb-cccc-dddddddddddd"
    written = {"lower": uuid, "upper": uuid.upper()}
    bearer = token()
    for number in range(6):
        written_as = written[cases[number // 3]]
        assert (
            post(client, step(number, gpus=[gpu(written_as)]), bearer=bearer).json()["stored"] == 6
        )

    [row] = GPU.objects.all()
    span = (BEGIN, BEGIN + 3_600_000)
    windows = hot.unsealed([row.node_id], span, [], ends_after_ms=0)[row.node_id].windows
    assert (row.uuid, client.short) == (uuid, 4)
    assert set(windows["gpu_id"].tolist()) == {row.pk}
    assert len(windows["start_ms"]) == 36


def test_processes_share_what_they_learned_of_the_same_facts(client):
    other, bearer = DoorClient(), token()
    for number in range(2):
        post((client, other)[number], step(number), bearer=bearer)

    for number in range(2, 6):
        post((client, other)[number % 2], step(number), bearer=bearer)

    assert (client.short, other.short) == (2, 2)


def test_a_process_that_another_web_process_stored_goes_when_the_next_batch_has_none(client):
    bearer, other = token(), DoorClient()
    process = {"gpu": 0, "pid": 7, "name": "python"}
    for number, door_used in enumerate((client, other, client, client)):
        mapping = step(number)
        mapping["windows"]["process_count"] = [0] * 6
        post(door_used, mapping, bearer=bearer)
    post(other, step(4, processes=[process]), bearer=bearer)
    assert GPUProcess.objects.count() == 1

    gone = step(5)
    gone["windows"]["process_count"] = [0] * 6
    post(client, gone, bearer=bearer)

    assert GPUProcess.objects.count() == 0
    assert (client.short, other.short) == (3, 1)


def test_a_revoked_token_is_refused_at_once_also_where_it_was_known(client):
    bearer, other = token(), token()
    post(client, step(0), bearer=bearer)
    post(client, step(1), bearer=bearer)
    revoke_agent_token(AgentToken.objects.earliest("pk").pk, NOW)

    refused = post(client, step(2), bearer=bearer)
    post(client, step(3), bearer=other)
    still = post(client, step(4), bearer=bearer)

    assert (refused.status_code, still.status_code) == (401, 401)
    assert list(Batch.objects.order_by("id").values_list("sequence", flat=True)) == [0, 1, 3]


def test_a_gpu_retired_by_hand_comes_back_by_the_long_way(client):
    bearer = token()
    post(client, step(0), bearer=bearer)
    retire(GPU.objects.get(), from_ms(BEGIN + 30_000))

    post(client, step(1), bearer=bearer)

    assert client.short == 0
    assert GPU.objects.get().retired_ms is None


def test_a_gpu_that_moved_away_is_not_continued_where_it_was(client):
    bearer, other = token("n1"), token("n2")
    post(client, step(0), bearer=bearer)
    post(client, step(2, node="n2"), bearer=other)

    answer = post(client, step(3), bearer=bearer)

    assert client.short == 0
    assert answer.status_code in (200, 422)


def test_a_mig_instance_keeps_its_parent_alive(client):
    bearer, parts = (
        token(),
        [gpu("GPU-1"), gpu("MIG-1", parent_uuid="GPU-1", mig_profile="1g.10gb")],
    )
    post(client, step(0, gpus=parts), bearer=bearer)
    only_the_part = step(1, gpus=parts)
    only_the_part["windows"] = {
        name: values[1::2] for name, values in only_the_part["windows"].items()
    }

    post(client, only_the_part, bearer=bearer)

    assert client.short == 1
    assert {gpu.newest_ms for gpu in GPU.objects.select_related("node")} == {BEGIN + 120_000}


def test_a_gpu_moves_from_where_the_short_way_has_brought_it(client):
    bearer, other = token("n1"), token("n2")
    for number in range(3):
        post(client, step(number), bearer=bearer)

    same_time = post(client, step(2, node="n2"), bearer=other)
    post(client, step(3, node="n2", sequence=9), bearer=other)

    assert client.short == 2
    assert [refused["gpu"] for refused in same_time.json()["refused"]] == ["GPU-1"]
    former = GPU.objects.get(node__name="n1")
    assert (former.last_ms, former.retired_ms) == (BEGIN + 180_000, BEGIN + 180_000)
    assert GPU.objects.get(node__name="n2").first_ms == BEGIN + 180_000


def test_where_a_gpu_has_no_last_window_its_own_row_says_so(client):
    bearer, both = token(), [gpu(), gpu("GPU-2")]
    post(client, step(0, gpus=both), bearer=bearer)
    post(client, step(1, gpus=both), bearer=bearer)
    silent = step(2, gpus=both)
    silent["windows"] = {name: values[:-1] for name, values in silent["windows"].items()}

    post(client, silent, bearer=bearer)
    post(client, step(3, gpus=both), bearer=bearer)

    assert (client.long, client.short) == (2, 2)
    assert set(GPU.objects.values_list("uuid", "last_ms")) == {
        ("GPU-1", BEGIN + 180_000),
        ("GPU-2", BEGIN + 170_000),
    }
    assert {each.newest_ms for each in GPU.objects.select_related("node")} == {BEGIN + 240_000}


def test_a_gpu_whose_node_speaks_for_it_is_not_silent(client):
    bearer = token()
    post(client, step(0), bearer=bearer)
    GPU.objects.update(last_ms=BEGIN - 8 * 86_400_000)
    post(client, step(1), bearer=bearer)

    assert retire_silent_gpus(NOW) == {"retired": 0}
    assert client.short == 1


def test_a_silence_on_the_bill_ends_by_the_short_way_too(client):
    bearer, minute = token(), 60_000
    for number in range(2):
        post(client, step(number, start_ms=NOW_MS - (20 - number) * minute), bearer=bearer)
    bill_silent_nodes(NOW - timedelta(minutes=12))
    ledger.post(NOW, 1000)
    silent = dict(Entry.objects.filter(reason__in=UNHEARD).values_list("reason", "gpu_ms"))

    post(client, step(2, start_ms=NOW_MS - 10 * minute), bearer=bearer)
    ledger.post(NOW, 1000)

    assert client.short == 2
    assert silent == {"silent": 5 * minute}
    assert dict(Entry.objects.filter(reason__in=UNHEARD).values_list("reason", "gpu_ms")) == {
        "missing": 8 * minute
    }
    assert unbalanced(NOW - timedelta(hours=2), NOW + timedelta(hours=1), now=NOW) == []


@pytest.mark.parametrize("late_ms", [3_600_000 - 1, 3_600_000, 7_000_000])
@pytest.mark.parametrize("was_live", [True, False])
def test_who_catches_up_by_the_short_way_is_silent_where_it_was_live(client, was_live, late_ms):
    bearer, hour = token(), 3_600_000
    for number in range(2):
        with time_machine.travel(from_ms(BEGIN + 120_000 + hour * (not was_live)), tick=False):
            post(client, step(number), bearer=bearer)
    for number in range(2, 4):
        with time_machine.travel(from_ms(BEGIN + 240_000 + late_ms), tick=False):
            post(client, step(number), bearer=bearer)

    is_live = was_live or late_ms < hour
    assert client.short == 3
    assert bill_silent_nodes(NOW)["nodes"] == is_live
    assert Node.objects.get().live_ms == (NOW_MS - 60_000 if is_live else BEGIN + 240_000)


def test_a_node_that_was_removed_comes_back_the_long_way(client):
    bearer, minute = token(), 60_000
    for number in range(2):
        post(client, step(number, start_ms=NOW_MS - (40 - number) * minute), bearer=bearer)
    remove_node("n1", reason="sold", by="ann", now=NOW - timedelta(minutes=20))
    gone = GPU.objects.get().retired_ms

    post(client, step(2, start_ms=NOW_MS - minute), bearer=bearer)
    ledger.post(NOW, 1000)

    assert (gone, GPU.objects.get().retired_ms) == (NOW_MS - 38 * minute, None)
    assert (client.long, client.short) == (2, 1)
    assert not Entry.objects.filter(reason__in=UNHEARD).exists()
    assert unbalanced(NOW - timedelta(hours=2), NOW + timedelta(hours=1), now=NOW) == []


def test_the_part_of_a_gpu_is_capacity_to_its_last_window_by_the_short_way_too(client):
    bearer, parts = (
        token(),
        [gpu("GPU-1"), gpu("MIG-1", parent_uuid="GPU-1", mig_profile="1g.10gb")],
    )
    for number in range(2):
        post(client, step(number, gpus=parts), bearer=bearer)

    found = {
        capacity.parent_id is None: capacity.end_ms for capacity in capacities(Node.objects.get())
    }

    assert client.short == 1
    assert found == {True: BEGIN + 120_000, False: BEGIN + 120_000}


@pytest.mark.django_db(transaction=True)  # the group's statement is one of its own
def test_what_can_not_be_stored_together_is_stored_alone(client, monkeypatch):
    bearer = token()
    post(client, step(0), bearer=bearer)
    monkeypatch.setattr("fleetwatch.ingest.continued_rows.CONTINUE", "SELECT 1 / 0")

    answer = post(client, step(1), bearer=bearer)

    assert answer.json()["stored"] == 6
    assert (client.long, client.short) == (2, 0)
    assert Batch.objects.count() == 2


def test_a_large_body_keeps_no_group_waiting(client, monkeypatch):
    bearer, body = token(), pack(step(1))
    post(client, step(0), bearer=bearer)
    monkeypatch.setattr(door, "MAX_PACKED", len(body) - 1)

    post(client, body, bearer=bearer)

    assert (client.long, client.short) == (2, 0)


def test_what_inflates_to_much_is_held_by_no_group(client, monkeypatch):
    bearer, body = token(), pack(step(1))
    post(client, step(0), bearer=bearer)
    monkeypatch.setattr(door, "MAX_INFLATED", len(zlib.decompress(body)) - 1)

    answer = post(client, body, bearer=bearer)

    assert answer.json()["stored"] == 6
    assert (client.long, client.short) == (2, 0)


def test_of_a_group_only_what_is_valid_and_continues_is_stored(client):
    bearers = {node: token(node) for node in ("n1", "n2", "n3")}
    for node, bearer in bearers.items():
        post(client, step(0, node=node, gpus=[gpu(f"GPU-{node}")]), bearer=bearer)
    senders = {sender.facts.node: sender for sender in client.door._senders.values()}
    bodies = [
        ("n1", pack(step(1, node="n1", gpus=[gpu("GPU-n1")]))),
        ("n2", b"no gzip"),
        ("n1", pack(step(2, node="n1", gpus=[gpu("GPU-n1")]))),
        ("n3", pack(step(1, node="n3", gpus=[gpu("GPU-n3", power_limit_w=1.0)]))),
        ("n2", pack(step(1, node="n2", gpus=[gpu("GPU-n2")], count=3))),
    ]

    stored = door.store_group(
        [door.Offered(senders[node], body, NOW, is_use_due=False) for node, body in bodies]
    )

    assert stored == [6, 0, 0, 0, 3]
    assert Batch.objects.count() == 5


@pytest.mark.django_db(transaction=True)  # the group's statement is one of its own
@pytest.mark.parametrize("number", [b"1e-20000", b"0E-99999", b"0." + b"0" * 20_000 + b"1"])
def test_a_number_that_can_t_be_kept_as_written_keeps_no_group_from_being_stored(client, number):
    bearers = {node: token(node) for node in ("n1", "n2")}
    for node, bearer in bearers.items():
        post(client, step(0, node=node, gpus=[gpu(f"GPU-{node}")]), bearer=bearer)
    senders = {sender.facts.node: sender for sender in client.door._senders.values()}
    usual, strange = (
        pack(step(1, node=node, gpus=[gpu(f"GPU-{node}")], agent={"cpu_s": 0.75}))
        for node in bearers
    )
    text, place = packed.rest_of(zlib.decompress(strange))
    rest = zlib.decompress(strange)[place:]
    text = text.replace(b"0.75", number)
    strange = zlib.compress(packed.HEAD.pack(packed.MAGIC, len(text)) + text + rest)

    stored = door.store_group(
        [
            door.Offered(senders[node], body, NOW, is_use_due=False)
            for node, body in (("n1", usual), ("n2", strange))
        ]
    )

    assert stored == [6, 6]
    assert [node.agent for node in Node.objects.order_by("name")] == [{"cpu_s": 0.75}, {"cpu_s": 0}]


def test_a_door_that_knows_too_many_forgets_who_was_not_heard_for_longest(client, monkeypatch):
    monkeypatch.setattr(door, "MAX_SENDERS", 2)
    bearers = {name: token(name) for name in ("n1", "n2", "n3")}

    def send(name, number):
        body = step(number, node=name, gpus=[gpu(f"GPU-{name}")])
        before = client.long
        post(client, body, bearer=bearers[name])
        return "long" if client.long > before else "short"

    assert [send("n1", 0), send("n2", 0), send("n1", 1)] == ["long", "long", "short"]
    assert send("n3", 0) == "long"
    assert [send("n1", 2), send("n3", 1), send("n2", 1)] == ["short", "short", "long"]


def test_a_batch_with_a_hole_of_ten_minutes_begins_a_new_stay_the_long_way(client):
    bearer = token()
    post(client, step(0), bearer=bearer)
    holed = step(1)
    holed["windows"]["start_ms"][3:] = [
        start + 600_000 for start in holed["windows"]["start_ms"][3:]
    ]

    post(client, holed, bearer=bearer)

    assert (client.long, client.short) == (2, 0)
    assert [stay.first_ms for stay in Stay.objects.order_by("first_ms")] == [BEGIN, BEGIN + 690_000]


def test_host_samples_of_an_hour_without_windows_go_the_long_way(client):
    bearer = token()
    post(client, step(0), bearer=bearer)
    before = {"start_ms": [BEGIN - 10_000], "cpu_ratio": [0.5]}

    post(client, step(1, host=before), bearer=bearer)

    assert (client.long, client.short) == (2, 0)

"""What a token may say beyond its own node, and how much that is new it may bring, at the door."""

from datetime import timedelta
from secrets import token_hex

import pytest
from django.core.management import CommandError, call_command

from agent.sending import sender
from fleetwatch.accounts.models import Team
from fleetwatch.ingest import door, tokens
from fleetwatch.ingest.models import AgentToken, Rights
from fleetwatch.ingest.tokens import create_agent_token, set_rights
from fleetwatch.inventory import intake
from fleetwatch.inventory.models import GPU, GPUModel, Intake
from fleetwatch.jobs.models import Job, JobChange, JobRecord
from fleetwatch.telemetry.models import Batch, ReceivedSequence
from tests.ingest.factories import NOW, NOW_MS, T0, gpu, holding, job, pack, payload, post, token
from tests.ingest.wsgi import DoorClient

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("clock")]
NONE = {"gpu": [], "start_ms": [], "observed_ms": []}


@pytest.fixture(params=["django", "door"])
def client(request, client):
    return client if request.param == "django" else DoorClient()


def accounting(**facts):
    ended = {"state": "FAILED", "start_ms": T0 - 5000, "end_ms": T0}
    return payload(
        gpus=[], windows=NONE, boot_id="history-1", boot_start_ms=0, jobs=[job(**(ended | facts))]
    )


def minute(number, **keys):
    return payload(sequence=number, start_ms=T0 + number * 60_000, count=6, **keys)


def test_an_import_without_the_right_is_403_says_what_to_do_and_leaves_nothing(client):
    answer = post(client, accounting(), bearer=token())

    assert (answer.status_code, answer.json()["field"]) == (403, "jobs")
    assert answer.json()["error"].endswith("manage.py create_agent_token --import n1")
    assert not any(model.objects.exists() for model in (Job, JobRecord, Batch, ReceivedSequence))
    # what `fleetwatch-agent history` prints
    said = sender._judge(sender.Answer(403, {}, answer.content)).text
    assert "manage.py create_agent_token --import n1" in said


def test_an_import_with_the_right_is_stored(client):
    bearer = create_agent_token("n1", NOW, Rights(may_import=True))

    assert post(client, accounting(), bearer=bearer).status_code == 200
    assert Job.objects.get().state == "FAILED"


def test_an_import_of_the_year_3000_is_422(client):
    bearer = create_agent_token("n1", NOW, Rights(may_import=True))

    answer = post(client, accounting(end_ms=32_503_680_000_000), bearer=bearer)

    assert (answer.status_code, answer.json()["field"]) == (422, "jobs[0].end_ms")
    assert not JobRecord.objects.exists()


def test_an_enrolled_token_has_no_rights(client):
    enrolment = tokens.create_enrollment_token(NOW, uses=1, ttl=timedelta(hours=1))
    body = b'{"node": "n1"}'
    client.post(
        "/api/v1/enroll",
        body,
        content_type="application/json",
        headers={"authorization": f"Bearer {enrolment}"},
    )

    assert AgentToken.objects.get().rights == Rights()


def test_rights_hold_from_the_next_batch_on_by_the_short_way_too(client):
    good, head = token("good"), token("head")
    mine, theirs = (
        holding(job()),
        {"jobs": [job(user="eve")], "sources": [{"kind": "slurm", "ok": True}]},
    )
    post(client, minute(0, node="good", gpus=[gpu("GPU-2")], **mine), bearer=good)
    for number in range(2):
        post(client, minute(number, node="head", **theirs), bearer=head)
    without = Job.objects.get().user

    set_rights(AgentToken.objects.get(node__name="head").pk, Rights(speaks_for="della"))
    post(client, minute(2, node="head", **theirs), bearer=head)
    given = Job.objects.get().user
    set_rights(AgentToken.objects.get(node__name="head").pk, Rights())
    post(client, minute(3, node="head", **theirs), bearer=head)

    assert (without, given) == ("ann", "eve")
    assert set(JobRecord.objects.filter(node__name="head").values_list("voice", "sequence")) == {
        (1, 3),
        (3, 2),
    }


def test_the_command_gives_rights(capsys):
    call_command("create_agent_token", "--import", "--speaks-for", "della", "n1")

    assert len(capsys.readouterr().out.split()) == 1
    assert AgentToken.objects.get().rights == Rights(may_import=True, speaks_for="della")


@pytest.mark.parametrize("name", ["a/b", "a b", "x" * 129])
def test_a_cluster_that_no_key_can_name_is_a_clear_error(name):
    with pytest.raises(CommandError, match="a cluster's name"):
        call_command("create_agent_token", "n1", "--speaks-for", name)


# --- how much that is new ---


@pytest.fixture
def small(monkeypatch):
    monkeypatch.setattr(
        intake,
        "LIMITS",
        intake.LIMITS | {"jobs": 4, "labels": 6, "teams": 3, "gpu_models": 2, "gpus": 5},
    )


def jobs(count, *, first=0, **facts):
    return holding(*(job(f"slurm/della/{first + number}", **facts) for number in range(count)))


@pytest.mark.usefixtures("small")
def test_new_jobs_are_bounded_by_node_and_hour(client, clock):
    bearer = token()
    assert post(client, minute(0, **jobs(2)), bearer=bearer).status_code == 200
    # two of them are known
    assert post(client, minute(1, **jobs(4)), bearer=bearer).status_code == 200

    refused = post(client, minute(2, **jobs(1, first=10)), bearer=bearer)
    again = post(client, minute(2, **jobs(1)), bearer=bearer)

    assert (refused.status_code, refused["Retry-After"]) == (429, "3600")
    assert refused.json() == {
        "error": "more than 4 new jobs in one hour from this node: come again later",
        "field": "jobs",
    }
    assert again.status_code == 200
    assert (Job.objects.count(), Batch.objects.count()) == (4, 3)
    clock.move_to(NOW + timedelta(hours=1))
    assert post(client, minute(3, **jobs(1, first=10)), bearer=bearer).status_code == 200
    assert Intake.objects.values_list("jobs", "hour_ms").get() == (1, NOW_MS + 3_600_000)


@pytest.mark.usefixtures("small")
def test_another_node_has_an_hour_of_its_own(client):
    assert post(client, minute(0, **jobs(4)), bearer=token()).status_code == 200

    other = minute(0, node="n2", gpus=[gpu("GPU-2")], **jobs(4, first=10))
    assert post(client, other, bearer=token("n2")).status_code == 200


@pytest.mark.usefixtures("small")
def test_a_batch_that_no_hour_can_take_is_422(client):
    answer = post(client, minute(0, **jobs(5)), bearer=token())

    assert (answer.status_code, answer.json()["field"]) == (422, "jobs")
    assert not any(model.objects.exists() for model in (Job, JobRecord, JobChange, Intake, Batch))


@pytest.mark.usefixtures("small")
def test_jobs_that_nobody_holds_count_too(client):
    claimed = {"jobs": [job(f"slurm/della/{number}") for number in range(5)]}

    assert post(client, minute(0, **claimed), bearer=token()).status_code == 422


@pytest.mark.usefixtures("small")
def test_new_teams_are_bounded(client):
    bearer = token()
    post(
        client,
        minute(
            0,
            **holding(
                *(job(f"slurm/della/{number}", account=f"team-{number}") for number in range(3))
            ),
        ),
        bearer=bearer,
    )

    answer = post(
        client, minute(1, **holding(job("slurm/della/9", account="team-9"))), bearer=bearer
    )

    assert (answer.status_code, answer.json()["error"]) == (
        429,
        "more than 3 new teams in one hour from this node: come again later",
    )
    assert Team.objects.count() == 3


@pytest.mark.usefixtures("small")
def test_new_labels_are_bounded_and_known_ones_are_free(client):
    bearer, three = token(), {"a": 1, "b": 2, "c": 3}
    for number in range(3):
        assert (
            post(client, minute(number, **jobs(2, labels=three)), bearer=bearer).status_code == 200
        )

    answer = post(client, minute(3, **jobs(1, labels={"d": 4})), bearer=bearer)

    assert (
        answer.json()["error"]
        == "more than 6 new labels of jobs in one hour from this node: come again later"
    )


@pytest.mark.usefixtures("small")
def test_new_gpu_models_are_bounded(client):
    bearer = token()
    models = [gpu(f"GPU-{number}", model=f"Made-up {number}") for number in range(3)]
    assert post(client, minute(0, gpus=models[:2]), bearer=bearer).status_code == 200

    answer = post(client, minute(1, gpus=models), bearer=bearer)

    assert (answer.status_code, answer["Retry-After"]) == (429, "3600")
    assert GPUModel.objects.filter(name__startswith="Made-up").count() == 2


@pytest.mark.usefixtures("small")
def test_new_gpus_are_bounded_and_known_ones_are_not_counted_again(client):
    bearer = token()
    five = [gpu(f"GPU-{number}") for number in range(5)]
    assert [
        post(client, minute(number, gpus=five), bearer=bearer).status_code for number in range(3)
    ] == [200] * 3

    answer = post(client, minute(3, gpus=[*five, gpu("GPU-6")]), bearer=bearer)

    assert (answer.status_code, answer["Retry-After"]) == (429, "3600")
    assert (
        answer.json()["error"]
        == "more than 5 new GPUs in one hour from this node: come again later"
    )
    assert GPU.objects.count() == 5


def test_events_are_bounded_by_node_and_hour(client, clock, monkeypatch):
    monkeypatch.setattr(intake, "LIMITS", intake.LIMITS | {"events": 4})
    bearer = token()
    faults = [
        {"gpu": 0, "at_ms": T0 + number, "kind": "xid", "code": number} for number in range(3)
    ]
    assert post(client, minute(0, events=faults), bearer=bearer).status_code == 200

    refused = post(client, minute(1, events=faults[:2]), bearer=bearer)
    fewer = post(client, minute(1, events=faults[:1]), bearer=bearer)

    assert (refused.status_code, refused["Retry-After"], refused.json()["field"]) == (
        429,
        "3600",
        "events",
    )
    assert fewer.status_code == 200
    clock.move_to(NOW + timedelta(hours=1))
    assert post(client, minute(2, events=faults), bearer=bearer).status_code == 200


def noisy(number, **keys):
    """A batch that no gzip makes small."""
    return minute(number, **keys) | {"sources": [{"kind": "x", "ok": False, "why": token_hex(150)}]}


def test_bytes_of_batches_are_bounded_by_node_and_hour_also_of_those_with_a_wrong_clock(
    client, monkeypatch
):
    monkeypatch.setattr(
        intake, "LIMITS", intake.LIMITS | {"batch_bytes": 2 * len(pack(noisy(0))) + 100}
    )
    monkeypatch.setattr(door, "MAX_SHORT_BYTES", 0)
    bearer = token()
    ahead = {"start_ms": [NOW_MS + 3_600_000] * 6}
    assert post(client, noisy(0), bearer=bearer).status_code == 200
    wrong = noisy(1)
    wrong["windows"] |= ahead
    assert post(client, wrong, bearer=bearer).status_code == 200

    refused = post(client, noisy(2), bearer=bearer)

    assert (refused.status_code, refused["Retry-After"], refused.json()["field"]) == (
        429,
        "3600",
        "windows",
    )
    assert (
        post(client, noisy(0, node="n2", gpus=[gpu("GPU-2")]), bearer=token("n2")).status_code
        == 200
    )


def test_the_short_way_takes_so_many_bytes_of_a_node_in_an_hour(monkeypatch, clock):
    client, bearer = DoorClient(), token()
    post(client, minute(0), bearer=bearer)
    monkeypatch.setattr(door, "MAX_SHORT_BYTES", 2 * len(pack(minute(1))) + 10)

    assert [post(client, minute(number), bearer=bearer).status_code for number in range(1, 5)] == [
        200
    ] * 4

    assert client.short == 2
    clock.move_to(NOW + timedelta(hours=1))
    post(client, minute(5), bearer=bearer)
    assert client.short == 3


def test_what_an_import_brought_does_not_stop_the_nodes_agent(client, monkeypatch):
    monkeypatch.setattr(intake, "LIMITS", intake.LIMITS | {"jobs": 1})
    bearer = create_agent_token("n1", NOW, Rights(may_import=True))
    many = accounting() | {"jobs": [job(f"slurm/della/{number}", end_ms=T0) for number in range(5)]}
    assert post(client, many, bearer=bearer).status_code == 200

    assert post(client, minute(1), bearer=bearer).status_code == 200


def test_an_import_may_bring_more(client, monkeypatch):
    monkeypatch.setattr(
        intake,
        "LIMITS",
        intake.LIMITS | {"jobs": 1, "labels": 1, "teams": 1, "gpu_models": 1, "gpus": 9},
    )
    monkeypatch.setattr(intake, "IMPORT_FACTOR", 3)
    bearer = create_agent_token("n1", NOW, Rights(may_import=True))
    ended = accounting()
    for count, status in ((3, 200), (4, 422)):
        ended["jobs"] = [job(f"slurm/della/{count}{number}", end_ms=T0) for number in range(count)]
        ended["sequence"] = count
        assert post(client, ended, bearer=bearer).status_code == status


def test_of_a_group_only_who_brings_too_much_is_refused(monkeypatch):
    client, bearers = DoorClient(), {node: token(node) for node in ("n1", "n2")}
    monkeypatch.setattr(
        intake,
        "LIMITS",
        intake.LIMITS | {"jobs": 1, "labels": 9, "teams": 9, "gpu_models": 9, "gpus": 9},
    )
    for number in range(2):
        for node, bearer in bearers.items():
            post(client, minute(number, node=node, gpus=[gpu(f"GPU-{node}")]), bearer=bearer)

    answers = {
        node: post(
            client,
            minute(2, node=node, gpus=[gpu(f"GPU-{node}")], **jobs(count, first=count * 10)),
            bearer=bearers[node],
        ).status_code
        for node, count in (("n1", 2), ("n2", 1))
    }

    assert answers == {"n1": 422, "n2": 200}

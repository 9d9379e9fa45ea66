"""Findings over HTTP: what readers get, who may decide, and what a stranger does not."""

import json
from datetime import timedelta

import pytest
from django.test import Client

from fleetwatch.accounts.models import ApiToken, AuditEntry, User
from fleetwatch.accounts.people import deactivate
from fleetwatch.accounts.services import create_api_token
from fleetwatch.diagnosis.models import Finding
from fleetwatch.jobs.models import GPUProcess
from fleetwatch.lib.intervals import HOUR_MS, to_ms
from tests.api.conftest import NOW
from tests.diagnosis.told import capacity, cause, finding, gpu, job, place, rate

pytestmark = pytest.mark.django_db


@pytest.fixture
def found() -> Finding:
    """An hour of one GPU at $2, of which half to all could be saved."""
    rate(valid_from=NOW - timedelta(days=40))
    cause(start=NOW - timedelta(hours=2))
    return finding(first_ms=to_ms(NOW) - 2 * HOUR_MS, last_ms=to_ms(NOW) - HOUR_MS)


def client(of: str, scope: str, *, role: str = "") -> Client:
    """With a token of somebody of the role `of`, bound to `role`."""
    user, _ = User.objects.get_or_create(username=f"{of}-1", defaults={"role": of})
    token = create_api_token(user, scope=scope, role=role, now=NOW)
    # as of a browser or curl: Django's client leaves the form token out of account unless told
    return Client(
        headers={"Authorization": f"Bearer {token}"},
        enforce_csrf_checks=True,
    )


def decide(by: Client, number: int, action: str, **asked):
    return by.post(
        f"/api/v1/findings/{number}/{action}", json.dumps(asked), content_type="application/json"
    )


def test_a_finding_has_its_waste_and_what_it_could_save(api, found):
    answer = api.get("/api/v1/findings").json()

    [row] = answer["rows"]
    assert (row["id"], row["cause"], row["job"], row["user"], row["confidence"]) == (
        found.pk,
        "idle_held",
        "slurm/della/7",
        "ann",
        "high",
    )
    assert (row["wasted_gpu_hours"], row["wasted_usd"], row["waste"]["certain"]) == (
        1.0,
        2.0,
        {"gpu_hours": 1.0, "usd": 2.0},
    )
    assert row["savings"] == {
        "low_gpu_hours": 0.5,
        "high_gpu_hours": 1.0,
        "low_usd": 1.0,
        "high_usd": 2.0,
    }
    assert answer["recoverable"] == row["savings"]
    assert answer["accepted"]["high_usd"] == 0


def test_savings_are_what_the_printed_step_saves_where_that_was_measured(api, found):
    """Half an hour of the idle hour at $2; ending all of it at once half to all of that hour."""
    Finding.objects.update(step_saved_ms=HOUR_MS // 2, step_of_ms=HOUR_MS)

    answer = api.get("/api/v1/findings").json()
    own = api.get(f"/api/v1/findings/{found.pk}").json()
    job_row = api.get("/api/v1/jobs/slurm/della/7").json()

    [row] = answer["rows"]
    by_step = {"low_gpu_hours": 0.5, "high_gpu_hours": 0.5, "low_usd": 1.0, "high_usd": 1.0}
    assert row["savings"] == answer["recoverable"] == own["savings"] == by_step
    assert job_row["savings_usd"] == [1.0, 1.0]
    assert (own["at_most"]["low_usd"], own["at_most"]["high_usd"]) == (1.0, 2.0)


def test_one_finding_says_what_to_do_even_where_its_telemetry_is_gone(api, found):
    answer = api.get(f"/api/v1/findings/{found.pk}").json()

    assert answer["evidence"] is None
    assert answer["command"] == "scancel 7"
    assert (
        answer["steps"][0]["text"] == "End the job: what it did since its last checkpoint is lost."
    )
    assert answer["next_30_days"] is None


def test_a_job_names_its_cause_and_its_savings(api, found):
    answer = api.get("/api/v1/jobs/slurm/della/7").json()

    assert answer["primary_cause"] == {
        "key": "idle_held",
        "title": "Idle: still held",
        "confidence": "high",
        "evidence": [],
    }
    assert (answer["savings_gpu_hours"], answer["savings_usd"]) == ([0.5, 1.0], [1.0, 2.0])


def test_findings_are_narrowed(api, found):
    for query, count in (
        ("cause=idle_held", 1), ("cause=hung", 0), ("status=open", 1), ("status=fixed", 0),
        ("user=ann", 1), ("job=slurm/della/8", 0),
        ("assignee=", 1), ("assignee=nobody-of-that-name", 0),
    ):  # fmt: skip
        assert len(api.get(f"/api/v1/findings?{query}").json()["rows"]) == count, query


def test_findings_are_narrowed_by_what_their_jobs_are_and_by_the_state_that_was_wasted(api, found):
    notebook = job("slurm/erie/9", kind="interactive", cluster="erie")
    cause(
        "hung", of=notebook, on=gpu(3), start=NOW - timedelta(hours=2), waste="stalled_probable_ms"
    )
    finding(notebook, "hung", first_ms=to_ms(NOW) - 2 * HOUR_MS, last_ms=to_ms(NOW) - HOUR_MS)

    for query, causes in (
        ("", ["hung", "idle_held"]), ("kind=batch", ["idle_held"]), ("kind=interactive", ["hung"]),
        ("kind=service", []),
        ("cluster=erie", ["hung"]), ("cluster=della", []), ("state=idle", ["idle_held"]),
        ("state=stalled", ["hung"]),
        ("state=underused", []), ("state=stalled&kind=batch", []),
        ("node=n1&state=stalled", ["hung"]), ("node=n2", []),
    ):  # fmt: skip
        answer = api.get(f"/api/v1/findings?{query}").json()
        assert sorted(row["cause"] for row in answer["rows"]) == causes, query
        assert answer["recoverable"]["high_usd"] == 2.0 * len(causes), query
    assert api.get("/api/v1/findings?kind=nap").status_code == 422
    assert api.get("/api/v1/findings?state=useful").status_code == 422


def test_of_machines_and_queues_a_cluster_finds_its_own_and_a_kind_none(api, found):
    when = {"start": NOW - timedelta(hours=2)}
    capacity("orphaned", on=gpu(1), **when)
    capacity("queue_or_scheduler", on=gpu(2), cluster="della", **when)
    span = {"first_ms": to_ms(NOW) - 2 * HOUR_MS, "last_ms": to_ms(NOW)}
    place("orphaned", node=gpu().node, **span)
    place("queue_or_scheduler", cluster="della", **span)

    for query, causes in (
        ("", ["orphaned", "queue_or_scheduler"]), ("cluster=della", ["queue_or_scheduler"]),
        ("cluster=erie", []), ("kind=batch", []),
        ("state=orphaned", ["orphaned"]), ("state=idle", []),
    ):  # fmt: skip
        assert (
            sorted(row["cause"] for row in api.get(f"/api/v1/findings?{query}").json()["places"])
            == causes
        ), query
    assert api.get("/api/v1/findings?state=orphaned").json()["rows"] == []


def test_machines_and_queues_stand_beside_jobs_and_in_no_sum_of_waste(api, found):
    when = {"start": NOW - timedelta(hours=2)}
    capacity("gpu_fault", on=gpu(1), **when)
    capacity("queue_or_scheduler", on=gpu(2), cluster="della", low=0.5, **when)
    span = {"first_ms": to_ms(NOW) - 2 * HOUR_MS, "last_ms": to_ms(NOW)}
    place("gpu_fault", node=gpu().node, **span)
    queue = place("queue_or_scheduler", cluster="della", **span)

    answer = api.get("/api/v1/findings").json()

    assert [(row["cause"], row["job"], row["node"],
    row["cluster"]) for row in answer["places"]] == [
        ("gpu_fault", None, "n1", None), ("queue_or_scheduler", None, None, "della"),
    ]  # fmt: skip
    assert (
        answer["recoverable"]["high_usd"],
        answer["capacity"]["low_usd"],
        answer["capacity"]["high_usd"],
    ) == (2.0, 3.0, 4.0)
    assert [row["affected_gpu_hours"] for row in answer["places"]] == [1.0, 1.0]
    for query, count in (
        ("job=slurm/della/7", 0),
        ("user=ann", 0),
        ("node=n1", 1),
        ("cause=queue_or_scheduler", 1),
        ("status=fixed", 0),
    ):
        assert len(api.get(f"/api/v1/findings?{query}").json()["places"]) == count, query
    one = api.get(f"/api/v1/findings/{queue.pk}").json()
    assert (one["cluster"], one["evidence"], one["is_capacity"]) == ("della", None, True)
    assert decide(client("admin", "write"), queue.pk, "accept").json()["status"] == "accepted"


def test_pages_of_findings_follow_each_other(api, found):
    other = job("slurm/della/8")
    cause(of=other, start=NOW - timedelta(hours=2))
    finding(other)

    first = api.get("/api/v1/findings?limit=1").json()
    second = api.get(f"/api/v1/findings?limit=1&cursor={first['next_cursor']}").json()

    assert {row["job"] for row in (*first["rows"], *second["rows"])} == {
        "slurm/della/7",
        "slurm/della/8",
    }
    assert second["next_cursor"] is None


def test_an_admin_with_a_write_token_decides(found):
    answer = decide(client("admin", "write"), found.pk, "accept", note="on Monday").json()

    assert answer["status"] == "accepted"
    assert [(said["kind"], said["by"], said["note"]) for said in answer["history"]] == [
        ("accepted", "admin-1", "on Monday")
    ]


def test_a_snooze_ends_when_it_says(found):
    admin = client("admin", "write")

    answer = decide(admin, found.pk, "snooze", until=(NOW + timedelta(days=7)).isoformat()).json()
    assert (answer["status"], answer["snoozed_until"]) == ("snoozed", "2026-11-10T00:00:00Z")

    refused = decide(admin, found.pk, "snooze")
    assert (refused.status_code, refused.json()["field"]) == (422, "until")


def test_a_moment_without_its_zone_is_refused(found):
    refused = decide(client("admin", "write"), found.pk, "snooze", until="2026-11-10T00:00:00")

    assert refused.status_code == 422
    assert Finding.objects.get().status == "open"


def test_a_viewer_says_whether_it_is_right_and_decides_nothing(found):
    viewer = client("engineer", "write")

    assert decide(viewer, found.pk, "reject", note="it was compiling").status_code == 200
    refused = decide(viewer, found.pk, "accept")

    assert (refused.status_code, refused.json()["field"]) == (403, "action")
    assert Finding.objects.get().status == "open"


@pytest.mark.parametrize(
    ("by", "status", "told"),
    [
        (
            "read",
            403,
            (
                "this token may only read; manage.py create_api_token USER --scope write makes one"
                " that may write, and so does My jobs"
            ),
        ),
        ("unknown", 401, "an API token or a session is needed"),
        (
            "stranger",
            403,
            "an API token that may write is needed, or a session with its X-CSRFToken",
        ),
    ],
)
def test_a_read_token_and_a_stranger_change_nothing_and_are_told_what_is_needed(
    found, settings, by, status, told
):
    settings.STORAGES = settings.STORAGES | {
        "staticfiles": {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"}
    }
    clients = {
        "read": client("admin", "read"),
        "unknown": Client(headers={"Authorization": "Bearer fw_nothing"}, enforce_csrf_checks=True),
        "stranger": Client(enforce_csrf_checks=True),
    }

    refused = decide(clients[by], found.pk, "accept")

    assert (refused.status_code, refused.json()) == (
        status,
        {"error": told, "field": "Authorization"},
    )
    assert not found.said.exists()


def test_a_session_needs_the_form_token(found, settings):
    settings.STORAGES = settings.STORAGES | {
        "staticfiles": {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"}
    }
    by = Client(enforce_csrf_checks=True)
    by.force_login(User.objects.create(username="root", role=User.Role.ADMIN))

    assert decide(by, found.pk, "accept").status_code in (401, 403)
    assert Finding.objects.get().status == "open"


@pytest.mark.parametrize(
    ("number", "action", "asked", "status"),
    [
        ("0", "accept", {}, 404),
        ("99999999999999999999", "accept", {}, 404),
        ("own", "burn", {}, 422),
        ("own", "dismiss", {}, 422),
        ("own", "accept", {"note": "x" * 501}, 422),
        ("own", "assign", {"assignee": "nobody"}, 422),
    ],
)
def test_what_can_not_be_done_is_said_and_changes_nothing(found, number, action, asked, status):
    number = found.pk if number == "own" else number

    answer = decide(client("admin", "write"), number, action, **asked)

    assert answer.status_code == status
    assert answer.json()["error"]
    assert not found.said.exists()


def test_an_orphaned_gpu_has_a_finding_with_its_processes(api, found):
    on = gpu(1)
    capacity("orphaned", on=on, start=NOW - timedelta(hours=2))
    orphan = place("orphaned", node=on.node, first_ms=to_ms(NOW) - 2 * HOUR_MS, last_ms=to_ms(NOW))
    GPUProcess.objects.create(
        gpu=on, job=None, pid=17, user="bob", name="python", memory_bytes=5, seen_ms=to_ms(NOW)
    )
    GPUProcess.objects.create(
        gpu=on,
        job=found.its_job,
        pid=18,
        user="ann",
        name="python",
        memory_bytes=5,
        seen_ms=to_ms(NOW),
    )

    answer = api.get(f"/api/v1/findings/{orphan.pk}").json()

    assert (answer["node"], answer["is_capacity"], answer["confidence"]) == ("n1", False, "high")
    assert (
        answer["wasted_usd"],
        answer["waste"]["certain"]["usd"],
        answer["savings"]["low_usd"],
    ) == (2.0, 2.0, 2.0)
    [process] = answer["processes"]
    assert (
        process["gpu"],
        process["pid"],
        process["user"],
        process["name"],
        process["memory_bytes"],
    ) == (on.uuid, 17, "bob", "python", 5)
    assert "orphaned" in [row["cause"] for row in api.get("/api/v1/findings").json()["places"]]


def test_what_else_a_finding_may_be_is_told_with_the_next_step(api, found):
    """Of three affected hours a batch too small was possible in two, a wait for input in all, a
    checkpoint in half a one.
    """
    other = job("slurm/della/9")
    for hours, also in (
        (2.0, ["small_batch", "data_starved"]),
        (0.5, ["data_starved", "checkpoint_stall"]),
        (0.5, ["data_starved"]),
    ):
        cause(
            "oversized_gpu",
            of=other,
            start=NOW - timedelta(hours=3),
            hours=hours,
            also=also,
            waste="underused_ms",
        )
    one = finding(other, "oversized_gpu")

    [row] = api.get("/api/v1/findings?job=slurm/della/9").json()["rows"]
    detail = api.get(f"/api/v1/findings/{one.pk}").json()

    assert [told["cause"] for told in row["alternatives"]] == ["data_starved", "small_batch"]
    assert detail["alternatives"] == row["alternatives"]
    assert row["alternatives"][1]["title"] == "Too little work per step"
    assert row["alternatives"][1]["step"]["text"].startswith("Double the batch once")
    [plain] = api.get("/api/v1/findings?job=slurm/della/7").json()["rows"]
    assert plain["alternatives"] == []


@pytest.mark.parametrize(
    ("of", "role", "status"),
    [
        ("admin", "", 200),
        ("admin", "operator", 200),
        ("admin", "finance", 403),
        ("admin", "lead", 403),
        ("operator", "engineer", 403),
    ],
)
def test_a_token_decides_as_far_as_its_role_and_its_user_may(found, of, role, status):
    answer = decide(client(of, "write", role=role), found.pk, "accept")

    assert answer.status_code == status
    assert found.said.count() == (status == 200)


def test_an_engineers_token_of_whoever_owns_the_job_decides(found):
    found.assignee = User.objects.create(username="admin-1", role=User.Role.ADMIN)
    found.save(update_fields=["assignee"])

    assert decide(client("admin", "write", role="engineer"), found.pk, "fixed").status_code == 200


def test_a_demoted_users_token_decides_no_more(found):
    by = client("operator", "write", role="operator")
    User.objects.update(role=User.Role.FINANCE)

    assert decide(by, found.pk, "accept").status_code == 403
    assert not found.said.exists()


def test_a_tokens_doing_is_in_the_audit_log_with_how_it_begins(found):
    decide(client("operator", "write"), found.pk, "accept")

    entry = AuditEntry.objects.get(action="finding.accept")
    hint = ApiToken.objects.get().hint
    assert (entry.name, entry.via) == ("operator-1", "api")
    assert entry.detail["token"] == f"{hint}…"
    assert len(hint) == 8


def test_who_left_decides_nothing_by_a_token(found):
    by = client("operator", "write")
    deactivate(User.objects.get(username="operator-1"), now=NOW)

    assert decide(by, found.pk, "accept").status_code == 401
    assert by.get("/api/v1/findings").status_code == 401
    assert not found.said.exists()


def test_findings_are_told_by_pattern_too(api, found):
    """What three runs could save in two weeks is told for 30 days, whatever the period."""
    for number in (8, 9):
        again = job(f"slurm/della/{number}", end_ms=None)
        cause(of=again, start=NOW - timedelta(hours=2))
        latest = finding(again, first_ms=to_ms(NOW) - 2 * HOUR_MS)
    of_week = api.get("/api/v1/findings/patterns?from=now-7d&to=now").json()["rows"]
    of_hours = api.get("/api/v1/findings/patterns?from=now-6h&to=now").json()["rows"]

    assert [
        (row["finding"], row["user"], row["job_name"], row["runs"], row["when"], row["wasted_usd"])
        for row in of_week
    ] == [(latest.pk, "ann", "train", 3, "now", 6.0)]
    ahead = api.get(f"/api/v1/findings/{found.pk}").json()["next_30_days"]
    assert ahead["runs"] == 3
    for told in (of_week[0]["per_month"], of_hours[0]["per_month"], ahead):
        assert told["high_usd"] == pytest.approx(6 * 30 / 14, abs=1e-6)
    assert api.get("/api/v1/findings/patterns?when=once").json()["rows"] == []
    assert api.get("/api/v1/findings/patterns?when=soon").status_code == 422

"""What idles now, was idle lately or is quiet: with whose it is, since when, and what was decided."""

from datetime import timedelta

import pytest

from fleetwatch.accounts.models import OthersShown, User
from fleetwatch.accounts.visibility import set_others_shown
from fleetwatch.alerts.incidents.incident_actions import Action, act
from fleetwatch.dashboard import idle_lately
from fleetwatch.diagnosis.models import Finding
from fleetwatch.inventory.models import GPU
from fleetwatch.jobs.models import Job
from fleetwatch.lib.intervals import HOUR_MS, to_ms
from tests import stored_runs
from tests.alerts.factories import a_rule, an_incident
from tests.dashboard import factories
from tests.diagnosis import told
from tests.markup import in_text, tight

pytestmark = pytest.mark.django_db
NOW = factories.NOW
NOW_MS = to_ms(NOW)
MINUTE_MS = 60_000


@pytest.mark.parametrize(
    ("query", "nodes"),
    [
        ("", ["node-1", "node-2"]),
        ("?node=node-2", ["node-2"]),
        ("?cluster=della", ["node-1", "node-2"]),
        ("?cluster=erie", []),
        ("?gpu_model=L4", []),
        ("?team=nobody", []),
    ],
)
def test_what_idles_now_is_narrowed_to_places_and_teams(four_nodes, query, nodes):
    job = factories.job()
    for name in ("node-1", "node-2"):
        span = {"hours_ago": 0.5, "hours": 0.5, "states": {"idle": HOUR_MS // 2}}
        gpu = GPU.objects.get(node__name=name)
        stored_runs.store(factories.run(gpu, **span, held_by=job))

    answer = four_nodes.get(f"/fleet/idle{query}")

    lines = answer.context["lines"]
    assert [each.gpu.node.name for line in lines for each in line.gpus] == nodes
    assert answer.context["gpu_count"] == len(nodes)
    assert answer.context["usd_per_hour"] == 2 * len(nodes)


def test_what_idles_and_was_accepted_says_until_when_and_is_not_to_be_ended(four_nodes):
    job = factories.job()
    gpu = GPU.objects.get(node__name="node-1")
    span = {"hours_ago": 0.5, "hours": 0.5, "states": {"idle": HOUR_MS // 2}}
    stored_runs.store(factories.run(gpu, **span, held_by=job))
    accepted = "accepted until 2026-12-06 09:49 UTC: <b>a workshop</b>"
    facts = {"command": "scancel 7"}
    rule = a_rule(condition="job_idle")
    an_incident(rule, job.key, opened_at=NOW, facts=facts, muted=accepted)

    page = tight(four_nodes.get("/fleet/idle").content.decode())

    assert "/h; 1 of them agreed as not waste" in page
    assert "Agreed as not waste (until 2026-12-06 09:49 UTC): &lt;b&gt;a workshop" in page
    assert "scancel 7" not in page
    assert ">Decide</a>" not in page


@pytest.mark.parametrize(
    ("minutes", "shown"),
    [
        (45, "this spell; its incident counts all since Fri 20 Nov, 11:15"),
        (30, ""),
        (10, "its incident counts from Fri 20 Nov, 11:50 on"),
    ],
)
def test_what_idles_says_where_its_incident_counts_from_another_start(four_nodes, minutes, shown):
    """It idles since 11:30; the incident began so many minutes before noon."""
    job = factories.job()
    gpu = GPU.objects.get(node__name="node-1")
    span = {"hours_ago": 0.5, "hours": 0.5, "states": {"idle": HOUR_MS // 2}}
    stored_runs.store(factories.run(gpu, **span, held_by=job))
    began_ms = NOW_MS - minutes * MINUTE_MS
    an_incident(a_rule(condition="job_idle"), job.key, opened_at=NOW, since_ms=began_ms)

    page = tight(four_nodes.get("/fleet/idle").content.decode())

    assert ("its incident counts" in page) is bool(shown)
    assert shown in page


def test_what_idled_with_pauses_costs_this_spell_and_in_all_what_its_incident_says(four_nodes):
    job = factories.job()
    gpu = GPU.objects.get(node__name="node-1")
    span = {"hours_ago": 0.5, "hours": 0.5, "states": {"idle": HOUR_MS // 2}}
    stored_runs.store(factories.run(gpu, **span, held_by=job))
    facts = {"cost_usd": "40.78", "usd_per_hour": "0"}
    began_ms = NOW_MS - 45 * MINUTE_MS
    rule = a_rule(condition="job_idle")
    an_incident(rule, job.key, opened_at=NOW, since_ms=began_ms, facts=facts)

    page = in_text(tight(four_nodes.get("/fleet/idle").content.decode()))

    assert "$40.78 in all of its incident" in page
    assert "dollars are of this spell" in page


def test_what_idles_and_was_snoozed_says_by_whom_until_when_and_why(four_nodes):
    job = factories.job()
    gpu = GPU.objects.get(node__name="node-1")
    span = {"hours_ago": 0.5, "hours": 0.5, "states": {"idle": HOUR_MS // 2}}
    stored_runs.store(factories.run(gpu, **span, held_by=job))
    rule = a_rule(condition="job_idle")
    facts = {"command": "scancel 7"}
    opened = an_incident(rule, job.key, opened_at=NOW - timedelta(minutes=5), facts=facts)
    until = NOW + timedelta(hours=23)
    snooze = Action("snooze", until=until, reason="<b>until the paper is in")
    act(opened.pk, snooze, by=User.objects.get(username="ann"), now=NOW)

    page = tight(four_nodes.get("/fleet/idle").content.decode())

    assert f'href="/incidents/{opened.pk}">Nothing for now</a>' in page
    assert "Snoozed until 21 Nov 2026, 11:00 UTC by ann: &lt;b&gt;until the paper is in" in page
    assert "scancel 7" not in page
    assert ">Decide</a>" not in page


def test_what_is_not_listed_of_what_was_idle_is_counted_with_its_dollars(four_nodes, monkeypatch):
    """Three GPUs were idle for an hour of $2 each, and one is listed."""
    monkeypatch.setattr(idle_lately, "MAX_SHOWN", 1)
    job = factories.job()
    for number in (1, 2, 3):
        gpu = GPU.objects.get(node__name=f"node-{number}")
        factories.entry(gpu, hours_ago=3, state="idle", held_by=job).save()

    page = in_text(tight(four_nodes.get("/fleet/idle").content.decode()))

    assert "2 more , $4.00 ; $6.00 in all" in page
    assert "Idle hours, all spells" in page  # beside the last one's times


def idles_half_an_hour() -> Job:
    job = factories.job()
    gpu = GPU.objects.get(node__name="node-1")
    span = {"hours_ago": 0.5, "hours": 0.5, "states": {"idle": HOUR_MS // 2}}
    stored_runs.store(factories.run(gpu, **span, held_by=job))
    told.cause("idle_held", of=job, on=gpu, start=NOW - timedelta(minutes=30), hours=0.5)
    return job


def closed(job: Job, cause: str) -> Finding:
    finding = told.finding(job, cause=cause, first_ms=NOW_MS - HOUR_MS, last_ms=NOW_MS)
    Finding.objects.filter(pk=finding.pk).update(status="dismissed", decided_at=NOW)
    return finding


def test_what_idles_and_whose_finding_was_closed_is_no_waste_without_an_incident_too(four_nodes):
    job = idles_half_an_hour()
    finding = closed(job, "idle_held")

    page = tight(four_nodes.get("/fleet/idle").content.decode())

    assert page.count(f'href="/findings/{finding.pk}"') == 2  # its cause, and why nothing is to do
    assert "Agreed as not waste, until somebody ends that agreement" in page
    assert ">Decide</a>" not in page


def test_what_idles_and_whose_finding_was_closed_is_none_of_the_overviews_idle_ones(four_nodes):
    job = idles_half_an_hour()
    closed(job, "idle_held")

    shown = four_nodes.get("/").context

    assert (shown["idle_gpus"], shown["accepted"].gpu_count) == (0, 1)


def test_a_closed_finding_of_how_a_job_worked_before_says_nothing_of_its_idling(four_nodes):
    job = idles_half_an_hour()
    gpu = GPU.objects.get(node__name="node-1")
    start = NOW - timedelta(hours=1)
    told.cause("small_batch", of=job, on=gpu, start=start, waste="underused_ms")
    closed(job, "small_batch")

    page = four_nodes.get("/fleet/idle")

    assert page.context["accepted_gpus"] == 0
    assert "Agreed as not waste" not in page.content.decode()


def test_of_a_shared_gpu_one_jobs_reason_is_not_the_others(four_nodes):
    gpu = GPU.objects.get(node__name="node-1")
    rule = a_rule(condition="job_idle")
    for number, muted in (("7", "accepted until 2026-12-06 09:49 UTC: a workshop"), ("8", "")):
        job = factories.job(f"slurm/della/{number}")
        span = {"hours_ago": 0.5, "hours": 0.5, "states": {"idle": HOUR_MS // 4}}
        stored_runs.store(factories.run(gpu, **span, held_by=job))
        an_incident(rule, job.key, opened_at=NOW, facts={"command": f"end {number}"}, muted=muted)

    page = four_nodes.get("/fleet/idle")

    [line] = page.context["lines"]
    assert len(line.jobs) == 2
    assert page.context["accepted_gpus"] == 0
    assert "end 8" in page.content.decode()


def test_a_gpu_that_idled_before_a_hole_in_its_data_too_says_since_when(four_nodes):
    """Idle from 11:00 to 11:25, no data for five minutes, idle since 11:30: it is noon."""
    job = factories.job()
    gpu = GPU.objects.get(node__name="node-1")
    for ago, minutes in ((60, 25), (30, 30)):
        span = {"hours_ago": ago / 60, "hours": minutes / 60}
        run = factories.run(gpu, **span, states={"idle": minutes * MINUTE_MS}, held_by=job)
        stored_runs.store(run)

    answer = four_nodes.get("/fleet/idle")

    [line] = answer.context["lines"]
    assert (line.since_ms, line.before.since_ms) == (NOW_MS - HOUR_MS // 2, NOW_MS - HOUR_MS)
    assert "idle before 5 min without data, too: since" in tight(answer.content.decode())


def test_what_was_idle_and_is_used_again_is_there_with_its_hours_and_dollars(four_nodes):
    """Idle from 10:00 to 11:00 at $2, used since."""
    job = factories.job(name="<b>sweep</b>")
    gpu = GPU.objects.get(node__name="node-1")
    factories.entry(gpu, hours_ago=2, state="idle", held_by=job).save()
    for ago, state in ((2, "idle"), (1, "useful")):
        run = factories.run(gpu, hours_ago=ago, hours=1, states={state: HOUR_MS}, held_by=job)
        stored_runs.store(run)

    answer = four_nodes.get("/fleet/idle")

    [line] = answer.context["lately"].lines
    assert answer.context["lines"] == []
    assert (line.gpu, line.job, line.idle_ms, line.cost_usd) == (gpu, job, HOUR_MS, 2)
    assert (line.last.start_ms, line.last.end_ms) == (NOW_MS - 2 * HOUR_MS, NOW_MS - HOUR_MS)
    assert "&lt;b&gt;sweep&lt;/b&gt;" in answer.content.decode()
    assert 'href="/fleet?range=24h&amp;state=stalled"' in answer.content.decode()


@pytest.mark.parametrize(("minutes", "is_shown"), [(4.9, False), (5, True)])
def test_what_is_quiet_for_five_minutes_is_nearly_idle(four_nodes, minutes, is_shown):
    hours = minutes / 60
    states = {"stalled": int(minutes * MINUTE_MS)}
    quiet = {"states": states, "held_by": factories.job(), "condition": "quiet"}
    gpu = GPU.objects.get(node__name="node-1")
    stored_runs.store(factories.run(gpu, hours_ago=hours, hours=hours, **quiet))

    answer = four_nodes.get("/fleet/idle")

    assert [each.gpu for each in answer.context["quiet"]] == [gpu] * is_shown
    assert ("Nearly idle" in answer.content.decode()) is is_shown


def test_what_is_nearly_idle_leads_to_the_incident_that_its_job_still_has(four_nodes):
    job = factories.job()
    gpu = GPU.objects.get(node__name="node-1")
    quiet = {"states": {"stalled": 10 * MINUTE_MS}, "held_by": job, "condition": "quiet"}
    stored_runs.store(factories.run(gpu, hours_ago=1 / 6, hours=1 / 6, **quiet))
    incident = an_incident(a_rule(condition="job_idle"), job.key, opened_at=NOW, facts={})

    answer = four_nodes.get("/fleet/idle")

    assert f'href="/incidents/{incident.pk}">its incident</a>' in answer.content.decode()


def test_who_sees_others_by_pseudonyms_is_told_nothing_of_what_was_idle(four_nodes, client):
    job = factories.job(name="secret-sweep")
    gpu = GPU.objects.get(node__name="node-1")
    factories.entry(gpu, hours_ago=2, state="idle", held_by=job).save()
    run = factories.run(gpu, hours_ago=2, hours=1, states={"idle": HOUR_MS}, held_by=job)
    stored_runs.store(run)
    set_others_shown(OthersShown.PSEUDONYMS)
    client.force_login(factories.user(role="engineer", username="vera"))

    answer = client.get("/fleet/idle")

    assert answer.status_code == 404
    assert "secret-sweep" not in answer.content.decode()


def test_a_fleet_where_nothing_idles_says_so_and_a_stranger_is_told_nothing(four_nodes):
    page = tight(four_nodes.get("/fleet/idle").content.decode())
    assert "No GPU is known to be idle right now" in page
    assert "Of 4 GPUs it is not known: they are not observed" in page
    four_nodes.logout()
    assert four_nodes.get("/fleet/idle").status_code == 302

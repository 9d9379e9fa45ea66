import threading
from dataclasses import replace

import pytest
from django.db import IntegrityError, connection, transaction
from django.test.utils import CaptureQueriesContext

from fleetwatch.alerts import services, shipped_rules
from fleetwatch.alerts.breach import Settings
from fleetwatch.alerts.conditions import CONDITIONS
from fleetwatch.alerts.messaging import announcing
from fleetwatch.alerts.models import Incident, IncidentGroup, Rule
from fleetwatch.inventory.models import GPU
from fleetwatch.jobs.models import Job
from fleetwatch.notify.models import Delivery
from fleetwatch.notify.services import create_channel
from tests.alerts.factories import NINE, a_rule, at, longer, ms, open_incidents, ran
from tests.costs.factories import a_gpu, a_job, a_rate

KEY = "slurm/della/1"


def slack(name: str = "ops"):
    return create_channel("slack", name, {"webhook_url": "https://hooks.example/x"}, now=NINE)


def minutes(rule: Rule, wanted: float) -> Settings:
    return replace(services.settings_of(rule), minutes=wanted)


def set_to(rule: Rule, **terms) -> Rule:
    return services.set_rule(rule, replace(services.terms_of(rule), **terms))


def an_idle_job(minutes: float = 31):
    """A job whose only GPU is idle from nine on."""
    gpu = a_gpu(node="node-014", index=3)
    return gpu, ran(gpu, "quiet", 0, minutes, job=a_job(key=KEY, user="ana", team="nlp"))


@pytest.mark.django_db
@pytest.mark.parametrize(("minutes", "opened"), [(29.99, 0), (30, 1), (31, 1)])
def test_a_job_idle_for_as_long_as_the_rule_says_opens_an_incident(minutes, opened):
    a_rule()
    an_idle_job(minutes)

    assert announcing.run(at(minutes))["opened"] == opened


@pytest.mark.django_db
def test_the_incident_knows_who_where_since_when_and_what_it_costs():
    a_rule()
    gpu, _ = an_idle_job(90)
    a_rate("4", gpu=gpu)

    announcing.run(at(90))

    (view,) = open_incidents()
    assert (view.incident.subject, view.breach.where, view.breach.owner) == (
        KEY,
        "node-014 GPU 3",
        "ana (nlp)",
    )
    assert (view.breach.since_ms, view.breach.until_ms) == (ms(0), ms(90))
    assert (view.breach.cost_usd, view.breach.usd_per_hour, view.breach.memory_bytes) == (
        6,
        4,
        40e9,
    )


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("labels", "told"),
    [
        ({"nodes": "1", "requested_gpus": "1"}, "Fix: scancel 1,"),
        ({"nodes": "2", "requested_gpus": "4"}, "Fix: let the job run, its other 3 GPUs"),
        ({"nodes": "2"}, "Fix: let the job run, it holds more than is seen of it"),
        ({"het_job": "1+0"}, "Fix: let the job run, it holds more than is seen of it"),
        ({"array_job": "1", "array_task": "3"}, "Fix: scancel 1_3,"),
    ],
)
def test_what_the_scheduler_gave_the_job_beyond_what_is_seen_is_not_ended(labels, told):
    a_rule()
    slack()
    _, run = an_idle_job()
    Job.objects.filter(pk=run.job_id).update(labels=labels, scheduler="slurm", external_id="1")

    announcing.run(at(31))

    assert told in Delivery.objects.get().message["text"]


@pytest.mark.django_db
def test_it_opens_once_and_is_kept_up_to_date():
    a_rule()
    slack()
    _, run = an_idle_job()

    first = announcing.run(at(31))
    longer(run, 60)
    second = announcing.run(at(60))

    (view,) = open_incidents()
    assert (first["opened"], second["opened"], second["kept"]) == (1, 0, 1)
    assert view.breach.until_ms == ms(60)
    assert view.incident.opened_at == at(31)
    assert (
        Delivery.objects.values_list("key", flat=True).get()
        == f"group/{view.incident.group_id}/opened"
    )


@pytest.mark.django_db
def test_that_it_goes_on_is_kept_each_time_and_said_anew_every_five_minutes():
    a_rule()
    _, run = an_idle_job()
    kept = []
    for minute in (31, 32, 35, 36):
        longer(run, minute)
        announcing.run(at(minute))
        (view,) = open_incidents()
        kept.append((view.incident.until_ms, view.incident.facts["until_ms"]))
        assert view.breach.until_ms == ms(minute)

    assert kept == [(ms(each), ms(said)) for each, said in ((31, 31), (32, 31), (35, 31), (36, 36))]


@pytest.mark.django_db
def test_activity_resolves_it_and_people_hear_what_it_cost():
    a_rule()
    slack()
    gpu, run = an_idle_job()
    a_rate("4", gpu=gpu)
    announcing.run(at(31))
    longer(run, 45)
    ran(gpu, "active", 45, 50, job=run.job)

    did = announcing.run(at(50))

    incident = Incident.objects.get()
    sent = Delivery.objects.get(key=f"group/{incident.group_id}/resolved")
    assert did["resolved"] == 1
    assert (incident.resolved_at, incident.resolution) == (at(50), "its GPU is active again")
    assert sent.message["title"] == "resolved · node-014 GPU 3 · idle for 45 m, cost $3.00"


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("condition", "has_other_job", "reason"),
    [
        ("free", False, "the allocation ended"),
        ("orphaned", False, "the allocation ended"),
        ("active", True, "the allocation ended"),
        ("quiet", True, "the allocation ended"),
        ("unavailable", False, "the GPU became unavailable"),
    ],
)
def test_the_end_of_the_allocation_resolves_it(condition, has_other_job, reason):
    a_rule()
    gpu, _ = an_idle_job()
    announcing.run(at(31))
    ran(gpu, condition, 31, 35, job=a_job(key="slurm/della/2") if has_other_job else None)

    announcing.run(at(35))

    assert Incident.objects.get(subject=KEY).resolution == reason


@pytest.mark.django_db
def test_a_job_known_to_have_ended_is_over_once_its_last_minutes_are_judged():
    a_rule()
    gpu, run = an_idle_job()
    announcing.run(at(31))
    run.job.end_ms = ms(36)
    run.job.save(update_fields=["end_ms"])

    announcing.run(at(37))
    assert Incident.objects.get().state == "firing"

    longer(run, 36)
    ran(gpu, "free", 36, 38)
    announcing.run(at(38))
    incident = Incident.objects.get()
    assert (incident.state, incident.until_ms) == ("resolved", ms(36))


@pytest.mark.django_db
def test_a_job_known_to_have_ended_is_resolved_without_newer_data():
    a_rule()
    _, run = an_idle_job()
    announcing.run(at(31))
    run.job.end_ms = ms(32)
    run.job.save(update_fields=["end_ms"])

    announcing.run(at(42))

    assert Incident.objects.get().resolution == "the allocation ended"


@pytest.mark.django_db
def test_missing_telemetry_opens_nothing():
    a_rule()
    gpu, _ = an_idle_job(25)
    other = a_gpu(node="node-014", index=4)
    ran(gpu, "unobserved", 25, 90)
    ran(other, "free", 0, 90)

    assert announcing.run(at(90))["opened"] == 0


@pytest.mark.django_db
def test_missing_telemetry_resolves_nothing_and_is_said():
    a_rule()
    slack()
    gpu, run = an_idle_job()
    announcing.run(at(31))
    ran(gpu, "unobserved", 31, 60, job=run.job)
    ran(a_gpu(node="node-014", index=4), "free", 0, 60)

    did = announcing.run(at(60))

    incident = Incident.objects.get()
    assert (did["no_data"], did["resolved"]) == (1, 0)
    assert incident.note == "Not known since 09:31 UTC whether it goes on."
    assert Delivery.objects.count() == 1


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("minutes", "note"), [(41, ""), (42, "Not known since 09:31 UTC whether it goes on.")]
)
def test_a_silent_node_is_said_after_ten_minutes(minutes, note):
    a_rule()
    an_idle_job()
    announcing.run(at(31))

    announcing.run(at(minutes))

    incident = Incident.objects.get()
    assert (incident.resolved_at, incident.note) == (None, note)


@pytest.mark.django_db
def test_data_that_comes_back_clears_the_note():
    a_rule()
    _, run = an_idle_job()
    announcing.run(at(31))
    announcing.run(at(60))
    longer(run, 90)

    announcing.run(at(90))

    assert Incident.objects.values_list("note", "resolved_at").get() == ("", None)


@pytest.mark.django_db
def test_after_a_day_without_data_it_is_no_longer_seen():
    a_rule()
    an_idle_job()
    announcing.run(at(31))

    just_before, at_last = (
        announcing.run(at(31 + 24 * 60 - 1)),
        announcing.run(at(31 + 24 * 60)),
    )

    assert (just_before["resolved"], at_last["resolved"]) == (0, 1)
    assert Incident.objects.get().resolution.startswith("no longer seen")
    assert not any(announcing.run(at(32 + 24 * 60)).values())


@pytest.mark.django_db
def test_a_retired_gpu_is_no_longer_seen():
    a_rule()
    gpu, _ = an_idle_job()
    announcing.run(at(31))
    GPU.objects.filter(pk=gpu.pk).update(retired_ms=ms(31))

    announcing.run(at(45))

    assert Incident.objects.get().resolution.startswith("no longer seen")


@pytest.mark.django_db
def test_one_idle_gpu_of_eight_is_named():
    a_rule(condition="gpu_idle", threshold=1)
    job = a_job(key=KEY)
    gpus = [a_gpu(node="node-014", index=index) for index in range(8)]
    ran(gpus[5], "quiet", 0, 40, job=job)
    for gpu in gpus[:5] + gpus[6:]:
        ran(gpu, "active", 0, 40, job=job)

    announcing.run(at(40))

    (view,) = open_incidents()
    assert view.breach.where == "node-014 GPU 5"
    assert (len(view.breach.facts["gpus"]), view.breach.facts["job_gpus"]) == (1, 8)


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("then", "held"),
    [(None, 2), ("unobserved", 2), ("free", 1), ("other job", 1)],
)
def test_a_gpu_of_the_job_on_a_node_that_fell_silent_is_still_the_jobs(then, held):
    a_rule(condition="gpu_idle" if held > 1 else "job_idle", threshold=1, minutes=20)
    job = a_job(key=KEY)
    ran(a_gpu(node="node-014"), "quiet", 0, 40, job=job)
    silent = a_gpu(node="node-015")
    ran(silent, "active", 0, 20, job=job)
    if then is not None:
        ran(
            silent,
            "active" if then == "other job" else then,
            20,
            40,
            job=a_job(key="slurm/aurora/2") if then == "other job" else None,
        )

    announcing.run(at(40))

    (view,) = open_incidents()
    assert (len(view.breach.facts["gpus"]), view.breach.facts["job_gpus"]) == (1, held)


@pytest.mark.django_db
def test_a_second_gpu_that_falls_idle_joins_the_same_incident():
    a_rule()
    slack()
    _, run = an_idle_job()
    second = a_gpu(node="node-014", index=4)
    other = ran(second, "quiet", 20, 31, job=run.job)
    announcing.run(at(31))
    longer(run, 50)
    longer(other, 50)

    announcing.run(at(50))

    (view,) = open_incidents()
    assert view.breach.where == "node-014 GPU 3, 4"
    assert Delivery.objects.count() == 1


@pytest.mark.django_db
def test_a_quiet_start_is_not_idle():
    a_rule(minutes=10)
    gpu = a_gpu()
    ran(gpu, "quiet", 0, 14, job=a_job(), state="starting")

    assert announcing.run(at(14))["opened"] == 0


@pytest.mark.django_db
def test_a_run_cut_at_the_hour_is_one_run():
    a_rule(minutes=80)
    gpu, _ = an_idle_job(60)
    ran(gpu, "quiet", 60, 85, job=Job.objects.get(), continues=True)

    announcing.run(at(85))

    (view,) = open_incidents()
    assert (view.breach.since_ms, view.breach.until_ms) == (ms(0), ms(85))


@pytest.mark.django_db
def test_a_shared_gpu_costs_its_holder_its_share():
    a_rule()
    gpu = a_gpu()
    a_rate("4", gpu=gpu)
    ran(gpu, "quiet", 0, 60, job=a_job(key=KEY), weight=0.25)

    announcing.run(at(60))

    (view,) = open_incidents()
    assert (view.breach.cost_usd, view.breach.usd_per_hour) == (1, 1)


@pytest.mark.django_db
def test_each_part_of_an_idle_run_costs_the_rate_of_its_time():
    a_rule()
    gpu, _ = an_idle_job(60)
    a_rate("4", gpu=gpu, valid_to=at(30))
    a_rate("8", gpu=gpu, valid_from=at(30))

    announcing.run(at(60))

    (view,) = open_incidents()
    assert (view.breach.cost_usd, view.breach.usd_per_hour) == (6, 8)


@pytest.mark.django_db
def test_idle_again_after_activity_is_a_new_incident():
    a_rule()
    gpu, run = an_idle_job()
    announcing.run(at(31))
    ran(gpu, "active", 31, 35, job=run.job)
    announcing.run(at(35))
    ran(gpu, "quiet", 35, 70, job=run.job)

    announcing.run(at(70))

    assert Incident.objects.count() == 2
    assert Incident.objects.filter(resolved_at=None).get().facts["facts"]["gpus"][0][
        "since_ms"
    ] == ms(35)


@pytest.mark.django_db
def test_a_rule_that_is_switched_off_resolves_what_it_opened():
    rule = a_rule()
    an_idle_job()
    announcing.run(at(31))

    set_to(rule, is_enabled=False)
    announcing.run(at(32))

    assert Incident.objects.get().resolution == "the rule was switched off"


@pytest.mark.django_db
def test_what_was_over_before_a_rule_is_switched_on_is_never_opened():
    """Idle to minute 40 and at work since; another job idles all the time."""
    rule = a_rule(is_enabled=False, evaluated_ms=None)
    gpu, run = an_idle_job(40)
    ran(gpu, "active", 40, 62, job=run.job)
    idle = ran(a_gpu(node="n2"), "quiet", 0, 62, job=a_job(key="slurm/della/2"))
    set_to(rule, is_enabled=True)

    announcing.run(at(60))
    longer(idle, 65)
    announcing.run(at(61))
    announcing.run(at(120))

    assert [each.subject for each in Incident.objects.all()] == ["slurm/della/2"]


@pytest.mark.django_db
def test_a_higher_threshold_resolves_what_no_longer_breaches_it():
    rule = a_rule()
    an_idle_job()
    announcing.run(at(31))

    set_to(rule, settings=minutes(rule, 60))
    announcing.run(at(32))

    assert (
        Incident.objects.get().resolution
        == "the rule was changed: it is not so for as long as it says"
    )


@pytest.mark.django_db
@pytest.mark.parametrize("wanted", [0, 0.99, 43_201, float("nan"), float("inf")])
def test_a_duration_that_makes_no_sense_is_refused_with_its_bounds(wanted):
    rule = a_rule()

    with pytest.raises(ValueError, match="1 to 43200 minutes"):
        set_to(rule, settings=minutes(rule, wanted))


@pytest.mark.django_db
def test_a_rule_without_channels_tells_all_and_one_with_channels_only_those():
    chosen, other = slack("chosen"), slack("other")
    rule = a_rule()
    an_idle_job()
    announcing.run(at(31))
    everyone = set(Delivery.objects.values_list("channel", flat=True))
    for model in (Incident, IncidentGroup, Delivery):
        model.objects.all().delete()

    set_to(rule, channels=(chosen,))
    announcing.run(at(31))

    assert everyone == {chosen.pk, other.pk}
    assert set(Delivery.objects.values_list("channel", flat=True)) == {chosen.pk}


@pytest.mark.django_db
def test_who_was_told_hears_that_it_is_over_whatever_the_rules_channels_are_since():
    chosen, other = slack("chosen"), slack("other")
    rule = a_rule()
    gpu, run = an_idle_job()
    announcing.run(at(31))

    set_to(rule, channels=(chosen,))
    ran(gpu, "active", 31, 32, job=run.job)
    announcing.run(at(32))

    closing = Delivery.objects.filter(key__endswith="resolved")
    assert set(closing.values_list("channel", flat=True)) == {chosen.pk, other.pk}


@pytest.mark.django_db
def test_the_schema_itself_allows_one_open_incident_per_subject():
    rule = a_rule()
    row = {"rule": rule, "subject": KEY, "opened_at": NINE, "updated_at": NINE}
    row |= {"since_ms": ms(0), "until_ms": ms(1), "fired_ms": ms(0)}
    Incident.objects.create(**row, ended_ms=ms(1))
    Incident.objects.create(**row)

    with pytest.raises(IntegrityError, match="one_open_incident_per_subject"), transaction.atomic():
        Incident.objects.create(**row)


@pytest.mark.django_db
def test_one_evaluation_may_end_a_breach_and_begin_the_next_of_its_subject():
    """As after a time in which nothing was evaluated, or came."""
    a_rule()
    gpu, run = an_idle_job(60)
    announcing.run(at(60))

    ran(gpu, "active", 60, 75, job=run.job)
    ran(gpu, "quiet", 75, 90, job=run.job)
    announcing.run(at(90))

    rows = Incident.objects.order_by("pk").values_list("state", "since_ms", "ended_ms")
    assert list(rows) == [("resolved", ms(0), ms(60)), ("pending", ms(75), None)]


@pytest.mark.django_db(transaction=True)
def test_two_workers_at_once_open_one_incident():
    a_rule()
    slack()
    an_idle_job()
    did = []

    def work() -> None:
        did.append(announcing.run(at(31)))
        connection.close()

    workers = [threading.Thread(target=work) for _ in range(3)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(30)

    assert sorted(each["opened"] for each in did) == [0, 0, 1]
    assert Delivery.objects.count() == 1


@pytest.mark.django_db
def test_every_condition_ships_with_a_rule_that_is_added_once():
    Rule.objects.all().delete()

    first, again = shipped_rules.add_missing(NINE), shipped_rules.add_missing(NINE)

    assert (first, again) == (len(CONDITIONS), 0)
    rule = Rule.objects.get(condition="job_idle")
    assert (rule.name, rule.minutes, rule.is_enabled) == ("Job idle", 30, True)


@pytest.mark.django_db
def test_incidents_that_go_on_take_as_many_statements_however_many_they_are():
    a_rule()
    counts = []
    for many in (2, 6):
        for number in range(many):
            gpu = a_gpu(node=f"n{many}{number}")
            ran(gpu, "quiet", 0, 40, job=a_job(key=f"slurm/della/{many}{number}"))
        services.evaluate(at(40))
        with CaptureQueriesContext(connection) as statements:
            did = services.evaluate(at(41))
        counts.append((did["kept"], len(statements)))

    assert [kept for kept, _ in counts] == [2, 8]
    assert counts[0][1] == counts[1][1]

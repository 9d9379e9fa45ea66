"""Problems of a GPU and of a node: findings of jobs that wasted there, and what to do first."""

import re
from datetime import timedelta

import pytest
import time_machine

from fleetwatch.alerts.models import Incident, Rule
from fleetwatch.dashboard.gpu_health import health_of
from fleetwatch.diagnosis.findings import machine_findings
from fleetwatch.diagnosis.models import CauseEntry, Finding
from fleetwatch.inventory.models import GPU, Node
from fleetwatch.lib.intervals import HOUR_MS, Interval, to_ms
from tests.alerts.factories import an_incident
from tests.costs.factories import an_entry
from tests.dashboard.factories import hold
from tests.dashboard.shown_incidents import incident
from tests.diagnosis.told import NOW, cause, finding, gpu, job, place, rate
from tests.markup import in_text, tight

pytestmark = pytest.mark.django_db
HOUR = timedelta(hours=1)
UUID = "GPU-n1-1"


def wasted(key: str, *, on: int = 1, low: float = 1.0, **facts) -> int:
    """A finding of a job that was idle for the hour from 10:00; its number."""
    of = job(key, **facts)
    cause(of=of, on=gpu(on), low=low)
    hold(gpu(on), of, hours_ago=2, hours=1)
    return finding(of).pk


def problems_of(client, address: str) -> str:
    page = tight(client.get(address).content.decode())
    start = page.find("<h2>Problems")
    return page[start : page.index("States and readings")] if start >= 0 else ""


@pytest.mark.parametrize("address", ["/gpus/GPU-n1-1", "/nodes/n1"])
def test_findings_of_jobs_that_wasted_there_are_problems(admin, address):
    rate("2.00")
    pk = wasted("slurm/della/7", name="sweep", user="ann", end_ms=1)

    section = problems_of(admin, address)

    assert f'href="/findings/{pk}?from=now-24h&amp;to=now"' in section
    assert "Idle: still held" in in_text(section)
    assert "sweep · ann" in in_text(section)
    assert "$2.00 of what it wasted or underused could have been saved" in in_text(section)


@pytest.mark.parametrize("address", ["/gpus/GPU-n1-1", "/nodes/n1", "/findings"])
def test_a_gpu_that_is_busy_with_too_little_work_says_first_what_the_inbox_says(admin, address):
    rate("2.00")
    of = job("slurm/della/7", name="gnn", user="ann")
    cause("small_batch", of=of, on=gpu(1))
    hold(gpu(1), of, hours_ago=2, hours=1)
    finding(of, "small_batch")

    shown = in_text(tight(admin.get(address).content.decode()))

    assert "Raise the batch until memory is about 85 % full" in shown


@pytest.mark.parametrize(
    ("end_ms", "step"), [(None, "First: End the job"), (1, "First: Let the script end")]
)
def test_a_finding_says_what_to_do_first(admin, end_ms, step):
    wasted("slurm/della/7", end_ms=end_ms)

    assert step in in_text(problems_of(admin, "/nodes/n1"))


def test_of_a_gpu_are_only_findings_of_jobs_that_wasted_on_it(admin):
    rate("2.00")
    wasted("slurm/della/7", on=1)
    gpu(2)

    assert problems_of(admin, "/gpus/GPU-n1-2") == ""


def test_what_somebody_decided_about_is_no_problem_any_more(admin):
    of = job()
    cause(of=of, on=gpu(1))
    finding(of, status="dismissed")

    assert problems_of(admin, "/gpus/GPU-n1-1") == ""


def test_the_costliest_come_first_and_the_others_are_a_link_away(admin):
    """Five jobs, each for an hour of $2: a share of 0.2, 0.4, 0.6, 0.8, 1 could be saved."""
    rate("2.00")
    shares = (0.2, 1.0, 0.4, 0.8, 0.6)
    pks = {share: wasted(f"slurm/della/{round(10 * share)}", low=share) for share in shares}

    section = problems_of(admin, "/gpus/GPU-n1-1?range=24h")

    shown = [int(pk) for pk in re.findall(r'href="/findings/(\d+)\?', section)]
    assert shown == [pks[1.0], pks[0.8], pks[0.6]]
    assert "2 more findings of jobs that wasted here" in in_text(section)
    assert 'href="/findings?from=now-24h&amp;to=now&amp;node=n1"' in section


@pytest.mark.parametrize(
    ("start", "end_ms", "is_over"),
    [
        (NOW - HOUR, None, False),  # to 12:00, which is now, and the job runs
        (NOW - HOUR, 1, True),
        (NOW - 2 * HOUR, None, True),  # to 11:00: the job runs, and works
    ],
)
def test_it_goes_on_while_the_job_runs_and_was_seen_so_lately_here(admin, start, end_ms, is_over):
    of = job(end_ms=end_ms)
    cause(of=of, on=gpu(1), start=start)
    cause(of=of, on=gpu(2), start=NOW - HOUR)
    hold(gpu(1), of, hours_ago=3, hours=3)
    Node.objects.update(last_ms=to_ms(NOW))
    finding(of)

    section = in_text(problems_of(admin, "/gpus/GPU-n1-1"))

    assert f"Fri 20 Nov, {start:%H:%M}" in section
    assert ("over here since" in section) == is_over
    assert ("goes on" in section) == (not is_over)


def test_a_jobs_finding_is_no_longer_than_the_job_itself(admin):
    """The cells of five minutes of an hour from 11:00 on, of a job from 11:02 to 11:58."""
    start = NOW - HOUR
    minute = timedelta(minutes=1)
    of = job(start_ms=to_ms(start + 2 * minute), end_ms=to_ms(start + 58 * minute))
    cause(of=of, on=gpu(1), start=start)
    hold(gpu(1), of, hours_ago=1, hours=1)
    finding(of)

    section = in_text(problems_of(admin, "/gpus/GPU-n1-1"))

    assert "Fri 20 Nov, 11:02 over here since Fri 20 Nov, 11:58" in section


def fires(subject: str = "slurm/della/7", *, since=NOW - HOUR, **fields):
    """An incident of an idle job on GPU 1 of n1."""
    labels = {"labels": {"node": ["n1"], "job": [subject]}, "facts": {"gpus": [{"uuid": UUID}]}}
    command = {"command": "scancel 7", "actions": ["Fix: scancel 7, or give the GPUs back."]}
    rule = Rule.objects.get(condition="job_idle")
    return an_incident(rule, subject, opened_at=since, facts=labels | command, **fields)


@pytest.mark.parametrize("address", [f"/gpus/{UUID}", "/nodes/n1"])
def test_an_incident_says_what_to_do_first_as_its_own_page_does(admin, address):
    gpu(1)
    own = fires()

    section = problems_of(admin, address)
    page = tight(admin.get(f"/incidents/{own.pk}").content.decode())

    for text in ("End the job, or give the GPUs back.", ">scancel 7</code>"):
        assert text in section
        assert text in page


def test_an_incident_that_was_accepted_says_so_and_asks_for_nothing(admin):
    gpu(1)
    fires(muted="accepted until 2026-12-06 09:49 UTC: a workshop")

    section = problems_of(admin, "/nodes/n1")

    assert "incident, agreed as not waste" in in_text(section)
    assert "Agreed as not waste (until 2026-12-06 09:49 UTC): a workshop" in in_text(section)
    assert "scancel" not in section


@pytest.mark.parametrize("address", [f"/gpus/{UUID}", "/nodes/n1", "/jobs/slurm/della/7"])
def test_an_incident_that_is_snoozed_says_until_when_and_not_that_it_fires(admin, address):
    hold(gpu(1), job("slurm/della/7"), hours_ago=2, hours=1)
    fires(snoozed_until=NOW + 23 * HOUR)

    page = in_text(tight(admin.get(address).content.decode()))

    assert "incident, snoozed until Sat 21 Nov, 11:00" in page
    assert "incident, firing" not in page


@pytest.mark.parametrize(("ended_ago", "is_again"), [(2 * HOUR, True), (25.5 * HOUR, False)])
def test_an_incident_that_began_again_says_when_the_one_before_ended(admin, ended_ago, is_again):
    """Since 11:00; the one before was over at 10:00, or more than a day before it."""
    gpu(1)
    ended_at = NOW - ended_ago
    fires(since=NOW - 30 * HOUR, resolved_at=ended_at, until_ms=to_ms(ended_at))
    fires("slurm/della/8", since=NOW - 30 * HOUR, resolved_at=NOW - 2 * HOUR)
    own = fires()

    section = in_text(problems_of(admin, f"/gpus/{UUID}"))
    page = in_text(tight(admin.get(f"/incidents/{own.pk}").content.decode()))

    assert "Fri 20 Nov, 11:00" in section
    assert ("again: the one before ended Fri 20 Nov, 10:00" in section) == is_again
    assert ("an earlier incident ended Fri 20 Nov, 10:00" in page) == is_again
    assert ("again:" in section) == is_again


def test_dollars_of_the_period_are_called_so_and_those_of_an_incident_are_so_far(admin):
    rate("2.00")
    wasted("slurm/della/7")
    rule = Rule.objects.get(condition="gpu_fault")
    facts = {"kind": "gpu", "cost_usd": "1.50", "has_cost": True}
    an_incident(rule, UUID, opened_at=NOW - HOUR, facts=facts)

    section = in_text(problems_of(admin, f"/gpus/{UUID}"))

    assert "$2.00 of what it wasted or underused could be saved in this period" in section
    assert "$1.50 so far" in section


def test_a_broken_gpu_says_in_its_head_since_when_and_what_is_critical_comes_first(admin):
    gpu(1)
    slowed, fault = (Rule.objects.get(condition=name) for name in ("gpu_slowed", "gpu_fault"))
    older = an_incident(slowed, UUID, opened_at=NOW - 2 * HOUR, facts={"kind": "gpu"})
    broken = an_incident(fault, UUID, opened_at=NOW - HOUR, facts={"kind": "gpu"})

    page = tight(admin.get(f"/gpus/{UUID}").content.decode())

    head = page.partition("</h1>")[2].partition('<section class="card')[0]
    assert f'<a class="tag bad-c" href="/incidents/{broken.pk}">broken since' in head
    links = re.findall(r'href="/incidents/(\d+)"><b>', page)
    assert links == [str(broken.pk), str(older.pk)]


@pytest.mark.parametrize(
    ("narrowed", "shown"), [("", "$2.00 so far"), ("?range=1h", "$2.56 so far")]
)
def test_an_incident_of_a_job_costs_no_more_than_the_whole_job(admin, narrowed, shown):
    """It counts to this second, the job's cost as far as it was posted: of a part that is no end."""
    rate("2.00")
    of = job("slurm/della/7", start_ms=to_ms(NOW - 2 * HOUR))
    hold(gpu(1), of, hours_ago=2, hours=2)
    an_entry(gpu(1), "idle", HOUR_MS, start=NOW - 2 * HOUR, job=of, tier="certain")
    rule = Rule.objects.get(condition="job_idle")
    cost = {"cost_usd": "2.56", "has_cost": True}
    an_incident(rule, of.key, opened_at=NOW - HOUR, facts={"kind": "job"} | cost)

    page = admin.get(f"/jobs/slurm/della/7{narrowed}").content.decode()

    assert shown in in_text(page.partition("<h2>Problems")[2])


FAULT = {"kind": "gpu", "cost_usd": "10.79", "has_cost": True}
DRAIN = "scontrol update nodename=n1 state=drain"


def breaks(*, reason: str = "GPU fault", condition: str = "gpu_fault"):
    """An incident of GPU 1 of n1 since 11:00."""
    command = {"command": f"{DRAIN} reason='{reason}'", "actions": ["Fix: drain it."]}
    facts = FAULT | command | {"labels": {"node": ["n1"]}}
    rule = Rule.objects.get(condition=condition)
    return an_incident(rule, UUID, opened_at=NOW - HOUR, facts=facts)


def test_a_gpu_that_cant_work_says_first_what_that_costs_and_not_how_useful_it_was(admin):
    gpu(1)
    breaks()

    page = tight(admin.get(f"/gpus/{UUID}").content.decode())
    page = in_text(page.partition('<dl class="kpis">')[2])

    head = page.partition("Problems")[0]
    assert head.index("Can’t work $10.79 since Fri 20 Nov, 11:00") < head.index("Cost")
    assert "Useful share" not in head
    assert "Wasted" not in head
    assert "answered last Fri 20 Nov, 11:00; its agent" in page
    assert "Processes last seen" not in page


def test_a_node_says_what_its_gpu_that_cant_work_costs_beside_its_waste(admin):
    gpu(1)
    breaks()

    head = in_text(tight(admin.get("/nodes/n1").content.decode())).partition("Problems")[0]

    assert "1 GPU broken $10.79 since Fri 20 Nov, 11:00" in head
    assert "Useful share of cost" in head


@pytest.mark.parametrize("address", [f"/gpus/{UUID}", "/nodes/n1"])
def test_the_command_that_drains_a_node_is_there_once_with_the_jobs_that_run(admin, address):
    of = job("slurm/della/7", name="sweep")
    hold(gpu(1), of, hours_ago=2, hours=2)
    Node.objects.update(last_ms=to_ms(NOW))
    breaks()
    breaks(reason="GPU memory errors", condition="gpu_memory_errors")

    page = tight(admin.get(address).content.decode())

    assert page.lower().count("state=drain") == 1
    assert "Running there now: sweep. Once the node drains it goes on to its end." in in_text(page)
    assert "as above" in in_text(page)


@pytest.mark.parametrize("address", ["/gpus/GPU-n1-1", "/nodes/n1"])
def test_the_finding_of_an_incidents_job_stands_in_the_incidents_row(admin, address):
    """Of two jobs that were idle one has an incident that fires."""
    rate("2.00")
    same, other = wasted("slurm/della/7", name="sweep"), wasted("slurm/della/8", name="other", on=1)
    facts = {"labels": {"node": ["n1"]}, "facts": {"gpus": [{"uuid": UUID}]}}
    fires = incident("slurm/della/7", facts=facts | {"name": "sweep"})

    section = problems_of(admin, address)
    [row] = [each for each in section.split("<tr>") if f'href="/incidents/{fires.pk}"' in each]

    assert f'href="/findings/{same}?from=now-24h&amp;to=now">finding</a>' in row
    assert section.count(f"/findings/{same}") == 1
    assert f'href="/findings/{other}?from=now-24h&amp;to=now"' in section


def test_a_machines_finding_stands_in_the_row_of_its_incident(admin):
    rate("2.00")
    fires = incident(
        UUID,
        rule=Rule.objects.get(condition="gpu_slowed"),
        facts={"kind": "gpu", "labels": {"node": ["n1"], "cause": ["throttled"]}},
    )
    of = job("slurm/della/7")
    cause("throttled", of=of, on=gpu(1), start=NOW - HOUR, low=0.25, high=0.25)
    hold(gpu(1), of, hours_ago=1, hours=1)
    pk = place("throttled", node=gpu(1).node, last_ms=to_ms(NOW)).pk

    section = problems_of(admin, f"/gpus/{UUID}")

    assert section.count("<tr>") == 2, (fires.pk, pk)  # the head, and the incident's
    assert f'href="/findings/{pk}?from=now-24h&amp;to=now">finding</a>' in section


def fires_hot(on: int = 1, **fields):
    """An incident of a GPU of n1 that heat slows since 11:00; the ledger counts $0.12."""
    facts = {
        "kind": "gpu",
        "labels": {"node": ["n1"], "cause": ["throttled"]},
        "has_cost": True,
        "cost_usd": "0.12",
        "usd_per_hour": "0.12",
        "where": f"n1 GPU {on}",
        "since_ms": to_ms(NOW - HOUR),
        "until_ms": to_ms(NOW),
    }
    rule = Rule.objects.get(condition="gpu_slowed")
    return incident(gpu(on).uuid, rule=rule, facts=facts, **fields)


def hot(*hours_ago: int, on: int = 1, lost: float | None = 0.4) -> None:
    """Hours at $4 of a GPU that works, of which the ledger counts 3 %, and the clock lost more."""
    of = job("slurm/della/7")
    for hours in hours_ago:
        lost_ms = None if lost is None else round(lost * HOUR_MS)
        start = {"start": NOW - hours * HOUR, "clock_lost_ms": lost_ms}
        entry = cause("throttled", of=of, on=gpu(on), low=0.03, high=0.03, **start)
        own = {"idle_certain_ms": 0, "underused_ms": HOUR_MS * 3 // 100}
        CauseEntry.objects.filter(pk=entry.pk).update(**own)
    hold(gpu(on), of, hours_ago=max(hours_ago), hours=max(hours_ago))


def rows_of(client, address: str) -> tuple[str, int]:
    """The section of problems, and how many it has."""
    section = problems_of(client, address).partition("</section>")[0]
    return section, section.count("<tr>") - 1


@pytest.mark.parametrize("address", ["/nodes/n1", f"/gpus/{UUID}"])
@pytest.mark.parametrize("hours", [(1,), (1, 5), (1, 5, 9)])
def test_what_slows_a_gpu_is_one_row_however_often_it_began_with_what_its_clock_lost(
    admin, address, hours
):
    """0.4 of each hour of $4: the incident's last hour, and all in the period."""
    rate("4.00")
    hot(*hours)
    Node.objects.update(last_ms=to_ms(NOW))
    fires = fires_hot()
    pk = place("throttled", node=gpu(1).node, last_ms=to_ms(NOW)).pk

    section, rows = rows_of(admin, address)

    words = in_text(section)
    assert rows == 1
    assert f'href="/incidents/{fires.pk}"' in section
    assert f'href="/findings/{pk}?from=now-24h&amp;to=now">finding</a>' in section
    assert (f"{len(hours)} times" in words) == (len(hours) > 1)
    assert "$0.12 so far ≤ $1.60 by the lower clock" in words
    assert f"in this period ≤ ${1.6 * len(hours):.2f} by the lower clock" in words


def test_a_nodes_slowed_gpus_are_in_the_rows_of_those_that_fire(admin):
    """GPU 2 was slowed too, and has no incident."""
    rate("4.00")
    hot(1)
    hot(3, on=2)
    Node.objects.update(last_ms=to_ms(NOW))
    fires_hot()
    place("throttled", node=gpu(1).node, last_ms=to_ms(NOW))

    section, rows = rows_of(admin, "/nodes/n1")
    other = problems_of(admin, f"/gpus/{gpu(2).uuid}")

    assert rows == 1
    assert "of 2 GPUs" in in_text(section)
    assert "≤ $3.20 by the lower clock" in in_text(section)
    assert "≤ $1.60 by the lower clock" in in_text(other)  # it is a finding there


@pytest.mark.parametrize(
    ("lost", "usd", "text"),
    [(0.4, None, "≤ 0.40 GPU-hours by the lower clock"), (None, "4.00", "")],
)
def test_without_a_rate_it_is_hours_and_what_was_not_worked_out_is_not_told(admin, lost, usd, text):
    if usd:
        rate(usd)
    hot(1, lost=lost)
    Node.objects.update(last_ms=to_ms(NOW))
    fires_hot()

    words = in_text(problems_of(admin, "/nodes/n1"))

    assert text in words
    assert ("lower clock" in words) == bool(text)


@pytest.mark.parametrize("has_incident", [True, False])
def test_a_slowed_gpu_is_not_said_to_have_no_fault(admin, has_incident):
    """GPU 1 since 11:00, GPU 2 until 10:00, GPU 3 never."""
    hot(1)
    hot(3, on=2)
    gpu(3)
    Node.objects.update(last_ms=to_ms(NOW))
    if has_incident:
        fires_hot()

    page = in_text(tight(admin.get("/nodes/n1").content.decode()).partition("<h2>GPUs")[2])

    assert "slowed by heat or power, since 20 Nov 11:00" in page
    assert "was slowed by heat or power, until 20 Nov 10:00" in page
    assert page.count("no fault") == 1


@pytest.mark.parametrize(
    ("minutes", "over_ms", "health", "spell"),
    [
        (20, None, "slowed by heat or power, since 20 Nov 11:00", "11:00 still"),
        (21, to_ms(NOW) - 35 * 60_000, "until 20 Nov 11:25", "11:00 Fri 20 Nov, 11:25"),
    ],
)
def test_finding_health_and_spell_end_with_the_last_five_minutes(
    admin, minutes, over_ms, health, spell
):
    """GPU 1 from 11:00 to 11:25: what nobody saw for 20 minutes may go on."""
    hot(1)
    CauseEntry.objects.update(cells=0b11111)
    now = NOW - HOUR + timedelta(minutes=25 + minutes)
    Node.objects.update(last_ms=to_ms(now))
    pk = place("throttled", node=gpu(1).node, last_ms=to_ms(NOW)).pk

    with time_machine.travel(now, tick=False):
        node = tight(admin.get("/nodes/n1").content.decode())
        of_finding = in_text(tight(admin.get(f"/findings/{pk}").content.decode()))

    assert machine_findings.over_since_ms(Finding.objects.get(pk=pk)) == over_ms
    assert health in in_text(node.partition("<h2>GPUs")[2])
    assert spell in of_finding


@pytest.mark.parametrize(
    ("start", "end", "slowed"),
    [
        (3, 2, (None, to_ms(NOW) - HOUR_MS)),  # it ended after the period
        (2, 1.5, (None, to_ms(NOW) - HOUR_MS)),  # and began before it
        (9, 5, (None, None)),
        (0.5, 0, (None, None)),
    ],
)
def test_a_gpu_was_slowed_until_that_ended_also_where_the_period_ended_before(start, end, slowed):
    """From 8 to 11 o'clock; it is 12."""
    hot(2, 3, 4)
    Node.objects.update(last_ms=to_ms(NOW))

    health = health_of(Node.objects.get(), Interval(NOW - start * HOUR, NOW - end * HOUR))

    own = health.get(gpu(1).pk)
    assert ((own.slowed_ms, own.slowed_until_ms) if own else (None, None)) == slowed


def test_a_gpu_is_slowed_since_that_began_also_where_the_period_began_later():
    """Since 8 o'clock."""
    hot(1, 2, 3, 4)
    Node.objects.update(last_ms=to_ms(NOW))

    health = health_of(Node.objects.get(), Interval(NOW - HOUR, NOW))

    assert health[gpu(1).pk].slowed_ms == to_ms(NOW) - 4 * HOUR_MS


def test_a_gpu_whose_instance_is_slowed_is():
    whole = gpu(1)
    hot(1, on=2)
    GPU.objects.filter(pk=gpu(2).pk).update(parent=whole)
    Node.objects.update(last_ms=to_ms(NOW))

    health = health_of(Node.objects.get(), Interval(NOW - HOUR, NOW))

    assert {pk: of.slowed_ms for pk, of in health.items()} == {whole.pk: to_ms(NOW) - HOUR_MS}


def test_a_slowed_gpus_finding_and_incident_say_the_same_and_lead_to_each_other(admin):
    """2 hours of $4: 0.4 of each lost by the clock, 0.03 counted by the ledger."""
    rate("4.00")
    hot(1, 2)
    Node.objects.update(last_ms=to_ms(NOW))
    fires = fires_hot()
    Incident.objects.update(facts=fires.facts | {"since_ms": to_ms(NOW - 2 * HOUR)})
    pk = place("throttled", node=gpu(1).node, first_ms=to_ms(NOW - 2 * HOUR)).pk

    of_finding = tight(admin.get(f"/findings/{pk}").content.decode())
    of_incident = tight(admin.get(f"/incidents/{fires.pk}").content.decode())
    of_job = in_text(tight(admin.get("/jobs/slurm/della/7").content.decode()))
    listed = in_text(tight(admin.get("/findings").content.decode()))

    for page in (of_finding, of_incident):
        words = in_text(page)
        of = "" if page == of_finding else " of 2.00"  # a finding's affected hours are beside it
        assert f"≤ $3.20 up to 0.80{of} GPU-hours of work, as if at 60 % of the highest" in words
        assert "an upper bound, as if all work followed the clock" in words
        assert "the GPU was busy" in words
        assert "When it was slowed 1 time" in words
        assert "Fri 20 Nov, 10:00 still – –" in words
    assert "$0.24" in of_finding  # by the ledger
    assert f'href="/incidents/{fires.pk}"' in of_finding
    assert f'href="/findings/{pk}"' in of_incident
    assert "≤ $3.20 by the lower clock" in of_job
    assert "≤ $3.20 by the lower clock" in listed


@pytest.mark.parametrize(
    ("lost", "usd", "text"),
    [
        (None, "4.00", "– not worked out of 1.00 GPU-hours: they were judged before it was"),
        (0.4, None, "≤ 0.40 GPU-h up to 0.40 GPU-hours of work"),
        (0.4, None, "0.40 GPU-hours have no rate and are in no dollars"),
        (0.0, "4.00", "≤ $0.00 up to 0.00 GPU-hours of work, as if at 100 %"),
    ],
)
def test_a_finding_claims_no_more_than_was_worked_out(admin, lost, usd, text):
    if usd:
        rate(usd)
    hot(1, lost=lost)
    pk = place("throttled", node=gpu(1).node).pk

    assert text in in_text(tight(admin.get(f"/findings/{pk}").content.decode()))


def test_of_many_spells_the_newest_are_listed_and_that_is_said(admin):
    """Every other hour, nine times."""
    rate("4.00")
    hot(*range(1, 19, 2))
    Node.objects.update(last_ms=to_ms(NOW))
    pk = place("throttled", node=gpu(1).node).pk

    page = in_text(tight(admin.get(f"/findings/{pk}").content.decode()))

    section = page.partition("When it was slowed")[2].partition("Lowest clock, of")[0]
    assert "the newest 8 of 9 times" in section
    assert section.count("GPU 1") == 8
    assert "Fri 20 Nov, 11:00 still" in section
    assert "Fri 20 Nov, 09:00 Fri 20 Nov, 10:00" in section


def test_what_is_over_leads_from_its_finding_to_its_incidents_too(admin):
    rate("4.00")
    hot(1)
    hot(1, on=2)
    Node.objects.update(last_ms=to_ms(NOW) + 3 * HOUR_MS)
    ended = {"resolved_at": NOW, "ended_ms": to_ms(NOW)}
    over = fires_hot(**ended)
    never = fires_hot(2, **ended)
    Incident.objects.filter(pk=never.pk).update(fired_ms=None)
    pk = place("throttled", node=gpu(1).node).pk

    page = tight(admin.get(f"/findings/{pk}").content.decode())

    assert f'href="/incidents/{over.pk}">n1 GPU 1</a>' in page
    assert f'href="/incidents/{never.pk}"' not in page

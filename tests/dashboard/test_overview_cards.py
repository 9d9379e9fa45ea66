"""Each card of the overview opens what it counts: the list behind it has as many."""

from datetime import timedelta
from decimal import Decimal

import pytest

from fleetwatch.alerts.models import Rule
from fleetwatch.dashboard.fleet_health import HealthCard
from fleetwatch.diagnosis.findings.patterns import GoingOn
from fleetwatch.diagnosis.models import Finding
from fleetwatch.inventory.models import GPU, Departure, Node
from fleetwatch.jobs.models import Job
from fleetwatch.ledger.models import Posted
from fleetwatch.lib.intervals import HOUR_MS, to_ms
from fleetwatch.notify import services
from fleetwatch.notify.models import Channel
from fleetwatch.notify.transports.delivery_log import DELIVERY_LOG
from fleetwatch.telemetry.models import TouchedHour
from tests import stored_runs
from tests.alerts.factories import a_rule, an_incident
from tests.dashboard import factories
from tests.diagnosis import told
from tests.markup import in_text, tight
from tests.notify.factories import queue, slack_channel

pytestmark = pytest.mark.django_db
NOW = factories.NOW
NOW_MS = to_ms(NOW)
MINUTE_MS = 60_000
# by the label of a health card, how many the page behind it has
COUNTED_BY = {
    "Silent agents": lambda shown: len(shown["agents"]),
    "Broken GPUs": lambda shown: len(shown["broken"]),
    "Firing incidents": lambda shown: len(shown["lines"]),
    "Failing channels": lambda shown: len(shown["failing"]),
    "Overdue hours": lambda shown: shown["queues"][0].count,
}


def silent(name: str, minutes: float) -> None:
    Node.objects.filter(name=name).update(last_ms=NOW_MS - int(minutes * MINUTE_MS))


def broken(name: str, *outages: list) -> None:
    gpu = GPU.objects.get(node__name=name)
    Posted.objects.create(gpu=gpu, spans=[[0, NOW_MS]], outages=list(outages))


def counts(client) -> dict[str, int]:
    """Of the health cards, each of which must open as many."""
    cards = client.get("/").context["health"]
    for card in cards:
        if not card.address:
            assert not card.count, card.label
            continue
        page, _, section = card.address.partition("#")
        answer = client.get(page)
        assert COUNTED_BY[card.label](answer.context) == card.count, card.label
        assert not section or f'id="{section}"' in answer.content.decode(), card.address
    return {card.label: card.count for card in cards}


def test_a_healthy_fleet_has_nothing_behind_any_card(four_nodes):
    assert set(counts(four_nodes).values()) == {0}
    assert '<span class="dot bad">' not in four_nodes.get("/").content.decode()


def test_silent_agents_are_those_not_heard_for_ten_minutes_nor_gone(four_nodes):
    silent("node-1", 10)
    silent("node-2", 10.1)
    silent("node-3", 60)
    gone = Node.objects.get(name="node-3")
    Departure.objects.create(node=gone, at_ms=NOW_MS - 60 * MINUTE_MS, by="ann", reason="sold")

    assert counts(four_nodes)["Silent agents"] == 1
    assert [each.node.name for each in four_nodes.get("/agents?health=gone").context["agents"]] == [
        "node-3"
    ]
    assert "There is no `health`" in four_nodes.get("/agents?health=ill").content.decode()


def test_broken_gpus_are_those_whose_outage_goes_on(four_nodes):
    hour_ago = NOW_MS - HOUR_MS
    broken("node-1", [hour_ago, None, "xid_79", False])
    broken("node-2", [hour_ago, NOW_MS - MINUTE_MS, "gpu_lost", False])  # it works again
    broken("node-3", [hour_ago, None, "drained", False])
    broken("node-4", [hour_ago, None, "gpu_lost", False])
    GPU.objects.filter(node__name="node-4").update(retired_ms=NOW_MS)

    assert counts(four_nodes)["Broken GPUs"] == 1
    assert "XID 79: it has fallen off the bus" in four_nodes.get("/status").content.decode()


def test_incidents_that_somebody_has_seen_to_do_not_fire(four_nodes):
    rule = a_rule(threshold=1)
    for number in range(3):
        an_incident(rule, f"slurm/della/{number}", opened_at=NOW - timedelta(hours=1))
    rule.incidents.filter(subject__endswith="1").update(state="acknowledged")
    rule.incidents.filter(subject__endswith="2").update(snoozed_until=NOW + timedelta(hours=1))

    assert counts(four_nodes)["Firing incidents"] == 1
    assert len(four_nodes.get("/").context["incidents"]) == 1


def test_what_burns_most_an_hour_comes_first_and_what_is_left_is_counted(four_nodes):
    rule = a_rule(threshold=1)
    for number, usd in enumerate(("1.5", None, "7", "3", "0.5", None, "2", None)):
        facts = {"usd_per_hour": usd}
        an_incident(rule, f"job/{number}", opened_at=NOW - timedelta(hours=1), facts=facts)
    for number in range(2):
        gpu = {"kind": "gpu", "labels": {"node": ["node-1"]}, "usd_per_hour": "2"}
        an_incident(rule, f"GPU-{number}", opened_at=NOW - timedelta(hours=2), facts=gpu)

    answer = four_nodes.get("/")

    subjects = [[line.breach.subject for line in row.lines] for row in answer.context["incidents"]]
    assert subjects == [
        ["job/2"],
        ["GPU-1", "GPU-0"],  # $4 together
        ["job/3"],
        ["job/6"],
        ["job/0"],
        ["job/4"],
    ]
    assert answer.context["incidents"][1].usd_per_hour == 4
    shown = answer.content.decode()
    assert "<h2>10 firing incidents</h2>" in shown
    assert ">3 more</a" in shown


def test_what_is_critical_comes_before_what_burns_more(four_nodes):
    usual = {"threshold": 0, "minutes": 30, "created_at": NOW, "evaluated_ms": 0}
    for severity, usd in (("warning", "9"), ("critical", "1"), ("critical", "2"), ("info", None)):
        name = f"{severity} {usd}"
        rule = Rule.objects.create(name=name, condition="job_idle", severity=severity, **usual)
        facts = {"usd_per_hour": usd}
        an_incident(rule, f"job/{usd}", opened_at=NOW - timedelta(hours=1), facts=facts)

    rows = four_nodes.get("/").context["incidents"]

    assert [row.first.breach.subject for row in rows] == ["job/2", "job/1", "job/9", "job/None"]


def test_failing_channels_are_those_that_reach_nobody(four_nodes):
    channels = [slack_channel("https://slack.example", name=name) for name in "abcd"]
    switched_off_for_an_error, by_somebody, unanswered, _ = channels
    Channel.objects.filter(pk=by_somebody.pk).update(is_enabled=False)
    Channel.objects.filter(pk=switched_off_for_an_error.pk).update(
        is_enabled=False, disabled_reason="channel_not_found"
    )
    queue(unanswered)
    unanswered.deliveries.update(attempts=1, last_answer="502 <b>")

    assert counts(four_nodes)["Failing channels"] == 2
    assert "502 &lt;b&gt;" in four_nodes.get("/status").content.decode()
    unanswered.deliveries.update(state="sent")
    assert counts(four_nodes)["Failing channels"] == 1


def test_a_fleet_without_a_channel_that_sends_leads_in_amber_to_where_one_is_set_up(four_nodes):
    """One is off, another keeps what it takes; one that sends makes the card green."""
    Channel.objects.update(is_enabled=False)
    services.create_channel(DELIVERY_LOG.kind, "kept", {}, now=NOW)

    def card() -> HealthCard:
        cards = four_nodes.get("/").context["health"]
        return next(each for each in cards if "hannels" in each.label)

    missing = "0 of 2 send"
    assert (card().count, card().if_none, card().colour) == (0, missing, "warn")
    assert four_nodes.get(card().address).status_code == 200
    slack_channel("https://slack.example", name="sends")
    assert (card().if_none, card().colour) == ("none", "good")


def test_hours_are_overdue_once_they_are_over_for_ten_minutes(four_nodes):
    node = Node.objects.get(name="node-1")
    for hours_ago in (0, 1, 30, 30):
        hour = NOW.replace(minute=0) - timedelta(hours=hours_ago)
        TouchedHour.objects.create(node_id=node.pk, hour=hour)

    overdue = counts(four_nodes)["Overdue hours"]

    # the running hour is not, the last one only once it has been over for ten minutes
    assert overdue == (2 if NOW.minute >= 10 else 1)


def test_patterns_lead_to_the_inbox_that_has_as_many(four_nodes):
    told.rate()
    for number, hours_ago in enumerate((50, 26, 1, 27, 28)):
        goes_on = number == 2
        end_ms = NOW_MS - (hours_ago - 1) * HOUR_MS
        user = "ann" if number < 3 else "bo"
        job = told.job(f"slurm/della/{number}", user=user, end_ms=None if goes_on else end_ms)
        told.cause(of=job, on=told.gpu(number), start=NOW - timedelta(hours=hours_ago))
        told.finding(job, first_ms=end_ms - HOUR_MS, last_ms=end_ms)

    overview = four_nodes.get("/?range=7d&parts=1")

    for when in ("now", "habit"):
        address = f"/findings?from=now-7d&to=now&when={when}"
        assert f'href="{address.replace("&", "&amp;")}"' in tight(overview.content.decode())
        total = four_nodes.get(address).context["pager"].total
        assert total == overview.context["pattern_counts"][when] == 1
    assert overview.context["going_on"] == GoingOn(wasting=1, potential=0)
    inbox = four_nodes.get("/findings?from=now-7d&to=now").context
    assert inbox["counts"]["open"] == overview.context["savings_count"] == 5


def test_beside_a_period_that_is_over_what_wastes_now_is_counted_and_listed_of_the_last_hour(
    four_nodes,
):
    """Of two that waste now the day before yesterday has one."""
    told.rate()
    for number, hours_ago in enumerate((50, 1)):
        job = told.job(f"slurm/della/{number}", user=f"user-{number}", end_ms=None)
        for ago in {hours_ago, 1}:
            told.cause(of=job, on=told.gpu(number), start=NOW - timedelta(hours=ago))
        told.finding(job, first_ms=NOW_MS - hours_ago * HOUR_MS, last_ms=NOW_MS)

    pinned = four_nodes.get("/?from=now-60h&to=now-40h&parts=1").content.decode()
    shown = four_nodes.get("/?from=now-60h&to=now-40h&parts=1").context

    address = "/findings?from=now-1h&to=now&when=now"
    assert f'href="{address.replace("&", "&amp;")}"' in tight(pinned)
    assert four_nodes.get(address).context["pager"].total == shown["going_on"].wasting == 2
    assert shown["pattern_counts"]["now"] == 1


def test_what_wastes_now_are_running_jobs_by_their_dollars_of_the_last_hour(four_nodes):
    """At $2 an hour: half an hour idle, an hour stalled; a service waits, and one is over."""
    for name, state, tier, gpu_ms, end_ms in (
        ("rests", "idle", "certain", HOUR_MS // 2, None),
        ("starves", "stalled", "probable", HOUR_MS, None),
        ("waits", "stalled", "potential", HOUR_MS, None),
        ("ended", "idle", "certain", HOUR_MS, NOW_MS),
    ):
        job = factories.job(f"slurm/della/{name}", name=name, end_ms=end_ms)
        gpu = factories.gpu(factories.node(name))
        of = {"hours_ago": 1, "state": state, "tier": tier, "gpu_ms": gpu_ms, "held_by": job}
        factories.entry(gpu, **of).save()

    wasting = four_nodes.get("/?parts=1").context["wasting"]

    assert [(line.job.name, line.group.totals.wasted_usd) for line in wasting] == [
        ("starves", 2),
        ("rests", 1),
    ]


def test_what_wastes_now_and_was_closed_as_no_waste_says_so(four_nodes):
    job = factories.job("slurm/della/spare", name="spare")
    gpu = factories.gpu(factories.node("spares"))
    factories.entry(gpu, hours_ago=1, state="idle", tier="certain", held_by=job).save()
    closed = told.finding(job, first_ms=NOW_MS - HOUR_MS, last_ms=NOW_MS)
    Finding.objects.filter(pk=closed.pk).update(status="dismissed")

    page = tight(four_nodes.get("/?parts=1").content.decode())

    [row] = [row for row in page.split("<li>") if "<b>spare</b>" in row]
    assert '<span class="tag">agreed as not waste</span>' in row


def test_dollars_and_gpus_lead_to_pages_with_the_same(four_nodes):
    overview = four_nodes.get("/?range=24h").context
    period = "from=now-24h&to=now"

    assert (
        four_nodes.get(f"/waste?{period}").context["totals"].wasted_usd
        == overview["totals"].wasted_usd
    )
    states = four_nodes.get(f"/costs?{period}&group_by=state").context["seen"]
    assert states.whole.totals.spend_efficiency == overview["totals"].spend_efficiency == 0.5
    assert four_nodes.get("/fleet").context["figures"].gpu_count == overview["spending"].gpus == 4
    narrowed = four_nodes.get("/?range=24h&node=node-1").context["totals"].cost_usd
    costs = four_nodes.get(f"/costs?{period}&node=node-1").context["seen"].whole.totals.cost_usd
    assert costs == narrowed == 4


def test_the_month_to_date_leads_to_its_budget_with_the_same_dollars(four_nodes):
    four_nodes.post("/budgets/set", {"team": "", "month": "2026-11", "amount": "1600"})

    overview = four_nodes.get("/?range=1h")
    month = four_nodes.get("/budgets/fleet").context["line"]

    # four GPUs, two hours each at $2, whatever the page's period
    assert overview.context["month"].spent_usd == month.spent_usd == 16
    assert overview.context["month"].share == month.share == Decimal("0.01")
    card = tight(overview.content.decode()).partition(">Month to date<")[2].partition("</div>")[0]
    assert "1 % of the budget of" in card
    # the month's first hours were before the first GPU
    assert "recorded since 20 Nov 2026" in card
    assert "used; a partial month, what was spent before is not recorded" in card
    assert "$1,600" in card


def test_what_idles_and_was_accepted_stands_beside_what_asks_for_somebody(four_nodes):
    """Of three GPUs of $2 an hour one idles under an open job, two under one that is accepted."""
    for number, name in ((1, "open"), (2, "kept"), (3, "kept")):
        job = Job.objects.filter(name=name).first() or factories.job(
            f"slurm/della/{name}", name=name
        )
        gpu = GPU.objects.get(node__name=f"node-{number}")
        lasted = HOUR_MS // 2
        span = {"hours_ago": 0.5, "hours": lasted / HOUR_MS}
        stored_runs.store(factories.run(gpu, **span, states={"idle": lasted}, held_by=job))
    kept = Job.objects.get(name="kept")
    rule = a_rule(condition="job_idle")
    accepted = "accepted until 6 Dec 2026, 09:49 UTC: a workshop"
    an_incident(rule, kept.key, opened_at=NOW, facts={}, muted=accepted)

    overview = four_nodes.get("/")

    shown = in_text(tight(overview.content.decode()))
    assert "1 GPU idle right now, $2.00 /h." in shown
    assert "+ 2 agreed as not waste, $4.00 /h." in shown
    assert overview.context["longest"].job.name == "open"


def test_the_banner_leads_to_each_gpu_that_it_counts(four_nodes):
    """Of a job for half an hour, of which the ledger has all but two minutes: 28 at $2."""
    job = factories.job(name="<b>sweep</b>")
    lasted = HOUR_MS // 2
    known = lasted - 2 * MINUTE_MS
    for number, state in enumerate(("idle", "idle", "useful"), start=1):
        gpu = GPU.objects.get(node__name=f"node-{number}")
        span = {"hours_ago": 0.5, "hours": known / HOUR_MS}
        stored_runs.store(factories.run(gpu, **span, states={state: known}, held_by=job))
    rule = a_rule(condition="job_idle")
    counted = {"since_ms": NOW_MS - lasted, "facts": {"cost_usd": "1.866666"}}
    incident = an_incident(rule, job.key, opened_at=NOW, **counted)
    start = NOW.replace(minute=0) - timedelta(hours=1)
    told.cause("idle_held", of=job, on=GPU.objects.get(node__name="node-1"), start=start)
    finding = told.finding(job, "idle_held")

    overview = four_nodes.get("/")
    idle = four_nodes.get("/fleet/idle")

    text = tight(overview.content.decode())
    assert '<b>2 GPUs idle right now,<span title="$4.000000">$4.00</span>/h.</b>' in text
    assert '<a href="/fleet/idle">Show all 2</a>' in text
    [line] = idle.context["lines"]
    assert [each.gpu.node.name for each in line.gpus] == ["node-1", "node-2"]
    assert (line.finding_id, line.incident.pk, bool(line.cause)) == (finding.pk, incident.pk, True)
    assert idle.context["usd_per_hour"] == overview.context["spending"].idle_usd_per_hour == 4
    assert [(each.since_ms, each.cost_usd) for each in line.gpus] == [
        (NOW_MS - lasted, Decimal("0.933333"))
    ] * 2
    assert line.cost_usd == overview.context["longest"].cost_usd == Decimal("1.866666")
    assert "&lt;b&gt;sweep&lt;/b&gt;" in idle.content.decode()


def test_each_step_of_the_funnel_leads_to_its_hours_and_dollars(four_nodes):
    gpu = GPU.objects.get(node__name="node-1")
    for place, state in enumerate(("free", "unavailable", "unobserved", "underused", "idle")):
        factories.entry(gpu, hours_ago=4 + place, state=state).save()
    overview = four_nodes.get("/?range=24h")
    text = tight(overview.content.decode())

    for step in overview.context["funnel"]:
        address = f"/explain?from=now-24h&to=now{step.narrowing}"
        assert f'<a href="{address.replace("&", "&amp;")}">{step.label}</a>' in text
        totals = four_nodes.get(address).context["figure"].totals
        assert (totals.capacity_ms, totals.cost_usd) == (step.gpu_ms, step.cost_usd)


@pytest.mark.parametrize(("role", "is_money_first"), [("finance", True), ("operator", False)])
def test_finance_reads_dollars_above_incidents_and_operators_incidents_first(
    client, four_nodes, role, is_money_first
):
    an_incident(a_rule(), "GPU-1", opened_at=NOW)
    client.force_login(factories.user(role=role, username=role))

    page = client.get("/overview").content.decode()

    figures = page.index('<dl class="kpis">')
    assert (figures < page.index('aria-label="Fleet health"')) == is_money_first

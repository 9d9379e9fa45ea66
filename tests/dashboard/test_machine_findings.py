"""A machine's finding: how it stands, since when, what to do about it, and its curve."""

import re
from datetime import timedelta
from html import unescape

import pytest
import time_machine
from django.utils.html import escape

from fleetwatch.alerts.models import Rule
from fleetwatch.dashboard.numbers import in_ranges
from fleetwatch.diagnosis.causes import BY_CODE
from fleetwatch.diagnosis.findings import machine_findings
from fleetwatch.diagnosis.models import CapacityEntry, CauseEntry, Finding
from fleetwatch.inventory.models import Node
from fleetwatch.ledger.models import Posted
from fleetwatch.lib.intervals import HOUR_MS, Interval, to_ms
from fleetwatch.telemetry.models import HealthEvent
from tests.alerts.factories import an_incident
from tests.costs.factories import a_run, an_entry
from tests.dashboard import factories
from tests.dashboard.factories import hold
from tests.diagnosis.told import NOW, capacity, cause, gpu, job, place, rate
from tests.markup import in_text, tight

pytestmark = pytest.mark.django_db
HOUR = timedelta(hours=1)


@pytest.mark.parametrize(("heard", "is_over"), [(NOW, False), (NOW + 2 * HOUR, True)])
def test_a_machine_that_is_well_again_is_told_so_and_nothing_is_to_be_reset(admin, heard, is_over):
    for hours in (50, 2, 1):
        capacity("gpu_fault", on=gpu(3), start=NOW - hours * HOUR)
    node = gpu(3).node
    Node.objects.update(last_ms=to_ms(heard))
    first_ms = to_ms(NOW - 50 * HOUR)
    broken = place("gpu_fault", node=node, first_ms=first_ms)

    page = tight(admin.get(f"/findings/{broken.pk}?range=24h").content.decode())
    whole = tight(admin.get(f"/findings/{broken.pk}").content.decode())

    assert ("Was broken: n1 GPU 3 · 18–20 Nov" in whole) == is_over
    assert ("Was broken: n1 GPU 3" in page) == is_over
    assert "· 18–20 Nov" not in page  # of a day alone
    assert ("since 20 Nov 2026, nobody decided about it yet" in page) == is_over
    assert ("nvidia-smi --gpu-reset -i 3" in page) == (not is_over)
    assert "Wed 18 Nov, 10:00</td>" in page  # since it began, not since the period does
    assert "<h2>GPUs that could not work</h2><p>hourly mean</p>" in page


def test_it_is_over_once_the_driver_says_that_the_gpu_is_back(admin):
    capacity("gpu_fault", on=gpu(3))
    node = gpu(3).node
    Node.objects.update(last_ms=to_ms(NOW))
    broken = place("gpu_fault", node=node)
    event = {"node": node, "gpu": gpu(3), "text": ""}
    HealthEvent.objects.create(kind="xid", code=79, at_ms=to_ms(NOW) - 2 * HOUR_MS, **event)
    lost = admin.get(f"/findings/{broken.pk}").content.decode()
    assert "Was broken" not in lost
    assert "sudo reboot" in lost
    assert "--gpu-reset" not in lost

    HealthEvent.objects.create(kind="gpu_ok", at_ms=to_ms(NOW) - 1, **event)

    assert "Was broken: n1 GPU 3" in admin.get(f"/findings/{broken.pk}").content.decode()


@pytest.mark.parametrize(
    ("events", "over"),
    [
        ({90: ("xid", 79)}, None),
        ({90: ("xid", 79), 20: ("gpu_ok", None)}, "11:40"),
        ({90: ("xid", 79), 20: ("gpu_ok", None), 10: ("xid", 63)}, "11:40"),
        ({90: ("xid", 79), 20: ("recovery_action", 0), 10: ("xid", 94)}, "11:40"),
        ({90: ("xid", 79), 10: ("xid", 63)}, None),
        ({90: ("gpu_lost", None), 20: ("gpu_ok", None), 10: ("xid", 79)}, None),
        ({90: ("gpu_lost", None), 20: ("gpu_ok", None), 10: ("recovery_action", 1)}, None),
        ({10: ("xid", 63)}, None),
    ],
)
def test_the_last_word_on_whether_a_gpu_works_says_whether_its_fault_goes_on(admin, events, over):
    """Events by how many minutes before noon; the fault's last hour began at 11:00."""
    capacity("gpu_fault", on=gpu(3), start=NOW - HOUR)
    node = gpu(3).node
    Node.objects.update(last_ms=to_ms(NOW))
    place("gpu_fault", node=node)
    for minutes, (kind, code) in events.items():
        at_ms = to_ms(NOW - timedelta(minutes=minutes))
        HealthEvent.objects.create(node=node, gpu=gpu(3), kind=kind, code=code, at_ms=at_ms)

    pages = {"/nodes/n1": "over since", f"/gpus/{gpu(3).uuid}": "over here since"}
    for page, since in pages.items():
        told = problems_of(admin, page)

        assert ("Was broken" in told) == (over is not None)
        assert ("GPU can't work" in told.replace("&#x27;", "'")) == (over is None)
        assert ("goes on" in told) == (over is None)
        assert over is None or f"{since} Fri 20 Nov, {over}" in told


def test_a_command_stands_under_its_own_step_and_other_findings_have_the_inboxs_dollars(admin):
    rate("2.00")
    of = job(start_ms=to_ms(NOW - 3 * HOUR))
    cause("throttled", of=of, on=gpu(1), low=0.25, high=0.25)
    hold(gpu(1), of, hours_ago=3, hours=3)
    slow, broken = place("throttled", node=gpu(1).node), place("gpu_fault", node=gpu(1).node)
    capacity("gpu_fault", on=gpu(1))

    page = tight(admin.get(f"/findings/{slow.pk}").content.decode())
    other = tight(admin.get(f"/findings/{broken.pk}").content.decode())

    own = page.index("take its node out of service")
    assert own < page.index("scontrol update nodename=n1 state=drain") < page.index("</ol>", own)
    assert "$0.50" in other  # a quarter of an hour's $2, as in the inbox
    assert "Dollars of these" not in other
    assert "<dt>Wasted</dt>" in page  # not "Wasted": its owner wasted nothing
    of_job = tight(admin.get(f"/jobs/{of.key}").content.decode())
    assert "Its machine lost it" in of_job
    assert f'href="/findings/{slow.pk}"' in of_job


def test_of_a_machine_that_is_well_again_it_says_what_could_have_been_saved(admin):
    """GPU 1 wasted a quarter of its hour of $2 and lost half of it by its clock, GPU 2 half a
    percent of it and a tenth.
    """
    rate("2.00")
    of = job(start_ms=to_ms(NOW - 3 * HOUR))
    for number, lost, by_clock in ((1, 0.25, 0.5), (2, 0.005, 0.1)):
        slowed = cause("throttled", of=of, on=gpu(number), low=lost, high=lost)
        own = {"idle_certain_ms": 0, "underused_ms": int(lost * HOUR_MS)}
        own["clock_lost_ms"] = int(by_clock * HOUR_MS)
        CauseEntry.objects.filter(pk=slowed.pk).update(**own)
        hold(gpu(number), of, hours_ago=3, hours=3)
    Node.objects.update(last_ms=to_ms(NOW) + 3 * HOUR_MS)
    slow = place("throttled", node=gpu(1).node, last_ms=to_ms(NOW))

    page = tight(admin.get(f"/findings/{slow.pk}").content.decode())

    assert "Could have been saved" in page
    assert "Could be saved" not in page
    words = " ".join(re.sub(r"<[^>]+>", " ", page).split())
    assert "n1 · 1 1.00 ≤ $1.00 $0.50" in words
    assert "n1 · 2 1.00 ≤ $0.20 $0.01" in words


def test_of_a_machine_an_operator_decides(client):
    client.force_login(factories.user(role="finance"))
    broken = place("gpu_fault", node=gpu(1).node)

    page = tight(client.get(f"/findings/{broken.pk}").content.decode())

    assert "an operator decides" in page
    assert "the team’s lead" not in page


def test_the_hour_that_goes_on_is_by_what_is_known_of_it_and_does_not_fall(admin):
    Node.objects.update(last_ms=to_ms(NOW))
    capacity("gpu_fault", on=gpu(3), start=NOW - HOUR)
    going_on = capacity("gpu_fault", on=gpu(3), start=NOW, low=0.25, high=0.25)
    CapacityEntry.objects.filter(pk=going_on.pk).update(gpu_ms=HOUR_MS // 4)
    Node.objects.update(last_ms=to_ms(NOW) + HOUR_MS // 4)
    broken = place("gpu_fault", node=gpu(3).node, last_ms=to_ms(NOW) + HOUR_MS // 4)

    with time_machine.travel(NOW + HOUR / 4, tick=False):
        figure = admin.get(f"/charts/finding?finding={broken.pk}").json()

    assert figure["data"][0]["y"] == [1, 1, 1]
    assert figure["data"][0]["x"][-1].endswith(":15:00")


def test_each_hour_of_a_machines_finding_stands_once_in_its_table_and_below_its_curve_the_day(
    admin,
):
    for hours in (2, 1):
        capacity("no_telemetry", on=gpu(3), start=NOW - hours * HOUR)
    unseen = place("no_telemetry", node=gpu(3).node, first_ms=to_ms(NOW - 2 * HOUR))
    address = f"/charts/finding?finding={unseen.pk}"

    _, *rows = admin.get(f"{address}&as=csv").content.decode().splitlines()
    figure = admin.get(f"{address}&range=7d").json()

    assert [row.split(",") for row in rows] == [
        ["2026-11-20 10:00", "1.0"],
        ["2026-11-20 11:00", "1.0"],
    ]
    assert figure["data"][0]["y"][:2] == [1, 1]
    assert figure["layout"]["xaxis"]["tickformatstops"][1]["value"] == "%H:%M\n%a %-d %b"


def test_a_node_and_its_gpus_say_what_is_wrong_with_each(admin):
    """GPU 1 lost an hour of $2 by heat, and an incident of it fires; GPU 2 is well."""
    rate("2.00")
    of = job(start_ms=to_ms(NOW - 3 * HOUR))
    cause("throttled", of=of, on=gpu(1), low=0.25, high=0.25)
    hold(gpu(1), of, hours_ago=3, hours=3)
    finding = place("throttled", node=gpu(1).node)
    rule = Rule.objects.get(condition="gpu_slowed")
    facts = {"labels": {"node": ["n1"]}}
    fires = an_incident(rule, gpu(1).uuid, opened_at=NOW, facts=facts)
    an_incident(rule, gpu(2).uuid, opened_at=NOW, resolved_at=NOW, facts=facts)

    pages = ("/nodes/n1", f"/gpus/{gpu(1).uuid}", f"/gpus/{gpu(2).uuid}")
    of_node, slow, well = (tight(admin.get(page).content.decode()) for page in pages)

    for page in (of_node, slow):
        # a quarter of the hour could be saved
        assert "$0.50" in page[page.index("Problems") : page.index("States and readings")]
        assert f'href="/findings/{finding.pk}?from=now-24h&amp;to=now"' in page
        assert f'href="/incidents/{fires.pk}"' in page
        assert page.index("Problems") < page.index("States and readings")
    assert "Problems" not in well


def test_of_one_gpu_a_problem_goes_on_only_while_that_gpu_is_in_it(admin):
    """Orphaned since 10:00 of the node: GPU 1 until 10:20, from when a job works on it; GPU 2 to
    the newest minute. Each lost an hour of $2.
    """
    rate("2.00")
    start_ms, last_ms = to_ms(NOW) - 2 * HOUR_MS, to_ms(NOW)
    for number in (1, 2):
        capacity("orphaned", on=gpu(number), start=NOW - 2 * HOUR)
    Node.objects.update(last_ms=last_ms)
    freed_ms = start_ms + HOUR_MS // 3
    held = {"condition": "orphaned", "state_ms": {}}
    a_run(gpu(1), start_ms=start_ms, end_ms=freed_ms, **held)
    a_run(gpu(1), condition="active", state_ms={}, start_ms=last_ms - HOUR_MS // 2, end_ms=last_ms)
    a_run(gpu(2), start_ms=last_ms - HOUR_MS // 2, end_ms=last_ms, **held)
    place("orphaned", node=gpu(1).node, first_ms=start_ms, last_ms=last_ms)

    freed, still = (problems_of(admin, f"/gpus/{gpu(number).uuid}") for number in (1, 2))
    of_node = problems_of(admin, "/nodes/n1")

    assert "over here since Fri 20 Nov, 10:20" in freed
    assert "goes on" not in freed
    assert "goes on" in still
    assert "goes on" in of_node


def test_a_gpu_that_failed_before_another_of_its_node_is_over_by_its_own_last_hour(admin):
    """GPU 1 at 06:00 for an hour, GPU 2 from 06:00 on."""
    first = NOW - 6 * HOUR
    capacity("gpu_fault", on=gpu(1), start=first)
    for hours in range(6):
        capacity("gpu_fault", on=gpu(2), start=first + hours * HOUR)
    Node.objects.update(last_ms=to_ms(NOW))
    place("gpu_fault", node=gpu(1).node, first_ms=to_ms(first), last_ms=to_ms(NOW))

    over, still = (problems_of(admin, f"/gpus/{gpu(number).uuid}") for number in (1, 2))

    assert "over here since Fri 20 Nov, 07:00" in over
    assert "goes on" in still


def test_a_fault_costs_the_same_on_its_nodes_page_and_its_gpus(admin):
    """GPU 1 for an hour of $2 at 10:00."""
    rate("2.00")
    capacity("gpu_fault", on=gpu(1), start=NOW - 2 * HOUR)
    Node.objects.update(last_ms=to_ms(NOW))
    place("gpu_fault", node=gpu(1).node, first_ms=to_ms(NOW - 2 * HOUR), last_ms=to_ms(NOW - HOUR))

    for page in ("/nodes/n1", f"/gpus/{gpu(1).uuid}"):
        assert "$2.00" in problems_of(admin, page)


def test_short_faults_are_told_as_several_and_not_as_one_since_the_first(admin):
    """GPU 1 at 07:00, from 10:05 and at 11:00; GPU 2 at 10:00 alone; both work at noon."""
    for hours in (5, 2, 1):
        capacity("gpu_fault", on=gpu(1), start=NOW - hours * HOUR)
    capacity("gpu_fault", on=gpu(2), start=NOW - 2 * HOUR)
    begun_ms = to_ms(NOW) - 115 * 60_000
    lost = {"condition": "unavailable", "state_ms": {}}
    a_run(gpu(1), start_ms=begun_ms, end_ms=to_ms(NOW - HOUR), **lost)
    Node.objects.update(last_ms=to_ms(NOW + 2 * HOUR))
    place("gpu_fault", node=gpu(1).node, first_ms=to_ms(NOW - 5 * HOUR), last_ms=to_ms(NOW))

    several, alone = (problems_of(admin, f"/gpus/{gpu(number).uuid}") for number in (1, 2))
    of_node = problems_of(admin, "/nodes/n1")

    for told in (several, of_node):
        assert (
            "2 times in all, an hour and more apart, last Fri 20 Nov, 10:05 first Fri 20 Nov, 07:00; over"
            in told
        )
    assert "times" not in alone
    assert "Fri 20 Nov, 10:00 over here since Fri 20 Nov, 11:00" in alone


def test_events_have_a_column_of_texts_where_one_has_a_text(admin):
    node = gpu(3).node
    event = {"node": node, "gpu": gpu(3), "kind": "gpu_ok", "at_ms": to_ms(NOW)}
    HealthEvent.objects.create(text="GPU is back", **event)
    heading = '<th scope="col">Text</th>'
    assert heading not in admin.get(f"/gpus/{gpu(3).uuid}").content.decode()
    of_node = tight(admin.get("/nodes/n1").content.decode())
    assert heading not in of_node
    assert '<td data-label="GPU">3</td>' in of_node

    HealthEvent.objects.create(**event | {"kind": "xid", "at_ms": 1, "text": "fell off the bus"})

    assert heading in admin.get(f"/gpus/{gpu(3).uuid}").content.decode()


def test_a_gpu_leads_to_the_explanation_of_all_its_hours(admin):
    page = tight(admin.get(f"/gpus/{gpu(1).uuid}?range=7d").content.decode())

    [query] = re.findall(r'href="/explain\?([^"]*)">the whole period</a>', page)
    assert f"gpu={gpu(1).uuid}" in query
    assert "from=now-7d" in query


def problems_of(client, address: str) -> str:
    """As text, without what tags are between."""
    page = tight(client.get(address).content.decode())
    section = page[page.index("<h2>Problems") : page.index("States and readings")]
    return " ".join(re.sub(r"<[^>]+>", " ", section).split())


def two_outages():
    """Of GPU 3, an hour each, of which a job that held it was ended by the last."""
    rate("2.00")
    of = job(start_ms=to_ms(NOW - 4 * HOUR), end_ms=to_ms(NOW - 2 * HOUR))
    hold(gpu(3), of, hours_ago=4, hours=2)
    for hours in (50, 2, 1):
        capacity("gpu_fault", on=gpu(3), start=NOW - hours * HOUR)
    Node.objects.update(last_ms=to_ms(NOW))
    return place("gpu_fault", node=gpu(3).node, first_ms=to_ms(NOW - 50 * HOUR))


def test_each_outage_has_its_begin_its_end_and_its_dollars_and_a_job_the_one_that_hit_it(admin):
    broken = two_outages()

    page = tight(admin.get(f"/findings/{broken.pk}").content.decode())

    assert "<b>2 outages</b>, the last since Fri 20 Nov, 10:00, the first Wed 18 Nov" in page
    assert outages_of(page, "2 outages") == [
        "Fri 20 Nov, 10:00 goes on GPU 3 2.00 $4.00",
        "Wed 18 Nov, 10:00 Wed 18 Nov, 11:00 GPU 3 1.00 $2.00",
    ]
    jobs = page[page.index("Affected jobs") :]
    assert "outage of Fri 20 Nov, 10:00" in jobs
    assert "outage of Wed 18 Nov" not in jobs


def outages_of(page: str, heading: str) -> list[str]:
    """The rows of the table under that heading, as text."""
    assert heading in in_text(page)
    rows = page[page.index("<h3>") :].partition("</table>")[0].split("<tr>")[2:]
    return [in_text(row) for row in rows]


def test_an_outage_that_a_period_cuts_ends_when_it_did_and_takes_what_is_within(admin):
    broken = two_outages()
    until = (NOW - 1.5 * HOUR).strftime("%Y-%m-%dT%H:%M")
    address = f"/findings/{broken.pk}?from=now-3d&to={until}"
    heading = "2 outages, as far as the period above has them"

    page = tight(admin.get(address).content.decode())

    assert outages_of(page, heading)[0] == "Fri 20 Nov, 10:00 goes on GPU 3 0.50 $1.00"

    Node.objects.update(last_ms=to_ms(NOW + 2 * HOUR))
    page = tight(admin.get(address).content.decode())

    [last, _] = outages_of(page, heading)
    assert last == "Fri 20 Nov, 10:00 Fri 20 Nov, 12:00 GPU 3 0.50 $1.00"


def test_in_a_part_of_its_time_it_still_says_how_often_it_was_and_lists_what_the_part_has(admin):
    broken = two_outages()

    page = tight(admin.get(f"/findings/{broken.pk}?range=24h").content.decode())

    in_all = "2 outages in all, the last since Fri 20 Nov, 10:00, the first Wed 18 Nov, 10:00"
    assert in_all in in_text(page)
    rows = outages_of(page, "1 of 2 outages, as far as the period above has it")
    assert rows == ["Fri 20 Nov, 10:00 goes on GPU 3 2.00 $4.00"]


def test_each_gap_of_a_node_that_was_not_seen_is_told_and_where_its_agents_log_is_to_be_read(admin):
    """Four GPUs at 07:00, and two from 10:20 to 10:50."""
    rate("2.00")
    for number in range(4):
        capacity("no_telemetry", on=gpu(number), start=NOW - 5 * HOUR)
    unseen = {"condition": "unobserved", "state_ms": {}}
    begun_ms = to_ms(NOW) - 100 * 60_000
    for number in (0, 2):
        capacity("no_telemetry", on=gpu(number), start=NOW - 2 * HOUR)
        a_run(gpu(number), start_ms=begun_ms, end_ms=begun_ms + 30 * 60_000, **unseen)
    Node.objects.update(last_ms=to_ms(NOW) + 2 * HOUR_MS)
    times = {"first_ms": to_ms(NOW) - 5 * HOUR_MS, "last_ms": to_ms(NOW) - HOUR_MS}
    pk = place("no_telemetry", node=gpu(0).node, **times).pk

    page = tight(admin.get(f"/findings/{pk}").content.decode())

    assert "2 gaps , the last since Fri 20 Nov, 10:20, the first Fri 20 Nov, 07:00" in in_text(page)
    assert outages_of(page, "2 gaps") == [
        "Fri 20 Nov, 10:20 Fri 20 Nov, 10:50 GPUs 0, 2 2.00 $4.00",
        "Fri 20 Nov, 07:00 Fri 20 Nov, 08:00 GPUs 0–3 4.00 $8.00",
    ]
    log = "--since '2026-11-20 10:10:00 UTC' --until '2026-11-20 11:00:00 UTC'"
    assert f"journalctl -u fleetwatch-agent {log}" in unescape(page)
    assert "Was not seen: n1 GPUs 0–3 · 20 Nov" in page


def test_a_gap_that_goes_on_has_no_end_and_its_log_is_read_to_now(admin):
    capacity("no_telemetry", on=gpu(4), start=NOW - HOUR)
    Node.objects.update(last_ms=to_ms(NOW))
    unseen = place("no_telemetry", node=gpu(4).node)

    page = unescape(tight(admin.get(f"/findings/{unseen.pk}").content.decode()))

    assert "journalctl -u fleetwatch-agent --since '2026-11-20 10:50:00 UTC'<" in page
    assert "gaps" not in page
    assert "No telemetry: n1" in page


def test_a_period_that_has_nothing_of_it_says_so(admin):
    broken = two_outages()

    page = admin.get(f"/findings/{broken.pk}?from=now-40h&to=now-30h").content.decode()

    assert "in the period above (in all $6.00 ): nothing" in in_text(tight(page))


def test_the_inbox_has_a_mended_gpu_as_its_page_does_from_the_minute_on(admin):
    broken = two_outages()
    back_ms = to_ms(NOW) - 5 * 60_000
    event = {"node": broken.node, "gpu": gpu(3), "text": ""}
    HealthEvent.objects.create(kind="gpu_lost", at_ms=to_ms(NOW) - 2 * HOUR_MS, **event)

    before = in_text(tight(admin.get("/findings?cause=gpu_fault").content.decode()))
    HealthEvent.objects.create(kind="gpu_ok", at_ms=back_ms, **event)
    after = in_text(tight(admin.get("/findings?cause=gpu_fault").content.decode()))
    now = in_text(tight(admin.get("/findings?when=now").content.decode()))

    assert f"{escape(BY_CODE['gpu_fault'].title)}: n1" in before
    assert "Was broken: n1" in after
    assert "Fri 20 Nov, 11:55" in after
    assert "n1" not in now.partition("Machines and queue")[2]

    # the agent begins anew: it says of each GPU that it works
    for number in (2, 3):
        begun = event | {"gpu": gpu(number)}
        HealthEvent.objects.create(
            kind="recovery_action", code=0, at_ms=to_ms(NOW) - 60_000, **begun
        )
    later = in_text(tight(admin.get("/findings?cause=gpu_fault").content.decode()))

    assert "Fri 20 Nov, 11:55" in later


def test_a_job_that_the_outage_ended_held_its_gpus_until_then_whatever_errors_took_before(admin):
    broken = two_outages()
    ended = job(start_ms=to_ms(NOW - 4 * HOUR), end_ms=to_ms(NOW - 2 * HOUR))
    cause("gpu_fault", of=ended, on=gpu(3), start=NOW - 3 * HOUR, hours=0.5)

    page = tight(admin.get(f"/findings/{broken.pk}").content.decode())

    jobs = " ".join(re.sub(r"<[^>]+>", " ", page[page.index("Affected jobs") :]).split())
    assert "before it 0.50 GPU-hours with memory errors, from Fri 20 Nov, 09:00" in jobs
    assert "outage of Fri 20 Nov, 10:00" in jobs


def test_the_column_of_affected_jobs_is_named_for_until_when_they_held_it(admin):
    broken = two_outages()

    page = tight(admin.get(f"/findings/{broken.pk}").content.decode())

    jobs = " ".join(re.sub(r"<[^>]+>", " ", page[page.index("Affected jobs") :]).split())
    assert "Job Held until Lost, at most" in jobs
    assert "GPU-hours there" not in jobs.partition("Lost, at most")[0]


@pytest.mark.parametrize(("code", "is_told"), [(79, False), (31, True)])
def test_what_an_application_triggers_is_told_of_its_xids_alone(admin, code, is_told):
    broken = two_outages()
    HealthEvent.objects.create(
        node=broken.node, gpu=gpu(3), at_ms=to_ms(NOW - 2 * HOUR), kind="xid", code=code
    )

    page = admin.get(f"/findings/{broken.pk}").content.decode()

    assert ("An application can trigger some XIDs (13, 31, 43, 45)" in page) == is_told


def test_memory_errors_from_before_the_finding_began_are_told_of_the_job_that_it_ended(admin):
    broken = two_outages()
    Finding.objects.filter(pk=broken.pk).update(first_ms=to_ms(NOW - 2 * HOUR))
    ended = job(start_ms=to_ms(NOW - 4 * HOUR), end_ms=to_ms(NOW - 2 * HOUR))
    cause("gpu_fault", of=ended, on=gpu(3), start=NOW - 3 * HOUR, hours=0.5)

    page = tight(admin.get(f"/findings/{broken.pk}").content.decode())

    jobs = " ".join(re.sub(r"<[^>]+>", " ", page[page.index("Affected jobs") :]).split())
    assert "before it 0.50 GPU-hours with memory errors, from Fri 20 Nov, 09:00" in jobs


def test_what_has_most_at_stake_stands_first_be_it_a_range_or_all_that_is_affected(admin):
    rate("2.00")
    for code, number, hours in (("gpu_fault", 3, 2), ("no_telemetry", 4, 3)):
        for ago in range(hours):
            capacity(code, on=gpu(number), start=NOW - (ago + 1) * HOUR)
        place(code, node=gpu(number).node)

    lines = machine_findings.findings(Interval(NOW - 6 * HOUR, NOW), now=NOW)

    assert [line.finding.cause for line in lines] == ["no_telemetry", "gpu_fault"]


def test_a_job_that_was_not_seen_has_the_time_that_nobody_saw(admin):
    """Held beside it what was seen, and of an hour that was seen what was not."""
    start = NOW - 3 * HOUR
    for ago in (0, 1):
        capacity("no_telemetry", on=gpu(4), start=start + ago * HOUR)
    unseen = place("no_telemetry", node=gpu(4).node)
    of_job = {"job": job("slurm/della/7", name="train"), "start": start}
    an_entry(gpu(4), "unobserved", HOUR_MS * 3 // 4, **of_job)
    an_entry(gpu(4), "useful", HOUR_MS // 4, **of_job)
    an_entry(gpu(4), "unobserved", HOUR_MS // 10, **(of_job | {"start": start - HOUR}))
    an_entry(gpu(4), "unobserved", HOUR_MS, start=start + HOUR)

    page = tight(admin.get(f"/findings/{unseen.pk}").content.decode())

    jobs = page.partition("Jobs that were not seen")[2].partition("</section>")[0]
    row, rest = re.findall(r"<tr><td.*?</tr>", jobs)
    assert "/jobs/slurm/della/7" in row
    assert ">0.75<" in row
    assert "no known job" in rest
    assert ">1.00<" in rest
    assert "Affected jobs" not in page
    assert "Held until" not in page


def test_of_what_wastes_now_those_machines_are_listed_that_go_on(admin):
    two_outages()
    capacity("gpu_fault", on=gpu(9, node="n2"), start=NOW - 6 * HOUR)
    over = place("gpu_fault", node=gpu(9, node="n2").node, last_ms=to_ms(NOW - 5 * HOUR))

    page = {when: admin.get(f"/findings?when={when}").content.decode() for when in ("now", "once")}

    assert "Machines and queue" in page["now"]
    assert f"/findings/{over.pk}" not in page["now"]
    assert "Machines and queue" not in page["once"]


def test_a_list_without_jobs_says_that_what_it_has_of_machines_stands_above(admin):
    two_outages()

    page = " ".join(tight(admin.get("/findings?cause=gpu_fault").content.decode()).split())

    assert "<b>None is of jobs</b>Above is 1 of machines and queue, with this status" in page
    assert "Nothing here" not in page


def test_the_log_of_a_gpu_that_is_lost_still_says_so_where_its_nodes_driver_answers_again(admin):
    broken = two_outages()
    of = {"node": gpu(3).node, "text": "driver answers"}
    for minutes, kind, on in ((20, "gpu_lost", gpu(3)), (10, "driver_ok", None)):
        at_ms = to_ms(NOW) - minutes * 60_000
        HealthEvent.objects.create(kind=kind, gpu=on, at_ms=at_ms, **of)

    of_finding = tight(admin.get(f"/findings/{broken.pk}").content.decode())
    of_node = tight(admin.get("/nodes/n1").content.decode())

    for page in (of_finding, of_node):
        assert "GPU 3 still lost" in page
        assert "agent began to read its GPUs" in page


def test_a_gpu_that_failed_so_before_is_to_be_replaced_says_its_finding_too(admin):
    broken = two_outages()
    Posted.objects.update_or_create(
        gpu=gpu(3),
        defaults={"spans": [], "outages": [[to_ms(NOW - 2 * HOUR), None, "xid_79", False]]},
    )
    for hours in (9 * 24 + 2, 2):
        at_ms = to_ms(NOW - hours * HOUR)
        HealthEvent.objects.create(
            node=gpu(3).node, gpu=gpu(3), kind="xid", code=79, at_ms=at_ms, text=""
        )

    page = tight(admin.get(f"/findings/{broken.pk}").content.decode())

    assert "Have the GPU replaced: it is the second time in 9 days." in page


@pytest.mark.parametrize(
    ("numbers", "said"),
    [([3], "3"), ([3, 4], "3, 4"), ([0, 1, 2, 3], "0–3"), ([0, 1, 2, 5, 7], "0–2, 5, 7")],
)
def test_gpus_in_a_row_are_told_by_the_first_and_the_last(numbers, said):
    assert in_ranges(numbers) == said

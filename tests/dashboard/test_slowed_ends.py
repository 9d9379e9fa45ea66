"""When slowing of a GPU ended: its pages say the last five minutes in which it was slowed, and not
until when diagnosis looked.
"""

from datetime import datetime, timedelta

import pytest
import time_machine

from fleetwatch.alerts.models import Rule
from fleetwatch.diagnosis.findings import machine_findings
from fleetwatch.diagnosis.models import CauseEntry, Finding
from fleetwatch.inventory.models import Node
from fleetwatch.lib.intervals import to_ms
from tests.dashboard.factories import hold
from tests.dashboard.shown_incidents import incident
from tests.diagnosis.told import NOW, cause, gpu, job, place, rate
from tests.markup import in_text, tight

pytestmark = pytest.mark.django_db
ELEVEN = NOW - timedelta(hours=1)
WHOLE_HOUR = "from=2026-11-20T00:00&to=2026-11-20T12:00"  # of which no entry is a part
STOPPED = "It stopped at 11:25 UTC; it is over if that lasts."


def had(code: str, first: int, end: int, *, on: int = 1) -> None:
    """From `first` to `end` minutes past 11 the GPU had this cause."""
    entry = cause(code, on=gpu(on), start=ELEVEN, low=0.03, high=0.03, clock_lost_ms=900_000)
    bits = sum(1 << cell for cell in range(first // 5, end // 5))
    CauseEntry.objects.filter(pk=entry.pk).update(cells=bits)


def looked(minute: int) -> tuple[Finding, datetime]:
    """Its node was seen to so many minutes past 11, and diagnosis was there just now."""
    now = ELEVEN + timedelta(minutes=minute)
    Node.objects.update(last_ms=to_ms(now))
    hold(gpu(1), job(), hours_ago=1, hours=1)
    span = {"first_ms": to_ms(ELEVEN), "last_ms": to_ms(NOW)}  # by the hour
    return place("throttled", node=gpu(1).node, **span), now


def pages(client, finding: Finding, now: datetime) -> dict[str, str]:
    addresses = {
        "finding": f"/findings/{finding.pk}",
        "node": "/nodes/n1",
        "now": f"/findings?{WHOLE_HOUR}&when=now",
        "list": f"/findings?{WHOLE_HOUR}",
    }
    with time_machine.travel(now, tick=False):
        return {
            name: in_text(tight(client.get(address).content.decode()))
            for name, address in addresses.items()
        }


def test_of_a_period_without_it_the_lower_clock_says_what_it_cost_in_all(admin):
    rate("4.00")
    had("throttled", 0, 25)
    finding, now = looked(59)

    with time_machine.travel(now, tick=False):
        whole, before = (
            in_text(tight(admin.get(f"/findings/{finding.pk}{query}").content.decode()))
            for query in ("", "?from=2026-11-19T00:00&to=2026-11-19T12:00")
        )

    cost = whole.partition("Lost by the lower clock ≤ ")[2].split()[0]
    assert cost.startswith("$")
    assert f"Lost by the lower clock – nothing in the period above (in all ≤ {cost} )" in " ".join(
        before.split()
    )


@pytest.mark.parametrize(
    ("otherwise", "minute", "is_over"),
    [
        (("healthy", 25, 30), 32, False),  # diagnosis may have seen a part of these alone
        (("healthy", 25, 30), 33, True),
        (("healthy", 25, 40), 41, True),
        (("no_telemetry", 25, 40), 41, False),  # nobody saw whether it goes on
        (("healthy", 0, 25), 41, False),  # of another job on the GPU, meanwhile
    ],
)
def test_it_is_over_once_diagnosis_saw_five_minutes_without_it(admin, otherwise, minute, is_over):
    """GPU 1 from 11:00 to 11:25, and something else then."""
    rate("4.00")
    had("throttled", 0, 25)
    had(*otherwise)
    finding, now = looked(minute)

    page = pages(admin, finding, now)

    over_ms = machine_findings.over_since_ms(finding)
    assert over_ms == (to_ms(ELEVEN + timedelta(minutes=25)) if is_over else None)
    assert machine_findings.over_on_gpu_ms(finding, gpu(1)) == over_ms
    assert "seen Fri 20 Nov, 11:00 to Fri 20 Nov, 11:25" in page["finding"]
    assert ("Fri 20 Nov, 11:00 Fri 20 Nov, 11:25" in page["finding"]) == is_over
    assert ("Fri 20 Nov, 11:00 still" in page["finding"]) != is_over
    assert ("until 20 Nov 11:25" in page["node"]) == is_over
    assert ("Slowed by heat or power: n1" in page["now"]) != is_over
    title = "Was slowed by heat or power: n1" if is_over else "Slowed by heat or power: n1"
    assert title in page["list"]
    assert "Fri 20 Nov, 11:25" in page["list"]


def test_it_goes_on_while_one_of_its_gpus_is_slowed(admin):
    """GPU 1 to 11:25, GPU 2 to 11:30, of which nothing else is known at 11:41."""
    had("throttled", 0, 25)
    had("healthy", 25, 40)
    had("throttled", 0, 30, on=2)
    finding, now = looked(41)

    page = pages(admin, finding, now)["finding"]

    assert machine_findings.over_since_ms(finding) is None
    assert machine_findings.over_on_gpu_ms(finding, gpu(1)) is not None
    assert "seen Fri 20 Nov, 11:00 to Fri 20 Nov, 11:30" in page
    assert "GPU 2 Fri 20 Nov, 11:00 still" in page
    assert "GPU 1 Fri 20 Nov, 11:00 Fri 20 Nov, 11:25" in page


@pytest.mark.parametrize(
    ("note", "line"),
    [
        ("", "incident, firing {title} since Fri 20 Nov, 11:00: $0.12 to now"),
        (
            STOPPED,
            "incident, stopped, not over yet {title} since Fri 20 Nov, 11:00,"
            " stopped Fri 20 Nov, 11:25: $0.12 to then",
        ),
    ],
)
def test_the_line_of_an_incident_that_stopped_says_when_it_did(admin, note, line):
    rate("4.00")
    had("throttled", 0, 25)
    had("healthy", 25, 30)
    facts = {
        "kind": "gpu",
        "labels": {"node": ["n1"], "cause": ["throttled"]},
        "has_cost": True,
        "cost_usd": "0.12",
        "title": "slowed",
        "where": "n1 GPU 1",
        "since_ms": to_ms(ELEVEN),
        "until_ms": to_ms(ELEVEN + timedelta(minutes=25)),
    }
    incident(gpu(1).uuid, rule=Rule.objects.get(condition="gpu_slowed"), facts=facts, note=note)
    finding, now = looked(33)

    page = pages(admin, finding, now)

    assert line.format(title="Slowed") in page["finding"]
    assert ("stopped Fri 20 Nov, 11:25, not over yet" in page["node"]) == bool(note)


def test_a_note_begins_without_a_space_before_its_sign(admin):
    """The hour that goes on is provisional, whatever stands before."""
    rate("4.00")
    had("throttled", 0, 25)
    finding, now = looked(27)

    page = pages(admin, finding, now)["finding"]

    assert "as the GPU was busy · the current hour is provisional" in page
    assert " ;" not in page

"""What could have been saved is one sum: in the inbox, on the overview and beside what was wasted."""

import re
from datetime import timedelta
from decimal import Decimal

import pytest

from fleetwatch.lib.intervals import HOUR_MS
from tests.costs.factories import an_entry
from tests.diagnosis.told import NOW, capacity, cause, finding, gpu, job, place, rate
from tests.markup import tight

pytestmark = pytest.mark.django_db


def test_the_inbox_leads_from_wasted_to_recoverable(admin):
    """$2 idle of which half to all could be saved, $2 orphaned, $1 underused without a finding."""
    rate("2.00")
    row = cause(low=0.5, high=0.9)
    finding(row.job)
    an_entry(row.gpu, "idle", start=row.start, job=row.job, tier="certain")
    an_entry(row.gpu, "orphaned", start=row.start, tier="certain")
    an_entry(row.gpu, "underused", HOUR_MS // 2, start=row.start, job=row.job, tier="potential")

    page = " ".join(admin.get("/findings").content.decode().split())
    steps = re.findall(r"<details class=.under-kpis.>.*?</details>", page)[0]

    assert "<dt>Recoverable</dt>" in page
    assert "<dt>Potential</dt>" not in page
    amounts = re.findall(r">(\$[0-9.–]+)</span>", steps)
    assert amounts[3:] == ["$4.00", "$1.00", "$3.00", "$2.00", "$1.00–1.80"]


def test_the_overview_calls_it_recoverable(admin):
    rate("2.00")
    row = cause(low=0.5, high=0.9)
    finding(row.job)
    an_entry(row.gpu, "idle", start=row.start, job=row.job, tier="certain")

    page = " ".join(admin.get("/?parts=1").content.decode().split())

    assert "recoverable</h2><p>of what was wasted and underused" in tight(page)


def test_the_overview_and_the_inbox_say_the_same_of_what_is_recoverable(admin):
    """An idle hour, one that no job holds, and one whose finding is snoozed: both sum all three."""
    rate("2.00")
    finding(cause(low=0.5, high=1.0).job)
    capacity("orphaned", on=gpu(1), start=NOW - timedelta(hours=2))
    place("orphaned", node=gpu(1).node)
    snoozed = cause(of=job("slurm/della/8"), on=gpu(2), low=0.5, high=0.5)
    finding(snoozed.job, status="snoozed", snoozed_until=NOW + timedelta(days=400))

    overview = tight(admin.get("/?parts=1").content.decode())
    inbox = tight(admin.get("/findings").content.decode())

    told = re.search(r"<h2>(<span.*?</span>)recoverable</h2>", overview)[1]
    assert f"<dt>Recoverable</dt><dd>{told}</dd>" in inbox
    assert "2 open findings" in overview
    assert re.search(r"Open <[^>]*>2<|Open 2", inbox)
    waste = tight(admin.get("/waste").content.decode())
    beside = waste[waste.index('id="saved-by-machines"') :]
    assert f"{told}with them, as the" in beside


@pytest.mark.parametrize("narrowed", ["cause=idle_held", "job_name=short"])
def test_what_is_recoverable_is_said_of_what_is_listed(admin, narrowed):
    """Two findings of $2.40 each, of which half to all could be saved: one of them is asked for."""
    rate("2.40")
    for number, (name, code) in enumerate([("short", "idle_held"), ("long", "data_starved")]):
        of = job(f"slurm/della/{number}", name=name)
        cause(code, of=of, on=gpu(number), start=NOW - timedelta(hours=2))
        finding(of, code)

    one = admin.get(f"/findings?{narrowed}")
    every = admin.get("/findings").context["steps"]

    assert one.context["steps"]["explained_usd"] == Decimal("2.40")
    assert "The open findings listed here took" in one.content.decode()
    assert every["explained_usd"] == Decimal("4.80")

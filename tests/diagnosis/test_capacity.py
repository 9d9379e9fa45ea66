"""Findings of nodes and of a cluster's queue, from batches to rows: through the real door and the
real ledger.
"""

from datetime import timedelta
from unittest.mock import Mock

import numpy as np
import pytest
from django.db import connection
from django.db.models import F
from django.test.utils import CaptureQueriesContext

from fleetwatch.costs.models import Rate
from fleetwatch.diagnosis import capacity, cause_checks, selectors, services
from fleetwatch.diagnosis.findings import advice, machine_facts, machine_findings
from fleetwatch.diagnosis.models import CapacityEntry, CauseEntry, Finding
from fleetwatch.figures import selectors as costs
from fleetwatch.inventory.models import Node
from fleetwatch.lib.intervals import HOUR_MS, Interval, to_ms
from fleetwatch.telemetry import frames
from tests.diagnosis import told as factories
from tests.diagnosis.told import rate
from tests.ledger.fleet import BUSY, EMPTY, MINUTE, NOW, START, T0, Sender, a_job, held, hour, post

pytestmark = pytest.mark.django_db

ALL = Interval(START, NOW)
HOT = BUSY | {
    "power_w": 300.0,
    "throttle_thermal_ratio": 0.5,
    "sm_clock_hz": 1.2e9,
    "sm_clock_max_hz": 2e9,
}


def diagnosed(*mappings) -> None:
    post(*mappings)
    services.diagnose(NOW, 1000)


def waits(*gpus: float | None) -> dict[str, list]:
    """The queue's demand, told every ten minutes."""
    starts = [T0 + place * 10 * MINUTE for place in range(len(gpus))]
    told = [
        (start + step * MINUTE, value)
        for start, value in zip(starts, gpus, strict=True)
        for step in range(10)
    ]
    return {"start_ms": [at for at, _ in told], "pending_gpus": [value for _, value in told]}


def free_hour(sender: Sender, pending, **keys):
    """Two GPUs, of which a job holds the first and nobody the second."""
    return sender.batch(
        T0, *[EMPTY] * 60, jobs=[a_job()], allocations=[held()], host=waits(*pending), **keys
    )


def sums(**which) -> dict[str, tuple[int, int, int]]:
    """Cause -> (affected, least, most), in minutes of GPUs."""
    found: dict[str, tuple[int, int, int]] = {}
    for one in CapacityEntry.objects.filter(**which):
        before = found.get(one.cause, (0, 0, 0))
        row = (one.gpu_ms, one.low_ms, one.high_ms)
        found[one.cause] = tuple(old + new // MINUTE for old, new in zip(before, row, strict=True))  # type: ignore[assignment]
    return found


def test_free_gpus_beside_a_queue_are_a_finding_of_the_cluster():
    diagnosed(free_hour(Sender(gpus=2), [0, 0, 4, 4, 4, 0]))

    # thirty minutes of one GPU; its node is not free altogether
    assert sums() == {"queue_or_scheduler": (30, 0, 30)}
    finding = Finding.objects.get(cause="queue_or_scheduler")
    assert (finding.subject, finding.job, finding.node) == ("della", None, None)


def test_a_node_that_is_free_altogether_could_have_taken_what_waits():
    other = Sender(node="n2", gpus=2)
    before = other.batch(
        T0 - HOUR_MS,
        *[EMPTY] * 60,
        jobs=[a_job("slurm/della/9")],
        allocations=[held(start=T0 - HOUR_MS, end=T0)],
    )
    diagnosed(before, other.batch(T0, *[EMPTY] * 60), free_hour(Sender(gpus=2), [3] * 6))

    # three GPUs are wanted: the two of the whole node for sure, the single one perhaps
    assert sums() == {"queue_or_scheduler": (180, 120, 180)}


def test_more_capacity_than_was_free_unavailable_or_orphaned_does_not_balance():
    lost = {
        "gpu": 0,
        "at_ms": T0 + 30 * MINUTE,
        "kind": "gpu_lost",
        "code": None,
        "text": "fallen off the bus",
    }
    broken = Sender(node="n2").batch(T0, *[BUSY] * 30, *[EMPTY] * 30, events=[lost])
    diagnosed(free_hour(Sender(gpus=2), [4] * 6), broken)
    assert sums() == {
        "queue_or_scheduler": (60, 0, 60),
        "gpu_fault": (30, 30, 30),
        "orphaned": (30, 30, 30),
    }
    assert list(cause_checks.faults(ALL)) == []

    CapacityEntry.objects.update(gpu_ms=F("gpu_ms") + 1, high_ms=F("high_ms") + 1)

    rule = "no more capacity is won than was free, unavailable or orphaned"
    assert list(cause_checks.faults(ALL)) == [
        f"{rule}: n1 at 2026-11-20 06:00 is 1 ms off",
        f"{rule}: n2 at 2026-11-20 06:00 is 2 ms off",
    ]


@pytest.mark.parametrize("pending", [[0] * 6, [None] * 6])
def test_without_anybody_waiting_and_without_a_word_of_the_queue_nothing_is_said(pending):
    diagnosed(free_hour(Sender(gpus=2), pending))

    assert sums() == {}
    assert not Finding.objects.filter(job=None).exists()


def test_where_nobody_tells_of_the_queue_not_every_node_is_asked(django_assert_max_num_queries):
    post(*(Sender(node=f"n{number}").batch(T0, EMPTY) for number in range(6)))
    nodes = [node.pk for node in Node.objects.order_by("pk")]

    with CaptureQueriesContext(connection) as few:
        assert (
            capacity._pending(
                nodes[:1] * capacity.MOST_ASKED, T0, T0 + HOUR_MS, now_ms=T0 + HOUR_MS
            )
            is None
        )
    with django_assert_max_num_queries(len(few)):
        assert (
            capacity._pending(nodes * capacity.MOST_ASKED, T0, T0 + HOUR_MS, now_ms=T0 + HOUR_MS)
            is None
        )


@pytest.mark.parametrize(("now_ms", "asked"), [(T0 + HOUR_MS, 1), (T0 + HOUR_MS + MINUTE * 5, 3)])
def test_another_node_is_asked_only_of_cells_that_are_over_and_untold(monkeypatch, now_ms, asked):
    post(
        *(
            Sender(node=f"n{number}").batch(T0, *[EMPTY] * 60, host=waits(*[3] * 6))
            for number in range(4)
        )
    )
    nodes = list(Node.objects.order_by("pk").values_list("pk", flat=True))
    read = Mock(wraps=frames.host)
    monkeypatch.setattr(frames, "host", read)

    pending = capacity._pending(nodes, T0, T0 + 2 * HOUR_MS, now_ms=now_ms)

    assert np.nan_to_num(pending, nan=-1).tolist() == [3] * 12 + [-1] * 12
    assert read.call_count == asked


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_what_waits_across_an_hours_end_is_told_whichever_hour_is_judged_first(order):
    sender = Sender(gpus=2)
    jobs = {"jobs": [a_job()], "allocations": [held(end=T0 + 2 * HOUR_MS)]}
    queues = [[0.0] * 55 + [2.0] * 5, [2.0] * 5 + [0.0] * 55]
    for place in order:
        start_ms = T0 + place * HOUR_MS
        told = {
            "start_ms": [start_ms + step * MINUTE for step in range(60)],
            "pending_gpus": queues[place],
        }
        diagnosed(sender.batch(start_ms, *[EMPTY] * 60, host=told, **jobs))

    assert sums() == {"queue_or_scheduler": (10, 0, 10)}


def test_a_node_that_went_to_another_cluster_is_free_in_one_queue_only():
    sender = Sender(gpus=2)
    diagnosed(free_hour(sender, [4] * 6))
    start_ms = T0 + HOUR_MS
    there = {
        "jobs": [a_job("slurm/tiger/9", cluster="tiger")],
        "allocations": [held(start=start_ms, end=start_ms + HOUR_MS)],
    }
    told = {
        "start_ms": [start_ms + step * MINUTE for step in range(60)],
        "pending_gpus": [4.0] * 60,
    }
    diagnosed(sender.batch(start_ms, *[EMPTY] * 60, host=told, **there))

    capacity.replace([(Node.objects.get().pk, at) for at in (T0, start_ms)], throttled=(), now=NOW)

    assert sums() == {"queue_or_scheduler": (120, 0, 120)}
    assert Finding.objects.get(job=None).cluster == "tiger"


def test_a_machine_that_was_called_fixed_is_open_again_when_its_trouble_is_back():
    sender, jobs = Sender(), {"jobs": [a_job()], "allocations": [held(end=T0 + 3 * HOUR_MS)]}
    seen = []
    for place, says in enumerate((HOT, BUSY, HOT)):
        diagnosed(sender.batch(T0 + place * HOUR_MS, *[says] * 60, **jobs))
        seen.append(Finding.objects.get(cause="throttled").status)
        Finding.objects.filter(cause="throttled", decided_at=None).update(
            status="fixed", decided_at=hour(1)
        )

    assert seen == ["open", "fixed", "open"]


DAY = timedelta(days=1)
DISMISSED_AT = hour(2)


def a_dismissed(cause: str, *hours_before: int) -> Finding:
    """The node's finding of the first GPU's hours, dismissed at DISMISSED_AT."""
    for hours in hours_before:
        factories.capacity(cause, start=DISMISSED_AT - timedelta(hours=hours))
    node = factories.gpu(0).node
    return factories.place(cause, node=node, status="dismissed", decided_at=DISMISSED_AT)


def status_after(finding: Finding, cause: str, *, on: int = 0, after: timedelta) -> str:
    """Of the finding, once that GPU had an hour of the cause so long after the decision."""
    factories.capacity(cause, on=factories.gpu(on), start=DISMISSED_AT + after)
    capacity.replace([(finding.node_id, T0)], throttled=(), now=NOW + 30 * DAY)
    finding.refresh_from_db()
    return finding.status


@pytest.mark.parametrize("cause", ["gpu_fault", "no_telemetry"])
@pytest.mark.parametrize(
    ("after", "status"), [(0, "dismissed"), (24, "dismissed"), (25, "open"), (72, "open")]
)
def test_what_was_dismissed_is_open_again_when_its_gpu_was_well_for_more_than_a_day(
    cause, after, status
):
    finding = a_dismissed(cause, 2, 1, 0)

    assert status_after(finding, cause, after=timedelta(hours=after)) == status


def test_a_fault_that_goes_on_for_days_stays_dismissed():
    finding = a_dismissed("gpu_fault", 1)

    for hours in range(48):
        assert status_after(finding, "gpu_fault", after=timedelta(hours=hours)) == "dismissed"


def test_the_fault_of_another_gpu_is_not_the_one_that_was_dismissed():
    assert (
        status_after(a_dismissed("gpu_fault", 1), "gpu_fault", on=1, after=timedelta(hours=1))
        == "open"
    )


def test_how_a_machine_is_stays_dismissed():
    assert (
        status_after(a_dismissed("persistence_off", 1), "persistence_off", on=1, after=3 * DAY)
        == "dismissed"
    )


def test_a_lost_gpu_is_one_finding_of_its_node_that_names_the_job_and_saves_nothing_of_waste():
    rate("2.00")
    lost = {
        "gpu": 0,
        "at_ms": T0 + 30 * MINUTE,
        "kind": "gpu_lost",
        "code": None,
        "text": "fallen off the bus",
    }
    diagnosed(
        Sender().batch(
            T0,
            *[BUSY] * 30,
            *[EMPTY] * 30,
            jobs=[a_job()],
            allocations=[held(end=T0 + 30 * MINUTE)],
            events=[lost],
        )
    )

    assert sums() == {"gpu_fault": (30, 30, 30)}
    [line] = machine_findings.findings(ALL, now=NOW)
    assert (line.finding.subject, line.finding.cause, line.gpus) == ("n1", "gpu_fault", 1)
    assert (line.caused.wasted_ms, line.caused.held_usd) == (0, 1)
    assert [one.job.key for one in machine_findings.hurt(line.finding, ALL)] == ["slurm/della/7"]


def test_memory_errors_under_a_job_that_works_on_are_its_cause_and_no_fault_of_the_node():
    errors = [BUSY | {"ecc_uncorrected": 0}] * 30 + [BUSY | {"ecc_uncorrected": 1}] * 30
    diagnosed(Sender().batch(T0, *errors, jobs=[a_job()], allocations=[held()]))

    assert list(CauseEntry.objects.filter(cause="gpu_fault").values_list("held_ms")) == [
        (5 * MINUTE,)
    ]
    assert sums() == {}
    assert not Finding.objects.filter(cause="gpu_fault").exists()


def test_a_fault_ends_with_its_last_hour_however_many_memory_errors_follow():
    """Lost from 06:30 to 06:45; a job counts an error at 08:30."""
    sender, jobs = Sender(), {"jobs": [a_job()], "allocations": [held(end=T0 + 3 * HOUR_MS)]}
    events = [
        {"gpu": 0, "at_ms": T0 + minute * MINUTE, "kind": kind, "code": None, "text": ""}
        for minute, kind in ((30, "gpu_lost"), (45, "gpu_ok"))
    ]
    well, lost = (says | {"ecc_uncorrected": 0} for says in (BUSY, EMPTY))
    says = [well] * 30 + [lost] * 15 + [well] * 105
    diagnosed(sender.batch(T0, *says, events=events, **jobs))
    remapped = {"gpu": 0, "at_ms": T0 + 150 * MINUTE, "kind": "xid", "code": 63, "text": ""}
    worse = [BUSY | {"ecc_uncorrected": 1}] * 30
    diagnosed(sender.batch(T0 + 150 * MINUTE, *worse, events=[remapped], **jobs))

    finding = Finding.objects.get(cause="gpu_fault")
    assert (finding.first_ms, finding.last_ms) == (T0 + 30 * MINUTE, T0 + HOUR_MS)
    assert sums() == {"gpu_fault": (15, 15, 15)}
    assert machine_findings.over_since_ms(finding) == T0 + 45 * MINUTE


def test_a_drained_node_is_no_fault():
    drained = {"gpu": None, "at_ms": T0, "kind": "drained", "code": None, "text": "planned"}
    diagnosed(Sender().batch(T0, *[EMPTY] * 60, events=[drained]))

    assert sums() == {}


@pytest.mark.parametrize(("seen", "expected"), [(36, {}), (35, {"no_telemetry": (25, 0, 0)})])
def test_less_than_three_fifths_of_an_hour_seen_is_no_telemetry(seen, expected):
    later = Sender(boot_id="boot-2").batch(T0 + HOUR_MS - MINUTE, EMPTY)
    diagnosed(Sender().batch(T0, *[EMPTY] * (seen - 1)), later)

    assert sums(start=hour(0)) == expected


def test_persistence_mode_off_is_said_with_the_gpu_and_costs_nothing():
    sender = Sender(
        gpus=0,
        extra_gpus=[{"uuid": "GPU-x", "index": 0, "model": "NVIDIA L40S", "persistence": False}],
    )
    diagnosed(sender.batch(T0, *[EMPTY] * 60))

    assert sums() == {"persistence_off": (60, 0, 0)}


def an_orphan(**fields):
    return {"gpu": 0, "job": None, "pid": 4711, "started_ms": T0 - DAY // timedelta(milliseconds=1),
    "user": "ann", "name": "python",
            "state": "S", "memory_bytes": 30 * 2**30} | fields  # fmt: skip


def test_what_holds_a_gpu_without_a_job_is_a_finding_of_its_node_with_its_processes_and_dollars():
    rate("4.00")
    holding = EMPTY | {"process_count": 1, "memory_used_bytes": 30 * 2**30}
    diagnosed(Sender().batch(T0, *[EMPTY] * 15, *[holding] * 45, processes=[an_orphan()]))

    assert sums() == {"orphaned": (45, 45, 45)}
    [line] = machine_findings.findings(ALL, now=NOW, cause="orphaned")
    assert (line.finding.subject, line.finding.job, line.gpus) == ("n1", None, 1)
    assert (line.caused.wasted_ms, line.caused.tier_usd["certain"], line.caused.saving.low_usd) == (
        45 * MINUTE,
        3,
        3,
    )
    [process] = machine_findings.processes(line.finding, ALL)
    assert (process.pid, process.user, process.name, process.memory_bytes) == (
        4711,
        "ann",
        "python",
        30 * 2**30,
    )
    told = advice.advise("orphaned", machine_facts.facts(line.finding, ALL))
    assert told.command == ""
    assert [step.code for step in told.steps][:2] == [
        "ssh -- n1 ps -o pid,user,lstart,args -p 4711",
        "ssh -- n1 kill 4711",
    ]
    assert list(cause_checks.faults(ALL)) == []


@pytest.mark.parametrize(
    ("first", "last", "minutes"), [(0, 15, 0), (0, 20, 5), (15, 45, 30), (50, 70, 10)]
)
def test_of_a_part_of_an_hour_a_machines_finding_has_what_the_ledger_has(first, last, minutes):
    """Orphaned from the quarter past on, at $4 an hour."""
    rate("4.00")
    holding = EMPTY | {"process_count": 1, "memory_used_bytes": 30 * 2**30}
    diagnosed(Sender().batch(T0, *[EMPTY] * 15, *[holding] * 45, processes=[an_orphan()]))
    part = Interval(START + timedelta(minutes=first), START + timedelta(minutes=last))

    lines = machine_findings.findings(part, now=NOW, cause="orphaned")

    told = sum(line.caused.wasted_ms for line in lines)
    assert told == minutes * MINUTE == costs.totals(part).states["orphaned"]
    assert float(sum(line.caused.saving.high_usd for line in lines)) == pytest.approx(minutes / 15)
    [known] = Finding.objects.filter(cause="orphaned")
    assert sum(one.gpu_ms for one in machine_findings.affected(known, part)) == told


def test_of_a_part_of_an_hour_other_findings_of_machines_have_their_share():
    row = factories.capacity("no_telemetry", start=START)
    factories.place("no_telemetry", node=row.node)

    [line] = machine_findings.findings(
        Interval(START + timedelta(minutes=45), START + timedelta(hours=2)), now=NOW
    )

    assert line.caused.held_ms == 15 * MINUTE


def test_causes_of_a_period_and_orphaned_sum_to_what_was_wasted():
    holding = EMPTY | {"process_count": 1, "memory_used_bytes": 30 * 2**30}
    jobs, holds = [a_job("slurm/della/7")], [held(0, 0)]
    diagnosed(
        Sender().batch(T0, *[EMPTY] * 60, jobs=jobs, allocations=holds),
        Sender(node="n2").batch(T0, *[holding] * 60),
    )

    found = selectors.waste_by_cause(ALL)

    told = {group.key: group.totals.capacity_ms for group in found.lines}
    assert told["orphaned"] == HOUR_MS
    whole = costs.totals(ALL)
    assert sum(told.values()) == sum(
        whole.states[state] for state in ("idle", "stalled", "underused", "orphaned")
    )
    assert found.totals.waste_ms["certain"] == whole.waste_ms["certain"]


def test_heat_is_one_finding_of_the_node_however_many_jobs_it_slows():
    jobs = [a_job("slurm/della/7"), a_job("slurm/della/8")]
    holds = [held(0, 0), held(1, 1)]
    diagnosed(Sender(gpus=2).batch(T0, *[HOT] * 60, jobs=jobs, allocations=holds))
    since = {"valid_from": START, "created_at": START}
    Rate.objects.create(node=Node.objects.get(), price_per_gpu_hour=2, **since)

    assert set(CauseEntry.objects.filter(cause="throttled").values_list("job__key", flat=True)) == {
        "slurm/della/7",
        "slurm/della/8",
    }
    assert list(Finding.objects.filter(cause="throttled").values_list("node__name", "job")) == [
        ("n1", None)
    ]
    # 40 % of the clock was missing, and held down for half of the time: of five minutes two
    for held_ms, lost_ms in CauseEntry.objects.filter(cause="throttled").values_list(
        "held_ms", "clock_lost_ms"
    ):
        assert lost_ms == pytest.approx(0.4 * held_ms, abs=20)
    assert not CauseEntry.objects.exclude(cause="throttled").exclude(clock_lost_ms=None).exists()
    [line] = machine_findings.findings(ALL, now=NOW, cause="throttled")
    assert 0 < line.caused.saving.high_ms <= line.caused.wasted_ms
    hurt = machine_findings.hurt(line.finding, ALL)
    lost = [one.lost_usd for one in hurt]
    assert float(sum(lost)) == pytest.approx(float(line.caused.wasted_usd))
    for one in hurt:  # the job's page says the same as the finding's
        usd = {each.cause: each.wasted_usd for each in selectors.caused_of(one.job, ALL)}
        assert usd["throttled"] == one.lost_usd
        assert machine_findings.slowing(one.job, ALL) == [line.finding]


def test_a_finding_and_its_gpus_begin_with_the_first_five_minutes_of_heat():
    held_all = {"jobs": [a_job()], "allocations": [held()]}
    diagnosed(Sender().batch(T0, *[BUSY] * 30, *[HOT] * 30, **held_all))

    entry = CauseEntry.objects.get(cause="throttled")
    first_ms = T0 + 5 * MINUTE * next(bit for bit in range(12) if entry.cells >> bit & 1)
    finding = Finding.objects.get(cause="throttled")
    assert finding.first_ms == first_ms > T0
    [affected] = machine_findings.affected(finding, ALL)
    assert to_ms(affected.first) == first_ms
    assert machine_findings.whole(finding).start_ms == T0


def test_a_finding_of_heat_begins_and_ends_with_it_though_gpus_were_busy_then():
    """Slowed from 06:00 to 09:00, of which the ledger calls the second hour alone wasted."""
    for hours in range(3):
        wasted = {"waste": "underused_ms"} if hours == 1 else {"waste": "", "low": 0, "high": 0}
        factories.cause("throttled", start=START + timedelta(hours=hours), **wasted)

    node_id = Node.objects.get().pk
    capacity.replace({(node_id, T0)}, throttled=[node_id], now=NOW)

    finding = Finding.objects.get(cause="throttled")
    assert (finding.first_ms, finding.last_ms) == (T0, T0 + 3 * HOUR_MS)
    in_all = machine_findings.line_of(finding, machine_findings.whole(finding), now=NOW)
    assert in_all.caused.held_ms == 3 * HOUR_MS


def test_where_heat_never_wasted_what_could_be_saved_there_is_no_finding():
    factories.cause("throttled", start=START, waste="", low=0, high=0)

    node_id = Node.objects.get().pk
    capacity.replace({(node_id, T0)}, throttled=[node_id], now=NOW)

    assert not Finding.objects.exists()


def test_judging_again_changes_nothing_and_what_is_gone_is_no_finding_any_more():
    sender = Sender()
    diagnosed(
        sender.batch(T0, *[EMPTY] * 20), Sender(boot_id="boot-2").batch(T0 + 59 * MINUTE, EMPTY)
    )
    assert Finding.objects.filter(cause="no_telemetry").exists()

    diagnosed(sender.batch(T0 + 20 * MINUTE, *[EMPTY] * 39))

    assert sums() == {}
    assert not Finding.objects.exists()


def test_pages_can_say_how_far_diagnosis_is():
    post(Sender().batch(T0, *[EMPTY] * 120))

    before = machine_findings.progress(ALL, now=NOW)
    services.diagnose(NOW, 1)
    after = machine_findings.progress(ALL, now=NOW)

    assert (before.posted, before.diagnosed, before.is_behind) == (2, 0, True)
    assert (after.posted, after.diagnosed) == (2, 1)

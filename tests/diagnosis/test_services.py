"""From posted hours to causes and findings, through the real door and the real ledger."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import numpy as np
import pytest
from django.db import transaction
from django.db.models import F, Sum
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fleetwatch.accounts.models import Organisation
from fleetwatch.diagnosis import services
from fleetwatch.diagnosis.findings import machine_findings
from fleetwatch.diagnosis.judgement.cell_figures import NAMES
from fleetwatch.diagnosis.judgement.packing import pack, unpack
from fleetwatch.diagnosis.models import CauseEntry, DiagnosedDay, Finding, NodeCells
from fleetwatch.inventory.models import Node
from fleetwatch.jobs.models import Job
from fleetwatch.ledger import hour_cells
from fleetwatch.ledger.judgement.cell_states import joined
from fleetwatch.ledger.models import Entry, HourCells, NodeDay
from fleetwatch.lib.intervals import HOUR_MS, to_ms
from fleetwatch.telemetry.locks import DIAGNOSING, try_node_locks
from tests.ledger.fleet import (
    BUSY,
    EMPTY,
    GIB,
    HALF,
    MINUTE,
    NOW,
    QUIET,
    START,
    T0,
    Sender,
    a_job,
    held,
    post,
)
from tests.telemetry.threads import in_another_connection

pytestmark = pytest.mark.django_db

WASTE = {
    "idle": ("idle_certain_ms", "idle_probable_ms"),
    "stalled": ("stalled_probable_ms", "stalled_potential_ms"),
    "underused": ("underused_ms",),
}


def diagnosed(*mappings, now=NOW) -> dict[str, int]:
    """Stores, posts and diagnoses."""
    post(*mappings, now=now)
    return services.diagnose(now, 1000)


def by_cause(**which) -> dict[str, int]:
    """Cause -> held milliseconds."""
    rows = CauseEntry.objects.filter(**which).values_list("cause").annotate(Sum("held_ms"))
    return dict(rows.order_by("cause"))


def an_idle_hour(sender: Sender, start_ms: int = T0):
    return sender.batch(start_ms, *[QUIET] * 60, jobs=[a_job()], allocations=[held(start=start_ms)])


def test_an_idle_job_with_a_process_is_held_for_nothing_and_becomes_a_finding():
    diagnosed(an_idle_hour(Sender()))

    assert by_cause() == {"idle_held": HOUR_MS}
    finding = Finding.objects.get()
    assert (finding.cause, finding.job.key) == ("idle_held", "slurm/della/7")
    assert (finding.first_ms, finding.last_ms) == (T0, T0 + HOUR_MS)


@pytest.mark.parametrize(("failures", "used"), [(3, 77), (2, 77), (3, 75)])
def test_runs_that_fail_soon_with_their_memory_full_are_one_cause_from_the_third_on(failures, used):
    board = {
        "uuid": "GPU-x",
        "index": 0,
        "model": "NVIDIA H100 80GB HBM3",
        "power_limit_w": 700.0,
        "memory_total_bytes": 80 * GIB,
    }
    runs = [(T0 + place * 20 * MINUTE, T0 + (place + 1) * 20 * MINUTE) for place in range(3)]
    states = ["FAILED" if place < failures else "COMPLETED" for place in range(3)]
    jobs = [
        a_job(f"slurm/della/{place}", name="train", state=state, start_ms=start, end_ms=end)
        for place, ((start, end), state) in enumerate(zip(runs, states, strict=True))
    ]
    holds = [held(job=place, start=start, end=end) for place, (start, end) in enumerate(runs)]
    said = QUIET | {"util_mean": 0.5, "util_max": 1.0, "memory_used_bytes": used * GIB}
    diagnosed(
        Sender(gpus=0, extra_gpus=[board]).batch(T0, *[said] * 60, jobs=jobs, allocations=holds)
    )

    is_found = (failures, used) == (3, 77)  # 76 GiB are 95 % of 80
    assert by_cause().get("oom_thrash", 0) == (HOUR_MS if is_found else 0)


def test_an_idle_job_without_a_process_was_never_started():
    sender = Sender()
    diagnosed(sender.batch(T0, *[EMPTY] * 60, jobs=[a_job()], allocations=[held()]))

    assert by_cause() == {"allocated_no_process": HOUR_MS}


@pytest.mark.parametrize("processes", [{"process_count": 0}, {}])
def test_a_video_stream_of_which_no_process_is_seen_is_nobodys_finding(processes):
    """An L4 at 99 % NVENC, 38 of 72 W and 230 MiB, for two hours."""
    board = {
        "uuid": "GPU-x",
        "index": 0,
        "model": "NVIDIA L4",
        "power_limit_w": 72.0,
        "memory_total_bytes": 24 * GIB,
    }
    said = {
        "util_mean": 0.08,
        "util_max": 0.1,
        "encoder_ratio": 0.99,
        "power_w": 38.0,
        "memory_used_bytes": 230 * 2**20,
    } | processes
    diagnosed(
        Sender(gpus=0, extra_gpus=[board]).batch(
            T0, *[said] * 120, jobs=[a_job()], allocations=[held()]
        )
    )

    assert by_cause() == {"video_engines": 2 * HOUR_MS}
    assert not Finding.objects.exists()
    assert list(Entry.objects.values_list("state", "tier").distinct()) == [("useful", "")]


@pytest.mark.parametrize(
    "model", ["NVIDIA A100-SXM4-40GB", "NVIDIA H20", "NVIDIA GeForce RTX 4090", "NVIDIA RTX 9999"]
)
def test_a_hang_is_a_hang_on_cards_of_which_no_catalogue_knows_the_idle_power(model):
    board = {
        "uuid": "GPU-x",
        "index": 0,
        "model": model,
        "power_limit_w": 400.0,
        "memory_total_bytes": 40 * GIB,
    }
    said = {
        "util_mean": 1.0,
        "util_max": 1.0,
        "util_p5": 1.0,
        "power_w": 60.0,
        "power_max_w": 62.0,
        "memory_used_bytes": 30 * GIB,
    }
    said |= {"process_count": 1}
    diagnosed(
        Sender(gpus=0, extra_gpus=[board]).batch(
            T0, *[said] * 120, jobs=[a_job()], allocations=[held()]
        )
    )

    # its first ten minutes are a warm-up
    assert by_cause() == {"undetermined": 10 * MINUTE, "hung": 110 * MINUTE}
    assert list(Entry.objects.values_list("state", "tier").distinct()) == [("stalled", "probable")]


def test_savings_are_never_more_than_what_was_wasted():
    diagnosed(an_idle_hour(Sender()))

    entry = CauseEntry.objects.get()
    assert entry.idle_certain_ms == HOUR_MS
    assert (entry.low_ms, entry.high_ms) == (HOUR_MS * 9 // 10, HOUR_MS)


def spinning(gpus: int, **instead: float) -> None:
    """Two hours of a job whose sender tells a mean of each window, and not what its
    readings were.
    """
    said = BUSY | {"power_w": 120.0} | instead
    jobs, holds = [a_job()], [held(place) for place in range(gpus)]
    diagnosed(Sender(gpus=gpus).batch(T0, *[said] * 120, jobs=jobs, allocations=holds))


def test_what_the_ledger_calls_spinning_has_a_cause_though_nobody_told_how_many_readings_spin():
    spinning(4)

    # the first ten minutes are warm-up: nobody is accused, and what spins is not called busy
    assert set(by_cause()) == {"hung", "undetermined"}
    assert by_cause(cause="hung") == {"hung": 4 * (2 * HOUR_MS - 10 * MINUTE)}


def test_ranks_that_are_nearly_full_and_nearly_idle_wait():
    spinning(4, util_mean=0.9)

    assert set(by_cause()) == {"rank_wait", "undetermined"}


def test_one_value_of_a_window_says_nothing_against_work():
    spinning(4, power_w=600.0)

    assert set(by_cause()) == {"busy"}


def test_time_that_nobody_holds_has_no_cause():
    diagnosed(Sender().batch(T0, *[EMPTY] * 60))

    assert by_cause() == {}


def test_what_nobody_saw_is_no_telemetry_and_a_finding_of_its_node_alone():
    sender = Sender()
    seen = sender.batch(T0, *[BUSY] * 5, *[None] * 54, BUSY, jobs=[a_job()], allocations=[held()])

    diagnosed(seen)

    # of the last cell the job held one minute, which was seen
    assert by_cause()["no_telemetry"] == 54 * 60_000
    finding = Finding.objects.get()
    assert (finding.cause, finding.job, finding.subject) == ("no_telemetry", None, "n1")
    # its job has what the finding counts: not all that it held in hours of which little was seen
    whole = machine_findings.whole(finding)
    [line] = machine_findings.findings(whole, now=NOW)
    [(job, unseen_ms)] = machine_findings.unseen_jobs(finding, whole)
    assert (job, unseen_ms, line.caused.held_ms) == (Job.objects.get(), 54 * 60_000, 54 * 60_000)
    assert machine_findings.hurt(finding, whole) == []


def test_twice_changes_nothing_and_finds_nothing_to_do():
    diagnosed(an_idle_hour(Sender()))
    before = list(CauseEntry.objects.values_list("pk", "cause", "held_ms"))

    did = services.diagnose(NOW, 1000)

    assert did == {"hours": 0, "jobs": 0, "days": 0}
    assert list(CauseEntry.objects.values_list("pk", "cause", "held_ms")) == before


@pytest.mark.django_db(transaction=True)
def test_what_another_worker_diagnoses_is_left_to_it():
    post(an_idle_hour(Sender()))
    with transaction.atomic():
        assert try_node_locks(DIAGNOSING, [Node.objects.get().pk])
        busy = in_another_connection(lambda: services.diagnose(NOW, 1000)).result(timeout=20)

    assert busy == {"hours": 0, "jobs": 0, "skipped": 1, "days": 0}
    assert services.diagnose(NOW, 1000) == {"hours": 1, "jobs": 1, "days": 0}


def test_late_windows_change_the_causes_of_the_hours_they_touch():
    sender = Sender()
    diagnosed(
        sender.batch(T0, *[QUIET] * 60, jobs=[a_job()], allocations=[held(end=T0 + 2 * HOUR_MS)])
    )
    assert by_cause() == {"idle_held": HOUR_MS}

    more = Sender(boot_id="boot-2").batch(
        T0, *[BUSY] * 60, window_s=60, jobs=[a_job()], allocations=[held(end=T0 + 2 * HOUR_MS)]
    )
    diagnosed(more | {"boot_start_ms": T0 - 60_000})

    assert by_cause() == {"busy": HOUR_MS}
    assert not Finding.objects.exists()


def changed(**which: Any) -> None:
    """The ledger's first hour was posted anew."""
    for day in NodeDay.objects.filter(**which):
        day.versions = [version + 1 if version else version for version in day.versions]
        day.save()


def test_causes_go_when_the_ledger_says_that_nobody_held_the_node():
    diagnosed(an_idle_hour(Sender()))
    node_id = NodeDay.objects.get().node_id
    hour_cells.write({node_id: (joined([]), [T0])}, start_ms=T0, end_ms=T0 + HOUR_MS)
    changed()

    services.diagnose(NOW, 1000)

    assert (by_cause(), Finding.objects.count()) == ({}, 0)


def test_so_does_the_nodes_finding_though_only_another_node_of_the_job_changed():
    hot = BUSY | {
        "power_w": 300.0,
        "throttle_thermal_ratio": 0.5,
        "sm_clock_hz": 1.2e9,
        "sm_clock_max_hz": 2e9,
    }
    diagnosed(
        *(
            Sender(node).batch(T0, *[hot] * 60, jobs=[a_job()], allocations=[held()])
            for node in ("n1", "n2")
        )
    )
    assert set(Finding.objects.values_list("node__name", "cause")) == {
        ("n1", "throttled"),
        ("n2", "throttled"),
    }
    HourCells.objects.filter(node__name="n1").delete()
    changed(node__name="n2")

    services.diagnose(NOW, 1000)

    assert Finding.objects.get().node.name == "n2"


def test_a_finding_that_somebody_spoke_of_stays_when_its_cause_is_gone():
    sender = Sender()
    diagnosed(an_idle_hour(sender))
    Finding.objects.get().said.create(kind="confirmed", at=NOW)

    more = Sender(boot_id="boot-2").batch(T0, *[BUSY] * 60, jobs=[a_job()], allocations=[held()])
    diagnosed(more | {"boot_start_ms": T0 - 60_000})

    assert Finding.objects.count() == 1


def test_gpus_of_a_job_on_two_nodes_are_judged_together():
    says = {"n1": BUSY, "n2": QUIET}
    job = a_job()
    for node, said in says.items():
        post(Sender(node).batch(T0, *[said] * 60, jobs=[job], allocations=[held()]))

    services.diagnose(NOW, 1000)

    # a quiet GPU of a job whose other GPU works is no idle job: it is a GPU that the job does not
    # use
    assert by_cause(node__name="n2") == {"partial_idle": HOUR_MS}
    assert "partial_idle" not in by_cause(node__name="n1")


def test_a_limit_leaves_the_rest_for_the_next_run():
    sender = Sender()
    post(sender.batch(T0, *[QUIET] * 120, jobs=[a_job()], allocations=[held(end=T0 + 2 * HOUR_MS)]))

    assert services.diagnose(NOW, 1)["hours"] == 1
    assert services.diagnose(NOW, 10)["hours"] == 1
    assert by_cause() == {"idle_held": 2 * HOUR_MS}


def test_the_hour_that_goes_on_waits_while_it_is_not_asked_for():
    post(an_idle_hour(Sender()))
    within = START + timedelta(minutes=59)

    # of which nothing was known yet
    assert services.diagnose(within, 10, is_live=False)["hours"] == 1
    changed()
    assert services.diagnose(within, 10, is_live=False)["hours"] == 0
    assert services.diagnose(within, 10)["hours"] == 1
    changed()
    assert services.diagnose(START + timedelta(hours=1), 10, is_live=False)["hours"] == 1


def test_cells_are_forgotten_after_two_days_and_made_again_when_needed():
    diagnosed(an_idle_hour(Sender()))

    assert services.forget_cells(START + timedelta(days=2)) == 0
    assert services.forget_cells(START + timedelta(days=2, milliseconds=1)) == 1

    post(
        Sender(sequence=9).batch(T0 + HOUR_MS, *[QUIET] * 60, jobs=[a_job()], allocations=[held()])
    )
    services.diagnose(NOW, 1000)
    assert by_cause() == {"idle_held": 2 * HOUR_MS}


def stored_cells() -> list[tuple]:
    """The newest hour's cells, as they are kept."""
    hour = unpack(NodeCells.objects.latest("hour").payload)
    return [
        hour.gpu_ids.tolist(),
        hour.digests,
        {
            name: one.tolist()
            for name, one in zip(NAMES, np.nan_to_num(hour.figures, nan=-1), strict=True)
        },
    ]


@pytest.mark.parametrize("minutes", [10, 33, 35])
def test_an_hour_that_grows_has_the_cells_of_one_that_came_whole(minutes):
    says = [*[BUSY] * 13, *[QUIET] * 14, *[HALF] * 22, *[QUIET] * 11]
    sender, allocated = Sender(), {"jobs": [a_job()], "allocations": [held()]}
    for first in range(0, 60, minutes):
        part = says[first : first + minutes]
        diagnosed(
            sender.batch(T0 + first * 60_000, *part, **allocated),
            now=START + timedelta(minutes=first + len(part) - 1),
        )
    grown, causes = stored_cells(), by_cause()

    NodeCells.objects.all().delete()
    DiagnosedDay.objects.all().delete()
    services.diagnose(START + timedelta(minutes=59), 1000)

    assert (stored_cells(), by_cause()) == (grown, causes)


def test_of_an_hour_that_goes_on_what_the_ledger_says_as_before_is_not_read_again():
    sender, allocated = Sender(), {"jobs": [a_job()], "allocations": [held()]}
    diagnosed(sender.batch(T0, *[BUSY] * 30, **allocated), now=START + timedelta(minutes=29))
    hour = NodeCells.objects.get()
    known = unpack(hour.payload)
    marked = np.where(
        np.array(NAMES)[:, None, None] == "memory_used_bytes", np.float32(7), known.figures
    )
    NodeCells.objects.update(payload=pack(replace(known, figures=marked)))

    diagnosed(
        sender.batch(T0 + 30 * 60_000, *[BUSY] * 10, **allocated), now=START + timedelta(minutes=39)
    )

    found = unpack(NodeCells.objects.get().payload)
    memory = found.of("memory_used_bytes")[0]
    assert memory[:6].tolist() == [7] * 6
    assert memory[6:8].tolist() == [60 * 2**30] * 2


said = st.sampled_from([QUIET, BUSY, HALF, EMPTY, None])


@settings(
    max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    st.lists(said, min_size=20, max_size=100),
    st.sampled_from(["batch", "interactive", "service"]),
    st.integers(0, 50),
)
def test_causes_sum_to_the_ledgers_waste_whatever_happens(says, kind, begins):
    CauseEntry.objects.all().delete()
    Entry.objects.all().delete()
    node = f"n{abs(hash((tuple(map(str, says)), kind, begins))) % 10**9}"
    sender = Sender(node)
    post(
        sender.batch(
            T0, *says, jobs=[a_job(kind=kind)], allocations=[held(start=T0 + begins * 60_000)]
        )
    )

    services.diagnose(NOW, 1000)

    for state, columns in WASTE.items():
        entries = (
            Entry.objects.filter(node__name=node, state=state).aggregate(ms=Sum("gpu_ms"))["ms"]
            or 0
        )
        causes = CauseEntry.objects.filter(node__name=node).aggregate(
            **{name: Sum(name) for name in columns}
        )
        assert sum(value or 0 for value in causes.values()) == entries, state
    allocated = (
        Entry.objects.filter(node__name=node, job__isnull=False).aggregate(ms=Sum("gpu_ms"))["ms"]
        or 0
    )
    assert (
        CauseEntry.objects.filter(node__name=node).aggregate(ms=Sum("held_ms"))["ms"] or 0
    ) == allocated
    wasted = (
        F("idle_certain_ms")
        + F("idle_probable_ms")
        + F("stalled_probable_ms")
        + F("stalled_potential_ms")
        + F("underused_ms")
    )
    assert not CauseEntry.objects.filter(high_ms__gt=wasted).exists()


def test_an_organisations_midnight_within_an_hour_cuts_causes_too():
    Organisation.objects.update_or_create(pk=1, defaults={"time_zone": "Asia/Kolkata"})
    start = to_ms(START.replace(hour=18))
    sender = Sender()
    diagnosed(an_idle_hour(sender, start), now=START + timedelta(hours=20))

    assert [
        (row.start.hour, row.start.minute, row.held_ms)
        for row in CauseEntry.objects.order_by("start")
    ] == [
        (18, 0, HOUR_MS // 2),
        (18, 30, HOUR_MS // 2),
    ]

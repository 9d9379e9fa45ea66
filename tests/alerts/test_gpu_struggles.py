"""GPUs that work and are in trouble: slowed by heat or power, or with errors of their memory."""

from decimal import Decimal

import pytest

from fleetwatch.alerts.back_test import back_test
from fleetwatch.alerts.breach import stored_breach
from fleetwatch.alerts.conditions import condition
from fleetwatch.alerts.conditions.gpu_memory_errors import Struggle, Trouble
from fleetwatch.alerts.conditions.gpu_slowed import LOWER_CLOCK, slowed_since
from fleetwatch.alerts.measuring.reset_steps import Reset
from fleetwatch.alerts.messaging import announcing
from fleetwatch.alerts.models import Incident
from fleetwatch.alerts.services import evaluate, settings_of
from fleetwatch.dashboard.incident_pages import steps
from fleetwatch.diagnosis.cause import WELL
from fleetwatch.diagnosis.causes import BLIND, CATALOGUE, FAILURES, SLOWED, UNDETERMINED
from fleetwatch.diagnosis.models import CauseEntry
from fleetwatch.inventory.models import GPU, Node
from fleetwatch.jobs.models import Allocation, SourceReport
from fleetwatch.ledger.models import Posted
from fleetwatch.lib.intervals import Interval
from fleetwatch.telemetry.models import HealthEvent
from tests.alerts.factories import a_rule, at, ms
from tests.alerts.test_job_hung import a_cause
from tests.costs.factories import a_gpu, a_job, a_rate

pytestmark = pytest.mark.django_db

OTHER = next(cause.code for cause in CATALOGUE if cause.verdict == WELL)
(BROKEN,) = FAILURES
DAY = 24 * 60


def slowed(**fields):
    usual = {"condition": "gpu_slowed", "minutes": 20, "evaluated_ms": None}
    return a_rule(**(usual | fields))


def errors(**fields):
    usual = {"condition": "gpu_memory_errors", "minutes": 1, "threshold": 1}
    return a_rule(**(usual | fields))


def hear(minute: float) -> None:
    Node.objects.update(last_ms=ms(minute))


def states(minute: float, *, heard: float | None = None) -> list[str]:
    """What is open, the nodes being heard until that minute."""
    hear(minute if heard is None else heard)
    announcing.run(at(minute))
    return list(Incident.objects.order_by("pk").values_list("state", flat=True))


def xid(gpu: GPU, minute: float, code: int = 94, *, of: str = "gpu") -> HealthEvent:
    usual = {"node": gpu.node, "kind": "xid", "code": code}
    return HealthEvent.objects.create(at_ms=ms(minute), gpu=gpu if of == "gpu" else None, **usual)


def newest():
    return stored_breach(Incident.objects.latest("pk").facts)


class TestSlowed:
    @pytest.mark.parametrize(
        ("cells", "told"),
        [(range(1), []), (range(3), ["pending"]), (range(4), ["firing"]), (range(6), ["firing"])],
    )
    def test_it_is_told_when_it_was_slowed_for_as_long_as_the_rule_says(self, cells, told):
        slowed()
        a_cause(a_gpu(), a_job(), cells, cause=SLOWED)

        assert states(35) == told

    @pytest.mark.parametrize(("confidence", "told"), [(1, []), (2, ["firing"]), (3, ["firing"])])
    def test_what_diagnosis_is_hardly_sure_of_is_not_told(self, confidence, told):
        slowed()
        a_cause(a_gpu(), a_job(), range(6), cause=SLOWED, confidence=confidence)

        assert states(35) == told

    def test_two_jobs_on_a_gpu_are_one_gpu_that_is_slowed(self):
        slowed()
        gpu = a_gpu()
        for number in (1, 2):
            a_cause(gpu, a_job(key=f"slurm/della/{number}"), range(6), cause=SLOWED)

        assert states(35) == ["firing"]
        assert Incident.objects.get().subject == gpu.uuid

    def test_it_goes_on_from_one_job_to_the_next(self):
        slowed()
        gpu = a_gpu()
        a_cause(gpu, a_job(key="slurm/della/1"), range(2), cause=SLOWED)
        a_cause(gpu, a_job(key="slurm/della/other"), range(2, 4), cause=SLOWED)

        assert states(35) == ["firing"]

    def test_it_is_over_once_it_ran_at_its_clock_for_a_quarter_of_an_hour(self):
        slowed(clear_minutes=15)
        gpu = a_gpu()
        job = a_job()
        a_cause(gpu, job, range(4), cause=SLOWED)
        states(25)

        a_cause(gpu, job, range(4, 6), cause=OTHER)
        assert states(33) == ["firing"]
        a_cause(gpu, a_job(key="slurm/della/other"), range(6, 7), cause=OTHER)

        assert states(38) == ["resolved"]
        assert Incident.objects.get().resolution == "it runs at its clock again"

    @pytest.mark.parametrize("cause", [BLIND[0], UNDETERMINED])
    def test_what_nobody_knows_neither_fires_nor_resolves(self, cause):
        slowed()
        gpu = a_gpu()
        job = a_job()
        a_cause(gpu, job, range(4), cause=SLOWED)
        states(25)

        a_cause(gpu, job, range(4, 12), cause=cause)

        assert states(64) == ["firing"]

    def test_a_retired_gpu_is_no_longer_seen(self):
        slowed()
        a_cause(a_gpu(), a_job(), range(4), cause=SLOWED)
        states(25)

        GPU.objects.update(retired_ms=ms(25))

        assert states(30) == ["resolved"]

    def test_it_says_where_what_to_do_and_what_the_lower_clock_wasted(self):
        """Half an hour at $4 an hour, of which a tenth was wasted."""
        slowed()
        gpu = a_gpu(index=3)
        a_rate("4.00", gpu=gpu)
        half = a_cause(gpu, a_job(), range(6), cause=SLOWED)
        CauseEntry.objects.filter(pk=half.pk).update(stalled_probable_ms=180_000)

        states(35)

        breach = newest()
        assert (breach.what, breach.title) == (
            "gpu-01 GPU 3 was slowed by heat or power",
            "slowed by heat or power · gpu-01 GPU 3 (H100 SXM)",
        )
        assert breach.owner == "ann (nlp)"
        assert breach.actions[0].startswith("Fix: See which limit")
        assert (breach.label("node"), breach.label("cause")) == ("gpu-01", SLOWED)
        assert (breach.cost_usd, breach.usd_per_hour) == (Decimal("0.20"), Decimal("0.40"))
        assert dict(breach.lines)["Lost"].startswith("10 % of the time")

    @pytest.mark.parametrize(
        ("usd", "lost_ms", "text"),
        [
            ("4.00", 720_000, "cost up to 0.2 GPU-h ($0.80) of work, as if it ran at 60 % of"),
            ("", 720_000, "cost up to 0.2 GPU-h of work, as if it ran at 60 % of"),
            ("4.00", 0, "cost up to 0.0 GPU-h ($0.00) of work, as if it ran at 100 % of"),
            ("4.00", None, ""),
        ],
    )
    def test_it_says_what_the_lower_clock_cost_where_that_is_known(self, usd, lost_ms, text):
        """Of half an hour, which the ledger counts in full or not at all."""
        slowed()
        gpu = a_gpu(index=3)
        if usd:
            a_rate(usd, gpu=gpu)
        half = a_cause(gpu, a_job(), range(6), cause=SLOWED)
        CauseEntry.objects.filter(pk=half.pk).update(clock_lost_ms=lost_ms)

        states(35)

        line = dict(newest().lines).get(LOWER_CLOCK, "")
        assert line.startswith(text)
        assert bool(line) == bool(text)

    @pytest.mark.parametrize(("gpus", "drains"), [(1, False), (2, True)])
    def test_a_node_is_drained_for_a_job_of_several_gpus_alone(self, gpus, drains):
        slowed()
        job = a_job()
        several = [a_gpu(index=number) for number in range(gpus)]
        for gpu in several:
            Allocation.objects.create(job=job, gpu=gpu, source="slurm", asserted=[(0, ms(60))])
        a_cause(several[0], job, range(6), cause=SLOWED)

        states(35)

        assert any("out of service" in each for each in newest().actions) == drains


@pytest.mark.parametrize(
    ("parts", "since"),
    [
        ([], 60),
        ([(60, 65)], 60),
        ([(40, 45), (45, 60), (60, 65)], 40),
        ([(20, 40), (50, 60)], 20),  # a break of ten minutes, of fifteen that would end it
        ([(20, 45), (60, 65)], 60),
    ],
)
def test_it_is_slowed_since_its_last_long_break_though_it_fired_later(parts, since):
    slowed = [(ms(start), ms(end), 0) for start, end in parts]

    assert slowed_since(slowed, ms(60), clear_ms=ms(15) - ms(0)) == ms(since)


class TestMemoryErrors:
    @pytest.mark.parametrize(
        ("threshold", "minutes", "told"),
        [
            (1, (10,), ["firing"]),
            (2, (10,), []),
            (2, (10, 11), []),  # the same five minutes
            (2, (10, 15), ["firing"]),
            (2, (35 - DAY, 20), ["firing"]),
            (2, (20 - DAY, 20), []),  # a day apart
        ],
    )
    def test_it_is_told_from_as_many_times_in_a_day_as_the_rule_says(
        self, threshold, minutes, told
    ):
        errors(threshold=threshold)
        gpu = a_gpu()
        for minute in minutes:
            xid(gpu, minute)

        assert states(30) == told

    @pytest.mark.parametrize(
        ("code", "told"),
        [(63, ["firing"]), (92, ["firing"]), (94, ["firing"]), (13, []), (31, []), (79, [])],
    )
    def test_what_a_job_can_cause_and_what_stops_the_gpu_is_another_thing(self, code, told):
        errors()
        xid(a_gpu(), 10, code)

        assert states(30) == told

    def test_an_xid_of_no_gpu_accuses_none(self):
        errors()
        xid(a_gpu(), 10, of="node")

        assert states(30) == []

    def test_new_ones_of_the_drivers_counter_are_told_too_and_the_same_ones_once(self):
        errors(threshold=2)
        gpu = a_gpu()
        a_cause(gpu, a_job(), (2,), cause=BROKEN)
        xid(gpu, 12)
        assert states(30) == []

        a_cause(gpu, a_job(key="slurm/della/next"), (3,), cause=BROKEN)

        assert states(36) == ["firing"]
        assert newest().lines == (
            ("Errors", "2 times in 24 h: 1 by XID 94, 1 counted by the driver without an XID"),
        )

    @pytest.mark.parametrize(
        ("outage", "told"), [((10, None), []), ((10, 20), []), ((20, 25), ["firing"])]
    )
    def test_of_a_gpu_that_can_not_work_they_are_not_told(self, outage, told):
        errors()
        gpu = a_gpu()
        xid(gpu, 12)
        start, end = outage
        row = [ms(start), None if end is None else ms(end), "xid_48", False]
        Posted.objects.create(gpu=gpu, spans=[], outages=[row])

        assert states(30) == told

    def test_they_are_over_a_day_after_the_last(self):
        errors()
        gpu = a_gpu()
        xid(gpu, 10)
        xid(gpu, 100)

        assert states(120) == ["firing"]
        assert states(100 + DAY) == ["firing"]
        assert states(106 + DAY) == ["resolved"]
        assert Incident.objects.get().ended_ms == ms(100 + DAY)

    def test_of_a_silent_node_nobody_knows(self):
        errors()
        xid(a_gpu(), 10)
        states(30)

        assert states(11 + DAY, heard=40) == ["firing"]

    def test_a_gpu_that_went_to_another_node_is_not_told_twice(self):
        errors()
        gpu = a_gpu()
        xid(gpu, 10)
        xid(gpu, 20)

        assert states(30) == states(36) == ["firing"]

    def test_it_says_by_what_and_what_to_do(self):
        errors()
        gpu = a_gpu(index=3)
        xid(gpu, 10, 63)
        xid(gpu, 20, 94)

        states(30)

        breach = newest()
        errors_of_it = "memory errors (2 times in 24 h: 1 by XID 63, 1 by XID 94)"
        assert breach.does == f"gpu-01 GPU 3 works with {errors_of_it}"
        assert breach.what == f"gpu-01 GPU 3 worked with {errors_of_it}"
        assert breach.facts == {"times": 2, "xids": [63, 94]}

    @pytest.mark.parametrize(
        ("outage", "words"),
        [
            ((20, None, "gpu_lost"), "had memory errors ({}), then was lost at 09:20 UTC"),
            ((20, None, "xid_79"), "had memory errors ({}), then was lost at 09:20 UTC"),
            (
                (20, None, "needs_reset"),
                "had memory errors ({}), then could not work from 09:20 UTC on",
            ),
            ((20, 25, "gpu_lost"), "works with memory errors ({})"),
            ((20, None, "drained"), "works with memory errors ({})"),
        ],
    )
    def test_one_that_was_lost_since_is_not_said_to_work(self, outage, words):
        errors()
        gpu = a_gpu(index=3)
        xid(gpu, 10)
        start, end, reason = outage
        row = [ms(start), None if end is None else ms(end), reason, False]
        Posted.objects.create(gpu=gpu, spans=[], outages=[row])

        states(30)

        assert newest().does == f"gpu-01 GPU 3 {words.format('1 time in 24 h, by XID 94')}"

    def test_errors_end_where_the_gpu_fails_and_its_fault_goes_on(self):
        errors()
        gpu = a_gpu(index=3)
        xid(gpu, 10)
        assert states(15) == ["firing"]
        Posted.objects.create(gpu=gpu, spans=[], outages=[[ms(20), None, "gpu_lost", False]])

        assert states(30) == states(40) == ["resolved"]
        incident = Incident.objects.get()
        assert incident.ended_ms == ms(20)
        assert incident.resolution.startswith("the GPU can't work since")

    def test_what_ended_long_ago_is_no_new_incident_while_its_errors_are_a_day_old(self):
        errors()
        gpu = a_gpu(index=3)
        xid(gpu, 10)
        states(15)
        Posted.objects.create(gpu=gpu, spans=[], outages=[[ms(20), None, "gpu_lost", False]])

        looks = [states(minute) for minute in range(30, 10 * 60, 45)]

        assert looks == [["resolved"]] * len(looks)


@pytest.mark.parametrize(
    ("signs", "words"),
    [
        ([(0, 63)], "1 time in 24 h, by XID 63"),
        ([(0, None)], "1 time in 24 h, counted by the driver without an XID"),
        ([(0, 63), (0, None)], "1 time in 24 h, by XID 63"),
        (
            [(0, 63), (5, None)],
            "2 times in 24 h: 1 by XID 63, 1 counted by the driver without an XID",
        ),
        (
            [(0, 94), (0, 63), (5, 94), (10, 94), (DAY - 5, None)],
            "4 times in 24 h: 1 by XID 63 and XID 94, 2 by XID 94,"
            " 1 counted by the driver without an XID",
        ),
        ([(0, 63), (DAY, 63)], "2 times in 2 days, by XID 63"),
    ],
)
def test_each_five_minutes_with_errors_count_once_by_what_told_them(signs, words):
    troubles = tuple(Trouble(ms(minute), xid) for minute, xid in signs)

    assert Struggle(GPU(), troubles, (), Reset((), ())).errors == words


@pytest.mark.parametrize(
    ("scheduler", "drain"),
    [
        ("slurm", ": scontrol update nodename=gpu-01 state=drain reason='GPU memory errors'"),
        ("kubernetes", ": kubectl cordon -- gpu-01"),
        ("docker", "."),  # takes no node out of service
    ],
)
def test_the_node_is_drained_first_by_its_scheduler_and_then_the_gpu_is_reset(scheduler, drain):
    errors()
    gpu = a_gpu(index=3)
    answered = [(ms(0), ms(30))]
    SourceReport.objects.create(node=gpu.node, kind=scheduler, ok=True, asserted=answered)
    xid(gpu, 10)

    states(30)

    breach = newest()
    assert breach.actions == (
        f"Fix: take node gpu-01 out of service, so that no new job starts there{drain}",
        "Fix: once nothing runs on the GPU, reset it on gpu-01: nvidia-smi --gpu-reset -i 3",
        "Have the GPU replaced if this comes back.",
    )
    assert [step.code for step in steps(breach)[0]] == [
        drain.removeprefix(": ").removesuffix("."),
        "nvidia-smi --gpu-reset -i 3",
    ]


def test_what_was_evaluated_as_it_came_is_what_the_back_test_says():
    rule = errors(threshold=2, evaluated_ms=ms(0))
    gpu = a_gpu()
    minutes = {15: [12], 60: [58], 600: [599], 1800: [1700, 1790], 3300: [3299]}
    for minute in sorted({*minutes, *range(0, 5000, 90)}):
        for each in minutes.get(minute, ()):
            xid(gpu, each)
        hear(minute)
        evaluate(at(minute))

    trials = back_test(
        condition("gpu_memory_errors"), settings_of(rule), (), Interval(at(0), at(4950))
    ).trials

    live = Incident.objects.order_by("-since_ms")
    assert [(each.since_ms, each.fired_ms, each.ended_ms) for each in live] == [
        (trial.episode.since_ms, trial.episode.fired_ms, trial.episode.ended_ms) for trial in trials
    ]
    # 10 and 55 to 595 + a day, 1700 within a day of that; the last one is alone
    assert [each.since_ms for each in live] == [ms(1700), ms(55)]

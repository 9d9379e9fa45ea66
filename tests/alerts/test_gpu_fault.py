"""GPUs that can't work: told by their driver, judged by the ledger, never by silence."""

from decimal import Decimal

import pytest

from fleetwatch.alerts.back_test import back_test
from fleetwatch.alerts.breach import stored_breach
from fleetwatch.alerts.conditions import condition
from fleetwatch.alerts.messaging import announcing
from fleetwatch.alerts.models import Incident
from fleetwatch.alerts.services import evaluate, settings_of
from fleetwatch.inventory.models import GPU, Node
from fleetwatch.jobs.models import Allocation, Job
from fleetwatch.ledger.models import Posted
from fleetwatch.lib.intervals import Interval
from fleetwatch.notify.models import Delivery
from fleetwatch.notify.services import create_channel
from fleetwatch.telemetry.models import HealthEvent
from tests.alerts.factories import a_rule, at, ms
from tests.costs.factories import a_gpu, a_job, a_rate

pytestmark = pytest.mark.django_db


@pytest.fixture
def rule():
    return a_rule(name="GPU fault", condition="gpu_fault", minutes=2)


def broken(gpu: GPU, *outages: tuple) -> None:
    """From minute to minute (None: until now), why, and whether its activity ended it."""
    rows = [
        [ms(start), None if end is None else ms(end), reason, False]
        for start, end, reason in outages
    ]
    Posted.objects.update_or_create(gpu=gpu, defaults={"spans": [], "outages": rows})


def held_by(gpu: GPU, job: Job, start: float, end: float) -> None:
    asserted = [(ms(start), ms(end))]
    Allocation.objects.create(gpu=gpu, job=job, source="slurm", share=1.0, asserted=asserted)


def hear(minute: float) -> None:
    Node.objects.update(last_ms=ms(minute))


def states(minute: float, *, heard: float | None = None) -> list[str]:
    """What is open, the nodes being heard until that minute."""
    hear(minute if heard is None else heard)
    announcing.run(at(minute))
    return list(Incident.objects.order_by("pk").values_list("state", flat=True))


def newest():
    return stored_breach(Incident.objects.latest("pk").facts)


def test_it_fires_at_the_minute_that_the_rule_says(rule):
    broken(a_gpu(), (0, None, "xid_79"))

    assert states(1.9) == ["pending"]
    assert states(2) == states(2) == ["firing"]


def test_it_is_over_when_the_gpu_works_again(rule):
    gpu = a_gpu()
    broken(gpu, (0, None, "gpu_lost"))
    states(5)

    broken(gpu, (0, 6, "gpu_lost"))

    assert states(8) == ["resolved"]
    incident = Incident.objects.get()
    assert (incident.resolution, incident.ended_ms) == ("it works again", ms(6))


def test_it_says_whose_job_held_the_gpu_as_it_broke_and_that_nobody_owns_it(rule):
    create_channel("slack", "ops", {"webhook_url": "https://hooks.example/x"}, now=at(0))
    gpu = a_gpu()
    for key, start, end in (("slurm/della/6", -90, -30), ("slurm/della/7", -20, -1)):
        held = a_job(key=key, user="sofia", team="vision", start_ms=ms(start), end_ms=ms(end))
        held_by(gpu, held, start, end)
    broken(gpu, (0, None, "xid_79"))

    states(5)

    until = "which held it until 08:59 UTC, ended by the fault"
    who = f"sofia (vision), by job slurm/della/7, {until}"
    fields = dict(Delivery.objects.get().message["fields"])
    assert dict(newest().lines)["Held by"] == fields["Held by"] == who
    assert (newest().owner, "Owner" in fields) == ("", False)


def test_of_a_job_whose_end_nobody_told_it_says_no_end(rule):
    gpu = a_gpu()
    held_by(gpu, a_job(key="slurm/della/7", user="sofia", start_ms=ms(-20)), -20, 0)
    broken(gpu, (0, None, "xid_79"))

    states(5)

    who = "sofia (nlp), by job slurm/della/7, which held it as it broke"
    assert dict(newest().lines)["Held by"] == who


def test_while_it_goes_on_the_gpu_has_been_unable_to_work_and_then_had_been(rule):
    create_channel("slack", "ops", {"webhook_url": "https://hooks.example/x"}, now=at(0))
    gpu = a_gpu()
    broken(gpu, (0, None, "gpu_lost"))
    states(5)
    broken(gpu, (0, 6, "gpu_lost"))
    states(8)

    opened, over = (each.message["summary"] for each in Delivery.objects.order_by("pk"))
    assert " has been unable to work (" in opened
    assert opened.endswith(" for 5 m.")
    assert over.endswith("It had been unable to work for 6 m.")


def test_a_job_that_let_the_gpu_go_long_before_is_not_named(rule):
    gpu = a_gpu()
    held = a_job(key="slurm/della/6", user="sofia", start_ms=ms(-90), end_ms=ms(-30))
    held_by(gpu, held, -90, -30)
    broken(gpu, (0, None, "xid_79"))

    states(5)

    assert "Held by" not in dict(newest().lines)


def test_a_drained_node_is_no_fault(rule):
    broken(a_gpu(), (0, None, "drained"))

    assert states(30) == []


def test_an_outage_that_is_over_for_long_opens_nothing(rule):
    broken(a_gpu(), (-3000, -2990, "xid_79"))

    assert states(30) == []


def test_of_a_silent_node_nobody_knows(rule):
    broken(a_gpu(), (10, None, "xid_79"))

    assert states(60, heard=11) == ["pending"]


def test_two_reasons_at_once_are_one_incident(rule):
    broken(a_gpu(), (0, 10, "driver_missing"), (4, None, "xid_79"))

    assert states(20) == ["firing"]
    assert Incident.objects.get().since_ms == ms(0)


def test_a_retired_gpu_is_no_longer_seen(rule):
    broken(a_gpu(), (0, None, "xid_79"))
    states(5)

    GPU.objects.update(retired_ms=ms(5))

    assert states(6) == ["resolved"]


@pytest.mark.parametrize(
    ("reason", "wrong", "fix"),
    [
        ("xid_79", "XID 79: it has fallen off the bus", "sudo reboot"),
        ("xid_95", "the driver reported XID 95", "--gpu-reset -i 3"),
        ("gpu_lost", "the driver lost it", "sudo reboot"),
        ("driver_mismatch", "its node's driver and libraries are of different versions", "load"),
        ("new_<!here>\nreason", "new <!here> reason", "--gpu-reset -i 3"),
    ],
)
def test_it_says_what_is_wrong_what_it_costs_and_what_to_do(rule, reason, wrong, fix):
    gpu = a_gpu(index=3)
    a_rate("4", gpu=gpu)
    broken(gpu, (0, None, reason))

    states(30)

    breach = newest()
    assert dict(breach.lines) == {"What is wrong": wrong}
    assert breach.does == f"gpu-01 GPU 3 can't work ({wrong})"
    assert breach.what == f"gpu-01 GPU 3 could not work ({wrong})"
    assert fix in " ".join(breach.actions)
    assert breach.cost_usd == Decimal(2)
    assert breach.labels == {"node": ("gpu-01",), "model": ("H100 SXM",)}


def tell(gpu: GPU, *xids: tuple[float, int]) -> None:
    """XIDs of the GPU, each at a minute."""
    for minute, code in xids:
        HealthEvent.objects.create(node=gpu.node, gpu=gpu, kind="xid", code=code, at_ms=ms(minute))


def test_a_lost_gpu_is_reached_by_no_reset_but_by_a_reboot_of_its_node(rule):
    gpu = a_gpu(index=3)
    broken(gpu, (0, None, "gpu_lost"))
    tell(gpu, (-100, 63), (-40, 94), (0, 79))

    states(30)

    breach = newest()
    assert breach.does == "gpu-01 GPU 3 can't work (XID 79: it has fallen off the bus)"
    # without the XID that is the fault
    led = dict(breach.lines)["What led to it"]
    assert led == "XID 63 at 07:20 UTC, XID 94 at 08:20 UTC"
    assert "gpu-reset" not in " ".join(breach.actions)
    assert breach.codes == ("sudo reboot",)
    assert breach.actions[-1] == "Have the GPU replaced if this comes back."


def test_a_gpu_that_failed_so_before_is_to_be_replaced(rule):
    gpu = a_gpu()
    broken(gpu, (0, None, "xid_79"))
    tell(gpu, (-9 * 1440, 79), (-9 * 1440 + 5, 79), (0, 79))

    states(30)

    breach = newest()
    assert breach.actions[-1] == "Fix: have the GPU replaced: it is the second time in 9 days."
    assert dict(breach.lines)["Before"].startswith("XID 79 at Wed 11 Nov, 09:00 UTC")


@pytest.mark.parametrize("before", [(-15 * 1440, 79), (-9 * 1440, 63)])
def test_another_fault_and_one_of_long_ago_are_no_first_time(rule, before):
    gpu = a_gpu()
    broken(gpu, (0, None, "xid_79"))
    tell(gpu, before, (0, 79))

    states(30)

    assert newest().actions[-1] == "Have the GPU replaced if this comes back."


def test_without_a_rate_its_cost_is_unknown(rule):
    broken(a_gpu(), (0, None, "xid_79"))

    states(30)

    assert newest().cost_usd is None


def test_what_was_evaluated_each_minute_is_what_the_back_test_says(rule):
    gpu = a_gpu()
    spans = [(3, 4, "xid_95"), (10, 17, "gpu_lost"), (15, 25, "xid_79"), (40, None, "xid_79")]
    for minute in range(61):
        begun = [each for each in spans if each[0] <= minute]
        broken(
            gpu,
            *((start, end if end and end <= minute else None, why) for start, end, why in begun),
        )
        hear(minute)
        evaluate(at(minute))

    trials = back_test(
        condition("gpu_fault"), settings_of(rule), (), Interval(at(0), at(60))
    ).trials

    live = Incident.objects.order_by("-since_ms")
    assert [(each.since_ms, each.fired_ms) for each in live] == [
        (trial.episode.since_ms, trial.episode.fired_ms) for trial in trials
    ]
    assert [each.since_ms for each in live] == [ms(40), ms(10)]

"""What the page of a GPU's incident says of who held it, and of its other incidents."""

from datetime import timedelta

from fleetwatch.alerts.models import Incident, Rule
from fleetwatch.inventory.models import GPU
from fleetwatch.lib.intervals import HOUR_MS, to_ms
from tests.dashboard import factories
from tests.dashboard.factories import NOW
from tests.dashboard.shown_incidents import incident, text
from tests.markup import tight

AT_ELEVEN_MS = to_ms(NOW) - HOUR_MS


def of_gpu(gpu: GPU, condition: str, word: str, **fields) -> Incident:
    facts = {"kind": "gpu", "word": word, "owner": "", "labels": {"node": (gpu.node.name,)}}
    rule = Rule.objects.get(condition=condition)
    return incident(gpu.uuid, rule=rule, facts=facts, **fields)


def held_by_sofia(*, end_ms: int | None, hours: float = 3) -> GPU:
    gpu = factories.gpu(factories.node("h100-01"))
    job = factories.job("slurm/della/9", name="llm", user="sofia", end_ms=end_ms)
    factories.hold(gpu, job, hours_ago=3, hours=hours)
    return gpu


def test_a_hold_that_is_over_is_said_to_be_over_though_the_incident_goes_on(admin):
    gpu = held_by_sofia(end_ms=AT_ELEVEN_MS)

    page = tight(text(admin, f"/incidents/{of_gpu(gpu, 'gpu_memory_errors', 'memory errors').pk}"))

    assert "held it until" in page
    assert "holds it" not in page


def test_whose_job_a_fault_ended_is_told_though_nobody_holds_the_gpu_since(admin):
    gpu = held_by_sofia(end_ms=AT_ELEVEN_MS, hours=2)
    since = {"since_ms": AT_ELEVEN_MS, "until_ms": to_ms(NOW)}
    lost = of_gpu(gpu, "gpu_fault", "faulty", **since)

    page = tight(text(admin, f"/incidents/{lost.pk}"))

    assert "a line marks the fault, shaded is the time in which the GPU could not work" in page
    assert f"marked=unavailable&amp;within={AT_ELEVEN_MS}-{to_ms(NOW)}" in page
    assert "which held it until Fri 20 Nov, 11:00" in page
    assert "ended by the fault, the run had cost" not in page  # nothing of it was posted


def test_what_the_run_that_a_fault_ended_had_cost_is_told(admin):
    """Two hours at $2 an hour; a job that ended an hour before a fault was not ended by it."""
    factories.rate("2.00")
    gpu = factories.gpu(factories.node("h100-01"))
    start_ms = AT_ELEVEN_MS - 2 * HOUR_MS
    job = factories.job("slurm/della/9", start_ms=start_ms, end_ms=AT_ELEVEN_MS)
    factories.hold(gpu, job, hours_ago=3, hours=2)
    for hours_ago in (3, 2):
        factories.entry(gpu, hours_ago=hours_ago, held_by=job).save()
    lost = of_gpu(gpu, "gpu_fault", "faulty", since_ms=AT_ELEVEN_MS, until_ms=to_ms(NOW))

    page = tight(text(admin, f"/incidents/{lost.pk}"))

    assert "ended by the fault, the run had cost" in page
    assert "$4.00" in page.partition("the run had cost")[2][:80]


def test_a_hold_that_goes_on_is_said_to_go_on(admin):
    gpu = held_by_sofia(end_ms=None)
    GPU.objects.update(last_ms=to_ms(NOW))

    page = tight(text(admin, f"/incidents/{of_gpu(gpu, 'gpu_memory_errors', 'memory errors').pk}"))

    assert "holds it" in page
    assert "until" not in page.partition("Held by")[2].partition("</dd>")[0]


def test_incidents_of_one_gpu_at_one_time_lead_to_each_other(admin):
    gpu = factories.gpu(factories.node("h100-01"))
    errors = of_gpu(gpu, "gpu_memory_errors", "memory errors")
    lost = of_gpu(gpu, "gpu_fault", "faulty")
    long_ago = NOW - timedelta(days=2)
    of_gpu(gpu, "gpu_slowed", "slowed", opened_at=long_ago, resolved_at=long_ago)

    for this, other, word in ((errors, lost, "Faulty"), (lost, errors, "Memory errors")):
        page = tight(text(admin, f"/incidents/{this.pk}"))
        same = page.partition("<dt>Same GPU</dt>")[2].partition("</dd>")[0]
        assert f'href="/incidents/{other.pk}">{word}</a>' in same
        assert same.count("<a") == 1


def test_of_one_event_that_was_opened_again_and_again_the_first_is_named(admin):
    gpu = factories.gpu(factories.node("h100-01"))
    lost = of_gpu(gpu, "gpu_fault", "faulty")
    for _ in range(3):
        of_gpu(gpu, "gpu_memory_errors", "memory errors", resolved_at=NOW)

    page = tight(text(admin, f"/incidents/{lost.pk}"))

    assert page.partition("<dt>Same GPU</dt>")[2].partition("</dd>")[0].count("<a") == 1

"""What a finding and its job are drawn beside: an hour that went well, and whose it is."""

import pytest

from fleetwatch.accounts.visibility import NOBODY, Sight, seeing
from fleetwatch.dashboard.drawing.references import other_model, reference, well_reading
from fleetwatch.diagnosis.findings.evidence import evidence
from fleetwatch.diagnosis.findings.well_hours import well_hours
from fleetwatch.inventory.models import GPU, GPUModel
from fleetwatch.jobs.models import Job
from fleetwatch.lib.intervals import HOUR_MS, floor_hour_ms, from_ms
from tests.dashboard import factories
from tests.dashboard.starved_jobs import traces
from tests.diagnosis import told
from tests.ledger.fleet import T0, Sender, post
from tests.markup import tight

pytestmark = [pytest.mark.django_db]


@pytest.mark.parametrize("whose", ["own", "earlier run's", "another job's"])
def test_beside_it_stands_the_newest_hour_in_which_the_job_or_an_earlier_run_worked_well(
    client, starved, whose
):
    job = Job.objects.get()
    name = "train" if whose == "earlier run's" else "test"
    other = factories.job("slurm/della/6", name=name, team="", start_ms=T0 - HOUR_MS)
    on = GPU.objects.get()
    well = Sender(boot_id="boot-2").batch(T0 - HOUR_MS, *[{"util_mean": 0.97}] * 60)
    post(well)
    told.cause("healthy", of=job if whose == "own" else other, on=on, start=from_ms(T0 - HOUR_MS))

    drawn = traces(client, starved)

    beside = [trace for name, trace in drawn.items() if name.startswith("when well")]
    assert len(beside) == (whose != "another job's")
    for trace in beside:
        assert trace["name"] == "when well, 20 Nov 05:00"
        assert {value for value in trace["y"] if value is not None} == {0.97}
        assert len(trace["y"]) == len(drawn["utilisation"]["y"])


def test_its_jobs_page_has_the_same_hour_beside_its_curves(client, starved):
    job = Job.objects.get()
    gpu = GPU.objects.get()
    post(Sender(boot_id="boot-2").batch(T0 - HOUR_MS, *[{"util_mean": 0.97}] * 60))
    told.cause("healthy", of=job, on=gpu, start=from_ms(T0 - HOUR_MS))

    page = " ".join(tight(client.get(f"/jobs/{job.key}").content.decode()).split())
    figure = client.get(f"/charts/job?job={job.key}&gpu={gpu.uuid}&from=now-24h&to=now").json()

    said = "Dashed, to compare with: this job when it went well, Fri 20 Nov, 05:00:<b>97 %</b>busy."
    assert said in page
    assert f'href="/findings/{starved.pk}">What was measured of “waits for its input”</a>' in page
    [line] = [each for each in figure["data"] if each.get("name") == "when well, 20 Nov 05:00"]
    assert set(line["y"]) == {0.97}


OTHERS = [
    ({"name": "train", "user": "bob"}, "train of bob on H100 SXM, when it went well"),
    ({"name": "test", "user": "ann"}, "test of ann on H100 SXM, when it went well"),
    ({"name": "x", "user": "bob"}, "x of bob on the same GPU model, H100 SXM, when it went well"),
]


@pytest.fixture
def well(starved):
    """Says that a job with these facts worked well for an hour, on the GPU of the starved one."""

    def say(hours_before: int = 1, **facts) -> Job:
        start_ms = T0 - hours_before * HOUR_MS
        job = factories.job(f"slurm/della/{90 + hours_before}", team="", start_ms=start_ms, **facts)
        post(
            Sender(boot_id=f"boot-{90 + hours_before}").batch(start_ms, *[{"util_mean": 0.97}] * 60)
        )
        told.cause("healthy", of=job, on=GPU.objects.get(), start=from_ms(start_ms))
        return job

    return say


@pytest.mark.parametrize(("facts", "words"), OTHERS)
def test_without_a_good_hour_of_its_own_the_nearest_other_jobs_is_beside_it(
    client, starved, well, facts, words
):
    well(**facts)

    drawn = traces(client, starved)
    page = tight(client.get(f"/findings/{starved.pk}").content.decode())

    beside = drawn["another job when well, 20 Nov 05:00"]
    assert {value for value in beside["y"] if value is not None} == {0.97}
    assert f"Beside it: {words}" in page
    assert "<b>97 %</b>" in page


def test_a_job_of_its_owner_is_nearer_than_a_newer_one_on_the_same_model(client, starved, well):
    well(hours_before=2, name="test", user="ann")
    well(hours_before=1, name="x", user="bob")

    assert "test of ann" in tight(client.get(f"/findings/{starved.pk}").content.decode())


def test_of_a_job_with_a_finding_about_that_time_it_is_one_gpu_that_went_well(
    client, starved, well
):
    half_used = well(name="x", user="bob")
    told.finding(half_used, "partial_idle", first_ms=T0 - 2 * HOUR_MS, last_ms=T0)

    page = tight(client.get(f"/findings/{starved.pk}").content.decode())

    assert "Beside it: GPU 0 of x of bob on the same GPU model, H100 SXM" in page
    assert "went well" not in page
    assert "a GPU of another job, 20 Nov 05:00" in traces(client, starved)


def test_a_job_without_a_finding_is_nearer_than_a_newer_and_alike_one_with_one(
    client, starved, well
):
    well(hours_before=2, name="x", user="bob")
    alike = well(hours_before=1, name="test", user="ann")
    told.finding(alike, "partial_idle", first_ms=T0 - 2 * HOUR_MS, last_ms=T0)

    page = tight(client.get(f"/findings/{starved.pk}").content.decode())

    assert "Beside it: x of bob on the same GPU model, H100 SXM, when it went well" in page


def test_its_own_hour_in_which_it_had_a_finding_is_called_one_gpu_of_it(client, starved):
    job = Job.objects.get()
    post(Sender(boot_id="boot-2").batch(T0 - HOUR_MS, *[{"util_mean": 0.97}] * 60))
    told.cause("healthy", of=job, on=GPU.objects.get(), start=from_ms(T0 - HOUR_MS))
    told.finding(job, "partial_idle", first_ms=T0 - 2 * HOUR_MS, last_ms=T0)

    page = " ".join(tight(client.get(f"/jobs/{job.key}").content.decode()).split())

    assert "Dashed, to compare with: GPU 0 of this job, Fri 20 Nov, 05:00:<b>97 %</b>busy." in page


@pytest.mark.parametrize(("kind", "whose"), [("batch", []), ("service", ["model"])])
def test_a_service_is_compared_with_services_on_its_gpu_model_alone(starved, well, kind, whose):
    well(name="x", user="bob", kind=kind)
    Job.objects.filter(pk=starved.job_id).update(kind="service")
    service = Job.objects.get(pk=starved.job_id)

    hours = list(well_hours(service, GPU.objects.get(), last_ms=starved.last_ms))

    assert [hour.whose for hour in hours] == whose


def test_of_a_job_that_the_reader_does_not_see_neither_name_nor_time_is_told(starved, well):
    well(name="x", user="bob")

    nobodys = Sight(NOBODY, frozenset(), (), with_pseudonyms=False)
    with seeing(lambda: nobodys):
        shown = reference(starved, evidence(starved.its_job, starved.cause))

    assert shown.words == "another job on the same GPU model, H100 SXM, when it went well"
    assert shown.at_ms is None
    assert shown.mean == pytest.approx(0.97)


@pytest.mark.parametrize("days", [30, 31])
def test_of_other_jobs_an_hour_of_the_last_30_days_counts(starved, days):
    other = factories.job("slurm/della/6", name="x", user="bob", team="")
    start = from_ms(floor_hour_ms(starved.last_ms) - days * 24 * HOUR_MS)
    told.cause("healthy", of=other, on=GPU.objects.get(), start=start)

    hours = list(well_hours(starved.its_job, GPU.objects.get(), last_ms=starved.last_ms))

    assert [hour.whose for hour in hours] == (["model"] if days == 30 else [])


def test_where_nothing_went_well_the_page_says_that(client, starved):
    page = tight(client.get(f"/findings/{starved.pk}").content.decode())

    assert "Nothing to compare with: neither this job" in page
    assert "Beside it" not in page


def test_what_goes_well_is_looked_for_in_a_few_queries(
    starved, well, django_assert_max_num_queries
):
    gpu = GPU.objects.select_related("model").get()

    with django_assert_max_num_queries(13):  # each kind twice
        assert list(well_hours(starved.its_job, gpu, last_ms=starved.last_ms)) == []


def test_what_went_well_on_another_gpu_model_says_which_in_the_legend(client, starved, well):
    well(name="train", user="bob")
    other = GPUModel.objects.create(name="A100-80 SXM")
    seen = GPU.objects.get()

    reading = well_reading(starved, seen)

    assert other_model(reading, seen) == ""
    assert other_model(reading, GPU(model=other)) == " on H100 SXM"


def test_beside_it_stands_a_job_of_its_owner_on_the_same_model_before_one_on_another(starved):
    other = GPUModel.objects.create(name="A100-80 SXM")
    of_other = factories.gpu(factories.node("node-009"), model=other)
    for name, on in (("newer", of_other), ("older", GPU.objects.exclude(model=other).get())):
        hours = 1 if name == "newer" else 2
        start_ms = T0 - hours * HOUR_MS
        facts = {"name": name, "user": "ann", "team": "", "start_ms": start_ms}
        job = factories.job(f"slurm/della/{name}", **facts)
        told.cause("healthy", of=job, on=on, start=from_ms(start_ms))
    gpu = GPU.objects.exclude(model=other).get()

    hours = list(well_hours(starved.its_job, gpu, last_ms=starved.last_ms))

    assert [(hour.job.name, hour.whose) for hour in hours] == [
        ("older", "alike"),
        ("older", "model"),
        ("newer", "alike"),
    ]

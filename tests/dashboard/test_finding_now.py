"""What a finding's page says of this moment: what its job burns, and which incident fires of it."""

import re
from datetime import timedelta

import pytest

from fleetwatch.jobs.models import Job
from fleetwatch.lib.intervals import HOUR_MS, to_ms
from tests.dashboard import factories
from tests.dashboard.factories import NOW
from tests.dashboard.shown_incidents import incident
from tests.diagnosis.told import cause, finding
from tests.markup import tight

pytestmark = pytest.mark.django_db


@pytest.fixture
def found():
    """An idle GPU of $2.40 an hour in the last three hours."""
    factories.rate("2.40")
    gpu = factories.gpu(factories.node())
    job = factories.job("slurm/della/7")
    for hours_ago in (1, 2, 3):
        factories.entry(gpu, hours_ago=hours_ago, state="idle", held_by=job, tier="certain").save()
    cause(of=job, on=gpu, start=NOW - timedelta(hours=3))
    return finding(job, first_ms=to_ms(NOW) - 3 * HOUR_MS, last_ms=to_ms(NOW))


def words_of(client, address: str) -> str:
    page = tight(client.get(address).content.decode())
    return " ".join(re.sub("<[^>]*>", " ", page).split())


def test_while_its_job_runs_it_says_what_the_last_hour_cost(admin, found):
    page = words_of(admin, f"/findings/{found.pk}")

    assert "Now: $2.40 in the last hour, $2.40 of it wasted." in page
    assert "Ending it saves $2.40 /h could have been saved so far:" in page


def test_the_inbox_says_of_the_last_hour_what_the_findings_page_says_before_all_is_judged(
    admin, found
):
    """Of the hour's 60 minutes 54 are diagnosed."""
    cause(of=found.job, on=found.job.causes.get().gpu, start=NOW - timedelta(hours=1), hours=0.9)

    inbox = words_of(admin, "/findings?when=now")
    assert "wasting now, $2.40 /h" in inbox
    assert "in all" not in inbox.split("wasting now")[1][:20]
    assert "$2.40 of it wasted" in words_of(admin, f"/findings/{found.pk}")


def test_two_causes_of_a_job_share_what_it_wasted_in_the_last_hour(admin, found):
    start, on = NOW - timedelta(hours=1), found.job.causes.get().gpu
    cause(of=found.job, on=on, start=start, hours=0.6)
    cause("data_starved", of=found.job, on=on, start=start, hours=0.3)
    finding(found.job, "data_starved", last_ms=to_ms(NOW))

    page = words_of(admin, "/findings?when=now")

    assert "wasting now, $1.60 /h of $2.40 in all" in page
    assert "wasting now, $0.80 /h of $2.40 in all" in page


def test_its_jobs_page_says_first_what_ending_it_saves(admin, found):
    page = words_of(admin, f"/jobs/{found.job.key}")

    assert "$2.40 /h if ended now" in page
    assert "could have been saved so far" in page
    assert "so far, by this alone" not in page


def test_what_of_the_last_hour_a_service_waited_is_told_beside_what_it_wasted(admin):
    factories.rate("2.40")
    gpu = factories.gpu(factories.node())
    job = factories.job("slurm/della/8", kind="service")
    waiting = {"state": "stalled", "tier": "potential"}
    factories.entry(gpu, hours_ago=1, held_by=job, **waiting).save()
    cause("bursty_service", of=job, on=gpu, start=NOW - timedelta(hours=1))
    of_service = finding(job, "bursty_service", last_ms=to_ms(NOW))

    page = words_of(admin, f"/findings/{of_service.pk}")

    assert "Now: $2.40 in the last hour, $0.00 of it wasted, $2.40 waiting." in page


def test_ending_a_job_saves_until_its_time_limit_ends_it(admin, found):
    start_ms = to_ms(NOW) - 3 * HOUR_MS
    Job.objects.update(start_ms=start_ms, labels={"time_limit_minutes": "1440"})

    page = words_of(admin, f"/findings/{found.pk}")

    assert "Ending it saves $2.40 /h until its time limit ends it, Sat 21 Nov, 09:00" in page


def test_of_a_job_that_is_over_nothing_burns(admin, found):
    Job.objects.update(state="COMPLETED", end_ms=to_ms(NOW))

    assert "in the last hour" not in words_of(admin, f"/findings/{found.pk}")


def test_of_a_job_that_is_over_it_says_what_could_have_been_saved(admin, found):
    assert "Could have been saved" not in words_of(admin, f"/findings/{found.pk}")
    Job.objects.update(state="COMPLETED", end_ms=to_ms(NOW))

    page = words_of(admin, f"/findings/{found.pk}")

    assert "Could have been saved" in page
    assert "had it ended at once" in page
    assert "free for others at once" not in page


def test_an_incident_that_fires_of_the_same_job_is_one_step_away(admin, found):
    firing = incident("slurm/della/7")
    over = incident("slurm/della/7", state="resolved", ended_ms=to_ms(NOW))
    of_another = incident("slurm/della/8")

    page = admin.get(f"/findings/{found.pk}").content.decode()

    assert f'href="/incidents/{firing.pk}"' in page
    assert f'href="/incidents/{over.pk}"' not in page
    assert f'href="/incidents/{of_another.pk}"' not in page

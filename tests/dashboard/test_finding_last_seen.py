"""Until when a finding was seen: one moment, in the inbox, on its page and on its job's."""

from datetime import timedelta

import pytest

from fleetwatch.alerts.models import Silence
from fleetwatch.diagnosis.models import Finding
from fleetwatch.lib.intervals import HOUR_MS, to_ms
from tests.diagnosis.told import DAY, NOW, cause, finding, gpu, job, rate
from tests.markup import in_text, tight

pytestmark = pytest.mark.django_db
INBOX = "/findings?status=dismissed&from=now-24h&to=now"


@pytest.fixture
def held(db) -> Finding:
    """Agreed as not waste: of its last two hours nothing could be saved."""
    rate()
    run = job("slurm/della/1", end_ms=None)
    cause(of=run, start=NOW - timedelta(hours=3))
    for hours_ago in (2, 1):
        cause(of=run, start=NOW - timedelta(hours=hours_ago), low=0, high=0)
    Silence.objects.create(
        kind="exemption",
        matchers=[{"label": "user", "values": ["ann"], "is_not": False}],
        starts_at=NOW - DAY,
        ends_at=NOW + DAY,
        reason="a warm replica",
        created_at=NOW - DAY,
    )
    start_ms = to_ms(NOW) - 3 * HOUR_MS
    return finding(run, first_ms=start_ms, last_ms=start_ms + HOUR_MS)


def shown(client, address: str) -> str:
    return in_text(tight(client.get(address).content.decode()))


@pytest.mark.parametrize("grouping", ["", "&group_by=finding"])
def test_a_row_says_the_same_moment_as_its_page_though_nothing_could_be_saved_lately(
    admin, held, grouping
):
    assert "last seen Fri 20 Nov, 12:00" in shown(admin, f"{INBOX}{grouping}")
    assert "to Fri 20 Nov, 12:00" in shown(admin, f"/findings/{held.pk}")


def test_a_compact_row_says_that_moment_too(admin, held):
    compact = shown(admin, f"{INBOX}&view=compact").partition("Last seen")[2]

    assert "Fri 20 Nov, 12:00" in compact


def test_a_jobs_page_says_of_each_of_its_findings_that_moment(admin, held):
    cause("small_batch", of=held.job, on=gpu(1), start=NOW - timedelta(hours=3))
    other = finding(held.job, "small_batch", first_ms=held.first_ms, last_ms=held.last_ms)

    of_job = shown(admin, "/jobs/slurm/della/1")
    beside = shown(admin, f"/findings/{other.pk}").partition("Other findings of this job")[2]

    assert "seen Fri 20 Nov, 09:00 to Fri 20 Nov, 12:00" in of_job
    assert "seen Fri 20 Nov, 09:00 to Fri 20 Nov, 10:00" in of_job
    assert "to Fri 20 Nov, 12:00" in beside


def test_a_finding_is_not_seen_after_its_job_ended(admin, held):
    held.job.end_ms = to_ms(NOW) - HOUR_MS // 2
    held.job.save(update_fields=["end_ms"])

    assert "last seen Fri 20 Nov, 11:30" in shown(admin, INBOX)


def test_of_several_gpus_the_one_that_was_seen_last_counts(admin, held):
    held.job.causes.filter(start=NOW - timedelta(hours=1)).update(cells=0b1)
    cause(of=held.job, on=gpu(1), start=NOW - timedelta(hours=1), low=0, high=0)
    held.job.causes.filter(gpu__index=1).update(cells=0b111)

    assert "last seen Fri 20 Nov, 11:15" in shown(admin, INBOX)

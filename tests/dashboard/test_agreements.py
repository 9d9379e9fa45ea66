"""What people agreed on stands first on the pages of a job and its finding; what ends the job comes
behind it.
"""

from datetime import timedelta

import pytest

from fleetwatch.alerts.models import IncidentEvent
from fleetwatch.diagnosis.findings.deciding import Decision, decide
from fleetwatch.jobs.models import Job
from fleetwatch.lib.intervals import HOUR_MS, to_ms
from tests.dashboard import factories
from tests.dashboard.factories import NOW
from tests.dashboard.shown_incidents import admin_user, incident
from tests.diagnosis.told import cause, finding
from tests.markup import in_text, tight

pytestmark = pytest.mark.django_db
JOB = "/jobs/slurm/della/7"
BEHIND = "<summary>If it is no longer wanted</summary>"
ENDING = "scancel 7"


@pytest.fixture
def idle():
    """An idle job that runs, with the finding that says to end it."""
    factories.rate("2.40")
    gpu = factories.gpu(factories.node())
    job = factories.job("slurm/della/7", external_id="7", scheduler="slurm")
    for hours_ago in (1, 2, 3):
        factories.entry(gpu, hours_ago=hours_ago, state="idle", held_by=job, tier="certain").save()
    cause(of=job, on=gpu, start=NOW - timedelta(hours=3))
    return finding(job, first_ms=to_ms(NOW) - 3 * HOUR_MS, last_ms=to_ms(NOW))


def page(client, address: str) -> str:
    return tight(client.get(address).content.decode())


def addresses(of) -> tuple[str, str]:
    return JOB, f"/findings/{of.pk}"


def test_without_an_agreement_what_to_do_stands_open(admin, idle):
    for address in addresses(idle):
        shown = page(admin, address)

        assert ENDING in shown
        assert BEHIND not in shown
        assert "agreed</span>" not in shown


def test_an_accepted_incident_opens_both_pages_and_the_command_stands_behind_it(admin, idle):
    muted = "accepted until 6 Dec 2026, 09:49 UTC: a workshop"
    accepted = incident(idle.job.key, muted=muted)
    IncidentEvent.objects.create(
        incident=accepted, at=NOW, kind="not_waste", text="not waste", by=admin_user()
    )

    for address in addresses(idle):
        shown = page(admin, address)

        agreed = "Accepted until 6 Dec 2026, 09:49 UTC : a workshop by ann, Fri 20 Nov, 12:00"
        assert agreed in in_text(shown).replace("UTC:", "UTC :")
        assert shown.index("a workshop") < shown.index(BEHIND) < shown.index(ENDING)
        assert "Ending it saves" not in shown


@pytest.mark.parametrize(
    ("decision", "what"),
    [
        (Decision("accept", "I end it tonight"), "Accepted, until it is marked fixed"),
        (Decision("dismiss", "the hot spare"), "Not waste, until somebody reopens it"),
        (Decision("snooze", "later", until=NOW + timedelta(days=7)), "Snoozed until"),
    ],
)
def test_a_decided_finding_opens_with_who_decided_and_why(admin, idle, decision, what):
    decide(idle.pk, decision, by=admin_user(), now=NOW)

    shown = page(admin, f"/findings/{idle.pk}")

    assert what in in_text(shown)
    assert shown.index(decision.note) < shown.index(BEHIND)


def test_of_a_job_that_is_over_nothing_is_wanted_any_more(admin, idle):
    decide(idle.pk, Decision("dismiss", "the hot spare"), by=admin_user(), now=NOW)
    Job.objects.update(state="COMPLETED", end_ms=to_ms(NOW))

    assert "<summary>If it is to change</summary>" in page(admin, f"/findings/{idle.pk}")

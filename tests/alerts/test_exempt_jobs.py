"""Findings that an operator approved: which they are, and until when."""

from datetime import timedelta

import pytest

from fleetwatch.accounts.models import Team, User
from fleetwatch.alerts.exempt_jobs import exempt
from fleetwatch.alerts.matchers import Matcher, checked
from fleetwatch.alerts.models import Silence
from fleetwatch.alerts.silences import SilenceTerms, add_silence
from fleetwatch.jobs.models import Job
from tests.dashboard.factories import hold
from tests.diagnosis.told import NOW, gpu, job

pytestmark = pytest.mark.django_db
HOUR = timedelta(hours=1)
CAUSE = "bursty_service"


@pytest.fixture
def api() -> Job:
    serving = Team.objects.create(slug="serving", name="Serving")
    return job("slurm/della/1", name="rerank-api", user="svc", kind="service", team=serving)


def approved(*matchers: Matcher, starts_at=NOW, ends_at=NOW + HOUR, kind="exemption") -> None:
    terms = SilenceTerms(
        kind=kind, matchers=matchers, starts_at=starts_at, ends_at=ends_at, reason="agreed"
    )
    olga, _ = User.objects.get_or_create(username="olga", defaults={"role": "operator"})
    add_silence(terms, by=olga, now=starts_at)


def is_exempt(of: Job, now=NOW) -> bool:
    return (of.pk, CAUSE) in exempt([(of.pk, CAUSE)], now)


@pytest.mark.parametrize(
    ("matcher", "holds"),
    [
        (Matcher("name", ("rerank-api",)), True),
        (Matcher("name", ("rerank-*",)), True),
        (Matcher("name", ("chat-api",)), False),
        (Matcher("team", ("serving",)), True),
        (Matcher("team", ("nlp",)), False),
        (Matcher("user", ("svc",), is_not=True), False),
        (Matcher("kind", ("batch",), is_not=True), True),
        (Matcher("cause", (CAUSE,)), True),
        (Matcher("cause", ("hung",)), False),
        (Matcher("subject", ("slurm/della/1",)), True),
        (Matcher("node", ("n1",)), True),
        (Matcher("node", ("n2",)), False),
        (Matcher("model", ("H100 SXM",)), True),
        # of one rule alone: the finding is none of it
        (Matcher("rule", ("Job idle",)), False),
    ],
)
def test_a_finding_is_exempt_where_its_job_and_cause_match(api, matcher, holds):
    hold(gpu(), api, hours_ago=2, hours=2, now=NOW)
    approved(matcher)

    assert is_exempt(api) == holds


def test_all_that_the_exemption_asks_must_hold(api):
    approved(Matcher("name", ("rerank-api",)), Matcher("team", ("nlp",)))

    assert not is_exempt(api)


def test_it_holds_from_its_start_until_its_end(api):
    approved(Matcher("name", ("rerank-api",)))

    seconds = timedelta(seconds=1)
    moments = [NOW - seconds, NOW, NOW + HOUR - seconds, NOW + HOUR]
    assert [is_exempt(api, now) for now in moments] == [False, True, True, False]


def test_of_several_the_one_that_lasts_longest_is_told(api):
    for hours in (1, 3, 2):
        approved(Matcher("name", ("rerank-api",)), ends_at=NOW + hours * HOUR)

    assert exempt([(api.pk, CAUSE)], NOW)[api.pk, CAUSE].ends_at == NOW + 3 * HOUR


@pytest.mark.parametrize("kind", ["silence", "maintenance"])
def test_what_is_only_silenced_is_to_be_saved_all_the_same(api, kind):
    approved(Matcher("name", ("rerank-api",)), kind=kind)

    assert not is_exempt(api)


def accepted(rule: str, subject: str) -> None:
    """As an incident of the rule about that is said to be no waste."""
    matchers = [Matcher("rule", (rule,)), Matcher("subject", (subject,))]
    Silence.objects.create(
        kind=Silence.Kind.JUSTIFICATION,
        matchers=checked(matchers),
        starts_at=NOW,
        ends_at=NOW + HOUR,
        reason="a workshop",
        created_at=NOW,
    )


@pytest.mark.parametrize(
    ("rule", "cause", "holds"),
    [
        ("Job idle", "idle_held", True),
        ("Job idle", "hung", False),
        ("Job hung", "hung", True),
        ("Spinning near idle power", "hung", True),
        ("Stalled share", "data_starved", True),
        ("Stalled share", "idle_held", False),
        ("Underused for hours", "no_tensor_cores", True),
        ("Low utilisation", "small_batch", True),
        ("Node silent", "idle_held", False),
    ],
)
def test_what_was_said_of_an_incident_holds_of_the_findings_of_its_kind(api, rule, cause, holds):
    accepted(rule, api.key)

    assert ((api.pk, cause) in exempt([(api.pk, cause)], NOW)) == holds


def test_what_was_said_of_another_jobs_incident_does_not(api):
    accepted("Job idle", "slurm/della/2")

    assert exempt([(api.pk, "idle_held")], NOW) == {}


def test_one_that_names_a_job_does_not_hide_one_that_names_none(api):
    """The first asks a job's row for its name, the second for a pattern, which no row is asked."""
    other = job("slurm/della/2", name="chat-api", user="svc", kind="service")
    approved(Matcher("name", ("chat-api",)))
    approved(Matcher("name", ("rerank-*",)))

    assert is_exempt(api)
    assert is_exempt(other)

"""What there is to be looked at: every page by name."""

from datetime import UTC, datetime, timedelta

import pytest

from fleetwatch.accounts import people
from fleetwatch.accounts.models import User
from fleetwatch.alerts.models import Incident, Rule
from fleetwatch.diagnosis.models import Finding
from fleetwatch.finance import trial_runs
from fleetwatch.finance.invoices import import_invoice
from fleetwatch.inventory.models import GPU
from fleetwatch.jobs.job_links import add_link
from fleetwatch.jobs.models import Job
from fleetwatch.ledger.selectors import newest_policy
from fleetwatch.lib.intervals import HOUR_MS, Interval, to_ms
from fleetwatch.notify.models import Delivery
from fleetwatch.reports import digest
from fleetwatch.reports.services import compute_weekly_digests
from tests.actions.factories import a_policy
from tests.alerts.people import route
from tests.browser.conftest import browser, live_server, site, small_site, static_root  # noqa: F401
from tests.browser.sites import PAGES
from tests.diagnosis import told
from tests.notify.factories import email_channel, queue
from tests.reports import factories as reports

HOUR = timedelta(hours=1)


@pytest.fixture
def addresses(site) -> dict[str, str]:  # noqa: F811
    """Every page by name, those of rows by one that there is, with what a hub has in use: findings,
    a channel and its route, a policy that acts, a trial, an invoice, a digest and its mail.
    """
    now = datetime.now(UTC).replace(minute=0, second=0, microsecond=0)
    rule = Rule.objects.get(condition="job_idle")
    policy = a_policy(rule)
    channel = email_channel(25)
    route("operators", channel)
    queue(channel, now=now)
    add_link("Logs", "https://logs.example/{job_id}")
    return (
        PAGES
        | {
            "rule": f"/alerts/rules/{rule.pk}?days=30",
            "policy": f"/alerts/actions/{policy.pk}?days=30",
            "incident": f"/incidents/{Incident.objects.latest('pk').pk}",
            "finding": f"/findings/{finding_of_a_job(now).pk}",
            "finding-machine": f"/findings/{finding_of_a_machine(now).pk}",
            "explain": "/explain",
            "person": f"/settings/people/{User.objects.latest('pk').pk}",
            "policy-trial": f"/settings/policy/trials/{policy_trial(now)}",
            "message-mail": f"/settings/channels/messages/{Delivery.objects.latest('pk').pk}",
        }
        | of_reports(now)
    )


def finding_of_a_job(now: datetime) -> Finding:
    wasted = Job.objects.get(key="slurm/della/1000")
    on = GPU.objects.get(uuid="GPU-node-001-0")
    for hours in (2, 3):
        told.cause(of=wasted, on=on, start=now - timedelta(hours=hours))
    seen_ms = to_ms(now)
    return told.finding(wasted, first_ms=seen_ms - 3 * HOUR_MS, last_ms=seen_ms - HOUR_MS)


def finding_of_a_machine(now: datetime) -> Finding:
    on = GPU.objects.get(uuid="GPU-node-002-0")
    for hours in (2, 3):
        told.capacity("gpu_fault", on=on, start=now - timedelta(hours=hours))
    seen = {"first_ms": to_ms(now) - 3 * HOUR_MS, "last_ms": to_ms(now)}
    return told.place("gpu_fault", node=on.node, **seen)


def policy_trial(now: datetime) -> int:
    """One that is over."""
    hours = Interval(now - 3 * HOUR, now)
    asked = trial_runs.ask(newest_policy(), {"idle_batch_s": 300.0}, hours, by="ann", now=now)
    trial_runs.advance(now)
    return asked.pk


def of_reports(now: datetime) -> dict[str, str]:
    """A team's statement, the fleet's report, its digest and the mail of that, the month's invoice."""
    compute_weekly_digests(monday_after(now - 2 * HOUR))
    month = f"{now - 48 * HOUR:%Y-%m}"
    import_invoice(b"gpu_model,gpu_hours,amount\nH100 SXM,4,18\n", month, now=now)
    weekly = reports.newest(kind=digest.FLEET).pk
    return {
        "report": f"/reports/{reports.newest().pk}",
        "report-print": f"/reports/{reports.newest('nlp-research').pk}/print",
        "digest": f"/reports/{weekly}",
        "digest-mail": f"/reports/{weekly}/mail",
        "invoice": f"/reports/{month}/invoice",
    }


def monday_after(last_hour: datetime) -> datetime:
    """Its noon: the digest that is due then has the site's last whole hours in its week, also where
    the week has just begun.
    """
    return last_hour.replace(hour=12) + timedelta(days=7 - last_hour.weekday())


@pytest.fixture
def of_strangers(site) -> dict[str, str]:  # noqa: F811
    """Pages by name that somebody sees who is not logged in."""
    admin = User.objects.earliest("pk")
    invited = people.Invited("engineer", "vera@people.example")
    secret = people.invite(invited, by=admin, now=datetime.now(UTC))
    return {
        "log-in": "/accounts/login/",
        "invitation": f"/accounts/invitations/{secret}/",
    }

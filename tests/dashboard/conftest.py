import pytest
import time_machine
from django.test import Client

from fleetwatch.accounts.models import AuditEntry
from fleetwatch.alerts.models import Rule
from fleetwatch.ledger.models import Entry
from tests.dashboard import factories
from tests.dashboard.starved_jobs import a_starved_job
from tests.ledger.fleet import NOW
from tests.notify.factories import slack_channel


@pytest.fixture(autouse=True)
def _quick(plain_static_files):
    """The browser tests serve the real ones."""


@pytest.fixture
def _frozen():
    with time_machine.travel(factories.NOW, tick=False):
        yield


@pytest.fixture
def admin(db, client, _frozen):
    """A client logged in as an admin, at NOW."""
    client.force_login(factories.user())
    return client


@pytest.fixture
def viewer(db, client, _frozen):
    client.force_login(factories.user(role="engineer", username="vera"))
    return client


@pytest.fixture
def starved(client):
    """The finding of a_starved_job()."""
    finding = a_starved_job()
    with time_machine.travel(NOW, tick=False):
        client.force_login(factories.user())
        yield finding


@pytest.fixture
def four_nodes(admin):
    """The admin's client: nodes of one GPU at $2 that worked an hour and idled one, and a channel
    that works.
    """
    slack_channel("https://slack.example")
    factories.rate("2.00")
    gpus = [factories.gpu(factories.node(f"node-{number}")) for number in range(1, 5)]
    Entry.objects.bulk_create(
        factories.entry(gpu, hours_ago=ago, state=state)
        for gpu in gpus
        for ago, state in ((3, "useful"), (2, "orphaned"))
    )
    return admin


NO_CHANGE = ("/accounts/", "/theme", "/settings/channel-test")


@pytest.fixture(autouse=True)
def _is_in_the_audit_log(monkeypatch):
    """Whatever a form changed stands in the audit log: a redirect says that it was done, and a page
    that it was not or what it would do, but where it shows a secret.
    """
    post = Client.post

    def posted(self, path, *args, **kwargs):
        entries = AuditEntry.objects.count()
        answer = post(self, path, *args, **kwargs)
        is_done = answer.status_code == 302 or b"It is shown this once" in answer.content
        is_login = answer.get("Location", "").startswith("/accounts/login/")
        if is_done and not is_login and not path.startswith(NO_CHANGE):
            assert AuditEntry.objects.count() > entries, path
        return answer

    monkeypatch.setattr(Client, "post", posted)


@pytest.fixture
def rule(db) -> Rule:
    return Rule.objects.get(condition="gpu_idle")


@pytest.fixture
def job_rule(db) -> Rule:
    return Rule.objects.get(condition="job_idle")

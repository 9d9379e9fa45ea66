"""The demo on an empty hub: loaded by an operator, gone without a trace."""

from datetime import UTC, datetime, timedelta

import pytest
import time_machine
from django.apps import apps
from django.test import Client

from fleetwatch.accounts.models import AuditEntry, Organisation, Team
from fleetwatch.accounts.selectors import organisation
from fleetwatch.alerts import back_test_runs, tried_rules
from fleetwatch.alerts.messaging import announcing
from fleetwatch.alerts.models import BackTestRun, Incident, Silence
from fleetwatch.alerts.services import terms_of
from fleetwatch.budgets.models import Budget
from fleetwatch.costs.models import Commitment, Rate
from fleetwatch.costs.tasks import attribute_changed
from fleetwatch.demo import history_progress, loading, services, tasks
from fleetwatch.demo.loading import DemoError
from fleetwatch.diagnosis.services import diagnose
from fleetwatch.finance import trial_runs
from fleetwatch.finance.models import PolicyTrial
from fleetwatch.ingest.tokens import create_agent_token
from fleetwatch.inventory.models import GPU, GPUModel, Node
from fleetwatch.jobs.models import Job
from fleetwatch.ledger import services as ledger
from fleetwatch.ledger.models import Entry
from fleetwatch.ledger.selectors import newest_policy
from fleetwatch.lib.intervals import Interval
from fleetwatch.lib.refusal import RefusedFieldError
from fleetwatch.notify import tasks as notify
from fleetwatch.reports import monthly
from fleetwatch.reports.models import MonthRun, StatementChoice
from tests.alerts.factories import a_rule
from tests.costs.factories import a_rate
from tests.dashboard import factories

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("plain_static_files")]

NOW = datetime(2026, 11, 20, 9, 30, tzinfo=UTC)
LOGS = {"accounts.AuditEntry", "operations.JobRun", "operations.Heartbeat", "sessions.Session"}
KNOWN = {"inventory.GPUModel", "ledger.Policy"}  # facts of hardware, and how time is judged


@pytest.fixture(autouse=True)
def _at_now():
    with time_machine.travel(NOW, tick=False):
        yield


@pytest.fixture
def operator(client) -> Client:
    organisation()  # its row is made on first use
    client.force_login(factories.user(role="operator"))
    return client


def a_team() -> Team:
    return Team.objects.create(slug="nlp", name="NLP")


def rows() -> dict[str, int]:
    """How many rows each table has, but logs and what is known of the world."""
    models = [each for each in apps.get_models(include_auto_created=True) if each._meta.managed]
    counts = {each._meta.label: each._default_manager.count() for each in models}
    return {label: count for label, count in counts.items() if label not in LOGS | KNOWN}


@pytest.mark.django_db(transaction=True)
def test_it_is_loaded_lives_on_and_goes_without_a_trace(operator):
    a_rule(threshold=0)
    before = rows()

    assert operator.post("/demo/load").headers["Location"] == "/welcome"
    services.keep_going(NOW, gpus=8)
    attribute_changed()
    ledger.post(NOW, 1000)
    diagnose(NOW, 1000)
    announcing.run(NOW)
    later = NOW + timedelta(minutes=2)
    services.keep_going(later, gpus=8)
    assert not MonthRun.objects.exists()  # its oldest hours came only now
    ledger.post(later, 1000)
    diagnose(later, 1000)
    services.keep_going(later, gpus=8)
    node = Node.objects.get()
    a_rate("3.00", node=node.name)

    assert GPU.objects.count() == 8
    assert node.last_ms == later.timestamp() * 1000
    assert Entry.objects.exists()
    assert [run.month for run in MonthRun.objects.all()] == ["2026-11"]
    assert services.keep_going(later, gpus=8)["months"] == 1  # the same run: it is not planned yet
    assert monthly.plan_waiting(later)["parts"] > 1
    assert services.keep_going(later, gpus=8)["months"] == 0
    assert Team.objects.exists()
    assert b"Demo: a simulated fleet" in operator.get("/overview").content

    assert operator.post("/demo/remove").headers["Location"] == "/welcome"
    assert rows() == before
    assert b"Demo: a simulated fleet" not in operator.get("/welcome").content
    actions = AuditEntry.objects.filter(action__startswith="demo.").order_by("pk")
    assert [each.action for each in actions] == ["demo.load", "demo.remove"]


def test_a_hub_that_was_started_as_a_demo_says_so_and_has_nothing_to_remove(operator):
    loading.mark_hub()

    page = operator.get("/settings").content

    assert b"Demo: a simulated fleet" in page
    assert b"0 of 14 days are in the" in page
    assert b"no messages are sent" not in page
    assert b"Remove the demo" not in page


@pytest.mark.parametrize(("is_demo", "header"), [(True, "1"), (False, None)])
def test_the_api_says_of_what_it_tells_whether_it_is_a_demo(is_demo, header):
    Organisation.objects.update_or_create(pk=1, defaults={"is_demo_hub": is_demo})
    client = Client()
    client.force_login(factories.user())

    answer = client.get("/api/v1/nodes")

    assert answer.status_code == 200
    assert answer.headers.get("FleetWatch-Demo") == header


def test_what_goes_with_it_are_tables_that_there_are():
    for app, names in loading.ITS_OWN.items():
        assert all(apps.get_model(app, name) for name in names)


def a_budget() -> Budget:
    return Budget.objects.create(month="2026-11-01", amount=1000, created_at=NOW, created_by="eva")


def a_commitment() -> Commitment:
    model = GPUModel.objects.create(name="H100")
    return Commitment.objects.create(
        name="Reserved",
        gpu_model=model,
        gpus=8,
        amount_per_month=100,
        valid_from=NOW,
        created_at=NOW,
    )


def a_silence() -> Silence:
    return Silence.objects.create(
        matchers=[{"label": "node", "values": ["gpu-01"], "is_not": False}],
        starts_at=NOW,
        ends_at=NOW + timedelta(days=30),
        reason="being installed",
        created_at=NOW,
    )


@pytest.mark.parametrize(
    "make", [factories.node, factories.job, a_team, a_budget, a_commitment, a_silence]
)
def test_a_hub_that_is_in_use_loads_none_and_has_none_to_remove(operator, make):
    make()
    before = rows()

    for action in ("load", "remove"):
        operator.post(f"/demo/{action}", follow=True)

    assert rows() == before
    assert Organisation.objects.get().demo_since is None
    assert b"Load the demo" not in operator.get("/welcome").content
    with pytest.raises(DemoError, match="No demo is loaded"):
        loading.remove()


def test_no_real_node_gets_in_and_no_message_goes_out_while_it_is_loaded(operator, monkeypatch):
    operator.post("/demo/load")
    sent = []
    monkeypatch.setattr("fleetwatch.notify.delivering.deliver_due", lambda *_: sent.append(1))

    with pytest.raises(RefusedFieldError, match="remove it first"):
        create_agent_token("gpu-01", NOW)
    notify.deliver_due()

    assert sent == []
    assert not Node.objects.exists()


def test_where_anything_speaks_for_a_real_node_nothing_is_removed(operator):
    create_agent_token("gpu-01", NOW)
    Organisation.objects.update(demo_since=NOW)

    page = operator.post("/demo/remove", follow=True)

    assert b"There are tokens of real nodes" in page.content
    assert Node.objects.exists()


def test_its_loading_is_canceled_by_a_button_beside_how_far_it_is(operator, monkeypatch):
    operator.post("/demo/load")
    services.keep_going(NOW, gpus=8)
    loading_of = operator.get("/overview").content.decode().partition('id="demo-loading"')[2]

    assert '<progress max="3" value="0">' in loading_of
    assert '<form class="inline" method="post" action="/demo/remove">' in loading_of

    monkeypatch.setattr(
        history_progress,
        "history_progress",
        lambda _: history_progress.HistoryProgress(3, 3, 0.5),
    )
    loading_of = operator.get("/overview").content.decode().partition('id="demo-loading"')[2]
    assert '<progress max="3" value="3">' in loading_of  # its causes are still looked for
    assert "/demo/remove" not in loading_of

    operator.post("/demo/remove")
    assert services.Node.objects.count() == 0
    assert Organisation.objects.get().demo_since is None


def test_it_is_not_drawn_by_who_asked_whether_it_is_there_before_it_was_removed(
    operator, monkeypatch
):
    operator.post("/demo/load")
    run_alone = tasks.run_alone

    def remove_before(*asked):
        loading.remove()
        run_alone(*asked)

    monkeypatch.setattr(tasks, "run_alone", remove_before)

    tasks.keep_going()

    assert not Node.objects.exists()


def test_what_was_chosen_before_it_stays_and_what_was_tried_on_it_goes(operator):
    operator.post("/demo/load")
    StatementChoice.objects.create(free_capacity="spread")
    rule = a_rule(threshold=0)
    terms = terms_of(rule)
    asked = tried_rules.asked_of(
        rule, (terms.settings, terms.scope), None, days=7, address="/alerts/rules"
    )
    back_test_runs.ask(asked, by="eva", now=NOW)
    hour = Interval(NOW - timedelta(hours=1), NOW)
    trial_runs.ask(newest_policy(), {"idle_batch_s": 300.0}, hour, by="eva", now=NOW)

    operator.post("/demo/remove")

    assert StatementChoice.objects.get().free_capacity == "spread"
    assert not BackTestRun.objects.exists()
    assert not PolicyTrial.objects.exists()


def test_its_removal_waits_for_who_draws_some_of_it(operator, monkeypatch):
    operator.post("/demo/load")
    drawing = loading.awaited_lock(loading.LOCK, patience_s=1)
    drawing.__enter__()
    monkeypatch.setattr(
        "fleetwatch.lib.sql.time.sleep", lambda _: drawing.__exit__(None, None, None)
    )

    operator.post("/demo/remove")

    assert Organisation.objects.get().demo_since is None


def test_it_is_not_removed_while_some_of_it_is_drawn(operator, monkeypatch):
    monkeypatch.setattr(loading, "PATIENCE_S", 0.1)
    operator.post("/demo/load")

    with loading.awaited_lock(loading.LOCK, patience_s=1):
        page = operator.post("/demo/remove", follow=True)

    assert b"is being drawn at this moment" in page.content
    assert Organisation.objects.get().demo_since is not None


@pytest.mark.parametrize(("role", "status"), [("engineer", 403), ("finance", 403), (None, 302)])
def test_only_operators_load_and_remove_it(client, role, status):
    if role:
        client.force_login(factories.user(role=role))

    for action in ("load", "remove"):
        assert client.post(f"/demo/{action}").status_code == status
    assert client.get("/demo/load").status_code in (405, 302)
    assert not Organisation.objects.filter(demo_since__isnull=False).exists()
    assert not Job.objects.exists()
    assert not Incident.objects.exists()
    assert not Rate.objects.filter(node__isnull=False).exists()

"""Who may keep a job that is about to be ended, and what that stops."""

from copy import deepcopy

import pytest

from fleetwatch.accounts.models import AuditEntry, User
from fleetwatch.actions.keeping import keep_url
from fleetwatch.actions.models import Action
from fleetwatch.alerts.messaging import announcing
from fleetwatch.alerts.selectors import timeline
from fleetwatch.ingest.models import NodeOrder
from fleetwatch.ingest.node_orders import open_orders
from fleetwatch.jobs.models import Job
from tests.actions.factories import a_policy, an_idle_job, goes_on, the_incident
from tests.alerts.factories import at, longer, ran
from tests.shared_rows import shared_rows

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("plain_static_files")]


@pytest.fixture(scope="module")
def _warned(django_db_setup, django_db_blocker):
    with shared_rows(django_db_blocker):
        a_policy()
        run = an_idle_job()
        goes_on(run, 31)
        yield run


@pytest.fixture
def run(_warned, db):
    """Of a job whose owner was warned."""
    return deepcopy(_warned)


def link() -> str:
    ladder = Action.objects.get()
    return "/actions/" + keep_url(ladder, ladder.person).partition("/actions/")[2]


def test_a_look_at_the_link_changes_nothing(client, run):
    answer = client.get(link())

    assert answer.status_code == 200
    assert "Keep this job?" in answer.content.decode()
    assert Action.objects.get().state == "warned"


def test_the_links_button_keeps_the_job_and_says_why(client, run):
    answer = client.post(link(), {"reason": "a demo at ten"})

    assert "Kept" in answer.content.decode()
    ladder = Action.objects.get()
    assert (ladder.state, ladder.result, ladder.kept_by.username) == (
        "kept", "a demo at ten", "ana"
    )  # fmt: skip
    events = [event.text for event in timeline(the_incident())]
    assert events[-1] == "kept by Ana Diaz: a demo at ten"
    entry = AuditEntry.objects.get(action="action.keep")
    assert (entry.name, entry.address) == ("ana", "127.0.0.1")
    assert goes_on(run, 91).get("warned_again", 0) == 0
    assert goes_on(run, 500).get("warned", 0) == 0


def test_keeping_twice_is_once(client, run):
    client.post(link())
    client.post(link())

    assert AuditEntry.objects.filter(action="action.keep").count() == 1


def test_what_is_kept_stays_kept_in_the_next_incident_of_this_run_of_the_job(client, run):
    client.post(link())
    ran(run.gpu, "active", 31, 40, job=run.job)
    announcing.run(at(41))
    second = ran(run.gpu, "quiet", 40, 71, job=run.job)

    assert goes_on(second, 71).get("warned", 0) == 0

    Job.objects.update(restarts=1)
    assert goes_on(second, 72)["warned"] == 1


def test_an_order_that_was_given_is_withdrawn(client, run):
    for minute in (91, 151):
        goes_on(run, minute)
    client.post(link())

    order = NodeOrder.objects.get()
    open_orders.forget()
    open_orders.look(order.expires_at)
    assert order.expires_at <= Action.objects.get().ended_at
    assert Action.objects.get().state == "kept"


@pytest.mark.parametrize("change", [lambda text: text[:-2], lambda text: text + "x", lambda _: "x"])
def test_a_link_that_is_none_of_ours_is_not_there(client, run, change):
    *head, token = link().split("/")

    assert client.post("/".join([*head, change(token)])).status_code == 404


def test_the_link_of_who_left_is_not_there(client, run):
    address = link()
    User.objects.filter(username="ana").update(is_active=False)

    assert client.post(address).status_code == 404


def test_an_older_warnings_link_keeps_what_goes_on_now(client, run):
    """The first ladder ended by an answer that was taken back: the job is warned of anew."""
    address = link()
    Action.objects.update(state="ended", ended_at=at(32))
    assert goes_on(run, 93)["warned"] == 1

    assert "Keep this job?" in client.get(address).content.decode()
    client.post(address)

    assert list(Action.objects.order_by("pk").values_list("state", flat=True)) == ["ended", "kept"]


def test_what_is_over_can_not_be_kept(client, run):
    Action.objects.update(state="done", ended_at=at(32))

    answer = client.post(link())

    assert "Nothing to keep" in answer.content.decode()
    assert Action.objects.get().state == "done"


def test_a_stranger_keeps_nothing_on_the_incidents_page(client, run):
    bob = User.objects.create(username="bob", role=User.Role.ENGINEER)
    client.force_login(bob)

    assert client.post(f"/incidents/{the_incident().pk}/keep").status_code == 403
    assert Action.objects.get().state == "warned"


@pytest.mark.parametrize("who", ["ana", "ops"])
def test_the_owner_and_operators_keep_it_on_the_incidents_page(client, run, who):
    User.objects.create(username="ops", role=User.Role.OPERATOR)
    client.force_login(User.objects.get(username=who))
    address = f"/incidents/{the_incident().pk}"
    assert "Keep it" in client.get(address).content.decode()

    client.post(f"{address}/keep", {"reason": "a demo"})

    assert Action.objects.get().state == "kept"


def test_an_incident_without_a_ladder_has_nothing_to_keep(client, run):
    Action.objects.all().delete()
    client.force_login(User.objects.get(username="ana"))

    assert client.post(f"/incidents/{the_incident().pk}/keep").status_code == 422
    longer(run, 40)

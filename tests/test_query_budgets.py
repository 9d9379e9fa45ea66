"""How often each page, route and figure may ask the database, of a small fleet as of a large one.

A budget is a bound: a change that needs a query more raises it here and says why.
"""

from datetime import timedelta

import pytest
import time_machine
from django.core.cache import cache
from django.db import connection, transaction
from django.test import Client
from django.test.utils import CaptureQueriesContext

from fleetwatch.accounts.selectors import organisation
from fleetwatch.accounts.services import create_api_token
from fleetwatch.figures import selectors as figures
from fleetwatch.figures.fleet_now import spending_now
from fleetwatch.lib.intervals import Interval
from tests.dashboard import factories, fleet
from tests.ingest import factories as ingest
from tests.shared_rows import shared_rows

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("plain_static_files", "_at_now")]

PARTS = ("/recoverable", "/worst", "/wasters", "/changes")  # asked by a page, not opened
PART = {"HX-Request": "true"}
PAGES = {
    "/": 35,  # until when nodes are posted, also for the period before; since when figures, and GPUs; whether idle is accepted, or its finding closed
    "/recoverable": 11,  # jobs that waste now: until when their last hour is, which run, their causes, what was decided
    "/worst": 3,
    "/wasters": 4,
    "/changes": 18,  # until when nodes are posted; the budgets of all, and the teams of a lead
    "/fleet": 9,  # until when all nodes are posted; since when there are GPUs; also which GPUs are broken, and their incidents
    "/fleet/idle": 29,  # causes, findings, incidents of its jobs; before holes, idle lately, quiet now
    "/nodes/node-001": 32,  # rates, silences, incidents, findings of it and of jobs, starts; its version; what is slowed or works again; undrawn hours
    "/gpus/GPU-node-001-0": 24,  # findings of its node and of jobs on it, incidents; its version
    "/jobs": 14,  # names and teams of the reader; what was decided; since when there are GPUs, and the period before
    "/jobs/slurm/della/1000": 27,  # which GPU it held last, until when nodes are posted, its links, what fires, what is accepted, the policy, its holds; one more where it ran before
    "/capacity": 15,  # since when there are figures, and GPUs
    "/capacity/what-if?less=1&less_of=H100+SXM": 8,  # how long jobs really waited
    "/jobs.csv": 9,  # as the page, and its entry in the audit log
    "/waste": 11,  # also the period before, since when figures, and GPUs, and machines’ findings
    "/waste.csv?group_by=job": 3,
    "/costs": 10,  # until when all nodes are posted, also for the period before
    "/costs.csv?group_by=user": 5,  # since when there are figures
    "/findings": 10,  # names and teams of the reader, its version, and since when figures
    "/alerts": 9,
    "/alerts/rules": 3,
    "/alerts/silences": 5,  # findings that were closed
    "/alerts/routes": 7,  # which rules take which order
    "/alerts/actions": 4,
    "/causes": 7,  # what each wastes
    "/causes/hung": 7,  # what it wastes
    "/reports": 9,
    "/budgets": 10,  # since when there is history, and since when figures; the last days
    "/teams": 12,  # since when figures; the last days
    "/budgets/fleet": 13,  # the teams' budgets; since when there is history, and since when figures; the last days
    "/explain": 6,  # and what its job is called
    "/explain.csv": 5,
    "/search?q=node": 19,  # what its nodes and GPUs do now, for whom; own names; reasons of agreements
    # also the last notification, since when hours are overdue, and each worker's last word
    "/status": 24,
    "/agents": 6,  # with broken GPUs
    "/agents/node-001": 23,  # what it reads, seven days of it; its version, broken GPUs
    "/settings": 3,
    "/settings/general": 3,
    "/pricing": 19,
    "/settings/agents": 8,
    "/settings/channels": 8,
    "/settings/tokens": 8,
    "/settings/months": 15,  # what is left to do before the next month is closed
    "/settings/links": 4,
    "/settings/retention": 3,
    "/settings/policy": 6,  # what is tried in the background; its versions, and who set them
    "/settings/mappings": 9,  # and what is without a team, a project, a cost centre
    "/settings/people": 11,  # users of jobs without an account, what they cost, their namesakes
    "/settings/audit": 2,
    "/me": 40,  # how the fleet is and what fires; the month of who pays, and its statements; since when figures; how the reader is reached; what waits for an admin, of each right; clusters
    "/charts/spend": 3,  # since when there are GPUs
    "/charts/costs?group_by=user": 3,
    "/charts/fleet": 6,  # how much each node wastes: the order of its rows; which GPUs are broken
    "/gpus/GPU-node-001-0/cell": 10,  # what of its waste is agreed to be none
    "/charts/capacity": 4,  # since when there are figures
    "/charts/capacity-week": 4,
    "/charts/gpu-power?gpu=GPU-node-001-0": 6,  # when it could not work
    "/charts/gpu?gpu=GPU-node-001-0": 8,  # when it was slowed
    "/charts/gpu?gpu=GPU-node-001-0&as=svg": 7,
    "/charts/gpu-slowed?gpu=GPU-node-001-0": 7,  # when it was judged so
    "/charts/node?node=node-001": 10,
}
# of a token whose use was noted in the last minutes
ROUTES = {
    "/healthz": 0,
    "/metrics": 24,
    "/api/v1/fleet/summary": 3,
    "/api/v1/capacity": 6,
    "/api/v1/waste?group_by=job": 3,
    "/api/v1/jobs": 8,
    "/api/v1/nodes": 7,
    "/api/v1/gpus": 6,
    "/api/v1/jobs/slurm/della/1000": 12,
    "/api/v1/gpus/GPU-node-001-0": 10,
    "/api/v1/gpus/GPU-node-001-0/series": 6,  # when it could not work
    "/api/v1/findings": 3,
    "/api/v1/incidents": 3,
    "/api/v1/rules": 4,
    "/api/v1/silences": 3,
    "/api/v1/back-test?condition=job_idle": 15,
    "/api/v1/anomalies": 3,
    "/api/v1/budgets": 6,  # since when figures
    "/api/v1/reports": 5,
    "/api/v1/rates": 2,
    "/api/v1/mappings": 2,
}
DAY = Interval(factories.NOW - timedelta(hours=24), factories.NOW)
FIGURES = {
    "totals by job": (lambda: figures.totals_by(DAY, "job"), 3),
    "totals": (lambda: figures.totals(DAY), 2),
    "dollars by hour": (lambda: figures.dollars_over_time(DAY, "hour"), 3),
    "spending now": (lambda: spending_now(factories.NOW), 1),
}
BATCH = 17  # the steady state of a node of eight GPUs


@pytest.fixture
def _at_now():
    with time_machine.travel(factories.NOW, tick=False):
        yield


@pytest.fixture(scope="module", params=[(1, 1), (6, 8)], ids=["one-gpu", "48-gpus"])
def _fleet(request, django_db_setup, django_db_blocker):
    nodes, gpus = request.param
    with shared_rows(django_db_blocker):
        with time_machine.travel(factories.NOW, tick=False):
            fleet.make(nodes=nodes, gpus=gpus, hours=48)
        yield


@pytest.fixture
def user(_fleet, db):
    """An admin of a fleet of so many nodes with so many GPUs."""
    return factories.user()


def test_pages_and_routes_keep_to_their_budget_whatever_the_fleet(user, client, monkeypatch):
    # asked again each ten seconds, by whichever route comes then
    monkeypatch.setattr("fleetwatch.api.middleware.KNOWN_FOR_S", 3600)
    client.force_login(user)
    token = create_api_token(user, scope="read", now=factories.NOW)
    reader = Client(headers={"Authorization": f"Bearer {token}"})
    reader.get("/api/v1/fleet/summary")

    pages = {address: queries_of(client, address) for address in PAGES}
    routes = {address: queries_of(reader, address) for address in ROUTES}

    assert {address: n for address, n in pages.items() if not 1 <= n <= PAGES[address]} == {}
    assert {address: n for address, n in routes.items() if n > ROUTES[address]} == {}


def test_figures_keep_to_their_budget_whatever_the_fleet(user):
    organisation()

    asked = {name: queries_in(call) for name, (call, _) in FIGURES.items()}

    assert {name: n for name, n in asked.items() if not 1 <= n <= FIGURES[name][1]} == {}


def queries_in(call) -> int:
    with CaptureQueriesContext(connection) as captured:
        call()
    return len(captured)


def queries_of(client, address) -> int:
    """What the page writes is undone, so that no page finds what another one has kept."""
    cache.clear()
    with transaction.atomic():
        with CaptureQueriesContext(connection) as captured:
            answer = client.get(address, headers=PART if address in PARTS else {})
        transaction.set_rollback(True)
    assert answer.status_code == 200, address
    return len(captured)


def test_the_steady_state_of_batches_asks_little(client, django_assert_max_num_queries):
    bearer = ingest.token()
    steady = ingest.holding(ingest.job(), start_ms=ingest.T0, share=1.0) | {
        "sources": [{"kind": "slurm", "ok": True}],
        "processes": [{"gpu": 0, "job": 0, "pid": 7}],
        "gpus": [ingest.gpu(f"GPU-{number}", index=number) for number in range(8)],
    }
    ingest.post(client, ingest.payload(**steady), bearer=bearer)
    later = ingest.payload(sequence=2, start_ms=ingest.T0 + 30_000, **steady)

    with django_assert_max_num_queries(BATCH):
        answer = ingest.post(client, later, bearer=bearer)

    assert answer.json()["stored"] == 24

"""The job's page and its API say who said what of it."""

import pytest

from fleetwatch.ingest.services import store_batch
from fleetwatch.inventory.services import node_by_name
from tests.dashboard import factories
from tests.ingest.factories import NOW, T0, batch, gpu, holding, job

pytestmark = pytest.mark.django_db


@pytest.fixture
def stolen():
    """A job of node good, which node evil claims for itself under a hostile name."""
    for node, start_ms, user in (("good", T0, "ann"), ("evil", T0 + 30_000, "<b>victim</b>")):
        parsed, packed = batch(
            node=node, start_ms=start_ms, gpus=[gpu(f"GPU-{node}")], **holding(job(user=user, state="RUNNING", end_ms=T0 + 60_000))
        )
        store_batch(node_by_name(node), parsed, packed, received_at=NOW)


@pytest.mark.usefixtures("stolen")
def test_the_page_shows_what_is_said_otherwise_and_who_said_what(admin):
    page = " ".join(admin.get("/jobs/slurm/della/1").content.decode().replace("\xa0", " ").split())

    assert '<td class="name">evil</td><td>by its scheduler or engine</td><td>user &lt;b&gt;victim&lt;/b&gt;</td>' in page
    assert "<td>user ann, account nlp, state RUNNING, ended 2026-11-20 11:51:00 UTC</td>" in page
    assert "not believed: user &lt;b&gt;victim&lt;/b&gt;" in page


def test_a_job_that_is_told_one_way_shows_no_contradiction(admin):
    parsed, packed = batch(**holding(job()))
    store_batch(node_by_name("n1"), parsed, packed, received_at=NOW)

    page = admin.get("/jobs/slurm/della/1").content.decode()

    assert "Said otherwise" not in page


def test_a_job_of_which_nobody_said_anything_has_a_page(admin):
    held = factories.job()

    assert "All nodes say the same of it." in admin.get(f"/jobs/{held.key}").content.decode()


@pytest.mark.usefixtures("stolen")
def test_the_api_gives_contradictions_and_history(admin):
    answer = admin.get("/api/v1/jobs/slurm/della/1").json()

    assert answer["user"] == "ann"
    assert answer["contradictions"] == [{"node": "evil", "by": "books", "fact": "user", "value": "<b>victim</b>"}]
    assert answer["history"] == [
        {
            "at": "2026-11-20T12:00:00Z",
            "node": "evil",
            "by": "books",
            "facts": {"user": "<b>victim</b>", "end_ms": T0 + 60_000},
            "refused": ["user"],
        },
        {
            "at": "2026-11-20T12:00:00Z",
            "node": "good",
            "by": "books",
            "facts": {"user": "ann", "account": "nlp", "state": "RUNNING", "end_ms": T0 + 60_000},
            "refused": [],
        },
    ]

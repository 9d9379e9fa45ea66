"""The job's page and its API say who said what of it."""

import pytest

from fleetwatch.ingest.services import store_batch
from fleetwatch.inventory.services import node_by_name
from tests.dashboard import factories
from tests.ingest.factories import NOW, T0, batch, gpu, holding, job
from tests.markup import tight

pytestmark = pytest.mark.django_db


@pytest.fixture
def stolen():
    """A job of node good, which node evil claims for itself under a hostile name."""
    for node, start_ms, user in (("good", T0, "ann"), ("evil", T0 + 30_000, "<b>victim</b>")):
        parsed = batch(
            node=node,
            start_ms=start_ms,
            gpus=[gpu(f"GPU-{node}")],
            **holding(job(user=user, state="RUNNING", end_ms=T0 + 60_000)),
        )
        store_batch(node_by_name(node), parsed, received_at=NOW)


@pytest.mark.usefixtures("stolen")
def test_the_page_shows_what_is_said_otherwise_and_who_said_what(admin):
    page = tight(admin.get("/jobs/slurm/della/1").content.decode().replace("\xa0", " "))

    assert (
        '<td class="name">evil</td><td data-label="Source">by its scheduler or engine</td>' in page
    )
    assert '<td data-label="Reports">user &lt;b&gt;victim&lt;/b&gt;</td>' in page
    assert (
        '<td data-label="Reported">user ann, account nlp, state RUNNING, ended 2026-11-20'
        " 11:51:00 UTC</td>" in page
    )
    assert '<div class="sub">of slurm/della/1~2</div>' in page
    assert (
        '<a href="/jobs/slurm/della/1~2">slurm/della/1~2</a></td><td'
        ' data-label="User">&lt;b&gt;victim&lt;/b&gt;</td>' in page
    )


@pytest.mark.usefixtures("stolen")
@pytest.mark.parametrize(
    ("key", "user"), [("1", "ann"), ("1~1", "ann"), ("1~2", "&lt;b&gt;victim&lt;/b&gt;")]
)
def test_each_job_of_a_key_has_a_page(admin, key, user):
    page = admin.get(f"/jobs/slurm/della/{key}")

    assert page.status_code == 200
    assert f">{user}<" in " ".join(page.content.decode().split())


def test_a_number_that_no_job_has_is_404(admin):
    assert [
        admin.get(f"/jobs/slurm/della/{key}").status_code for key in ("1", "1~1", "1~2", "~1")
    ] == [404] * 4


def test_a_job_that_is_told_one_way_shows_no_contradiction(admin):
    parsed = batch(**holding(job()))
    store_batch(node_by_name("n1"), parsed, received_at=NOW)

    page = admin.get("/jobs/slurm/della/1").content.decode()

    assert "Conflicting reports" not in page


def test_a_job_of_which_nobody_said_anything_has_a_page(admin):
    held = factories.job()

    assert "All nodes report the same." in admin.get(f"/jobs/{held.key}").content.decode()


@pytest.mark.usefixtures("stolen")
def test_the_api_gives_contradictions_and_history(admin):
    answer = admin.get("/api/v1/jobs/slurm/della/1").json()

    assert answer["user"] == "ann"
    assert answer["namesakes"] == [
        {"key": "slurm/della/1~2", "user": "<b>victim</b>", "account": "nlp"}
    ]
    assert answer["contradictions"] == [
        {"node": "evil", "by": "books", "fact": "user", "value": "<b>victim</b>"}
    ]
    assert answer["history"] == [
        {
            "key": "slurm/della/1~2",
            "at": "2026-11-20T12:00:00Z",
            "node": "evil",
            "by": "books",
            "facts": {
                "user": "<b>victim</b>",
                "account": "nlp",
                "state": "RUNNING",
                "end_ms": T0 + 60_000,
            },
            "refused": [],
        },
        {
            "key": "slurm/della/1~1",
            "at": "2026-11-20T12:00:00Z",
            "node": "good",
            "by": "books",
            "facts": {"user": "ann", "account": "nlp", "state": "RUNNING", "end_ms": T0 + 60_000},
            "refused": [],
        },
    ]

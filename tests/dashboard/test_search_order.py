"""In which order a search lists what it found: what goes on now before what is over."""

from datetime import timedelta

import pytest

from fleetwatch.alerts.models import Incident
from fleetwatch.dashboard.search_hits import Hit, hits
from fleetwatch.dashboard.search_order import ranked
from fleetwatch.lib.intervals import to_ms
from tests.dashboard import factories
from tests.dashboard.factories import NOW
from tests.dashboard.shown_incidents import incident
from tests.diagnosis import told

pytestmark = pytest.mark.django_db


def over(key: str, *, hours_ago: int) -> Incident:
    ended_at = NOW - timedelta(hours=hours_ago)
    return incident(
        key,
        state="resolved",
        opened_at=ended_at - timedelta(hours=1),
        resolved_at=ended_at,
        ended_ms=to_ms(ended_at),
    )


def kinds(text: str, reader) -> list[str]:
    several = hits(text, reader, limit=10, now=NOW)
    return [kind for kind, _ in ranked(several, text, {})]


@pytest.mark.parametrize("address", ["/search", "/search/quick"])
def test_what_fires_comes_before_old_findings_pages_and_words(admin, address):
    told.finding(told.job("slurm/della/1", end_ms=1), "idle_held")
    incident("slurm/della/8")

    groups = [group[0] for group in admin.get(address, {"q": "idle"}).context["groups"]]

    assert groups[0] == "incident"
    assert {"word", "page", "finding", "cause"} <= {*groups[1:]}


def test_incidents_that_are_over_come_behind_findings():
    told.finding(told.job("slurm/della/1", end_ms=1), "idle_held")
    over("slurm/della/8", hours_ago=2)

    several = kinds("idle", factories.user())

    assert several.index("finding") < several.index("incident")


def test_firing_incidents_come_first_then_acknowledged_put_off_and_over_the_newest_first(admin):
    newest = over("slurm/della/1", hours_ago=1)
    oldest = over("slurm/della/2", hours_ago=5)
    snoozed = incident("slurm/della/3", snoozed_until=NOW + timedelta(hours=1))
    acknowledged = incident("slurm/della/4", state="acknowledged")
    long_ago = incident("slurm/della/5", opened_at=NOW - timedelta(days=2))
    firing = incident("slurm/della/6")

    for address in ("/search?q=idle&kind=incident", "/search/quick?q=idle"):
        groups = admin.get(address).context["groups"]
        of_incidents = next(group[1] for group in groups if group[0] == "incident")

        numbers = [int(hit.about.removeprefix("#")) for hit in of_incidents]
        wanted = (firing, long_ago, acknowledged, snoozed, newest, oldest)
        assert numbers == [each.pk for each in wanted]


def test_one_that_fires_since_long_is_not_left_off_for_many_that_are_over():
    incident("slurm/della/5", opened_at=NOW - timedelta(days=2))
    for number in range(3):
        over(f"slurm/della/over-{number}", hours_ago=number)

    several = hits("idle", factories.user(), limit=2, now=NOW)

    states = [hit.state for hit in several if hit.kind == "incident"]
    assert states == ["firing", "resolved"]


def test_what_is_called_just_so_stays_before_what_fires_on_it():
    factories.gpu(factories.node("h100-03"))
    incident("slurm/della/5", facts={"labels": {"node": ("h100-03",)}})

    assert kinds("h100-03", factories.user())[:2] == ["node", "incident"]


def test_a_job_that_runs_comes_behind_what_fires_and_before_what_was_found():
    several = [
        Hit("page", "Idle right now", "/fleet/idle"),
        Hit("finding", "Idle: a", "/findings/1", state="open"),
        Hit("job", "idle-loop", "/jobs/1", state="running"),
        Hit("incident", "Job idle: b", "/incidents/1", state="firing"),
    ]

    order = [kind for kind, _ in ranked(several, "idle", {})]

    assert order == ["incident", "job", "page", "finding"]


@pytest.mark.parametrize("address", ["/search", "/search/quick"])
@pytest.mark.parametrize(
    ("number", "keys"),
    [
        (3, ["GPU-3"]),  # its own incident
        (5, []),  # no more than a digit of a job's key and of another GPU's UUID
        (6, ["slurm/della/51"]),  # the job's, of which it idled
    ],
)
def test_a_node_and_a_number_list_that_gpu_first_and_then_its_incidents_alone(
    admin, address, number, keys
):
    node = factories.node("a100-06")
    for index in (3, 5, 6):
        factories.gpu(node, index=index, uuid=f"GPU-{index}")
    on_it = {"labels": {"node": ("a100-06",)}}
    incident("slurm/della/51", facts=on_it | {"facts": {"gpus": [{"uuid": "GPU-6"}]}})
    incident("GPU-3", facts=on_it | {"kind": "gpu"})
    incident("GPU-fd5b-5a", facts=on_it | {"kind": "gpu"})

    groups = admin.get(address, {"q": f"a100-06 {number}"}).context["groups"]

    listed = {group[0]: group[1] for group in groups}
    assert groups[0][0] == "GPU"
    assert [hit.name for hit in listed["GPU"]] == [f"a100-06 · GPU {number}"]
    numbers = [hit.about.removeprefix("#") for hit in listed.get("incident", [])]
    assert [Incident.objects.get(pk=each).subject for each in numbers] == keys


def test_a_number_among_words_is_no_part_of_a_longer_one(admin):
    incident("slurm/della/51", facts={"labels": {"node": ("a100-06",)}})

    assert "incident" not in kinds("a100-06 5", factories.user(username="bea"))
    assert "incident" in kinds("a100-06 51", factories.user(username="cea"))

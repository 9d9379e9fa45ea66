"""/fleet marks GPUs whose fault is open: on the map, the grid and the table, with what leads on."""

import pytest

from fleetwatch.alerts.models import Rule
from fleetwatch.dashboard.broken_marks import broken_marks, broken_uuids
from fleetwatch.diagnosis.models import Finding
from fleetwatch.inventory.models import GPU
from fleetwatch.ledger.models import Posted
from fleetwatch.lib.intervals import HOUR_MS, to_ms
from tests.dashboard import factories
from tests.dashboard.shown_incidents import incident
from tests.markup import in_text, tight

pytestmark = pytest.mark.django_db
NOW_MS = to_ms(factories.NOW)


@pytest.fixture
def three(admin) -> list[GPU]:
    """Three GPUs on h100-01, one on a100-02; each was useful for an hour."""
    node = factories.node("h100-01")
    gpus = [factories.gpu(node, index=index) for index in (0, 1, 2)]
    gpus.append(factories.gpu(factories.node("a100-02")))
    for gpu in gpus:
        factories.entry(gpu, hours_ago=1, state="useful").save()
    return gpus


def lose(gpu: GPU) -> None:
    """An hour ago, and it is not back."""
    outages = [[NOW_MS - HOUR_MS, None, "gpu_lost", False]]
    Posted.objects.create(gpu=gpu, spans=[[0, NOW_MS]], outages=outages)


def test_the_chart_of_a_lost_gpu_without_readings_says_why_there_are_none(admin, three):
    lose(three[1])

    layouts = [admin.get(f"/charts/gpu?gpu={gpu.uuid}").json()["layout"] for gpu in three[:2]]
    titles = [[title["text"] for title in layout["annotations"]] for layout in layouts]

    assert titles == [
        ["State with the most time · no readings in this period"],
        ["State with the most time · no readings: the driver lost it 20 Nov 11:00"],
    ]


def fires(gpu: GPU, condition: str, word: str):
    facts = {"kind": "gpu", "word": word, "owner": "", "labels": {"node": (gpu.node.name,)}}
    return incident(gpu.uuid, rule=Rule.objects.get(condition=condition), facts=facts)


def broken_now(client, address: str = "/fleet") -> str:
    """What its list says."""
    page = tight(client.get(address).content.decode())
    return page.partition('id="broken"')[2].partition("</ul>")[0]


def test_a_lost_gpu_leads_to_its_incident_without_one_to_the_finding_else_to_its_page(admin, three):
    lost = three[1]
    lose(lost)
    assert f'href="/gpus/{lost.uuid}"' in broken_now(admin)
    assert "the driver lost it, since" in broken_now(admin)

    node_finding = Finding.objects.create(
        node=lost.node, cause="gpu_fault", first_ms=NOW_MS - HOUR_MS, last_ms=NOW_MS
    )
    assert f'href="/findings/{node_finding.pk}"' in broken_now(admin)

    opened = fires(lost, "gpu_fault", "faulty")
    assert f'href="/incidents/{opened.pk}"' in broken_now(admin)


def test_a_gpu_that_works_with_memory_errors_is_marked_as_long_as_its_incident_fires(admin, three):
    opened = fires(three[0], "gpu_memory_errors", "memory errors")

    assert "h100-01 GPU 0" in broken_now(admin)
    assert "memory errors, since" in broken_now(admin)
    assert f'href="/incidents/{opened.pk}"' in broken_now(admin)

    opened.delete()
    assert broken_now(admin) == ""


def test_a_gpu_that_is_lost_after_memory_errors_is_marked_once(admin, three):
    lose(three[0])
    fires(three[0], "gpu_memory_errors", "memory errors")

    assert broken_now(admin).count("<li>") == 1
    assert "memory errors" not in broken_now(admin)


def test_the_map_marks_those_that_the_list_names(three):
    lose(three[0])
    Posted.objects.create(gpu=three[1], spans=[[0, NOW_MS]], outages=[[0, 1, "gpu_lost", False]])
    fires(three[2], "gpu_memory_errors", "memory errors")

    assert broken_uuids() == {mark.gpu.uuid for mark in broken_marks()}
    assert broken_uuids() == {three[0].uuid, three[2].uuid}


def test_the_grid_crosses_out_its_square_and_says_why(admin, three):
    lose(three[1])

    page = tight(admin.get("/fleet?view=grid").content.decode())

    assert page.count('class="broken-mark"') == 1
    assert "GPU 1: Useful; broken now: the driver lost it" in page
    assert "broken now (the driver lost it): GPU 1" in page  # for who sees no square
    square = page.partition("<title>GPU 1:")[0].rpartition("<rect")[2]
    assert 'class="unavailable"' in square


def test_the_map_puts_a_cross_at_the_end_of_its_row(admin, three):
    lose(three[1])

    traces = admin.get("/charts/fleet?range=24h&sort=name").json()["data"]

    [marks] = [trace for trace in traces if trace["type"] == "scatter"]
    edges = traces[0]["y"]  # a100-02 GPU 0, a line, h100-01 GPUs 0, 1, 2
    assert marks["y"] == [(edges[3] + edges[4]) / 2]
    assert marks["mode"] == "markers"


def test_without_a_fault_nothing_is_marked(admin, three):
    traces = admin.get("/charts/fleet?range=24h").json()["data"]

    assert [trace["type"] for trace in traces] == ["heatmap"]
    assert "broken" not in admin.get("/fleet?view=grid").content.decode().partition("<main")[2]


def test_the_table_says_how_many_of_a_node_are_broken_and_which(admin, three):
    lose(three[1])

    page = tight(admin.get("/fleet?view=table&open=h100-01").content.decode())

    assert page.count(">1 broken</a>") == 1
    assert f'href="/gpus/{three[1].uuid}">broken: the driver lost it</a>' in page


def test_only_nodes_with_broken_gpus_are_shown_where_that_is_asked_for(admin, three):
    lose(three[1])

    page = tight(admin.get("/fleet?view=table&only=broken").content.decode())
    figure = admin.get("/charts/fleet?range=24h&only=broken").json()

    assert "h100-01" in page.partition('id="nodes"')[2]
    assert "a100-02" not in page.partition('id="nodes"')[2]
    assert figure["layout"]["yaxis"]["ticktext"] == ["h100-01"]
    assert admin.get("/charts/fleet?range=24h&only=x").status_code == 404


def test_status_has_the_incident_of_a_broken_gpu_and_what_to_do_first(admin, three):
    lost = three[1]
    lose(lost)
    opened = fires(lost, "gpu_fault", "faulty")

    page = tight(admin.get("/status").content.decode())

    section = page.partition('id="broken"')[2].partition("</section>")[0]
    assert f'href="/incidents/{opened.pk}"' in section
    assert 'data-label="Do first"' in section


def test_the_agents_list_says_whose_gpu_is_broken(admin, three):
    lose(three[1])

    page = tight(admin.get("/agents").content.decode())

    assert page.count("broken</a>") == 1
    assert "1 GPU broken</a>" in page
    nodes = [each.node.name for each in admin.get("/agents").context["agents"]]
    assert nodes[0] == three[1].node.name  # of those that report it needs attention first


def test_a_narrowed_fleet_counts_and_marks_the_gpus_it_used_alone(admin, three):
    lose(three[1])
    factories.entry(three[0], hours_ago=1, held_by=factories.job("s/c/1", team="nlp")).save()

    page = in_text(admin.get("/fleet?range=24h&team=nlp").content.decode())

    assert "1 GPU used on 1 node" in page
    assert "the driver lost it" not in page  # of its node, and not of the team's time


def test_a_healthy_gpus_page_names_its_nodes_broken_one_and_leads_there(admin, three):
    sick = three[1]
    lose(sick)

    beside, own, elsewhere = (
        tight(admin.get(f"/gpus/{gpu.uuid}").content.decode()).partition('id="beside"')[2]
        for gpu in (three[0], sick, three[3])
    )

    assert "Beside it on h100-01:" in beside
    assert f'href="/gpus/{sick.uuid}">GPU 1</a><span class="up">the driver lost it</span>' in beside
    assert own == elsewhere == ""

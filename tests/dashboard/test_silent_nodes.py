"""The overview says which nodes are silent since when; a fleet that reports has no such line."""

import pytest
from django.core.management import CommandError, call_command

from fleetwatch.inventory.models import GPU, Departure, ElasticRule
from fleetwatch.lib.intervals import to_ms
from tests.dashboard import factories
from tests.dashboard.test_views import text_of
from tests.markup import tight

pytestmark = pytest.mark.django_db
NOW_MS = to_ms(factories.NOW)
MINUTE = 60_000


def a_node(name, *, silent_minutes=0, gpus=1, **fields):
    last_ms = NOW_MS - silent_minutes * MINUTE
    node = factories.node(
        name, last_ms=last_ms, silent_ms=NOW_MS - MINUTE if silent_minutes else None
    )
    for index in range(gpus):
        factories.gpu(node, index=index, **fields)


def test_the_overview_says_which_nodes_are_silent_since_when(admin):
    a_node("gpu-01", silent_minutes=30, gpus=2)
    a_node("gpu-02", silent_minutes=20)
    a_node("gpu-03")

    page = text_of(admin.get("/"))

    assert "<b>2 nodes are silent</b>, unobserved and still billed:" in page
    assert '<a href="/nodes/gpu-01">gpu-01</a>(2 GPUs) since' in tight(page)
    assert '<a href="/nodes/gpu-02">gpu-02</a>(1 GPU) since' in tight(page)
    assert page.index("gpu-01</a>") < page.index("gpu-02</a>")


@pytest.mark.parametrize(("silent_minutes", "is_said"), [(5, False), (6, True)])
def test_a_silence_that_a_slow_flush_explains_is_no_news(admin, silent_minutes, is_said):
    a_node("gpu-01", silent_minutes=silent_minutes)

    assert ('id="silent"' in text_of(admin.get("/"))) == is_said


def test_a_fleet_that_reports_has_no_line_of_silent_nodes(admin):
    a_node("gpu-01")
    a_node("gpu-02", silent_minutes=30, retired_ms=NOW_MS - 30 * MINUTE)

    assert 'id="silent"' not in text_of(admin.get("/"))


@pytest.mark.parametrize(("silent_minutes", "is_said"), [(0, False), (5, False), (6, True)])
def test_a_nodes_page_its_gpus_and_the_fleet_say_that_it_is_silent(admin, silent_minutes, is_said):
    a_node("gpu-01", silent_minutes=silent_minutes)
    a_node("gpu-02")
    on = GPU.objects.get(node__name="gpu-01")
    factories.hold(on, factories.job(), hours_ago=2, hours=3)

    node, gpu, fleet, other = (
        text_of(admin.get(page))
        for page in ("/nodes/gpu-01", f"/gpus/{on.uuid}", "/fleet?view=table", "/nodes/gpu-02")
    )

    since = "<b>Silent since Fri 20 Nov, 11:54</b>: not observed since then, and still billed."
    assert [since in page for page in (node, gpu)] == [is_said, is_said]
    assert ("silent since Fri 20 Nov, 11:54: not observed" in fleet) == is_said
    # who holds it is told as of then
    assert ("held when last seen" in gpu, "still held" in gpu) == (is_said, not is_said)
    assert 'id="silent"' not in other


def test_of_many_silent_nodes_the_first_are_named(admin):
    for number in range(7):
        a_node(f"gpu-{number}", silent_minutes=60 - number)

    page = text_of(admin.get("/"))

    assert "<b>7 nodes are silent</b>" in page
    assert '<a href="/status">all of them</a>' in tight(page)
    assert ("gpu-4</a>" in page, "gpu-5</a>" in page) == (True, False)


def test_an_admin_removes_a_silent_node_and_its_page_says_so(admin):
    a_node("gpu-01", silent_minutes=30)
    assert "Remove gpu-01" in text_of(admin.get("/nodes/gpu-01"))

    answer = admin.post("/nodes/gpu-01/remove", {"reason": "<b>sold</b>"}, follow=True)

    assert "by ann: &lt;b&gt;sold&lt;/b&gt;" in text_of(answer)
    assert "Remove gpu-01" not in text_of(answer)
    assert [agent.health for agent in admin.get("/status").context["agents"]] == ["gone"]
    assert 'id="silent"' not in text_of(admin.get("/"))


def test_a_node_that_reports_is_not_offered_for_removal_and_not_removed(admin):
    a_node("gpu-01")
    assert "Remove gpu-01" not in text_of(admin.get("/nodes/gpu-01"))

    answer = admin.post("/nodes/gpu-01/remove", {"reason": "sold"}, follow=True)

    assert "gpu-01 reports still" in text_of(answer)
    assert not Departure.objects.exists()


def test_a_viewer_removes_no_node(viewer):
    a_node("gpu-01", silent_minutes=30)

    assert viewer.post("/nodes/gpu-01/remove", {"reason": "sold"}).status_code == 403
    assert "Remove gpu-01" not in text_of(viewer.get("/nodes/gpu-01"))


def test_an_admin_makes_and_removes_rules_for_elastic_nodes(admin):
    admin.post("/settings/elastic", {"kind": "label", "pattern": "pool=spot"})
    assert "<code>pool=spot</code>" in text_of(admin.get("/settings/agents"))

    refused = admin.post("/settings/elastic", {"kind": "label", "pattern": "pool"})
    assert (refused.status_code, "a label is key=value." in text_of(refused)) == (422, True)

    admin.post("/settings/elastic-remove", {"id": ElasticRule.objects.get().pk})
    assert not ElasticRule.objects.exists()


def test_a_command_removes_a_node_and_says_why_it_can_not(admin, capsys):
    a_node("gpu-01", silent_minutes=30)

    call_command("remove_node", "gpu-01", "--reason", "sold")

    assert "gpu-01 is off the bill" in capsys.readouterr().out
    with pytest.raises(CommandError, match="no node"):
        call_command("remove_node", "gpu-02", "--reason", "sold")

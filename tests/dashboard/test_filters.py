"""Every page of figures is narrowed by the same names, its links keep them, and its form offers what
there is.
"""

from html import unescape

import pytest

from fleetwatch.accounts.models import User
from fleetwatch.ledger.models import Entry
from tests.costs.factories import a_gpu, a_job, an_entry
from tests.diagnosis import told
from tests.markup import tight

pytestmark = pytest.mark.django_db
WEEK = "from=2026-11-01&to=2026-11-08"
PAGES = ("/overview", "/fleet", "/jobs", "/waste", "/findings")


@pytest.fixture
def two(admin):
    """An idle hour of ann (nlp, H100, batch) on n1, and one of bob (vision, L4, service) on n2."""
    h100, l4 = a_gpu(uuid="GPU-A", model="H100 SXM", node="n1"), a_gpu(uuid="GPU-B", node="n2")
    ann = a_job(key="slurm/c/1", user="ann", team="nlp", kind="batch", labels={"env": "prod"})
    bob = a_job(key="slurm/c/2", user="bob", team="vision", kind="service", cluster="erie")
    an_entry(h100, "idle", job=ann, tier="certain")
    an_entry(l4, "idle", job=bob, tier="certain")
    return admin


def main(answer):
    return unescape(answer.content.decode()).partition("<main")[2]


@pytest.mark.parametrize("page", PAGES)
@pytest.mark.parametrize("narrowing", ["team=nlp", "user=ann", "kind=batch", "label=env%3Dprod"])
def test_every_page_takes_the_same_filters_and_says_by_what_it_is_narrowed(two, page, narrowing):
    answer = two.get(f"{page}?{WEEK}&{narrowing}")

    name, _, value = narrowing.replace("%3D", "=").partition("=")
    assert "There is no parameter" not in main(answer)
    assert f"{name} {value} ×" in main(answer)


@pytest.mark.parametrize("page", ["/wasters", "/jobs"])
def test_a_narrowed_page_names_nobody_else(two, page):
    shown = two.get(f"{page}?{WEEK}&team=nlp", headers={"HX-Request": "true"}).content.decode()

    assert "ann" in shown
    assert "bob" not in shown


def test_a_narrowed_fleet_is_the_nodes_and_gpus_with_that_time(two):
    shown = main(two.get(f"/fleet?view=table&{WEEK}&user=bob"))
    table = two.get(f"/charts/fleet?{WEEK}&user=bob&as=csv").content.decode()

    assert "/nodes/n2" in shown
    assert "/nodes/n1" not in shown
    assert "n2 · " in table
    assert "n1 · " not in table


def test_a_narrowed_overview_says_nothing_of_what_the_whole_fleet_does_now(two):
    whole, narrowed = (
        main(two.get(f"/overview?{WEEK}")),
        main(two.get(f"/overview?{WEEK}&team=nlp")),
    )

    assert "Spending now" in whole
    assert "Spending now" not in narrowed
    assert 'id="now"' not in narrowed
    assert "/charts/spend?from=2026-11-01&to=2026-11-08&team=nlp" in narrowed
    assert 'hx-get="/worst?team=nlp"' in narrowed
    assert f'hx-get="/wasters?{WEEK}&team=nlp"' in narrowed


def test_the_rail_keeps_period_and_filters_on_pages_that_take_them(two):
    page = unescape(two.get(f"/jobs?{WEEK}&team=nlp&sort=cost").content.decode())

    for path in ("/overview", "/fleet", "/jobs", "/waste", "/findings"):
        assert f'href="{path}?{WEEK}&team=nlp"' in page
    assert 'href="/me?from=2026-11-01&to=2026-11-08"' in page
    assert 'href="/budgets?team=nlp"' in page


def test_the_rail_keeps_team_and_person_to_alerts_and_back(two):
    jobs = unescape(two.get(f"/jobs?{WEEK}&team=nlp&user=ann").content.decode())
    alerts = unescape(two.get("/alerts?team=nlp&user=ann").content.decode())

    assert 'href="/alerts?team=nlp&user=ann"' in jobs
    assert 'href="/jobs?team=nlp&user=ann"' in alerts


def test_the_form_keeps_what_is_no_filter_and_leaves_out_the_place_in_the_list(two):
    page = tight(two.get(f"/jobs?{WEEK}&team=nlp&sort=cost&after=x&odd=1").content.decode())
    form = page.partition('<div class="narrowing"')[2].partition("<form")[2].partition("</form>")[0]

    assert '<input type="hidden" name="sort" value="cost">' in form
    assert '<input type="hidden" name="from" value="2026-11-01">' in form
    assert 'name="after"' not in form
    assert 'name="odd"' not in form
    assert '<input name="team" value="nlp"' in form  # also where no script runs


def test_its_fields_offer_what_has_time_in_the_period(two):
    fields = tight(two.get(f"/filters?{WEEK}&team=nlp").content.decode())

    assert '<option value="nlp" selected>NLP</option>' in fields
    assert '<option value="vision">VISION</option>' in fields
    assert '<option value="n1">n1</option>' in fields
    assert '<option value="erie">erie</option>' in fields
    assert '<option value="stalled">Stalled</option>' in fields
    assert 'name="label"' in fields
    assert 'name="cause"' not in fields
    assert 'name="cause"' in two.get("/filters?of=team,cause").content.decode()
    assert '"n1"' not in two.get("/filters?from=2026-10-01&to=2026-10-02").content.decode()


@pytest.fixture
def caused(two):
    """Ann's hour was idle for a process that holds it, bob's for a service that waits."""
    for key, name in (("slurm/c/1", "idle_held"), ("slurm/c/2", "data_starved")):
        entry = Entry.objects.select_related("gpu", "job").get(job__key=key)
        told.cause(name, of=entry.job, on=entry.gpu, start=entry.start)
    return two


def test_jobs_are_narrowed_to_those_that_lost_time_to_a_cause(caused):
    page = main(caused.get(f"/jobs?{WEEK}&cause=idle_held"))
    file = caused.get(f"/jobs.csv?{WEEK}&cause=idle_held").content.decode()
    rows = caused.get(f"/api/v1/jobs?{WEEK}&cause=idle_held").json()

    assert "1 job" in page
    assert "Cause: Idle: still held ×" in page
    assert "cause idle_held" not in page
    assert "slurm/c/1" in file
    assert "slurm/c/2" not in file
    assert [row["key"] for row in rows["rows"]] == ["slurm/c/1"]
    assert rows["totals"]["capacity_ms"] == 3_600_000


def test_the_inbox_names_the_cause_that_it_is_narrowed_to_as_its_findings_do(caused):
    page = main(caused.get(f"/findings?{WEEK}&cause=data_starved&team=nlp"))

    assert "Cause: Waits for its input ×" in page
    assert "team nlp ×" in page


@pytest.mark.parametrize(
    ("narrowed", "is_said"),
    [("cause=idle_held", True), ("cause=idle_held&q=ann", False), ("", False)],
)
def test_the_waste_of_jobs_of_a_cause_is_said_to_be_of_every_cause(caused, narrowed, is_said):
    """Of jobs that a name is looked for of, how much is that cause's is not said."""
    answer = caused.get(f"/jobs?{WEEK}&{narrowed}")

    page = main(answer)
    assert (answer.context["by_cause_usd"] is not None) is is_said
    assert ("of it by this cause" in page) is is_said
    assert ("their waste by every cause" in page) is ("cause" in narrowed)


def test_a_cause_that_there_is_not_narrows_no_jobs_and_is_said(caused):
    page = main(caused.get(f"/jobs?{WEEK}&cause=bogus"))

    assert "2 jobs" in page
    assert "bogus" in page


def test_the_rail_carries_a_cause_only_to_where_it_narrows(caused):
    page = unescape(caused.get(f"/jobs?{WEEK}&cause=idle_held").content.decode())

    for path in ("/findings", "/waste"):
        assert f'href="{path}?{WEEK}&cause=idle_held"' in page
    for path in ("/overview", "/fleet", "/costs", "/capacity"):
        assert f'href="{path}?{WEEK}"' in page


@pytest.mark.parametrize(
    ("query", "nodes"),
    [
        ("", ["n1", "n2"]),
        ("&user=bob", ["n2"]),
        ("&team=nlp", ["n1"]),
        ("&gpu_model=H100 SXM", ["n1", "n2"]),
        ("&gpu_model=L4", []),
        ("&cluster=erie", ["n2"]),
        ("&node=n2&kind=batch", []),
    ],
)
def test_nodes_and_gpus_of_the_api_are_narrowed_as_the_fleet_page(two, query, nodes):
    of_nodes = two.get(f"/api/v1/nodes?{WEEK}{query}").json()
    of_gpus = two.get(f"/api/v1/gpus?{WEEK}{query}").json()
    summary = two.get(f"/api/v1/fleet/summary?{WEEK}{query}").json()

    assert [row["name"] for row in of_nodes["rows"]] == nodes
    assert [row["node"] for row in of_gpus["rows"]] == nodes
    assert summary["states"]["idle"] == len(nodes) * 3_600_000


def test_budgets_are_narrowed_to_a_team(two):
    page = tight(main(two.get("/budgets?team=nlp")))

    assert "team nlp ×" in page
    assert 'href="/budgets/teams/nlp"' in page
    assert 'href="/budgets/teams/vision"' not in page


@pytest.mark.parametrize(
    ("query", "nodes"),
    [("node=n2", ["n2"]), ("gpu_model=H100 SXM", ["n1", "n2"]), ("gpu_model=L4", [])],
)
def test_agents_are_narrowed_to_a_node_and_to_a_gpu_model(two, query, nodes):
    answer = two.get(f"/agents?{query}")

    assert [agent.node.name for agent in answer.context["agents"]] == nodes


def test_a_chosen_value_without_time_stays_chosen(two):
    fields = tight(two.get(f"/filters?{WEEK}&node=gone").content.decode())

    assert '<option value="gone" selected>gone</option>' in fields


def test_a_hostile_name_in_a_field_is_text(two):
    name = '"><script>alert(1)</script>'
    an_entry(a_gpu(uuid="GPU-C", node="n3"), "idle", job=a_job(user=name))

    for page in (f"/filters?{WEEK}", f"/jobs?{WEEK}&user=%22%3E%3Cscript%3Ealert(1)%3C/script%3E"):
        assert "<script>alert" not in two.get(page).content.decode()


@pytest.mark.parametrize(("of", "has_column"), [("", True), ("&state=idle", False)])
def test_time_of_one_state_has_no_column_of_its_states(two, of, has_column):
    page = main(two.get(f"/waste?{WEEK}{of}"))

    assert ("GPU time by state" in page) is has_column


def test_by_cause_no_state_narrows_and_that_is_said(two):
    shown = two.get(f"/waste?{WEEK}&group_by=cause&state=idle")

    assert "A cause is of several states" in main(shown)
    assert "state idle ×" not in main(shown)
    assert two.get(f"/waste.csv?{WEEK}&group_by=cause&state=idle").status_code == 422


def test_a_stranger_is_led_to_the_log_in(client, two):
    client.logout()

    assert client.get("/filters").status_code == 302
    assert User.objects.exists()

"""An address never lies: what a page does not know of it is said, old names lead on, files
refuse.
"""

import re
from html import unescape

import pytest
import time_machine
from django.urls import get_resolver

from fleetwatch.dashboard import urls
from fleetwatch.dashboard.drawing import charts
from tests.costs.factories import a_gpu, a_job, an_entry
from tests.dashboard import fleet
from tests.dashboard.factories import NOW
from tests.markup import tight
from tests.shared_rows import shared_rows

pytestmark = pytest.mark.django_db

# they answer to forms alone, or to every method with a form's rules
FORMS = {
    "move-gpu", "remove-node", "set-idle-power", "finding_decide", "findings_act", "report_compute",
    "invoice_change", "budget_set", "theme", "settings_change", "claim", "drop_name", "make_token",
    "revoke_token", "invite", "withdraw", "person_change", "name_belongs", "drop_name_rule",
    "set_notifications", "incidents_act", "incident_act", "rule_change", "silence_add",
    "silence_end", "route_set", "view_save", "view_drop", "report_stop", "policy_try",
    "rule_back_test", "policy_back_test", "back_test_stop",
    "policy_trial_stop", "team_change", "action_policy_add", "action_policy_change",
    "incident_keep", "demo_load", "demo_remove", "rule_new",
}  # fmt: skip
NO_CAUSE = (
    "A cause can't narrow this: it is of the wasted time of jobs. Jobs, waste and the savings inbox"
    " are narrowed by `cause`. What you see is not narrowed by it."
)
CHARTS = "chart"  # each has its own (charts.CHARTS)


@pytest.fixture(scope="module")
def _small(django_db_setup, django_db_blocker):
    with shared_rows(django_db_blocker):
        with time_machine.travel(NOW, tick=False):
            fleet.make(nodes=1, gpus=2, hours=4)
        yield


@pytest.fixture
def small(_small, admin):
    return admin


def text(answer):
    return unescape(answer.content.decode())


def test_every_page_says_what_its_address_may_ask_for():
    pages = [
        each
        for each in urls.urlpatterns
        if each.name not in {None, CHARTS, "explain", "explain_csv", "favicon"} | FORMS
    ]

    assert [each.name for each in pages if not hasattr(each.callback, "parameters")] == []
    assert len(pages) > 30
    assert get_resolver() is not None


@pytest.mark.parametrize(
    ("address", "sentence"),
    [
        (
            "/?queue=gpu",
            (
                "There is no parameter 'queue': parameters are team, user, project, cost_centre,"
                " node, gpu_model, state, kind, cluster, label, from, to, range, tz, cmp, parts. What"
                " you see is not narrowed by it."
            ),
        ),
        (
            "/jobs?status=running",
            (
                "There is no parameter 'status': parameters are q, running, team, user, project, cost_centre,"
                " node, gpu_model,"
            ),
        ),
        (
            "/waste?zone=America/New_York",
            "There is no parameter 'zone': parameters are group_by, team,",
        ),
        (
            "/fleet?gpu=1",
            "There is no parameter 'gpu': parameters are view, metric, sort, only, open, after, team,",
        ),
        ("/findings?gpu=n1", "There is no parameter 'gpu': parameters are status, team,"),
        ("/budgets?from=now-7d", "There is no parameter 'from': parameters are team."),
        (
            "/agents?user=ann",
            "There is no parameter 'user': parameters are health,",
        ),
        ("/overview?cause=hung", NO_CAUSE),
        ("/costs?cause=hung", NO_CAUSE),
        ("/capacity?cause=hung", NO_CAUSE),
        ("/fleet?cause=hung", NO_CAUSE),
        ("/reports?team=nlp", "There is no parameter 'team': there are none here."),
        (
            "/pricing/calculator?since=now",
            "There is no parameter 'since': parameters are gpu_model,",
        ),
        ("/settings?tab=rates", "There is no parameter 'tab': parameters are edit."),
        ("/search?q=x&limit=3", "There is no parameter 'limit': parameters are q, kind."),
        ("/explain?team=nlp&gpus=1", "There is no parameter 'gpus': parameters are team,"),
        (
            "/explain?gpu=GPU-node-001-0&team=nlp",
            "There is no parameter 'team': parameters are gpu, job, state,",
        ),
    ],
)
def test_a_page_says_what_it_does_not_know(small, address, sentence):
    answer = small.get(address)

    assert answer.status_code == 200
    assert sentence in text(answer)
    assert "There is no parameter" not in text(small.get(address.partition("?")[0], follow=True))


@pytest.mark.parametrize(
    "address",
    [
        "/waste.csv?teams=nlp",
        "/worst?job=1",
        "/filters?gpu=1",
        "/charts/spend?model=H100&colour=1",
    ],
)
def test_a_file_or_a_fragment_refuses_it(small, address):
    answer = small.get(address, follow=True)

    assert answer.status_code == 422
    assert "There is no parameter" in answer.content.decode()


@pytest.mark.parametrize(("fragment", "parameters"), [("/worst", "parameters are team,")])
@pytest.mark.parametrize("query", ["range=7d", "from=now-7d&to=now"])
def test_a_fragment_of_a_time_of_its_own_takes_no_period(small, fragment, parameters, query):
    answer = small.get(f"{fragment}?{query}")

    assert answer.status_code == 422
    assert parameters in answer.content.decode()
    assert small.get(fragment, headers={"HX-Request": "true"}).status_code == 200


FILES = ("/waste.csv", "/worst", "/charts/spend")


@pytest.mark.parametrize("file", FILES)
@pytest.mark.parametrize(
    "query",
    [
        "from=x",
        "range=bogus",
        "from=now&to=now-7d",
        "from=now-1h&from=now-7d",
        "range=1h&from=now-7d",
        "from=now-4000d",
    ],
)
def test_a_file_of_a_period_that_cannot_be_read_is_not_one_of_another_period(small, file, query):
    answer = small.get(f"{file}?{query}")

    assert (answer.status_code, answer.headers["Content-Type"]) == (
        422,
        "text/plain; charset=utf-8",
    )
    # nothing is left to be said on the next page
    assert not list(small.get("/jobs").context["messages"])


@pytest.mark.parametrize(
    ("query", "sentence"),
    [
        (
            "team=a&team=b",
            "The parameter 'team' is there more than once. What you see is that of the last one.",
        ),
        ("range=1h&from=now-7d", "`range` is a whole period: leave out `from` and `to`, or it."),
    ],
)
def test_a_page_says_what_of_two_words_it_does_not_follow(small, query, sentence):
    assert sentence in text(small.get(f"/waste?{query}"))


def test_each_chart_knows_its_own(small):
    assert set(charts.CHARTS) | set(charts.METRICS) == set(charts.CHARTS)
    assert small.get("/charts/spend?node=node-001&as=csv").status_code == 200
    assert small.get("/charts/fleet?gpu=1").status_code == 422
    assert small.get("/charts/budget?from=now-1h").status_code == 422


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("/waste?from=now-7d&to=now&group=user", "/waste?from=now-7d&to=now&group_by=user"),
        ("/waste?group=user&group_by=job", "/waste?group_by=job"),
        ("/waste.csv?group=user", "/waste.csv?group_by=user"),
        ("/waste?model=H100+SXM", "/waste?gpu_model=H100+SXM"),
        ("/jobs?person=ann", "/jobs?user=ann"),
        ("/alerts?person=ann", "/alerts?user=ann"),
    ],
)
def test_an_old_name_leads_to_the_one_that_the_api_has(small, old, new):
    answer = small.get(old)

    assert (answer.status_code, answer.headers["Location"]) == (302, new)


def test_a_hostile_name_is_told_bounded_and_as_text(small):
    page = small.get("/waste", query_params={"<b>" * 50: "1"}).content.decode()

    assert "There is no parameter" in page
    assert "<b><b>" not in page
    assert page.count("&lt;b&gt;") == 20


@pytest.mark.parametrize(
    "group_by",
    ["team", "project", "cost_centre", "user", "job", "node", "gpu_model", "cause"],
)
def test_every_grouping_of_the_waste_page_links_to_its_csv(small, group_by):
    page = tight(text(small.get(f"/waste?range=24h&group_by={group_by}")))
    [link] = re.findall(r'<span class="more"><a href="(/waste\.csv[^"]*)"', page)
    file = small.get(unescape(link))

    assert file.status_code == 200
    assert file.headers["Content-Disposition"].endswith(f'fleetwatch-waste-by-{group_by}.csv"')
    assert file.content.decode().splitlines()[0].split(",")[2] == group_by


def test_a_csv_by_what_there_is_not_names_what_there_is(small):
    answer = small.get("/waste.csv?group_by=colour")

    assert answer.status_code == 422
    assert "There is no `group_by` 'colour'; there are team, project," in answer.content.decode()
    assert small.get("/waste.csv?group_by=").status_code == 200


def test_the_waste_page_and_its_csv_show_what_their_filters_name(admin):
    wide = a_gpu(uuid="GPU-A", model="H100 SXM", node="n1")
    other = a_gpu(uuid="GPU-B", model="L40S", node="n2")
    an_entry(wide, "idle", job=a_job(key="slurm/c/1", user="ann"), tier="certain")
    an_entry(other, "idle", job=a_job(key="slurm/c/2", user="bob"), tier="certain")
    period = "from=2026-11-01&to=2026-11-08&group_by=user"

    page = text(admin.get(f"/waste?{period}&gpu_model=L40S"))
    file = admin.get(f"/waste.csv?{period}&gpu_model=L40S").content.decode()

    assert "bob" in page
    assert "ann" not in page.partition("<main")[2]
    assert "gpu model L40S" in page.replace("GPU model", "gpu model")
    assert "bob" in file
    assert "ann" not in file

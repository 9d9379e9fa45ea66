"""Who sees what of others, where engineers and leads see what is of their teams and their own jobs:
every address and route of the API is asked, and what is others' bears a mark that stands nowhere.
"""

import re
from datetime import timedelta

import pytest

from fleetwatch.accounts import people, visibility
from fleetwatch.accounts.models import (
    AuditEntry,
    Identity,
    Organisation,
    OthersShown,
    Team,
    User,
)
from fleetwatch.accounts.services import create_api_token
from fleetwatch.accounts.visibility import OPEN, seeing, sight, sight_of
from fleetwatch.alerts.models import Incident
from fleetwatch.costs.mapping import attribution
from fleetwatch.costs.models import Attribution, MappingRule
from fleetwatch.costs.rates.subjects import BEGINNING
from fleetwatch.dashboard.selectors import bands
from fleetwatch.dashboard.views.waste import GROUPS
from fleetwatch.diagnosis.models import Finding, Said
from fleetwatch.figures import selectors as costs
from fleetwatch.figures.totals import Scope
from fleetwatch.inventory.models import GPU
from fleetwatch.jobs.models import Job
from fleetwatch.jobs.selectors import job, job_ids
from fleetwatch.lib.intervals import HOUR_MS
from tests import stored_runs
from tests.accounts.others import (
    DAY,
    MACHINE,
    NAME,
    OTHERS_KEY,
    OWN_KEY,
    PERSON,
    TEAM,
    USER,
    others_paths,
    own_actions,
    read_everything,
    shown,
    shown_of_others,
)
from tests.accounts.test_walk_api import ask, routes
from tests.accounts.walking import Walker, body, walker
from tests.dashboard import factories
from tests.dashboard.factories import NOW
from tests.diagnosis.told import diagnosed

pytestmark = pytest.mark.django_db
DAY_MS = 24 * HOUR_MS


@pytest.mark.parametrize("role", ["engineer", "lead"])
def test_no_page_shows_what_is_others_or_links_to_what_is_closed(role, split, others):
    reading = read_everything(walker(split.users[role]), split, others_paths(split, others))

    assert reading.wrong == []
    assert reading.closed() == []
    assert {"me", "jobs", "job", "waste", "waste_csv", "costs", "findings", "finding", "chart"} <= (
        reading.opened
    )
    assert reading.pages - OPEN - {
        "", "chart", "invitation", "unsubscribe", "keep_job", "agent_package", "agent_checksum", "agent_install_script"
    } == set()  # fmt: skip


@pytest.mark.parametrize(("role", "kind"), [("engineer", "read"), ("lead", "write")])
def test_no_route_of_the_api_shows_what_is_others(role, kind, split, others):
    token, by, wrong, opened = split.tokens[f"{role} {kind}"], Walker(), [], set()
    number = others.findings.get().pk
    of_waste = {
        "/api/v1/waste",
        *(f"/api/v1/waste?from=now-7d&group_by={group_by}" for group_by in GROUPS),
    }
    paths = [path for path, _, methods in routes(split) if "GET" in methods]
    narrowed = [
        *(f"/api/v1/jobs/{OTHERS_KEY}", f"/api/v1/findings/{number}"),
        *(f"/api/v1/jobs?user={USER}", f"/api/v1/jobs?team={TEAM}"),
        f"/api/v1/findings?assignee={PERSON}",
    ]
    for path in [*paths, *narrowed, *of_waste]:
        answer = ask(by, "GET", path, token)
        if answer.status_code == 200:
            opened.add(path)
            wrong += [(path, word) for word in shown_of_others(answer, path)]
        elif answer.status_code != 404:
            wrong.append((path, answer.status_code))

    assert wrong == []
    assert opened == {
        *of_waste,
        f"/api/v1/incidents/{Incident.objects.latest('pk').pk}",
        "/api/v1/openapi.json", "/api/v1/incidents", "/api/v1/silences", "/api/v1/routes",
        "/api/v1/preferences", "/api/v1/reports", "/api/v1/jobs",
        "/api/v1/actions", *own_actions(role, split),
        f"/api/v1/jobs/{OWN_KEY}", "/api/v1/findings", "/api/v1/findings/patterns", "/api/v1/me",
        f"/api/v1/findings/{split.finding.pk}", *narrowed[2:],
    }  # fmt: skip


@pytest.mark.parametrize("role", ["finance", "operator", "admin"])
def test_who_runs_the_fleet_sees_everything(role, split):
    by = walker(split.users[role])

    assert NAME in body(by.ask("GET", "/jobs?range=30d"))
    assert by.ask("GET", f"/jobs/{OTHERS_KEY}").status_code == 200
    assert by.ask("GET", "/fleet").status_code == 200


def test_everybody_sees_everything_unless_an_admin_says_otherwise(split):
    shown(OthersShown.EVERYTHING)
    by = walker(split.users["engineer"])

    assert NAME in body(by.ask("GET", "/jobs?range=30d"))
    assert by.ask("GET", "/fleet").status_code == 200


def test_what_is_others_answers_as_what_there_is_not(split, others):
    by, token = walker(split.users["engineer"]), split.tokens["engineer read"]
    number = others.findings.get().pk

    for there, not_there in (
        (f"/jobs/{OTHERS_KEY}", "/jobs/slurm/della/no-such"),
        (f"/findings/{number}", "/findings/999999"),
        ("/fleet", "/no-such-page"),
        (f"/nodes/{MACHINE}", "/nodes/no-such"),
        (f"/charts/finding?finding={number}", "/charts/finding?finding=999999"),
    ):
        assert by.ask("GET", there).status_code == 404
        assert by.ask("GET", not_there).status_code == 404
    for there, not_there in (
        (f"/api/v1/jobs/{OTHERS_KEY}", "/api/v1/jobs/slurm/della/no-such"),
        (f"/api/v1/findings/{number}", "/api/v1/findings/999999"),
        ("/api/v1/nodes", "/api/v1/no-such-route"),
        (f"/api/v1/gpus/GPU-{MACHINE}-0", "/api/v1/no-such-route"),
    ):
        answers = [ask(Walker(), "GET", path, token) for path in (there, not_there)]
        assert [answer.status_code for answer in answers] == [404, 404]
        texts = [
            body(answer).replace(OTHERS_KEY, "").replace(str(number), "") for answer in answers
        ]
        assert texts[0] == texts[1].replace("slurm/della/no-such", "").replace("999999", "")


@pytest.mark.parametrize("choice", ["teams", "pseudonyms"])
def test_who_is_given_a_finding_sees_its_job_and_decides_until_it_is_taken_back(
    choice, split, others
):
    shown(choice)
    finding, by = others.findings.get(), walker(split.users["engineer"])
    Finding.objects.filter(pk=finding.pk).update(assignee=split.users["engineer"])

    for path in (f"/findings/{finding.pk}", f"/jobs/{OTHERS_KEY}"):
        assert by.ask("GET", path).status_code == 200
    assert f'href="/findings/{finding.pk}' in body(by.ask("GET", "/findings?range=7d&status=open"))
    assert by.ask("POST", f"/findings/{finding.pk}/accept", {}).status_code == 302
    assert walker(split.users["lead"]).ask("GET", f"/jobs/{OTHERS_KEY}").status_code == 404

    Finding.objects.filter(pk=finding.pk).update(assignee=None)

    for path in (f"/findings/{finding.pk}", f"/jobs/{OTHERS_KEY}"):
        assert by.ask("GET", path).status_code == 404


@pytest.mark.parametrize(
    ("choice", "instead"),
    [("teams", "somebody of another team"), ("pseudonyms", r"person [0-9a-f]{10}")],
)
def test_who_decided_is_named_to_colleagues_and_where_he_runs_the_fleet(choice, instead, split):
    shown(choice)
    person = User.objects.get(username=PERSON)
    decisions = [
        (split.users["operator"], "assigned", f"to {PERSON}: he knows"),
        (person, "accepted", "will do"),
        (split.users["operator"], "assigned", "to nobody"),
        (split.users["lead"], "reopened", ""),
    ]
    for by, kind, note in decisions:
        Said.objects.create(finding=split.finding, kind=kind, by=by, at=NOW, note=note)

    for path in (f"/findings/{split.finding.pk}", f"/jobs/{OWN_KEY}?range=24h"):
        page = body(walker(split.users["lead"]).ask("GET", path))
        assert PERSON not in page
        assert len(re.findall(instead, page)) == 2
        for name in ("walker-operator", "walker-lead", "he knows", "to nobody"):
            assert name in page


@pytest.mark.parametrize("name", ["t", "to", "o"])
def test_a_short_name_is_replaced_where_it_stands_and_nowhere_else(name, split):
    shown("teams")
    User.objects.create(username=name)
    operator = split.users["operator"]
    Said.objects.create(
        finding=split.finding, kind="assigned", by=operator, at=NOW, note=f"to {name}: go on"
    )

    page = body(walker(split.users["lead"]).ask("GET", f"/findings/{split.finding.pk}"))

    assert "to somebody of another team: go on" in page


def test_the_band_of_a_job_that_passed_on_is_empty_where_it_was_another_teams(split):
    passed, gpu = Job.objects.get(key=OWN_KEY), GPU.objects.get(uuid="GPU-node-001-0")
    at = NOW - timedelta(hours=12)
    for start, team in ((BEGINNING, "nlp-research"), (at, TEAM)):
        Attribution.objects.filter(job=passed, valid_to=None).update(valid_to=start)
        Attribution.objects.create(
            job=passed, team=Team.objects.get(slug=team), valid_from=start, is_named=True
        )
    stored_runs.store(
        factories.run(gpu, hours_ago=24, hours=24, states={"idle": DAY_MS}, held_by=passed)
    )
    of_lead, of_owner = (sight_of(split.users[role]) for role in ("lead", "engineer"))

    with seeing(lambda: of_lead):
        of_team = bands([gpu.pk], DAY, job=passed)[gpu.pk]
    with seeing(lambda: of_owner):
        of_ann = bands([gpu.pk], DAY, job=passed)[gpu.pk]

    assert [(each.x, each.width) for each in of_team] == [("0.000%", "50.000%")]
    assert [(each.x, each.width) for each in of_ann] == [("0.000%", "100.000%")]
    explained = f"/explain?gpu={gpu.uuid}&job={OWN_KEY}"
    assert walker(split.users["lead"]).ask("GET", explained).status_code == 404
    assert walker(split.users["engineer"]).ask("GET", explained).status_code == 200


@pytest.mark.parametrize("choice", ["teams", "pseudonyms"])
def test_the_budget_of_the_own_team_is_open(choice, split):
    shown(choice)
    by = walker(split.users["lead"])

    assert "$100" in body(by.ask("GET", "/budgets/teams/nlp-research"))
    assert by.ask("GET", "/charts/budget?team=nlp-research").status_code == 200
    for closed in (f"/budgets/teams/{TEAM}", "/budgets/fleet", "/budgets", "/charts/budget"):
        assert by.ask("GET", closed).status_code == 404
    assert (
        walker(split.users["engineer"]).ask("GET", "/budgets/teams/nlp-research").status_code == 404
    )


def test_nobody_decides_about_a_finding_that_he_does_not_see(split, others):
    finding = others.findings.get()
    for action in ("accept", "confirm"):
        path = f"/findings/{finding.pk}/{action}"
        assert walker(split.users["lead"]).ask("POST", path, {}).status_code == 404
        token = split.tokens["lead write"]
        headers = {"Authorization": f"Bearer {token}"}
        answer = Walker().ask("POST", f"/api/v1{path}", json={"note": "x"}, **headers)
        assert answer.status_code == 404


def test_of_several_findings_those_that_he_does_not_see_are_as_those_there_are_not(split, others):
    by, sent = walker(split.users["lead"]), {"action": "accept"}
    said = [
        body(by.post("/findings/act", {**sent, "id": [pk]}, follow=True))
        for pk in (others.findings.get().pk, 999999)
    ]

    assert ["Nothing ticked is still" in text for text in said] == [True, True]
    assert ["not done" in text for text in said] == [False, False]
    assert AuditEntry.objects.filter(action="finding.accept").count() == 0
    both = {**sent, "id": [split.finding.pk, others.findings.get().pk]}
    assert "1 finding accepted." in body(by.post("/findings/act", both, follow=True))


def test_filters_offer_what_the_reader_sees(split):
    fields = body(walker(split.users["lead"]).ask("GET", "/filters?of=findings&range=7d"))

    assert all(name in fields for name in ("nlp-research", "ann", MACHINE))
    for word in (TEAM, USER, PERSON):
        assert word not in fields


def test_who_is_in_no_team_of_ones_own_is_nobody_to_give_a_finding_to(split):
    path, by = f"/findings/{split.finding.pk}/assign", walker(split.users["engineer"])
    texts = [
        body(by.ask("POST", path, {"assignee": name})).replace(name, "")
        for name in (PERSON, "nobody-is-called-so")
    ]

    assert "there is no active user" in texts[0]
    assert "is in no team of yours" not in texts[0]


def test_an_admins_token_as_an_engineer_sees_what_the_admin_owns(split):
    answer = ask(Walker(), "GET", "/api/v1/jobs", split.tokens["admin as engineer"])

    assert answer.json()["rows"] == []


def test_a_lead_sees_the_teams_time_and_an_engineer_the_own(split, others):
    whole = costs.totals(DAY, scope=Scope()).capacity_ms
    of_ann = costs.totals(DAY, scope=Scope(user="ann")).capacity_ms
    of_team = costs.totals(DAY, scope=Scope(team="nlp-research")).capacity_ms

    seen = {}
    for role in ("engineer", "lead"):
        what = sight_of(split.users[role])
        with seeing(lambda what=what: what):
            seen[role] = costs.totals(DAY).capacity_ms
            assert costs.look(DAY, "job").unheld().totals().capacity_ms == 0
            assert costs.totals(DAY, scope=Scope(job=OTHERS_KEY)).capacity_ms == 0
            assert costs.totals(DAY, scope=Scope(node=MACHINE)).capacity_ms == seen[role]
            assert job(OTHERS_KEY) is None
            assert others.pk not in (job_ids(text="slurm") or [])

    assert seen == {"engineer": of_ann, "lead": of_team}
    assert 0 < of_ann < whole


def test_a_team_that_was_left_is_not_seen_any_more(split):
    lead = split.users["lead"]
    assert sight_of(lead).team_ids == {Team.objects.get(slug="nlp-research").pk}

    lead.memberships.update(valid_until=NOW)

    assert sight_of(lead).team_ids == set()
    assert body(walker(lead).ask("GET", "/jobs?range=30d")).count(OWN_KEY) == 0


def test_who_joins_the_team_sees_its_job(split, others):
    people.join(split.users["engineer"], others.team, since=NOW - timedelta(days=1))
    by = walker(split.users["engineer"])

    assert by.ask("GET", f"/jobs/{OTHERS_KEY}").status_code == 200
    assert NAME in body(by.ask("GET", "/jobs?range=30d"))


def test_a_name_that_waits_for_an_admin_shows_nothing(split):
    lead = split.users["lead"]
    people.give_name(lead, people.Name("unix", USER), source=Identity.Source.CLAIM, now=NOW)

    assert walker(lead).ask("GET", f"/jobs/{OTHERS_KEY}").status_code == 404


def test_what_is_chosen_is_written_down_once(split):
    admin = walker(split.users["admin"])
    admin.post("/settings/access", {"second_factor": "each", "others_shown": "everything"})
    admin.post("/settings/access", {"second_factor": "each", "others_shown": "everything"})
    admin.post("/settings/access", {"second_factor": "each"})

    entry = AuditEntry.objects.get(action="access.others_shown")
    assert (entry.subject, entry.detail) == ("everything", {"before": "teams"})
    assert Organisation.objects.get().others_shown == OthersShown.EVERYTHING


@pytest.mark.parametrize("choice", ["nobody", "TEAMS"])
def test_what_can_not_be_chosen_changes_nothing(choice, split):
    sent = {"second_factor": "each", "others_shown": choice}
    answer = walker(split.users["admin"]).post("/settings/access", sent)

    assert answer.status_code == 422
    assert Organisation.objects.get().others_shown == OthersShown.OWN_TEAMS


def test_commands_and_tasks_see_everything(split):
    assert sight() is None
    assert job(OTHERS_KEY) is not None


def test_a_token_of_another_person_is_judged_by_that_person(split):
    token = create_api_token(split.users["operator"], scope="read", now=NOW)

    assert NAME in body(ask(Walker(), "GET", "/api/v1/jobs?from=now-7d", token))
    assert not visibility.is_open(None)


def test_of_a_job_that_passed_to_another_team_a_lead_sees_the_time_that_was_the_teams(split):
    passed = Job.objects.get(key=OWN_KEY)
    at = NOW - timedelta(hours=4)  # it held a GPU from 6 to 2 hours ago
    MappingRule.objects.create(
        user="ann", team=Team.objects.get(slug=TEAM), priority=1, valid_from=at, created_at=NOW
    )
    attribution.attribute([passed.pk])
    of_lead = sight_of(split.users["lead"])
    of_owner = sight_of(split.users["engineer"])

    with seeing(lambda: of_lead):
        of_team = costs.totals(DAY, scope=Scope(job=OWN_KEY)).capacity_ms
        assert job(OWN_KEY) == passed
    with seeing(lambda: of_owner):
        of_ann = costs.totals(DAY, scope=Scope(job=OWN_KEY)).capacity_ms

    assert (of_team, of_ann) == (2 * HOUR_MS, 4 * HOUR_MS)


def test_a_rule_that_gives_a_job_to_another_team_takes_it_from_the_accounts(split):
    Attribution.objects.create(
        job=Job.objects.get(key=OWN_KEY),
        team=Team.objects.get(slug=TEAM),
        valid_from=BEGINNING,
        is_named=True,
    )

    assert walker(split.users["lead"]).ask("GET", f"/jobs/{OWN_KEY}").status_code == 404
    assert walker(split.users["engineer"]).ask("GET", f"/jobs/{OWN_KEY}").status_code == 200


def test_a_namesake_on_a_cluster_of_somebody_elses_is_not_ones_own(split, others):
    engineer = split.users["engineer"]
    Identity.objects.filter(name=USER).update(cluster="della")
    people.give_name(engineer, people.Name("unix", USER), source=Identity.Source.ADMIN, now=NOW)

    assert others.cluster == "della"
    assert walker(engineer).ask("GET", f"/jobs/{OTHERS_KEY}").status_code == 404


def test_who_has_neither_team_nor_name_sees_no_job(split):
    nobody = sight_of(factories.user(role="engineer", username="walker-nobody"))

    with seeing(lambda: nobody):
        assert costs.totals(DAY).capacity_ms == 0
        assert job(OWN_KEY) is None
        assert job_ids(text="slurm") == []


def test_a_reader_of_everything_asks_nothing_more(split, django_assert_num_queries):
    with django_assert_num_queries(0):
        assert [sight_of(split.users[role]) for role in ("finance", "operator", "admin")] == [
            None, None, None
        ]  # fmt: skip
    shown(OthersShown.EVERYTHING)
    with django_assert_num_queries(1):
        assert sight_of(split.users["engineer"]) is None


@pytest.mark.parametrize(
    ("theirs", "nothing"),
    [
        (f"/charts/spend?job={OTHERS_KEY}", "/charts/spend?job=slurm/della/no-such"),
        (f"/charts/spend?team={TEAM}", "/charts/spend?team=no-such"),
        (f"/charts/spend?user={USER}", "/charts/spend?user=no-such"),
        (f"/api/v1/waste?user={USER}", "/api/v1/waste?user=no-such"),
        (f"/api/v1/waste?job={OTHERS_KEY}", "/api/v1/waste?job=no-such"),
        (f"/api/v1/findings?job={OTHERS_KEY}", "/api/v1/findings?job=no-such"),
        (f"/api/v1/findings?assignee={PERSON}", "/api/v1/findings?assignee=no-such"),
    ],
)
def test_a_filter_by_what_is_others_finds_what_one_by_nothing_finds(theirs, nothing, split):
    by = walker(split.users["lead"])
    answers = [by.ask("GET", path) for path in (theirs, nothing)]

    assert answers[0].status_code == answers[1].status_code
    assert body(answers[0]) == body(answers[1])


def test_a_session_is_let_into_no_closed_route_of_the_api(split):
    by = walker(split.users["lead"])

    for path in ("/api/v1/nodes", "/api/v1/fleet/summary", "/api/v1/rules", "/metrics"):
        assert by.ask("GET", path).status_code == 404


def test_how_many_hours_of_nodes_there_are_is_not_told_where_machines_are_closed(split):
    diagnosed(NOW - timedelta(days=2), version=1, posted=2)
    by = walker(split.users["lead"])

    for choice, is_told in (("teams", False), ("pseudonyms", True)):
        shown(choice)
        page = body(by.ask("GET", "/findings?range=7d&status=open"))
        assert "Causes are still being determined" in page
        assert ("node-hours of this period" in page) is is_told

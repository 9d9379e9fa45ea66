"""Engineers and leads to whom others have pseudonyms: the figures are everybody's, and a name that
is others' stands nowhere.
"""

import re
from datetime import timedelta

import pytest

from fleetwatch.accounts import people
from fleetwatch.accounts.models import Organisation, OthersShown, Team
from fleetwatch.accounts.visibility import OPEN, OPEN_WITH_PSEUDONYMS, seeing, sight_of
from fleetwatch.alerts.models import Incident
from fleetwatch.costs.models import Attribution
from fleetwatch.costs.rates.subjects import BEGINNING
from fleetwatch.dashboard.views.waste import GROUPS
from fleetwatch.figures import selectors as costs
from fleetwatch.figures.totals import Scope
from fleetwatch.inventory.models import GPU
from fleetwatch.jobs.models import Job
from fleetwatch.lib.intervals import HOUR_MS
from fleetwatch.lib.pseudonyms import opened, pseudonym, sealed
from tests import stored_runs
from tests.accounts.others import (
    COST_CENTRE,
    DAY,
    NAME,
    OTHERS_KEY,
    OWN_KEY,
    PERSON,
    RULED,
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

pytestmark = pytest.mark.django_db

KEY = "k" * 32
ROLES = ("engineer", "lead")
OF_WASTE = [
    "/api/v1/waste?from=now-7d",
    *(f"/api/v1/waste?from=now-7d&group_by={group_by}" for group_by in GROUPS),
]
OF_API = [*OF_WASTE, "/api/v1/fleet/summary", "/api/v1/jobs?from=now-7d", "/api/v1/findings"]


@pytest.fixture
def split(split):
    """Where the other team's job idles now."""
    gpu, job = GPU.objects.get(uuid="GPU-node-001-1"), Job.objects.get(key=OTHERS_KEY)
    stored_runs.store(
        factories.run(gpu, hours_ago=1, hours=1, states={"idle": HOUR_MS}, held_by=job)
    )
    shown(OthersShown.PSEUDONYMS)
    return split


@pytest.mark.parametrize("role", ROLES)
def test_no_page_names_others_or_links_to_what_is_closed(role, split, others):
    reading = read_everything(walker(split.users[role]), split, others_paths(split, others))

    assert reading.wrong == []
    assert reading.closed() == []
    assert {"me", "jobs", "waste", "waste_csv", "findings", "overview"} <= (reading.opened)
    assert reading.pages - OPEN - OPEN_WITH_PSEUDONYMS - {
        "", "chart", "invitation", "unsubscribe", "keep_job", "agent_package", "agent_checksum", "agent_install_script"
    } == set()  # fmt: skip


@pytest.mark.parametrize(("role", "kind"), [("engineer", "read"), ("lead", "write")])
def test_no_route_of_the_api_names_others(role, kind, split, others):
    token, by, wrong, opened_paths = split.tokens[f"{role} {kind}"], Walker(), [], set()
    paths = [path for path, _, methods in routes(split) if "GET" in methods]
    named = [f"/api/v1/jobs/{OTHERS_KEY}", f"/api/v1/findings/{others.findings.get().pk}"]
    for path in [*paths, *named, *OF_API]:
        answer = ask(by, "GET", path, token)
        if answer.status_code == 200:
            opened_paths.add(path)
            wrong += [(path, word) for word in shown_of_others(answer, path)]
        elif answer.status_code != 404:
            wrong.append((path, answer.status_code))

    assert wrong == []
    assert opened_paths == {
        *OF_API,
        "/api/v1/openapi.json", "/api/v1/reports", "/api/v1/waste", "/api/v1/jobs",
        f"/api/v1/jobs/{OWN_KEY}", f"/api/v1/findings/{split.finding.pk}",
        "/api/v1/incidents", "/api/v1/silences", "/api/v1/routes",
        "/api/v1/preferences", "/api/v1/findings/patterns", "/api/v1/me",
        "/api/v1/actions", *own_actions(role, split),
        f"/api/v1/incidents/{Incident.objects.latest('pk').pk}",
    }  # fmt: skip


FIGURES = re.compile(r'"(\w*(?:usd|hours|_ms|low|high)\w*)": ?("?-?[\d.]+"?)')


@pytest.mark.parametrize("path", OF_API)
def test_figures_are_those_that_an_admin_reads(path, split):
    answers = [
        body(ask(Walker(), "GET", path, split.tokens[kind]))
        for kind in ("admin read", "engineer read", "lead read")
    ]
    admins, engineers, leads = (sorted(FIGURES.findall(text)) for text in answers)

    assert engineers == leads == admins
    assert len(admins) > 10
    if path not in (f"{OF_WASTE[0]}&group_by={name}" for name in ("node", "gpu_model", "cause")):
        assert (NAME in answers[0] or USER in answers[0] or TEAM in answers[0]) is (
            "summary" not in path and "project" not in path and "centre" not in path
        )


def test_pages_have_the_figures_that_an_admin_sees(split):
    money = re.compile(r'title="(\$[\d.,]+)"')
    for path in ("/overview?range=7d", "/waste?range=7d&group_by=user", "/jobs?range=7d"):
        shown_to = [
            sorted(money.findall(body(walker(split.users[role]).ask("GET", path))))
            for role in ("admin", "lead")
        ]
        missing = [usd for usd in shown_to[1] if usd not in shown_to[0]]
        assert (missing, len(shown_to[1]) > 3) == ([], True)


def told_of(reader, field: str) -> dict[str, int]:
    """GPU time by what the reader is told of each group."""
    what = sight_of(reader)
    with seeing(lambda: what):
        return {group.key: group.totals.capacity_ms for group in costs.totals_by(DAY, field)}


def test_a_pseudonym_is_the_same_wherever_it_stands(split, settings):
    person = pseudonym("person", USER, secret=settings.SECRET_KEY)

    assert re.fullmatch(r"person [0-9a-f]{10}", person)
    for role in ROLES:
        by = walker(split.users[role])
        assert person in told_of(split.users[role], "user")
        for path in (
            "/jobs?range=7d",
            "/findings?status=open",
            "/waste?group_by=user",
            "/overview",
        ):
            assert person in body(by.ask("GET", path)), path


def test_a_pseudonym_is_another_one_under_another_key(split, settings):
    before = told_of(split.users["lead"], "user")
    settings.SECRET_KEY = KEY

    after = told_of(split.users["lead"], "user")

    assert sorted(after.values()) == sorted(before.values())
    assert not any(name.startswith("person ") for name in set(before) & set(after))
    assert pseudonym("person", USER, secret=KEY) in after


def test_nobody_works_a_pseudonym_out_without_the_key():
    assert pseudonym("person", "bo", secret=KEY) == pseudonym("person", "bo", secret=KEY)
    assert pseudonym("person", "bo", secret=KEY) != pseudonym("team", "bo", secret=KEY)
    assert pseudonym("person", "bo", secret=KEY) != pseudonym("person", "bo", secret=KEY + "k")


def test_a_sealed_number_is_opened_by_its_key_alone():
    shut = sealed("job", 7, secret=KEY)

    assert opened("job", shut, secret=KEY) == 7
    assert opened("job", shut, secret=KEY + "k") is None
    for text in (shut[:-4] + "AAAA", "job-", "job-7", "slurm/della/7", "", "job-é"):
        assert opened("job", text, secret=KEY) is None
    assert opened("team", shut.replace("job", "team"), secret=KEY) is None


@pytest.mark.parametrize(
    ("field", "kind", "name"),
    [
        ("user", "person", USER),
        ("team", "team", TEAM),
        ("project", "project", RULED),
        ("cost_centre", "cost centre", COST_CENTRE),
        ("job", "job", OTHERS_KEY),
    ],
)
def test_a_pseudonym_narrows_to_what_it_stands_for_and_a_name_to_nothing(
    field, kind, name, split, others, settings
):
    what = sight_of(split.users["lead"])
    secret = settings.SECRET_KEY
    told = (
        sealed(kind, others.pk, secret=secret)
        if kind == "job"
        else pseudonym(kind, name, secret=secret)
    )
    with seeing(lambda: what):
        by_name = costs.totals(DAY, scope=Scope(**{field: name}))
        by_pseudonym = costs.totals(DAY, scope=Scope(**{field: told}))

    assert told in told_of(split.users["lead"], field)
    assert (by_name.capacity_ms, by_pseudonym.capacity_ms) == (0, HOUR_MS)


def test_equal_users_are_ordered_by_what_the_reader_is_told(split):
    gpu = GPU.objects.get(uuid="GPU-node-001-1")
    for letter in "abcdef":
        held_by = factories.job(f"slurm/della/q{letter}", user=f"q{letter}", team=TEAM)
        factories.entry(gpu, hours_ago=15, state="idle", gpu_ms=60_000, held_by=held_by).save()
    what = sight_of(split.users["lead"])

    with seeing(lambda: what):
        groups = costs.wasters(DAY, 20).users.groups

    equal = [group.key for group in groups if group.totals.wasted_ms == 60_000]
    assert len(equal) == 6
    assert equal == sorted(equal)


def test_a_label_finds_no_job_whose_labels_are_not_shown(split, others):
    Job.objects.filter(pk=others.pk).update(labels={"env": "prod"})
    what = sight_of(split.users["lead"])

    assert costs.totals(DAY, scope=Scope(label="env=prod")).capacity_ms == HOUR_MS
    with seeing(lambda: what):
        assert costs.totals(DAY, scope=Scope(label="env=prod")).capacity_ms == 0


def test_search_and_filters_find_nobody_by_a_name_that_is_others(split):
    by = walker(split.users["lead"])
    for theirs, nothing in (
        (f"/search?q={USER}", "/search?q=no-such"),
        (f"/search?q={NAME}", "/search?q=no-such"),
        (f"/jobs?q={NAME}", "/jobs?q=no-such"),
        (f"/jobs?user={USER}", "/jobs?user=no-such"),
        (f"/waste.csv?team={TEAM}", "/waste.csv?team=no-such"),
        (f"/findings?job={OTHERS_KEY}", "/findings?job=no-such"),
        (f"/api/v1/findings?assignee={PERSON}", "/api/v1/findings?assignee=no-such"),
        (f"/api/v1/jobs?user={USER}", "/api/v1/jobs?user=no-such"),
    ):
        marked, plain = theirs.partition("=")[2], nothing.partition("=")[2]
        answers = [body(by.ask("GET", path)) for path in (theirs, nothing)]
        assert shown_of_others(by.ask("GET", theirs), theirs) == []
        if "/api/" in theirs or ".csv" in theirs:
            assert answers[0].replace(marked, plain) == answers[1]


def test_what_is_others_has_no_page(split, others):
    by = walker(split.users["engineer"])
    sealed_key = next(key for key in told_of(split.users["engineer"], "job") if "job-" in key)

    for path in (f"/jobs/{OTHERS_KEY}", f"/jobs/{sealed_key}", "/fleet", "/nodes/node-001"):
        assert by.ask("GET", path).status_code == 404


def test_a_colleague_has_his_name_where_his_job_is_another_teams(split):
    job = Job.objects.get(key=OWN_KEY)
    theirs = factories.job("slurm/della/zz-2", name=NAME, user=job.user, team=TEAM)
    gpu = GPU.objects.get(uuid="GPU-node-001-1")
    factories.entry(gpu, hours_ago=10, state="idle", gpu_ms=HOUR_MS, held_by=theirs).save()
    Attribution.objects.filter(job=theirs).delete()
    Attribution.objects.create(
        job=theirs, team=Team.objects.get(slug=TEAM), valid_from=BEGINNING, is_named=True
    )

    page = body(walker(split.users["lead"]).ask("GET", "/jobs?range=7d"))

    assert NAME not in page
    assert TEAM not in page
    assert job.user in page


def test_who_joins_the_team_reads_its_names(split, others):
    people.join(split.users["lead"], others.team, since=NOW - timedelta(days=1))
    page = body(walker(split.users["lead"]).ask("GET", "/jobs?range=30d"))

    assert (NAME in page, USER in page, TEAM in page) == (True, True, True)


def test_pseudonyms_are_chosen_in_the_form(split):
    admin = walker(split.users["admin"])
    shown(OthersShown.EVERYTHING)
    assert 'value="pseudonyms"' in body(admin.ask("GET", "/settings/general"))

    answer = admin.post("/settings/access", {"second_factor": "each", "others_shown": "pseudonyms"})

    assert answer.status_code in (200, 302)
    assert Organisation.objects.get().others_shown == OthersShown.PSEUDONYMS

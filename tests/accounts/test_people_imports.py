"""People by a CSV file: all of it or nothing, shown before it is so, twice is once."""

import pytest

from fleetwatch.accounts.models import AuditEntry, Identity, Team, User
from fleetwatch.accounts.people import (
    Name,
    NewPerson,
    create_person,
    deactivate,
    give_name,
    join,
    teams_of,
)
from fleetwatch.accounts.people_imports import dry_run, import_people
from fleetwatch.lib.csv_files.csv_rows import RefusedError
from tests.dashboard.factories import NOW

pytestmark = pytest.mark.django_db

HEADER = "user,system,cluster,name,email,role,team\n"


@pytest.fixture
def nlp():
    return Team.objects.create(slug="nlp", name="Language")


@pytest.fixture
def ann():
    return create_person(NewPerson("ann", role="admin"), now=NOW)


@pytest.fixture
def bo():
    return create_person(NewPerson("bo", "bo@example.org"), now=NOW)


def put(lines: str, header: str = HEADER):
    return import_people((header + lines).encode(), now=NOW)


def changes(lines: str) -> list[tuple[int, str, str, str, str]]:
    would = dry_run((HEADER + lines).encode(), now=NOW).would
    return [(each.line, each.user, each.kind, each.before, each.after) for each in would.changes]


def faults(lines: str, header: str = HEADER) -> list[tuple[int, str, str]]:
    with pytest.raises(RefusedError) as refused:
        put(lines, header)
    return [(fault.line, fault.field, fault.text) for fault in refused.value.faults]


LINES = """\
cy,,alps,cyril,cy@example.org,lead,nlp
cy,kubernetes,,cy-space,,,
bo,slack,,U012,bo@else.org,finance,
bo,,,,,,nlp
"""


@pytest.mark.usefixtures("nlp", "bo")
def test_a_file_makes_who_is_new_and_changes_who_is_there():
    done = put(LINES)

    cy, bo = User.objects.get(username="cy"), User.objects.get(username="bo")
    assert (done.set, done.stood) == (2, 0)
    assert (cy.role, cy.email, cy.has_usable_password()) == ("lead", "cy@example.org", False)
    assert (bo.role, bo.email) == ("finance", "bo@else.org")
    assert [team.slug for user in (cy, bo) for team in teams_of(user, NOW)] == ["nlp", "nlp"]
    rows = Identity.objects.filter(confirmed_at=NOW, source="csv").order_by("name")
    assert [(row.user, row.system, row.cluster, row.name) for row in rows] == [
        (bo, "slack", "", "U012"),
        (cy, "kubernetes", "", "cy-space"),
        (cy, "unix", "alps", "cyril"),
    ]
    assert AuditEntry.objects.filter(action="name.give").count() == 3


@pytest.mark.usefixtures("nlp", "bo")
def test_what_it_would_change_is_shown_and_nothing_is_written():
    before = AuditEntry.objects.count()

    assert changes(LINES) == [
        (2, "cy", "account", "", "lead"),
        (2, "cy", "team", "", "Language"),
        (2, "cy", "name", "", "cyril on alps, Unix or Slurm user"),
        (3, "cy", "name", "", "cy-space, Kubernetes namespace or annotation"),
        (4, "bo", "role", "engineer", "finance"),
        (4, "bo", "email", "bo@example.org", "bo@else.org"),
        (4, "bo", "name", "", "U012, Slack member"),
        (5, "bo", "team", "", "Language"),
    ]
    assert not User.objects.filter(username="cy").exists()
    assert not Identity.objects.exists()
    assert AuditEntry.objects.count() == before


@pytest.mark.usefixtures("nlp", "bo")
def test_twice_is_once():
    put(LINES)
    before = AuditEntry.objects.count()

    again = put(LINES)

    assert (again.set, again.stood, again.changes) == (0, 2, ())
    assert AuditEntry.objects.count() == before


def test_a_name_with_other_capitals_is_the_same_user(bo):
    put("Bo,,,bob,,,\n")

    assert User.objects.get() == bo
    assert Identity.objects.get().user == bo


def test_what_the_file_does_not_say_stays(bo, nlp):
    join(bo, nlp, since=NOW)
    give_name(bo, Name("unix", "old"), source="admin", now=NOW)

    put("bo,,,new,,,\n")

    bo.refresh_from_db()
    assert (bo.email, teams_of(bo, NOW)) == ("bo@example.org", [nlp])
    assert {each.name for each in bo.identities.all()} == {"old", "new"}


def test_a_claim_that_the_file_names_counts_from_now_on(bo):
    give_name(bo, Name("unix", "bob"), source="claim", now=NOW)

    assert put("bo,,,bob,,,\n").set == 1
    assert Identity.objects.get().confirmed_at == NOW


@pytest.mark.usefixtures("ann", "bo")
@pytest.mark.parametrize(
    ("lines", "fault"),
    [
        (",,,bob,,,", (2, "user", "Whose line is it?")),
        ("b o,,,,,,", (2, "user", "Enter a valid username")),
        (f"{'x' * 151},,,,,,", (2, "user", "at most 150")),
        ("bo,irc,,bob,,,", (2, "system", "there is no system 'irc'")),
        ("bo,slack,,,,,", (2, "name", "Which name there?")),
        ("bo,,alps,,,,", (2, "name", "Which name there?")),
        (f"bo,,,{'x' * 256},,,", (2, "name", "1 to 255 characters")),
        ("bo,,,,nowhere,,", (2, "email", "valid email")),
        ("cy,,,,nowhere,,", (2, "email", "valid email")),
        ("bo,,,,,king,", (2, "role", "there is no role 'king'")),
        ("bo,,,,,,nowhere", (2, "team", "there is no team 'nowhere'")),
        ("ann,,,,,lead,", (2, "role", "somebody has to stay admin")),
        ("bo,,,same,,,\nann,,,same,,,", (3, "name", "somebody else’s")),
        ("bo,,,,,lead,\nbo,,,,,finance,", (3, "role", "line 2 says 'lead'")),
        ("cy,,,,,lead,\ncy,,,,,finance,", (3, "role", "line 2 says 'lead'")),
        ('bo,,,"two\nlines",,,', (2, "name", "no control characters")),
    ],
)
def test_a_wrong_line_is_told_by_line_and_field_and_nothing_is_written(lines, fault):
    before = AuditEntry.objects.count()

    [(line, field, text)] = faults(lines)

    assert (line, field) == fault[:2]
    assert fault[2] in text
    assert AuditEntry.objects.count() == before
    assert not Identity.objects.exists()


def test_every_wrong_line_is_told_at_once(bo):
    places = [(line, column) for line, column, _ in faults("bo,,,,,king,\ncy,irc,,c,,,\nbo,,,b,,,")]

    assert places == [(2, "role"), (3, "system")]
    assert not User.objects.filter(username="cy").exists()


def test_who_is_out_is_let_in_first(ann, bo):
    deactivate(bo, now=NOW)

    assert faults("bo,,,bob,,,") == [(2, "user", "bo is out: let the person in first")]


def test_a_file_of_a_thousand_users_is_taken_and_one_more_is_not():
    lines = "".join(f"user{number}\n" for number in range(1_000))

    assert put(lines, "user\n").set == 1_000
    assert faults(lines + "more\n", "user\n") == [
        (1002, "", "There are more than 1,000 rows in it.")
    ]


@pytest.mark.parametrize("header", ["name,email\n", "user,salary\n"])
def test_columns_that_can_not_be_are_told(header):
    assert faults("a,b\n", header)[0][0] == 1

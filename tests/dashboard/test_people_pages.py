"""People and the audit log: an admin invites, gives roles, teams and names, and ends accounts;
what was done stands in a log that only grows.
"""

import csv
import io
import json
import re
from datetime import timedelta

import pytest
import time_machine
from allauth.mfa.models import Authenticator
from django.core.management import CommandError, call_command
from django.test import Client

from fleetwatch.accounts.log_in.second_factor import set_required
from fleetwatch.accounts.models import AuditEntry, Identity, Invitation, Team, User
from fleetwatch.accounts.people import Name, NewPerson, create_person, give_name, teams_of
from tests.dashboard import factories
from tests.dashboard.factories import NOW
from tests.markup import tight
from tests.notify.factories import email_channel

pytestmark = pytest.mark.django_db

MINUTE = timedelta(minutes=1)
PASSWORD = "correct horse battery staple"
LINK = re.compile(r"/accounts/invitations/(fw_[A-Za-z0-9_-]{43})/")


@pytest.fixture
def nlp():
    return Team.objects.create(slug="nlp", name="Language")


@pytest.fixture
def bo(nlp):
    return create_person(NewPerson("bo", "bo@example.org", team=nlp, password=PASSWORD), now=NOW)


@pytest.fixture
def later():
    """The clock, to be moved on."""
    with time_machine.travel(NOW, tick=False) as clock:
        yield clock


def text(answer) -> str:
    return tight(answer.content.decode())


def post(client: Client, user: User, action: str, **sent: str):
    return client.post(f"/settings/people/{user.pk}/{action}", sent)


def link_in(page: str) -> str:
    return LINK.search(page)[0]


POSTS = [
    "/settings/people/rules",
    "/settings/people/rules/1/drop",
    "/settings/people/import",
    "/settings/people/invite",
    "/settings/people/invitations/1/withdraw",
    *(f"/settings/people/1/{action}" for action in ("role", "join", "password", "deactivate")),
]
PAGES = [
    "/settings/people",
    "/settings/people/import",
    "/settings/people/rules",
    "/settings/people/1",
    "/settings/audit",
    "/settings/audit.csv",
]


@pytest.mark.usefixtures("_frozen")
@pytest.mark.parametrize("role", ["engineer", "lead", "finance", "operator"])
def test_who_is_no_admin_sees_no_people_and_changes_none(client, role):
    client.force_login(factories.user(role=role))

    assert [client.get(page).status_code for page in PAGES] == [403] * len(PAGES)
    assert [client.post(address).status_code for address in POSTS] == [403] * len(POSTS)
    assert not AuditEntry.objects.exclude(action="login.enter").exists()


def test_a_stranger_is_sent_to_the_log_in(client):
    answers = [*map(client.get, PAGES), *map(client.post, POSTS)]

    assert all(answer["Location"].startswith("/accounts/login/") for answer in answers)


def test_everybody_is_listed_with_role_team_and_names_and_found_by_any_of_them(admin, bo):
    give_name(bo, Name("unix", "bob", "alps"), source="admin", now=NOW)
    create_person(NewPerson("cy", "cy@else.org"), now=NOW)

    for asked in ("", "?q=BO", "?q=bob", "?q=bo@exam"):
        page = text(admin.get(f"/settings/people{asked}"))
        assert all(each in page for each in ("bo@example.org", "Engineer", "Language", "bob"))
        assert ("cy@else.org" in page) == (asked == "")
    assert "No person of that name" in text(admin.get("/settings/people?q=zz"))


def test_an_invitation_makes_one_account_with_its_role_and_team(admin, nlp):
    page = text(admin.post("/settings/people/invite", {"email": "", "role": "lead", "team": "nlp"}))
    guest = Client()
    link = link_in(page)
    assert "as lead of Language" in text(guest.get(link))

    answer = guest.post(link, {"username": "cy", "password": PASSWORD})

    cy = User.objects.get(username="cy")
    assert (answer.status_code, answer["Location"]) == (302, "/")
    assert (cy.role, teams_of(cy, NOW)) == ("lead", [nlp])
    assert guest.session["_auth_user_id"] == str(cy.pk)
    again = Client().post(link, {"username": "di", "password": PASSWORD})
    assert (again.status_code, User.objects.filter(username="di").exists()) == (404, False)


def test_an_invitation_with_an_address_is_sent_by_the_e_mail_channel(admin, smtp):
    email_channel(smtp.port)
    page = text(
        admin.post("/settings/people/invite", {"email": "cy@example.org", "role": "engineer"})
    )
    [mail] = smtp.script.mails

    assert "was sent to cy@example.org" in page
    assert (mail["To"], mail["Subject"]) == ("cy@example.org", "ann invites you to FleetWatch")
    assert link_in(page) in mail.get_body(("plain",)).get_content()


def test_without_a_channel_the_link_is_there_to_copy(admin):
    page = text(
        admin.post("/settings/people/invite", {"email": "cy@example.org", "role": "engineer"})
    )

    assert "was not sent (no e-mail channel is on)" in page
    assert LINK.search(page)


@pytest.mark.parametrize(
    ("sent", "sentence"),
    [
        ({"role": "king"}, "there is no role"),
        ({"role": ""}, "there is no role"),
        ({"role": "lead", "team": "none"}, "There is no such team"),
        ({"role": "lead", "email": "a@x.org, b@y.org"}, "is no e-mail address"),
        ({"role": "lead", "email": "a@x.org\r\nBcc: b@y.org"}, "is no e-mail address"),
    ],
)
def test_a_wrong_invitation_is_refused_at_its_field(admin, sent, sentence):
    answer = admin.post("/settings/people/invite", sent)

    assert answer.status_code == 422
    assert sentence in text(answer)
    assert not Invitation.objects.exists()


@pytest.mark.parametrize(
    ("sent", "sentence"),
    [
        ({"username": "", "password": PASSWORD}, "cannot be blank"),
        ({"username": "ann", "password": PASSWORD}, "already"),
        ({"username": "cy", "password": "short"}, "too short"),
        ({"username": "a b", "password": PASSWORD}, "valid username"),
    ],
)
def test_what_a_guest_gets_wrong_is_said_and_the_link_stays_good(admin, sent, sentence):
    link = link_in(text(admin.post("/settings/people/invite", {"role": "engineer"})))

    answer = Client().post(link, sent)

    assert answer.status_code == 422
    assert sentence in text(answer)
    assert Client().post(link, {"username": "cy", "password": PASSWORD}).status_code == 302


def test_a_withdrawn_link_leads_nowhere(admin):
    link = link_in(text(admin.post("/settings/people/invite", {"role": "engineer"})))

    admin.post(f"/settings/people/invitations/{Invitation.objects.get().pk}/withdraw")

    assert "This invitation has expired" in text(Client().get(link))
    assert "a link" not in text(admin.get("/settings/people"))


def test_a_person_gets_role_team_and_names_and_loses_them(admin, bo):
    Team.objects.create(slug="vision", name="Vision")

    post(admin, bo, "role", role="operator")
    post(admin, bo, "join", team="vision")
    post(admin, bo, "name", system="unix", name="bob", cluster="alps")

    page = text(admin.get(f"/settings/people/{bo.pk}"))
    assert User.objects.get(pk=bo.pk).role == "operator"
    assert all(each in page for each in ("Operator", "Vision", "<code>bob</code>on alps"))
    post(admin, bo, "take", id=str(bo.identities.get().pk))
    assert not Identity.objects.exists()


def test_what_cannot_be_is_said_on_the_persons_page(admin, bo):
    root = User.objects.get(username="ann")

    answers = [
        post(admin, root, "role", role="engineer"),
        post(admin, root, "deactivate"),
        post(admin, bo, "name", system="unix", name=""),
        post(admin, bo, "join", team="none"),
    ]

    assert [answer.status_code for answer in answers] == [422] * 4
    assert "somebody has to stay admin" in text(answers[0])
    assert admin.post(f"/settings/people/{bo.pk}/promote").status_code == 404
    assert admin.post("/settings/people/999999/role", {"role": "lead"}).status_code == 404


def test_who_is_out_is_out_at_once_and_comes_back_with_a_new_password(admin, bo):
    theirs = Client()
    theirs.force_login(bo)
    assert theirs.get("/me").status_code == 200

    post(admin, bo, "deactivate")

    assert theirs.get("/me")["Location"].startswith("/accounts/login/")
    assert post(admin, bo, "password").status_code == 422
    post(admin, bo, "activate")
    assert theirs.get("/me").status_code == 302
    page = text(post(admin, bo, "password"))
    password = re.search(r'id="secret">([^<]+)<', page)[1]
    assert User.objects.get(pk=bo.pk).check_password(password)


def test_a_claim_waits_for_an_admin_who_confirms_or_rejects_it(admin, bo):
    for name in ("bob", "root"):
        give_name(bo, Name("unix", name), source=Identity.Source.CLAIM, now=NOW)
    assert "Waiting for you" in text(admin.get("/settings/people"))

    post(admin, bo, "confirm", id=str(bo.identities.get(name="bob").pk))
    post(admin, bo, "take", id=str(bo.identities.get(name="root").pk))

    assert [each.name for each in bo.identities.filter(confirmed_at__isnull=False)] == ["bob"]
    assert "Waiting for you" not in text(admin.get("/settings/people"))


def test_a_claim_of_what_is_somebody_elses_is_not_offered_to_be_confirmed(admin, bo, later):
    owner = create_person(NewPerson("cy"), now=NOW)
    give_name(owner, Name("unix", "cy"), source=Identity.Source.ADMIN, now=NOW)
    give_name(bo, Name("unix", "cy"), source=Identity.Source.CLAIM, now=NOW)

    for path in ("/settings/people", f"/settings/people/{bo.pk}"):
        page = text(admin.get(path))
        assert "it is cy’s" in page
        assert ">Confirm<" not in page
        assert ">Reject<" in page


def test_whose_no_job_is_and_who_owes_a_second_factor_is_said(admin, bo):
    said = "no user name yet"
    assert said in text(admin.get("/settings/people?q=bo"))
    assert said not in text(admin.get("/settings/people?q=ann"))
    give_name(bo, Name("unix", "bob"), source=Identity.Source.ADMIN, now=NOW)
    assert said not in text(admin.get("/settings/people?q=bo"))
    assert "no second factor" not in text(admin.get("/settings/people"))

    ann = User.objects.get(username="ann")
    Authenticator.objects.create(user=ann, type=Authenticator.Type.TOTP, data={})
    set_required(True)

    assert text(admin.get("/settings/people")).count("no second factor") == 1


# --- the log ---


def words_of(page: str) -> str:
    """Its words alone, as they are read."""
    words = " ".join(re.sub(r"<[^>]+>", "", page).replace("\xa0", " ").split())
    return words.replace(" ,", ",")


def test_many_claims_hide_no_newer_one(admin, bo, monkeypatch):
    monkeypatch.setattr("fleetwatch.dashboard.views.people.MAX_SHOWN", 2)
    for hours, name in enumerate(("U-first", "U-second", "U-third")):
        said = Name("slack", name)
        give_name(bo, said, source=Identity.Source.CLAIM, now=NOW + timedelta(hours=hours))

    page = tight(text(admin.get("/settings/people")))

    assert page.index("U-third") < page.index("U-second")
    assert "U-first" not in page
    assert "Older ones follow once these are decided." in page


def test_the_log_says_who_did_what_from_where_and_is_narrowed(admin, bo, later):
    post(admin, bo, "role", role="lead")
    later.move_to(NOW + MINUTE)

    page = admin.get("/settings/audit").content.decode()
    assert "changed the role of bo · role lead, before engineer" in words_of(page)
    assert "in a browser 127.0.0.1" in page
    assert "&amp;who=ann" in page
    assert "role of" not in text(admin.get("/settings/audit?kind=login"))
    assert "role of" not in text(admin.get("/settings/audit?who=bo"))
    assert "role of" in text(admin.get("/settings/audit?who=ann&kind=person"))


@pytest.mark.parametrize(
    ("asked", "entries"),
    [
        ("", {"failed to log in as", "removed a second factor of"}),
        ("?logins=shown", {"failed to log in as", "removed a second factor of", "logged in"}),
        ("?kind=login", {"failed to log in as", "removed a second factor of", "logged in"}),
    ],
)
def test_who_merely_came_and_went_is_hidden_until_it_is_asked_for(admin, asked, entries):
    for action in ("login.enter", "login.fail", "login.factor_remove"):
        AuditEntry.objects.create(at=NOW - MINUTE, name="bo", via="page", action=action)

    page = text(admin.get(f"/settings/audit{asked}"))

    every = ("failed to log in as", "removed a second factor of", "logged in")
    assert {each for each in every if each in page} == entries
    assert ("Log-ins hidden, but failed ones" in tight(page)) == (not asked)


def test_the_log_speaks_in_sentences_and_leads_to_what_they_are_about(admin):
    week = {"start": "2026-11-13T00:00:00+00:00", "end": "2026-11-20T00:00:00+00:00"}
    asked = {"file": "fleetwatch-costs.csv", "asked": "group_by=team", "bytes": 768}
    for action, subject, detail in (
        ("export.file", "/costs.csv", asked | week),
        ("finding.dismiss", "471", {"note": "a benchmark"}),
        ("rate.set", "H100", {"price": "2.10 USD", "valid_from": "2026-11-01T00:00:00+00:00"}),
        ("login.enter", "ann", {}),
        ("toy.jump_over", "<b>", {"is_high": True, "note": ""}),
    ):
        entry = {"action": action, "subject": subject, "detail": detail}
        AuditEntry.objects.create(at=NOW - MINUTE, name="ann", via="page", **entry)

    page = admin.get("/settings/audit?logins=shown").content.decode()

    for sentence in (
        "exported costs by team (CSV, 768 B) · 13–19 Nov",
        "marked finding 471 as not waste · “a benchmark”",
        "set the rate of H100 · price $2.10, from 1 Nov 2026",
        "ann logged in in a browser",
        "toy: jump over &lt;b&gt; · is high yes",
    ):
        assert sentence in words_of(page), sentence
    assert 'href="/costs.csv?group_by=team">' in page
    assert 'href="/findings/471">' in page


def test_the_log_is_taken_as_csv_and_as_json_lines_and_that_is_in_it(admin, bo, later):
    AuditEntry.objects.create(at=NOW, name='=HYPERLINK("x")', via="page", action="rate.set")

    later.move_to(NOW + MINUTE)
    rows = list(csv.DictReader(io.StringIO(admin.get("/settings/audit.csv").content.decode())))
    later.move_to(NOW + 2 * MINUTE)
    lines = [
        json.loads(line)
        for line in admin.get("/settings/audit.jsonl").content.decode().splitlines()
    ]

    assert "=HYPERLINK" not in {row["who"][:10] for row in rows}
    assert {row["action"] for row in rows} >= {"person.create", "rate.set"}
    assert lines[0]["action"] == "export.file"
    assert lines[0]["subject"] == "/settings/audit.csv"
    assert {line["who"] for line in lines} >= {'=HYPERLINK("x")'}


def test_the_log_goes_on_page_by_page_without_a_gap(admin):
    AuditEntry.objects.bulk_create(
        AuditEntry(
            at=NOW - MINUTE, name="ann", via="page", action="rate.set", subject=f"entry {number:03}"
        )
        for number in range(250)
    )

    seen, address = [], "/settings/audit?kind=rate"
    while address and len(seen) < 300:
        page = admin.get(address).content.decode()
        seen += re.findall(r"entry (\d{3})", page)
        onward = re.search(r'after=(\d+)"\s*>Older', page)
        address = f"/settings/audit?kind=rate&after={onward[1]}" if onward else ""

    assert seen == [f"{number:03}" for number in reversed(range(250))]


@pytest.mark.parametrize("query", ["kind=nap", "from=never", "page=2"])
def test_a_file_of_what_there_is_not_is_refused(admin, query):
    assert admin.get(f"/settings/audit.csv?{query}").status_code == 422
    assert admin.get(f"/settings/audit?{query}").status_code == 200


def test_log_ins_are_in_the_log_and_no_mistyped_password(client, bo):
    client.post("/accounts/login/", {"login": "bo", "password": "wrong"})
    client.post("/accounts/login/", {"login": PASSWORD, "password": "bo"})
    client.post("/accounts/login/", {"login": "bo", "password": PASSWORD})
    client.post("/accounts/logout/")

    entries = AuditEntry.objects.filter(action__startswith="login.").order_by("pk")
    assert [(entry.action, entry.subject) for entry in entries] == [
        ("login.fail", "bo"),
        ("login.fail", "a name that nobody has"),
        ("login.enter", "bo"),
        ("login.leave", "bo"),
    ]


# --- at a shell ---


def test_create_user_prints_a_password_that_lets_in(nlp, capsys):
    call_command("create_user", "cy", "--role", "lead", "--team", "nlp", "--email", "cy@x.org")

    cy = User.objects.get(username="cy")
    assert cy.check_password(capsys.readouterr().out.strip())
    assert (cy.role, cy.email, teams_of(cy, cy.date_joined)[:1]) == ("lead", "cy@x.org", [nlp])
    assert AuditEntry.objects.filter(action="person.create", via="command").exists()


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["cy", "--team", "none"], "no team 'none'"),
        (["bo"], "there is a 'bo' already"),
        (["a b"], "valid username"),
        (["cy", "--email", "cy"], "valid email"),
    ],
)
def test_create_user_says_what_it_cannot_do(bo, arguments, sentence):
    with pytest.raises(CommandError, match=sentence):
        call_command("create_user", *arguments)


def test_an_admin_asks_everybody_for_a_second_factor(admin, bo):
    theirs = Client()
    theirs.force_login(bo)

    admin.post("/settings/access", {"second_factor": "everybody"})
    assert AuditEntry.objects.get(action="organisation.second_factor").detail == {"required": True}

    assert theirs.get("/causes")["Location"] == "/accounts/2fa/"
    assert admin.get("/causes")["Location"] == "/accounts/2fa/"


def test_an_account_says_what_the_person_costs_and_wastes_in_a_week(admin, bo):
    """Eight days ago is not in it."""
    factories.rate("2.00")
    gpu = factories.gpu(factories.node("n1"))
    job = factories.job(user="robert")
    for hours_ago, state, tier in (
        (30, "useful", ""),
        (20, "idle", "certain"),
        (8 * 24, "idle", "certain"),
    ):
        factories.entry(gpu, hours_ago=hours_ago, state=state, tier=tier, held_by=job).save()
    before = text(admin.get(f"/settings/people/{bo.pk}"))
    give_name(bo, Name("unix", "robert", ""), source=Identity.Source.ADMIN, now=NOW)

    page = text(admin.get(f"/settings/people/{bo.pk}"))

    assert 'id="week"' not in before  # without a name nobody knows
    assert "Cost, last 7 days" in page
    assert ">$4.00<" in page
    assert ">$2.00<" in page
    assert f'href="/settings/people/{bo.pk}/jobs"' in page


def test_an_account_without_a_rate_has_hours_and_no_dollars(admin, bo):
    gpu = factories.gpu(factories.node("n1"))
    factories.entry(gpu, hours_ago=20, state="idle", tier="certain", held_by=factories.job()).save()
    give_name(bo, Name("unix", "ann", ""), source=Identity.Source.ADMIN, now=NOW)

    page = text(admin.get(f"/settings/people/{bo.pk}"))

    week = page[page.index('id="week"') : page.index("<h2>Role</h2>")]
    assert "$" not in week
    assert "have no rate" in week


def test_an_account_says_whether_it_has_a_second_factor(admin, bo):
    assert "second factor off" in text(admin.get(f"/settings/people/{bo.pk}"))

    Authenticator.objects.create(user=bo, type="totp", data={})

    assert "second factor on" in text(admin.get(f"/settings/people/{bo.pk}"))


@pytest.fixture
def jobs_of_three():
    """Of the last week an hour of bo's, one of robert's that was wasted, two of a pod's user's, and
    one that names nobody; of the week before one of carl's. $2 an hour.
    """
    factories.rate("2.00")
    gpu = factories.gpu(factories.node("n1"))
    kinds = {"bo": 20, "robert": 21, "": 22, "carl": 8 * 24}
    for user, hours_ago in kinds.items():
        job = factories.job(f"slurm/della/{hours_ago}", user=user)
        state = "idle" if user == "robert" else "useful"
        factories.entry(gpu, hours_ago=hours_ago, state=state, held_by=job).save()
    pod = factories.job("kubernetes/prod/web", user="svc-web")
    for hours_ago in (30, 31):
        factories.entry(gpu, hours_ago=hours_ago, held_by=pod).save()
    factories.entry(gpu, hours_ago=32, state="free").save()


def test_users_of_jobs_without_an_account_are_listed_by_their_cost(admin, bo, jobs_of_three):
    give_name(bo, Name("unix", "bo", ""), source=Identity.Source.ADMIN, now=NOW)

    page = admin.get("/settings/people")

    assert [
        (each.name, each.system, each.totals.cost_usd, each.totals.wasted_usd)
        for each in page.context["accountless"]
    ] == [("svc-web", "kubernetes", 4, 0), ("robert", "unix", 2, 2)]
    assert "2 users of the last 7 days’ jobs" in text(page)
    assert 'href="/jobs?user=robert"' in text(page)


def test_an_account_of_the_same_name_is_offered_as_whom_the_jobs_belong_to(
    admin, bo, jobs_of_three
):
    page = admin.get("/settings/people?q=bo")

    [line] = page.context["accountless"]
    assert (line.name, line.namesake) == ("bo", "bo")
    assert 'name="account" value="bo"' in text(page)


def test_jobs_belong_to_an_account_from_the_list_on(admin, bo, jobs_of_three):
    sent = {"system": "unix", "name": "robert", "account": "bo"}

    answer = admin.post("/settings/people/belongs", sent)

    assert answer["Location"] == "/settings/people"
    identity = Identity.objects.get()
    assert (identity.user, identity.name, identity.source) == (bo, "robert", "admin")
    assert identity.confirmed_at == NOW
    page = admin.get("/settings/people")
    assert "robert is bo from now on." in text(page)
    assert "robert" not in {each.name for each in page.context["accountless"]}


@pytest.mark.parametrize(
    ("sent", "fault"),
    [
        ({"system": "unix", "name": "robert", "account": "ghost"}, "There is no account “ghost”"),
        ({"system": "unix", "name": "robert"}, "There is no account “”"),
        ({"system": "irc", "name": "robert", "account": "bo"}, "there is no system"),
    ],
)
def test_whose_jobs_they_are_is_refused_with_the_reason(admin, bo, jobs_of_three, sent, fault):
    answer = admin.post("/settings/people/belongs", sent)

    assert answer.status_code == 422
    assert fault in answer.content.decode()
    assert not Identity.objects.exists()


def test_a_deactivated_account_is_given_no_jobs(admin, bo, jobs_of_three):
    post(admin, bo, "deactivate")

    answer = admin.post(
        "/settings/people/belongs", {"system": "unix", "name": "robert", "account": "bo"}
    )

    assert answer.status_code == 422
    assert not Identity.objects.exists()


def test_a_user_without_a_rate_has_hours_and_no_dollars(admin):
    gpu = factories.gpu(factories.node("n1"))
    factories.entry(gpu, hours_ago=20, held_by=factories.job(user="robert")).save()

    page = text(admin.get("/settings/people"))

    listed = page[page.index('id="accountless"') : page.index('id="invite"')]
    assert "GPU-hours, no rate" in listed
    assert "$" not in listed


def test_accounts_say_their_second_factor_and_what_waits_to_be_accepted(admin, bo):
    Authenticator.objects.create(user=bo, type="totp", data={})
    admin.post("/settings/people/invite", {"email": "", "role": "engineer", "team": ""})

    page = text(admin.get("/settings/people"))

    assert page.count('<td data-label="Second factor">on</td>') == 1
    assert '<td data-label="Second factor"><span class="faint">off</span>' in page
    assert 'href="#invitations">1 invitation</a>not accepted yet' in page
    assert f'<a class="link" href="/settings/people/{bo.pk}"><b>bo</b></a>' in page

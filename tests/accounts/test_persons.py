from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

import pytest
from django.db import connections

from fleetwatch.accounts.models import (
    ApiToken,
    AuditEntry,
    Identity,
    Invitation,
    NameRule,
    Team,
    User,
)
from fleetwatch.accounts.names.holders import Holder, people
from fleetwatch.accounts.people import (
    INVITATION_TTL,
    MAX_CLAIMS,
    Invited,
    Name,
    NewPerson,
    accept,
    activate,
    confirm_name,
    create_person,
    deactivate,
    give_name,
    invite,
    join,
    leave,
    open_invitation,
    set_role,
    take_name,
    teams_of,
    withdraw,
)
from fleetwatch.accounts.permissions import rights
from fleetwatch.accounts.services import authenticate_api_token, create_api_token
from fleetwatch.lib.refusal import RefusedFieldError

pytestmark = pytest.mark.django_db

NOW = datetime(2026, 11, 23, 10, tzinfo=UTC)
HOUR = timedelta(hours=1)
GOOD = "correct horse battery staple"


@pytest.fixture
def admin():
    return User.objects.create(username="root", role=User.Role.ADMIN)


@pytest.fixture
def nlp():
    return Team.objects.create(slug="nlp", name="NLP")


@pytest.fixture
def ann(admin):
    return create_person(NewPerson("ann", password=GOOD), now=NOW)


def person(holder: Holder) -> User | None:
    return people([holder]).get(holder)


def done() -> list[str]:
    return list(AuditEntry.objects.order_by("pk").values_list("action", flat=True))


@pytest.mark.parametrize("name", ["ROOT", "Root", "\uff52\uff4f\uff4f\uff54"])
def test_a_name_that_differs_in_letters_alone_is_taken(admin, name):
    with pytest.raises(RefusedFieldError, match="already") as refusal:
        create_person(NewPerson(name), now=NOW)

    assert refusal.value.field == "username"


def test_a_superuser_who_is_no_admin_any_more_may_nothing(admin, ann):
    User.objects.filter(pk=ann.pk).update(is_superuser=True)
    ann = User.objects.get(pk=ann.pk)

    set_role(ann, "engineer")

    assert rights(User.objects.get(pk=ann.pk)) == set()
    assert AuditEntry.objects.latest("pk").detail == {"before": "admin", "role": "engineer"}


def _in_a_thread(change) -> str:
    try:
        change()
    except RefusedFieldError as error:
        return str(error)
    finally:
        connections.close_all()
    return "done"


@pytest.mark.django_db(transaction=True)
def test_of_two_admins_who_put_each_other_out_one_stays(admin):
    bob = create_person(NewPerson("bob", role="admin"), now=NOW)
    changes = [lambda: deactivate(admin, now=NOW), lambda: set_role(bob, "engineer")]

    with ThreadPoolExecutor(2) as threads:
        answers = sorted(threads.map(_in_a_thread, changes))

    assert answers == ["done", "somebody has to stay admin: make another one first"]
    assert User.objects.filter(role="admin", is_active=True).count() == 1


@pytest.mark.parametrize("cluster", ["x" * 129, "a\nb", "a\tb"])
def test_what_is_no_cluster_is_said(ann, cluster):
    with pytest.raises(RefusedFieldError) as refusal:
        give_name(ann, Name("unix", "ann", cluster), source="claim", now=NOW)

    assert refusal.value.field == "cluster"


def test_a_person_claims_fifty_names_at_most_and_is_named_by_others_all_the_same(ann):
    for number in range(MAX_CLAIMS):
        give_name(ann, Name("unix", f"a{number}"), source="claim", now=NOW)

    with pytest.raises(RefusedFieldError, match="at most 50 names"):
        give_name(ann, Name("unix", "one more"), source="claim", now=NOW)
    for source in set(Identity.Source.values) - {"claim"}:
        give_name(ann, Name("unix", f"by {source}"), source=source, now=NOW)

    assert ann.identities.filter(name__startswith="by ", confirmed_at=NOW).count() == 5


def test_where_nobody_is_admin_yet_other_roles_may_change():
    bo = create_person(NewPerson("bo"), now=NOW)

    set_role(bo, "lead")
    deactivate(bo, now=NOW)

    assert (bo.role, bo.is_active) == ("lead", False)


def test_a_person_is_made_with_a_role_a_team_and_a_password(nlp):
    new = NewPerson("ann", "ann@example.org", User.Role.LEAD, nlp, GOOD)

    ann = create_person(new, now=NOW)

    assert (ann.role, ann.email, ann.check_password(GOOD)) == ("lead", "ann@example.org", True)
    assert teams_of(ann, NOW) == [nlp]
    assert done() == ["person.create", "person.join"]


def test_without_a_password_nobody_logs_in_by_one():
    assert not create_person(NewPerson("ann"), now=NOW).has_usable_password()


@pytest.mark.parametrize(
    ("new", "field"),
    [
        (NewPerson("ann"), "username"),
        (NewPerson(""), "username"),
        (NewPerson("a b"), "username"),
        (NewPerson("x" * 151), "username"),
        (NewPerson("bob", email="bob"), "email"),
        (NewPerson("bob", role="king"), "role"),
        (NewPerson("bob", password="short"), "password"),
        (NewPerson("bobthebuilder", password="bobthebuilder"), "password"),
    ],
)
def test_what_no_account_can_be_is_said_and_nothing_is_made(ann, new, field):
    with pytest.raises(RefusedFieldError) as refused:
        create_person(new, now=NOW)

    assert refused.value.field == field
    assert set(User.objects.values_list("username", flat=True)) == {"root", "ann"}


def test_who_leaves_has_no_session_no_token_and_no_team_any_more(ann, nlp):
    token = create_api_token(ann, scope="read", now=NOW)
    join(ann, nlp, since=NOW - HOUR)
    session_hash = ann.get_session_auth_hash()

    deactivate(ann, now=NOW)

    assert authenticate_api_token(token, NOW) is None
    assert ApiToken.objects.get().revoked_at == NOW
    assert (teams_of(ann, NOW - HOUR), teams_of(ann, NOW)) == ([nlp], [])
    activate(ann)
    assert authenticate_api_token(token, NOW) is None
    assert ann.get_session_auth_hash() != session_hash


def test_somebody_stays_admin(admin, ann):
    for act in (lambda: set_role(admin, "finance"), lambda: deactivate(admin, now=NOW)):
        with pytest.raises(RefusedFieldError, match="stay admin"):
            act()

    set_role(ann, "admin")
    set_role(admin, "finance")
    assert User.objects.get(pk=admin.pk).role == "finance"
    assert done()[-2:] == ["person.role", "person.role"]


def test_a_membership_holds_from_its_first_moment_to_before_its_last(ann, nlp):
    join(ann, nlp, since=NOW)
    join(ann, nlp, since=NOW + HOUR)
    leave(ann, nlp, at=NOW + 2 * HOUR)
    leave(ann, nlp, at=NOW + 3 * HOUR)

    moments = [NOW - timedelta(microseconds=1), NOW, NOW + 2 * HOUR - timedelta(microseconds=1)]
    assert [teams_of(ann, at) for at in moments] == [[], [nlp], [nlp]]
    assert teams_of(ann, NOW + 2 * HOUR) == []


def test_nobody_leaves_before_he_joined(ann, nlp):
    join(ann, nlp, since=NOW)

    with pytest.raises(RefusedFieldError, match="joined nlp at 2026-11-23 10:00 UTC"):
        leave(ann, nlp, at=NOW)


def test_a_name_on_one_cluster_comes_before_one_on_all(ann):
    bob = create_person(NewPerson("bob"), now=NOW)
    give_name(ann, Name("unix", "a42"), source="admin", now=NOW)
    give_name(bob, Name("unix", "a42", "della"), source="admin", now=NOW)

    assert person(Holder("slurm", "della", "a42")) == bob
    assert person(Holder("slurm", "stellar", "a42")) == ann
    assert person(Holder("process", "", "a42")) == ann
    assert person(Holder("kubernetes", "della", "a42")) is None
    assert person(Holder("slurm", "della", "z")) is None


def test_a_claim_counts_once_it_is_confirmed(ann):
    claim = give_name(ann, Name("unix", "a42"), source="claim", now=NOW)
    assert person(Holder("slurm", "della", "a42")) is None

    confirm_name(claim, now=NOW)
    confirm_name(claim, now=NOW + HOUR)

    assert person(Holder("slurm", "della", "a42")) == ann
    assert Identity.objects.get().confirmed_at == NOW


def test_two_may_claim_a_name_and_one_has_it(ann):
    bob = create_person(NewPerson("bob"), now=NOW)
    claims = [give_name(each, Name("unix", "a42"), source="claim", now=NOW) for each in (ann, bob)]
    confirm_name(claims[0], now=NOW)

    with pytest.raises(RefusedFieldError, match="'a42' is somebody else’s"):
        confirm_name(claims[1], now=NOW)
    with pytest.raises(RefusedFieldError, match="somebody else’s"):
        give_name(bob, Name("unix", "a42"), source="admin", now=NOW)

    assert people([Holder("slurm", "", "a42")]) == {Holder("slurm", "", "a42"): ann}


@pytest.mark.parametrize(
    ("name", "field"),
    [
        (Name("icq", "a"), "system"),
        (Name("unix", " "), "name"),
        (Name("unix", "x" * 256), "name"),
        (Name("unix", "a\x00b"), "name"),
    ],
)
def test_what_is_no_name_is_said(ann, name, field):
    with pytest.raises(RefusedFieldError) as refused:
        give_name(ann, name, source="admin", now=NOW)

    assert refused.value.field == field


def test_a_name_that_was_taken_or_whose_person_left_is_nobodys(ann):
    bob = create_person(NewPerson("bob"), now=NOW)
    taken = give_name(ann, Name("unix", "a42"), source="admin", now=NOW)
    give_name(bob, Name("unix", "b42"), source="admin", now=NOW)

    take_name(taken)
    deactivate(bob, now=NOW)

    assert people([Holder("slurm", "", "a42"), Holder("slurm", "", "b42")]) == {}


def test_an_invitation_makes_one_account_with_its_role_and_team(admin, nlp):
    text = invite(Invited("lead", "ann@example.org", nlp), by=admin, now=NOW)

    ann = accept(text, username="ann", password=GOOD, now=NOW + INVITATION_TTL - HOUR)

    assert (ann.role, ann.email, teams_of(ann, NOW + INVITATION_TTL)) == (
        "lead",
        "ann@example.org",
        [nlp],
    )
    with pytest.raises(RefusedFieldError, match="was used or is over"):
        accept(text, username="eve", password=GOOD, now=NOW + INVITATION_TTL - HOUR)
    entry = AuditEntry.objects.get(action="person.accept")
    assert (entry.subject, entry.detail) == ("ann", {"invited_by": "root"})
    assert text not in str([*Invitation.objects.values(), *AuditEntry.objects.values()])


def test_a_refused_acceptance_leaves_the_invitation_open(admin):
    text = invite(Invited("engineer"), by=admin, now=NOW)

    with pytest.raises(RefusedFieldError):
        accept(text, username="root", password=GOOD, now=NOW)

    assert accept(text, username="ann", password=GOOD, now=NOW).username == "ann"


def test_an_invitation_ends_after_a_week_when_withdrawn_and_with_who_made_it(admin):
    bob = create_person(NewPerson("bob", role="admin"), now=NOW)
    texts = [invite(Invited("engineer"), by=by, now=NOW) for by in (admin, admin, bob)]
    withdraw(Invitation.objects.earliest("pk"), now=NOW)
    deactivate(bob, now=NOW)

    assert [open_invitation(text, NOW) is not None for text in texts] == [False, True, False]
    assert open_invitation(texts[1], NOW + INVITATION_TTL) is None
    assert open_invitation("fw_guess", NOW) is None


def test_an_invitation_ends_with_the_rights_of_who_made_it(admin):
    bob = create_person(NewPerson("bob", role="admin"), now=NOW)
    text = invite(Invited("admin"), by=bob, now=NOW)

    set_role(bob, "engineer")

    with pytest.raises(RefusedFieldError, match="used or is over"):
        accept(text, username="bobs.other", password=GOOD, now=NOW)


def test_a_superusers_invitation_is_one(ann):
    User.objects.filter(pk=ann.pk).update(is_superuser=True)

    assert open_invitation(invite(Invited("lead"), by=ann, now=NOW), NOW) is not None


def test_who_is_invited_is_no_unix_user_by_the_name_he_chose(admin):
    NameRule.objects.create(takes="username", created_at=NOW)
    NameRule.objects.create(takes="email", domain="example.org", created_at=NOW)
    text = invite(Invited("engineer", "eve@example.org"), by=admin, now=NOW)

    eve = accept(text, username="vera", password=GOOD, now=NOW)

    assert list(eve.identities.values_list("name", flat=True)) == ["eve"]

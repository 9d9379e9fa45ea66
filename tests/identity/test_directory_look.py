"""Who is gone from a real LDAP directory (slapd) is out at the next look; nobody else is."""

import dataclasses
import socket

import pytest
from django.core.cache import cache
from django.test import Client

from fleetwatch.accounts.log_in.directory_look import look
from fleetwatch.accounts.models import AuditEntry, User
from fleetwatch.accounts.people import Name, NewPerson, create_person, deactivate, give_name
from fleetwatch.accounts.services import authenticate_api_token, create_api_token
from fleetwatch.accounts.tasks import ask_directory
from fleetwatch.lib.ldap.ldap_directory import DirectoryError
from fleetwatch.operations.models import JobRun
from tests.dashboard import factories
from tests.dashboard.factories import NOW
from tests.identity.slapd import BASE, person
from tests.identity.test_directory import directory, is_in, log_in, slapd

pytestmark = pytest.mark.django_db(transaction=True)
__all__ = ["directory", "slapd"]

ANN = person("ann")
BO = person("bo")


@pytest.fixture(autouse=True)
def _fresh(plain_static_files):
    cache.clear()


@pytest.fixture
def clients(directory, slapd) -> dict[str, Client]:
    """Ann and bo came from the directory; vera was made here."""
    slapd.start(ANN, BO)
    create_person(NewPerson("vera", role="admin"), now=NOW)
    return {name: log_in(name).client for name in ("ann", "bo")}


def active() -> set[str]:
    return set(User.objects.filter(is_active=True).values_list("username", flat=True))


def opens(client: Client) -> bool:
    return client.get("/me").status_code == 200


def test_who_is_gone_loses_session_token_and_account_and_others_nothing(clients, slapd):
    ann = User.objects.get(username="ann")
    token = create_api_token(ann, scope="read", now=NOW)
    slapd.start(BO)

    assert look(NOW) == {"asked": 2, "ended": 1}

    assert [opens(clients[name]) for name in ("ann", "bo")] == [False, True]
    assert authenticate_api_token(token, NOW) is None
    assert active() == {"bo", "vera"}
    entries = AuditEntry.objects.filter(subject="ann", via="hub")
    actions = list(entries.order_by("pk").values_list("name", "action"))
    assert actions == [
        ("FleetWatch", "person.deactivate"),
        ("FleetWatch", "person.leave_directory"),
    ]


def test_who_is_there_stays_and_twice_is_once(clients, slapd):
    assert look(NOW) == {"asked": 2, "ended": 0}
    slapd.start(BO)
    look(NOW)

    assert look(NOW) == {"asked": 1, "ended": 0}
    assert AuditEntry.objects.filter(action="person.leave_directory").count() == 1


def test_who_is_found_again_logs_in_again(clients, slapd):
    slapd.start(BO)
    look(NOW)
    assert not is_in(log_in("ann"))
    slapd.start(ANN, BO)

    assert is_in(log_in("ann"))
    assert look(NOW) == {"asked": 2, "ended": 0}


def test_whom_an_admin_ended_stays_out_whatever_the_directory_says(clients, slapd):
    slapd.start(BO)
    look(NOW)
    deactivate(User.objects.get(username="ann"), now=NOW)
    slapd.start(ANN, BO)

    assert not is_in(log_in("ann"))


def test_who_fits_the_filter_no_more_is_gone(clients, settings):
    with_bo = dataclasses.replace(settings.DIRECTORY, user_filter="(uid=bo)")
    settings.DIRECTORY = with_bo

    look(NOW)

    assert active() == {"bo", "vera"}


def test_who_never_came_from_there_is_not_asked_for(clients, slapd):
    factories.user(username="root")
    slapd.start(ANN, BO)

    assert look(NOW) == {"asked": 2, "ended": 0}
    assert active() == {"ann", "bo", "root", "vera"}


def test_of_two_names_one_is_enough(clients, slapd):
    ann = User.objects.get(username="ann")
    give_name(ann, Name("directory", "ann.lee"), source="admin", now=NOW)

    assert look(NOW) == {"asked": 2, "ended": 0}


def test_one_that_does_not_answer_ends_nobody(clients, slapd):
    slapd.stop()

    with pytest.raises(DirectoryError):
        look(NOW)

    assert active() == {"ann", "bo", "vera"}
    assert opens(clients["ann"])


def test_one_that_takes_the_question_and_says_nothing_ends_nobody(clients, settings):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"ldap://127.0.0.1:{silent.getsockname()[1]}"
        settings.DIRECTORY = dataclasses.replace(settings.DIRECTORY, urls=(url,))
        with pytest.raises(DirectoryError):
            look(NOW)

    assert active() == {"ann", "bo", "vera"}


@pytest.mark.parametrize(
    "wrong",
    [
        {"bind_password": "of last year"},
        {"user_base": f"ou=nowhere,{BASE}"},
        {"user_base": f"ou=groups,{BASE}"},
        {"user_filter": "(uid=nobody)"},
        {"bind_dn": "", "bind_password": ""},
    ],
)
def test_one_that_is_asked_wrongly_ends_nobody(clients, settings, wrong):
    settings.DIRECTORY = dataclasses.replace(settings.DIRECTORY, **wrong)

    with pytest.raises(DirectoryError):
        look(NOW)

    assert active() == {"ann", "bo", "vera"}


def test_one_that_has_none_of_several_is_not_believed(clients, slapd):
    slapd.start(person("cy"))

    with pytest.raises(DirectoryError, match="shows none of 2 people"):
        look(NOW)

    assert active() == {"ann", "bo", "vera"}


def test_the_only_one_may_be_gone_where_others_are_shown(directory, slapd):
    create_person(NewPerson("vera", role="admin"), now=NOW)
    slapd.start(ANN)
    log_in("ann")
    slapd.start(BO)

    assert look(NOW) == {"asked": 1, "ended": 1}


def test_the_last_admin_loses_sessions_and_tokens_once_and_stays_one(clients, slapd):
    User.objects.filter(username="vera").delete()
    User.objects.filter(username="ann").update(role="admin")
    token = create_api_token(User.objects.get(username="ann"), scope="read", now=NOW)
    slapd.start(BO)

    for _ in range(2):
        assert look(NOW) == {"asked": 2, "ended": 0}

    assert not opens(clients["ann"])
    assert authenticate_api_token(token, NOW) is None
    assert active() == {"ann", "bo"}
    assert AuditEntry.objects.filter(action="person.sign_out").count() == 1
    slapd.start(ANN, BO)
    assert is_in(log_in("ann"))
    assert User.objects.get(username="ann").left_directory_at is None


def test_the_clock_asks_where_there_is_one_and_writes_down_what_it_did(clients, slapd, settings):
    ask_directory()
    settings.DIRECTORY = None
    ask_directory()

    [run] = JobRun.objects.all()
    assert (run.name, run.ok, run.did) == (
        "accounts.ask_directory",
        True,
        {"asked": 2, "ended": 0},
    )


def test_the_clock_writes_down_that_it_did_not_answer(clients, slapd):
    slapd.stop()

    with pytest.raises(DirectoryError):
        ask_directory()

    [run] = JobRun.objects.all()
    assert (run.ok, run.error.partition(":")[0]) == (False, "NoServerError")

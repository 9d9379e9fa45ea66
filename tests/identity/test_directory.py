"""Log-in by a real LDAP directory (slapd): an account, a role, teams and names by the entry,
followed at each log-in; local accounts beside it; and what a stranger tries.
"""

import dataclasses
import socket

import pytest
from django.core.cache import cache
from django.test import Client
from playwright.sync_api import Browser

from fleetwatch.accounts.log_in.second_factor import set_required
from fleetwatch.accounts.models import AuditEntry, Identity, Team, User
from fleetwatch.accounts.people import Name, NewPerson, create_person, deactivate, give_name
from fleetwatch.lib.ldap import ldap_client
from fleetwatch.lib.ldap.ldap_directory import Directory, DirectoryError
from tests.browser.conftest import browser, static_root
from tests.browser.sites import live_server
from tests.certificates import certificate
from tests.dashboard import factories
from tests.identity.slapd import (
    BASE,
    PASSWORD,
    READER,
    READER_PASSWORD,
    Slapd,
    dn,
    group,
    person,
    unix_group,
)

pytestmark = pytest.mark.django_db(transaction=True)
__all__ = ["browser", "live_server", "static_root"]

LOGIN = "/accounts/login/"
BACKEND = "fleetwatch.accounts.log_in.directory_login.Backend"
ANN = person("ann", mail="ann@example.org")
GROUPS = group("gpu-operators", dn("ann")) + unix_group("ml-nlp", "ann", "bo")


@pytest.fixture(autouse=True)
def _fresh(plain_static_files):
    cache.clear()


@pytest.fixture
def slapd(tmp_path):
    server = Slapd(tmp_path)
    yield server
    server.stop()


@pytest.fixture
def directory(slapd, settings):
    """The settings of a hub with this directory."""
    return use(settings, Directory((slapd.url,), f"ou=people,{BASE}", **READS, starttls=False))


READS = {
    "bind_dn": READER,
    "bind_password": READER_PASSWORD,
    "group_base": f"ou=groups,{BASE}",
}


def use(settings, directory: Directory) -> Directory:
    settings.DIRECTORY = directory
    settings.AUTHENTICATION_BACKENDS = [*settings.AUTHENTICATION_BACKENDS, BACKEND]
    settings.DIRECTORY_ROLES = {"gpu-admins": "admin", "gpu-operators": "operator"}
    settings.DIRECTORY_TEAMS = {"ml-nlp": "nlp", "ml-vision": "vision"}
    return directory


def log_in(name: str = "ann", password: str = PASSWORD, client: Client | None = None):
    return (client or Client()).post(LOGIN, {"login": name, "password": password})


def is_in(answer) -> bool:
    return "_auth_user_id" in answer.client.session


def test_the_first_log_in_makes_an_account_with_role_team_and_names(directory, slapd):
    slapd.start(ANN, GROUPS)

    assert is_in(log_in())

    ann = User.objects.get()
    assert (ann.username, ann.email, ann.role) == ("ann", "ann@example.org", "operator")
    assert not ann.has_usable_password()
    assert [each.team.slug for each in ann.memberships.all()] == ["nlp"]
    names = ann.identities.filter(confirmed_at__isnull=False)
    assert {(name.system, name.name, name.source) for name in names} == {
        ("directory", "ann", "directory"),
        ("unix", "ann", "directory"),
    }
    actions = AuditEntry.objects.order_by("pk").values_list("action", flat=True)
    assert (actions[0], actions[len(actions) - 1]) == ("person.create", "login.enter")


def test_what_the_directory_says_later_is_so_from_the_next_log_in(directory, slapd):
    factories.user(username="root")
    slapd.start(ANN, group("gpu-admins", dn("ann")), unix_group("ml-nlp", "ann"))
    log_in()
    ann = User.objects.get(username="ann")
    assert ann.role == "admin"
    Team.objects.create(slug="own", name="by hand").memberships.create(
        user=ann, valid_from=ann.date_joined
    )
    slapd.start(person("ann", mail="a.lee@example.org"), unix_group("ml-vision", "ann"))

    log_in("ANN")

    ann.refresh_from_db()
    current = ann.memberships.filter(valid_until=None)
    assert (ann.role, ann.email) == ("engineer", "a.lee@example.org")
    assert {each.team.slug for each in current} == {"vision", "own"}
    assert User.objects.filter(username__iexact="ann").count() == 1


def test_twice_the_same_changes_nothing(directory, slapd):
    slapd.start(ANN, GROUPS)
    log_in()
    before = AuditEntry.objects.exclude(action__startswith="login").count()

    assert is_in(log_in())

    assert AuditEntry.objects.exclude(action__startswith="login").count() == before
    assert Identity.objects.count() == 2


def test_another_unix_name_is_in_place_of_the_one_before(directory, slapd, settings):
    settings.DIRECTORY = dataclasses.replace(directory, unix_attribute="cn")
    slapd.start(ANN)
    log_in()
    slapd.start(ANN.replace("\ncn: ann", "\ncn: alee"))

    log_in()

    assert Identity.objects.get(system="unix").name == "alee"


def test_a_unix_name_that_is_somebody_elses_stays_theirs(directory, slapd):
    bo = factories.user(username="bo")
    give_name(bo, Name("unix", "ann"), source="admin", now=bo.date_joined)
    slapd.start(ANN)

    assert is_in(log_in())

    assert Identity.objects.get(system="unix").user == bo


@pytest.mark.parametrize(
    ("name", "password"),
    [
        ("ann", "wrong"),
        ("ann", ""),
        ("ann", " "),
        # what a text is prepared to for LDAP (RFC 4013) is nothing: a bind without a password
        ("ann", "\u00ad\u00ad"),
        ("nobody", PASSWORD),
        ("a*", PASSWORD),
        ("*", PASSWORD),
        ("ann)(uid=*", PASSWORD),
        ("ann)(|(uid=*)", PASSWORD),
        (">=a", PASSWORD),
        ("~=ann", PASSWORD),
        (":=ann", PASSWORD),
        ("\\61nn", PASSWORD),
        ("uid=ann,ou=people,dc=example,dc=org", PASSWORD),
        ("ann\u00ad", PASSWORD),
        ("ａｎｎ", PASSWORD),  # what slapd takes for the same
        ("reader", READER_PASSWORD),
        ("outside", PASSWORD),
    ],
)
def test_what_a_stranger_types_lets_nobody_in(directory, slapd, name, password):
    outside = f"\ndn: ou=machines,{BASE}\nobjectClass: organizationalUnit\nou: machines\n"
    slapd.start(ANN, outside, person("outside", unit="machines"))

    answer = log_in(name, password)

    assert (answer.status_code, is_in(answer)) == (200, False)
    assert "directory does not answer" not in answer.content.decode()
    assert not User.objects.exists()


@pytest.mark.parametrize(
    "mail",
    ["no address", f"{'x' * 64}@{'y' * 60}.{'z' * 60}.{'z' * 60}.{'z' * 60}.org", "BO@example.org"],
)
def test_an_address_that_is_none_or_another_accounts_is_left_off(directory, slapd, mail):
    create_person(NewPerson("bo", "bo@example.org"), now=factories.NOW)
    slapd.start(person("ann", mail=mail))

    assert is_in(log_in())
    assert User.objects.get(username="ann").email == ""


def test_a_password_of_any_characters_opens(directory, slapd):
    password = "pä\u00ads (*)\\ 🔑"
    slapd.start(person("ann").replace("userPassword: ", "#") + f"userPassword: {password}\n")

    assert is_in(log_in(password=password))


def test_a_filter_says_who_may_be_a_person(directory, slapd, settings):
    settings.DIRECTORY = dataclasses.replace(directory, user_filter="(mail=*)")
    slapd.start(ANN, person("bo"))

    assert is_in(log_in("ann"))
    assert not is_in(log_in("bo"))


def test_a_name_that_two_entries_have_is_nobodys(directory, slapd, settings):
    settings.DIRECTORY = dataclasses.replace(directory, user_base=BASE)
    slapd.start(ANN, person("ann", unit="groups"))

    assert not is_in(log_in())


def test_who_is_out_is_not_let_in_and_who_is_gone_there_neither(directory, slapd):
    root = factories.user(username="root")
    slapd.start(ANN, GROUPS, person("bo"))
    log_in("ann")
    log_in("bo")
    deactivate(User.objects.get(username="ann"), now=root.date_joined)
    slapd.start(ANN, GROUPS)

    assert not is_in(log_in("ann"))
    assert not is_in(log_in("bo"))
    assert User.objects.get(username="ann").role == "operator"


def test_an_account_with_its_own_password_is_not_the_entrys_of_that_name(directory, slapd):
    mine = factories.user(username="ann", role="admin")
    slapd.start(ANN, GROUPS)

    assert not is_in(log_in("ann", PASSWORD))
    assert not is_in(log_in("Ann", PASSWORD))
    assert is_in(log_in("ann", factories.PASSWORD))
    mine.refresh_from_db()
    assert mine.role == "admin"


def test_until_an_admin_gives_it_the_entrys_name(directory, slapd):
    mine = factories.user(username="ann.lee", role="engineer")
    give_name(mine, Name("directory", "ann"), source="admin", now=mine.date_joined)
    slapd.start(ANN, GROUPS, person("ann.lee", password="somebody else's"))

    assert is_in(log_in("ann"))
    assert not is_in(log_in("ann.lee", "somebody else's"))
    mine.refresh_from_db()
    assert (User.objects.count(), mine.role) == (1, "operator")


def test_an_account_made_without_a_password_waits_for_its_entry(directory, slapd):
    mine = create_person(NewPerson("ann", role="lead"), now=factories.NOW)
    slapd.start(ANN)

    assert is_in(log_in())
    assert User.objects.get() == mine


def test_an_account_that_the_provider_opens_is_not_the_entrys_of_that_name(directory, slapd):
    mine = create_person(NewPerson("ann"), now=factories.NOW)
    give_name(mine, Name("oidc", "248289"), source="provider", now=factories.NOW)
    slapd.start(ANN)

    assert not is_in(log_in())


def test_the_last_admin_stays_one_whatever_the_groups_say(directory, slapd):
    mine = create_person(NewPerson("ann", role="admin"), now=factories.NOW)
    slapd.start(ANN)

    assert is_in(log_in())
    mine.refresh_from_db()
    assert mine.role == "admin"


def test_five_wrong_passwords_wait_as_they_do_elsewhere(directory, slapd):
    slapd.start(ANN)
    guesses = [log_in(password=f"wrong {number}").status_code for number in range(6)]

    assert guesses == [200] * 5 + [429]
    assert log_in().status_code == 429


def test_a_second_factor_is_owed_as_by_everybody(directory, slapd):
    slapd.start(ANN)
    set_required(True)
    client = Client()

    assert is_in(log_in(client=client))
    assert client.get("/me")["Location"] == "/accounts/2fa/"


def test_a_directory_that_is_down_says_so_and_lets_local_accounts_in(directory, slapd):
    factories.user(username="root")

    answer = log_in("ann")

    assert (answer.status_code, is_in(answer)) == (200, False)
    assert "directory does not answer" in answer.content.decode()
    assert is_in(log_in("root", factories.PASSWORD))
    # nor is a local account's mistyped password its business
    assert "directory does not answer" not in log_in("root", "mistyped").content.decode()


def test_one_that_takes_a_connection_and_says_nothing_is_waited_for_once(
    directory, settings, monkeypatch
):
    monkeypatch.setattr(ldap_client, "TIMEOUT_S", 1)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        settings.DIRECTORY = dataclasses.replace(directory, urls=(f"ldap://127.0.0.1:{port}",))
        first = log_in("ann")
    second = log_in("bo")

    assert "directory does not answer" in first.content.decode()
    assert "directory does not answer" in second.content.decode()


def test_the_second_server_is_asked_where_the_first_is_down(directory, slapd, settings):
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    urls = (f"ldap://127.0.0.1:{port}", slapd.url)
    settings.DIRECTORY = dataclasses.replace(directory, urls=urls)
    slapd.start(ANN)

    assert is_in(log_in())


def test_a_wrong_bind_password_of_the_hub_is_no_wrong_password_of_the_person(
    directory, slapd, settings
):
    settings.DIRECTORY = dataclasses.replace(directory, bind_password="of last year")
    slapd.start(ANN)

    assert "directory does not answer" in log_in().content.decode()


@pytest.mark.parametrize("scheme", ["ldap", "ldaps"])
def test_over_tls_the_password_is_sent_to_the_server_of_that_name_alone(tmp_path, settings, scheme):
    certificate(tmp_path)
    server = Slapd(tmp_path, scheme=scheme, has_tls=True)
    ca = str(tmp_path / "server.pem")
    trusting = use(settings, Directory((server.url,), BASE, ca_file=ca, **READS))
    try:
        server.start(ANN)
        assert is_in(log_in())
        with pytest.raises(DirectoryError, match="CERTIFICATE_VERIFY_FAILED"):
            ldap_client.enter(dataclasses.replace(trusting, ca_file=""), "ann", PASSWORD)

        certificate(tmp_path, "elsewhere.example.org")
        server.start(ANN)
        with pytest.raises(DirectoryError, match="Hostname mismatch"):
            ldap_client.enter(trusting, "ann", PASSWORD)
    finally:
        server.stop()


def test_a_server_without_tls_never_sees_a_password_unless_that_is_said(directory, slapd):
    slapd.start(ANN)

    with pytest.raises(DirectoryError, match="startTLS failed"):
        ldap_client.enter(dataclasses.replace(directory, starttls=True), "ann", PASSWORD)


def test_a_wrong_password_takes_as_many_steps_whoever_there_is(directory, slapd, monkeypatch):
    """Of an entry, of nobody, and of a local account, whose name and password stay here."""
    binds: list[tuple[str, bytes]] = []
    connection = ldap_client.Connection

    def noted(*given, user, password, **options):
        binds.append((user, password))
        return connection(*given, user=user, password=password, **options)

    monkeypatch.setattr(ldap_client, "Connection", noted)
    factories.user(username="root")
    slapd.start(ANN)

    for name in ("ann", "nobody", "root"):
        assert not is_in(log_in(name, "mistyped"))

    readers, others = binds[::2], binds[1::2]
    assert readers == [(READER, READER_PASSWORD.encode())] * 3
    assert others[0] == (dn("ann"), b"mistyped")
    assert all(f"ou=people,{BASE}" in user for user, _ in others)
    assert not any("root" in user or password == b"mistyped" for user, password in others[1:])


def test_in_the_browser(directory, slapd, live_server, browser: Browser):
    slapd.start(ANN, GROUPS)
    page = browser.new_page()
    page.goto(f"{live_server.url}{LOGIN}")
    page.fill("input[name=login]", "ann")
    page.fill("input[name=password]", PASSWORD)
    page.click("button:has-text('Log in') >> nth=0")
    page.goto(f"{live_server.url}/me")

    assert page.inner_text("h1") == "My jobs"
    page.goto(f"{live_server.url}/accounts/password/change/")
    assert "kept elsewhere" in page.inner_text("body")
    page.close()

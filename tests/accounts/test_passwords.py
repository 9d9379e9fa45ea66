"""The password page, for who has one here and who has not."""

import pytest

from fleetwatch.accounts.people import NewPerson, create_person
from tests.dashboard import factories

pytestmark = pytest.mark.django_db

PAGE = "/accounts/password/change/"


def test_who_has_a_password_here_changes_it(client):
    client.force_login(factories.user())
    new = "another horse battery"

    client.post(PAGE, {"oldpassword": factories.PASSWORD, "password1": new, "password2": new})

    client.logout()
    assert client.login(username="ann", password=new)


def test_who_has_none_here_is_told_so(client):
    client.force_login(create_person(NewPerson("bo"), now=factories.NOW))

    answer = client.get(PAGE, follow=True)

    assert "Your password is kept elsewhere" in answer.content.decode()
    assert PAGE not in answer.content.decode()


def test_a_stranger_is_sent_to_the_log_in(client):
    assert client.get(PAGE)["Location"].startswith("/accounts/login/")


def test_who_is_locked_out_is_told_to_ask_an_admin(client):
    page = client.get("/accounts/login/").content.decode()

    assert "Forgot your password? Ask an admin of FleetWatch for a new one." in page

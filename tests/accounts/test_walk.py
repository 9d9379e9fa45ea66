"""Every address, as everybody: who may not is turned away and changes nothing, who may gets in, and
is shown no button that is refused and nothing of what is not his.
"""

from itertools import product

import pytest

from tests.accounts import world
from tests.accounts.walking import (
    METHODS,
    OPEN,
    Address,
    Walk,
    Walker,
    addresses_of,
    body,
    is_allauths,
    is_turned_away,
    walker,
    written,
)
from tests.accounts.world import ROLES

pytestmark = pytest.mark.django_db


@pytest.fixture
def addresses(there) -> list[Address]:
    return addresses_of(there)


@pytest.mark.parametrize("role", ROLES)
def test_a_role_opens_changes_and_is_shown_what_it_may(role, there, addresses):
    by = walker(there.users[role])
    walk = Walk(role, there)

    for address in addresses:
        walk.open(by, address)
    for address in addresses:
        walk.send(by, address)

    assert walk.wrong == []
    assert len(walk.tried) > 10


def test_an_admin_is_shown_addresses_and_the_audit_log(there):
    by = walker(there.users["admin"])
    people_page, audit_log = (body(by.ask("GET", f"/settings/{of}")) for of in ("people", "audit"))

    assert world.OTHERS_ADDRESS in people_page
    assert world.INVITED_ADDRESS in people_page
    assert world.AUDITED in audit_log


def test_a_stranger_opens_and_changes_nothing(there, addresses):
    by = Walker(raise_request_exception=False)
    walk = Walk("stranger", there)
    for method, address in product(METHODS, addresses):
        answer = by.ask(method, address.path)
        status = answer.status_code
        is_open = is_allauths(address) or address.name in OPEN
        is_right = status < 500 or status == 503 if is_open else is_turned_away(answer)
        entries = walk.entries.new()
        begins = address.name == "device_code" and method == "POST"  # what waits for somebody
        walk.expect(is_right and entries == begins, method, address.path, status)

    assert walk.wrong == []


def test_nothing_is_put_and_nothing_deleted_at_a_page(there, addresses):
    by = walker(there.users["admin"])
    walk = Walk("admin", there)
    before = written()
    for method, address in product(("PUT", "DELETE", "PATCH"), addresses):
        if not is_allauths(address):
            answer = by.ask(method, address.path)
            walk.expect(is_turned_away(answer), method, address.path, answer.status_code)

    assert walk.wrong == []
    assert written() == before


def test_a_token_opens_no_page(there, addresses):
    by, walk = Walker(), Walk("stranger", there)
    before = written()
    for kind, address in product(("admin write", "agent", "enrolment"), addresses):
        if not is_allauths(address) and address.name not in {*OPEN, "metrics"}:
            answer = by.ask("GET", address.path, Authorization=f"Bearer {there.tokens[kind]}")
            walk.expect(is_turned_away(answer), kind, address.path, answer.status_code)

    assert walk.wrong == []
    assert written() == before

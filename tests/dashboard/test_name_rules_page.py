"""The page of rules of names: whom one names first, then the same rule."""

import pytest

from fleetwatch.accounts.models import Identity, NameRule
from tests.markup import tight

pytestmark = pytest.mark.django_db

PAGE = "/settings/people/rules"
RULE = {"takes": "username", "domain": "", "cluster": "alps"}


def text(answer) -> str:
    return tight(answer.content.decode())


def test_a_rule_is_looked_at_set_and_dropped(admin):
    shown = text(admin.post(PAGE, RULE))
    assert "Preview" in shown
    assert not NameRule.objects.exists()

    done = text(admin.post(PAGE, RULE | {"do": "set"}, follow=True))
    assert "The rule is set" in done
    assert "the user name here" in done
    assert Identity.objects.get().cluster == "alps"

    gone = text(admin.post(f"{PAGE}/{NameRule.objects.get().pk}/drop", follow=True))
    assert "The rule is removed" in gone
    assert not Identity.objects.exists()


def test_the_ways_between_the_pages_of_settings_are_on_it(admin):
    page = text(admin.get(PAGE))

    assert 'aria-label="Settings"' in page
    assert '<a href="/settings/people" aria-current="page"' in page


def test_a_wrong_rule_is_refused_at_its_field(admin):
    page = text(admin.post(PAGE, {"takes": "email", "domain": "<b>", "cluster": "x" * 200}))

    assert "at most 128 characters" in page
    assert "&lt;b&gt;" in page
    assert not NameRule.objects.exists()


def test_a_rule_that_is_not_there_is_not_dropped(admin):
    assert admin.post(f"{PAGE}/1/drop").status_code == 404

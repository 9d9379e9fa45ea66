"""Statements that are written once per process, and what is read by them."""

import numpy as np
import pytest
from django.contrib.auth.models import Group
from django.contrib.sessions.models import Session
from django.db import DataError, NotSupportedError, transaction
from django.db.models.functions import Length
from django.utils import timezone

from fleetwatch.accounts.models import Organisation, Team, User
from fleetwatch.accounts.sessions import SessionStore
from fleetwatch.lib.memo import remembering
from fleetwatch.lib.rows import Asked, fetch_ahead, fetched
from fleetwatch.lib.sql import execute
from fleetwatch.lib.written_once import IDS, read_together, row_of_key, written_once

pytestmark = pytest.mark.django_db


@pytest.fixture
def written() -> list[None]:
    """One for each time that the queryset of `names` was made."""
    return []


@pytest.fixture
def names(written):
    """The lengths and slugs of the teams with the ids."""

    @written_once
    def names():
        written.append(None)
        teams = Team.objects.filter(pk__in=IDS).exclude(slug="gone").order_by("slug")
        return teams.values_list(Length("slug"), "slug")

    return names


def test_each_reading_names_its_own_ids_and_the_statement_is_written_once(names, written):
    one, other, gone = (Team.objects.create(slug=slug).pk for slug in ("one", "other", "gone"))

    assert names(ids=[one, other, gone]) == [(3, "one"), (5, "other")]
    assert names(ids=[other]) == [(5, "other")]
    assert names(ids=[]) == []
    assert len(written) == 1


def test_a_row_by_its_key_is_what_the_model_reads():
    user = User.objects.create_user("ada", role=User.Role.LEAD)

    row = row_of_key(User, str(user.pk))

    assert row == user
    assert (row.role, row.date_joined, row._state.db) == ("lead", user.date_joined, "default")
    assert row_of_key(User, user.pk + 1) is None
    assert row_of_key(Organisation, 2) is None


def test_rows_that_are_read_together_are_asked_for_once_in_a_look(django_assert_num_queries):
    user = User.objects.create_user("ada", role=User.Role.LEAD)

    with remembering(), django_assert_num_queries(1):
        read_together((User, str(user.pk)), (Organisation, 1), (Organisation, 2))

        row = row_of_key(User, user.pk)
        assert (row, row.role, row.date_joined) == (user, "lead", user.date_joined)
        assert row_of_key(Organisation, 2) is None


def test_rows_that_are_read_together_are_read_again_after_the_look():
    user = User.objects.create_user("ada", role=User.Role.LEAD)
    with remembering():
        read_together((User, user.pk), (Organisation, 1))

    User.objects.update(role=User.Role.ADMIN)

    assert row_of_key(User, user.pk).role == "admin"


def test_what_is_asked_ahead_in_one_go_is_there_when_it_is_asked_for(
    names, django_assert_num_queries
):
    one, other = (Team.objects.create(slug=slug).pk for slug in ("one", "other"))
    count = Asked("SELECT count(*) FROM accounts_team", ())

    with remembering():
        with django_assert_num_queries(2):  # each of them counts
            fetch_ahead(names.asked(ids=[one]), count)
        Team.objects.create(slug="third")
        with django_assert_num_queries(0):
            assert names(ids=[one]) == [(3, "one")]
            assert fetched(*count, is_fixed=True) == [(2,)]
        with django_assert_num_queries(1):
            assert names(ids=[other]) == [(5, "other")]

    assert fetched(*count, is_fixed=True) == [(3,)]  # after the look


def test_what_is_asked_ahead_of_an_array_of_ids_is_there_for_these_alone(
    django_assert_num_queries,
):
    statement = "SELECT id FROM unnest(%(ids)s::bigint[]) AS asked (id)"

    with remembering():
        fetch_ahead(Asked(statement, {"ids": np.array([1, 2])}))
        for ids, queries in (([1, 2], 0), ([1, 3], 1), ([1], 1), ([], 1)):
            wanted = {"ids": np.array(ids, dtype=np.int64)}
            with django_assert_num_queries(queries):
                assert fetched(statement, wanted, is_fixed=True) == [(each,) for each in ids]


def test_who_does_not_only_look_asks_for_nothing_ahead(names, django_assert_num_queries):
    with django_assert_num_queries(0):
        fetch_ahead(names.asked(ids=[]))


@pytest.mark.django_db(transaction=True)
def test_an_error_of_what_is_asked_ahead_leaves_the_connection_as_it_was():
    one, wrong = Asked("SELECT 1", ()), Asked("SELECT 1 / %(by)s::int", {"by": 0})

    for asked in ((wrong, one), (one, wrong), (one, wrong, one)):
        with remembering():
            with pytest.raises(DataError):
                fetch_ahead(*asked)
            assert fetched(*one, is_fixed=True) == [(1,)]


def test_behind_a_pooler_nothing_is_asked_ahead(names, settings, django_assert_num_queries):
    settings.BEHIND_POOLER = True

    with remembering(), django_assert_num_queries(0):
        fetch_ahead(names.asked(ids=[]))


def test_a_user_of_others_than_are_asked_for_is_not_there_by_the_key():
    group = Group.objects.create(name="on call")
    user, other = (User.objects.create_user(name) for name in ("ada", "bob"))
    group.user_set.add(user)

    assert group.user_set.get(pk=user.pk) == user
    with pytest.raises(User.DoesNotExist):
        group.user_set.get(pk=other.pk)


def test_a_user_who_is_gone_is_not_there_by_the_key_alone():
    with pytest.raises(User.DoesNotExist):
        User.objects.get(pk=1_000_000)


@pytest.fixture
def widths():
    """Sets how wide the column of user names is, as a migration of a newer version does."""

    def widen(width: int) -> None:
        execute(f"ALTER TABLE accounts_user ALTER username TYPE varchar({width})")

    yield widen
    widen(150)


@pytest.mark.django_db(transaction=True)
def test_a_column_that_is_migrated_while_the_process_lives_is_read_on(widths):
    user = User.objects.create_user("ada")
    assert User.objects.get(pk=user.pk) == user

    widths(200)

    assert User.objects.get(pk=user.pk) == user  # asked without a plan
    assert User.objects.get(pk=user.pk) == user  # planned anew
    widths(250)
    with pytest.raises(NotSupportedError), transaction.atomic():
        User.objects.get(pk=user.pk)
    with transaction.atomic():
        assert User.objects.get(pk=user.pk) == user


@pytest.mark.django_db(transaction=True)
def test_a_column_that_is_migrated_is_left_to_who_asks_for_it(widths):
    User.objects.create_user("ada")
    asked = Asked("SELECT username FROM accounts_user", ())

    def names() -> list[str]:
        with remembering():
            fetch_ahead(asked, asked)
            return [name for [name] in fetched(*asked, is_fixed=True)]

    before = names()
    widths(200)

    assert before == names() == names()


def test_a_session_that_is_over_is_no_session():
    store = SessionStore()
    store["word"] = "kept"
    store.save()
    assert SessionStore(store.session_key).load() == {"word": "kept"}

    Session.objects.update(expire_date=timezone.now())

    assert SessionStore(store.session_key).load() == {}

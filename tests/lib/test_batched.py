"""Columns as texts of Postgres arrays: what comes back is what was given."""

from datetime import UTC, datetime, timedelta

import pytest
from psycopg._queries import MAX_CACHED_STATEMENT_LENGTH

from fleetwatch.ingest.continued_rows import CONTINUE
from fleetwatch.lib.batched import _compact, digests, moments, run, texts

pytestmark = pytest.mark.django_db

TEXTS = ["", "a", "NULL", '"', "\\", '\\"', "{a,b}", " a ", "ä \u2028", '{"a": "\\\\x"}', "a\nb"]


def test_texts_come_back_as_they_were():
    [(given,)] = run("SELECT %(texts)s::text[]", {"texts": texts(TEXTS)})

    assert given == TEXTS


def test_digests_come_back_as_they_were():
    values = [b"", b"\\x00", bytes(range(256))]

    [(given,)] = run("SELECT %(digests)s::bytea[]", {"digests": digests(values)})

    assert given == values


def test_moments_come_back_to_the_microsecond():
    first = datetime(2026, 11, 20, 12, 0, 0, 1, tzinfo=UTC)
    values = [first, first + timedelta(days=100, microseconds=123_456)]

    [(given,)] = run("SELECT %(moments)s::timestamptz[]", {"moments": moments(values)})

    assert given == values


@pytest.mark.parametrize("written", [texts, digests, moments])
def test_of_nothing_there_is_an_empty_array(written):
    [(given,)] = run("SELECT %(nothing)s::text[]", {"nothing": written([])})

    assert given == []


def test_the_statement_of_groups_is_parsed_by_the_driver_once():
    assert len(_compact(CONTINUE)) <= MAX_CACHED_STATEMENT_LENGTH

"""Room on the database's disk: what is kept free, and what is said while there is less."""

import pytest

from fleetwatch.operations import disk
from fleetwatch.operations.disk import Space

MIB, GIB = 1024**2, 1024**3


@pytest.fixture(autouse=True)
def _nothing_said():
    disk.refusals.forget()
    yield
    disk.refusals.forget()


@pytest.mark.parametrize(
    ("total", "reserve"),
    [
        (200 * MIB, 48 * MIB),
        (960 * MIB, 48 * MIB),
        (2000 * MIB, 100 * MIB),
        (20 * GIB, GIB),
        (10_000 * GIB, GIB),
    ],
)
def test_a_twentieth_is_kept_free_within_bounds(total, reserve):
    assert Space(free=0, total=total).reserve == reserve


@pytest.mark.parametrize(
    ("free", "is_short"),
    [(48 * MIB - 1, True), (48 * MIB, False), (48 * MIB + 1, False), (0, True)],
)
def test_room_is_short_below_what_is_kept_free(free, is_short):
    assert Space(free=free, total=200 * MIB).is_short is is_short


def test_of_another_server_nothing_is_known_until_it_says_so(settings):
    settings.DATABASE_FOLDER = None

    assert (disk.space(), disk.is_short(), disk.trouble()) == (None, False, None)
    disk.refusals.note()
    assert disk.trouble() == "the disk of the database is full"
    assert not disk.is_short()


def test_the_folder_s_own_disk_is_looked_at(settings, tmp_path):
    settings.DATABASE_FOLDER = tmp_path

    found = disk.space()

    assert found is not None
    assert 0 < found.free < found.total


def test_a_folder_that_is_not_there_yet_is_no_trouble(settings, tmp_path):
    settings.DATABASE_FOLDER = tmp_path / "postgres"

    assert disk.trouble() is None


def test_in_words_it_says_how_much_is_left(settings, monkeypatch):
    monkeypatch.setattr(
        disk.os,
        "statvfs",
        lambda _: type("Found", (), {"f_bavail": 39, "f_blocks": 200, "f_frsize": MIB}),
    )
    settings.DATABASE_FOLDER = "/"

    assert (
        disk.trouble()
        == "the disk of the database is full (39 of 200 MiB are free, 48 are kept for retention)"
    )

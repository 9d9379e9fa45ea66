import pytest

from fleetwatch.notify import secrets


def test_settings_come_back_and_are_unreadable_in_between():
    ring = secrets.keyring(["new"])

    stored = secrets.encrypt({"webhook_url": "https://hooks/secret"}, ring)

    assert b"secret" not in stored
    assert secrets.decrypt(stored, ring) == {"webhook_url": "https://hooks/secret"}


def test_an_older_key_still_opens_and_rotation_makes_it_unneeded():
    stored = secrets.encrypt({"a": "b"}, secrets.keyring(["old"]))

    rotated = secrets.rotate(stored, secrets.keyring(["new", "old"]))

    assert secrets.decrypt(stored, secrets.keyring(["new", "old"])) == {"a": "b"}
    assert secrets.decrypt(rotated, secrets.keyring(["new"])) == {"a": "b"}


def test_a_lost_key_is_said_not_guessed():
    stored = secrets.encrypt({"a": "b"}, secrets.keyring(["old"]))

    with pytest.raises(secrets.SecretsUnreadableError):
        secrets.decrypt(stored, secrets.keyring(["new"]))
    with pytest.raises(secrets.SecretsUnreadableError):
        secrets.rotate(stored, secrets.keyring(["new"]))

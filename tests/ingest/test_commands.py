"""create_agent_token and create_enrollment_token print the token, alone."""

from datetime import timedelta

import pytest
from django.core.management import CommandError, call_command
from django.utils import timezone

from fleetwatch.accounts.services import digest
from fleetwatch.ingest.models import AgentToken, EnrollmentToken
from fleetwatch.ingest.tokens import agent_token

pytestmark = pytest.mark.django_db


def test_an_agent_token_stands_alone_on_standard_output_and_is_stored_hashed(capsys):
    call_command("create_agent_token", "n1")
    text = capsys.readouterr().out

    assert text.startswith("fw_")
    assert text.endswith("\n")
    assert len(text.split()) == 1
    assert agent_token(text.strip(), timezone.now()).node.name == "n1"
    stored = AgentToken.objects.get()
    assert stored.digest == digest(text.strip())
    assert text.startswith(stored.hint)


def test_a_bad_node_name_is_a_clear_error():
    with pytest.raises(CommandError, match="letters, digits"):
        call_command("create_agent_token", "a b")


def test_an_enrolment_token_has_its_uses_and_its_end(capsys):
    call_command("create_enrollment_token", "--uses", "3", "--ttl", "2d")

    stored = EnrollmentToken.objects.get()
    assert len(capsys.readouterr().out.split()) == 1
    assert stored.uses_left == 3
    assert stored.expires_at - stored.created_at == timedelta(days=2)


@pytest.mark.parametrize(
    "arguments",
    [
        ["--uses", "0"],
        ["--uses", "1001"],
        ["--ttl", "0s"],
        ["--ttl", "1w"],
        ["--ttl", "400d"],
        ["--uses", "x"],
    ],
)
def test_a_wrong_option_is_a_clear_error(arguments):
    with pytest.raises(CommandError):
        call_command("create_enrollment_token", *arguments)

    assert not EnrollmentToken.objects.exists()

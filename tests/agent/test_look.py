import json
import logging

import pytest

from agent.check.look import _job_sources
from agent.check.report import Finding
from agent.dispatch import main


@pytest.fixture(autouse=True)
def plain_environment(monkeypatch):
    monkeypatch.delenv("FLEETWATCH_SERVER", raising=False)


def test_a_hub_that_nobody_named_is_said_to_be_not_asked(capsys):
    assert main(["check", "--source", "simulated:1xH100", "--json"]) == 0

    (finding,) = json.loads(capsys.readouterr().out)["hub"]
    assert (finding["name"], finding["state"]) == ("hub", "-")
    assert "no --server" in finding["text"]


@pytest.mark.parametrize(
    ("kind", "is_auto", "reason"),
    [
        ("slurm", True, "no slurmd runs here"),
        ("docker", True, "a scheduler is asked instead"),
        ("docker", False, "--jobs leaves it out"),
    ],
)
def test_books_that_are_here_and_are_not_asked_come_with_the_reason(kind, is_auto, reason):
    (finding,) = _job_sources([], [Finding(kind, "ok", "it is here")], {}, is_auto=is_auto)

    assert (finding.state, finding.text) == ("-", "it is here; not asked: " + reason)


def test_what_is_logged_after_a_check_is_printed_as_before(caplog):
    main(["check", "--source", "simulated:1xH100", "--json"])

    logging.getLogger("agent.sources").warning("a reading was lost")

    assert "a reading was lost" in caplog.text

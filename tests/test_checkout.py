"""What a bare checkout promises to whoever reads its README and types `make demo`."""

from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def test_the_requirements_are_the_same_on_every_python_and_machine():
    lines = (ROOT / "requirements.txt").read_text().splitlines()
    pins = [line for line in lines if line[:1].isalnum()]

    assert len(pins) > 50
    assert all("==" in pin for pin in pins)
    assert [pin for pin in pins if ";" in pin] == []


def test_the_embedded_broker_is_a_current_valkey_and_no_old_redis():
    pins = (ROOT / "requirements.txt").read_text()

    assert "\nvalkeylite==9." in pins
    assert "\nredislite==" not in pins


def test_the_readme_and_the_unit_name_no_repository_that_is_not_this_one():
    readme = (ROOT / "README.md").read_text()
    unit = (ROOT / "deploy/agent/fleetwatch-agent.service").read_text()

    assert "git clone <this repository> " in readme
    assert "github.com" not in readme + unit

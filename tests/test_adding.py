"""docs/adding.md: the files that it names are there, are as many as it says, and are enough."""

import ast
import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path

import pytest

from fleetwatch.notify import delivering, selectors, transports
from fleetwatch.notify.models import Delivery
from fleetwatch.notify.transports import TRANSPORTS
from fleetwatch.notify.transports.base import Config, ConfigField, Envelope, Receipt
from tests.dashboard import factories
from tests.notify.factories import queue

ROOT = Path(__file__).resolve().parents[1]
GUIDE = (ROOT / "docs" / "adding.md").read_text(encoding="utf-8")
SECTIONS = re.findall(r"^## ([^\n]*): (\d) files?\b[^\n]*\n(.*?)(?=^## |\Z)", GUIDE, re.M | re.S)
NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)


def product(*folders: str) -> Iterator[tuple[str, str]]:
    for path in sorted(one for folder in folders for one in (ROOT / folder).rglob("*.py")):
        if "migrations" not in path.parts:
            yield str(path.relative_to(ROOT)), path.read_text(encoding="utf-8")


def test_the_guide_has_each_kind_of_thing_and_fits_a_screen():
    assert [title for title, _, _ in SECTIONS] == [
        "A cause",
        "An alert condition",
        "A channel",
        "A page",
        "An agent source",
        "A column of the wire",
    ]
    assert len(GUIDE.splitlines()) <= 60


@pytest.mark.parametrize(("title", "count", "text"), SECTIONS, ids=[one[0] for one in SECTIONS])
def test_each_list_is_as_long_as_it_says_and_names_files_that_are_there(title, count, text):
    listed = re.findall(r"^\| `([^`]+)` \|", text, re.M)
    named = re.findall(r"`((?:agent|docs|fleetwatch|templates|tests)/[\w./]+)`", text)

    assert len(listed) == int(count)
    # what is new in each lies beside what is there
    missing = [name for name in named if not (ROOT / name).exists()]
    assert missing == [name for name in listed if "mine" in name]
    assert all((ROOT / name.partition("mine")[0]).is_dir() for name in missing)


def test_a_source_is_named_in_its_folder_and_where_the_guide_says():
    naming = {
        name
        for name, text in product("agent")
        if "DCGMSource" in text or re.search(r'"dcgm="', text)
    }

    assert {name for name in naming if not name.startswith("agent/sources/dcgm/")} == {
        "agent/sources/factory.py",
        "agent/config.py",
    }


def test_a_column_is_named_by_its_sources_and_where_the_guide_says():
    naming = {
        name
        for name, text in product("agent", "fleetwatch")
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Constant) and node.value == "sm_occupancy"
    }

    assert {
        name for name in naming if not name.startswith(("agent/sources/", "fleetwatch/demo/"))
    } == {
        "agent/wire.py",
        "agent/packed.py",
        "agent/check/check_advice.py",
    }


class Pigeon:
    """A channel as a newcomer would write it."""

    kind = "pigeon"
    label = "Carrier pigeon"
    fields = (ConfigField("loft", "Name of the loft"),)
    can_edit = False
    person_by = ""
    flown: list[str] = []

    def validate(self, config: Mapping[str, str]) -> Config:
        return dict(config)

    def describe(self, config: Mapping[str, str]) -> str:
        return config["loft"]

    def send(
        self, config: Mapping[str, str], envelope: Envelope, *, allow_private: bool
    ) -> Receipt:
        self.flown.append(f"{config['loft']}: {envelope.message.title}")
        return Receipt("arrived")


@pytest.mark.usefixtures("plain_static_files")
def test_a_toy_channel_in_one_class_has_its_form_and_delivers(client, db, monkeypatch):
    for module in (transports, selectors):
        monkeypatch.setattr(module, "TRANSPORTS", (*TRANSPORTS, Pigeon()))
    client.force_login(factories.user())
    form = {"kind": "pigeon", "name": "tower", "loft": "north"}

    asked = client.get("/settings/channels").content.decode()
    client.post("/settings/channel", form)
    [channel] = [one.channel for one in selectors.channels()]
    queue(channel, key="coo", title="coo")
    delivering.deliver_due(NOON, 20)

    assert "Carrier pigeon" in asked
    assert "Name of the loft" in asked
    assert Pigeon.flown == ["north: coo"]
    assert Delivery.objects.get(key="coo").state == "sent"

"""deploy/grafana/fleetwatch.json, read by Grafana's own types."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.cog.plugins import register_default_plugins
from grafana_foundation_sdk.models.dashboard import Dashboard

from fleetwatch.ledger.policy import STATES

FILE = Path(__file__).resolve().parents[2] / "deploy" / "grafana" / "fleetwatch.json"
WRITTEN = json.loads(FILE.read_text("utf-8"))
PANELS = [panel for panel in WRITTEN["panels"] if panel["type"] != "row"]


def lost(written: Any, read: Any, path: str = "") -> Iterator[str]:
    """Where what was read is not what is written: a key that Grafana does not have, a value that it
    takes for another.
    """
    if isinstance(written, dict) and isinstance(read, dict):
        for key, value in written.items():
            yield from lost(value, read.get(key, KeyError(key)), f"{path}.{key}")
    elif isinstance(written, list) and isinstance(read, list) and len(written) == len(read):
        for number, (value, other) in enumerate(zip(written, read, strict=True)):
            yield from lost(value, other, f"{path}[{number}]")
    elif written != read:
        yield f"{path}: {written!r} is read as {read!r}"


def test_grafana_reads_all_that_is_written():
    register_default_plugins()

    read = json.loads(json.dumps(Dashboard.from_json(WRITTEN), cls=JSONEncoder))

    assert list(lost(WRITTEN, read)) == []


def test_what_grafana_does_not_have_would_be_noticed():
    register_default_plugins()
    wrong = WRITTEN | {"panelz": []}

    read = json.loads(json.dumps(Dashboard.from_json(wrong), cls=JSONEncoder))

    assert len(list(lost(wrong, read))) == 1


def test_panels_lie_side_by_side_within_the_grid():
    cells = [
        (x, y)
        for place in (panel["gridPos"] for panel in WRITTEN["panels"])
        for x in range(place["x"], place["x"] + place["w"])
        for y in range(place["y"], place["y"] + place["h"])
    ]

    assert len(cells) == len(set(cells))
    assert max(x for x, _ in cells) == 23
    assert len({panel["id"] for panel in WRITTEN["panels"]}) == len(WRITTEN["panels"])


def test_each_panel_has_a_title_a_unit_and_the_readers_data_source():
    for panel in PANELS:
        assert panel["title"]
        assert panel["fieldConfig"]["defaults"]["unit"]
        assert {target["datasource"]["uid"] for target in panel["targets"]} == {"${datasource}"}


def test_each_state_has_its_colour():
    by_state = [panel for panel in PANELS if panel["fieldConfig"]["overrides"]]

    assert len(by_state) == 2
    for panel in by_state:
        named = [each["matcher"]["options"] for each in panel["fieldConfig"]["overrides"]]
        assert sorted(named) == sorted(STATES)

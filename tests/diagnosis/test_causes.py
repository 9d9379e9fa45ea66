"""A cause is one file: who names one, and what one more file is enough for."""

import ast
import re
import sys
from pathlib import Path
from typing import Any

import pytest
import time_machine

from agent.sources.simulated.archetypes import ARCHETYPES
from fleetwatch.diagnosis import causes, services
from fleetwatch.diagnosis.causes import BY_CODE, CATALOGUE, DETECTORS
from fleetwatch.diagnosis.judgement import verdicts
from fleetwatch.diagnosis.models import CauseEntry, Finding
from fleetwatch.ledger.policy import STATES
from fleetwatch.lib.intervals import HOUR_MS, from_ms
from tests.dashboard import factories
from tests.diagnosis import toy_cause
from tests.ledger.fleet import HALF, MINUTE, NOW, T0, Sender, a_job, held, post
from tests.markup import tight

ROOT = Path(__file__).resolve().parents[2]
# Here the names of causes are those of archetypes too: all of it is one place.
SIMULATED = ("agent/sources/simulated/", "fleetwatch/demo/")
# Words for other things as well: a telemetry column, and what the ledger says of a holder.
OTHER_WORDS = {"busy", "video_engines", *STATES}
TOY = toy_cause.CAUSE


def product_files() -> list[Path]:
    kinds = (".py", ".sql", ".html", ".js")
    found = [
        path for top in ("agent", "fleetwatch", "templates") for path in (ROOT / top).rglob("*")
    ]
    return [path for path in found if path.suffix in kinds and "migrations" not in path.parts]


def named(path: Path) -> set[str]:
    """The words that the file says as a name: strings and imports of Python, all words of others."""
    text = path.read_text(encoding="utf-8")
    if path.suffix != ".py":
        return set(re.findall(r"\w+", text))
    words: set[str] = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            words |= set(re.findall(r"'(\w+)'", node.value) or [node.value])
        elif isinstance(node, ast.ImportFrom) and (node.module or "").endswith("diagnosis.causes"):
            words |= {alias.name for alias in node.names}
    return words


def test_a_cause_is_named_in_its_file_in_the_tuple_and_in_two_places_more_at_most():
    places: dict[str, set[str]] = {code: set() for code in BY_CODE}
    for path in product_files():
        where = str(path.relative_to(ROOT))
        place = next((top for top in SIMULATED if where.startswith(top)), where)
        for code in places.keys() & named(path):
            places[code].add(place)

    assert {
        code: found for code, found in places.items() if len(found) > 4 and code not in OTHER_WORDS
    } == {}
    for code in BY_CODE:
        assert f"fleetwatch/diagnosis/causes/{code}.py" in places[code]


def test_every_cause_stands_in_the_guide_to_diagnosis():
    guide = (ROOT / "docs" / "diagnosis.md").read_text(encoding="utf-8")

    assert {code for code in BY_CODE if f"`{code}`" not in guide} == set()


def test_a_simulated_gpu_has_no_trouble_that_no_cause_names():
    truths = {part for one in ARCHETYPES for part in one.truth.split("|")}

    assert truths - BY_CODE.keys() == {"free"}


def put(monkeypatch: pytest.MonkeyPatch, old: Any, new: Any) -> None:
    """What every module would have got, had the tuple of causes been longer."""
    modules = [module for name, module in sys.modules.items() if name.startswith("fleetwatch.")]
    for module in modules:
        for name, value in list(vars(module).items()):
            if value is old:
                monkeypatch.setattr(module, name, new)


@pytest.fixture
def _toy(monkeypatch):
    """The toy cause, asked before all others."""
    put(monkeypatch, CATALOGUE, (TOY, *CATALOGUE))
    put(monkeypatch, DETECTORS, (*TOY.detectors, *DETECTORS))
    put(monkeypatch, verdicts.CAUSES, (*verdicts.CAUSES, TOY.code))
    monkeypatch.setitem(BY_CODE, TOY.code, TOY)
    for detector in TOY.detectors:
        monkeypatch.setitem(causes.OF_DETECTORS, detector, TOY)
    monkeypatch.setitem(verdicts.NUMBER, TOY.code, len(verdicts.NUMBER))


@pytest.mark.django_db
@pytest.mark.usefixtures("_toy", "plain_static_files")
def test_one_more_file_is_detected_drawn_advised_and_on_every_page(client):
    holds = [held(end=T0 + 2 * HOUR_MS)]
    post(Sender().batch(T0, *[HALF] * 120, jobs=[a_job()], allocations=holds))
    with time_machine.travel(NOW, tick=False):
        client.force_login(factories.user())

        services.diagnose(NOW, 1000)

        found = Finding.objects.get(cause=TOY.code)
        inbox = client.get("/findings?cause=half_at_play").content.decode()
        fields = client.get("/filters?of=cause&cause=half_at_play").content.decode()
        page = client.get(f"/findings/{found.pk}").content.decode()
        drawn = client.get(f"/charts/finding?finding={found.pk}&as=table").content.decode()
        told = client.get("/causes/half_at_play").content.decode()
        row = client.get(f"/api/v1/findings/{found.pk}").json()
    # all but the ten minutes in which the job warms up
    assert CauseEntry.objects.get(cause=TOY.code, start=from_ms(T0)).held_ms == 50 * MINUTE
    assert '<option value="half_at_play" selected>Half at play</option>' in tight(fields)
    assert "scancel 7" in inbox
    assert page.index("Play on 1 GPU at most.") < page.index("Put the toys away.")
    for words in ("The GPU plays half of the time.", "Work that looks like play.", "ask --gpu"):
        assert words in page
    assert "power, idle to limit" in drawn
    assert "utilisation</th>" not in drawn
    assert "utilisation, mean: at least 40 %" in told
    assert (row["cause"], row["title"], row["command"]) == (
        "half_at_play",
        "Half at play",
        "scancel 7",
    )
    assert causes.title("half_at_play") == "Half at play"

from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import pytest
import time_machine

from fleetwatch.dashboard import agents
from fleetwatch.dashboard.agent_columns import columns_of
from fleetwatch.dashboard.agent_history import Happening, beside_starts, gaps
from fleetwatch.dashboard.agent_reads import Reads, Sensor, sensor_names, sensors
from fleetwatch.dashboard.agents import Unread
from fleetwatch.dashboard.views import agent_pages
from fleetwatch.ingest import agent_package
from fleetwatch.ingest.models import AgentToken
from fleetwatch.inventory.agent_versions import is_older
from fleetwatch.lib.intervals import HOUR_MS, to_ms
from fleetwatch.telemetry.arrivals import Arrivals, of_received
from tests.dashboard import factories
from tests.markup import in_text, tight

NOW = datetime(2026, 11, 20, 12, 0, tzinfo=UTC)

SPOOL = '<dt><a class="link" href="/docs/glossary#spool">Waiting on disk</a></dt><dd>{}</dd>'


@pytest.mark.parametrize(
    ("received_at", "last_ms", "lag_ms"),
    [
        (NOW, to_ms(NOW) - 4_000, 4_000),
        (NOW, to_ms(NOW) - 86_400_000, 86_400_000),  # a day's queue is worked off
        (NOW, to_ms(NOW) + 500, 0),  # the agent's clock is a little ahead
        (None, to_ms(NOW), None),
        (NOW, None, None),
    ],
)
def test_the_lag_is_from_a_windows_end_to_its_arrival(received_at, last_ms, lag_ms):
    assert agents.lag_ms(received_at, last_ms) == lag_ms


@pytest.mark.parametrize(
    ("version", "than", "older"),
    [
        ("1.0.0", "1.0.0", False),
        ("1.0.9", "1.0.10", True),  # numbers, not text
        ("0.9.0", "1.0.0", True),
        ("1.0.1", "1.0.0", False),
        ("1.0.0-dirty", "2.0.0", False),  # what can't be compared is not accused
        (None, "1.0.0", False),
        (7, "1.0.0", False),
        ("", "1.0.0", False),
    ],
)
def test_an_older_version_is_told_by_its_numbers(version, than, older):
    assert is_older(version, than) is older


def test_metrics_refused_alike_are_one_row():
    rows = agents.unread_of(
        [
            (
                "0",
                {
                    "tensor_active": "not_supported",
                    "sm_active": "not_supported",
                    "memory_temperature_c": "error",
                },
            ),
            ("1", {"tensor_active": "not_supported", "sm_active": "not_supported"}),
        ]
    )

    assert rows == [
        Unread("this GPU or its driver does not tell it", ["sm_active", "tensor_active"], "all"),
        Unread("the driver answers with an error", ["memory_temperature_c"], "0"),
    ]


def test_a_reason_that_a_newer_agent_gives_is_shown_as_it_is():
    assert agents.unread_of([("0", {"power_w": "asleep_too_long"})]) == [
        Unread("asleep too long", ["power_w"], "all")
    ]


def test_nothing_refused_is_nothing_to_show():
    assert agents.unread_of([("0", {}), ("1", {})]) == []


@pytest.mark.django_db
def test_the_nodes_page_tells_lag_queue_losses_and_what_is_not_read(admin):
    node = factories.node(
        last_ms=to_ms(factories.NOW) - 7_200_000,
        agent={
            "version": "1.0.0",
            "driver": "580.159.04",
            "source": "nvml",
            "spool_bytes": 3_145_728,
            "dropped_windows": 12,
            "rss_bytes": 27_262_976,
        },
    )
    factories.gpu(node, index=0, unread={"sm_active": "no_permission"})
    factories.gpu(node, index=1)

    page = tight(admin.get("/nodes/node-001").content.decode().replace("\xa0", " "))

    assert "it came 2 h after it was measured" in page
    assert SPOOL.format("3.0 MB") in page
    assert '<dt>Lost windows</dt><dd><span class="up">12</span>' in page
    assert "<dt>Memory</dt><dd>26.0 MB</dd>" in page
    assert (
        "<td>the agent may not ask: it needs the rights of its systemd unit, or root</td>" in page
    )
    assert '<span title="sm_active">engine and SM activity</span></td>' in page


@pytest.mark.django_db
def test_an_agent_older_than_the_hubs_is_told_with_the_line_that_upgrades_it(admin, settings):
    settings.PUBLIC_URL = "https://hub.example"
    factories.gpu(factories.node(agent={"version": "0.1.0"}))
    factories.gpu(factories.node("node-002", agent={"version": agent_package.version()}))

    old, new = (admin.get(f"/nodes/{name}").content.decode() for name in ("node-001", "node-002"))

    assert '0.1.0 <span class="tag stall-c">older</span>' in old
    assert f"The current version is {agent_package.version()}." in old
    assert "curl -fsSL https://hub.example/agent/install.sh | sudo sh</code>" in old
    assert "The current version is" not in new
    assert "install.sh" not in new


@pytest.mark.django_db
def test_what_another_sender_does_not_tell_is_not_told(admin):
    factories.gpu(factories.node(agent={}, last_received_at=None))

    page = tight(admin.get("/nodes/node-001").content.decode())

    assert "after it was measured" not in page
    assert SPOOL.format("not reported") in page
    assert "<dt>Lost windows</dt><dd>not reported</dd>" in page


@pytest.mark.django_db
def test_an_agents_page_has_its_tokens_its_sources_and_the_line_that_upgrades_it(admin, settings):
    settings.PUBLIC_URL = "https://hub.example"
    node = factories.node(agent={"version": agent_package.version(), "spool_bytes": 3_145_728})
    factories.gpu(node, unread={"sm_active": "no_permission"})
    other = factories.node("node-002")
    for on, hint in ((node, "aaaa1111"), (node, "bbbb2222"), (other, "cccc3333")):
        AgentToken.objects.create(node=on, digest=hint, hint=hint, created_at=factories.NOW)
    AgentToken.objects.filter(hint="bbbb2222").update(revoked_at=factories.NOW)

    page = tight(admin.get("/agents/node-001").content.decode().replace("\xa0", " "))

    assert "aaaa1111…" in page
    assert "bbbb2222…" in page
    assert "cccc3333" not in page
    assert page.count("in force") == page.count('<span class="tag">revoked</span>') == 1
    assert SPOOL.format("3.0 MB") in page
    assert "the agent may not ask" in page
    assert page.count("sm_active") == 0  # said once, in words
    assert "curl -fsSL https://hub.example/agent/install.sh | sudo sh</code>" in page
    assert admin.get("/agents/nowhere").status_code == 404


@pytest.mark.django_db
def test_agents_are_listed_by_health_in_pages(admin, monkeypatch):
    monkeypatch.setattr(agent_pages, "PAGE_SIZE", 2)
    now_ms = to_ms(factories.NOW)
    for name, minutes in (("a", 0), ("b", 3), ("c", 11), ("d", 30), ("e", 0)):
        factories.node(name, last_ms=now_ms - minutes * 60_000)

    def names(query):
        return [each.node.name for each in admin.get(f"/agents{query}").context["agents"]]

    assert names("") == ["c", "d"]
    assert names("?after=d") == ["b", "a"]
    assert names("?after=a") == ["e"]
    assert names("?health=late") == ["b"]
    assert names("?health=ok&after=nobody") == ["a", "e"]
    assert admin.get("/agents").context["healths"] == [
        ("silent", "silent", 2),
        ("late", "late", 1),
        ("ok", "ok", 2),
    ]


def test_how_batches_came_is_their_lag_and_the_longest_time_without_one():
    def came(second, lag_s):
        at = NOW + timedelta(seconds=second)
        return at, to_ms(at) - lag_s * 1000

    received = [came(0, 2), came(30, 2), came(150, 90), came(180, 2)]

    assert of_received(received) == Arrivals(
        count=4,
        first_at=NOW,
        usual_ms=2_000,
        worst_ms=90_000,
        worst_at=NOW + timedelta(seconds=150),
        pause_ms=120_000,
        pause_at=NOW + timedelta(seconds=30),
    )
    assert of_received(received[:1]) is None


def test_hours_in_a_row_that_were_not_all_observed_are_one_gap():
    lost = {0: {"missing": 1_000}, HOUR_MS: {"silent": 5_000}, 3 * HOUR_MS: {"missing": 7}}

    assert gaps(lost) == [
        Happening("gap", 0, 2 * HOUR_MS, 6_000, "its node was silent, no data"),
        Happening("gap", 3 * HOUR_MS, 4 * HOUR_MS, 7, "no data"),
    ]


def test_a_gap_says_which_start_was_in_it_or_that_none_was():
    start = Happening("driver_opened", HOUR_MS + 1, None)
    gap = Happening("gap", HOUR_MS, 2 * HOUR_MS, 7, "no data")
    explained = Happening("gap", HOUR_MS, 2 * HOUR_MS, 7, "its node has no driver loaded")

    assert beside_starts(gap, [start]).text == "no data; its agent started then"
    assert beside_starts(gap, []).text.startswith("no data; no start or outage was reported then")
    assert beside_starts(explained, [start]) == explained


def test_a_sensor_is_read_where_a_column_of_it_has_a_value():
    groups = {"power": ("power_w", "energy_j"), "SM": ("sm_active",), "PCIe": ("rx", "tx")}

    read, not_read = sensors(groups, {"power_w", "rx", "tx"}, {"sm_active": "no_permission"})

    assert read == ["power", "PCIe"]
    assert not_read == [Sensor("SM", agents.REASONS["no_permission"])]


def test_sensors_that_are_not_read_for_one_reason_say_it_once():
    not_read = [Sensor("SM", "off"), Sensor("PCIe", ""), Sensor("NVLink", "off")]

    assert Reads(None, [], not_read).by_reason == [("off", ["SM", "NVLink"]), ("", ["PCIe"])]


def test_what_is_the_same_of_all_agents_is_said_once():
    def agent(**told):
        return SimpleNamespace(node=SimpleNamespace(agent=told, clock_offset_ms=0))

    several = [agent(version="1.0.0", dropped_windows=0), agent(version="1.0.1", dropped_windows=0)]

    assert columns_of(several) == {
        "columns": ["version", "driver", "source", "spool"],
        "alike": ["clocks in sync", "no window lost"],
    }
    assert columns_of(several[:1])["alike"] == []


@pytest.mark.django_db
def test_the_hour_that_goes_on_is_drawn_and_named_as_far_as_it_is_over(admin):
    """At 12:15 a quarter of the hour from 12:00 on is over, of 167 hours before."""
    gpu = factories.gpu(factories.node())
    factories.entry(gpu, hours_ago=0, state="unobserved").save()
    with time_machine.travel(factories.NOW + timedelta(minutes=15), tick=False):
        page = tight(admin.get("/agents/node-001").content.decode())

    history = page.partition('id="history"')[2].partition("</section>")[0]
    assert 'viewBox="0 0 167.25 24"' in history
    assert 'x="167" y="0" width="0.25"' in history
    assert "<span>13 Nov 13:00</span><span>20 Nov 12:15</span>" in history
    assert "Fri 20 Nov, 12:00 to 12:15" in history
    assert "13:00</td>" not in history


def test_metrics_are_told_as_the_sensors_that_they_are_of():
    assert sensor_names(["dram_active", "sm_active", "gr_engine_active", "new_metric"]) == [
        "DRAM activity",
        "engine and SM activity",
        "new_metric",
    ]


@pytest.mark.django_db
def test_agents_are_narrowed_to_nodes_that_lately_worked_for_a_team_or_a_cluster(admin):
    """A node that was silent for days counts as long as its work is not older than a week."""
    for name, team, cluster, days in (
        ("a", "nlp", "della", 0), ("b", "nlp", "erie", 5), ("c", "nlp", "della", 8), ("d", "vision", "della", 1),
    ):  # fmt: skip
        job = factories.job(f"slurm/{cluster}/{name}", team=team, cluster=cluster)
        factories.entry(
            factories.gpu(factories.node(name)), hours_ago=24 * days + 1, held_by=job
        ).save()

    def names(query):
        return {each.node.name for each in admin.get(f"/agents?{query}").context["agents"]}

    assert names("team=nlp") == {"a", "b"}
    assert names("cluster=della") == {"a", "d"}
    assert names("team=nlp&cluster=della") == {"a"}
    assert names("team=nlp&node=b") == {"b"}
    page = tight(admin.get("/agents?team=nlp").content.decode())
    assert "Shown are nodes that worked for this team in the last 7 days." in page
    assert "There is no parameter" not in page
    assert "Shown are" not in tight(admin.get("/agents?node=a").content.decode())
    nobody = in_text(admin.get("/agents?team=nosuch").content.decode())
    assert "No node worked for team nosuch in the last 7 days Clear the filters" in nobody
    assert "No node fits the filters" in in_text(admin.get("/agents?node=z").content.decode())

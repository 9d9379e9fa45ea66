"""A real Prometheus scrapes a hub, with the rules that ship."""

from datetime import timedelta
from urllib.parse import urlsplit

import pytest
from django.utils import timezone

from fleetwatch.accounts.services import create_api_token
from fleetwatch.notify.models import Channel
from fleetwatch.operations.models import JobRun
from tests.channels.real_prometheus import Prometheus
from tests.dashboard import factories
from tests.notify.factories import slack_channel

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def prometheus(live_server, tmp_path):
    """Of a hub that judged nothing for 20 minutes, and whose channel is off for good."""
    at = timezone.now() - timedelta(minutes=20)
    JobRun.objects.create(name="ledger.post", started_at=at, finished_at=at, ok=True)
    slack_channel("https://slack.example")
    Channel.objects.update(is_enabled=False, disabled_reason="404")
    token = create_api_token(factories.user(), scope="read", now=timezone.now())
    server = Prometheus(tmp_path, urlsplit(live_server.url).netloc, token)
    yield server
    server.stop()


def test_it_scrapes_us_evaluates_every_rule_and_what_is_wrong_fires(prometheus):
    target = prometheus.target("up")
    rules = prometheus.rules()

    assert target["lastError"] == ""
    assert len(rules) == 14
    assert {(each["health"], each.get("lastError", "")) for each in rules.values()} == {("ok", "")}
    states = {name: each["state"] for name, each in rules.items() if each["state"] != "inactive"}
    assert states.pop("FleetWatchPostingLate") == "firing"
    # five minutes must pass
    assert states.pop("FleetWatchChannelDown") == "pending"
    [alert] = rules["FleetWatchPostingLate"]["alerts"]
    assert alert["annotations"]["summary"].startswith("ledger.post did not run for 20m")
    assert alert["labels"]["severity"] == "critical"


def test_a_token_that_is_none_is_a_target_that_is_down(live_server, tmp_path):
    server = Prometheus(tmp_path, urlsplit(live_server.url).netloc, "none")
    try:
        target = server.target("down")
    finally:
        server.stop()

    assert "401" in target["lastError"]

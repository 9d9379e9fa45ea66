"""Incidents as pages show them, and what a page says."""

from datetime import timedelta
from decimal import Decimal

import msgspec

from fleetwatch.alerts.breach import Breach
from fleetwatch.alerts.models import (
    Incident,
    Rule,
)
from fleetwatch.lib.intervals import to_ms
from tests.alerts.factories import an_incident
from tests.dashboard import factories
from tests.dashboard.factories import NOW

HOSTILE = "<script>alert(1)</script>"


def breach(key: str = "slurm/della/7", **fields) -> Breach:
    """An hour of an idle job that costs $2 an hour."""
    usual = {
        "subject": key,
        "kind": "job",
        "since_ms": to_ms(NOW - timedelta(hours=1)),
        "until_ms": to_ms(NOW),
        "word": "idle",
        "tag": "idle held",
        "title": f"idle · node-001 GPU 0 · {key}",
        "where": "node-001 GPU 0",
        "what": f"The only GPU of job {key} did nothing",
        "had": "The only GPU had been idle",
        "limit": "idle ≥ 30 min",
        "owner": "ann (nlp)",
        "usd_per_hour": Decimal(2),
        "cost_usd": Decimal(2),
        "actions": (f"Fix: scancel {key}, or give the GPUs back.",),
        "command": f"scancel {key}",
        "labels": {"user": ("ann",), "team": ("nlp",), "job": (key,)},
    }
    return Breach(**(usual | fields))


def incident(key: str = "slurm/della/7", *, facts: dict | None = None, **fields) -> Incident:
    stored = msgspec.to_builtins(breach(key, **(facts or {})))
    rule = fields.pop("rule", None) or Rule.objects.get(condition="job_idle")
    opened_at = fields.pop("opened_at", NOW - timedelta(minutes=30))
    return an_incident(rule, key, opened_at=opened_at, facts=stored, **fields)


def slowed(
    number: int, *, minutes: float, node: str = "h100-01", usd_per_hour: Decimal | None = None
) -> Incident:
    """Of a GPU that was slowed, which fired so many minutes from an hour ago on."""
    place = f"{node} GPU {number}"
    facts = {
        "kind": "gpu",
        "word": "slowed",
        "title": f"slowed by heat or power · {place}",
        "what": f"{place} was slowed by heat or power",
        "labels": {"node": (node,), "cause": ("throttled",)},
        "command": "",  # nothing is to be ended
        "owner": "",
        "has_cost": False,
        "usd_per_hour": usd_per_hour,
        "cost_usd": None,
    }
    fired_ms = to_ms(NOW - timedelta(minutes=60 - minutes))
    rule = Rule.objects.get(condition="gpu_slowed")
    return incident(f"GPU-{node}-{number}", rule=rule, fired_ms=fired_ms, facts=facts)


def text(client, address: str) -> str:
    answer = client.get(address)
    assert answer.status_code == 200, address
    return answer.content.decode()


def admin_user():
    return factories.User.objects.get(username="ann")


def keys(client, address: str) -> list[str]:
    """The jobs that are listed, in order."""
    lines = client.get(address).context["lines"]
    return [line.breach.subject.removeprefix("slurm/della/") for line in lines]

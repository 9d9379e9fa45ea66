"""A hub's story, told to whichever database DATABASE_URL names: `python -m tests.citus.hub_story
WHEN`, WHEN the large tables are distributed: never, first (on an empty hub) or later (on a filled one); read: it is told already.

A day of simulated GPUs comes in by the door, a node after the other, is posted, sealed, summed,
diagnosed and judged by the rules; then pages are opened and the ledger is checked. Prints all that
it came to, as JSON.
"""

import json
import os
import sys
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from io import StringIO
from typing import Any

import time_machine

NOW = datetime(2026, 11, 20, 0, 30, tzinfo=UTC)
UNTIL = "2026-11-20T00:00:00Z"
DAY = timedelta(days=1)
# that need no collected manifest
STATIC_FILES = "django.contrib.staticfiles.storage.StaticFilesStorage"
GPUS = (8, 16)  # of the first node, of two
OF_THE_DAY = "?from=2026-11-19&to=2026-11-20"
PAGES = (
    *(f"{page}{OF_THE_DAY}" for page in (
        "/overview", "/fleet", "/fleet/idle", "/jobs", "/waste", "/costs", "/capacity",
        "/findings", "/api/v1/fleet/summary", "/api/v1/waste", "/api/v1/jobs",
    )),
    "/agents", "/causes", "/alerts", "/alerts/rules", "/status", "/metrics",
)  # fmt: skip
PARTS = (
    f"/wasters{OF_THE_DAY}",
    f"/recoverable{OF_THE_DAY}",
    "/worst",
    "/changes",
)  # which a page asks for


def main(when: str) -> None:
    import django

    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "fleetwatch.settings")
    django.setup()
    with time_machine.travel(NOW, tick=True):
        if when != "read":
            _tell(when)
        sys.stdout.write(json.dumps(_outcome()))


def _tell(when: str) -> None:
    from django.core.management import call_command

    quiet = StringIO()
    call_command("migrate", interactive=False, verbosity=0)
    if when == "first":
        call_command("distribute", stdout=quiet)
    for gpus in GPUS:
        call_command("demo_history", days=1, gpus=gpus, until=UNTIL, stdout=quiet)
        call_command("settle", stdout=quiet)
        if when == "later" and gpus == GPUS[0]:
            call_command("distribute", stdout=quiet)


def _outcome() -> dict[str, Any]:
    return {
        "check_ledger": _checked(),
        "pages": _pages(),
        "dollars": _dollars(),
        "findings": _findings(),
        "incidents": _incidents(),
    }


def _checked() -> str:
    from django.core.management import call_command

    said = StringIO()
    with suppress(SystemExit):
        call_command("check_ledger", stdout=said, stderr=StringIO())
    return said.getvalue()


def _pages() -> dict[str, int]:
    """Status by page, each of them, their parts and some of single nodes, GPUs, jobs, findings and incidents."""
    from django.conf import settings
    from django.test import Client

    from fleetwatch.accounts.models import User

    settings.STORAGES["staticfiles"]["BACKEND"] = STATIC_FILES

    client = Client(raise_request_exception=False, SERVER_NAME="localhost")
    admin, _ = User.objects.get_or_create(
        username="admin", defaults={"is_superuser": True, "role": User.Role.ADMIN}
    )
    client.force_login(admin)
    pages = [*zip(PAGES, PAGES, strict=True), *_single_pages()]
    statuses = {name: client.get(address).status_code for name, address in pages}
    asked = {"HX-Request": "true"}
    return statuses | {part: client.get(part, headers=asked).status_code for part in PARTS}


def _single_pages() -> Iterator[tuple[str, str]]:
    """Its name in the outcome, and its address."""
    from fleetwatch.alerts.models import Incident
    from fleetwatch.diagnosis.models import Finding
    from fleetwatch.inventory.models import GPU, Node
    from fleetwatch.jobs.models import Job

    yield "node", f"/nodes/{Node.objects.earliest('name').name}{OF_THE_DAY}"
    yield "gpu", f"/gpus/{GPU.objects.earliest('uuid').uuid}{OF_THE_DAY}"
    yield "job", f"/jobs/{Job.objects.exclude(findings=None).earliest('key').key}"
    for number, finding in enumerate(Finding.objects.order_by("cause", "first_ms")[:5]):
        yield f"finding {number}", f"/findings/{finding.pk}"
    for number, incident in enumerate(Incident.objects.order_by("since_ms")[:5]):
        yield f"incident {number}", f"/incidents/{incident.pk}"


def _dollars() -> dict[str, list[list[Any]]]:
    """Of each way to group them the lines: name, dollars and milliseconds, exactly."""
    from fleetwatch.figures.selectors import GROUPS, totals_by
    from fleetwatch.lib.intervals import Interval

    end = datetime.fromisoformat(UNTIL)
    day = Interval(end - DAY, end)
    return {
        group_by: sorted(
            [line.label, str(line.totals.cost_usd), line.totals.capacity_ms]
            for line in totals_by(day, group_by)
        )
        for group_by in GROUPS
    }


def _findings() -> list[list[Any]]:
    from fleetwatch.diagnosis.models import Finding

    return sorted(
        list(map(str, row))
        for row in Finding.objects.values_list(
            "job__key", "node__name", "cluster", "cause", "first_ms", "status"
        )
    )


def _incidents() -> list[list[Any]]:
    from fleetwatch.alerts.models import Incident

    return sorted(
        list(map(str, row))
        for row in Incident.objects.values_list("rule__condition", "subject", "since_ms", "state")
    )


if __name__ == "__main__":
    main(sys.argv[1])

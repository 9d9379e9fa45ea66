"""From windows as agents send them to messages as Slack and a mail server get them, with nothing
faked in between.
"""

import pytest

from agent import wire
from fleetwatch.alerts import selectors
from fleetwatch.alerts.messaging import announcing
from fleetwatch.alerts.models import Incident
from fleetwatch.ingest.services import store_batch
from fleetwatch.inventory.services import node_by_name
from fleetwatch.ledger import services as ledger
from fleetwatch.lib.intervals import to_ms
from fleetwatch.notify import delivering
from tests.alerts.factories import NINE, a_rule, at, ms, open_incidents
from tests.costs.factories import a_rate
from tests.ingest.factories import gpu, job, payload
from tests.notify.factories import email_channel, slack_channel

GPUS = ("GPU-a", "GPU-b")


def send(
    start: float, end: float, utils: tuple[float, float], *, sequence: int, is_held: bool = True
) -> None:
    """Windows of both GPUs from minute `start` to `end`, each GPU at its utilisation, received at
    the end and posted.
    """
    count = int((end - start) * 6)
    busy = list(utils) * count
    mapping = payload(
        node="gpu-07",
        start_ms=ms(start),
        count=count,
        gpus=[gpu(uuid, index=index) for index, uuid in enumerate(GPUS)],
        sequence=sequence,
        boot_start_ms=to_ms(NINE) - 86_400_000,
        sources=[{"kind": "slurm", "ok": True, "seen_ms": ms(end)}],
        jobs=[job("slurm/della/1", user="ana", account="nlp", name="sweep-7", kind="batch")]
        if is_held
        else [],
        allocations=[
            {"gpu": place, "job": 0, "source": "slurm", "start_ms": ms(-60)} for place in (0, 1)
        ]
        if is_held
        else [],
    )
    mapping["windows"] |= {
        "util_mean": busy,
        "util_max": busy,
        "power_w": [122.0 if util == 0 else 600.0 for util in busy],
        "memory_used_bytes": [40_000_000_000 if is_held else 0] * len(busy),
        "process_count": [1 if is_held else 0] * len(busy),
    }
    store_batch(node_by_name("gpu-07"), wire.parse(mapping), received_at=at(end))
    ledger.post(at(end), 1000)


@pytest.mark.django_db
def test_an_idle_gpu_is_told_to_people_and_so_is_its_end(slack, smtp):
    a_rule(condition="gpu_idle", threshold=1)
    slack_channel(slack.url)
    email_channel(smtp.port)
    send(-60, -30, (0.9, 0.9), sequence=1)
    send(-30, -1, (0.9, 0.0), sequence=2)
    a_rate("4", node="gpu-07")

    too_early = announcing.run(at(-1))
    send(-1, 15, (0.9, 0.0), sequence=3)  # across the hour
    opened = announcing.run(at(15))
    delivering.deliver_due(at(15), 10)
    send(15, 20, (0.9, 0.9), sequence=4)
    resolved = announcing.run(at(20))
    delivering.deliver_due(at(20), 10)

    assert (too_early["opened"], opened["opened"], resolved["resolved"]) == (0, 1, 1)
    titles = [sent["blocks"][0]["text"]["text"] for sent in slack.script.requests]
    assert titles == [
        "🟠 idle · gpu-07 GPU 1 (H100 SXM) · since 08:30 UTC (45 m)",
        "🟢 resolved · gpu-07 GPU 1 · idle for 45 m, cost $3.00",
    ]
    assert [mail["Subject"].strip() for mail in smtp.script.mails] == [
        title[2:] for title in titles
    ]
    assert (
        "1 of 2 GPUs of job slurm/della/1 “sweep-7” has been idle for 45 m"
        in slack.script.requests[0]["text"]
    )


@pytest.mark.django_db
def test_the_end_of_the_job_resolves_it():
    a_rule()
    send(-60, 0, (0.0, 0.0), sequence=1)
    opened = announcing.run(at(0))

    send(0, 5, (0.0, 0.0), sequence=2, is_held=False)
    announcing.run(at(5))

    view = selectors.view_of(Incident.objects.get())
    assert opened["opened"] == 1
    assert view.breach.where == "gpu-07 GPU 0, 1"
    assert view.incident.resolution == "the allocation ended"
    assert (view.breach.since_ms, view.breach.until_ms) == (ms(-60), ms(0))


@pytest.mark.django_db
def test_a_node_that_falls_silent_neither_opens_nor_resolves():
    a_rule(condition="gpu_idle", threshold=1)
    send(-60, -40, (0.9, 0.9), sequence=1)
    send(-40, -15, (0.9, 0.0), sequence=2)

    silent = announcing.run(at(60))
    send(60, 61, (0.9, 0.9), sequence=3)
    back = announcing.run(at(61))

    assert (silent["opened"], back["opened"]) == (0, 0)


@pytest.mark.django_db
def test_late_data_that_shows_activity_resolves_it():
    a_rule(condition="gpu_idle", threshold=1)
    send(-60, -40, (0.9, 0.9), sequence=1)
    send(-40, -5, (0.9, 0.0), sequence=2)
    opened = announcing.run(at(-5))
    silent = announcing.run(at(30))

    send(-5, 30, (0.9, 0.9), sequence=3)
    late = announcing.run(at(31))

    assert (
        opened["opened"],
        silent["no_data"] + silent["kept"],
        silent["resolved"],
        late["resolved"],
    ) == (1, 1, 0, 1)
    assert open_incidents() == []

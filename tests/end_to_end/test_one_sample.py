"""A GPU that a job holds does nothing for an hour: the same $3.60 in a page, a line of a file and a message.

3,600 readings of 0 % and 122 W become 360 windows, those one batch at the hub's door, that one ledger entry of
3,600,000 GPU-ms idle, at $3.60 per GPU-hour.
"""

import csv
import gzip
import io
from datetime import timedelta
from decimal import Decimal

import pytest
import time_machine

from agent import batch, wire
from agent.batch import ClosedWindow
from agent.readings import Allocation, GPUInfo, Job, Reading, SourceStatus, Workload
from agent.window import close_window
from fleetwatch.accounts.models import User
from fleetwatch.alerts.messaging import announcing
from fleetwatch.ingest.tokens import create_agent_token
from fleetwatch.inventory.models import GPUModel
from fleetwatch.ledger import services as ledger
from fleetwatch.ledger.models import Entry
from fleetwatch.lib.intervals import HOUR_MS, to_ms
from fleetwatch.notify import delivering
from tests.alerts.factories import NINE, a_rule
from tests.costs.factories import set_rate
from tests.markup import tight
from tests.notify.factories import slack_channel

TEN = NINE + timedelta(hours=1)
WINDOW_MS = 10_000
JOB = Job(
    "slurm/della/1",
    scheduler="slurm",
    cluster="della",
    id="1",
    name="sweep-7",
    user="ann",
    account="nlp",
)
H100 = GPUInfo(
    "GPU-1", 0, "NVIDIA H100 80GB HBM3", memory_total_bytes=85_520_809_984, power_limit_w=700.0
)


def sampled_hour() -> list[ClosedWindow]:
    """What the agent makes of one reading a second from nine to ten."""
    start_ms = to_ms(NINE)
    held = Workload(
        jobs=[JOB],
        allocations=[Allocation(H100.uuid, JOB.key, "slurm", start_ms=start_ms - HOUR_MS)],
        sources=[SourceStatus("slurm", ok=True, seen_ms=start_ms)],
    )
    closed = []
    for begin_ms in range(start_ms, start_ms + HOUR_MS, WINDOW_MS):
        seconds = range(begin_ms, begin_ms + WINDOW_MS + 1000, 1000)
        readings = [
            Reading(at_ms, util=0.0, power_w=122.0, memory_used_bytes=60 * 2**30)
            for at_ms in seconds
        ]
        window = close_window(
            readings, gpu=H100, start_ms=begin_ms, end_ms=begin_ms + WINDOW_MS, interval_ms=1000
        )
        closed.append(ClosedWindow(begin_ms, [window], held))
    return closed


def on_the_wire() -> bytes:
    sender = batch.Sender("gpu-07", "boot-1", to_ms(NINE) - HOUR_MS, WINDOW_MS // 1000)
    agent = {"version": "1.0.0", "source": "nvml", "driver": "580.159.04"}
    return gzip.compress(
        wire.encode(batch.build(sampled_hour(), sender=sender, gpus=[H100], agent=agent, events=[]))
    )


@pytest.fixture
def _at_ten():
    with time_machine.travel(TEN, tick=False):
        yield


@pytest.mark.django_db
@pytest.mark.usefixtures("_at_ten", "plain_static_files")
def test_a_sample_becomes_the_same_dollars_on_a_page_in_a_csv_line_and_in_slack(client, slack):
    a_rule()
    slack_channel(slack.url)
    bearer = create_agent_token("gpu-07", NINE)
    client.force_login(User.objects.create(username="ann", role="lead"))

    answer = client.post(
        "/api/v1/batches",
        on_the_wire(),
        content_type="application/json",
        headers={"Authorization": f"Bearer {bearer}", "Content-Encoding": "gzip"},
    )
    set_rate(GPUModel.objects.get(name="H100 SXM"), Decimal("3.60"), valid_from=NINE, now=TEN)
    ledger.post(TEN, 10)
    announcing.run(TEN)
    delivering.deliver_due(TEN, 10)
    period = {"from": NINE.isoformat(), "to": TEN.isoformat()}
    page = client.get("/", period).content.decode()
    table = client.get("/waste.csv", period | {"group_by": "job"}).content.decode()
    (message,) = slack.script.requests

    assert answer.json()["stored"] == 360
    assert list(Entry.objects.values_list("state", "tier", "gpu_ms")) == [
        ("idle", "certain", HOUR_MS)
    ]
    assert '<b>1 GPU idle right now, <span title="$3.600000">$3.60</span>/h.</b>' in page
    assert (
        '>Wasted, 20 Nov 2026, 09:00 – 10:00</a></dt><dd><span title="$3.600000">$3.60</span></dd>'
        in tight(page)
    )
    (line,) = csv.DictReader(io.StringIO(table))
    assert (line["job"], line["idle_gpu_hours"]) == ("slurm/della/1", "1.000000")
    assert (line["cost_usd"], line["waste_certain_usd"]) == ("3.600000", "3.600000")
    assert (
        message["blocks"][0]["text"]["text"]
        == "🟠 idle · gpu-07 GPU 0 (H100 SXM) · since 09:00 UTC (1 h 00 m)"
    )
    assert "So far\n$3.60" in [field["text"] for field in message["blocks"][2]["fields"]]

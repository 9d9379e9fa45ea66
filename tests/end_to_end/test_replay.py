"""A recorded nvidia-smi log, sent by the real agent over HTTP, ends as the states and dollars
worked out by hand.

One hour of two H100 at one reading per 5 s, declared as one batch job, at $3.60 per GPU-hour
(so a million GPU-milliseconds cost one dollar):

GPU 0, 20 min at 100 %, 612 W: a = 1; pr = (612 - 70) / (700 - 70) = 0.860, above 0.65: all useful,
1,200,000 ms. GPU 0, 20 min at 0 %, 122 W: quiet for more than 15 minutes: idle, exactly zero:
certain waste, 1,200,000 ms. GPU 0, 20 min at 50 %, 230 W: half of each 10 s window is inactive:
stalled, 600,000 ms. The rest draws
    (230 - 0.5 x 110) / 0.5 = 350 W, with P_rest = 70 + min(40, 0.2 x 630) = 110; pr = 280 / 630 =
    0.444; e = 0.444 / 0.65 = 0.68376. Of 5,000 ms a window 3,418.8 are useful and 1,581.2
    underused: 3,419 and 1,581 by largest remainder, 120 windows: 410,280 and 189,720 ms.
GPU 1, 60 min at 0 %, 0 MiB: idle from the start: certain waste, 3,600,000 ms.
"""

import subprocess
import sys
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path

import pytest
from django.core.management import call_command

from fleetwatch.accounts.models import User
from fleetwatch.ingest.tokens import create_agent_token
from fleetwatch.inventory.models import GPUModel
from fleetwatch.ledger.models import Entry
from tests.costs.factories import set_rate

ROOT = Path(__file__).resolve().parents[2]
START = datetime(2026, 11, 3, 9, tzinfo=UTC)
PERIOD = {"from": "2026-11-03T09:00:00Z", "to": "2026-11-03T10:00:00Z"}
USEFUL, UNDERUSED, STALLED, IDLE = 1_610_280, 189_720, 600_000, 4_800_000


def write_log(path: Path) -> None:
    """What `nvidia-smi --query-gpu=timestamp,index,… --format=csv -l 5` prints."""
    lines = [
        "timestamp, power.draw [W], index, utilization.gpu [%], memory.used [MiB], memory.total"
        " [MiB], power.limit [W], name"
    ]
    for step in range(720):
        at = (START + timedelta(seconds=5 * step)).strftime("%Y/%m/%d %H:%M:%S.000")
        util, watts, used = ((100, 612.00, 61440), (0, 122.00, 61440), (50, 230.00, 61440))[
            step // 240
        ]
        for index, row in enumerate(((util, watts, used), (0, 71.50, 0))):
            lines.append(
                f"{at}, {row[1]:.2f} W, {index}, {row[0]} %, {row[2]} MiB, 81559 MiB, 700.00 W,"
                " NVIDIA H100 80GB HBM3"
            )
    path.write_text("\n".join(lines) + "\n")


def replay(log: Path, *, server: str, token: str) -> "subprocess.CompletedProcess[str]":
    command = [
        sys.executable,
        "-m",
        "agent",
        "replay",
        str(log),
        "--server",
        server,
        "--token",
        token,
        "--node",
        "gpu-07",
    ]
    job = ["--job", "slurm/della/4711", "--user", "ann", "--kind", "batch"]
    return subprocess.run(
        [*command, *job], cwd=ROOT, capture_output=True, text=True, timeout=120, check=False
    )


@pytest.fixture
def replayed(live_server, tmp_path, transactional_db, plain_static_files):
    write_log(tmp_path / "log.csv")
    now = datetime.now(UTC)
    token = create_agent_token("gpu-07", now)
    first = replay(tmp_path / "log.csv", server=live_server.url, token=token)
    again = replay(tmp_path / "log.csv", server=live_server.url, token=token)
    assert (first.returncode, again.returncode) == (0, 0), first.stderr + again.stderr
    call_command("settle")
    set_rate(GPUModel.objects.get(name="H100 SXM"), Decimal("3.60"), valid_from=START, now=now)
    User.objects.create_user("ann", password="a-long-password-1", role="lead")


@pytest.mark.django_db(transaction=True, serialized_rollback=True)
def test_a_recorded_log_becomes_the_states_and_dollars_worked_out_by_hand(replayed, client):
    client.login(username="ann", password="a-long-password-1")

    summary = client.get("/api/v1/fleet/summary", PERIOD).json()

    assert summary["capacity_ms"] == 7_200_000
    assert summary["states"] == {
        "useful": USEFUL, "underused": UNDERUSED, "stalled": STALLED, "idle": IDLE,
        "starting": 0, "orphaned": 0, "free": 0, "unavailable": 0, "unobserved": 0,
    }  # fmt: skip
    assert summary["coverage"] == 1.0
    assert summary["cost_usd"]["total"] == 7.2
    assert summary["cost_usd"]["states"]["idle"] == 4.8
    assert summary["cost_usd"]["states"]["useful"] == 1.61028
    assert summary["waste"]["certain"] == {"gpu_hours": pytest.approx(4.8 / 3.6), "usd": 4.8}
    assert summary["waste"]["probable"]["usd"] == 0.6
    assert summary["waste"]["potential"]["usd"] == 0.18972


@pytest.mark.django_db(transaction=True, serialized_rollback=True)
def test_the_pages_show_the_same_figures_and_the_ledger_balances(replayed, client):
    client.login(username="ann", password="a-long-password-1")

    overview = client.get("/", PERIOD).content.decode()
    waste = client.get("/waste", {**PERIOD, "group_by": "job"}).content.decode()
    job = client.get("/jobs/slurm/della/4711", PERIOD).content.decode()

    assert "5.40" in overview  # certain and probable: 4.80 + 0.60
    assert "5.40" in waste
    assert "7.20" in job
    assert "ann" in job
    assert sum(Entry.objects.values_list("gpu_ms", flat=True)) == 7_200_000
    call_command("check_ledger")

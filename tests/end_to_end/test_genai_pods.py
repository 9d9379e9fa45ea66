"""A production service that mostly waits while its model holds memory: recorded logs through `agent
replay`, posting and diagnosis.

Reads genai_pods/pods.csv of FLEETWATCH_EXTERNAL_DATA (alibaba/clusterdata: GPU utilisation and
memory of eleven pods, each 57 s for a day).
"""

import csv
import os
from collections import defaultdict
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from django.db.models import F, Sum

from agent import config
from agent.replay import replay
from agent.sending.payloads import batch_of
from agent.sending.sender import Outcome, Verdict
from fleetwatch.alerts.back_test import back_test
from fleetwatch.alerts.breach import Settings
from fleetwatch.alerts.conditions import CONDITIONS, condition
from fleetwatch.diagnosis import services
from fleetwatch.diagnosis.models import CauseEntry, Finding
from fleetwatch.ingest.services import store_batch
from fleetwatch.inventory.services import node_by_name
from fleetwatch.jobs.models import Job
from fleetwatch.ledger.services import post
from fleetwatch.lib.intervals import Interval

DATA = Path(os.environ.get("FLEETWATCH_EXTERNAL_DATA", "/nowhere")) / "genai_pods" / "pods.csv"
HEADER = "timestamp, index, name, utilization.gpu [%], memory.used [MiB], memory.total [MiB]"
START = datetime(2026, 11, 19, tzinfo=UTC)
NOW = START + timedelta(days=1, hours=6)
WORK = ("job_hung", "job_spinning", "job_stalled", "job_underused", "low_utilisation")

needs_recordings = pytest.mark.skipif(
    not DATA.exists(), reason="FLEETWATCH_EXTERNAL_DATA names no folder with genai_pods"
)
pytestmark = [pytest.mark.django_db, needs_recordings]


def recordings() -> dict[str, list[tuple[float, float, float]]]:
    """Pod -> (seconds, utilisation in percent, bytes held) in order."""
    pods = defaultdict(list)
    with DATA.open(encoding="utf-8") as lines:
        for row in csv.DictReader(lines):
            pods[row["pod"]].append(
                (
                    float(row["timestamp_s"]),
                    float(row["gpu_util_percent"]),
                    float(row["gpu_memory_used_bytes"]),
                )
            )
    return {pod: sorted(rows) for pod, rows in pods.items()}


def as_nvidia_smi(path: Path, rows: list[tuple[float, float, float]]) -> Path:
    """The recording as `nvidia-smi --query-gpu … --format=csv` would have logged it, moved to
    START.
    """
    lines = [HEADER]
    for second, util, held in rows:
        at = START + timedelta(seconds=second - rows[0][0])
        lines.append(
            f"{at:%Y/%m/%d %H:%M:%S}.000, 0, NVIDIA A100-SXM4-80GB, {util:.0f} %,"
            f" {held / 2**20:.0f} MiB, 81920 MiB"
        )
    path.write_text("\n".join(lines) + "\n")
    return path


def to_the_hub(payload: bytes) -> Outcome:
    batch = batch_of(payload)
    store_batch(node_by_name(batch.node), batch, received_at=NOW)
    return Outcome(Verdict.ACCEPTED)


@pytest.fixture
def diagnosed(tmp_path):
    for pod, rows in recordings().items():
        log = as_nvidia_smi(tmp_path / f"pod-{pod}.csv", rows)
        told = ["--node", f"pod-{pod}", "--job", f"genai-{pod}", "--kind", "service"]
        list(
            replay(
                config.parse(
                    ["replay", str(log), *told, "--server", "http://hub", "--token", "t"], {}
                ),
                to_the_hub,
            )
        )
    post(NOW, 10_000)
    services.diagnose(NOW, 10_000)


def hours_by_cause(pod: int) -> dict[str, float]:
    rows = (
        CauseEntry.objects.filter(job__key__endswith=f"genai-{pod}")
        .values_list("cause")
        .annotate(ms=Sum("held_ms"))
    )
    return {cause: round(ms / 3_600_000, 1) for cause, ms in rows}


def test_a_service_that_waits_is_told_so_and_one_that_never_worked_is_idle(diagnosed):
    by_pod = {int(pod): hours_by_cause(int(pod)) for pod in recordings()}

    # seen all day, two thirds of the readings zero: it waits between bursts, and for hours at night
    for pod in (2, 3, 4, 5, 6, 7, 9):
        assert by_pod[pod]["bursty_service"] > 16
        assert 1 < by_pod[pod]["idle_held"] <= 6
    assert by_pod[0]["idle_held"] > 16  # read as 0 % nearly always
    # a third of its readings are missing: that is no idle time but where the ledger says so of time
    # that was seen for three fifths, nor is it, where the ledger saw waste, no telemetry
    assert by_pod[10].get("idle_held", 0) < 1
    assert by_pod[10].get("no_telemetry", 0) < 1
    # over after thirteen minutes
    assert by_pod[8].keys() <= {"undetermined", "no_telemetry", "bursty_service"}
    accused = {cause for causes in by_pod.values() for cause in causes} - {
        "undetermined",
        "no_telemetry",
    }
    assert accused == {"bursty_service", "idle_held"}
    assert set(
        Finding.objects.filter(cause="bursty_service").values_list("job__key", flat=True)
    ) == {f"genai-{pod}" for pod in range(11)}
    assert CauseEntry.objects.filter(
        cause="bursty_service", high_ms__gt=0, low_ms__lt=F("high_ms")
    ).exists()


def test_no_rule_of_how_jobs_work_accuses_a_service_that_waits(diagnosed):
    rules = [each for each in CONDITIONS if each.name in WORK]
    day = Interval(START, START + timedelta(days=1))

    told = {each.name: len(back_test(each, each.usual, (), day).trials) for each in rules}

    assert told == dict.fromkeys(WORK, 0)
    # the same readings of batch jobs would be
    Job.objects.update(kind="batch")
    assert back_test(
        condition("low_utilisation"), Settings(threshold=15, minutes=60), (), day
    ).trials

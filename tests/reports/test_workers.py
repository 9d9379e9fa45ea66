"""One worker or four, one of them killed in the middle of a part: the same cents, nothing twice,
nothing lost.
"""

import os
import signal
import subprocess
import sys
import threading
import time
from decimal import Decimal
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from django.db import connection

from fleetwatch.costs.mapping.mappings import add_rule
from fleetwatch.costs.mapping.rule_terms import Conditions, Gives, Terms
from fleetwatch.costs.models import Commitment
from fleetwatch.finance.committing import commit
from fleetwatch.reports import monthly
from fleetwatch.reports.models import MonthRun, Report, ReportPart
from tests.costs.factories import HOUR_MS, a_gpu, a_job, a_rate
from tests.reports.factories import HOUR, NOW, OCTOBER, counted

pytestmark = pytest.mark.django_db(transaction=True)

ROOT = Path(__file__).resolve().parents[2]
# a worker that dies in the middle: it has claimed a part and read its figures, and never gets to
# commit
VICTIM = """
import sys, time, django
django.setup()
from datetime import datetime
from fleetwatch.reports import contents, monthly

def stuck(part):
    print("claimed", flush=True)
    time.sleep(600)

contents.team = contents.fleet = stuck
monthly.compute_part(int(sys.argv[1]), datetime.fromisoformat(sys.argv[2]))
"""


def a_month_of_teams():
    """Seven teams whose parts of 1/3 and 1/7 dollars do not divide."""
    gpus = [a_gpu(model=model) for model in ("H100", "L4")]
    a_rate("3.333333", gpu=gpus[0])
    a_rate("0.142857", gpu=gpus[1])
    for number in range(7):
        job = a_job(key=f"slurm/x/{number}", team=f"team-{number}")
        for gpu in gpus:
            counted(
                gpu,
                "idle",
                HOUR_MS // 7 + number,
                job=job,
                start=OCTOBER + number * HOUR,
                tier="probable",
            )
    counted(gpus[0], "free", 1_234_567, start=OCTOBER + 9 * HOUR)
    # and what else a report says: projects and cost centres from a moment on, GPUs that were
    # committed to and not there
    gives = Gives(project="p", cost_centre="4711")
    add_rule(Terms(Conditions(user="ann"), gives, valid_from=OCTOBER + 3 * HOUR), now=NOW)
    commit(
        Commitment(
            gpu_model=gpus[0].model,
            gpus=3,
            name="contract 17",
            valid_from=OCTOBER,
            price_per_gpu_hour=Decimal("1.000001"),
        ),
        now=NOW,
    )


def planned():
    monthly.ask("2026-10", now=NOW)
    monthly.plan_waiting(NOW)
    return monthly.hand_out(NOW)


def work(parts):
    """A worker: tries every part, as a message that comes twice would."""
    for part in parts:
        monthly.compute_part(part, NOW)
    connection.close()


def workers(parts, count):
    threads = [threading.Thread(target=work, args=(parts,)) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)


def said():
    return {
        (report.kind, report.subject): (report.version, report.cost_usd, report.content)
        for report in Report.objects.all()
    }


def forget():
    ReportPart.objects.all().delete()
    MonthRun.objects.all().delete()
    Report.objects.all().delete()


def test_four_workers_say_what_one_says_and_each_report_once():
    a_month_of_teams()
    work(planned())
    alone = said()
    forget()

    workers(planned(), 4)

    assert said() == alone
    _, _, fleet = alone["fleet", ""]
    assert {"p", "(unmapped)"} <= {line["key"] for line in fleet["projects"]}
    assert {line["key"] for line in fleet["cost_centres"]} >= {"4711"}
    assert Decimal(fleet["not_delivered_usd"]) > 0
    assert len(alone) == Report.objects.count() == 8
    assert MonthRun.objects.get().state == "done"


def test_a_worker_killed_in_the_middle_loses_nothing_and_its_part_is_done_once():
    a_month_of_teams()
    work(planned())
    alone = said()
    forget()
    parts = planned()
    url = (
        urlsplit(os.environ["DATABASE_URL"])
        ._replace(path=f"/{connection.settings_dict['NAME']}")
        .geturl()
    )
    environment = os.environ | {"DATABASE_URL": url}
    victim = subprocess.Popen(
        [sys.executable, "-c", VICTIM, str(parts[2]), NOW.isoformat()],
        cwd=ROOT,
        env=environment,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert victim.stdout.readline() == "claimed\n"
        workers(parts, 3)
        assert ReportPart.objects.filter(done_at=None).count() == 1
        assert MonthRun.objects.get().state == "computing"
    finally:
        victim.send_signal(signal.SIGKILL)
        victim.wait(10)
        victim.stdout.close()

    deadline = time.monotonic() + 10
    while ReportPart.objects.filter(done_at=None).exists() and time.monotonic() < deadline:
        workers(monthly.hand_out(NOW + HOUR) or parts, 2)

    assert said() == alone
    assert MonthRun.objects.get().state == "done"

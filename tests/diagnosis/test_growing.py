"""Diagnosis every five minutes says at the end what one run over all of it says; how far back new
cells have to look.
"""

import random
from datetime import timedelta

import numpy as np
import pytest

from fleetwatch.diagnosis import lane_rows, services
from fleetwatch.diagnosis.judgement import cell_figures, pauses
from fleetwatch.diagnosis.judgement.cell_figures import NAMES
from fleetwatch.diagnosis.judgement.packing import Hour, unpack
from fleetwatch.diagnosis.models import CauseEntry, DiagnosedDay, Finding, NodeCells
from tests.ledger.fleet import BUSY, HALF, MINUTE, QUIET, START, T0, Sender, a_job, held, post

HOURS = 2
# what an agent says with the driver's samples: pauses of a part of the minute, of all of it, and
# none
STEADY = BUSY | {
    "util_dips": 0.0,
    "util_longest_low_s": 0.0,
    "util_low_fraction": 0.0,
    "memory_used_bytes": 70 * 2**30,
}
RESTS = QUIET | {"util_dips": 0.0, "util_longest_low_s": 60.0, "util_low_fraction": 1.0}
PAUSES = HALF | {"util_dips": 2.0, "util_longest_low_s": 20.0, "util_low_fraction": 0.4}


def said_in(minutes: int, seed: int) -> list[dict[str, float] | None]:
    """Stretches of one thing each, some shorter and some longer than a cell; None: nothing."""
    draw = random.Random(seed)
    says: list[dict[str, float] | None] = []
    while len(says) < minutes:
        says += [draw.choice([STEADY, STEADY, RESTS, PAUSES, HALF, None])] * draw.randint(1, 24)
    return says[:minutes]


def stored() -> tuple[list[str], list[str], dict]:
    """Causes, findings, and of each hour's cells all figures but how long pauses are, of which a
    longer context knows more.
    """
    fields = [field.name for field in CauseEntry._meta.concrete_fields if field.name != "id"]
    causes = sorted(map(repr, CauseEntry.objects.values_list(*fields)))
    findings = sorted(
        map(
            repr,
            Finding.objects.values_list("job", "node", "cause", "first_ms", "last_ms", "status"),
        )
    )
    known = {(row.node_id, row.hour): unpack(bytes(row.payload)) for row in NodeCells.objects.all()}
    figures = {
        (key, name): np.nan_to_num(hour.figures[place], nan=-1.0).tolist()
        for key, hour in known.items()
        for place, name in enumerate(NAMES)
        if name not in (pauses.LONGEST, pauses.SO_FAR, pauses.QUIET_LONGEST, pauses.QUIET_SO_FAR)
    }
    return causes, findings, figures


@pytest.mark.django_db
@pytest.mark.parametrize(("seed", "kind"), [(1, "batch"), (2, "service"), (3, "interactive")])
def test_five_minutes_at_a_time_say_what_one_run_says(seed, kind):
    sender, says = Sender(), said_in(60 * HOURS, seed)
    for first in range(0, len(says), 5):
        batch = sender.batch(
            T0 + first * MINUTE,
            *says[first : first + 5],
            jobs=[a_job(kind=kind)],
            allocations=[held()],
        )
        now = START + timedelta(minutes=first + 5, seconds=-1)
        post(batch, now=now)
        services.diagnose(now, 1000)
    grown = stored()

    for table in (NodeCells, DiagnosedDay, CauseEntry, Finding):
        table.objects.all().delete()
    services.diagnose(now, 1000)

    assert grown == stored()


POWER = {
    "power_w": 400.0,
    "energy_j": 24_000.0,
    "power_max_w": 420.0,
    "util_p5": 1.0,
    "util_high_fraction": 1.0,
}
WORKS = STEADY | POWER
SPINS = (
    STEADY
    | POWER
    | {"power_w": 90.0, "energy_j": 5_400.0, "power_max_w": 92.0, "spin_fraction": 1.0}
)
SAVES = PAUSES | {
    "util_dips": 0.0,
    "util_longest_low_s": 25.0,
    "power_w": 250.0,
    "energy_j": 15_000.0,
    "util_high_fraction": 0.5,
}


def of_ranks(minutes: int, seed: int) -> list[tuple[dict[str, float], dict[str, float]]]:
    """What the ranks of each of two nodes say together: they work, pause to save, wait for the
    other node's, hang.
    """
    draw = random.Random(seed)
    said: list[tuple[dict[str, float], dict[str, float]]] = []
    while len(said) < minutes:
        count = draw.randint(3, 45)
        ways = {
            "work": (WORKS, WORKS),
            "wait": (SPINS, WORKS),
            "hang": (SPINS, SPINS),
            "apart": (RESTS | POWER, WORKS),
        }
        way = draw.choice([*ways, "save"])
        said += (
            [ways[way]] * count
            if way in ways
            else [(SAVES, SAVES) if step % 4 == 0 else (WORKS, WORKS) for step in range(count)]
        )
    return said[:minutes]


@pytest.mark.django_db
@pytest.mark.parametrize(("seed", "cause"), [(3, "checkpoint_stall"), (4, "hung")])
def test_ranks_on_two_nodes_of_which_some_come_late_are_told_as_by_one_run(seed, cause):
    draw, late, said = random.Random(seed), [], of_ranks(60 * HOURS, seed)
    senders = [Sender(node=node, gpus=2) for node in ("n1", "n2")]
    for first in range(0, len(said), 5):
        now = START + timedelta(minutes=first + 5, seconds=20)
        for place, sender in enumerate(senders):
            says = [both[place] for both in said[first : first + 5]]
            batch = sender.batch(
                T0 + first * MINUTE, *says, jobs=[a_job()], allocations=[held(0), held(1)]
            )
            late += [batch] if draw.random() < 0.15 else []
            post(*([] if batch in late else [batch]), now=now)
        if late and draw.random() < 0.3:
            post(late.pop(0), now=now)
        services.diagnose(now, 1000)
    post(*late, now=now)
    services.diagnose(now, 1000)
    grown = stored()
    assert {cause, "rank_wait"} <= set(CauseEntry.objects.values_list("cause", flat=True))

    for table in (NodeCells, DiagnosedDay, CauseEntry, Finding):
        table.objects.all().delete()
    services.diagnose(now, 1000)

    assert grown == stored()


CELL = T0 + 5 * MINUTE  # the second of its hour


def an_hour(last_s: list[float], so_far_s: list[float]) -> Hour:
    """Of GPUs 7, 8, … the second cell: when each one's last window began, and how long its pause
    was by then.
    """
    figures = np.full((len(NAMES), len(last_s), 12), np.nan, dtype=np.float32)
    figures[NAMES.index(pauses.LAST_START), :, 1] = last_s
    figures[[NAMES.index(name) for name in (pauses.SO_FAR, pauses.QUIET_SO_FAR)], :, 1] = so_far_s
    return Hour(np.arange(7, 7 + len(last_s)), figures, ())


def test_new_cells_look_back_to_the_last_window_of_each_gpu():
    before = lane_rows.before(np.array([7, 8]), an_hour([290.0, 278.123], [0.0, 40.0]), CELL)

    assert before.start_ms.tolist() == [CELL + 290_000, CELL + 278_123]
    assert before.so_far_s.tolist() == before.quiet_s.tolist() == [0.0, 40.0]
    # 21.877 s, in steps of ten
    assert lane_rows.context_ms(before, CELL + cell_figures.CELL_MS) == 30_000


def test_of_a_pause_that_went_on_before_no_more_counts_than_a_quarter_of_an_hour():
    assert lane_rows.before(np.array([7]), an_hour([290.0], [901.0]), CELL).so_far_s.tolist() == [
        900.0
    ]


def test_where_a_gpus_last_window_is_not_known_new_cells_look_back_as_far_as_a_pause_counts():
    known = an_hour([290.0, np.nan], [0.0, np.nan])

    for gpu_ids, hour in (([7, 8], known), ([7, 9], known), ([7], None)):
        assert (
            lane_rows.context_ms(lane_rows.before(np.array(gpu_ids), hour, CELL), CELL)
            == lane_rows.CONTEXT_MS
        )

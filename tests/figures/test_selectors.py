"""Totals, groups and steps of time, against values worked out by hand."""

import random
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest

from fleetwatch.accounts.models import Team
from fleetwatch.accounts.selectors import organisation
from fleetwatch.figures import group_names, selectors
from fleetwatch.figures.pricing import usd
from fleetwatch.figures.selectors import (
    NOBODY,
    Scope,
    dollars_over_time,
    ledger_began,
    not_recorded_before,
    totals,
    totals_by,
)
from fleetwatch.figures.totals import less
from fleetwatch.inventory.models import GPU
from fleetwatch.lib.intervals import Interval, to_ms
from tests.costs.factories import HOUR, HOUR_MS, a_gpu, a_job, a_rate, an_entry

pytestmark = pytest.mark.django_db

DAY = Interval(HOUR.replace(hour=0), HOUR.replace(hour=0) + timedelta(days=1))
NEXT_HOUR = HOUR + timedelta(hours=1)


def use_zone(name):
    here = organisation()
    here.time_zone = name
    here.save(update_fields=["time_zone"])


def test_dollars_are_milliseconds_times_the_rate_of_that_hour():
    gpu = a_gpu()
    a_rate("3.60", gpu=gpu, valid_to=NEXT_HOUR)
    a_rate("7.20", gpu=gpu, valid_from=NEXT_HOUR)
    an_entry(gpu, "useful", 1_800_000)
    an_entry(gpu, "idle", 1_800_000, tier="certain")
    an_entry(gpu, "idle", 3_600_000, start=NEXT_HOUR, tier="probable")

    found = totals(DAY)

    assert found.capacity_ms == 7_200_000
    assert found.cost_usd == Decimal("10.80")
    assert found.states["useful"] == 1_800_000
    assert found.cost_by_state["idle"] == Decimal("9.00")
    assert found.waste_ms == {"certain": 1_800_000, "probable": 3_600_000, "potential": 0}
    assert found.waste_usd == {
        "certain": Decimal("1.80"),
        "probable": Decimal("7.20"),
        "potential": 0,
    }
    assert found.wasted_usd == Decimal("9.00")
    assert found.wasted_ms == 5_400_000
    assert sum(found.states.values()) == found.capacity_ms
    assert sum(found.cost_by_state.values()) == found.cost_usd


def test_nothing_in_the_ledger_is_no_coverage_and_no_cost():
    found = totals(DAY)

    assert (
        found.capacity_ms,
        found.coverage,
        found.cost_usd,
        found.spend_efficiency,
        found.energy_j,
    ) == (0, None, 0, None, None)
    assert (found.energy_coverage, found.mean_w) == (None, None)


def test_k_times_the_price_is_k_times_the_dollars():
    gpu = a_gpu()
    rate = a_rate("1.37", gpu=gpu)
    an_entry(gpu, "useful", 1_234_567)
    once = totals(DAY).cost_usd

    rate.price_per_gpu_hour *= 3
    rate.save(update_fields=["price_per_gpu_hour"])

    assert usd(totals(DAY).cost_usd) == usd(once * 3)


def test_time_without_a_rate_is_shown_and_costs_nothing():
    priced, unpriced = a_gpu(), a_gpu(model=None)
    a_rate("2.00", gpu=priced)
    an_entry(priced)
    an_entry(unpriced, "idle", 600_000, tier="certain")

    found = totals(DAY)

    assert (found.unpriced_ms, found.cost_usd, found.waste_ms["certain"], found.wasted_usd) == (
        600_000,
        Decimal(2),
        600_000,
        0,
    )


def test_example_rates_are_said():
    gpu = a_gpu()
    a_rate("2.00", gpu=gpu, is_example=True, valid_to=NEXT_HOUR)
    a_rate("2.00", gpu=gpu, valid_from=NEXT_HOUR)
    an_entry(gpu, start=HOUR)
    an_entry(gpu, start=NEXT_HOUR)

    assert totals(DAY).has_example_rates
    assert not totals(Interval(NEXT_HOUR, DAY.end)).has_example_rates


def test_coverage_and_shares_are_of_what_was_observed():
    gpu = a_gpu()
    a_rate("4.00", gpu=gpu)
    an_entry(gpu, "useful", 900_000)
    an_entry(gpu, "idle", 1_800_000, tier="certain")
    an_entry(gpu, "unobserved", 900_000)

    found = totals(DAY)

    assert found.coverage == 0.75
    assert found.useful_share_of_observed == pytest.approx(1 / 3)
    assert found.wasted_share_of_observed == pytest.approx(2 / 3)
    assert found.spend_efficiency == 0.25
    assert found.usd_per_useful_gpu_hour == Decimal(16)
    assert found.shown_usd_per_useful_gpu_hour == Decimal(16)


@pytest.mark.parametrize(("useful_ms", "usd_told"), [(179_999, None), (180_000, 20)])
def test_where_hardly_anything_was_useful_nobody_is_told_dollars_per_useful_hour(
    useful_ms, usd_told
):
    """From one part in twenty on."""
    gpu = a_gpu()
    a_rate("1.00", gpu=gpu)
    an_entry(gpu, "useful", useful_ms)
    an_entry(gpu, "idle", HOUR_MS - useful_ms, tier="certain")

    of_day = totals(DAY)

    assert of_day.shown_usd_per_useful_gpu_hour == usd_told
    assert of_day.usd_per_useful_gpu_hour is not None


def test_busy_time_only_is_left_out_of_efficiency():
    gpu = a_gpu()
    a_rate("1.00", gpu=gpu)
    an_entry(gpu, "useful", 1_000_000, efficiency_source="sensors")
    an_entry(gpu, "underused", 1_000_000, efficiency_source="sensors", tier="potential")
    an_entry(gpu, "useful", 1_600_000, efficiency_source="none")

    found = totals(DAY)

    assert found.states["useful"] == 2_600_000
    assert found.busy_only_ms == 1_600_000
    assert found.useful_share_of_observed == 0.5
    shown = {state: gpu_ms for state, gpu_ms in found.shown_states.items() if gpu_ms}
    assert shown == {"useful": 1_000_000, "unverified": 1_600_000, "underused": 1_000_000}
    assert sum(found.shown_cost.values()) == found.cost_usd
    assert found.efficiency == 0.5
    assert found.spend_efficiency == 0.5
    assert found.shown_cost["useful"] / found.verified_usd == Decimal("0.5")
    assert usd(found.usd_per_useful_gpu_hour) == Decimal(2)


def test_where_nothing_was_measured_efficiency_is_unknown_not_zero():
    gpu = a_gpu()
    a_rate("1.00", gpu=gpu)
    an_entry(gpu, "useful", 1_800_000, efficiency_source="none")
    an_entry(gpu, "idle", 1_800_000, tier="certain")

    found = totals(DAY)

    assert (found.efficiency, found.spend_efficiency, found.usd_per_useful_gpu_hour) == (
        None,
        None,
        None,
    )
    assert found.useful_share_of_observed is None


def test_energy_is_the_sum_of_what_was_read():
    gpu = a_gpu()
    an_entry(gpu, "useful", 1_000, energy_j=300.5)
    an_entry(gpu, "idle", 1_000, energy_j=None)

    found = totals(DAY)
    assert (found.energy_j, found.energy_ms, found.energy_coverage) == (300.5, 1_000, 0.5)
    assert found.mean_w == 300.5


def test_an_entry_outside_the_interval_does_not_count():
    gpu = a_gpu()
    an_entry(gpu, start=HOUR - timedelta(hours=1))
    an_entry(gpu, start=HOUR)
    an_entry(gpu, start=HOUR + timedelta(hours=1))

    assert totals(Interval(HOUR, HOUR + timedelta(hours=1))).capacity_ms == HOUR_MS


def test_groups_are_sorted_by_wasted_dollars_and_what_no_job_held_is_a_line_of_its_own():
    gpu = a_gpu()
    a_rate("3.60", gpu=gpu)
    ann, bob, robot = (
        a_job(user="ann", team="nlp"),
        a_job(user="bob", team="vision"),
        a_job(user="", team=None),
    )
    an_entry(gpu, "idle", 500_000, job=ann, tier="certain")
    an_entry(gpu, "idle", 900_000, job=bob, tier="probable")
    an_entry(gpu, "useful", 400_000, job=robot)
    an_entry(gpu, "free", 1_800_000)

    teams = [(group.key, group.label, group.totals.cost_usd) for group in totals_by(DAY, "team")]
    users = [group.key for group in totals_by(DAY, "user")]

    assert teams == [
        ("vision", "VISION", Decimal("0.90")),
        ("nlp", "NLP", Decimal("0.50")),
        ("", "unallocated", Decimal("1.80")),
        (NOBODY, "no team: the job names no user or account", Decimal("0.40")),
    ]
    assert users == ["bob", "ann", "", NOBODY]


def test_mig_instances_are_parts_of_their_gpu():
    parent = a_gpu(uuid="GPU-A", model="A100-80 SXM", node="gpu-01", index=3)
    instance = a_gpu(uuid="MIG-A", model="A100-80 SXM", node="gpu-01", parent=parent)
    a_rate("7.00", gpu=parent)
    an_entry(instance, "useful", 900_000)
    an_entry(parent, "free", 2_700_000)

    [line] = totals_by(DAY, "gpu")

    assert (line.key, line.label, line.totals.capacity_ms, line.totals.cost_usd) == (
        "GPU-A",
        "gpu-01 GPU 3",
        HOUR_MS,
        Decimal(7),
    )
    assert totals(DAY, scope=Scope(gpu="GPU-A")).capacity_ms == HOUR_MS
    assert totals(DAY, scope=Scope(gpu="MIG-A")).capacity_ms == 900_000


@pytest.mark.parametrize("group_by", selectors.GROUPS)
def test_every_line_can_be_opened(group_by):
    for number in range(3):
        gpu = a_gpu(node=f"gpu-0{number}", model=("H100 SXM", "L4", None)[number])
        an_entry(
            gpu,
            "useful",
            1000 + number,
            job=a_job(user=("ann", "", "bob")[number], team=("nlp", None, "vision")[number]),
        )
        an_entry(gpu, "free", 10 + number)

    lines = totals_by(DAY, group_by)

    assert sum(line.totals.capacity_ms for line in lines) == totals(DAY).capacity_ms
    for line in lines:
        assert totals(DAY, scope=Scope(**{group_by: line.key})) == line.totals


def test_a_team_has_its_name_from_the_moment_at_which_the_ledger_was_read():
    an_entry(a_gpu(), job=a_job(team="nlp"))
    seen = selectors.look(DAY, "team")

    Team.objects.all().delete()

    [line] = seen.by("team")
    assert (line.key, line.label) == ("nlp", "NLP")


@pytest.mark.parametrize("group_by", ["job", "node", "gpu", "gpu_model"])
def test_what_was_deleted_since_the_ledger_was_read_is_a_line_that_says_so(group_by, monkeypatch):
    an_entry(a_gpu(), job=a_job(team="nlp"))
    monkeypatch.setattr(group_names, "_gpus", lambda ids: {})
    monkeypatch.setattr(group_names, "_stored", lambda group_by, ids: {})

    [line] = totals_by(DAY, group_by)

    assert (line.label, line.totals.capacity_ms) == (
        f"{group_by.replace('_', ' ')} that was deleted",
        HOUR_MS,
    )
    assert line.key.startswith("(deleted ")


@pytest.mark.parametrize("apart", [1, 1000])
def test_jobs_between_those_of_a_period_have_no_part_in_it(apart):
    gpu = a_gpu()
    users = ("ann", "bob", "ann", "eve", "bob", "ann")
    jobs = [
        a_job(user=user, team=user, pk=10_000 + apart * place) for place, user in enumerate(users)
    ]
    for hours, job in ((0, jobs[0]), (-48, jobs[1]), (1, jobs[2]), (-48, jobs[4]), (2, jobs[5])):
        an_entry(gpu, job=job, start=HOUR + timedelta(hours=hours))

    assert [(line.key, line.totals.capacity_ms) for line in totals_by(DAY, "user")] == [
        ("ann", 3 * HOUR_MS)
    ]
    assert [(line.key, line.totals.capacity_ms) for line in totals_by(DAY, "team")] == [
        ("ann", 3 * HOUR_MS)
    ]


@pytest.mark.parametrize(("minutes", "since"), [(-1, 0), (0, 0), (33, 33), (59, 59), (60, 0)])
def test_the_ledger_began_with_its_first_window_within_its_first_hour(minutes, since):
    gpu = a_gpu()
    an_entry(gpu, start=HOUR)
    GPU.objects.update(first_ms=to_ms(HOUR) + minutes * 60_000)

    assert ledger_began() == HOUR + timedelta(minutes=since)


def test_a_ledger_of_nothing_did_not_begin():
    a_gpu()

    assert ledger_began() is None


@pytest.mark.parametrize(
    "also",
    [
        {"team": "nlp"},
        {"user": "ann"},
        {"job": "slurm/della/1"},
        {"team": "(none)"},
        {"is_allocated": True},
    ],
)
def test_what_no_job_held_is_nobody_elses(also):
    gpu = a_gpu()
    an_entry(gpu, job=a_job(key="slurm/della/1"))
    an_entry(gpu, "free")

    empty = next(name for name in ("user", "job") if name not in also)
    assert totals(DAY, scope=Scope(**{empty: ""})).capacity_ms == HOUR_MS
    assert totals(DAY, scope=Scope(**{empty: ""}, **also)).capacity_ms == 0


def test_a_name_that_nothing_bears_finds_nothing():
    an_entry(a_gpu())

    for scope in (
        Scope(node="x"),
        Scope(gpu="x"),
        Scope(job="x"),
        Scope(user="x"),
        Scope(team="x"),
        Scope(gpu_model="x"),
    ):
        assert totals(DAY, scope=scope).capacity_ms == 0


def test_the_whole_less_a_part_is_the_other_part():
    gpu, job = a_gpu(), a_job()
    a_rate("1.37", gpu=gpu)
    for hours in range(6):
        start = DAY.start + timedelta(hours=hours)
        an_entry(gpu, "useful", 2_000_000 + hours, job=job, start=start, energy_j=2.0)
        an_entry(gpu, "idle", 1_600_000 - hours, job=job, start=start, tier="probable")
    noon = DAY.start + timedelta(hours=4)

    rest = less(totals(DAY), totals(Interval(noon, DAY.end)))

    before = totals(Interval(DAY.start, noon))
    assert (rest.states, rest.waste_ms, rest.energy_j) == (before.states, before.waste_ms, 8.0)
    assert usd(rest.cost_usd) == usd(before.cost_usd) == usd(Decimal("1.37") * 4)
    assert usd(rest.wasted_usd) == usd(before.wasted_usd)


def test_random_entries_sum_to_the_micro_dollar_over_any_grouping_and_over_time():
    draw = random.Random(7)
    gpus = [
        a_gpu(node=f"gpu-{number % 3}", model=("H100 SXM", "L4", None)[number % 3])
        for number in range(9)
    ]
    for gpu in gpus[:2]:
        a_rate(f"{draw.uniform(0.1, 9):.6f}", gpu=gpu, valid_to=HOUR + timedelta(hours=3))
        a_rate(f"{draw.uniform(0.1, 9):.6f}", gpu=gpu, valid_from=HOUR + timedelta(hours=3))
    a_rate(
        "0.777777",
        node="gpu-1",
        valid_from=HOUR + timedelta(hours=1),
        valid_to=HOUR + timedelta(hours=5),
    )
    jobs = [
        None,
        *(a_job(user=f"user-{number % 4}", team=f"team-{number % 3}") for number in range(12)),
    ]
    parts = []
    for _ in range(400):
        gpu_ms, state = (
            draw.randrange(1, HOUR_MS),
            draw.choice(["useful", "idle", "stalled", "underused", "unobserved"]),
        )
        start = HOUR + timedelta(hours=draw.randrange(8))
        an_entry(draw.choice(gpus), state, gpu_ms, job=draw.choice(jobs), start=start)
        parts.append(gpu_ms)

    whole = totals(DAY)

    assert whole.capacity_ms == sum(parts)
    for group_by in selectors.GROUPS:
        lines = [line.totals for line in totals_by(DAY, group_by)]
        assert sum(line.capacity_ms for line in lines) == whole.capacity_ms
        assert usd(sum(line.cost_usd for line in lines)) == usd(whole.cost_usd)
        assert usd(sum(line.wasted_usd for line in lines)) == usd(whole.wasted_usd)
        assert sum(line.unpriced_ms for line in lines) == whole.unpriced_ms
    for step in ("hour", "day"):
        buckets = [bucket.totals for bucket in dollars_over_time(DAY, step)]
        assert sum(bucket.capacity_ms for bucket in buckets) == whole.capacity_ms
        assert usd(sum(bucket.cost_usd for bucket in buckets)) == usd(whole.cost_usd)


def test_hours_without_entries_stay_as_empty_steps():
    an_entry(a_gpu(), start=NEXT_HOUR)

    buckets = dollars_over_time(Interval(HOUR, HOUR + timedelta(hours=3)), "hour")

    assert [(bucket.start, bucket.totals.capacity_ms) for bucket in buckets] == [
        (HOUR, 0),
        (NEXT_HOUR, HOUR_MS),
        (HOUR + timedelta(hours=2), 0),
    ]


def test_days_are_the_organisations_also_when_the_clock_changes():
    use_zone("Europe/Berlin")
    start = datetime(2026, 10, 24, 22, tzinfo=UTC)  # 25 October begins; summer time ends that night
    gpu = a_gpu()
    for hour in range(26):
        an_entry(gpu, start=start + timedelta(hours=hour))

    buckets = dollars_over_time(Interval(start, start + timedelta(hours=26)), "day")

    assert [(bucket.start, bucket.totals.capacity_ms // HOUR_MS) for bucket in buckets] == [
        (start, 25),
        (start + timedelta(hours=25), 1),
    ]


def test_a_day_whose_midnight_comes_twice_keeps_its_hours():
    use_zone("Atlantic/Azores")
    # an hour later the clock is set back from 01:00 to 00:00
    start = datetime(2026, 10, 25, tzinfo=UTC)
    gpu = a_gpu()
    for hour in range(26):
        an_entry(gpu, start=start + timedelta(hours=hour))

    buckets = dollars_over_time(Interval(start, start + timedelta(hours=26)), "day")

    assert [(bucket.start, bucket.totals.capacity_ms // HOUR_MS) for bucket in buckets] == [
        (start, 25),
        (start + timedelta(hours=25), 1),
    ]


def test_days_of_a_half_hour_zone_begin_at_its_midnight():
    use_zone("Asia/Kolkata")
    gpu = a_gpu()
    midnight = datetime(2026, 11, 1, 18, 30, tzinfo=UTC)
    an_entry(gpu, gpu_ms=1_000, start=midnight - timedelta(minutes=30))
    an_entry(gpu, gpu_ms=2_000, start=midnight)

    buckets = dollars_over_time(
        Interval(midnight - timedelta(minutes=30), midnight + timedelta(minutes=30)), "day"
    )

    assert [bucket.totals.capacity_ms for bucket in buckets] == [1_000, 2_000]


def test_an_unknown_group_or_step_is_refused():
    with pytest.raises(ValueError, match="can't group by 'colour'"):
        totals_by(DAY, "colour")
    with pytest.raises(ValueError, match="hour or day"):
        dollars_over_time(DAY, "week")


def test_a_period_that_begins_before_the_first_entry_says_since_when_it_was_recorded(settings):
    an_entry(a_gpu(), "free", HOUR_MS)
    now = HOUR + timedelta(days=10)

    assert not_recorded_before(HOUR - timedelta(seconds=1), now) == HOUR
    assert not_recorded_before(HOUR, now) is None
    # what is missing then went by its age
    settings.LEDGER_RETENTION_DAYS = 10
    assert not_recorded_before(HOUR - timedelta(days=1), now) is None

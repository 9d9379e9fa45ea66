"""What other GPUs change in what is paid, beside commitments."""

from datetime import UTC, datetime
from decimal import Decimal

from fleetwatch.finance.released import Contract, Released, ReleasedGPUs, released
from fleetwatch.lib.intervals import Interval
from fleetwatch.planning.replayed_runs import Outcome
from fleetwatch.planning.what_if import ModelReplay, WhatIf

START, END = datetime(2026, 11, 1, tzinfo=UTC), datetime(2026, 11, 2, tzinfo=UTC)
MARCH, JUNE = datetime(2027, 3, 1, tzinfo=UTC), datetime(2027, 6, 1, tzinfo=UTC)
DAY_MS = 86_400_000


def paid(gpus: int, fewer: int, *contracts: Contract) -> ReleasedGPUs:
    """Of a model at $4 an hour, of which there are so many GPUs and fewer of them are asked for."""
    saved_ms = fewer * DAY_MS
    replay = ModelReplay("H100", gpus, fewer, Outcome(), saved_ms, Decimal(96) * fewer)
    return released(WhatIf(Interval(START, END), [replay], START), {"H100": contracts})


def only(of: ReleasedGPUs) -> Released:
    [model] = of.models
    return model


def test_without_a_commitment_all_stops_at_the_rate():
    of = paid(8, 2)

    # 2 x $4 x 730 h
    assert (of.now_usd, of.later_usd, of.is_bound) == (5840, 5840, False)


def test_gpus_beyond_the_commitment_go_first_and_the_others_at_its_price_once_it_ends():
    of = paid(8, 3, Contract(6, Decimal("2.50"), MARCH))

    # now 2 x $4 x 730 h; then also 1 x $2.50 x 730 h
    assert (of.now_usd, of.later_usd) == (5840, 7665)
    assert (of.bound_gpus, of.free_from) == (1, MARCH)


def test_of_several_commitments_those_that_end_first_stop_first():
    of = paid(8, 4, Contract(4, Decimal(3), JUNE), Contract(3, Decimal(2), MARCH))

    # one of 8 is by the hour; three are bound: those of March
    assert only(of).bound == (Contract(3, Decimal(2), MARCH),)
    # 1 x $4 + 3 x $2, x 730 h
    assert (of.now_usd, of.later_usd, of.free_from) == (2920, 7300, MARCH)


def test_a_commitment_without_an_end_is_never_free():
    assert paid(8, 1, Contract(8, Decimal(3), None)).free_from is None


def test_a_gpu_that_a_commitment_pays_for_and_does_not_have_costs_nothing_more():
    of = paid(8, -3, Contract(10, Decimal(3), MARCH))

    assert only(of).already_paid == 2
    # 1 x $4 x 730 h; once the commitment has ended all three by the hour
    assert (of.now_usd, of.later_usd) == (-2920, -8760)


def test_of_a_commitment_for_gpus_that_are_not_there_nothing_stops_before_it_ends():
    of = paid(8, 8, Contract(10, Decimal(3), MARCH))

    # 8 x $3 x 730 h: the two that are not there are paid for either way
    assert (of.now_usd, of.later_usd, of.bound_gpus) == (0, 17520, 8)


def test_what_is_bound_names_its_contracts_each_once():
    of = paid(8, 4, Contract(4, Decimal(3), JUNE, "A"), Contract(3, Decimal(2), MARCH, "B"))

    assert only(of).bound_names == ["B"]

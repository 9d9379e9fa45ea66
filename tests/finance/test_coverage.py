"""What commitments cover, by hand: every GPU-hour once, every dollar once."""

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from fleetwatch.finance.coverage import Above, Kind, Promise, There, cover, missing_usd, together

HOUR_MS = 3_600_000
FIRST = datetime(2026, 10, 1, tzinfo=UTC)
H100 = Kind("H100")


def there(gpus, *, held=0, usd=2):
    return There(gpus * HOUR_MS, held * HOUR_MS, Fraction(usd) / HOUR_MS)


def promise(gpus, *, wanted=H100, usd="2", commitment=1):
    return Promise(commitment, wanted, gpus * HOUR_MS, Fraction(usd) / HOUR_MS)


def covered(promises, *hours):
    """The same promises in each hour; hours are what was there, by kind."""
    moments = [FIRST + timedelta(hours=i) for i in range(len(hours))]
    return cover(dict.fromkeys(moments, promises), dict(zip(moments, hours, strict=True)))


def hours(each):
    return each.used_ms // HOUR_MS, each.unheld_ms // HOUR_MS, each.missing_ms // HOUR_MS


def test_what_was_committed_is_used_or_unheld_or_missing():
    # 8 GPUs at $2; 6 are there and 5 of them held
    [each], above = covered([promise(8)], {H100: there(6, held=5)})

    assert hours(each) == (5, 1, 2)
    assert (each.used_usd, each.unheld_usd, each.missing_usd) == (
        Decimal(10),
        Decimal(2),
        Decimal(4),
    )
    assert (each.committed_usd, each.unused_usd) == (Decimal(16), Decimal(6))
    assert (each.coverage, each.utilisation) == (0.75, 0.625)
    assert above == []


def test_the_ledgers_dollars_and_the_missing_ones_are_what_is_paid_where_both_have_one_price():
    [each], _ = covered([promise(8)], {H100: there(6, held=5)})

    assert each.rate_book_usd + each.missing_usd == each.committed_usd == Decimal(16)
    assert each.rate_book_differs_usd == 0


def test_a_rate_book_that_has_another_price_is_said():
    [each], _ = covered([promise(2, usd="1.50")], {H100: there(2, held=2, usd=2)})

    assert (each.used_usd, each.rate_book_usd, each.rate_book_differs_usd) == (
        Decimal(3),
        Decimal(4),
        Decimal(-1),
    )


def test_what_stands_above_the_commitment_is_at_its_own_rate_and_held_gpus_are_covered_first():
    # 10 there at $3, 7 held; 8 committed: 7 used, 1 unheld, 2 above
    [each], above = covered([promise(8)], {H100: there(10, held=7, usd=3)})

    assert hours(each) == (7, 1, 0)
    assert above == [Above("H100", 2 * HOUR_MS, Decimal(6))]


def test_a_gpu_too_many_in_one_hour_makes_up_for_none_that_was_missing_in_another():
    [each], above = covered([promise(2)], {H100: there(3)}, {H100: there(1)}, {})

    assert hours(each) == (0, 3, 3)
    assert above == [Above("H100", HOUR_MS, Decimal(2))]


def test_a_gpu_hour_covers_one_commitment_the_narrower_first():
    train = Kind("H100", pool="train")
    wide, narrow = promise(4), promise(2, wanted=train, commitment=2)

    every, above = covered([narrow, wide], {train: there(3, held=3), H100: there(2)})

    by_id = {each.commitment: each for each in every}
    assert hours(by_id[2]) == (2, 0, 0)
    assert hours(by_id[1]) == (1, 2, 1)
    assert above == []


def test_other_models_pools_classes_and_regions_cover_nothing():
    wanted = Kind("H100", node_class="reserved", region="eu")
    others = {
        Kind("L4", "", "reserved", "eu"): there(8),
        Kind("H100", "", "on_demand", "eu"): there(8),
        Kind("H100", "", "reserved"): there(8),
    }

    [each], above = covered([promise(1, wanted=wanted)], others)

    assert hours(each) == (0, 0, 1)
    assert above == []


def test_time_of_one_kind_at_two_rates_counts_at_their_average():
    # 3 GPU-hours at $2 and 1 at $6: $12 for 4
    both = together(there(3, held=1, usd=2), there(1, usd=6))

    assert both == there(4, held=1, usd=3)


def test_without_a_promise_nothing_is_above():
    assert cover({FIRST: []}, {FIRST: {H100: there(3)}}) == ([], [])


KINDS = st.builds(
    Kind, st.just("H100"), st.sampled_from(["", "a"]), st.just(""), st.sampled_from(["", "eu"])
)
TIMES = st.integers(0, 5 * HOUR_MS)
THERE = st.builds(
    lambda a, b, usd: There(a + b, b, Fraction(usd, 7 * HOUR_MS * 10**6)),
    TIMES,
    TIMES,
    st.integers(0, 10**7),
).filter(lambda each: each.capacity_ms)
PROMISES = st.lists(st.tuples(KINDS, TIMES, st.integers(0, 10**7)), max_size=4)


@given(PROMISES, st.lists(st.dictionaries(KINDS, THERE, max_size=4), max_size=4))
def test_nothing_is_counted_twice_and_parts_sum_to_the_micro_dollar(told, hours):
    promises = [
        Promise(i, kind, gpu_ms, Fraction(price, 3 * HOUR_MS * 10**6))
        for i, (kind, gpu_ms, price) in enumerate(told)
    ]

    every, above = covered(promises, *hours)

    capacity_ms = sum(each.capacity_ms for kinds in hours for each in kinds.values())
    held_ms = sum(each.held_ms for kinds in hours for each in kinds.values())
    assert (
        sum(each.covered_ms for each in every) + sum(each.gpu_ms for each in above) <= capacity_ms
    )
    assert sum(each.used_ms for each in every) <= held_ms
    for each in every:
        assert each.committed_ms == promises[each.commitment].gpu_ms * len(hours)
    exact = sum((each.usd_per_ms * each.gpu_ms * len(hours) for each in promises), Fraction(0))
    total = sum((each.committed_usd for each in every), Decimal(0))
    assert abs(Fraction(total) - exact) <= Fraction(1, 2 * 10**6)
    assert missing_usd(every) == sum((each.missing_usd for each in every), Decimal(0))

import itertools

from fleetwatch.demo.blocks import Block, Fill, as_delivered, blocks, missing, parse_fill

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
UNTIL = 1_795_167_000_000  # 2026-11-20 09:30 UTC


def test_blocks_cover_a_fill_exactly_and_none_is_longer_than_a_batch_may_be():
    told = blocks(Fill(UNTIL - DAY_MS, UNTIL))

    assert told[0].start_ms == UNTIL - DAY_MS
    assert told[-1].end_ms == UNTIL
    assert all(left.end_ms == right.start_ms for left, right in itertools.pairwise(told))
    assert max(block.end_ms - block.start_ms for block in told) == 6 * HOUR_MS
    assert len({block.sequence for block in told}) == len(told)


def test_only_the_newest_hours_come_in_the_agents_own_windows():
    told = blocks(Fill(UNTIL - DAY_MS, UNTIL))

    assert next((block.start_ms, block.window_s) for block in told if block.window_s == 10) == (
        UNTIL - 6.5 * HOUR_MS,
        10,
    )
    assert {block.window_s for block in told if block.start_ms < UNTIL - 6.5 * HOUR_MS} == {60}


def test_a_fill_is_named_by_its_span_and_an_agents_boot_is_none():
    assert parse_fill(Fill(5, 9).boot_id) == Fill(5, 9)
    assert parse_fill("0b7c1f7e-1111-2222") is None
    assert parse_fill("history-x-9") is None


def test_an_unknown_node_is_told_from_the_first_day_on_newest_first():
    told = missing({}, last_ms=None, until_ms=UNTIL + 4_321, days=14)

    assert told[0].end_ms == UNTIL
    assert told[-1].start_ms == UNTIL - 14 * DAY_MS
    assert [block.start_ms for block in told] == sorted(
        (block.start_ms for block in told), reverse=True
    )


def test_live_agents_that_reported_first_do_not_hide_the_past():
    assert missing({}, last_ms=UNTIL, until_ms=UNTIL, days=1)[-1].start_ms == UNTIL - DAY_MS


def test_what_was_stored_is_not_told_again():
    fill = Fill(UNTIL - DAY_MS, UNTIL)
    received = {fill.boot_id: {block.sequence for block in blocks(fill)}}

    assert missing(received, last_ms=UNTIL, until_ms=UNTIL + 30_000, days=1) == []


def test_a_gap_is_told_from_the_last_window_on():
    fill = Fill(UNTIL - DAY_MS, UNTIL)
    received = {fill.boot_id: {block.sequence for block in blocks(fill)}}

    (told,) = missing(
        received, last_ms=UNTIL + HOUR_MS + 7_000, until_ms=UNTIL + 2 * HOUR_MS, days=1
    )

    gap = Fill(UNTIL + HOUR_MS + 10_000, UNTIL + 2 * HOUR_MS)
    assert told == Block(gap, gap.start_ms, gap.end_ms, 10)


def test_a_gap_that_is_told_by_the_minute_begins_at_a_whole_minute():
    fill = Fill(UNTIL - 2 * DAY_MS, UNTIL - DAY_MS)
    received = {fill.boot_id: {block.sequence for block in blocks(fill)}}

    first = missing(received, last_ms=fill.end_ms + 7_000, until_ms=UNTIL, days=3)[-1]

    assert (first.start_ms, first.window_s) == (fill.end_ms + 60_000, 60)


def test_a_hole_of_a_restart_is_told_if_runs_do_not_go_on_over_it():
    fill = Fill(UNTIL - DAY_MS, UNTIL)
    received = {fill.boot_id: {block.sequence for block in blocks(fill)}}

    (told,) = missing(received, last_ms=UNTIL, until_ms=UNTIL + 40_000, days=1)

    assert (told.start_ms, told.end_ms) == (UNTIL, UNTIL + 40_000)


def test_an_old_gap_is_told_no_further_back_than_the_days_asked_for():
    fill = Fill(UNTIL - 90 * DAY_MS, UNTIL - 89 * DAY_MS)
    received = {fill.boot_id: {block.sequence for block in blocks(fill)}}

    assert (
        missing(received, last_ms=fill.end_ms, until_ms=UNTIL, days=14)[-1].start_ms
        == UNTIL - 14 * DAY_MS
    )


def test_a_network_delivers_everything_some_of_it_late_and_some_twice_and_always_the_same_way():
    sent = list(range(2000))

    came = as_delivered(sent, seed="2026-11-20")

    assert set(came) == set(sent)
    assert 2000 < len(came) < 2100
    assert came != sorted(came)
    assert max(abs(place - block) for place, block in enumerate(dict.fromkeys(came))) <= 12
    assert came == as_delivered(sent, seed="2026-11-20")

"""When something fires and when it is over, minute by minute, and the same in whatever pieces."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleetwatch.alerts.episodes import (
    FORGET_MS,
    NO_LONGER_SEEN,
    End,
    Episode,
    Firing,
    Level,
    Measured,
    Span,
    Timing,
    episodes,
)
from fleetwatch.alerts.evaluation import Row, carried, changes, over_until

MINUTE = 60_000
KEY = "slurm/della/1"
LEVELS = {"x": Level.BREACH, "-": Level.BETWEEN, ".": Level.CLEAR}


def spans(story: str) -> list[Span]:
    """A minute per letter: x breaches, - is between, . is clear, a blank is missing."""
    return [
        Span(place * MINUTE, (place + 1) * MINUTE, LEVELS[letter])
        for place, letter in enumerate(story)
        if letter != " "
    ]


def judged(story: str, *, end: End | None = None, begun: int | None = None, **timing):
    """What follows from the story, in minutes: (since, fired, until, ended) of each episode."""
    minutes = {name: value * MINUTE for name, value in timing.items() if name != "min_coverage"}
    settings = Timing(**({"duration_ms": 3 * MINUTE} | timing | minutes))
    measured = Measured(
        {KEY: spans(story)},
        {KEY: end} if end else {},
        {} if begun is None else {KEY: begun * MINUTE},
    )
    return [in_minutes(each) for each in episodes(measured, settings, edge_ms=len(story) * MINUTE)]


def in_minutes(episode: Episode) -> tuple[float | None, ...]:
    moments = (episode.since_ms, episode.fired_ms, episode.until_ms, episode.ended_ms)
    return tuple(None if each is None else each / MINUTE for each in moments)


@pytest.mark.parametrize(
    ("story", "expected"),
    [
        ("xx", [(0, None, 2, None)]),
        ("xxx", [(0, 3, 3, None)]),
        (".xxx.", [(1, 4, 4, 4)]),
        ("xx.xx", [(3, None, 5, None)]),
        ("xx-xx", [(3, None, 5, None)]),
        ("xxx.xxx", [(0, 3, 3, 3), (4, 7, 7, None)]),
        ("xxx--x", [(0, 3, 6, None)]),
        ("...", []),
        ("", []),
    ],
)
def test_it_fires_when_it_has_lasted_and_is_over_when_it_is_clear(story, expected):
    assert judged(story) == expected


@pytest.mark.parametrize(
    ("coverage", "expected"),
    [
        (1.0, [(4, None, 6, None)]),  # nothing may be missing
        (0.8, [(0, 5, 6, None)]),  # 4 of the 5 minutes up to the firing were seen
        (0.81, [(4, None, 6, None)]),
    ],
)
def test_missing_telemetry_lengthens_nothing_and_too_much_of_it_begins_anew(coverage, expected):
    assert judged("xxx xx", duration_ms=4, min_coverage=coverage) == expected


def test_missing_telemetry_resolves_nothing():
    assert judged("xxx" + " " * 60) == [(0, 3, 3, None)]


def test_after_a_day_without_any_it_is_no_longer_seen():
    day = FORGET_MS // MINUTE
    measured = Measured({KEY: spans("xxx")})

    just_before, at_last = (
        episodes(measured, Timing(3 * MINUTE), edge_ms=(3 + day) * MINUTE - less)[0].reason
        for less in (1, 0)
    )

    assert (just_before, at_last) == ("", NO_LONGER_SEEN)


def test_what_comes_back_after_a_day_is_another_one():
    later = 3 + FORGET_MS // MINUTE

    assert judged("xxx" + " " * (later - 3) + "xxx") == [
        (0, 3, 3, 3),
        (later, later + 3, later + 3, None),
    ]


@pytest.mark.parametrize(("clear", "ended"), [(0, 3), (2, 3), (3, None)])
def test_it_is_over_when_it_was_clear_for_long_enough(clear, ended):
    assert judged("xxx..", clear_ms=clear) == [(0, 3, 3, ended)]


def test_a_short_return_to_normal_does_not_end_it():
    assert judged("xxx.x.x", clear_ms=2) == [(0, 3, 7, None)]


@pytest.mark.parametrize(("grace", "expected"), [(1, [(1, 4, 4, None)]), (2, [(2, None, 4, None)])])
def test_the_grace_at_a_subjects_start_is_not_judged(grace, expected):
    assert judged("xxxx", begun=0, grace_ms=grace) == expected


def test_a_subject_that_is_gone_is_over_and_pending_ones_come_to_nothing():
    assert judged("xxx ", end=End(4 * MINUTE, "it ended")) == [(0, 3, 3, 4)]
    assert judged("xx  ", end=End(4 * MINUTE, "it ended")) == []


def test_an_end_that_is_known_beforehand_ends_nothing_until_it_is_there():
    assert judged("xxx", end=End(4 * MINUTE, "it ended")) == [(0, 3, 3, None)]
    assert judged("xx", end=End(4 * MINUTE, "it ended")) == [(0, None, 2, None)]


def test_what_fires_already_goes_on_without_its_beginning():
    measured = Measured({KEY: spans("   x.")})
    firing = {KEY: Firing(-9 * MINUTE, -6 * MINUTE, 0)}

    [episode] = episodes(measured, Timing(3 * MINUTE), edge_ms=5 * MINUTE, firing=firing)

    assert in_minutes(episode) == (-9, -6, 4, 4)


def test_time_of_an_incident_that_is_over_is_counted_by_no_later_one_of_its_subject():
    """It was over at minute 4, when its job was believed to end; the fifth minute, judged later,
    is in breach too: one minute, which is not yet enough to fire.
    """
    measured = Measured({KEY: spans("xxxxx")})

    [later] = episodes(measured, Timing(3 * MINUTE), edge_ms=5 * MINUTE, over_ms={KEY: 4 * MINUTE})

    assert in_minutes(later) == (4, None, 5, None)


def test_an_incident_after_one_that_is_over_begins_where_that_ended():
    measured = Measured({KEY: spans("xxxxxxx")})

    [later] = episodes(measured, Timing(3 * MINUTE), edge_ms=7 * MINUTE, over_ms={KEY: 4 * MINUTE})

    assert in_minutes(later) == (4, 7, 7, None)


stories = st.text(alphabet="xx-. ", max_size=60)
timings = st.builds(
    Timing,
    duration_ms=st.integers(1, 6).map(MINUTE.__mul__),
    min_coverage=st.sampled_from((0.25, 0.5, 0.8, 1.0)),
    clear_ms=st.integers(0, 4).map(MINUTE.__mul__),
)


@given(stories, timings)
def test_evaluated_each_minute_it_is_what_it_is_in_one_piece(story, timing):
    """What each minute writes is what a back-test of the whole story says."""
    every = spans(story)
    edge_ms = len(story) * MINUTE
    rows: list[Row] = []
    for minute in range(1, len(story) + 1):
        rows = evaluated(rows, every, timing, minute * MINUTE)

    replayed = episodes(Measured({KEY: every}), timing, edge_ms=edge_ms)
    assert [row for row in rows if row.fired_ms is not None] == [
        row_of(each) for each in replayed if each.fired_ms is not None
    ]


@given(stories.filter(bool), timings, st.data())
def test_what_was_over_when_it_was_switched_on_is_opened_by_no_later_evaluation(
    story, timing, data
):
    every = spans(story)
    begun = data.draw(st.integers(1, len(story)))
    begun_ms = begun * MINUTE
    rows: list[Row] = []
    for minute in range(begun, len(story) + 1):
        rows = evaluated(rows, every, timing, minute * MINUTE, begun_ms=begun_ms)

    before = episodes(Measured({KEY: spans(story[:begun])}), timing, edge_ms=begun_ms)
    replayed = episodes(Measured({KEY: every}), timing, edge_ms=len(story) * MINUTE)
    over = [each for each in before if each.ended_ms is not None]
    assert [row for row in rows if row.fired_ms is not None] == [
        row_of(each) for each in replayed if each.fired_ms is not None and each not in over
    ]


# in breach from minute 1 to 4, over from 4 on
@pytest.mark.parametrize(("begun", "opened"), [(3.99, 1), (4, 0), (4.01, 0)])
def test_what_ended_as_the_rule_began_was_over_before(begun, opened):
    [over] = episodes(Measured({KEY: spans(".xxx.")}), Timing(2 * MINUTE), edge_ms=5 * MINUTE)

    differ = changes([over], [], begun_ms=int(begun * MINUTE))

    assert len(differ.opened) == opened


def test_what_is_pending_is_not_ended_by_what_was_over_before_the_rule_began():
    """Over by minute 4; since minute 6 it is so again, and that has a row."""
    timing = Timing(2 * MINUTE)
    every = episodes(Measured({KEY: spans(".xxx..x")}), timing, edge_ms=7 * MINUTE)
    pending = Row(KEY, 6 * MINUTE, 7 * MINUTE, None, None)

    differ = changes(every, [pending], begun_ms=5 * MINUTE)

    assert [in_minutes(each) for each in differ.kept] == [(6, None, 7, None)]
    assert (differ.opened, differ.ended, differ.dropped) == ([], [], [])


def test_what_fires_ends_whenever_the_rule_began():
    """Switched off and on again before anybody looked."""
    [over] = episodes(Measured({KEY: spans(".xxx.")}), Timing(2 * MINUTE), edge_ms=5 * MINUTE)
    firing = Row(KEY, MINUTE, 3 * MINUTE, 3 * MINUTE, None)

    differ = changes([over], [firing], begun_ms=5 * MINUTE)

    assert [in_minutes(each) for each in differ.ended] == [(1, 3, 4, 4)]


def evaluated(
    rows: list[Row],
    every: list[Span],
    timing: Timing,
    now_ms: int,
    *,
    begun_ms: int | None = None,
) -> list[Row]:
    """The rows after an evaluation, which reads no more of the past than it needs; as the rule
    begins, all of it.
    """
    start_ms = 0 if begun_ms == now_ms else now_ms - timing.lookback_ms - MINUTE
    seen = [span for span in every if start_ms <= span.start_ms and span.end_ms <= now_ms]
    going_on = [row for row in rows if row.ended_ms is None]
    over = [row for row in rows if row.ended_ms is not None]
    firing = carried(going_on, duration_ms=timing.duration_ms)
    fresh = episodes(
        Measured({KEY: seen}), timing, edge_ms=now_ms, firing=firing, over_ms=over_until(over)
    )
    differ = changes(fresh, going_on, begun_ms=begun_ms)
    return [*over, *map(row_of, [*differ.ended, *differ.opened, *differ.kept])]


def row_of(episode: Episode) -> Row:
    return Row(
        episode.subject, episode.since_ms, episode.until_ms, episode.fired_ms, episode.ended_ms
    )


@given(stories, timings)
def test_missing_telemetry_never_fires_and_never_resolves(story, timing):
    """Whatever is lost, at least as long as the rule asks was seen in breach before it fires, and
    something clear was seen when it is over.
    """
    measured = Measured({KEY: spans(story)})

    for each in episodes(measured, timing, edge_ms=len(story) * MINUTE):
        if each.fired_ms is None:
            continue
        breaching = [
            span
            for span in measured.spans[KEY]
            if span.level == Level.BREACH and each.since_ms <= span.start_ms < each.fired_ms
        ]
        assert sum(span.duration_ms for span in breaching) >= timing.duration_ms
        if each.ended_ms is not None:
            assert any(
                span.level == Level.CLEAR and span.start_ms == each.ended_ms
                for span in measured.spans[KEY]
            )

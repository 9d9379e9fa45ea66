"""Which time can be judged with little of what lies before it, and what was judged before stays."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fleetwatch.ledger.judgement import states
from tests.ledger import timelines
from tests.ledger.factories import BLIP, BUSY, HOUR, MINUTE, QUIET, T0, Held, Node, W, columns, row
from tests.ledger.test_invariants import as_set, cells_of, parts_of

SECOND_HOUR = T0 + HOUR


def asked(node, *, changed_ms, context_ms):
    """The hours from what changed on, with so much before them."""
    question = node.question(start=(changed_ms - T0) // HOUR)
    low = question.target[0] - context_ms
    windows = [one for one in node.windows if one.start_ms + one.length_ms > low]
    context = replace(
        question.nodes[0],
        changed_ms=changed_ms,
        holdings=[
            replace(one, spans=[span for span in one.spans if span[1] >= low])
            for one in question.nodes[0].holdings
        ],
    )
    cuts = np.union1d([low], question.cuts[question.cuts > low])
    return replace(question, windows=columns(windows), cuts=cuts, nodes=[context])


def is_enough(windows, *, changed_ms, kind="batch", context_ms=20 * MINUTE):
    node = Node(windows, holdings=[Held([(T0, T0 + 4 * HOUR)], kind=kind)])
    return states.judge_alone(asked(node, changed_ms=changed_ms, context_ms=context_ms)) != [None]


@pytest.mark.parametrize(
    ("before", "enough"),
    [
        ([(BUSY, HOUR)], True),
        # one active window suffices, and one that comes after the hour began
        ([(QUIET, HOUR - W), (BUSY, W)], True),
        ([(QUIET, HOUR - 5 * MINUTE), (BUSY, W), (QUIET, 5 * MINUTE - W)], False),
        ([(QUIET, HOUR - 5 * MINUTE), (BUSY, W), (QUIET, 5 * MINUTE), (BUSY, W)], True),
        # quiet for so long that it is idle, whatever comes
        ([(BUSY, 45 * MINUTE), (QUIET, 15 * MINUTE)], True),
        ([(BUSY, 45 * MINUTE + W), (QUIET, 15 * MINUTE - W)], False),
        # no quiet time after the blip is known yet: it may be part of the run
        ([(BUSY, 40 * MINUTE), (QUIET, 20 * MINUTE - W), (BLIP, W)], False),
        ([(BUSY, HOUR - MINUTE), (None, MINUTE)], False),
    ],
)
def test_an_hour_is_judged_without_the_ones_before_once_activity_or_idle_time_parts_them(
    before, enough
):
    windows = row(*before, (QUIET, 20 * MINUTE))
    changed_ms = SECOND_HOUR + 5 * MINUTE if before[-1][1] == W and len(before) == 4 else None

    assert is_enough(windows, changed_ms=changed_ms or SECOND_HOUR) is enough


def test_a_run_that_was_idle_before_what_was_read_is_not_known_to_be():
    windows = row((BUSY, HOUR - 50 * MINUTE), (QUIET, 70 * MINUTE))

    assert is_enough(windows, changed_ms=SECOND_HOUR, kind="interactive") is False
    assert is_enough(windows, changed_ms=SECOND_HOUR, kind="interactive", context_ms=30 * MINUTE)


@settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    timelines.nodes(),
    st.integers(HOUR // W, timelines.HOURS * HOUR // W - 1),
    st.sampled_from([0, 0, 3_337]),
    st.sampled_from([5, 10, 40]),
)
def test_what_is_judged_alone_is_as_in_the_whole_and_what_was_judged_before_stays(
    node, changed, offset_ms, context
):
    changed_ms = min(T0 + changed * W + offset_ms, node.end_ms - 1)
    question = asked(node, changed_ms=changed_ms, context_ms=context * MINUTE)

    (judged,) = states.judge_alone(question)

    if judged is not None:
        whole = states.judge(node.question(start=(changed_ms - T0) // HOUR))
        assert as_set(judged) == as_set(whole)
        assert parts_of(judged) == parts_of(whole)
        assert cells_of(judged) == cells_of(whole)
        earlier, now = (
            before(one.judge(), question.target[0]) for one in (as_was(node, changed_ms), node)
        )
        assert earlier == now


def as_was(node, at_ms):
    """The node as it was known then."""
    windows = [one for one in node.windows if one.start_ms < at_ms]
    last_ms = max([at_ms, *(one.start_ms + one.length_ms for one in windows)])

    def cut(told):
        return [
            replace(
                one, spans=[(start, min(end, at_ms)) for start, end in one.spans if start < at_ms]
            )
            for one in told
        ]

    return replace(
        node,
        windows=windows,
        holdings=cut(node.holdings),
        sources=cut(node.sources),
        capacities=[
            replace(one, start_ms=min(one.start_ms, last_ms), end_ms=min(one.end_ms, last_ms))
            for one in node.capacities
        ],
        outages={
            gpu_id: [one for one in told if one.start_ms < at_ms]
            for gpu_id, told in node.outages.items()
        },
    )


def before(judged, at_ms):
    parts = Counter({part: count for part, count in parts_of(judged).items() if part[3] < at_ms})
    return Counter(one for one in judged.entries if one.cut_ms < at_ms), parts

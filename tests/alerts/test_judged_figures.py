"""Until when the figures of an incident count, and what its length is called."""

from dataclasses import replace
from decimal import Decimal

import pytest

from fleetwatch.alerts.conditions import job_idle
from fleetwatch.alerts.messaging.messages import Case
from tests.alerts.factories import ms
from tests.alerts.test_messages import facts, in_words, opened


def test_dollars_go_on_until_it_was_judged_last_where_every_gpu_idles():
    """Two GPUs at $3.25 an hour, $21.60 until minute 210."""
    whole = job_idle.breach(facts(job_gpus=2))

    assert whole.judged_until(ms(210)) == whole
    # twelve minutes of $6.50 an hour
    assert whole.judged_until(ms(222)).cost_usd == Decimal("22.90")
    assert whole.judged_until(ms(222)).until_ms == ms(222)


def test_dollars_of_some_gpus_are_of_the_moment_at_which_they_were_known_to_idle():
    some = job_idle.breach(facts(job_gpus=3))

    assert some.judged_until(ms(222)) == some


def test_what_costs_nothing_lasts_until_it_was_judged_last():
    free = replace(job_idle.breach(facts()), has_cost=False, counted_until_ms=None)

    assert free.judged_until(ms(222)).until_ms == ms(222)


@pytest.mark.parametrize(
    ("how", "when"),
    [
        ({}, "since 09:10 UTC, judged until 12:30 UTC"),
        ({"note": "Not known since 12:30 UTC."}, "since 09:10 UTC, judged until 12:30 UTC"),
        ({"note": "It stopped being idle at 12:30 UTC"}, "09:10 UTC to 12:30 UTC"),
        ({"resolution": "the allocation ended"}, "09:10 UTC to 12:30 UTC"),
    ],
)
def test_a_length_and_its_pauses_are_called_the_same_while_it_goes_on_and_after(how, when):
    pauses = "all but 4 m: no data at 10:10 UTC for 4 m"

    fields = dict(opened(facts(pauses=pauses), **how).fields)

    assert (fields["Idle for"], fields["Idle"]) == (f"3 h 20 m, {when}", pauses)


def test_what_was_so_for_a_share_of_its_time_was_so_in_part_by_its_length():
    share = replace(
        job_idle.breach(facts()),
        word="stalled",
        lines=(("Stalled", "2.1 of 6.7 GPU-hours at work"),),
    )

    over = in_words([Case(7, share, "", "the job works again")])

    assert "· partly stalled for 3 h 20 m, cost" in over.title
    assert dict(over.fields)["Partly stalled for"] == "3 h 20 m, 09:10 UTC to 12:30 UTC"

"""What moves between lines, by hand: nothing is lost on the way."""

from decimal import Decimal

from fleetwatch.costs.mapping.mapping_effects import Move, moved

A, B, C = (("a", "A"), ("b", "B"), ("c", "C"))


def amount(ms):
    return (ms, Decimal(ms) / 100)


def test_what_one_line_loses_the_others_gain_summed_over_jobs():
    before = {1: {A: amount(100)}, 2: {A: amount(50)}, 3: {C: amount(7)}}
    after = {1: {A: amount(40), B: amount(60)}, 2: {B: amount(50)}, 3: {C: amount(7)}}

    assert moved("team", before, after) == [Move("team", A, B, 2, 110, Decimal("1.1"))]


def test_a_loss_is_split_over_several_gains_to_the_last_millisecond():
    before = {1: {A: amount(100)}}
    after = {1: {B: amount(30), C: amount(70)}}

    assert [
        (move.origin, move.target, move.gpu_ms, move.usd) for move in moved("team", before, after)
    ] == [
        (A, C, 70, Decimal("0.7")),
        (A, B, 30, Decimal("0.3")),
    ]


def test_nothing_changed_moves_nothing():
    assert moved("team", {1: {A: amount(1)}}, {1: {A: amount(1)}}) == []

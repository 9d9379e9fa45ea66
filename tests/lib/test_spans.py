from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from fleetwatch.lib.spans import clip, difference, union

some_spans = st.lists(st.tuples(st.integers(0, 30), st.integers(0, 30)), max_size=8)


def points(spans):
    return {point for lower, upper in spans for point in range(lower, upper)}


@given(some_spans, some_spans)
def test_spans_are_sets_of_points(one, other):
    assert points(union(one)) == points(one)
    assert points(difference(one, other)) == points(one) - points(other)
    assert points(clip(one, 5, 20)) == points(one) & set(range(5, 20))


@given(some_spans)
def test_a_union_is_ascending_and_disjoint(spans):
    merged = union(spans)

    assert all(before[1] < after[0] for before, after in pairwise(merged))
    assert all(lower < upper for lower, upper in merged)

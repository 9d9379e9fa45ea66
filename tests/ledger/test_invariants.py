"""The invariants of docs/ledger.md on random timelines (6, money, belongs to costs; 7 and 8 have
their halves there).
"""

import itertools
from collections import Counter, defaultdict
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fleetwatch.ledger.judgement import states
from fleetwatch.ledger.policy import CONDITIONS, KINDS, STATES, TIERS
from tests.ledger import timelines
from tests.ledger.factories import HOUR, T0, capacity, parts, totals

RUNS = settings(max_examples=30, deadline=None, suppress_health_check=list(HealthCheck))


def as_set(judged):
    return Counter(judged.entries)


def parts_of(judged):
    return Counter(
        (
            one.gpu_id,
            one.job_id,
            one.condition,
            one.start_ms,
            one.end_ms,
            one.continues,
            *sorted(one.state_ms.items()),
        )
        for one in parts(judged)
    )


def cells_of(judged):
    return list(zip(*(column.tolist() for column in judged.cells.values()), strict=True))


@RUNS
@given(timelines.nodes())
def test_1_states_sum_to_capacity_per_gpu_and_cut_exactly(node):
    question = node.question()
    parent = {one.gpu_id: one.parent_id or one.gpu_id for one in question.capacities}

    judged = node.judge()

    spent = Counter()
    for one in judged.entries:
        assert one.gpu_ms > 0
        assert one.state in STATES
        assert one.kind in ("", *KINDS)
        assert one.tier in ("", *TIERS)
        assert one.energy_j is None or one.energy_j >= 0
        spent[parent[one.gpu_id], one.cut_ms] += one.gpu_ms
    assert dict(spent) == capacity(question)


@RUNS
@given(timelines.nodes())
def test_2_every_millisecond_under_an_exclusive_hold_is_its_holders(node):
    node = replace(node, capacities=node.capacities[:1])
    held = [one for one in node.holdings if one.gpu_id == 1]
    gpu = node.capacities[0]

    judged = node.judge()

    by_job = Counter()
    for ms_start, ms_end, jobs in exclusive_spans(held, gpu.start_ms, gpu.end_ms):
        if len(jobs) == 1 and all(
            one.share is None or one.share >= 1 for one in held if one.job_id in jobs
        ):
            by_job[next(iter(jobs))] += ms_end - ms_start
    found = totals(judged, "job_id")
    for job_id, ms in by_job.items():
        assert found.get(job_id, 0) >= ms
    unheld = sum(
        end - start
        for start, end, jobs in exclusive_spans(held, gpu.start_ms, gpu.end_ms)
        if not jobs
    )
    assert found.get(None, 0) >= unheld
    if all(one.share is None for one in held):
        assert found.get(None, 0) == unheld


def exclusive_spans(held, first, last):
    edges = sorted(
        {
            first,
            last,
            *(edge for one in held for span in one.spans for edge in span if first < edge < last),
        }
    )
    for start, end in itertools.pairwise(edges):
        yield (
            start,
            end,
            {one.job_id for one in held for low, high in one.spans if low <= start < high},
        )


@settings(RUNS, max_examples=60)
@given(timelines.nodes())
def test_3_hours_judged_one_by_one_are_the_days_judged_at_once(node):
    whole = node.judge()

    entries, found = Counter(), Counter()
    for hour in range(timelines.HOURS):
        judged = node.judge(start=hour, end=hour + 1, context=timelines.CONTEXT_HOURS)
        entries += as_set(judged)
        found += parts_of(judged)

    assert entries == as_set(whole)
    assert found == parts_of(whole)


@RUNS
@given(timelines.nodes(), timelines.nodes(), st.sampled_from([None, 0, 90]))
def test_nodes_are_judged_together_as_each_alone(node, other, silent_after):
    asked = [node.question(), replace(timelines.elsewhere(other), policy=node.policy).question()]
    if silent_after is not None:
        silent_ms = T0 + silent_after * 60_000
        asked[1] = replace(asked[1], nodes=[replace(asked[1].nodes[0], silent_ms=silent_ms)])
    windows = timelines.elsewhere(other).windows
    both = replace(
        asked[0],
        windows=replace(node, windows=[*node.windows, *windows]).question().windows,
        nodes=[*asked[0].nodes, *asked[1].nodes],
    )

    for judged, alone in zip(states.judge_nodes(both), map(states.judge, asked), strict=True):
        assert as_set(judged) == as_set(alone)
        assert parts_of(judged) == parts_of(alone)
        assert cells_of(judged) == cells_of(alone)


@RUNS
@given(timelines.nodes(), timelines.nodes())
def test_gpus_of_a_node_are_judged_together_as_each_alone(node, other):
    other = replace(timelines.elsewhere(other), sources=node.sources)
    both = replace(
        node,
        windows=[*node.windows, *other.windows],
        holdings=[*node.holdings, *other.holdings],
        capacities=[*node.capacities, *other.capacities],
        outages=node.outages | other.outages,
    )

    judged, alone = both.judge(), (node.judge(), other.judge())

    assert as_set(judged) == as_set(alone[0]) + as_set(alone[1])
    assert parts_of(judged) == parts_of(alone[0]) + parts_of(alone[1])


@RUNS
@given(timelines.nodes(), st.randoms(use_true_random=False))
def test_4_order_and_repetition_change_nothing(node, random):
    assert as_set(timelines.shuffled(node, random).judge()) == as_set(node.judge())


@RUNS
@given(timelines.nodes(with_outages=False), timelines.overlaps())
def test_5_more_telemetry_never_lowers_observed_time(node, added):
    # exclusive: of what granted shares leave, a window with a process says that nobody knows whose
    # it is, and that is unobserved
    held = [
        replace(one, spans=[(T0 - 1, node.end_ms)], share=None)
        for one in node.holdings
        if one.gpu_id == 1
    ] or [timelines.Held([(T0 - 1, node.end_ms)])]
    node = replace(node, capacities=node.capacities[:1], holdings=held)
    more = replace(node, windows=[*node.windows, *added])

    assert totals(more.judge()).get("unobserved", 0) <= totals(node.judge()).get("unobserved", 0)


@RUNS
@given(timelines.nodes(), timelines.spans(), st.sampled_from([None, 0.25, 1.0]), st.integers(1, 4))
def test_5_more_allocation_never_raises_free_orphaned_and_unexplained(node, spans, share, job_id):
    more = replace(
        node, holdings=[*node.holdings, timelines.Held(spans, job_id=job_id, share=share)]
    )

    def nobodys(one):
        found = totals(one.judge(), "state", "reason")
        unexplained_ms = found.get(("unobserved", "unexplained_work"), 0)
        named = sum(ms for (state, _), ms in found.items() if state in {"free", "orphaned"})
        return named + unexplained_ms

    assert nobodys(more) <= nobodys(node)


@RUNS
@given(timelines.nodes())
def test_8_renaming_jobs_changes_no_fleet_total(node):
    renamed = replace(
        node, holdings=[replace(one, job_id=one.job_id + 100) for one in node.holdings]
    )

    assert totals(renamed.judge()) == totals(node.judge())


@RUNS
@given(timelines.nodes())
def test_runs_hold_exactly_the_milliseconds_of_the_entries(node):
    judged = node.judge()

    entries, runs = Counter(), Counter()
    for one in judged.entries:
        entries[one.gpu_id, one.job_id, one.state, one.cut_ms] += one.gpu_ms
    lanes = defaultdict(list)
    for part in parts(judged):
        cut = part.start_ms // HOUR * HOUR
        assert part.start_ms < part.end_ms <= cut + HOUR
        assert part.condition in CONDITIONS
        lanes[part.gpu_id, part.job_id].append(part)
        for state, ms in part.state_ms.items():
            runs[part.gpu_id, part.job_id, state, cut] += ms
    assert runs == entries
    for lane in lanes.values():
        lane.sort(key=lambda part: part.start_ms)
        for one, other in itertools.pairwise(lane):
            assert one.end_ms <= other.start_ms
            assert not other.continues or one.condition == other.condition


@RUNS
@given(timelines.nodes())
def test_energy_is_never_more_than_was_measured(node):
    judged = node.judge()

    measured = sum(
        one.says["energy_j"] for one in node.windows if one.gpu_id == 1 and "energy_j" in one.says
    )
    assert (
        sum(one.energy_j for one in judged.entries if one.energy_j is not None)
        <= measured * (1 + 1e-9) + 1e-6
    )


def test_the_policy_of_the_random_timelines_reaches_no_farther_than_their_context():
    assert pytest.approx(42 * 60_000, abs=60_000) == timelines.POLICY.reach_ms
    assert timelines.POLICY.reach_ms <= timelines.CONTEXT_HOURS * HOUR

"""Random timelines for property tests: gaps, overlaps, unaligned and long windows, shares, MIG,
outages, silent schedulers.
"""

from dataclasses import replace

from hypothesis import strategies as st

from fleetwatch.ledger.judgement.observations import Outage
from fleetwatch.ledger.policy import Policy
from tests.ledger.factories import (
    BLIP,
    BUSY,
    EMPTY,
    HOUR,
    MINUTE,
    NEARLY,
    QUIET,
    T0,
    Held,
    Node,
    Reported,
    W,
    Window,
    a_gpu,
    row,
)

HOURS = 4
# Short limits reach across as many windows as long ones do, in fewer of them.
POLICY = Policy(
    idle_batch_s=300,
    idle_interactive_s=600,
    idle_service_s=1200,
    grace_batch_s=300,
    grace_interactive_s=200,
    grace_service_s=600,
    blip_row_s=120,
)
CONTEXT_HOURS = 1  # POLICY.reach_ms is 42 minutes

SAYS = st.sampled_from(
    [
        QUIET, QUIET, NEARLY, BLIP, BLIP, BUSY, EMPTY, EMPTY,
        QUIET | {"util_mean": 0.4, "util_max": 1.0, "power_w": 300.0, "energy_j": 3_000.0},
        BUSY | {"spin_fraction": 0.7}, QUIET | {"power_w": 400.0}, {"memory_used_bytes": 1e9},
        BUSY | {"sm_active": 0.3, "tensor_active": 0.1}, {"util_mean": 0.0},
        EMPTY | {"process_count": 1, "live_process_count": 0},
        {"memory_used_bytes": 1e6}, {"memory_used_bytes": 1e6, "process_count": 0},
        BUSY | {"memory_used_bytes": 1e6, "power_w": 90.0},
        EMPTY | {"encoder_ratio": 0.6},
        BUSY | {"process_count": 0, "memory_used_bytes": 1e6, "sm_active": 0.0},
    ]
)  # fmt: skip
# Longest first: the simplest timeline, which Hypothesis always tries, then has a few stretches and
# not a thousand.
DURATION = st.sampled_from(
    [
        50 * MINUTE,
        21 * MINUTE,
        8 * MINUTE,
        5 * MINUTE,
        5 * MINUTE - W,
        4 * MINUTE,
        MINUTE,
        4 * W,
        3 * W,
        2 * W,
        W,
    ]
)


@st.composite
def windows(draw, gpu_id=1):
    """Windows of one GPU over the hours, some stretches missing."""
    found, at = [], T0 + draw(st.sampled_from([0, 0, 3_337, 90_000]))
    while at < T0 + HOURS * HOUR:
        duration = draw(DURATION)
        length = draw(st.sampled_from([W, W, W, MINUTE, 7_001]))
        count = max(duration // length, 1)
        if draw(st.integers(0, 5)):
            observed = draw(
                st.sampled_from([length, length, length, length // 2, length // 2 - 1, 0])
            )
            says = draw(SAYS)
            found += [
                Window(
                    at + step * length, says, gpu_id, length, observed, sequence=len(found) + step
                )
                for step in range(count)
            ]
        at += count * length
    return found


@st.composite
def overlaps(draw, gpu_id=1):
    """A second sender's windows over a part of it."""
    start = T0 + draw(st.integers(0, HOURS * HOUR - MINUTE))
    says, length = draw(SAYS), draw(st.sampled_from([W, 15_000, 300_000]))
    return row(
        (says, draw(DURATION)),
        start_ms=start,
        length_ms=length,
        gpu_id=gpu_id,
        boot_start_ms=draw(st.integers(0, 1)),
        sequence=9_999,
    )


@st.composite
def spans(draw):
    edges = sorted(draw(st.sets(st.integers(-10, HOURS * 360), min_size=2, max_size=6)))
    offset = draw(st.sampled_from([0, 0, 4_321]))
    return [
        (T0 + start * W + offset, T0 + end * W + offset)
        for start, end in zip(edges[::2], edges[1::2], strict=False)
    ]


@st.composite
def holdings(draw, gpu_id=1):
    count = draw(st.integers(0, 3))
    shares = st.sampled_from([None, None, 0.25, 0.5, 1.0])
    kinds = st.sampled_from(["batch", "batch", "interactive", "service"])
    return [
        Held(draw(spans()), gpu_id, job_id=number + 1, kind=draw(kinds), share=draw(shares))
        for number in range(count)
    ]


@st.composite
def outages(draw):
    found = draw(
        st.lists(st.tuples(spans(), st.sampled_from(["gpu_lost", "drained", "xid_79"])), max_size=1)
    )
    return [Outage(start, end, reason) for several, reason in found for start, end in several]


@st.composite
def nodes(draw, with_outages=True):
    """A node of one GPU, or of one with two MIG instances."""
    last = T0 + HOURS * HOUR - draw(st.sampled_from([0, 0, 25_000, 40 * MINUTE]))
    gpu_ids = draw(st.sampled_from([[1], [1], [1], [1, 10, 11]]))
    found, held = [], []
    for gpu_id in gpu_ids:
        found += draw(windows(gpu_id)) + draw(st.one_of(st.just([]), overlaps(gpu_id)))
        held += draw(holdings(gpu_id))
    found = [one for one in found if one.start_ms + one.length_ms <= last]
    first = T0 + draw(st.sampled_from([0, 12_345, HOUR]))
    capacities = [a_gpu(start_ms=first, end_ms=last, is_live=draw(st.booleans()))]
    for gpu_id, weight in zip(gpu_ids[1:], (0.25, 0.4), strict=False):
        begins = first + draw(st.integers(0, 2)) * HOUR
        capacities.append(
            a_gpu(
                gpu_id,
                start_ms=begins,
                end_ms=last,
                parent_id=1,
                weight=weight,
                idle_w=None,
                limit_w=None,
            )
        )
    sources = [Reported(draw(spans()), ok=draw(st.booleans())), Reported([(T0, last)])]
    return Node(
        found,
        hours=HOURS,
        holdings=held,
        sources=sources[: draw(st.integers(0, 2))],
        capacities=capacities,
        outages={1: draw(outages())} if with_outages else {},
        policy=POLICY,
        end_ms=last,
    )


def shuffled(node, random):
    """The same facts in another order, some of them twice."""
    again = [*node.windows, *random.sample(list(node.windows), len(node.windows) // 3)]
    random.shuffle(again)
    unique = list(
        {
            (one.gpu_id, one.start_ms, one.boot_start_ms, one.sequence, one.length_ms): one
            for one in again
        }.values()
    )
    held, sources, capacities = list(node.holdings), list(node.sources), list(node.capacities)
    for several in (held, sources, capacities):
        random.shuffle(several)
    return replace(
        node, windows=unique, holdings=[*held, *held[:1]], sources=sources, capacities=capacities
    )


def elsewhere(node, by=100):
    """The same facts of GPUs with other ids."""
    return replace(
        node,
        windows=[replace(one, gpu_id=one.gpu_id + by) for one in node.windows],
        holdings=[replace(one, gpu_id=one.gpu_id + by) for one in node.holdings],
        capacities=[
            replace(one, gpu_id=one.gpu_id + by, parent_id=one.parent_id and one.parent_id + by)
            for one in node.capacities
        ],
        outages={gpu_id + by: told for gpu_id, told in node.outages.items()},
    )

"""A span of history is the formulas of a live agent's readings, given arrays for numbers."""

import numpy as np
import pytest

from agent.sources.simulated.archetypes import ARCHETYPES
from agent.sources.simulated.card import shown, utilisation
from agent.sources.simulated.hardware import HARDWARE
from agent.sources.simulated.schedule import SimulatedJob
from agent.sources.simulated.signal import Signal
from fleetwatch.demo.signals import Part, Span, Track

START_S = 1_794_009_600 - 300  # the span passes an hour's edge, where bursts are drawn anew
H100 = HARDWARE["H100"]
SPAN = Span(START_S, 600, 10)


def _part(archetype, *, age_s=0) -> Part:
    start_ms = (START_S - age_s) * 1000 + 350
    job = SimulatedJob(
        7, "sim", "job", "ann", "lab", archetype, (0, 1), start_ms, start_ms + 90_000_000, "7/7"
    )
    return Part(job, job.start_ms, job.end_ms)


@pytest.mark.parametrize("age_s", [0, 20_000])
@pytest.mark.parametrize("archetype", ARCHETYPES, ids=lambda archetype: archetype.name)
def test_each_reading_of_a_span_is_that_of_a_live_agent(archetype, age_s):
    part = _part(archetype, age_s=age_s)
    track, signal = Track(part, SPAN), Signal(part.job)

    for role in {signal.role(gpu) for gpu in part.job.gpus}:
        columns = track.shown(H100, role)
        for place in range(0, track.count, 7):
            at_s = float(track.at_s[place])
            shares = signal.shares(at_s - 1.0, at_s)
            live = shown(H100, signal, role, shares, start_s=at_s - 1.0, end_s=at_s)
            for name, value in live.items():
                array = np.broadcast_to(columns[name], track.count)
                assert array[place] == pytest.approx(value, rel=1e-6, abs=1e-6), name


@pytest.mark.parametrize("archetype", ARCHETYPES, ids=lambda archetype: archetype.name)
def test_each_sample_of_a_span_is_that_of_a_live_agent(archetype):
    part = _part(archetype, age_s=20_000)
    track, signal = Track(part, SPAN), Signal(part.job)
    first = round(track.at_s[0] - 1.0) * 6 + 1

    samples = np.broadcast_to(track.utilisation("busy"), track.count * 6)

    for place in range(0, len(samples), 31):
        number = first + place
        shares = signal.shares((number - 1) / 6, number / 6)
        live = utilisation(signal, "busy", shares, number)
        assert samples[place] == pytest.approx(live, abs=1e-5)

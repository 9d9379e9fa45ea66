"""Hours of cells as bytes: what was read comes back, what nobody read takes no room."""

import numpy as np
import pytest

from fleetwatch.diagnosis.judgement.cell_figures import NAMES
from fleetwatch.diagnosis.judgement.packing import FORMAT, Hour, pack, unpack
from fleetwatch.telemetry.directory import decompress

TOLD = tuple(range(12))


def an_hour(**figures: list[list[float]]) -> Hour:
    """What is not given was not read."""
    shape = np.shape(next(iter(figures.values())))
    unread = np.full(shape, np.nan)
    known = np.array([figures.get(name, unread) for name in NAMES], dtype=np.float32)
    return Hour(np.arange(7, 7 + shape[0]), known, TOLD)


def test_what_was_read_comes_back():
    hour = an_hour(
        util_mean=[[0.5, np.nan], [1.0, 0.25]], power_w=[[100.0, 200.0], [300.0, np.nan]]
    )

    found = unpack(pack(hour))

    assert (found.gpu_ids.tolist(), found.digests) == ([7, 8], TOLD)
    np.testing.assert_array_equal(found.figures, hour.figures)
    np.testing.assert_array_equal(found.of("power_w"), [[100.0, 200.0], [300.0, np.nan]])


def test_what_nobody_read_is_left_out():
    packed = decompress(pack(an_hour(util_mean=[[0.5]], sm_active=[[np.nan]]))[len(FORMAT) :])

    assert (b"util_mean" in packed, b"sm_active" in packed) == (True, False)


def test_an_hour_without_gpus_comes_back_empty():
    found = unpack(
        pack(
            Hour(
                np.zeros(0, dtype=np.int64),
                np.zeros((len(NAMES), 0, 12), dtype=np.float32),
                TOLD,
            )
        )
    )

    assert (found.gpu_ids.tolist(), found.figures.shape) == ([], (len(NAMES), 0, 12))


@pytest.mark.parametrize(
    "payload", [b"", b"C2", b"C2" + pack(an_hour(util_mean=[[0.5]]))[len(FORMAT) :]]
)
def test_bytes_of_another_format_are_no_hour(payload):
    assert unpack(payload) is None

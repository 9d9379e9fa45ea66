"""Hours of cells as bytes: what was read comes back, what nobody read takes no room."""

import numpy as np
import pytest

from fleetwatch.diagnosis.judgement.packing import FORMAT, Hour, pack, unpack

TOLD = tuple(range(12))


def an_hour(**figures: list[list[float]]) -> Hour:
    known = np.array(list(figures.values()), dtype=np.float32)
    return Hour(np.arange(7, 7 + known.shape[1]), tuple(figures), known, TOLD)


def test_what_was_read_comes_back():
    hour = an_hour(
        util_mean=[[0.5, np.nan], [1.0, 0.25]], power_w=[[100.0, 200.0], [300.0, np.nan]]
    )

    found = unpack(pack(hour))

    assert (found.gpu_ids.tolist(), found.names, found.digests) == (
        [7, 8],
        ("util_mean", "power_w"),
        TOLD,
    )
    np.testing.assert_array_equal(found.figures, hour.figures)


def test_what_nobody_read_is_left_out():
    found = unpack(pack(an_hour(util_mean=[[0.5]], sm_active=[[np.nan]])))

    assert (found.names, found.figures.tolist()) == (("util_mean",), [[[0.5]]])


def test_an_hour_without_gpus_comes_back_empty():
    found = unpack(
        pack(
            Hour(
                np.zeros(0, dtype=np.int64),
                ("util_mean",),
                np.zeros((1, 0, 12), dtype=np.float32),
                TOLD,
            )
        )
    )

    assert found.gpu_ids.tolist() == []


@pytest.mark.parametrize(
    "payload", [b"", b"C2", b"C2" + pack(an_hour(util_mean=[[0.5]]))[len(FORMAT) :]]
)
def test_bytes_of_another_format_are_no_hour(payload):
    assert unpack(payload) is None

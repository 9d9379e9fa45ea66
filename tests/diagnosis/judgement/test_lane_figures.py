"""Figures of lanes: what is asked for is laid out, as it was kept."""

import numpy as np
import pytest

from fleetwatch.diagnosis.judgement.lane_figures import NOWHERE, Figures, of

NAN = float("nan")


def two_lanes() -> Figures:
    """Of two lanes and three cells."""
    return of({"util": np.array([[0.1, 0.2, 0.3], [0.4, NAN, 0.6]])})


def test_arrays_come_back_as_they_were():
    assert np.array_equal(two_lanes()["util"], [[0.1, 0.2, 0.3], [0.4, NAN, 0.6]], equal_nan=True)


def test_other_lanes_and_cells_by_their_places():
    taken = two_lanes().at(np.array([[1], [0]]), np.array([[0, 2], [0, 1]]))

    assert taken["util"].tolist() == [[0.4, 0.6], [0.1, 0.2]]


def test_cells_from_one_on_and_cells_as_if_they_had_not_been_read():
    later = two_lanes().since(1).without(np.array([[True, False], [False, False]]))

    assert np.array_equal(later["util"], [[NAN, 0.3], [NAN, 0.6]], equal_nan=True)


def test_what_is_kept_in_single_precision_is_that_number_in_double():
    kept = np.array([[0.1, NAN]], dtype=np.float32)
    found = Figures(kept, {"util": 0, "power": None, "sm": None}, np.array([[0, NOWHERE]]))

    assert found["util"].dtype == np.float64
    assert np.array_equal(found["util"], [[float(np.float32(0.1)), NAN]], equal_nan=True)
    assert np.isnan(found["power"]).all()
    assert found["power"] is found["sm"]  # nobody read either: one array


def test_a_name_that_is_no_figure_raises():
    with pytest.raises(KeyError):
        two_lanes()["power"]

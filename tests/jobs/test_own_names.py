"""Which users of jobs a person may be, by how he is called here."""

import pytest

from fleetwatch.jobs.own_names import alike

NAMES = ["amara", "doe", "jane", "jane.doe", "jdoe", "jo", "priya2", "root"]


@pytest.mark.parametrize(
    ("called", "fits"),
    [
        (["jane.doe"], ["jane.doe", "jdoe", "doe", "jane"]),
        (["Jane Doe"], ["jane.doe", "jdoe", "doe", "jane"]),
        (["priya"], ["priya2"]),
        (["admin", "amara"], ["amara"]),
        (["jo.x"], []),  # too short to say who somebody is
        (["admin"], []),
        (["", "-"], []),
    ],
)
def test_names_that_fit_are_told_the_nearest_first(called, fits):
    assert alike(NAMES, called) == fits

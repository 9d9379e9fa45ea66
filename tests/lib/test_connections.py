"""What every connection to the database is set to."""

import pytest

from fleetwatch.lib.sql import execute

pytestmark = pytest.mark.django_db


def test_no_plan_is_compiled_for_one_execution():
    assert execute("SHOW jit") == [("off",)]
